//! Real processes that hand buffers to each other, and are killed or stopped.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use std::{env, fs};

use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid,
};

use super::super::hand_over::peers::Chance;
use super::super::hand_over::until;
use super::super::program::is_alone;
use super::player::{Player, SERVICE};
use super::{EACH, assert_all_home, home};
use crate::fabric::shm::fault::kill_at;
use crate::fabric::shm::tests::conformance::trusting;
use crate::rt::{self, Deadline};
use crate::vi::{Listener, Nic, Trust, ViError, ViOptions};

/// Whom the child is to call, or whether it listens; its own name; its chance; and
/// at which step it is killed.
const PART: &str = "EGRET_TEST_SHM_HANDED";
const HERE: &str = "fabric::shm::tests::handed::killed::";
const NEVER: u64 = u64::MAX;
/// What one gets before it leaves, if it is to be killed at a step.
const BUFFERS: u64 = 40;

/// A child that does not outlive its test.
struct Process(Child);

impl Process {
    fn start(calls: &str, name: &str, chance: Chance, step: u64) -> Self {
        let child = Command::new("/proc/self/exe")
            .args(["--exact", &format!("{HERE}child"), "--nocapture"])
            .env(PART, format!("{calls}|{name}|{}|{step}", chance.0))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
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
    let [calls, name, chance, step] = part.split('|').collect::<Vec<_>>()[..] else { panic!() };
    let (chance, step) = (Chance(chance.parse().unwrap()), step.parse().unwrap());
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let mut player = if calls.is_empty() {
        let (nic, listener) = listens(name);
        accept(&nic, &listener, chance)
    } else {
        Player::calls(name, calls, chance)
    };
    kill_at(step);
    let end = if step == NEVER { NEVER } else { BUFFERS };
    while player.got < end {
        player.turn().unwrap();
    }
    // What is left to do has steps too.
    let pool = player.leave();
    until(|| home(&pool) == 2 * EACH, "its own come home");
}

fn listens(name: &str) -> (Nic, Listener) {
    let nic = trusting(name, Trust::Cooperating);
    let listener = nic.listen(SERVICE, 0, &ViOptions::default()).unwrap();
    (nic, listener)
}

fn accept(nic: &Nic, listener: &Listener, chance: Chance) -> Player {
    Player::new(nic.clone(), listener.wait_accept(Deadline::DEFAULT).unwrap(), chance)
}

/// What this process has open and mapped.
fn footprint() -> (usize, usize) {
    let fds = fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    (fds, maps.lines().filter(|line| line.contains("memfd:")).count())
}

fn names() -> (String, String) {
    let unique = rt::random();
    (format!("stays-{unique}"), format!("dies-{unique}"))
}

/// The other is home to its own buffers, and visitor to ours, and dies as both.
fn one_dies(mut chance: Chance, step: u64) -> ExitStatus {
    let (own, other) = names();
    let (nic, listener) = listens(&own);
    let mut process = Process::start(&own, &other, chance, step);
    let mut player = accept(&nic, &listener, Chance(chance.0 ^ 0xffff));
    drop((listener, nic));
    let mut turns = (step == NEVER).then(|| chance.below(3_000));
    let end = rt::now() + Duration::from_secs(20);
    let why = loop {
        match turns.as_mut() {
            Some(0) => {
                process.signal(Signal::KILL);
                turns = None;
            }
            Some(left) => *left -= 1,
            None => {}
        }
        if let Err(why) = player.turn() {
            break why;
        }
        assert!(rt::now() < end, "it is not known that the other is gone");
    };
    assert!(matches!(why, ViError::PeerDied { .. } | ViError::ClosedByPeer), "{why}");
    let pool = player.leave();
    until(|| home(&pool) == 2 * EACH, "all come home");
    assert_all_home(&pool);
    process.0.wait().unwrap()
}

/// Runs it once before, for what is made once.
fn leaves_nothing(test: &str, body: impl FnOnce()) {
    if !is_alone(&format!("{HERE}{test}")) {
        return;
    }
    one_dies(Chance(1), NEVER);
    until(
        || !crate::fabric::shm::cooperating::reaper::is_running(),
        "there is nothing to wait for",
    );
    let before = footprint();
    body();
    until(|| footprint() == before, "nothing is left");
}

#[test]
fn one_is_killed_at_every_step() {
    leaves_nothing("one_is_killed_at_every_step", || {
        let mut step = 0;
        let end = loop {
            let status = one_dies(Chance(0x9e37_79b9), step);
            if status.signal() != Some(9) {
                break status;
            }
            step += 1;
        };
        assert!(end.success(), "step {step}: {end}");
        assert!(step > 100, "only {step} steps");
    });
}

#[test]
fn one_is_killed_at_any_moment() {
    leaves_nothing("one_is_killed_at_any_moment", || {
        for _ in 0..rt::trials(100) {
            let seed = rt::random() | 1;
            let status = one_dies(Chance(seed), NEVER);
            assert_eq!(status.signal(), Some(9), "{seed}: {status}");
        }
    });
}

/// Files in memory that a process maps, by the kernel's numbers.
fn files(pid: u32) -> BTreeSet<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let files = maps.lines().filter(|line| line.contains("memfd:egret"));
    files.filter_map(|line| line.split_whitespace().nth(4)?.parse().ok()).collect()
}

