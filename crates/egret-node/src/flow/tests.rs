#![expect(clippy::cast_possible_truncation, reason = "any bits will do")]

use std::sync::Arc;

use egret_net::rt;
use proptest::prelude::*;

use super::fault::{Fault, caught};
use super::*;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A budget and what its flows must hold, told by what it said.
struct Ledger {
    budget: FlowBudget,
    flows: Vec<(FlowId, u64)>,
    peers: Vec<(FlowId, PeerId)>,
}

impl Ledger {
    fn new(terms: FlowTerms) -> Self {
        Self { budget: FlowBudget::new(terms), flows: Vec::new(), peers: Vec::new() }
    }

    fn open(&mut self) -> Option<usize> {
        self.open_by(PeerId(0))
    }

    fn open_by(&mut self, peer: PeerId) -> Option<usize> {
        self.open_with(peer, 0)
    }

    fn open_with(&mut self, peer: PeerId, most: u64) -> Option<usize> {
        let guarantee = self.budget.terms().guarantee;
        let flow = match most {
            0 => self.budget.open(peer).ok()?,
            most => self.budget.open_with(peer, most).ok()?,
        };
        let held = self.budget.held(flow);
        let terms = self.budget.terms();
        let bound = most.min(terms.share() + terms.bytes / 4);
        assert!((guarantee..=guarantee.max(bound)).contains(&held), "{held} of {most}");
        self.peers.push((flow, peer));
        self.flows.push((flow, held));
        Some(self.flows.len() - 1)
    }

    fn taken(&mut self, at: usize, bytes: u64, keen: bool) -> u64 {
        let (flow, held) = &mut self.flows[at];
        *held -= bytes;
        let more = self.budget.taken(*flow, bytes, keen);
        *held += more;
        self.hear();
        more
    }

    fn want(&mut self, at: usize, bytes: u64) -> Result<u64, NeverFits> {
        let (flow, held) = &mut self.flows[at];
        let more = self.budget.want(*flow, bytes, bytes)?;
        *held += more;
        Ok(more)
    }

    fn unused(&mut self, at: usize, bytes: u64) {
        let (flow, held) = &mut self.flows[at];
        *held -= bytes;
        self.budget.unused(*flow, bytes);
        self.hear();
    }

    fn close(&mut self, at: usize) {
        let (flow, _) = self.flows.swap_remove(at);
        self.peers.retain(|(known, _)| *known != flow);
        self.budget.close(flow);
        self.hear();
    }

    fn hear(&mut self) {
        while let Some((flow, bytes)) = self.budget.poll_granted() {
            let told = self.flows.iter_mut().find(|(known, _)| *known == flow);
            told.expect("only open flows are granted anything").1 += bytes;
        }
    }

    fn adds_up(&self) {
        let held: u64 = self.flows.iter().map(|(_, held)| held).sum();
        assert_eq!(held + self.budget.free(), self.budget.terms().bytes);
        let guarantee = self.budget.terms().guarantee;
        let mut owed = 0;
        for (flow, held) in &self.flows {
            assert_eq!(self.budget.held(*flow), *held);
            owed += guarantee.saturating_sub(*held);
        }
        assert!(owed <= self.budget.free(), "what is guaranteed is there");
        let shares: u64 = (0..self.budget.terms().peers).map(|peer| self.owed(PeerId(peer))).sum();
        assert!(owed + shares <= self.budget.free(), "what is shared out is there");
    }

    /// What of a peer's share is not its yet.
    fn owed(&self, peer: PeerId) -> u64 {
        let of_peer = self.peers.iter().filter(|(_, known)| *known == peer);
        let held = of_peer.map(|(flow, _)| self.budget.held(*flow));
        let guarantee = self.budget.terms().guarantee;
        let charged: u64 = held.map(|held| held.max(guarantee)).sum();
        self.budget.terms().share().saturating_sub(charged)
    }
}

fn play(peers: u64, steps: &[(u8, u16, u32)]) {
    let mut ledger = Ledger::new(FlowTerms::of(MIB).shared_by(peers));
    for &(what, which, bytes) in steps {
        let (count, bytes) = (ledger.flows.len(), u64::from(bytes));
        if what % 8 == 0 || count == 0 {
            let room = ledger.budget.most() >= 17 * KIB && ledger.budget.free() >= 300 * KIB;
            let peer = PeerId(u64::from(which) % peers.max(1));
            let room = room || ledger.owed(peer) >= 16 * KIB;
            let most = if what > 127 { bytes % MIB } else { 0 };
            assert!(ledger.open_with(peer, most).is_some() || !room);
            ledger.adds_up();
            continue;
        }
        let at = usize::from(which) % count;
        let held = ledger.flows[at].1;
        match what % 8 {
            1..=3 => drop(ledger.taken(at, bytes % (held + 1), what > 127)),
            4 => drop(ledger.taken(at, held, what > 127)),
            5 => drop(ledger.want(at, bytes % (2 * MIB)).is_ok()),
            6 => ledger.unused(at, bytes % (held + 1)),
            _ => ledger.close(at),
        }
        ledger.adds_up();
    }
    while !ledger.flows.is_empty() {
        ledger.close(0);
        ledger.adds_up();
    }
    assert_eq!(ledger.budget.free(), MIB);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn all_of_it_adds_up_after_any_sequence(
        steps in proptest::collection::vec(any::<(u8, u16, u32)>(), 1..200),
    ) {
        play(0, &steps);
        play(5, &steps);
    }
}

/// Steps from a seed, for planted faults: proptest would shrink for long.
fn any_sequence() {
    let mut state = 1_u64;
    for _ in 0..200 {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u32
        };
        let steps: Vec<_> = (0..120).map(|_| (next() as u8, next() as u16, next())).collect();
        play(0, &steps);
        play(5, &steps);
    }
}

/// A flow whose reader takes everything at once, `rounds` times: what it is granted at the end.
fn run(ledger: &mut Ledger, at: usize, rounds: usize) -> u64 {
    for _ in 0..rounds {
        let held = ledger.flows[at].1;
        ledger.taken(at, held, true);
        assert!(ledger.flows[at].1 > 0, "whoever takes is granted more");
    }
    ledger.flows[at].1
}

fn one_of_a_hundred_runs() {
    let mut ledger = Ledger::new(FlowTerms::default());
    for _ in 0..99 {
        let at = ledger.open().unwrap();
        run(&mut ledger, at, 20);
        ledger.want(at, 90 * MIB).unwrap();
        ledger.hear();
    }
    let at = ledger.open().unwrap();
    let window = run(&mut ledger, at, 20);
    assert!(window >= 512 * KIB, "{window} bytes are no full speed");
    ledger.adds_up();
}

#[test]
fn a_stalled_flow_does_not_hold_up_others() {
    one_of_a_hundred_runs();
}

#[test]
fn a_stalled_flow_stays_small() {
    let mut ledger = Ledger::new(FlowTerms::default());
    let (slow, fast) = (ledger.open().unwrap(), ledger.open().unwrap());
    assert!(run(&mut ledger, fast, 20) > 3 * MIB);
    for _ in 0..100 {
        ledger.taken(slow, KIB, false);
    }
    assert!(ledger.flows[slow].1 <= 16 * KIB, "nobody was kept waiting by its window");
}

#[test]
fn credit_comes_in_batches() {
    let mut ledger = Ledger::new(FlowTerms::default());
    let at = ledger.open().unwrap();
    run(&mut ledger, at, 20);
    let frames = (0..4096).filter(|_| ledger.taken(at, KIB, false) > 0).count();
    assert!((3..=5).contains(&frames), "{frames} for 4096 steps: a quarter of the window each");
}

fn what_never_fits() {
    let mut ledger = Ledger::new(FlowTerms::of(MIB));
    let at = ledger.open().unwrap();
    let most = 16 * KIB + (1024 - 256 - 16) * KIB / 2;
    assert_eq!(ledger.want(at, most + 1), Err(NeverFits { bytes: most + 1, most }));
    ledger.open().unwrap();
    let less = most - 8 * KIB;
    assert_eq!(ledger.want(at, most), Err(NeverFits { bytes: most, most: less }));
    assert_eq!(ledger.want(at, less), Ok(0), "what it holds is not taken yet");
    ledger.taken(at, 16 * KIB, false);
    assert_eq!(ledger.flows[at].1, less);
}

