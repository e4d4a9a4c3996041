//! What a process that panics says: its rank, once, and to its peers why.

use std::cell::RefCell;
use std::io::Write;
use std::panic::PanicHookInfo;
use std::sync::{Once, OnceLock};

use crate::settings::Key;

/// Has panics remembered, once in a process; in a job the hook prints them itself, with the
/// rank that the process has in the job, whichever nodes are in it.
pub(super) fn install(job: bool) {
    static ONCE: Once = Once::new();
    if job {
        JOB.get_or_init(|| std::env::var(Key::Rank.variable()).ok());
    }
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            LAST.set(Some(message(info)));
            JOB.get().map_or_else(|| before(info), |rank| print(rank.as_deref(), info));
        }));
    });
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

fn print(rank: Option<&str>, info: &PanicHookInfo<'_>) {
    let who = rank.map(|rank| format!("rank {rank} ")).unwrap_or_default();
    let place = info.location().map(|at| format!(" at {at}")).unwrap_or_default();
    let said = message(info);
    let trace = std::backtrace::Backtrace::capture();
    let traced = trace.status() == std::backtrace::BacktraceStatus::Captured;
    let trace = if traced { format!("\n{trace}") } else { String::new() };
    let line = format!("{who}panicked{place}: {said}{trace}\n");
    _ = std::io::stderr().lock().write_all(line.as_bytes());
}

thread_local! {
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The rank of this process in its job, if it is part of one.
static JOB: OnceLock<Option<String>> = OnceLock::new();
