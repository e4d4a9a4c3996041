//! A thousand rounds over shared memory.

use std::time::Duration;

use egret_net::rt;

use super::flow::Footprint;
use super::party::{EVENTS, Party};
use super::peer::Peer;
use super::{is_alone, part, seed};

/// Within this an end must know that the other one is gone.
const KNOWN: Duration = Duration::from_secs(1);

/// This side, and the process that is killed.
struct Rounds {
    party: Party,
    peer: Option<Peer>,
    base: Footprint,
    counts: [u64; EVENTS],
}

impl Rounds {
    fn new(seed: u64) -> Self {
        let party = Party::new("shm", &format!("round-{}-here", rt::random()), KNOWN, seed);
        let base = Footprint::now();
        Self { party, peer: None, base, counts: [0; EVENTS] }
    }

    fn round(&mut self) {
        let Self { party, .. } = self;
        let there = party.side.nic.host().replace("here", "there");
        let mut peer = match self.peer.take() {
            Some(peer) => peer,
            None => Peer::start(&part("shm", &there, KNOWN, party.rng.next()), None),
        };
        for _ in 0..1 + party.rng.below(3) {
            party.connect(&mut peer);
        }
        let messages = party.rng.below(120);
        party.flow_on(messages);
        let event = party.rng.below(EVENTS);
        self.counts[event] += 1;
        self.peer = party.event(event, peer);
        assert_eq!(self.party.flows.len(), 0);
        self.party.side.assert_all_back();
        let peer_socket = usize::from(self.peer.is_some());
        assert_eq!(Footprint::now(), self.base.with_descriptors(peer_socket));
    }
}

#[test]
fn rounds_over_shared_memory_leave_nothing() {
    if !is_alone("shm::rounds_over_shared_memory_leave_nothing") {
        return;
    }
    let seed = seed();
    let before = Footprint::now();
    let mut rounds = Rounds::new(seed);
    let host = rounds.party.side.nic.host().to_owned();
    let count = rt::trials(1000);
    for round in 0..count {
        println!("EGRET_SEED={seed}, round {round}");
        rounds.round();
    }
    let counts = rounds.counts;
    drop(rounds);
    assert_eq!(Footprint::now(), before);
    let sockets = std::fs::read_to_string("/proc/net/unix").unwrap();
    assert!(!sockets.contains(&host), "a socket is left");
    assert!(counts.iter().all(|times| *times > count / 40), "{counts:?}");
}
