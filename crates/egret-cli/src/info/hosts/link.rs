//! A machine that is asked: a command that reaches it, and what it says before a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use egret::rt::{self, Instant};
use rustix::event::{PollFd, PollFlags};
use rustix::io::ioctl_fionbio;
use rustix::process::getpid;
use serde::Serialize;

use super::message::{GREETING, InfoAnswer, InfoOrder, MESSAGE_MAX};
use crate::run::{Frame, Transport, child_args};
use crate::system::wait_for;

/// Why a machine does not answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Unreached {
    pub(super) why: String,
    /// What the command that reaches it has written to its standard error.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) said: String,
    /// How that command has ended, if it has by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<i32>,
    /// A command by which a person sees whether the machine is reached.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) command: String,
}

/// A command that reaches a machine.
#[derive(Debug)]
pub(super) struct HostCommand {
    command: Command,
    name: String,
    trial: String,
}

impl HostCommand {
    /// This machine, whose processes are to have this limit of open files if it is another than that of this one.
    pub(super) fn here(egret: &Path, files: Option<u64>) -> Self {
        let mut command = Command::new(egret);
        command
            .args(child_args(getpid().as_raw_pid(), None, files, None))
            .arg(egret)
            .arg(INFO_HOST);
        // It is not reached by any connection.
        command.env_remove("SSH_CONNECTION").env_remove("SLURM_LAUNCH_NODE_IPADDR");
        Self { command, name: "egret".to_owned(), trial: "egret info".to_owned() }
    }

    /// Another machine.
    pub(super) fn there(transport: &Transport, host: &str, egret: &Path) -> Result<Self> {
        let command = transport.command(host, egret, &[INFO_HOST.to_owned()])?;
        Ok(Self { command, name: transport.name(), trial: transport.trial(host) })
    }
}

/// A machine that is asked. The command that reaches it ends with this value, and with the thread that started it.
#[derive(Debug)]
pub(super) struct HostLink {
    child: Child,
    /// What the command is called.
    name: String,
    trial: String,
    to: Option<ChildStdin>,
    from: TimedInput<ChildStdout>,
    /// Whether it has greeted.
    is_known: bool,
}

impl Unreached {
    /// The command could not be started.
    pub(super) fn unstarted(why: String) -> Self {
        Self { why, ..Self::default() }
    }
}

impl HostLink {
    pub(super) fn start(mut command: HostCommand) -> Result<Self> {
        let child = command.command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.stderr(Stdio::piped()).spawn()?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (to, from) = to.zip(from).context("it has pipes")?;
        ioctl_fionbio(&to, true)?;
        let beside = child.stderr.take().context("it has pipes")?;
        ioctl_fionbio(&beside, true)?;
        let from = TimedInput { beside: Some(OtherOutput::new(beside)), ..TimedInput::new(from) };
        Ok(Self {
            child,
            name: command.name,
            trial: command.trial,
            to: Some(to),
            from,
            is_known: false,
        })
    }

    /// Asks, and gives what `wanted` finds in the answer.
    pub(super) fn ask<T>(
        &mut self,
        order: &InfoOrder,
        within: Duration,
        wanted: impl FnOnce(InfoAnswer) -> Option<T>,
    ) -> Result<T, Unreached> {
        self.from.set_deadline(within);
        let answer = self.give(order).and_then(|()| self.answer());
        match answer.map(|answer| answer.map(wanted)) {
            Ok(Some(Some(answer))) => Ok(answer),
            Ok(Some(None)) => Err(self.unreached("it answered something else")),
            Ok(None) if self.is_known => Err(self.unreached("the connection with it has ended")),
            Ok(None) => {
                let why = format!("{} ended before `egret {INFO_HOST}` said anything", self.name);
                Err(self.unreached(&why))
            }
            Err(why) if why.kind() == ErrorKind::TimedOut => {
                Err(self.unreached(&format!("it did not answer within {} s", within.as_secs())))
            }
            Err(why) => Err(self.unreached(&why.to_string())),
        }
    }

