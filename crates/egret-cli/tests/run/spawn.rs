//! Starts commands as a shell at a terminal does, whatever these tests were told to ignore.
//!
//! A process inherits the signals that its parent ignores: under `nohup` HUP, in the background of
//! a script INT and QUIT. The tests that send those need processes that heed them. `posix_spawn`
//! sets them back; `Command` does so for PIPE alone, and a shell cannot.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawnp};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Pid, WaitOptions, waitpid};

/// A process that heeds all signals, as long as it does not say otherwise itself.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    pub(crate) stdout: Option<PipeReader>,
    pub(crate) stderr: Option<PipeReader>,
}

impl Child {
    /// Starts `command`, of which only program, arguments and environment count, with an empty
    /// standard input and pipes for what it writes.
    pub(crate) fn spawn(command: &Command) -> Self {
        let nothing = File::open("/dev/null").expect("an empty input");
        Self::spawn_with(command, nothing)
    }

    /// The same with this standard input.
    pub(crate) fn spawn_with(command: &Command, stdin: impl Into<OwnedFd>) -> Self {
        let ((stdout, out), (stderr, err)) = (pipe(), pipe());
        let pid = spawn(command, &[stdin.into(), out.into(), err.into()]);
        Self { pid, stdout: Some(stdout), stderr: Some(stderr) }
    }

    /// The same with a terminal for everything.
    pub(crate) fn spawn_on(command: &Command, terminal: &File) -> Self {
        let stdio = [(); 3].map(|()| terminal.try_clone().expect("the terminal").into());
        Self { pid: spawn(command, &stdio), stdout: None, stderr: None }
    }

    pub(crate) fn id(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// How it ended, if it has; to be asked until then, and not after it.
    pub(crate) fn try_wait(&mut self) -> Option<ExitStatus> {
        let ended = waitpid(Some(self.pid), WaitOptions::NOHANG).expect("a child");
        ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw()))
    }
}

fn pipe() -> (PipeReader, PipeWriter) {
    io::pipe().expect("a pipe")
}

fn spawn(command: &Command, stdio: &[OwnedFd; 3]) -> Pid {
    assert_eq!(command.get_current_dir(), None, "a process starts where the tests are");
    let program = c_string(command.get_program().to_owned());
    let mut args = vec![program.clone()];
    args.extend(command.get_args().map(|arg| c_string(arg.to_owned())));
    let mut files = PosixSpawnFileActions::init().expect("memory");
    for (number, file) in (0..).zip(stdio) {
        files.add_dup2(file.as_raw_fd(), number).expect("memory");
    }
    let mut attributes = PosixSpawnAttr::init().expect("memory");
    let flags = PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF | PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK;
    attributes.set_flags(flags).expect("flags");
    attributes.set_sigdefault(&HEEDED.into_iter().collect()).expect("signals");
    attributes.set_sigmask(&SigSet::empty()).expect("signals");
    let pid = posix_spawnp(&program, &files, &attributes, &args, &environment(command));
    let pid = pid.unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
    Pid::from_raw(pid.as_raw()).expect("a process")
}

fn environment(command: &Command) -> Vec<CString> {
    let mut all: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => all.insert(name.to_owned(), value.to_owned()),
            None => all.remove(name),
        };
    }
    let line = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        c_string(name)
    };
    all.into_iter().map(line).collect()
}

fn c_string(text: OsString) -> CString {
    CString::new(text.into_vec()).expect("no zero inside")
}

/// PIPE is ignored by every program in Rust.
const HEEDED: [Signal; 5] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGPIPE];
