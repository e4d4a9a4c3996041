//! Killed at every step, and at any instruction.

use std::env;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, kill_process, pidfd_open, set_parent_process_death_signal,
};

use super::peers::{Chance, Home, Visitor};
use super::{assert_all_home, has_file, inode, until};
use crate::fabric::shm::fault::kill_at;
use crate::rt;

/// What the child is, by what chance, and at which step it is killed.
const PART: &str = "EGRET_TEST_HAND_OVER";
/// The buffers that a child hands over or gets before it ends, if it is to be
/// killed at a step; one that is killed at some moment has no end.
const BUFFERS: u64 = 24;
const NEVER: u64 = u64::MAX;
/// Turns of this process between two looks whether the child lives.
const AT_ONCE: u64 = 256;

/// A child that does not outlive its test.
struct Process(Child);

impl Process {
    fn start(part: &str, chance: Chance, step: u64) -> (Self, UnixStream, OwnedFd) {
        let (here, there) = UnixStream::pair().unwrap();
        let child = Command::new("/proc/self/exe")
            .args(["--exact", "fabric::shm::tests::hand_over::processes::child", "--nocapture"])
            .env(PART, format!("{part}|{}|{step}", chance.0))
            .stdin(OwnedFd::from(there))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        (Self(child), here, pidfd_open(pid, PidfdFlags::empty()).unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Not a test by itself: what the child does.
#[test]
fn child() {
    let Ok(part) = env::var(PART) else { return };
    let [part, chance, step] = part.split('|').collect::<Vec<_>>()[..] else { panic!() };
    let (chance, step) = (Chance(chance.parse().unwrap()), step.parse().unwrap());
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let parent = getppid().unwrap();
    let pid = u32::try_from(parent.as_raw_pid()).unwrap();
    let end = if step == NEVER { NEVER } else { BUFFERS };
    let mut buffers = 0;
    if part == "visitor" {
        let mut visitor = Visitor::meet(socket, pid, chance);
        kill_at(step);
        while buffers < end {
            buffers += visitor.turn();
        }
        // All that is left to do has steps too.
        visitor.mourn();
    } else {
        let process = pidfd_open(parent, PidfdFlags::empty()).unwrap();
        let mut home = Home::meet(socket, pid, process, chance);
        kill_at(step);
        while buffers < end {
            buffers += home.turn();
        }
    }
}

/// Whether the process is gone, as the kernel says.
fn is_gone(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

/// The home is here, the visitor dies.
fn visitor_dies(chance: Chance, step: u64) -> ExitStatus {
    let (mut process, socket, pidfd) = Process::start("visitor", chance, step);
    let watched = pidfd.try_clone().unwrap();
    let mut home = Home::meet(socket, process.pid(), pidfd, chance);
    let file = inode(&home.pool);
    let killer = kill_by_chance(&process, chance, step);
    until(
        || {
            (0..AT_ONCE).for_each(|_| _ = home.turn());
            is_gone(&watched)
        },
        "the visitor dies",
    );
    killer.into_iter().for_each(|killer| killer.join().unwrap());
    let pool = home.mourn();
    assert_all_home(&pool);
    drop(pool);
    assert!(!has_file(file), "something has the memory");
    process.0.wait().unwrap()
}

/// The visitor is here, the home dies.
fn home_dies(chance: Chance, step: u64) -> ExitStatus {
    let (mut process, socket, pidfd) = Process::start("home", chance, step);
    let mut visitor = Visitor::meet(socket, process.pid(), chance);
    let file = visitor.file;
    let killer = kill_by_chance(&process, chance, step);
    until(
        || {
            (0..AT_ONCE).for_each(|_| _ = visitor.turn());
            is_gone(&pidfd)
        },
        "the home dies",
    );
    killer.into_iter().for_each(|killer| killer.join().unwrap());
    assert!(has_file(file));
    visitor.mourn();
    assert!(!has_file(file), "something has the memory");
    process.0.wait().unwrap()
}

/// A thread that kills the process if no step does.
fn kill_by_chance(process: &Process, mut chance: Chance, step: u64) -> Option<rt::JoinHandle<()>> {
    let pid = Pid::from_child(&process.0);
    (step == NEVER).then(|| {
        rt::spawn("killer", move || {
            rt::sleep(Duration::from_micros(chance.below(3000)));
            kill_process(pid, Signal::KILL).unwrap();
        })
        .unwrap()
    })
}

/// Kills at the first step, at the second, and so on until there is none.
fn at_every_step(dies: fn(Chance, u64) -> ExitStatus) {
    for seed in [1, 2] {
        let chance = Chance(0x9E37_79B9 + seed);
        let mut statuses = (0..).map(|step| (step, dies(chance, step)));
        let (steps, end) = statuses.find(|(_, status)| status.signal() != Some(9)).unwrap();
        assert!(end.success(), "step {steps}: {end}");
        assert!(steps > 40, "only {steps} steps");
    }
}

fn at_any_moment(dies: fn(Chance, u64) -> ExitStatus) {
    for _ in 0..rt::trials(200) {
        let seed = rt::random() | 1;
        let status = dies(Chance(seed), NEVER);
        assert_eq!(status.signal(), Some(9), "{seed}: {status}");
    }
}

#[test]
fn a_visitor_is_killed_at_every_step() {
    at_every_step(visitor_dies);
}

#[test]
fn a_visitor_is_killed_at_any_moment() {
    at_any_moment(visitor_dies);
}

#[test]
fn a_home_is_killed_at_every_step() {
    at_every_step(home_dies);
}

#[test]
fn a_home_is_killed_at_any_moment() {
    at_any_moment(home_dies);
}
