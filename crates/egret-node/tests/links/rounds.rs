//! Rounds in which a process is killed while it floods active messages and is flooded.
//! `EGRET_ROUNDS` says how often, `EGRET_SEED` from where.

use std::io::{ErrorKind, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs};

use egret_net::rt::{self, SplitMix64};
use egret_node::am::{Endpoint, MessageError};
use egret_node::link::LinkError;
use egret_node::{Links, LinksOptions};
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};

use super::flood::{CALL, DATA, Fault, Flood, ONE_WAY};
use super::heard::{Heard, Notes, listen};
use super::peer::{Peer, inherited};
use super::processes::{name, until};
use super::{map, open};

/// What a part begins with that is one of these rounds: behind it the fabric, the name, whom to
/// flood, the seed, the fault.
pub(crate) const PREFIX: &str = "rounds|";
/// Of the endpoint on either side.
const SERVED: &str = "serve";

/// The side that is left.
struct Rounds {
    fabric: &'static str,
    links: Links,
    served: Endpoint,
    heard: Arc<Mutex<Heard>>,
    /// Of each process that is killed.
    there: String,
    rng: SplitMix64,
    found: Found,
}

/// What the kills have cut off.
#[derive(Debug, Default, Clone, Copy)]
struct Found {
    /// Messages of the dead that were heard after they had died.
    late: u64,
    /// Messages to the dead that may have been delivered or not.
    unknown: u64,
}

impl Rounds {
    fn new(fabric: &'static str, seed: u64) -> Self {
        let links = open(fabric, &name(fabric, "floods"), LinksOptions::default());
        let served = links.bundle().register(SERVED, 0).unwrap();
        let (heard, there) = (listen(&served), name(fabric, "dies"));
        let (rng, found) = (SplitMix64(seed), Found::default());
        Self { fabric, links, served, heard, there, rng, found }
    }

    /// At least so many messages go to the process before the kill.
    fn round(&mut self, fault: Fault, messages: usize) {
        *self.heard.lock().unwrap() = Heard::default();
        let (notes, seed) = (Notes::new(), self.rng.next());
        let (fabric, there, here) = (self.fabric, &self.there, self.links.host());
        let part = format!("{PREFIX}{fabric}|{there}|{here}|{seed}|{fault:?}");
        let mut peer = Peer::start_with(&part, None, notes.stdout());
        assert_eq!(peer.said(), "mapped");
        let remote = map(&self.served, &peer.host, SERVED);
        let mut flood = Flood::new(remote, self.rng.next(), Fault::None);
        for _ in 0..messages {
            flood.send().unwrap();
            flood.take_answers();
        }
        if self.rng.below(2) == 0 {
            rt::sleep(Duration::from_micros(self.rng.below(2000) as u64));
        }
        peer.kill();
        self.end(flood, &notes);
    }

    /// The link ends, and each message has an end that the dead process confirms.
    fn end(&mut self, mut flood: Flood, notes: &Notes) {
        let came = |heard: &Mutex<Heard>| heard.lock().unwrap().came.iter().sum::<u64>();
        let before = came(&self.heard);
        let why = loop {
            if let Err(why) = flood.send() {
                break why;
            }
        };
        assert!(matches!(why, MessageError::Link(LinkError::PeerDied { .. })), "{why}");
        until("told", || !self.heard.lock().unwrap().ended.is_empty());
        let answered = flood.answered();
        let taken = notes.came(CALL);
        assert!(answered <= taken, "{answered} calls were answered, and {taken} were taken");
        self.found.unknown += flood.end_calls(taken);
        let sent = flood.sent;
        drop(flood);
        until("settled", || self.links.account().is_settled());
        self.found.late += came(&self.heard) - before;
        let heard = self.heard.lock().unwrap();
        assert!(heard.wrong.is_none(), "{}", heard.wrong.as_deref().unwrap_or_default());
        let [ended] = &heard.ended[..] else { panic!("{:?}", heard.ended) };
        assert!(matches!(ended.why, LinkError::PeerDied { .. }), "{ended:?}");
        for kind in [ONE_WAY, DATA] {
            match heard.unknown(kind, sent[kind], notes.came(kind)) {
                Ok(unknown) => self.found.unknown += unknown,
                Err(why) => panic!("kind {kind}: {why}"),
            }
        }
    }
}

