//! A job under test: starts it, finds its processes, and sees that none stays behind.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use egret::rt;
use rustix::process::{Pid, Signal, kill_process};

use crate::spawn::Child;

pub(crate) const EGRET: &str = env!("CARGO_BIN_EXE_egret");

/// Turns a hang into a failure; nothing is expected to take that long.
const LIMIT: Duration = Duration::from_secs(30);

/// A running `egret run`, with a mark in the environment of all its processes.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) child: Child,
    pub(crate) mark: Mark,
}

/// What a process of the job is found by, and the folder that is its home.
#[derive(Debug)]
pub(crate) struct Mark {
    text: String,
    folder: std::path::PathBuf,
}

/// A process of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) state: char,
    pub(crate) command: String,
}

impl Mark {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("egret-run-test-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir_all(&folder).expect("a folder");
        Self { text: format!("EGRET_TEST_MARK={name}"), folder }
    }

    /// Puts the mark on `command`, and makes the folder its home.
    pub(crate) fn put(&self, command: &mut Command) {
        let (name, value) = self.text.split_once('=').expect("a variable");
        command.env(name, value).env("TMPDIR", &self.folder).env("HOME", &self.folder);
    }

    /// Where the job's processes are at home.
    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// The living processes that have the mark.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let numbers = fs::read_dir("/proc").expect("/proc").flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(|pid| self.process(pid)).collect()
    }

    fn process(&self, pid: i32) -> Option<Process> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        variables.find(|variable| *variable == self.text.as_bytes())?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let mut fields = stat.rsplit_once(") ")?.1.split(' ');
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&line).replace('\0', " ");
        (state != 'Z').then_some(Process { pid, parent, state, command })
    }

    /// Waits until no process and no file of the job is left.
    #[track_caller]
    pub(crate) fn nothing_left(&self) {
        wait_until("processes left behind", || self.processes().is_empty(), || self.processes());
        let left: Vec<_> = fs::read_dir(&self.folder).expect("the folder").flatten().collect();
        assert!(left.is_empty(), "files left behind: {left:?}");
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        for process in self.processes() {
            kill(process.pid, Signal::KILL);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Job {
    /// Starts `egret run` with these arguments.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut command = Command::new(EGRET);
        command.arg("run").args(args);
        Self::start_as(command)
    }

    /// Starts `script` as `count` processes.
    pub(crate) fn of_script(count: u32, script: &str) -> Self {
        Self::start(&["-n", &count.to_string(), "sh", "-c", script])
    }

    pub(crate) fn start_as(mut command: Command) -> Self {
        let mark = Mark::new();
        mark.put(&mut command);
        Self { child: Child::spawn(&command), mark }
    }

    /// The same with something to read.
    pub(crate) fn start_with(mut command: Command, stdin: impl Into<OwnedFd>) -> Self {
        let mark = Mark::new();
        mark.put(&mut command);
        Self { child: Child::spawn_with(&command, stdin), mark }
    }

    pub(crate) fn guard(&self) -> i32 {
        self.child.id()
    }

    /// Waits for the launcher.
    pub(crate) fn launcher(&self) -> i32 {
        let found = || {
            let mut all = self.mark.processes().into_iter();
            all.find(|process| process.command.contains("run-launcher")).map(|found| found.pid)
        };
        wait_some("no launcher", found)
    }

    /// Whether `process` is guard or launcher, as long as both are there.
    ///
    /// Descent tells, not the command: the launcher's has a path without links, and a process that
    /// is about to become another still has its parent's.
    pub(crate) fn is_egret(&self, process: &Process) -> bool {
        [process.pid, process.parent].contains(&self.guard())
    }

    /// Waits for `count` processes whose command begins with `command`.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize, command: &str) -> Vec<Process> {
        let found = || {
            let mut all = self.mark.processes();
            all.retain(|process| process.command.starts_with(command));
            (all.len() == count).then_some(all)
        };
        wait_some(&format!("no {count} of {command}"), found)
    }

    /// Waits for `text` on stdout, which must come first.
    pub(crate) fn expect_line(&mut self, text: &str) {
        assert_eq!(self.line(text), text);
    }

    /// Waits for `count` lines on stdout that begin with `word`, whatever else comes.
    pub(crate) fn expect_lines(&mut self, mut count: usize, word: &str) {
        while count > 0 {
            count -= usize::from(self.line(word).starts_with(word));
        }
    }

    /// The next line on stdout.
    pub(crate) fn line(&mut self, expected: &str) -> String {
        let out = self.child.stdout.as_mut().expect("stdout");
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap_or_else(|_| panic!("the end instead of {expected}"));
            line.extend(byte);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// The next line that contains this.
    pub(crate) fn line_with(&mut self, text: &str) -> String {
        loop {
            let line = self.line(text);
            if line.contains(text) {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.guard(), signal);
    }

    /// Waits for the end, and sees that nothing stays behind.
    #[track_caller]
    pub(crate) fn end(self) -> Output {
        let Self { mut child, mark } = self;
        let (out, err) = (read(child.stdout.take()), read(child.stderr.take()));
        let status = wait_some("egret run does not end", || child.try_wait());
        let done = || out.is_finished() && err.is_finished();
        wait_until("output does not end", done, || mark.processes());
        let stdout = out.join().expect("a reader");
        let stderr = err.join().expect("a reader");
        mark.nothing_left();
        Output { status, stdout, stderr }
    }
}

/// Runs a job to its end.
#[track_caller]
pub(crate) fn run(args: &[&str]) -> Output {
    Job::start(args).end()
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).expect("a process"), signal);
}

/// What is on `/proc/PID/status` after `name`.
pub(crate) fn status_of(pid: i32, name: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let lines = status.lines().filter_map(|line| line.split_once(":\t"));
    let all: BTreeMap<_, _> = lines.collect();
    all.get(name).map(|value| value.trim().to_owned()).unwrap_or_default()
}

fn read(from: Option<impl Read + Send + 'static>) -> rt::JoinHandle<Vec<u8>> {
    let body = move || {
        let mut bytes = Vec::new();
        let read = from.map_or(Ok(0), |mut from| from.read_to_end(&mut bytes));
        read.unwrap_or_else(|error: io::Error| panic!("{error}"));
        bytes
    };
    rt::spawn("reader", body).expect("a thread")
}

/// Waits until `found` gives something.
#[track_caller]
pub(crate) fn wait_some<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let until = rt::now() + LIMIT;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(rt::now() < until, "{what}");
        rt::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn wait_until<T: std::fmt::Debug>(
    what: &str,
    mut is_so: impl FnMut() -> bool,
    instead: impl Fn() -> T,
) {
    let until = rt::now() + LIMIT;
    while !is_so() {
        assert!(rt::now() < until, "{what}: {:?}", instead());
        rt::sleep(Duration::from_millis(5));
    }
}
