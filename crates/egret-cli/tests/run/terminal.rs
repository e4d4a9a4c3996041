//! A job that a person starts, with a terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::job::{EGRET, Mark};

/// A terminal with a job in its foreground.
struct Terminal {
    keys: File,
    child: Child,
    mark: Mark,
    /// What was on the screen and nobody has looked for.
    screen: Vec<u8>,
}

impl Terminal {
    fn start(script: &str) -> Self {
        let keys: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&keys).expect("a terminal");
        unlockpt(&keys).expect("a terminal");
        let name = ptsname(&keys, Vec::new()).expect("its name");
        let name = name.to_str().expect("a path");
        let open = || OpenOptions::new().read(true).write(true).open(name).expect("the terminal");
        let mark = Mark::new();
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", EGRET, "run", "-n", "2", "sh", "-c", script]);
        mark.put(&mut command);
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn().expect("setsid");
        Self { keys: keys.into(), child, mark, screen: Vec::new() }
    }

    fn types(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).expect("a keyboard");
    }

    /// Reads on until `text` has been on the screen.
    fn sees(&mut self, text: &str) {
        loop {
            let screen = String::from_utf8_lossy(&self.screen).into_owned();
            if let Some((_, rest)) = screen.split_once(text) {
                self.screen = rest.into();
                return;
            }
            let mut fds = [PollFd::new(&self.keys, PollFlags::IN)];
            let ready = poll(&mut fds, Some(&LIMIT)).expect("a terminal");
            assert!(ready > 0, "{text:?} is not on {screen:?}");
            let mut bytes = [0; 256];
            let count = self.keys.read(&mut bytes).unwrap_or_default();
            assert!(count > 0, "{text:?} is not on {screen:?}");
            self.screen.extend(&bytes[..count]);
        }
    }

    fn end(mut self) -> Option<i32> {
        let code = self.child.wait().expect("a child").code();
        self.mark.nothing_left();
        code
    }
}

#[test]
fn rank_0_reads_what_is_typed() {
    let script = "while read -r line; do echo \"$EGRET_RANK got $line\"; done; echo done";
    let mut terminal = Terminal::start(script);
    terminal.types(b"hello\n");
    terminal.sees("0 got hello");
    terminal.types(b"again\n");
    terminal.sees("0 got again");
    terminal.types(&[4]);
    assert_eq!(terminal.end(), Some(0), "Ctrl-D is the end");
}

#[test]
fn ctrl_c_comes_once() {
    let script = "n=0; trap 'n=$((n+1)); echo int $n; sleep 0.2; exit $((n-1))' INT; \
                  echo ready $EGRET_RANK; while :; do sleep 0.01; done";
    let mut terminal = Terminal::start(script);
    terminal.sees("ready");
    terminal.sees("ready");
    terminal.types(&[3]);
    terminal.sees("int 1");
    assert_eq!(terminal.end(), Some(0));
}

/// Turns a hang into a failure.
const LIMIT: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };
