//! The process that was started by hand: passes signals on, and survives the launcher.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use egret::node::settings::leave_secret;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
};

use super::args::Job;
use super::descendants::{self, Reaped, Strangers};
use super::environment;
use super::launcher;
use super::signals::Signals;
use super::status::Status;
use super::terminal::{self, Terminal};
use crate::system::{own_program, tell, wait_for};

/// Starts the launcher of `job`, waits for its end, and leaves nothing behind.
pub(crate) fn watch(job: &Job) -> Result<u8> {
    let signals = Signals::block()?;
    if job.options.registry.is_none() {
        // If this is a process of an outer job: the secret of that one is not for this one.
        leave_secret();
    }
    let strangers = Strangers::found()?;
    descendants::adopt()?;
    let (terminal, stdin) = Terminal::open()?;
    let name = environment::job_name();
    let (pid, launcher) = start(job, &name, stdin).context("starting the launcher")?;
    if !terminal.is_used() {
        terminal::leave_stdin();
    }
    let status = Guard { pid, launcher, signals, terminal: Some(terminal) }.wait();
    let left = descendants::end_all(&strangers, &environment::mark(&name));
    match status {
        Status::Code(code) => {
            if !left.is_empty() {
                let named = left.iter().map(|kin| format!("{} ({})", kin.pid, kin.name()));
                tell(&format!("could not end {}", named.collect::<Vec<_>>().join(", ")));
            }
            Ok(code)
        }
        Status::Signal(_) | Status::Lost => {
            tell(&format!("the launcher {status}; the job is ended"));
            Ok(status.code())
        }
    }
}

/// The launcher of an outpost, of which this process is the guard.
pub(super) struct OutpostLauncher {
    guard: Guard,
    strangers: Strangers,
}

impl OutpostLauncher {
    /// Starts it with the standard streams of this process.
    pub(super) fn start(mut command: Command, signals: Signals) -> Result<Self> {
        let strangers = Strangers::found()?;
        descendants::adopt()?;
        let (pid, launcher) = held(&command.spawn().context("starting the launcher")?)?;
        Ok(Self { guard: Guard { pid, launcher, signals, terminal: None }, strangers })
    }

    /// Waits for its end, and leaves nothing behind.
    pub(super) fn wait(self, mark: &str) -> Status {
        let status = self.guard.wait();
        descendants::end_all(&self.strangers, mark);
        status
    }
}

fn start(job: &Job, name: &str, stdin: Stdio) -> Result<(Pid, OwnedFd)> {
    let mut args: Vec<OsString> = launcher::to_args(getpid().as_raw_pid(), name);
    args.extend(job.to_args());
    let mut command = Command::new(own_program());
    if job.options.registry.is_none() {
        environment::without_secret(&mut command);
    }
    held(&command.args(args).stdin(stdin).spawn()?)
}

/// A child by its number and by a descriptor.
fn held(child: &Child) -> Result<(Pid, OwnedFd)> {
    let pid = Pid::from_raw(i32::try_from(child.id())?).context("a process without number")?;
    // It has not been waited for, so the number is its own.
    Ok((pid, pidfd_open(pid, PidfdFlags::empty())?))
}

#[derive(Debug)]
struct Guard {
    /// By which its end is told.
    pid: Pid,
    launcher: OwnedFd,
    signals: Signals,
    /// Unless this is the guard of an outpost.
    terminal: Option<Terminal>,
}

impl Guard {
    /// Passes on what comes until the launcher ends.
    fn wait(mut self) -> Status {
        loop {
            while let Some(told) = self.signals.try_next() {
                self.pass(told.signal);
            }
            loop {
                match descendants::reap() {
                    Reaped::Child(pid, status) if pid == self.pid => return status,
                    Reaped::Child(..) => (),
                    Reaped::None => break,
                    Reaped::Alone => return Status::Code(1),
                }
            }
            self.sleep();
        }
    }

    fn pass(&self, signal: Signal) {
        if signal == Signal::CHILD {
            return;
        }
        let _ = pidfd_send_signal(&self.launcher, signal);
        if signal == Signal::TSTP {
            // As the shell expects of what it stops; the processes stop on their own.
            let _ = kill_process(getpid(), Signal::STOP);
        }
    }

    fn sleep(&mut self) {
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let terminal = self.terminal.as_ref();
        fds.extend(terminal.and_then(Terminal::watched));
        let is_held_back = terminal.is_some_and(Terminal::is_held_back);
        let look_again = is_held_back.then_some(LOOK_AGAIN);
        let ready = wait_for(&mut fds, look_again);
        let typed = fds.get(1).is_some_and(|fd| !fd.revents().is_empty());
        if let Some(terminal) = self.terminal.as_mut().filter(|_| ready && typed) {
            terminal.step();
        }
    }
}

/// How often to look whether the terminal is ours again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
