//! What is typed, for rank 0.
//!
//! The processes are not in the foreground of the terminal and may not read it; the guard
//! is, and passes it on. Anything but a terminal rank 0 gets itself.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::event::{PollFd, PollFlags};
use rustix::io::{read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::getpgrp;
use rustix::stdio::{dup2_stdin, stdin};
use rustix::termios::{isatty, tcgetpgrp};

/// Standard input on its way to rank 0.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    /// Into which it goes; `None` if there is nothing to pass on.
    pipe: Option<OwnedFd>,
    waiting: Vec<u8>,
}

impl Terminal {
    /// What rank 0 reads, and what there is to do for that.
    pub(crate) fn open() -> io::Result<(Self, Stdio)> {
        if !isatty(stdin()) {
            return Ok((Self::default(), Stdio::inherit()));
        }
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&writer, true)?;
        Ok((Self { pipe: Some(writer), waiting: Vec::new() }, reader.into()))
    }

    /// Whether there is something to pass on.
    pub(crate) fn is_used(&self) -> bool {
        self.pipe.is_some()
    }

    /// What to wait for; nothing while another job has the terminal.
    pub(crate) fn watched(&self) -> Option<PollFd<'_>> {
        let pipe = self.pipe.as_ref()?;
        if !self.waiting.is_empty() {
            return Some(PollFd::new(pipe, PollFlags::OUT));
        }
        self.is_foreground().then(|| PollFd::from_borrowed_fd(stdin(), PollFlags::IN))
    }

    /// Whether to look again in a while, as the system does not say when the terminal is ours again.
    pub(crate) fn is_held_back(&self) -> bool {
        self.pipe.is_some() && self.watched().is_none()
    }

    /// Moves what can be moved.
    pub(crate) fn step(&mut self) {
        if self.pipe.is_none() || !self.is_foreground() && self.waiting.is_empty() {
            return;
        }
        match self.move_some().map_err(|error| error.kind()) {
            Ok(()) | Err(ErrorKind::WouldBlock | ErrorKind::Interrupted) => (),
            Err(_) => self.pipe = None,
        }
    }

    fn move_some(&mut self) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        if self.waiting.is_empty() {
            let mut typed = [0; 4096];
            let count = read(stdin(), &mut typed)?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.waiting.extend_from_slice(&typed[..count]);
        }
        let written = write(pipe, &self.waiting)?;
        self.waiting.drain(..written);
        Ok(())
    }

    fn is_foreground(&self) -> bool {
        tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
    }
}

/// Gives up this process' standard input: who writes to it is to know when rank 0 has.
pub(crate) fn leave_stdin() {
    if let Ok(null) = std::fs::File::open("/dev/null") {
        let _ = dup2_stdin(null);
    }
}