/// Processes that map one of the files, or have it open.
fn owners(files_of_dead: &BTreeSet<u64>) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let processes = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        let fds = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut open = fds.filter_map(|fd| fs::metadata(fd.path()).ok());
        !files(*pid).is_disjoint(files_of_dead)
            || open.any(|file| files_of_dead.contains(&file.ino()) && file.nlink() == 0)
    };
    processes.filter(has).collect()
}

#[test]
fn both_are_killed_and_nothing_is_left() {
    for round in 0..rt::trials(20) {
        let (one, other) = names();
        let mut chance = Chance(rt::random() | 1);
        let mut both = [
            Process::start("", &one, chance, NEVER),
            Process::start(&one, &other, Chance(chance.0 ^ 0xffff), NEVER),
        ];
        let [listens, calls] = both.each_ref().map(|process| process.0.id());
        // Its own region and the other's, beside the memory of the connection.
        let met = || files(listens).intersection(&files(calls)).count() >= 4;
        until(met, "both have a region of the other");
        rt::sleep(Duration::from_micros(chance.below(3_000)));
        let all: BTreeSet<u64> = &files(listens) | &files(calls);
        if round % 2 == 0 {
            both.reverse();
        }
        both.iter().for_each(|process| process.signal(Signal::KILL));
        for process in &mut both {
            assert_eq!(process.0.wait().unwrap().signal(), Some(9), "it found something wrong");
        }
        assert_eq!(owners(&all), [], "somebody has memory of the dead");
        let sockets = fs::read_to_string("/proc/net/unix").unwrap();
        assert!(!sockets.contains(&one) && !sockets.contains(&other), "a socket is left");
    }
}

/// One that is stopped has what it has, and nothing is wrong with that.
#[test]
fn one_that_is_stopped_keeps_its_buffers() {
    for _ in 0..rt::trials(10) {
        let (own, other) = names();
        let (nic, listener) = listens(&own);
        let process = Process::start(&own, &other, Chance(rt::random() | 1), NEVER);
        let mut player = accept(&nic, &listener, Chance(rt::random() | 1));
        while player.got < 20 {
            player.turn().unwrap();
        }
        process.signal(Signal::STOP);
        let stopped = waitpid(Some(process.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(stopped.1.stopped(), "{stopped:?}");
        // What it did before it was stopped is taken first.
        for _ in 0..1_000 {
            player.nic.poll();
        }
        let (got, away) = (player.got, player.away());
        for _ in 0..1_000 {
            player.nic.poll();
            assert_eq!((player.vi.error(), player.away()), (None, away), "it is merely stopped");
        }
        process.signal(Signal::CONT);
        let end = rt::now() + Duration::from_secs(20);
        while player.got < got + 100 {
            player.turn().unwrap();
            assert!(rt::now() < end, "it does not go on");
        }
        drop(process);
        let pool = player.leave();
        until(|| home(&pool) == 2 * EACH, "all come home");
        assert_all_home(&pool);
    }
}