#[test]
fn what_never_fits_is_refused_at_once() {
    what_never_fits();
}

#[test]
fn what_is_wanted_comes_in_turn_and_holds_up_nobody_who_wants_less() {
    let mut ledger = Ledger::new(FlowTerms::of(MIB));
    let all: Vec<_> = (0..4).map(|_| ledger.open().unwrap()).collect();
    assert_eq!(ledger.want(all[0], 350 * KIB), Ok(350 * KIB));
    assert_eq!(ledger.want(all[1], 300 * KIB), Ok(0));
    assert_eq!(ledger.want(all[2], 320 * KIB), Ok(0));
    assert_eq!(ledger.want(all[3], 100 * KIB), Ok(100 * KIB), "there is room for it");
    ledger.taken(all[3], 116 * KIB, false);
    ledger.taken(all[0], 366 * KIB, false);
    let held = |ledger: &Ledger, at: usize| ledger.flows[all[at]].1;
    assert_eq!((held(&ledger, 1), held(&ledger, 2)), (316 * KIB, 16 * KIB), "the first first");
    ledger.close(all[1]);
    assert_eq!(ledger.flows.iter().map(|(_, held)| held).max(), Some(&(336 * KIB)));
    ledger.adds_up();
}

fn a_flow_that_is_not_read_gets_at_most_four_pieces() {
    let mut ledger = Ledger::new(FlowTerms::default());
    let at = ledger.open().unwrap();
    let granted = (0..100).filter(|_| ledger.want(at, MIB).is_ok_and(|more| more > 0)).count();
    assert!(granted <= 4 && ledger.flows[at].1 <= 4 * MIB, "{granted} pieces and nobody reads");
    ledger.taken(at, MIB, false);
    assert!(ledger.flows[at].1 > MIB, "whoever reads gets more");
}

#[test]
fn wants_do_not_fill_the_memory_of_a_reader_that_does_not_read() {
    a_flow_that_is_not_read_gets_at_most_four_pieces();
}

#[test]
fn a_flow_without_the_guarantee_is_refused() {
    let mut ledger = Ledger::new(FlowTerms::of(MIB));
    for _ in 0..64 {
        ledger.open().unwrap();
    }
    let refused = ledger.budget.open(PeerId(1));
    assert_eq!(refused, Err(FlowNoRoom { flows: 64, bytes: MIB, peers: 0, share: 0 }));
    ledger.taken(5, 16 * KIB, false);
    assert_eq!(ledger.flows[5].1, 16 * KIB, "it is granted again, whatever others hold");
    ledger.close(0);
    assert!(ledger.open().is_some());
}

/// One peer opens what it can, and takes what it can by all of it.
fn one_peer_takes_all() {
    let mut ledger = Ledger::new(FlowTerms::default().shared_by(20));
    let share = ledger.budget.terms().share();
    assert_eq!(share, 256 * MIB / 4 / 20);
    let greedy = ledger.open().unwrap();
    run(&mut ledger, greedy, 20);
    while ledger.want(greedy, 20 * MIB).is_ok_and(|more| more > 0) {}
    while let Some(at) = ledger.open() {
        run(&mut ledger, at, 3);
        ledger.taken(at, 0, true);
    }
    let refused = ledger.budget.open(PeerId(0)).unwrap_err().to_string();
    assert!(refused.contains("268435456") && refused.contains(&share.to_string()), "{refused}");
    for peer in 1..20 {
        let flows = (0..share / (16 * KIB)).map(|_| ledger.open_by(PeerId(peer)));
        assert!(flows.last().flatten().is_some(), "peer {peer} has not got its share");
    }
    ledger.adds_up();
}

