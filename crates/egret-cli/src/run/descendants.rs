//! The descendants of this process, and how to end them.
//!
//! A process that [adopts](adopt) becomes the parent of whatever its descendants leave
//! behind, so nothing gets away by a new group, a new session or a parent that exits.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use anyhow::{Context, Result};
use egret::rt;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, wait,
};

use super::fault::{Fault, planted};
use super::status::Status;
use crate::system::wait_for;

/// One descendant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descendant {
    pub(crate) pid: Pid,
    parent: i32,
    pub(crate) group: i32,
    /// Tells it from a later process of the same number.
    started: u64,
    /// Nothing of it runs any more; its parent has yet to hear of it.
    is_over: bool,
}

impl Descendant {
    /// Sends it `signal`; says nothing if it is gone.
    pub(crate) fn send(&self, signal: Signal) {
        if let Some(fd) = self.hold() {
            let _ = pidfd_send_signal(fd, signal);
        }
    }

    /// The process as a descriptor, which no later process of the same number can be taken for. `None`
    /// if it is gone.
    fn hold(&self) -> Option<OwnedFd> {
        let fd = pidfd_open(self.pid, PidfdFlags::empty()).ok()?;
        let now = read(self.pid.as_raw_pid())?;
        // The number is that of the descriptor's process until that has ended, so it was this
        // process that was looked at.
        (now.started == self.started && !has_ended(&fd)).then_some(fd)
    }

    /// What it is called, for people.
    pub(crate) fn name(&self) -> String {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.pid.as_raw_pid()));
        name.map_or_else(|_| "?".to_owned(), |name| name.trim_end().to_owned())
    }
}

/// Processes that were here before a job, and are not to be ended with it.
#[derive(Debug, Default)]
pub(crate) struct Strangers(BTreeMap<i32, OwnedFd>);

impl Strangers {
    /// The descendants that this process has now: those whom the program left behind that became
    /// this one.
    pub(crate) fn found() -> Result<Self> {
        let mut strangers = BTreeMap::new();
        for kin in all(&Self::default()) {
            match pidfd_open(kin.pid, PidfdFlags::empty()) {
                Ok(fd) => drop(strangers.insert(kin.pid.as_raw_pid(), fd)),
                // It has ended meanwhile.
                Err(Errno::SRCH) => (),
                Err(errno) => {
                    let who = format!("holding process {} ({})", kin.pid, kin.name());
                    return Err(errno).context(who);
                }
            }
        }
        Ok(Self(strangers))
    }

    /// These children of this process.
    pub(crate) fn children(pids: impl Iterator<Item = Pid>) -> Self {
        // One that has ended is none of its descendants.
        let held = pids
            .filter_map(|pid| Some((pid.as_raw_pid(), pidfd_open(pid, PidfdFlags::empty()).ok()?)));
        Self(held.collect())
    }

    /// Whether the process that has this number now is one of them, and not one that was given the number
    /// of one that has ended.
    fn are(&self, pid: Pid) -> bool {
        let fd = self.0.get(&pid.as_raw_pid());
        fd.is_some_and(|fd| !has_ended(fd) || planted(Fault::NumbersKept))
    }
}

/// Whether the process of this descriptor has ended.
fn has_ended(fd: &OwnedFd) -> bool {
    wait_for(&mut [PollFd::new(fd, PollFlags::IN)], Some(Duration::ZERO))
}

/// Makes this process the parent of whatever its descendants leave behind.
pub(crate) fn adopt() -> Result<()> {
    set_child_subreaper(Some(getpid())).context("adopting what processes leave behind")
}

/// The descendants of this process that run, without those below `except`.
///
/// Processes come and go during the search: one whose parent is just ending can be missed,
/// so this alone does not say that there is no process.
pub(crate) fn all(except: &Strangers) -> Vec<Descendant> {
    let mut children = BTreeMap::<i32, Vec<Descendant>>::new();
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    for kin in numbers.filter_map(read).filter(|kin| !kin.is_over) {
        children.entry(kin.parent).or_default().push(kin);
    }
    let (mut found, mut next) = (Vec::new(), vec![getpid().as_raw_pid()]);
    while let Some(parent) = next.pop() {
        for kin in children.remove(&parent).unwrap_or_default() {
            if !except.are(kin.pid) {
                next.push(kin.pid.as_raw_pid());
                found.push(kin);
            }
        }
    }
    found
}

/// The processes that run and have this variable, `NAME=VALUE`, with any parent. Those of
/// other users are not to be seen.
pub(crate) fn marked(variable: &str) -> Vec<Descendant> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_it = |kin: &Descendant| {
        let path = format!("/proc/{}/environ", kin.pid.as_raw_pid());
        let environment = fs::read(path).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|found| found == variable.as_bytes())
    };
    // The process is identified first: another process that has its number by the time that the variable
    // is looked for is not taken for it.
    numbers.filter_map(read).filter(|kin| !kin.is_over).filter(has_it).collect()
}

/// Kills all descendants but `strangers`, and whatever has the variable `mark`; gives what remains.
///
/// What is left of a job is descended from this process. Should something get away from that, it is
/// known by the name of its job.
pub(crate) fn end_all(strangers: &Strangers, mark: &str) -> Vec<Descendant> {
    let last = rt::now() + 10 * GIVE_UP;
    let (mut until, mut calm, mut seen) = (rt::now() + GIVE_UP, 0, BTreeSet::new());
    loop {
        while let Reaped::Child(..) = reap() {}
        let mut left = marked(mark);
        if left.is_empty() && reap() == Reaped::Alone {
            return left;
        }
        left.extend(all(strangers));
        left.iter().for_each(|kin| kin.send(Signal::KILL));
        let before = seen.len();
        seen.extend(left.iter().map(|kin| (kin.pid.as_raw_pid(), kin.started)));
        let now = rt::now();
        if seen.len() > before {
            // Those who were forked meanwhile have their own time to be gone.
            until = last.min(now + GIVE_UP);
        }
        calm = if left.is_empty() { calm + 1 } else { 0 };
        if calm == CALM || now > until {
            return left;
        }
        rt::sleep(BETWEEN);
    }
}