/// Descriptors, memory that is shared, and threads of this process.
fn footprint() -> [usize; 3] {
    let count = |folder| fs::read_dir(folder).unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let shared = maps.lines().filter(|line| line.contains("memfd:")).count();
    [count("/proc/self/fd"), shared, count("/proc/self/task")]
}

/// What the process does until it is killed.
pub(crate) fn run(part: &str) {
    let [fabric, name, to, seed, fault] = part.split('|').collect::<Vec<_>>()[..] else {
        panic!("{part}")
    };
    let fault = Fault::of(fault);
    let links = open(fabric, name, LinksOptions::default());
    let served = links.bundle().register(SERVED, 0).unwrap();
    let heard = listen(&served);
    heard.lock().unwrap().notes = (fault != Fault::Deny).then(Notes::inherited);
    let mut stream = inherited();
    writeln!(stream, "{}", links.host()).unwrap();
    let mut flood = Flood::new(map(&served, to, SERVED), seed.parse().unwrap(), fault);
    writeln!(stream, "mapped").unwrap();
    stream.set_nonblocking(true).unwrap();
    // Until its test is gone, if that has failed.
    while stream.read(&mut [0]).is_err_and(|why| why.kind() == ErrorKind::WouldBlock) {
        for _ in 0..50 {
            if flood.send().is_err() {
                return;
            }
            flood.take_answers();
        }
    }
}

/// Runs the test of this name alone in a process, since other tests open descriptors too, or
/// says that this is that process.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "EGRET_TEST_LINKS_ALONE";
    if env::var(ALONE).is_ok() {
        return true;
    }
    let mut command = Command::new(env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).env(ALONE, "").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
    false
}

#[expect(clippy::print_stdout, reason = "a run that fails is to be repeated by its seed")]
fn rounds(fabric: &'static str) {
    let number = |name: &str| env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let seed = number("EGRET_SEED").unwrap_or_else(rt::random);
    let count = number("EGRET_ROUNDS").unwrap_or(20);
    let mut rounds = Rounds::new(fabric, seed);
    // What is opened at the first traffic is kept.
    rounds.round(Fault::None, 400);
    let before = footprint();
    // A kill may hit when nothing is under way: on a busy machine it takes more of them.
    let is_enough = |found: Found| count < 20 || found.late > 0 && found.unknown > 0;
    let mut round = 0;
    while round < count || !is_enough(rounds.found) {
        println!("EGRET_SEED={seed}, round {round}");
        let messages = rounds.rng.below(600);
        rounds.round(Fault::None, messages);
        until("rid of the dead process", || footprint() == before);
        assert_eq!(wait(WaitOptions::NOHANG).unwrap_err(), Errno::CHILD, "a process is left");
        round += 1;
        assert!(round < 20 * count, "no kill cut anything off: {:?}", rounds.found);
    }
    println!("{:?}", rounds.found);
}

#[test]
fn a_flood_that_is_killed_leaves_nothing_over_shm() {
    if is_alone("rounds::a_flood_that_is_killed_leaves_nothing_over_shm") {
        rounds("shm");
    }
}

#[test]
fn a_flood_that_is_killed_leaves_nothing_over_tcp() {
    if is_alone("rounds::a_flood_that_is_killed_leaves_nothing_over_tcp") {
        rounds("tcp");
    }
}

#[test]
fn the_rounds_notice_what_is_wrong() {
    for (fault, said) in [
        (Fault::Skip, "is not in order"),
        (Fault::Tear, "is not whole"),
        (Fault::Deny, "and 0 were taken"),
    ] {
        let work = || Rounds::new("shm", 7).round(fault, 2000);
        let why = catch_unwind(AssertUnwindSafe(work)).expect_err("nobody noticed");
        let why = *why.downcast::<String>().unwrap();
        assert!(why.contains(said), "{fault:?}: {why}");
    }
}