/// A piece fits that the share of its peer has room for, however many flows another has opened.
fn a_piece_within_its_share_fits() {
    let mut ledger = Ledger::new(FlowTerms::default().shared_by(20));
    let share = ledger.budget.terms().share();
    while ledger.open().is_some() {}
    let other = ledger.open_by(PeerId(19)).unwrap();
    let piece = share / 2;
    assert!(ledger.budget.most() < piece, "it would not fit otherwise");
    assert_eq!(ledger.want(other, piece), Ok(piece));
    assert_eq!(ledger.want(other, share + 17 * KIB).unwrap_err().most, share);
    ledger.adds_up();
}

#[test]
fn shares_of_other_peers_stay_free() {
    one_peer_takes_all();
    a_piece_within_its_share_fits();
    let half = FlowTerms::of(MIB).shared_by(16);
    assert_eq!(half.share(), 32 * KIB, "two flows each are half of it");
    assert_eq!(FlowTerms::of(MIB).shared_by(32).share(), 16 * KIB, "one is");
    assert_eq!(FlowTerms::of(MIB).shared_by(33).share(), 0);
    // Shares that come later are kept from then on.
    let mut ledger = Ledger::new(FlowTerms::of(MIB));
    assert!((0..34).all(|_| ledger.open().is_some()));
    ledger.budget.share_among(16);
    assert_eq!(ledger.open(), None);
    assert!((1..16).all(|peer| ledger.open_by(PeerId(peer)).is_some()));
    ledger.adds_up();
}

#[test]
fn checks_find_planted_faults() {
    let faults: [(Fault, fn()); 7] = [
        (Fault::Unshared, one_peer_takes_all),
        (Fault::Floored, a_piece_within_its_share_fits),
        (Fault::Leaky, any_sequence),
        (Fault::Unreserved, any_sequence),
        (Fault::Greedy, one_of_a_hundred_runs),
        (Fault::Believed, what_never_fits),
        (Fault::Stuffed, a_flow_that_is_not_read_gets_at_most_four_pieces),
    ];
    any_sequence();
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
    }
}

#[test]
fn cost_is_the_memory_of_the_depot() {
    let depot = SizedPools::default();
    for len in [257, 512, 513, 4096, 100_000, 4 << 20, (4 << 20) + 1, 10_000_000] {
        let buf = depot.take(len).unwrap();
        assert_eq!(cost(len as u64) - FRAME_BYTES, buf.capacity() as u64, "{len} bytes");
        assert_eq!((buf.len(), buf.offset_in_region() % 64), (len, 0));
    }
    assert_eq!(cost(u64::MAX), u64::MAX);
}

#[test]
fn a_depot_uses_again_what_came_back_and_gives_up_what_is_idle() {
    let depot = SizedPools::default();
    for _ in 0..1000 {
        drop((
            depot.take(100_000).unwrap(),
            depot.take(300).unwrap(),
            depot.take(5 << 20).unwrap(),
        ));
    }
    let mapped = depot.stats().mapped_bytes;
    assert!(mapped <= (128 << 10) + (128 << 10) + (5 << 20), "{mapped} bytes");
    let kept: Vec<_> = (0..100).map(|_| depot.take(100_000).unwrap()).collect();
    assert_eq!(depot.stats().out_bytes, 100 << 17);
    depot.trim();
    depot.trim();
    assert_eq!(depot.stats().out_bytes, 100 << 17);
    drop(kept);
    depot.trim();
    depot.trim();
    assert_eq!(depot.stats(), SizedPoolStats::default());
}

#[test]
fn several_threads_take_from_one_depot() {
    let depot = Arc::new(SizedPools::default());
    let work = |number: u8| {
        let depot = Arc::clone(&depot);
        move || {
            for round in 0..2000_usize {
                let mut buf = depot.take(300 + round * 17 % 9000).unwrap();
                buf.bytes_mut().fill(number);
                assert!(buf.bytes().iter().all(|byte| *byte == number));
            }
        }
    };
    let threads: Vec<_> = (0..3).map(|n| rt::spawn("depot", work(n)).unwrap()).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(depot.stats().out_bytes, 0);
}
