//! A thousand rounds in which one side of some connections is killed, stopped,
//! or leaves, while messages of all sizes flow. What is left must be able to go
//! on as if it had never been.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod flow;
mod peer;

use std::env;
use std::process::Command;
use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_net::vi::{Address, Listener, ViError, ViOptions};

use self::flow::{Flow, Footprint, Rng, Side};
use self::peer::Peer;

const ROUNDS: u64 = 1000;
/// Within this an end must know that the other one is gone.
const KNOWN: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(20);

/// This side, and the process that has the bad luck.
struct Rounds {
    side: Side,
    listener: Listener,
    peer: Option<Peer>,
    flows: Vec<Flow>,
    rng: Rng,
    base: Footprint,
    counts: [u64; 6],
}

impl Rounds {
    fn new(seed: u64) -> Self {
        let side = Side::new(&format!("round-{}-here", rt::random()));
        let listener = side.nic.listen("rounds", 0, &ViOptions::default()).unwrap();
        let base = Footprint::now();
        let (rng, counts) = (Rng(seed), [0; 6]);
        Self { side, listener, peer: None, flows: Vec::new(), rng, base, counts }
    }

    fn round(&mut self) {
        let there = self.side.nic.host().replace("here", "there");
        if self.peer.is_none() {
            self.peer = Some(Peer::start(self.side.nic.host(), &there, self.rng.next()));
        }
        for _ in 0..1 + self.rng.below(3) {
            self.connect(&there);
        }
        let messages = self.rng.below(120);
        self.flow_on(messages);
        let event = self.rng.below(6);
        self.counts[event] += 1;
        match event {
            0 => self.killed(),
            1 => self.stopped_and_continued(),
            2 => self.stopped_and_killed(),
            3 => self.peer_leaves(),
            4 => self.end_flows(|flow| flow.vi.disconnect(), &[ViError::Closed]),
            _ => self.leave(),
        }
        assert_eq!(self.flows.len(), 0);
        self.side.assert_all_back();
        let peer_socket = usize::from(self.peer.is_some());
        assert_eq!(Footprint::now(), self.base.with_descriptors(peer_socket));
    }

    /// One more connection, begun by either side.
    fn connect(&mut self, there: &str) {
        let peer = self.peer.as_mut().unwrap();
        let vi = if self.rng.below(2) == 0 {
            let (to, options) = (Address::new(there, "rounds", 0), ViOptions::default());
            self.side.nic.wait_connect(&to, &options, Deadline::In(LONG)).unwrap()
        } else {
            peer.connect();
            self.listener.wait_accept(Deadline::In(LONG)).unwrap()
        };
        self.flows.push(Flow::new(vi, &self.side, self.rng.next()));
    }

    /// Until each connection has moved so many more, without an error.
    fn flow_on(&mut self, messages: usize) {
        let until = rt::now() + LONG;
        let mut left = vec![messages; self.flows.len()];
        while left.iter().any(|left| *left > 0) {
            let seen = self.side.nic.poll();
            let mut moved = 0;
            for (flow, left) in self.flows.iter_mut().zip(&mut left) {
                let done = flow.turn(&self.side).unwrap();
                (*left, moved) = (left.saturating_sub(done), moved + done);
            }
            assert!(rt::now() < until, "nothing moves: {left:?} left");
            if moved == 0 {
                self.side.nic.wait(seen, Some(until));
            }
        }
    }

    /// All connections end with one of these errors, after `begin` made them.
    fn end_flows(&mut self, mut begin: impl FnMut(&Flow), expected: &[ViError]) {
        let until = rt::now() + KNOWN;
        for mut flow in std::mem::take(&mut self.flows) {
            begin(&flow);
            let why = flow.end(&self.side, until);
            let matches =
                |one: &ViError| std::mem::discriminant(one) == std::mem::discriminant(&why);
            assert!(expected.iter().any(matches), "{why:?} where {expected:?} was expected");
        }
    }

    fn killed(&mut self) {
        self.peer.take().unwrap().kill();
        self.end_flows(|_| (), &[ViError::PeerDied { why: "" }]);
    }

    /// A stopped process is not dead: nothing happens, and then all goes on.
    fn stopped_and_continued(&mut self) {
        self.peer.as_mut().unwrap().stop();
        self.pass_time();
        self.peer.as_mut().unwrap().go_on();
        self.flow_on(20);
        self.end_flows(|flow| flow.vi.disconnect(), &[ViError::Closed]);
    }

    fn stopped_and_killed(&mut self) {
        self.peer.as_mut().unwrap().stop();
        self.pass_time();
        self.killed();
    }

    /// A moment in which the peer does nothing, and nothing is wrong with that.
    fn pass_time(&mut self) {
        let until = rt::now() + Duration::from_micros(self.rng.below(4000) as u64);
        while rt::now() < until {
            for flow in &mut self.flows {
                flow.turn(&self.side).unwrap();
                assert_eq!(flow.vi.error(), None, "it is merely stopped");
            }
            self.side.nic.wait(self.side.nic.poll(), Some(until));
        }
    }

    /// The peer closes its connections where they are, and exits.
    fn peer_leaves(&mut self) {
        let mut peer = self.peer.take().unwrap();
        peer.leave();
        self.end_flows(|_| (), &[ViError::ClosedByPeer, ViError::PeerDied { why: "" }]);
        peer.assert_left_well();
    }

    /// The nic of this side goes, with everything, and another one comes.
    fn leave(&mut self) {
        self.end_flows(|flow| flow.vi.disconnect(), &[ViError::Closed]);
        let host = self.side.nic.host().to_owned();
        // The name is free when the last handle is gone.
        let spare = Side::new(&format!("{host}-spare"));
        self.listener = spare.nic.listen("rounds", 0, &ViOptions::default()).unwrap();
        self.side = spare;
        let side = Side::new(&host);
        self.listener = side.nic.listen("rounds", 0, &ViOptions::default()).unwrap();
        self.side = side;
    }
}

/// Not a test by itself: the other process.
#[test]
fn other() {
    if let Ok(part) = env::var(peer::PART) {
        peer::run(&part);
    }
}

/// Alone in a process: other tests open descriptors too.
#[test]
fn a_thousand_rounds_leave_nothing() {
    const ALONE: &str = "EGRET_TEST_ROUNDS_ALONE";
    if env::var(ALONE).is_err() {
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", "a_thousand_rounds_leave_nothing", "--nocapture"]);
        let output = command.env(ALONE, "").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
        return;
    }
    let seed = env::var("EGRET_SEED").map_or_else(|_| rt::random(), |seed| seed.parse().unwrap());
    let before = Footprint::now();
    let mut rounds = Rounds::new(seed);
    let host = rounds.side.nic.host().to_owned();
    for round in 0..ROUNDS {
        println!("EGRET_SEED={seed}, round {round}");
        rounds.round();
    }
    let counts = rounds.counts;
    drop(rounds);
    assert_eq!(Footprint::now(), before);
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    assert!(!sockets.contains(&host), "a socket is left");
    assert!(counts.iter().all(|count| *count > ROUNDS / 10), "{counts:?}");
}
