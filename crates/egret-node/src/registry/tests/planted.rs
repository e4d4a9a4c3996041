//! Every fault that can be planted is caught by a test that is not about it.

use super::super::fault::{Fault, caught};
use super::super::names;
use super::seeds::{try_restarts, try_seeds};
use super::{keys, machine, open};
use crate::pool::fault as pool;

/// Faults that the trials find in a few seeds.
const FOUND: &[Fault] =
    &[Fault::SameIncarnation, Fault::NamesKept, Fault::Skipped, Fault::Reordered, Fault::TwiceDead];

/// Faults of a registry that keeps its state, which the trials with restarts find in a few seeds.
const FOUND_BY_RESTARTS: &[Fault] = &[
    Fault::AnsweredEarly,
    Fault::TornKept,
    Fault::ChecksumUnread,
    Fault::ViewsUnread,
    Fault::Doubled,
    Fault::LivesForgotten,
    Fault::Graceless,
];

#[test]
fn trials_with_restarts_find_what_is_planted() {
    // Without a fault the same seeds find nothing.
    _ = try_restarts(0..30);
    let unseen = |fault: &&Fault| !caught(**fault, || _ = try_restarts(0..30));
    assert!(pool::caught(pool::Fault::EpochKept, || _ = try_restarts(0..30)), "goes unnoticed");
    let unseen: Vec<_> = FOUND_BY_RESTARTS.iter().filter(unseen).collect();
    assert!(unseen.is_empty(), "{unseen:?} go unnoticed");
}

#[test]
fn a_registry_that_forgets_or_remembers_too_much_is_found() {
    assert!(caught(Fault::NamesUnsaved, keys::a_state_is_read_as_it_was_written));
    assert!(caught(
        Fault::CarriedOutTwice,
        keys::a_question_that_is_asked_again_is_carried_out_once
    ));
    assert!(caught(Fault::DeadResumed, keys::a_dead_member_does_not_resume));
}

#[test]
fn trials_find_what_is_planted() {
    for fault in FOUND {
        assert!(caught(*fault, || _ = try_seeds(0..20)), "{fault:?} goes unnoticed");
    }
}

#[test]
fn a_registry_that_is_too_patient_or_not_enough_is_found() {
    let test = machine::a_silent_node_is_asked_and_given_up_only_if_it_does_not_answer;
    for fault in [Fault::NotFenced, Fault::Deaf, Fault::Unasked] {
        assert!(caught(fault, test), "{fault:?} goes unnoticed");
    }
}

#[test]
fn a_registry_that_forgives_nothing_is_found() {
    let test = machine::a_stopped_registry_declares_no_node_dead;
    assert!(caught(Fault::Unforgiving, test), "it goes unnoticed");
}

#[test]
fn a_registry_that_takes_back_any_name_is_found() {
    let test = machine::a_name_that_was_bound_anew_is_not_taken_back;
    assert!(caught(Fault::AnyUnbound, test), "it goes unnoticed");
}

#[test]
fn a_wait_in_vain_is_found() {
    let test = machine::a_lookup_ends_when_the_name_cannot_be_bound;
    assert!(caught(Fault::InVain, test), "it goes unnoticed");
}

#[test]
fn a_wait_that_is_forgotten_is_found() {
    let test = machine::a_lookup_is_answered_when_the_name_is_bound;
    assert!(caught(Fault::WaitForgotten, test), "it goes unnoticed");
}

#[test]
fn a_registry_that_takes_one_for_another_is_found() {
    assert!(caught(Fault::KeyReused, keys::a_key_that_had_a_life_has_no_other));
    assert!(caught(Fault::AnyOperator, keys::only_the_operator_declares_nodes_dead));
    assert!(caught(Fault::HostShared, keys::a_join_at_the_host_of_a_member_is_refused));
}

#[test]
fn a_registry_whose_names_have_no_limit_is_found() {
    let test = names::tests::names_of_all_have_a_limit_and_each_node_has_its_share;
    assert!(caught(Fault::NamesUnlimited, test));
}

#[test]
fn a_member_that_may_flood_all_is_found() {
    assert!(caught(Fault::Unthrottled, open::a_flood_of_signals));
}

#[test]
fn a_pool_that_is_closed_and_takes_nodes_is_found() {
    assert!(caught(Fault::ClosedOpen, open::nobody_joins_a_pool_that_is_closed));
}
