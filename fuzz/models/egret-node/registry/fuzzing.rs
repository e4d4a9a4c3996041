//! Where fuzzers come in: whatever anybody asks the registry, and whatever it might tell a
//! node. Not for use.

use std::collections::BTreeSet;
use std::time::Duration;

use egret_net::rt::Instant;

use super::limits::{NAMES_MAX, WAITS_MAX};
use super::state::{PoolTerms, RegistryState};

use crate::node::FuzzedView;
use crate::pool::Location;
use crate::pool::wire::{JoinRequest, LogEntry, NAME_MAX, RegistryAnswer, RegistryQuestion};

/// Peers ask anything, in any order: pieces of the input, each behind three bytes that say
/// who asks, what happens before, and how long it is.
pub fn questions(mut input: &[u8]) {
    let (silent, patience) = (Duration::from_secs(2), Duration::from_secs(8));
    let mut state = RegistryState::new(PoolTerms {
        pool: "p".into(),
        size: 3,
        is_open: false,
        silent,
        patience,
        resume: None,
    });
    let (mut now, mut open) = (Instant::default(), BTreeSet::new());
    let mut ticket = 0_u64;
    while let [who, before, len, rest @ ..] = input {
        let (piece, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        (input, ticket) = (rest, ticket + 1);
        let from = u32::from(who % 5);
        match before % 8 {
            0 => state.link_ended(now, &from, "it ended"),
            1 => state.process_ended(now, from, "it ended"),
            2 => {
                now = now + Duration::from_millis(u64::from(*who) * 50);
                state.tick(now);
            }
            3 => state.ask(now, (&from, None), ticket, RegistryQuestion::Join(join())),
            _ => {}
        }
        if before % 8 == 3 {
            open.insert(ticket);
            ticket += 1;
        }
        if let Some(ask) = RegistryQuestion::from_bytes(piece) {
            open.insert(ticket);
            state.ask(now, (&from, None), ticket, ask);
        }
        for (answered, said) in state.take_out() {
            assert!(open.remove(&answered), "answered twice, or without a question");
            if let Some(said) = said {
                assert_eq!(RegistryAnswer::from_bytes(&said.to_bytes()).as_ref(), Some(&*said));
            }
        }
        check(&state, open.len());
    }
}

/// A registry tells a node anything: pieces of the input, each behind its length.
pub fn tidings(mut input: &[u8]) {
    let mut told = FuzzedView::default();
    while let [len, rest @ ..] = input {
        let (piece, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        input = rest;
        match RegistryAnswer::from_bytes(piece) {
            Some(RegistryAnswer::Events { first, entries }) => told.learn(first, &entries),
            Some(RegistryAnswer::Snapshot { offset, total, bytes }) => {
                told.collect(offset, total, &bytes);
            }
            _ => {}
        }
    }
    told.check();
}

fn join() -> JoinRequest {
    JoinRequest {
        pool: "p".into(),
        size: None,
        rank: None,
        is_open: false,
        machine: "m".into(),
        location: Location::default(),
        fabrics: Vec::new(),
    }
}

fn check(state: &RegistryState<u32>, open: usize) {
    let standing = state.seats.values().filter(|seat| seat.follow.is_some()).count();
    assert_eq!(open, standing + state.waits.len(), "every question is answered or kept");
    assert!(state.waits.len() <= 5 * WAITS_MAX);
    assert!(state.kept.names.bound.len() <= 5 * NAMES_MAX);
    assert!(state.kept.names.bound.keys().all(|name| name.len() <= NAME_MAX));
    assert!(state.kept.names.last.len() <= 3 * 2 * NAMES_MAX);
    let both = |name| state.kept.names.bound.contains_key(name);
    assert!(!state.kept.names.last.keys().any(both), "a name is bound or free");
    let here: BTreeSet<_> = state.kept.pool.members().values().map(|member| member.id).collect();
    assert!(here.len() <= 3, "no more than the pool has");
    let owners = state.kept.names.bound.values();
    owners.for_each(|(owner, _)| assert!(here.contains(owner), "a name without its node"));
    let mut lives = BTreeSet::new();
    for (entry, _) in state.kept.log.from(state.kept.log.first()) {
        if let LogEntry::Joined(member) = entry {
            assert!(lives.insert(member.id.incarnation), "a life that began twice");
        }
    }
}
