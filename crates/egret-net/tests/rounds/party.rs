//! This side of the connections: the one that is left, and must be able to go on.

use std::time::Duration;

use egret_net::rt::{self, Deadline, SplitMix64};
use egret_net::vi::{Address, Listener, Nic, Reliability, ViError, ViOptions};

use super::LONG;
use super::flow::{Flow, Side};
use super::peer::Peer;

/// One nic, what listens there, and what flows.
pub(crate) struct Party {
    fabric: &'static str,
    /// What its nics are opened with.
    name: String,
    /// Within this an end must know that the other one is gone.
    pub(crate) known: Duration,
    pub(crate) side: Side,
    pub(crate) listener: Listener,
    pub(crate) flows: Vec<Flow>,
    pub(crate) rng: SplitMix64,
}

/// What can happen to a peer of any fabric.
pub(crate) const EVENTS: usize = 6;

impl Party {
    pub(crate) fn new(fabric: &'static str, name: &str, known: Duration, seed: u64) -> Self {
        let side = Side::new(fabric, name);
        let listener = listen(&side);
        let (name, flows, rng) = (name.to_owned(), Vec::new(), SplitMix64(seed));
        Self { fabric, name, known, side, listener, flows, rng }
    }

    /// One more connection, begun by either side.
    pub(crate) fn connect(&mut self, peer: &mut Peer) {
        if self.rng.below(2) == 0 {
            let there = peer.host().to_owned();
            self.connect_to(&there);
        } else {
            peer.connect(self.side.nic.host());
            let vi = self.listener.wait_accept(Deadline::In(LONG)).unwrap();
            self.flows.push(Flow::new(vi, &self.side, self.rng.next()));
        }
    }

    /// One more connection, begun by this side.
    pub(crate) fn connect_to(&mut self, there: &str) {
        let (to, options) = (Address::new(there, SERVICE, 0), options(&self.side.nic));
        let vi = self.side.nic.wait_connect(&to, &options, Deadline::In(LONG)).unwrap();
        self.flows.push(Flow::new(vi, &self.side, self.rng.next()));
    }

    /// What happens to the peer; it, if it is still there.
    pub(crate) fn event(&mut self, event: usize, mut peer: Peer) -> Option<Peer> {
        match event {
            0 => {
                peer.kill();
                self.lose_flows();
                return None;
            }
            // A stopped process is not dead: nothing happens, and then all goes on.
            1 => {
                peer.stop();
                self.pass_time();
                peer.go_on();
                self.flow_on(20);
                self.close_flows();
            }
            2 => {
                peer.stop();
                self.pass_time();
                peer.kill();
                self.lose_flows();
                return None;
            }
            3 => {
                self.see_off(peer);
                return None;
            }
            4 => self.close_flows(),
            _ => self.leave(),
        }
        Some(peer)
    }

    /// Until each connection has moved so many more, without an error.
    pub(crate) fn flow_on(&mut self, messages: usize) {
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
    pub(crate) fn end_flows(&mut self, mut begin: impl FnMut(&Flow), expected: &[ViError]) {
        let until = rt::now() + self.known;
        for mut flow in std::mem::take(&mut self.flows) {
            begin(&flow);
            let why = flow.end(&self.side, until);
            let matches =
                |one: &ViError| std::mem::discriminant(one) == std::mem::discriminant(&why);
            assert!(expected.iter().any(matches), "{why:?} where {expected:?} was expected");
        }
    }

    /// This side closes them.
    pub(crate) fn close_flows(&mut self) {
        self.end_flows(|flow| flow.vi.disconnect(), &[ViError::Closed]);
    }

    /// The other side is gone without a word.
    pub(crate) fn lose_flows(&mut self) {
        self.end_flows(|_| (), &[ViError::PeerDied { why: "" }]);
    }

    /// The peer closes its connections where they are, and exits.
    pub(crate) fn see_off(&mut self, mut peer: Peer) {
        peer.leave();
        self.end_flows(|_| (), &[ViError::ClosedByPeer, ViError::PeerDied { why: "" }]);
        peer.assert_left_well();
    }

    /// A moment in which the peer does nothing, and nothing is wrong with that.
    pub(crate) fn pass_time(&mut self) {
        let until = rt::now() + Duration::from_micros(self.rng.below(4000) as u64);
        while rt::now() < until {
            for flow in &mut self.flows {
                flow.turn(&self.side).unwrap();
                assert_eq!(flow.vi.error(), None, "it is merely stopped");
            }
            self.side.nic.wait(self.side.nic.poll(), Some(until));
        }
    }

    /// The nic of this side goes, with everything, and another one comes.
    pub(crate) fn leave(&mut self) {
        self.close_flows();
        // The name is free when the last handle is gone.
        let spare = Side::new(self.fabric, &format!("spare-{}", rt::random()));
        self.listener = listen(&spare);
        self.side = spare;
        let side = Side::new(self.fabric, &self.name);
        self.listener = listen(&side);
        self.side = side;
    }
}

pub(crate) fn listen(side: &Side) -> Listener {
    side.nic.listen(SERVICE, 0, &options(&side.nic)).unwrap()
}

/// Of the most reliable level that the nic offers.
pub(crate) fn options(nic: &Nic) -> ViOptions {
    match nic.limits().offers(Reliability::Reception) {
        true => ViOptions::default(),
        false => ViOptions::of(Reliability::Delivery),
    }
}

pub(crate) const SERVICE: &str = "rounds";