/// How long what was killed may take to be gone.
const GIVE_UP: Duration = Duration::from_secs(2);
const BETWEEN: Duration = Duration::from_millis(10);
/// How often no process is to be seen before there is none, when others are here too.
const CALM: u32 = 3;

/// A child that ended, or what is known without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reaped {
    Child(Pid, Status),
    /// There are children, and none has ended.
    None,
    /// There is no child, hence no descendant.
    Alone,
}

/// Takes leave of one child that has ended.
pub(crate) fn reap() -> Reaped {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => return Reaped::Child(pid, Status::of(status)),
            Err(Errno::INTR) => (),
            Err(_) => return Reaped::Alone,
            Ok(None) => return Reaped::None,
        }
    }
}

fn read(pid: i32) -> Option<Descendant> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads `7 (a name) S 1 7 7 …`; the name may be anything.
fn parse(pid: i32, stat: &str) -> Option<Descendant> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let is_ended = matches!(fields.next()?, "Z" | "X");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let threads = fields.nth(14)?.parse::<u32>().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    // The state is that of the main thread, which may end before the others (`pthread_exit`).
    let is_over = is_ended && threads <= 1;
    Some(Descendant { pid: Pid::from_raw(pid)?, parent, group, started, is_over })
}

#[cfg(test)]
mod tests {
    use super::super::fault::caught;
    use super::*;

    #[test]
    fn the_line_of_the_kernel_is_read() {
        let line = "7 (a) b (c) S 1 6 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9\n";
        let kin = parse(7, line).unwrap();
        assert_eq!((kin.parent, kin.group, kin.started, kin.is_over), (1, 6, 4711, false));
        assert_eq!(parse(7, "7 (a"), None);
        assert_eq!(parse(7, "7 (a) Z 1 2"), None);
    }

    #[test]
    fn a_process_is_over_with_its_last_thread() {
        let is_over = |state: char, threads: u32| {
            let line =
                format!("7 (a) {state} 1 6 5 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 4711 9\n");
            parse(7, &line).unwrap().is_over
        };
        assert!(is_over('Z', 1) && is_over('X', 0));
        assert!(!is_over('Z', 2), "its main thread has ended, another runs");
        assert!(!is_over('S', 1) && !is_over('T', 2));
    }

    fn sleeping() -> (std::process::Child, Descendant) {
        let child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = of(&child, &Strangers::default()).expect("the child");
        (child, found)
    }

    fn of(child: &std::process::Child, except: &Strangers) -> Option<Descendant> {
        all(except).into_iter().find(|kin| kin.pid == Pid::from_child(child))
    }

    /// As if this child had the number of another.
    fn stranger(child: &std::process::Child, number: &std::process::Child) -> Strangers {
        let fd = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
        Strangers(BTreeMap::from([(Pid::from_child(number).as_raw_pid(), fd)]))
    }

    #[test]
    fn a_child_is_kin_unless_excepted() {
        let (mut child, found) = sleeping();
        assert_eq!(of(&child, &stranger(&child, &child)), None);
        Descendant { started: found.started + 1, ..found }.send(Signal::KILL);
        assert_eq!(child.try_wait().unwrap(), None, "a later process of the same number");
        found.send(Signal::KILL);
        assert!(!child.wait().unwrap().success());
        assert!(found.hold().is_none(), "it is gone");
    }

    #[test]
    fn a_reused_process_number_is_not_a_stranger() {
        let (mut first, _) = sleeping();
        let (mut second, found) = sleeping();
        let strangers = stranger(&first, &second);
        assert_eq!(of(&second, &strangers), None, "as long as the stranger lives");
        first.kill().unwrap();
        first.wait().unwrap();
        let is_kin = || assert_eq!(of(&second, &strangers), Some(found));
        is_kin();
        assert!(caught(Fault::NumbersKept, is_kin), "a number was enough");
        second.kill().unwrap();
        second.wait().unwrap();
    }

    #[test]
    fn those_who_are_here_are_held() {
        let (mut child, found) = sleeping();
        let strangers = Strangers::found().unwrap();
        assert!(strangers.are(found.pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!strangers.are(found.pid));
    }

    #[test]
    fn a_descendant_is_found_by_its_variable() {
        let mark = format!("EGRET_TEST_KIN={}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut command = std::process::Command::new("sh");
        // Somebody else's child as soon as its parent has ended.
        let script = "sleep 60 & echo $!";
        let output =
            command.args(["-c", script]).env(name, value).stdin(std::process::Stdio::null());
        let output =
            output.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
        let mut child = output.spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        child.wait().unwrap();
        let found = marked(&mark);
        assert_eq!(
            found.iter().map(|kin| kin.pid.as_raw_pid().to_string()).collect::<Vec<_>>(),
            [line.trim()]
        );
        found.iter().for_each(|kin| kin.send(Signal::KILL));
        let until = rt::now() + Duration::from_secs(30);
        while !marked(&mark).is_empty() {
            assert!(rt::now() < until, "it was killed");
            rt::sleep(Duration::from_millis(5));
        }
    }
}