    fn give(&mut self, order: &InfoOrder) -> io::Result<()> {
        let frame = Frame::said(order)?;
        let Some(to) = &mut self.to else { return Ok(()) };
        let mut left = &frame[..];
        while !left.is_empty() {
            match to.write(left) {
                Ok(written) => left = &left[written..],
                Err(why) if why.kind() == ErrorKind::WouldBlock => {
                    self.from.wait(Some(&PollFd::new(to, PollFlags::OUT)))?;
                }
                // Why it does not read any more shows in what it says.
                Err(why) if why.kind() == ErrorKind::BrokenPipe => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    fn answer(&mut self) -> io::Result<Option<InfoAnswer>> {
        if !self.is_known {
            let mut greeting = Vec::new();
            while greeting.len() < GREETING.len() {
                let mut byte = [0];
                match self.from.read(&mut byte)? {
                    0 => break,
                    _ => greeting.push(byte[0]),
                }
            }
            if greeting.is_empty() {
                return Ok(None);
            }
            if greeting != GREETING {
                let said = String::from_utf8_lossy(&greeting);
                return Err(io::Error::other(format!(
                    "it began with {said:?} instead of the greeting of egret"
                )));
            }
            self.is_known = true;
        }
        match Frame::read(&mut self.from, MESSAGE_MAX)? {
            Some(Frame::Said(answer)) => Ok(Some(answer)),
            Some(Frame::Bytes(..)) => {
                Err(io::Error::other("it said bytes where an answer was due"))
            }
            None => Ok(None),
        }
    }

    /// Ends the command, and says why the machine does not answer.
    fn unreached(&mut self, why: &str) -> Unreached {
        let code = self.end();
        let said = self.from.beside.take().map(OtherOutput::said).unwrap_or_default();
        Unreached { why: why.to_owned(), said, code, command: self.trial.clone() }
    }

    /// Asks nothing any more, waits a little for the command to end by itself, and ends it; its exit code.
    pub(super) fn end(&mut self) -> Option<i32> {
        self.to = None;
        let until = rt::now() + END_WITHIN;
        while rt::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            // What it still writes is not to keep it from its end.
            self.from.set_deadline(LOOK_AGAIN);
            if let Ok(0) = self.from.read(&mut [0; 1024]) {
                rt::sleep(LOOK_AGAIN);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        None
    }
}

impl Drop for HostLink {
    fn drop(&mut self) {
        self.end();
    }
}

/// Input that is waited for until a deadline; what comes beside it is kept meanwhile.
#[derive(Debug)]
pub(super) struct TimedInput<R> {
    from: R,
    beside: Option<OtherOutput>,
    until: Instant,
}

impl<R: Read + AsFd> TimedInput<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, beside: None, until: rt::now() }
    }

    pub(super) fn set_deadline(&mut self, within: Duration) {
        self.until = rt::now() + within;
    }

    /// Waits for the input, or for `instead`.
    fn wait(&mut self, instead: Option<&PollFd<'_>>) -> io::Result<()> {
        loop {
            let left = self.until - rt::now();
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            let input = PollFd::new(&self.from, PollFlags::IN);
            let input = instead.cloned().unwrap_or(input);
            let mut fds = vec![input];
            fds.extend(self.beside.iter().filter_map(OtherOutput::poll));
            wait_for(&mut fds, Some(left));
            let is_ready = !fds[0].revents().is_empty();
            drop(fds);
            if let Some(beside) = &mut self.beside {
                beside.take();
            }
            if is_ready {
                return Ok(());
            }
        }
    }
}

impl<R: Read + AsFd> Read for TimedInput<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.wait(None)?;
        self.from.read(bytes)
    }
}

/// The standard error of a command, of which the end is kept.
#[derive(Debug)]
struct OtherOutput {
    from: Option<ChildStderr>,
    kept: Vec<u8>,
}

impl OtherOutput {
    fn new(from: ChildStderr) -> Self {
        Self { from: Some(from), kept: Vec::new() }
    }

    fn poll(&self) -> Option<PollFd<'_>> {
        self.from.as_ref().map(|from| PollFd::new(from, PollFlags::IN))
    }

    /// Takes what is there.
    fn take(&mut self) {
        let mut piece = [0; 1024];
        while let Some(from) = &mut self.from {
            match from.read(&mut piece) {
                Ok(0) => self.from = None,
                Ok(count) => {
                    self.kept.extend(&piece[..count]);
                    let over = self.kept.len().saturating_sub(KEPT_MAX);
                    self.kept.drain(..over);
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.from = None,
            }
        }
    }

    /// Its last lines in one, without what could move the cursor of a terminal.
    fn said(mut self) -> String {
        self.take();
        let text = String::from_utf8_lossy(&self.kept);
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LINES_MAX)..];
        last.join("; ").chars().filter(|c| !c.is_control()).collect()
    }
}

/// What the other side runs.
const INFO_HOST: &str = "info-host";
/// How long a command may take to end that is asked nothing any more.
const END_WITHIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Bytes and lines of standard error that are kept.
const KEPT_MAX: usize = 4 << 10;
const LINES_MAX: usize = 3;
