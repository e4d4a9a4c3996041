//! How a process ended, and the names of signals.

use std::fmt;

use rustix::process::{Signal, WaitStatus};
use serde::{Deserialize, Serialize};

use super::signals::ends;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Status {
    Code(u8),
    Signal(i32),
    /// Its machine is out of reach, and ends it.
    Lost,
}

impl Status {
    /// Of a process that is no more.
    pub(crate) fn of(status: WaitStatus) -> Self {
        match status.exit_status() {
            Some(code) => Self::Code(u8::try_from(code).unwrap_or(u8::MAX)),
            None => Self::Signal(status.terminating_signal().unwrap_or_default()),
        }
    }

    /// As a shell tells it.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => signalled(number),
            Self::Lost => signalled(Signal::KILL.as_raw()),
        }
    }

    /// Whether a signal ended it that asks processes to end.
    pub(crate) fn is_asked(self) -> bool {
        let Self::Signal(number) = self else { return false };
        Signal::from_named_raw(number).is_some_and(ends)
    }

    pub(crate) fn is_failure(self) -> bool {
        self != Self::Code(0)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(number) => write!(f, "was ended by {}", SignalName(*number)),
            Self::Lost => f.write_str("was lost with its machine"),
        }
    }
}

/// The exit code that says: ended by signal `number`.
pub(crate) fn signalled(number: i32) -> u8 {
    u8::try_from(128 + number).unwrap_or(u8::MAX)
}

/// A signal as people know it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SignalName(pub(crate) i32);

impl fmt::Display for SignalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(signal, _)| signal.as_raw() == self.0);
        match name {
            Some((_, name)) => write!(f, "signal {} ({name})", self.0),
            None => write!(f, "signal {}", self.0),
        }
    }
}

const NAMES: [(Signal, &str); 15] = [
    (Signal::HUP, "HUP"),
    (Signal::INT, "INT"),
    (Signal::QUIT, "QUIT"),
    (Signal::ILL, "ILL"),
    (Signal::TRAP, "TRAP"),
    (Signal::ABORT, "ABRT"),
    (Signal::BUS, "BUS"),
    (Signal::FPE, "FPE"),
    (Signal::KILL, "KILL"),
    (Signal::USR1, "USR1"),
    (Signal::SEGV, "SEGV"),
    (Signal::USR2, "USR2"),
    (Signal::PIPE, "PIPE"),
    (Signal::ALARM, "ALRM"),
    (Signal::TERM, "TERM"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_follows_the_shell() {
        assert_eq!(Status::Code(3).to_string(), "exited with code 3");
        assert_eq!(Status::Signal(9).to_string(), "was ended by signal 9 (KILL)");
        assert_eq!(Status::Signal(40).to_string(), "was ended by signal 40");
        assert_eq!(Status::Lost.to_string(), "was lost with its machine");
        let all = [Status::Code(3), Status::Signal(11), Status::Lost];
        assert_eq!(all.map(Status::code), [3, 139, 137]);
    }
}
