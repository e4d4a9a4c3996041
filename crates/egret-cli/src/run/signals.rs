//! Signals as something to read.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{SigSet, Signal as Number};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::Signal;

/// The signals of this process from now on, instead of what they would do.
#[derive(Debug)]
pub(crate) struct Signals {
    fd: SignalFd,
}

impl Signals {
    /// Blocks them for this thread and those it starts; to be called before there is
    /// another. What the process was started to ignore (`nohup`) it goes on ignoring.
    pub(crate) fn block() -> Result<Self> {
        let ignored = ignored();
        if ignored & bit(Number::SIGCHLD) != 0 {
            bail!("started with SIGCHLD ignored, so that the kernel keeps no exit codes");
        }
        let mut set = SigSet::empty();
        for signal in WATCHED.into_iter().filter(|signal| ignored & bit(*signal) == 0) {
            set.add(signal);
        }
        set.thread_block().context("blocking signals")?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self { fd: SignalFd::with_flags(&set, flags).context("asking for signals")? })
    }

    /// The next that has come.
    pub(crate) fn try_next(&self) -> Option<ReceivedSignal> {
        while let Ok(Some(told)) = self.fd.read_signal() {
            let number = i32::try_from(told.ssi_signo).unwrap_or_default();
            if let Some(signal) = Signal::from_named_raw(number) {
                return Some(ReceivedSignal { signal, by_terminal: told.ssi_code == SI_KERNEL });
            }
        }
        None
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A signal that has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceivedSignal {
    pub(crate) signal: Signal,
    /// The whole foreground got it.
    pub(crate) by_terminal: bool,
}

/// Lets signals do again what they do.
pub(crate) fn unblock() -> Result<()> {
    let set: SigSet = WATCHED.into_iter().collect();
    set.thread_unblock().context("letting signals through")
}

/// The signals that end a job.
pub(crate) fn ends(signal: Signal) -> bool {
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal)
}

/// What this process was started to ignore, a bit for each signal.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

fn bit(signal: Number) -> u64 {
    1 << (signal as u32 - 1)
}

const WATCHED: [Number; 9] = [
    Number::SIGCHLD,
    Number::SIGINT,
    Number::SIGTERM,
    Number::SIGHUP,
    Number::SIGQUIT,
    Number::SIGUSR1,
    Number::SIGUSR2,
    Number::SIGTSTP,
    Number::SIGCONT,
];

/// How the kernel marks what a key of a terminal sent.
const SI_KERNEL: i32 = 0x80;
