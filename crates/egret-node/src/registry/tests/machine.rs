//! The registry without links.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use egret_net::rt::Instant;

use super::super::limits::BOUND_MAX;
use super::super::state::{LOOK, PoolTerms, RegistryState};
use crate::pool::wire::{JoinRequest, LogEntry, NAME_MAX, RegistryAnswer, RegistryQuestion};
use crate::pool::{Departure, FabricOffer, Location, NodeId, Properties, RegistryRefusal};

/// A registry and whatever it has answered.
pub(super) struct Desk {
    pub(super) state: RegistryState<u32>,
    pub(super) now: Instant,
    tickets: u64,
    pub(super) said: BTreeMap<u64, Option<RegistryAnswer>>,
}

impl Desk {
    pub(super) fn new(size: u32) -> Self {
        Self::of(size, false, None)
    }

    /// The registry of an open pool.
    pub(super) fn open(size: u32) -> Self {
        Self::of(size, true, None)
    }

    /// The registry of an open pool that keeps its state: records are on disk when the test says so.
    pub(super) fn lasting(size: u32) -> Self {
        Self::of(size, true, Some(Duration::from_secs(30)))
    }

    fn of(size: u32, is_open: bool, resume: Option<Duration>) -> Self {
        let (silent, patience) = (Duration::from_secs(2), Duration::from_secs(8));
        let state = RegistryState::new(PoolTerms {
            pool: "p".into(),
            size,
            is_open,
            silent,
            patience,
            resume,
        });
        Self { state, now: Instant::default(), tickets: 0, said: BTreeMap::new() }
    }

    /// Takes what the registry has answered.
    fn hear(&mut self) {
        let answers = self.state.take_out().into_iter();
        let answers = answers.map(|(ticket, answer)| (ticket, answer.map(Arc::unwrap_or_clone)));
        self.said.extend(answers);
    }

    /// Asks; the ticket.
    pub(super) fn asks(&mut self, from: u32, ask: RegistryQuestion) -> u64 {
        self.tickets += 1;
        self.state.ask(self.now, (&from, None), self.tickets, ask);
        self.hear();
        self.tickets
    }

    /// Asks what is answered at once.
    pub(super) fn ask(&mut self, from: u32, ask: RegistryQuestion) -> RegistryAnswer {
        let ticket = self.asks(from, ask);
        self.said.remove(&ticket).flatten().expect("an answer at once")
    }

    /// The records below this number are on disk.
    pub(super) fn written(&mut self, records: u64) {
        drop(self.state.take_records());
        self.state.written(self.now, records);
        self.hear();
    }

    /// Time passes as it does for a registry that runs.
    pub(super) fn passes(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.jumps(LOOK.min(end - self.now));
        }
    }

    /// Time passes while the registry is stopped.
    fn jumps(&mut self, time: Duration) {
        self.now = self.now + time;
        self.state.tick(self.now);
        self.hear();
    }

    pub(super) fn join(&mut self, from: u32) -> NodeId {
        match self.ask(from, RegistryQuestion::Join(joining())) {
            RegistryAnswer::Welcome { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn joining() -> JoinRequest {
    let fabrics = vec![FabricOffer::new("sim", "host", Properties::network())];
    JoinRequest {
        pool: "p".into(),
        size: None,
        rank: None,
        is_open: false,
        machine: "m".into(),
        location: Location::default(),
        fabrics,
    }
}

pub(super) fn lookup(name: &str, wait_ms: u64) -> RegistryQuestion {
    RegistryQuestion::Lookup { name: name.into(), wait_ms }
}

pub(super) fn bind(name: &str, bytes: &[u8]) -> RegistryQuestion {
    RegistryQuestion::Bind { name: name.into(), bytes: bytes.to_vec(), replace: false }
}

#[test]
pub(super) fn a_lookup_is_answered_when_the_name_is_bound() {
    let mut desk = Desk::new(2);
    let (one, _) = (desk.join(1), desk.join(2));
    let waits = desk.asks(2, lookup("name", 60_000));
    assert_eq!(desk.ask(1, bind("name", b"x")), RegistryAnswer::Done);
    let bound = RegistryAnswer::Bound { owner: one, bytes: b"x".to_vec() };
    assert_eq!(desk.said.remove(&waits), Some(Some(bound)));
}

#[test]
pub(super) fn a_lookup_ends_when_the_name_cannot_be_bound() {
    let mut desk = Desk::new(3);
    let (_, two, _) = (desk.join(1), desk.join(2), desk.join(3));
    assert_eq!(desk.ask(2, bind("kept", b"x")), RegistryAnswer::Done);
    assert_eq!(desk.ask(2, bind("free", b"x")), RegistryAnswer::Done);
    let unbind = RegistryQuestion::Unbind { name: "free".into(), bytes: b"x".to_vec() };
    assert_eq!(desk.ask(2, unbind), RegistryAnswer::Done);
    let [free, never] = ["free", "never"].map(|name| desk.asks(1, lookup(name, 60_000)));
    assert_eq!(desk.said.get(&free), None, "its owner may bind it again");
    let withdrawn = RegistryAnswer::Withdrawn { owner: two };
    assert_eq!(desk.ask(1, lookup("free", 0)), withdrawn, "who does not wait");
    assert_eq!(desk.ask(1, lookup("never", 0)), RegistryAnswer::NotBound);
    let soon = desk.asks(1, lookup("free", 500));
    desk.passes(Duration::from_millis(500));
    assert_eq!(desk.said.get(&soon), Some(&Some(withdrawn)), "who has waited");
    assert_eq!(desk.ask(2, RegistryQuestion::Leave), RegistryAnswer::Done);
    let gone = |name: &str| RegistryAnswer::OwnerGone {
        name: name.into(),
        owner: two,
        fate: Departure::Left,
    };
    assert_eq!(desk.said.get(&free), Some(&Some(gone("free"))));
    assert_eq!(desk.ask(1, lookup("kept", 60_000)), gone("kept"));
    assert_eq!(desk.ask(1, lookup("kept", 0)), gone("kept"), "who does not wait");
    // Another life may bind what the one before had; so may whoever is there.
    desk.join(4);
    let kept = desk.asks(1, lookup("kept", 60_000));
    desk.state.link_ended(desk.now, &4, "gone");
    desk.hear();
    assert_eq!([kept, never].map(|ticket| desk.said.get(&ticket)), [None, None]);
    desk.state.process_ended(desk.now, 2, "gone");
    desk.hear();
    let nobody = |name: &str| RegistryAnswer::NobodyLeft { name: name.into() };
    assert_eq!(desk.said.get(&kept), Some(&Some(nobody("kept"))));
    assert_eq!(desk.said.get(&never), Some(&Some(nobody("never"))));
    assert_eq!(desk.ask(1, lookup("other", 60_000)), nobody("other"));
}

#[test]
pub(super) fn a_name_that_was_bound_anew_is_not_taken_back() {
    let mut desk = Desk::new(1);
    let one = desk.join(1);
    assert_eq!(desk.ask(1, bind("name", b"old")), RegistryAnswer::Done);
    let anew =
        RegistryQuestion::Bind { name: "name".into(), bytes: b"new".to_vec(), replace: true };
    assert_eq!(desk.ask(1, anew), RegistryAnswer::Done);
    let mut unbind = |bytes: &[u8]| {
        let ask = RegistryQuestion::Unbind { name: "name".into(), bytes: bytes.to_vec() };
        (desk.ask(1, ask), desk.ask(1, lookup("name", 0)))
    };
    let bound = RegistryAnswer::Bound { owner: one, bytes: b"new".to_vec() };
    assert_eq!(unbind(b"old"), (RegistryAnswer::NotBound, bound));
    assert_eq!(unbind(b"new"), (RegistryAnswer::Done, RegistryAnswer::Withdrawn { owner: one }));
}

#[test]
fn a_lookup_ends_at_its_deadline() {
    let mut desk = Desk::new(1);
    desk.join(1);
    let waits = desk.asks(1, lookup("name", 500));
    assert_eq!(desk.state.next_event(), Some(desk.now + Duration::from_millis(500)));
    desk.passes(Duration::from_millis(499));
    assert_eq!(desk.said.get(&waits), None);
    desk.passes(Duration::from_millis(1));
    assert_eq!(desk.said.get(&waits), Some(&Some(RegistryAnswer::NotBound)));
}

#[test]
pub(super) fn a_silent_node_is_asked_and_given_up_only_if_it_does_not_answer() {
    let mut desk = Desk::new(1);
    let id = desk.join(1);
    let first = desk.asks(1, RegistryQuestion::Follow { next: 0 });
    assert!(matches!(desk.said.get(&first), Some(Some(RegistryAnswer::Events { first: 0, .. }))));
    for _ in 0..10 {
        let standing = desk.asks(1, RegistryQuestion::Follow { next: 1 });
        desk.passes(Duration::from_millis(1999));
        assert_eq!(desk.said.get(&standing), None);
        desk.passes(Duration::from_millis(1));
        let asked = RegistryAnswer::Events { first: 1, entries: Vec::new() };
        assert_eq!(desk.said.get(&standing), Some(&Some(asked)));
        desk.passes(Duration::from_millis(7999));
    }
    assert_eq!(desk.state.kept.log.next(), 1);
    desk.passes(Duration::from_millis(1));
    assert!(
        matches!(desk.state.kept.log.get(1).unwrap(), LogEntry::Died { node, .. } if *node == id)
    );
    let refused = desk.ask(1, bind("x", b""));
    assert!(
        matches!(refused, RegistryAnswer::Refused(RegistryRefusal::Fenced { .. })),
        "{refused:?}"
    );
    let told = desk.asks(1, RegistryQuestion::Follow { next: 1 });
    let Some(Some(RegistryAnswer::Events { entries, .. })) = desk.said.get(&told) else { panic!() };
    assert!(matches!(&entries[..], [LogEntry::Died { node, .. }] if *node == id));
}

#[test]
fn a_busy_follower_still_gets_its_answers() {
    let mut desk = Desk::new(1);
    desk.join(1);
    let standing = desk.asks(1, RegistryQuestion::Follow { next: 1 });
    for number in 0..4 {
        assert_eq!(desk.said.get(&standing), None);
        desk.ask(1, bind(&format!("{number}"), b""));
        desk.passes(Duration::from_millis(500));
    }
    let asked = RegistryAnswer::Events { first: 1, entries: Vec::new() };
    assert_eq!(desk.said.get(&standing), Some(&Some(asked)));
}

#[test]
pub(super) fn a_stopped_registry_declares_no_node_dead() {
    let (long, asked) =
        (Duration::from_mins(1), RegistryAnswer::Events { first: 3, entries: vec![] });
    let mut desk = Desk::new(3);
    let ids = [desk.join(1), desk.join(2), desk.join(3)];
    let first = desk.asks(1, RegistryQuestion::Follow { next: 3 });
    desk.passes(SECOND);
    let standing = [first, desk.asks(2, RegistryQuestion::Follow { next: 3 })];
    desk.passes(SECOND);
    assert_eq!(desk.said.get(&standing[0]), Some(&Some(asked.clone())));
    assert_eq!(desk.said.get(&standing[1]), None);
    desk.passes(SECOND * 3 / 4);
    // One was asked before, one is, and one has yet to ask what happened.
    desk.jumps(long);
    assert_eq!(desk.said.get(&standing[1]), Some(&Some(asked)));
    desk.passes(SECOND);
    desk.asks(1, RegistryQuestion::Follow { next: 3 });
    desk.jumps(long);
    assert_eq!(desk.state.kept.log.next(), 3, "{:?}", desk.state.kept.log);
    // Who does not answer while the registry runs is dead still.
    desk.passes(SECOND);
    desk.asks(1, RegistryQuestion::Follow { next: 4 });
    desk.passes(6 * SECOND);
    let died = desk.state.kept.log.to_vec().into_iter().skip(3).map(|entry| match entry {
        LogEntry::Died { node, .. } => node,
        other => panic!("{other:?}"),
    });
    assert_eq!(died.collect::<Vec<_>>(), [ids[2], ids[1]]);
}

#[test]
fn names_and_values_beyond_the_limits_are_refused() {
    let mut desk = Desk::new(3);
    desk.join(1);
    let large = |answer: RegistryAnswer| {
        assert!(
            matches!(answer, RegistryAnswer::Refused(RegistryRefusal::TooLarge { .. })),
            "{answer:?}"
        );
    };
    large(desk.ask(1, bind(&"n".repeat(NAME_MAX + 1), b"")));
    let answer = desk.ask(1, bind("n", &[0; BOUND_MAX + 1]));
    let RegistryAnswer::Refused(why) = answer.clone() else { panic!("{answer:?}") };
    large(answer);
    let said = why.to_string();
    assert!(["3073", "3072", "no setting"].iter().all(|part| said.contains(part)), "{said}");
    for number in 0..4096 {
        assert_eq!(desk.ask(1, bind(&format!("{number}"), b"")), RegistryAnswer::Done);
    }
    large(desk.ask(1, bind("one more", b"")));
    for number in 0..1024 {
        desk.asks(1, lookup(&format!("not {number}"), 1_000_000));
    }
    large(desk.ask(1, lookup("not this", 1_000_000)));
    let mut huge = joining();
    huge.machine = "m".repeat(20_000);
    large(desk.ask(2, RegistryQuestion::Join(huge)));
    let mut many = joining();
    many.fabrics = vec![many.fabrics[0].clone(); 1000];
    large(desk.ask(2, RegistryQuestion::Join(many)));
    let one = desk.asks(1, RegistryQuestion::Follow { next: u64::MAX });
    let two = desk.asks(1, RegistryQuestion::Follow { next: 99 });
    assert_eq!(desk.said.get(&one), Some(&None), "of a node one question stands");
    assert_eq!(desk.said.get(&two), None);
    desk.state.link_ended(desk.now, &1, &"w".repeat(100_000));
    let Some(LogEntry::Died { why, .. }) = desk.state.kept.log.to_vec().pop() else { panic!() };
    assert_eq!(why.len(), 1024);
    desk.hear();
    assert_eq!(desk.said.values().filter(|said| said.is_none()).count(), 1026);
    assert!(desk.state.kept.names.bound.is_empty() && desk.state.waits.len() == 0);
}

#[test]
fn questions_of_non_members_are_refused() {
    let mut desk = Desk::new(2);
    for ask in [
        RegistryQuestion::Follow { next: 0 },
        bind("x", b""),
        lookup("x", 5),
        RegistryQuestion::Leave,
    ] {
        assert_eq!(desk.ask(9, ask), RegistryAnswer::Refused(RegistryRefusal::NotMember));
    }
    desk.state.link_ended(desk.now, &9, "gone");
    desk.state.process_ended(desk.now, 7, "no such rank");
    assert!(desk.state.kept.log.next() == 0);
}

const SECOND: Duration = Duration::from_secs(1);
