//! The report of a panic: printed once, with the rank and the remote call; and its message, for peers.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::RefCell;
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::{Once, OnceLock};

use crate::settings::SettingKey;

/// Has panics remembered, once in a process; in a job the hook prints them itself, with the
/// rank that the process has in the job, whichever nodes are in it.
pub(super) fn install(job: bool) {
    static ONCE: Once = Once::new();
    if job {
        JOB.get_or_init(|| std::env::var(SettingKey::Rank.variable()).ok());
    }
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            LAST.set(Some(message(info)));
            let call = DESCRIBE.get().and_then(|describe| describe());
            match (JOB.get(), call) {
                (None, None) => before(info),
                (job, call) => print(job.and_then(Option::as_deref), call.as_deref(), info),
            }
        }));
    });
}

/// Has `describe` asked when a thread panics: it says what remote call the thread runs, if it runs one.
pub fn describe_panics(describe: fn() -> Option<String>) {
    DESCRIBE.get_or_init(|| describe);
}

/// The message of the calling thread's last panic.
pub(super) fn last() -> Option<String> {
    LAST.take()
}

fn message(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let said = payload.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| payload.downcast_ref::<&str>().copied());
    said.unwrap_or("(no message)").to_owned()
}

/// Prints a panic as one text: of which rank, in which remote call, where, and with what message. A call
/// has a short backtrace, unless `RUST_BACKTRACE` is 0; any other panic has one if that asks for it.
fn print(rank: Option<&str>, call: Option<&str>, info: &PanicHookInfo<'_>) {
    let mut who: Vec<String> = rank.map(|rank| format!("rank {rank}")).into_iter().collect();
    who.extend(call.map(str::to_owned));
    let who = if who.is_empty() { String::new() } else { who.join(", ") + " " };
    let place = info.location().map(|at| format!(" at {at}")).unwrap_or_default();
    let said = message(info);
    let wanted = std::env::var("RUST_BACKTRACE").ok();
    let trace = match wanted.as_deref() {
        None if call.is_some() => Backtrace::force_capture(),
        _ => Backtrace::capture(),
    };
    let trace = match (trace.status(), wanted.as_deref()) {
        (BacktraceStatus::Captured, Some("full")) => format!("\n{trace}"),
        (BacktraceStatus::Captured, _) => format!("\n{}", short(&trace.to_string())),
        _ => String::new(),
    };
    let line = format!("{who}panicked{place}: {said}{trace}\n");
    _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// The frames of a backtrace between the standard library's marks: the code that panicked, and what called
/// it, without what handles the panic and what starts threads and calls. All of them if there are no marks.
fn short(trace: &str) -> String {
    let lines: Vec<&str> = trace.lines().collect();
    let begins = lines.iter().rposition(|line| line.contains("__rust_end_short_backtrace"));
    // Behind that frame and its place in the source.
    let begins = begins.map_or(0, |at| {
        let is_place = lines.get(at + 1).is_some_and(|line| line.trim_start().starts_with("at "));
        at + 1 + usize::from(is_place)
    });
    let ends =
        lines[begins..].iter().position(|line| line.contains("__rust_begin_short_backtrace"));
    let ends = ends.map_or(lines.len(), |ends| begins + ends);
    lines[begins..ends].join("\n")
}

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The rank of this process in its job, if it is part of one.
static JOB: OnceLock<Option<String>> = OnceLock::new();

/// What says which remote call a thread runs.
static DESCRIBE: OnceLock<fn() -> Option<String>> = OnceLock::new();

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn a_short_backtrace_lies_between_the_marks() {
        let trace = "   0: std::panicking::hook\n             at /std.rs:1\n   \
            1: std::sys::backtrace::__rust_end_short_backtrace\n             at /std.rs:2\n   \
            2: core::panicking::panic_fmt\n   3: program::fails\n             at ./program.rs:7\n   \
            4: egret::rmi::__rust_begin_short_backtrace\n   5: egret::rmi::attempt";
        let kept = "   2: core::panicking::panic_fmt\n   3: program::fails\n             at ./program.rs:7";
        assert_eq!(short(trace), kept);
        assert_eq!(short("   0: all\n   1: of it"), "   0: all\n   1: of it");
    }
}
