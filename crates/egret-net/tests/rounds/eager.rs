//! Rounds in which a process is killed while it floods eager messages and is flooded.
//! `EGRET_ROUNDS` says how often, `EGRET_SEED` from where.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_net::vi::{Lane, ViError};
use rustix::io::Errno;
use rustix::process::{WaitOptions, wait};

use super::flood::{Clerk, Fault, Side};
use super::flow::Footprint;
use super::notes::{Note, Notes};
use super::peer::{CONNECT, Order, Orders, Peer};
use super::{LONG, is_alone, seed};

/// The side that is left.
struct Rounds {
    fabric: &'static str,
    side: Side,
    /// Of each process that is killed.
    there: String,
    base: Footprint,
    found: Found,
}

/// What the kills have cut off.
#[derive(Debug, Default, Clone, Copy)]
struct Found {
    /// Messages of the dead that were drained after they had died.
    late: u64,
    /// Messages to the dead that may have arrived or not.
    unknown: u64,
}

impl Rounds {
    fn new(fabric: &'static str, seed: u64) -> Self {
        let name = |side: &str| match fabric {
            "shm" => format!("eager-{}-{side}", rt::random()),
            _ => "127.0.0.1".to_owned(),
        };
        let side = Side::new(fabric, &name("here"), seed, Clerk::idle());
        let (there, base) = (name("there"), Footprint::now());
        Self { fabric, side, there, base, found: Found::default() }
    }

    /// A process of the name that all before it had, with some connections.
    fn start(&mut self, fault: Fault) -> (Peer, Notes) {
        let notes = Notes::new();
        let seed = self.side.rng.next();
        let part = format!("flood|{}|{}|{seed}|{fault:?}", self.fabric, self.there);
        let mut peer = Peer::start_with(&part, None, notes.stdout());
        for _ in 0..1 + self.side.rng.below(3) {
            if self.side.rng.below(2) == 0 {
                self.side.connect(peer.host());
            } else {
                peer.connect(self.side.nic.host());
                let vi = self.side.listener.wait_accept(Deadline::In(LONG)).unwrap();
                self.side.add(vi);
            }
        }
        (peer, notes)
    }

    /// At least so many messages move before the kill.
    fn round(&mut self, fault: Fault, messages: usize) {
        let (peer, notes) = self.start(fault);
        self.flow_on(messages);
        if self.side.rng.below(2) == 0 {
            // The process goes on alone, until its lanes are full.
            rt::sleep(Duration::from_micros(self.side.rng.below(2000) as u64));
        }
        peer.kill();
        self.end(&notes);
        drop(notes);
        self.assert_nothing_left(LONG);
    }

    fn flow_on(&mut self, messages: usize) {
        let (until, mut left) = (rt::now() + LONG, messages);
        while left > 0 {
            let seen = self.side.nic.poll();
            let moved = self.side.turn().unwrap();
            assert!(rt::now() < until, "nothing moves: {left} left");
            if moved == 0 {
                self.side.nic.wait(seen, Some(until));
            }
            left = left.saturating_sub(moved);
        }
    }

    /// All connections end, and each message has an end that the dead process confirms.
    fn end(&mut self, notes: &Notes) {
        let until = rt::now() + LONG;
        while self.side.floods.iter().any(|flood| flood.vi.error().is_none()) {
            let seen = self.side.nic.poll();
            self.found.late += self.side.drain() as u64;
            assert!(rt::now() < until, "it is not known that the peer is gone");
            self.side.nic.wait(seen, Some(rt::now() + Duration::from_millis(1)));
        }
        loop {
            match self.side.drain() {
                0 => break,
                drained => self.found.late += drained as u64,
            }
        }
        for (connection, flood) in std::mem::take(&mut self.side.floods).into_iter().enumerate() {
            let why = flood.vi.error();
            assert!(matches!(why, Some(ViError::PeerDied { .. })), "{why:?}");
            for (lane, tally) in Lane::ALL.into_iter().zip(&flood.lanes) {
                let noted = |note| notes.read(connection, lane, note);
                let (theirs, drained) = (noted(Note::Sent), tally.drained);
                // Bytes that a process has not given to the kernel die with it.
                let is_kept = self.fabric != "shm" || drained >= theirs;
                assert!(is_kept, "of {theirs} messages {drained} came, the others were lost");
                let (ours, taken) = (tally.sent.len() as u64, noted(Note::Drained));
                assert!(taken <= ours, "{ours} messages were sent, and {taken} came");
                let so_far = flood.vi.arrived_so_far(lane);
                let arrived = tally.sent.iter().filter(|end| **end <= so_far).count() as u64;
                // The sink may have had one more, and not noted it yet.
                assert!(arrived <= taken + 1, "{arrived} are said to have arrived, {taken} did");
                self.found.unknown += ours - arrived;
            }
        }
    }

