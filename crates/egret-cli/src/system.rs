//! Small things that the commands ask of the system.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};

/// Says something on stderr, as a line of its own.
pub(crate) fn tell(what: &str) {
    let _ = io::stderr().write_all(line(what).as_bytes());
}

/// How egret itself speaks.
pub(crate) fn line(what: &str) -> String {
    format!("egret: {what}\n")
}

/// The file this process runs, by its name if it is still there.
pub(crate) fn own_program() -> PathBuf {
    let by_name = std::env::current_exe().ok().filter(|path| path.exists());
    by_name.unwrap_or_else(|| "/proc/self/exe".into())
}

/// Waits until one of `fds` is ready, at most `time`; says whether one is.
pub(crate) fn wait_for(fds: &mut [PollFd<'_>], time: Option<Duration>) -> bool {
    // An interruption is as good as a wake-up without reason.
    let time = time.map(|time| Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    poll(fds, time.as_ref()).is_ok_and(|ready| ready > 0)
}

/// A value as a shell reads it.
pub(crate) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
