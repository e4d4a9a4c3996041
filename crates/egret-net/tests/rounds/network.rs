//! Rounds over `tcp` on loopback: kill, stop, leave, reset, delay.

use std::time::Duration;

use egret_net::rt;

use super::flow::Footprint;
use super::party::{EVENTS, Party};
use super::peer::Peer;
use super::relay::Relay;
use super::{is_alone, part, seed};

/// One round of so many is late.
const LATE_EVERY: u64 = 90;
const LATE_MS: u64 = 20;
/// Within this an end must know that the other one is gone.
pub(crate) const KNOWN: Duration = Duration::from_secs(5);

/// This side, the process that is killed, and the one between them.
struct Rounds {
    party: Party,
    peer: Option<Peer>,
    relay: Relay,
    base: Footprint,
    counts: [u64; EVENTS + 1],
}

impl Rounds {
    fn new(seed: u64) -> Self {
        let party = Party::new("tcp", &format!("here-{}", rt::random()), KNOWN, seed);
        let relay = Relay::start();
        let base = Footprint::now();
        Self { party, peer: None, relay, base, counts: [0; EVENTS + 1] }
    }

    fn peer(&mut self) -> Peer {
        let seed = self.party.rng.next();
        self.peer.take().unwrap_or_else(|| Peer::start(&part("tcp", "there", KNOWN, seed), None))
    }

    fn round(&mut self) {
        let mut peer = self.peer();
        let event = self.party.rng.below(EVENTS + 1);
        self.counts[event] += 1;
        for _ in 0..1 + self.party.rng.below(3) {
            match event {
                // Only what goes over the relay can be reset.
                EVENTS => self.connect_relayed(&peer, 0),
                _ => self.party.connect(&mut peer),
            }
        }
        let messages = self.party.rng.below(60);
        self.party.flow_on(messages);
        self.peer = self.event(event, peer);
        self.assert_nothing_left();
    }

    fn event(&mut self, event: usize, peer: Peer) -> Option<Peer> {
        if event < EVENTS {
            return self.party.event(event, peer);
        }
        self.relay.reset();
        self.party.lose_flows();
        Some(peer)
    }

    fn connect_relayed(&mut self, peer: &Peer, late_ms: u64) {
        self.relay.serve(peer.host(), late_ms);
        self.party.connect_to(self.relay.host());
    }

    /// All goes well, only late.
    fn late_round(&mut self) {
        let peer = self.peer();
        self.connect_relayed(&peer, LATE_MS);
        self.party.flow_on(20);
        self.party.close_flows();
        self.peer = Some(peer);
        self.assert_nothing_left();
    }

    fn assert_nothing_left(&self) {
        assert_eq!(self.party.flows.len(), 0);
        self.party.side.assert_all_back();
        let base = self.base.with_descriptors(usize::from(self.peer.is_some()));
        settled(&self.party, &base);
    }
}

/// What lingers until the other end has read it goes too, in time.
pub(crate) fn settled(party: &Party, base: &Footprint) {
    let until = rt::now() + KNOWN;
    loop {
        let seen = party.side.nic.poll();
        let now = Footprint::now();
        if now == *base {
            return;
        }
        assert!(rt::now() < until, "{now:?}, and it was {base:?}");
        party.side.nic.wait(seen, Some(rt::now() + Duration::from_millis(2)));
    }
}

#[test]
fn rounds_over_loopback_leave_nothing() {
    if !is_alone("network::rounds_over_loopback_leave_nothing") {
        return;
    }
    let seed = seed();
    let before = Footprint::now();
    let mut rounds = Rounds::new(seed);
    let count = rt::trials(900);
    for round in 0..count {
        println!("EGRET_SEED={seed}, round {round}");
        if round % LATE_EVERY == 0 { rounds.late_round() } else { rounds.round() }
    }
    let counts = rounds.counts;
    drop(rounds);
    assert_eq!(Footprint::now(), before);
    assert!(counts.iter().all(|times| *times > count / 80), "{counts:?}");
}