    /// Everything of the connections is given back, and no process is left.
    fn assert_nothing_left(&self, within: Duration) {
        let until = rt::now() + within;
        loop {
            let seen = self.side.nic.poll();
            let now = Footprint::now();
            if now == self.base {
                break;
            }
            assert!(rt::now() < until, "{now:?} is left, and it was {:?}", self.base);
            self.side.nic.wait(seen, Some(rt::now() + Duration::from_millis(2)));
        }
        assert_eq!(wait(WaitOptions::NOHANG).unwrap_err(), Errno::CHILD, "a process is left");
        let files = fs::read_dir("/dev/shm").unwrap().map(|file| file.unwrap().file_name());
        let left: Vec<_> = files.filter(|name| name.to_string_lossy().contains("egret")).collect();
        assert!(left.is_empty(), "{left:?} are left");
    }
}

/// What the process does until it is killed.
pub(crate) fn run(fabric: &str, name: &str, seed: u64, fault: &str) {
    let mut orders = Orders::inherited();
    let clerk = Clerk { notes: Some(Notes::inherited()), fault: Fault::of(fault) };
    let mut side = Side::new(fabric, name, seed, clerk);
    orders.say(side.nic.host());
    loop {
        match orders.next() {
            Order::None => {
                if let Some(vi) = side.listener.poll_accept().unwrap() {
                    side.add(vi);
                }
            }
            Order::Some(order) => side.connect(order.strip_prefix(CONNECT).unwrap()),
            Order::End => return,
        }
        let seen = side.nic.poll();
        // A connection ends before its process only if the test has failed.
        let Ok(moved) = side.turn() else { return };
        if moved == 0 {
            side.nic.wait(seen, Some(rt::now() + Duration::from_millis(1)));
        }
    }
}

#[expect(clippy::print_stdout, reason = "a run that fails is to be repeated by its seed")]
fn rounds(fabric: &'static str) {
    let count = std::env::var("EGRET_ROUNDS").map_or(20, |count| count.parse().unwrap());
    let seed = seed();
    let before = Footprint::now();
    let mut rounds = Rounds::new(fabric, seed);
    // A kill may hit when nothing is under way: on a busy machine it takes more of them.
    let is_enough = |found: Found| count < 20 || found.late > 0 && found.unknown > 0;
    let mut round = 0;
    while round < count || !is_enough(rounds.found) {
        println!("EGRET_SEED={seed}, round {round}");
        let messages = rounds.side.rng.below(600);
        rounds.round(Fault::None, messages);
        round += 1;
        assert!(round < 20 * count, "no kill cut anything off: {:?}", rounds.found);
    }
    println!("{:?}", rounds.found);
    drop(rounds);
    assert_eq!(Footprint::now(), before);
}

#[test]
fn a_flood_that_is_killed_leaves_nothing_over_shm() {
    if is_alone("eager::a_flood_that_is_killed_leaves_nothing_over_shm") {
        rounds("shm");
    }
}

#[test]
fn a_flood_that_is_killed_leaves_nothing_over_tcp() {
    if is_alone("eager::a_flood_that_is_killed_leaves_nothing_over_tcp") {
        rounds("tcp");
    }
}

/// What the rounds say when something is wrong.
fn complaint(work: impl FnOnce()) -> String {
    let why = catch_unwind(AssertUnwindSafe(work)).expect_err("nobody noticed");
    *why.downcast::<String>().unwrap()
}

#[test]
fn the_rounds_notice_what_is_wrong() {
    if !is_alone("eager::the_rounds_notice_what_is_wrong") {
        return;
    }
    for (fault, said) in [
        (Fault::Skip, "is not in order"),
        (Fault::Tear, "is not whole"),
        (Fault::Boast, "were lost"),
        (Fault::Hide, "are said to have arrived"),
    ] {
        let why = complaint(|| Rounds::new("shm", 7).round(fault, 5000));
        assert!(why.contains(said), "{fault:?}: {why}");
    }
    let mut rounds = Rounds::new("shm", 7);
    let peer = rounds.start(Fault::None);
    let why = complaint(|| rounds.assert_nothing_left(Duration::ZERO));
    assert!(why.contains("is left, and it was"), "{why}");
    drop(peer);
}
