//! Nodes that have proven a key.

use std::time::Duration;

use egret_net::rt::Instant;
use egret_net::vi::PublicKey;

use super::super::record::KeptState;
use super::super::state::{PoolTerms, RegistryState};
use crate::pool::wire::{JoinRequest, RegistryAnswer, RegistryQuestion};
use crate::pool::{Departure, FabricOffer, Location, NodeId, Properties, RegistryRefusal};

pub(super) fn state() -> RegistryState<u32> {
    let (silent, patience) = (Duration::from_secs(2), Duration::from_secs(8));
    RegistryState::new(PoolTerms {
        pool: "p".into(),
        size: 3,
        is_open: false,
        silent,
        patience,
        resume: None,
    })
}

/// Asks over a link by which this key was proven.
fn ask(
    state: &mut RegistryState<u32>,
    link: u32,
    key: u8,
    ask: RegistryQuestion,
) -> RegistryAnswer {
    let key = PublicKey::from_bytes([key; 32]);
    state.ask(Instant::default(), (&link, Some(key)), link.into(), ask);
    let mut said = state.take_out().into_iter();
    let answer = said.find_map(|(ticket, answer)| answer.filter(|_| ticket == link.into()));
    RegistryAnswer::clone(&answer.unwrap())
}

/// Joins with `tcp` at a host.
pub(super) fn join(
    state: &mut RegistryState<u32>,
    link: u32,
    key: u8,
    host: &str,
) -> Result<NodeId, RegistryRefusal> {
    let fabrics = vec![FabricOffer::new("tcp", host, Properties::network())];
    let join = JoinRequest {
        pool: "p".into(),
        size: None,
        rank: None,
        is_open: false,
        machine: "m".into(),
        location: Location::default(),
        fabrics,
    };
    match ask(state, link, key, RegistryQuestion::Join(join)) {
        RegistryAnswer::Welcome { id, .. } => Ok(id),
        RegistryAnswer::Refused(why) => Err(why),
        other => panic!("{other:?}"),
    }
}

#[test]
pub(super) fn a_key_that_had_a_life_has_no_other() {
    let mut state = state();
    let by = join(&mut state, 1, 1, "a").unwrap();
    let used = Err(RegistryRefusal::KeyUsed { by });
    assert_eq!(join(&mut state, 2, 1, "b"), used, "it has one");
    assert_eq!(ask(&mut state, 1, 1, RegistryQuestion::Leave), RegistryAnswer::Done);
    assert_eq!(join(&mut state, 3, 1, "a"), used, "it had one");
    let by = join(&mut state, 4, 2, "a").unwrap();
    state.process_ended(Instant::default(), by.rank, "it was killed");
    let used = Err(RegistryRefusal::KeyUsed { by });
    assert_eq!(join(&mut state, 5, 2, "a"), used, "it was declared dead");
    assert!(join(&mut state, 6, 3, "a").is_ok());
}

#[test]
pub(super) fn a_join_at_the_host_of_a_member_is_refused() {
    let mut state = state();
    let by = join(&mut state, 1, 1, "a").unwrap();
    let taken = Err(RegistryRefusal::HostTaken { host: "a".into(), by });
    assert_eq!(join(&mut state, 2, 2, "a"), taken);
    assert!(join(&mut state, 3, 3, "b").is_ok());
    assert_eq!(ask(&mut state, 1, 1, RegistryQuestion::Leave), RegistryAnswer::Done);
    assert!(join(&mut state, 4, 4, "a").is_ok(), "the member is gone");
}

/// Whose link stays, and whose goes.
#[test]
fn links_are_for_members() {
    let mut state = state();
    let id = join(&mut state, 1, 1, "a").unwrap();
    assert!(join(&mut state, 2, 2, "a").is_err());
    assert_eq!(state.take_moved(), [(1, true)], "who is refused stays unlisted");
    join(&mut state, 3, 3, "b").unwrap();
    assert_eq!(ask(&mut state, 3, 3, RegistryQuestion::Leave), RegistryAnswer::Done);
    state.process_ended(Instant::default(), id.rank, "it was killed");
    assert_eq!(state.take_moved(), [(3, true), (3, false), (1, false)]);
}

