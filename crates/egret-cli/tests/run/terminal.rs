//! A job that a person starts, with a terminal.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::job::{EGRET, Job, Mark, code, kill, text, wait_some};
use crate::spawn::Child;

/// A terminal with a job in its foreground.
struct Terminal {
    keys: File,
    child: Child,
    mark: Mark,
    /// What was on the screen and nobody has looked for.
    screen: Vec<u8>,
}

impl Terminal {
    /// With two processes that run a script.
    fn start(script: &str) -> Self {
        Self::of(EGRET, &["run", "-n", "2", "sh", "-c", script])
    }

    /// With a program in its foreground.
    fn of(program: &str, args: &[&str]) -> Self {
        let keys: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&keys).expect("a terminal");
        unlockpt(&keys).expect("a terminal");
        let name = ptsname(&keys, Vec::new()).expect("its name");
        let name = name.to_str().expect("a path");
        let screen = OpenOptions::new().read(true).write(true).open(name).expect("the terminal");
        let mark = Mark::new();
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", program]).args(args);
        mark.put(&mut command);
        let child = Child::spawn_on(&command, &screen);
        Self { keys: keys.into(), child, mark, screen: Vec::new() }
    }

    fn types(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).expect("a keyboard");
    }

    /// Reads on until `text` has been on the screen; gives what was before it.
    fn sees(&mut self, text: &str) -> String {
        loop {
            let screen = String::from_utf8_lossy(&self.screen).into_owned();
            if let Some((before, rest)) = screen.split_once(text) {
                self.screen = rest.into();
                return before.to_owned();
            }
            assert!(self.reads(), "{text:?} is not on {screen:?}");
        }
    }

    /// Reads on until nobody has the terminal any more.
    fn rest(&mut self) -> String {
        while self.reads() {}
        String::from_utf8_lossy(&self.screen).into_owned()
    }

    /// Reads on; whether there was something.
    fn reads(&mut self) -> bool {
        let mut fds = [PollFd::new(&self.keys, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&LIMIT)).expect("a terminal");
        let mut bytes = [0; 256];
        let count = if ready > 0 { self.keys.read(&mut bytes).unwrap_or_default() } else { 0 };
        self.screen.extend(&bytes[..count]);
        count > 0
    }

    fn end(mut self) -> Option<i32> {
        let status = wait_some("it does not end", || self.child.try_wait());
        self.mark.nothing_left();
        status.code()
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

#[test]
fn a_job_under_nohup_outlives_its_terminal() {
    let rank = "trap 'echo $EGRET_RANK after; exit 0' TERM; echo $EGRET_RANK before; \
                while :; do sleep 0.01; done";
    let script =
        "cd \"$HOME\" && nohup \"$0\" run -n 2 sh -c \"$1\" & echo guard $!.; read -r line";
    let mut terminal = Terminal::of("sh", &["-c", script, EGRET, rank]);
    terminal.sees("guard ");
    let guard = terminal.sees(".").parse().expect("a number");
    let Terminal { keys, mut child, mark, .. } = terminal;
    let file = mark.folder().join("nohup.out");
    let written = || std::fs::read_to_string(&file).unwrap_or_default();
    let all_wrote = |word| written().matches(word).count() == 2;
    wait_some("nothing is written", || all_wrote("before").then_some(()));
    // The terminal hangs up: the kernel sends HUP to the shell and to its foreground.
    drop(keys);
    wait_some("the shell stays", || child.try_wait());
    kill(guard, Signal::TERM);
    wait_some("it does not write to the end", || all_wrote("after").then_some(()));
    std::fs::remove_file(file).expect("what they wrote");
    mark.nothing_left();
}

#[test]
fn an_application_shows_its_progress_where_the_person_is() {
    let sor = ["app", "sor", "-n", "2", "--size", "300", "--iterations", "300"];
    let mut terminal = Terminal::of(EGRET, &sor);
    terminal.sees("sequential ");
    terminal.sees("/300 ");
    terminal.sees("parallel ");
    terminal.sees("/300 ");
    // The bar is taken away, and the table is all that stays.
    terminal.sees("\x1b[2K");
    terminal.sees("messages");
    assert!(!terminal.rest().contains("/300"));
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn a_process_that_may_not_write_to_the_terminal_is_not_stopped_by_its_bar() {
    let sor = "egret=$1; stty tostop; exec \"$egret\" app sor -n 2 --size 100 --iterations 50";
    let mut terminal = Terminal::of("sh", &["-c", sor, "sh", EGRET]);
    terminal.sees("messages");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn without_a_terminal_there_is_no_bar() {
    let mut command = Command::new(EGRET);
    command.args(["app", "sor", "-n", "2", "--size", "300", "--iterations", "300"]);
    // Of a job around this one.
    command.env("EGRET_TERMINAL", "/dev/tty");
    let output = Job::start_as(command).end();
    assert_eq!((code(&output), text(&output.stderr)), (0, String::new()));
    assert!(!output.stdout.contains(&0x1b), "{}", text(&output.stdout));
    let mut command = Command::new(EGRET);
    command.args(["run", "-n", "1", "sh", "-c", "echo ${EGRET_TERMINAL-none}"]);
    command.env("EGRET_TERMINAL", "/dev/tty");
    let output = Job::start_as(command).end();
    assert_eq!(text(&output.stdout), "none\n");
}

/// Turns a hang into a failure.
const LIMIT: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };
