//! Open pools, views, signals, and logs of which the first entries are not kept.

use std::time::Duration;

use super::super::limits::BOUND_MAX;
use super::machine::{Desk, bind, joining};
use crate::pool::log::{BYTES_MAX, ENTRIES_MAX};
use crate::pool::state::{ENDED_OPEN, PoolState};
use crate::pool::wire::{JoinRequest, LogEntry, RegistryAnswer, RegistryQuestion};
use crate::pool::{Departure, Event, NodeId, RegistryRefusal};

const TOGETHER: Duration = Duration::from_millis(2);

fn enter(view: &str) -> RegistryQuestion {
    RegistryQuestion::Enter { view: view.into() }
}

/// What a member that follows from this entry on is sent when the time has come.
fn follow(desk: &mut Desk, from: u32, next: u64) -> RegistryAnswer {
    let ticket = desk.asks(from, RegistryQuestion::Follow { next });
    desk.passes(TOGETHER);
    desk.said.remove(&ticket).flatten().expect("there are entries")
}

/// The state that a member receives in pieces which follows from this entry on.
fn snapshot(desk: &mut Desk, from: u32, next: u64) -> PoolState {
    let mut whole = Vec::new();
    loop {
        let RegistryAnswer::Snapshot { offset, total, bytes } = follow(desk, from, next) else {
            panic!("no state after {} bytes of it", whole.len());
        };
        assert_eq!(offset, whole.len() as u64);
        whole.extend(bytes);
        if whole.len() as u64 == total {
            return PoolState::from_bytes(&whole).expect("a sound state");
        }
    }
}

/// A state of several pieces stays the same while entries are written; who has it goes on behind it.
#[test]
fn a_state_comes_in_pieces_while_the_pool_changes() {
    let mut desk = Desk::open(1000);
    for from in 1..=900 {
        let machine = "m".repeat(300);
        desk.ask(from, RegistryQuestion::Join(JoinRequest { machine, ..joining() }));
    }
    let first = follow(&mut desk, 1, 0);
    let RegistryAnswer::Events { first: 0, entries } = first else { panic!("{first:?}") };
    let known = entries.len() as u64;
    // As many have left as make the state shorter than the entries.
    for from in 301..=900 {
        desk.ask(from, RegistryQuestion::Leave);
    }
    let RegistryAnswer::Snapshot { offset: 0, total, bytes } = follow(&mut desk, 1, known) else {
        panic!("entries instead of the state")
    };
    assert!(total > 2 * bytes.len() as u64, "{total}");
    let then = desk.state.kept.log.next();
    desk.ask(2, enter("late"));
    let mut whole = bytes;
    while (whole.len() as u64) < total {
        let piece = follow(&mut desk, 1, known);
        let RegistryAnswer::Snapshot { offset, bytes, .. } = piece else { panic!("{piece:?}") };
        assert_eq!(offset, whole.len() as u64);
        whole.extend(bytes);
    }
    let mut state = PoolState::from_bytes(&whole).expect("a sound state");
    assert_eq!(state.next(), then, "it is the state of one moment");
    let RegistryAnswer::Events { entries, .. } = follow(&mut desk, 1, then) else { panic!() };
    for entry in &entries {
        assert!(state.allows(entry), "{entry:?}");
        state.apply(entry, |_| {});
    }
    assert!(state.view("late").is_some());
    // Others receive the same state, or one that is as new.
    assert_eq!(snapshot(&mut desk, 3, 0).members(), state.members());
}

/// The state that a member is sent is on disk, whatever is written behind it.
#[test]
fn a_member_far_behind_gets_the_state_while_entries_come_faster_than_they_are_written() {
    let mut desk = Desk::lasting(10);
    for from in [1, 2] {
        desk.asks(from, RegistryQuestion::Join(joining()));
    }
    for _ in 0..100 {
        desk.asks(2, enter("here"));
        desk.asks(2, RegistryQuestion::Exit { view: "here".into() });
    }
    desk.written(desk.state.kept.records());
    desk.asks(2, enter("first"));
    let follows = desk.asks(1, RegistryQuestion::Follow { next: 0 });
    for view in 0..5 {
        let before = desk.state.kept.records();
        desk.asks(2, enter(&format!("view {view}")));
        desk.passes(TOGETHER);
        desk.written(before);
    }
    let sent = desk.said.remove(&follows).flatten();
    let Some(RegistryAnswer::Snapshot { offset: 0, total, bytes }) = sent else {
        panic!("{sent:?} instead of the state")
    };
    assert_eq!(bytes.len() as u64, total);
    let state = PoolState::from_bytes(&bytes).expect("a sound state");
    assert!(state.view("first").is_some() && state.view("view 4").is_none());
}

/// A node believes no state and no entry that a registry cannot have.
#[test]
fn states_that_cannot_be_are_refused() {
    let mut desk = Desk::open(10);
    let ids = [desk.join(1), desk.join(2)];
    desk.ask(1, enter("v"));
    let state = desk.state.kept.pool.clone();
    assert_eq!(PoolState::from_bytes(&state.to_bytes()).as_ref(), Some(&state));
    let bytes = state.to_bytes();
    assert_eq!(PoolState::from_bytes(&bytes[1..]), None);
    let node = |rank, incarnation| NodeId { rank, incarnation };
    let view = "v".to_owned();
    for entry in [
        LogEntry::Left(node(5, 6)),
        LogEntry::Left(node(ids[0].rank, 7)),
        LogEntry::Died { node: node(9, 0), why: String::new() },
        LogEntry::Entered { view: view.clone(), node: ids[0] },
        LogEntry::Entered { view: view.clone(), node: node(9, 9) },
        LogEntry::Exited { view, node: ids[1] },
        LogEntry::Joined(state.member(ids[0]).unwrap().clone()),
    ] {
        assert!(!state.allows(&entry), "{entry:?}");
    }
    assert!(state.allows(&LogEntry::Left(ids[1])));
}

#[test]
fn ranks_of_an_open_pool_are_numbers_in_the_order_of_joining() {
    let mut desk = Desk::open(2);
    let (one, two) = (desk.join(1), desk.join(2));
    assert_eq!([one.rank, two.rank], [0, 1]);
    let full = RegistryAnswer::Refused(RegistryRefusal::PoolFull { size: 2 });
    assert_eq!(desk.ask(3, RegistryQuestion::Join(joining())), full);
    assert_eq!(desk.ask(1, RegistryQuestion::Leave), RegistryAnswer::Done);
    assert_eq!(desk.join(4).rank, 2, "no rank is used again");
    let refused = RegistryAnswer::Refused(RegistryRefusal::OpenPool);
    for join in
        [JoinRequest { rank: Some(0), ..joining() }, JoinRequest { size: Some(2), ..joining() }]
    {
        assert_eq!(desk.ask(5, RegistryQuestion::Join(join)), refused);
    }
    let order: Vec<u32> = desk.state.kept.pool.members().keys().copied().collect();
    assert_eq!(order, [1, 2]);
}

/// Also the node that is alone in an open pool waits for names: others may come.
#[test]
fn a_lookup_in_an_open_pool_waits_for_who_comes() {
    let mut desk = Desk::open(4);
    let one = desk.join(1);
    let wait = RegistryQuestion::Lookup { name: "later".into(), wait_ms: 60_000 };
    let ticket = desk.asks(1, wait);
    assert_eq!(desk.said.get(&ticket), None, "{one} waits");
    let two = desk.join(2);
    assert_eq!(desk.ask(2, bind("later", b"x")), RegistryAnswer::Done);
    let bound = RegistryAnswer::Bound { owner: two, bytes: b"x".to_vec() };
    assert_eq!(desk.said.remove(&ticket), Some(Some(bound)));
}

pub(super) fn nobody_joins_a_pool_that_is_closed() {
    let mut desk = Desk::open(4);
    let by = desk.join(1);
    let reached = |next| RegistryAnswer::Reached { next };
    assert_eq!(desk.ask(1, RegistryQuestion::Close), reached(2));
    assert_eq!(desk.ask(1, RegistryQuestion::Close), reached(2));
    let refused = RegistryAnswer::Refused(RegistryRefusal::PoolClosed { by });
    assert_eq!(desk.ask(2, RegistryQuestion::Join(joining())), refused);
    assert_eq!(desk.ask(1, RegistryQuestion::Terminate), reached(3));
    assert_eq!(desk.ask(1, RegistryQuestion::Terminate), reached(3));
    let end = [LogEntry::Closed { by }, LogEntry::Terminated { by }];
    assert_eq!(desk.state.kept.log.to_vec()[1..], end, "each happens once");
}

#[test]
fn who_is_late_is_refused() {
    nobody_joins_a_pool_that_is_closed();
}

#[test]
fn a_view_has_its_members_in_their_order_and_a_first_one() {
    let mut desk = Desk::new(3);
    let all = [desk.join(1), desk.join(2), desk.join(3)];
    for (from, next) in [(2, 4), (1, 5), (3, 6), (1, 6)] {
        assert_eq!(desk.ask(from, enter("v")), RegistryAnswer::Reached { next });
    }
    let view = desk.state.kept.pool.view("v").unwrap().clone();
    assert_eq!(view.members, [all[1], all[0], all[2]]);
    assert_eq!((view.epoch, view.first_since), (6, 4));
    desk.ask(1, RegistryQuestion::Exit { view: "v".into() });
    let view = desk.state.kept.pool.view("v").unwrap().clone();
    assert_eq!((view.epoch, view.first_since), (7, 4), "the first one is still there");
    desk.ask(2, RegistryQuestion::Leave);
    let view = desk.state.kept.pool.view("v").unwrap().clone();
    assert_eq!((view.first(), view.epoch, view.first_since), (Some(all[2]), 8, 8));
    desk.state.link_ended(desk.now, &3, "cut off");
    assert_eq!(desk.state.kept.pool.view("v"), None, "nobody is left");
    desk.ask(1, enter("v"));
    assert_eq!(desk.state.kept.pool.view("v").unwrap().first_since, 10, "and yet the epoch grows");
    let mut events = Vec::new();
    let mut state = PoolState::of_size(Some(3));
    desk.state.kept.log.to_vec().iter().for_each(|entry| state.apply(entry, |it| events.push(it)));
    assert_eq!(state, desk.state.kept.pool, "the log is the state");
    let won = events.into_iter().filter_map(|event| match event {
        Event::Elected { winner, epoch, .. } => Some((winner, epoch)),
        _ => None,
    });
    let won: Vec<_> = won.collect();
    assert_eq!(won, [(Some(all[1]), 4), (Some(all[2]), 8), (None, 9), (Some(all[0]), 10)]);
}

#[test]
fn a_signal_is_for_its_addressees_alone() {
    let mut desk = Desk::new(3);
    let all = [desk.join(1), desk.join(2), desk.join(3)];
    let signal = |bytes: Vec<u8>| RegistryQuestion::Signal { to: vec![all[1]], bytes };
    assert_eq!(desk.ask(1, signal(b"go".to_vec())), RegistryAnswer::Reached { next: 4 });
    let at = |desk: &mut Desk, from| match follow(desk, from, 3) {
        RegistryAnswer::Events { entries, .. } => entries,
        other => panic!("{other:?}"),
    };
    let sent = LogEntry::Signal { from: all[0], to: vec![all[1]], bytes: b"go".to_vec() };
    assert_eq!(at(&mut desk, 2), [sent]);
    let empty = LogEntry::Signal { from: all[0], to: Vec::new(), bytes: Vec::new() };
    assert_eq!(at(&mut desk, 3), [empty], "that there was one");
    let refused = desk.ask(1, signal(vec![0; BOUND_MAX]));
    assert!(matches!(refused, RegistryAnswer::Refused(RegistryRefusal::TooLarge { .. })));
}

/// One member floods all with signals: it is slowed down, and the others are as before.
pub(super) fn a_flood_of_signals() {
    let mut desk = Desk::new(2);
    let (_, two) = (desk.join(1), desk.join(2));
    let signal = |desk: &mut Desk, from| {
        let ask = RegistryQuestion::Signal { to: vec![two], bytes: vec![0; 3000] };
        matches!(desk.ask(from, ask), RegistryAnswer::Reached { .. })
    };
    let sent = (0..10_000).take_while(|_| signal(&mut desk, 1)).count();
    assert!((80..90).contains(&sent), "{sent} signals of 3,000 bytes");
    assert!(signal(&mut desk, 2), "the other one may");
    desk.passes(Duration::from_secs(1));
    let sent = (0..10_000).take_while(|_| signal(&mut desk, 1)).count();
    assert!((20..25).contains(&sent), "{sent} signals in a second");
    desk.passes(Duration::from_secs(6));
    let sent = (0..10_000).take_while(|_| signal(&mut desk, 1)).count();
    assert!((80..90).contains(&sent), "{sent} signals after a while");
}

#[test]
fn a_member_that_floods_is_slowed_down() {
    a_flood_of_signals();
}

#[test]
fn names_are_listed_by_prefix_in_pieces_and_freed() {
    let mut desk = Desk::new(2);
    let (one, two) = (desk.join(1), desk.join(2));
    for number in 0..500 {
        desk.ask(1, bind(&format!("grid/{number:03}"), b""));
    }
    desk.ask(2, bind("grie", b""));
    desk.ask(2, bind("gri", b""));
    let (mut all, mut after, mut pieces) = (Vec::new(), None, 0);
    loop {
        let ask = RegistryQuestion::Names { prefix: "grid/".into(), after };
        let RegistryAnswer::Names { names, more } = desk.ask(1, ask) else { panic!() };
        pieces += 1;
        all.extend(names);
        if !more {
            break;
        }
        after = all.last().map(|(name, _): &(String, NodeId)| name.clone());
    }
    let expected: Vec<_> = (0..500).map(|number| (format!("grid/{number:03}"), one)).collect();
    assert_eq!(all, expected);
    assert!(pieces > 2, "{pieces}");
    let free = |name: &str| RegistryQuestion::Free { name: name.into() };
    let taken = RegistryAnswer::Refused(RegistryRefusal::NameTaken { owner: two });
    assert_eq!(desk.ask(1, free("gri")), taken);
    assert_eq!(desk.ask(2, free("gri")), RegistryAnswer::Done);
    assert_eq!(desk.ask(2, free("gri")), RegistryAnswer::NotBound);
}

/// A suspect that waits for events is probed at once, and dies if it does not answer.
#[test]
fn a_suspect_is_probed_at_once() {
    let mut desk = Desk::new(2);
    let (_, two) = (desk.join(1), desk.join(2));
    let standing = desk.asks(2, RegistryQuestion::Follow { next: 2 });
    assert_eq!(desk.said.get(&standing), None);
    let suspect = |desk: &mut Desk| desk.ask(1, RegistryQuestion::Suspect { node: two });
    assert_eq!(suspect(&mut desk), RegistryAnswer::Done);
    assert_eq!(desk.said.get(&standing), None, "it has just asked");
    desk.passes(Duration::from_millis(100));
    assert_eq!(desk.ask(1, RegistryQuestion::Suspect { node: two }), RegistryAnswer::Done);
    let probe = RegistryAnswer::Events { first: 2, entries: Vec::new() };
    assert_eq!(desk.said.remove(&standing), Some(Some(probe)));
    desk.passes(Duration::from_secs(8));
    assert!(matches!(desk.state.kept.pool.fate(two), Some(Departure::Died { .. })));
}

/// Nodes come and go for ever: what is kept has bounds, and who comes late has the state.
#[test]
fn a_hundred_thousand_lives_take_bounded_memory() {
    let mut desk = Desk::open(64);
    let first = desk.join(1);
    desk.ask(1, enter("long"));
    for from in 2..100_002 {
        desk.join(from);
        desk.said.clear();
        assert_eq!(desk.ask(from, RegistryQuestion::Leave), RegistryAnswer::Done);
        desk.state.link_ended(desk.now, &from, "it has left");
    }
    let log = &desk.state.kept.log;
    assert!(log.next() - log.first() <= ENTRIES_MAX as u64);
    assert!(log.from(log.first()).map(|(_, bytes)| bytes).sum::<usize>() <= BYTES_MAX);
    assert!(desk.state.seats.len() == 1);
    let state = snapshot(&mut desk, 1, 0);
    assert_eq!(state.members().values().map(|it| it.id).collect::<Vec<_>>(), [first]);
    assert_eq!(state.view("long").unwrap().first(), Some(first));
    assert_eq!(state.next(), desk.state.kept.log.next());
    assert!(state.to_bytes().len() < 64 << 10, "{} bytes", state.to_bytes().len());
    // What is forgotten is gone all the same.
    let long_ago = NodeId { rank: 1, incarnation: 2 };
    assert!(matches!(state.fate(long_ago), Some(Departure::Died { .. })));
    assert_eq!(state.fate(NodeId { rank: 100_001, incarnation: 100_002 }), None, "not yet there");
    let mut state = PoolState::of_size(None);
    for incarnation in 1..=ENDED_OPEN as u64 + 10 {
        let node = NodeId { rank: u32::try_from(incarnation).unwrap(), incarnation };
        state.apply(&LogEntry::Left(node), |_| {});
    }
    assert_eq!(state.ended(), ENDED_OPEN);
}

/// In a closed pool the last life of each rank is remembered, however often another one ends.
#[test]
fn the_last_life_of_each_rank_of_a_closed_pool_is_remembered() {
    let mut state = PoolState::of_size(Some(2));
    let quiet = NodeId { rank: 0, incarnation: 1 };
    state.apply(&LogEntry::Left(quiet), |_| {});
    for incarnation in 2..10_000 {
        state.apply(&LogEntry::Left(NodeId { rank: 1, incarnation }), |_| {});
    }
    assert_eq!(state.ended(), 4096);
    assert_eq!(state.last(0), Some((quiet, Some(&Departure::Left))));
    assert!(state.is_complete());
    let sent = state.snapshot();
    assert_eq!((sent.ended(), sent.last(0)), (1025, state.last(0)), "the latest, and that");
}