#[test]
pub(super) fn only_the_operator_declares_nodes_dead() {
    let mut state = state();
    state.operated_by(Some(PublicKey::from_bytes([9; 32])));
    let id = join(&mut state, 1, 1, "a").unwrap();
    let why = || "its process was killed".to_owned();
    let questions = [
        RegistryQuestion::Operate { pool: "p".into() },
        RegistryQuestion::DeclareDead { node: id, why: why() },
        RegistryQuestion::Ended { rank: id.rank, lives: 0, why: why() },
    ];
    let refused = RegistryAnswer::Refused(RegistryRefusal::NotOperator);
    for question in questions {
        assert_eq!(ask(&mut state, 1, 1, question.clone()), refused, "by a member");
        assert_eq!(ask(&mut state, 2, 2, question), refused, "by one who is none");
    }
    assert!(state.kept.pool.member(id).is_some(), "it lives");
    let other = RegistryQuestion::Operate { pool: "q".into() };
    let refused = RegistryRefusal::OtherPool { pool: "p".into() };
    assert_eq!(ask(&mut state, 3, 9, other), RegistryAnswer::Refused(refused));
    let terms = RegistryAnswer::Terms { size: 3, is_open: false, lives: 1 };
    assert_eq!(ask(&mut state, 3, 9, RegistryQuestion::Operate { pool: "p".into() }), terms);
    let ended = |lives, rank| RegistryQuestion::Ended { rank, lives, why: why() };
    assert_eq!(ask(&mut state, 3, 9, ended(1, id.rank)), RegistryAnswer::Done);
    assert!(state.kept.pool.member(id).is_some(), "the process of another job has had the rank");
    assert_eq!(ask(&mut state, 3, 9, ended(0, id.rank)), RegistryAnswer::Done);
    let fate = Departure::Died { why: why() };
    assert_eq!(state.kept.pool.fate(id), Some(fate.clone()));
    assert_eq!(ask(&mut state, 3, 9, ended(1, 2)), RegistryAnswer::Done);
    let absent = NodeId { rank: 2, incarnation: 0 };
    assert_eq!(state.kept.pool.fate(absent), Some(fate.clone()), "nobody waits for it");
    let node = join(&mut state, 4, 4, "b").unwrap();
    let declare = RegistryQuestion::DeclareDead { node, why: why() };
    assert_eq!(ask(&mut state, 3, 9, declare), RegistryAnswer::Done);
    assert_eq!(state.kept.pool.fate(node), Some(fate));
}

#[test]
fn a_member_that_resumes_twice_over_one_link_is_welcome() {
    let mut state = state();
    let id = join(&mut state, 1, 1, "a").unwrap();
    let resume = || RegistryQuestion::Resume { id, next: 1 };
    for _ in 0..2 {
        let answer = ask(&mut state, 2, 1, resume());
        assert!(matches!(answer, RegistryAnswer::Welcome { .. }), "{answer:?}");
    }
    let not_its_key = RegistryAnswer::Refused(RegistryRefusal::NotMember);
    assert_eq!(ask(&mut state, 3, 3, resume()), not_its_key);
    assert!(state.kept.pool.member(id).is_some());
}

#[test]
pub(super) fn a_dead_member_does_not_resume() {
    let mut state = state();
    let id = join(&mut state, 1, 1, "a").unwrap();
    state.link_ended(Instant::default(), &1, "cut off");
    let answer = ask(&mut state, 2, 1, RegistryQuestion::Resume { id, next: 1 });
    let fenced = RegistryRefusal::Fenced { why: "cut off".into() };
    assert_eq!(answer, RegistryAnswer::Refused(fenced));
}

#[test]
pub(super) fn a_question_that_is_asked_again_is_carried_out_once() {
    let mut state = state();
    let id = join(&mut state, 1, 1, "a").unwrap();
    let before = state.kept.log.next();
    let from = (&1, Some(PublicKey::from_bytes([1; 32])));
    for ticket in 1..=2 {
        let signal = RegistryQuestion::Signal { to: vec![id], bytes: b"once".to_vec() };
        state.ask_numbered(Instant::default(), from, ticket, (signal, 7, 7));
        let answers: Vec<_> = state.take_out().into_iter().filter_map(|(_, it)| it).collect();
        let reached = RegistryAnswer::Reached { next: before + 1 };
        assert!(answers.iter().any(|it| **it == reached), "{answers:?}");
    }
    assert_eq!(state.kept.log.next(), before + 1);
}

#[test]
pub(super) fn a_state_is_read_as_it_was_written() {
    let mut state = state();
    join(&mut state, 1, 1, "a").unwrap();
    let bound = RegistryQuestion::Bind { name: "n".into(), bytes: vec![1], replace: false };
    assert_eq!(ask(&mut state, 1, 1, bound), RegistryAnswer::Done);
    ask(&mut state, 1, 1, RegistryQuestion::Enter { view: "v".into() });
    let (kept, terms) = (&state.kept, &state.terms);
    assert_eq!(KeptState::from_bytes(&kept.to_bytes(terms), terms).as_ref(), Ok(kept));
}
