//! Every fault that can be planted is caught by a test that is not about it.

use super::seeds::{try_crews, try_seeds};
use super::{ended, flood, gathered, moved, parted, returned};
use crate::am::fault::{Fault, caught};

/// Faults that the trials find in a few seeds.
const FOUND: &[Fault] = &[
    Fault::Twice,
    Fault::CreditKept,
    Fault::OtherCall,
    Fault::SaidLost,
    Fault::Boundless,
    Fault::Untold,
    Fault::Leaky,
    Fault::NumberFree,
    Fault::PiecesSwapped,
    Fault::EndUntold,
    Fault::EndTwice,
    Fault::Overtakes,
    Fault::NotPlaced,
];

#[test]
fn trials_find_what_is_planted() {
    for fault in FOUND {
        assert!(caught(*fault, || drop(try_seeds(0..40))), "{fault:?} goes unnoticed");
    }
}

#[test]
fn trials_of_nodes_with_threads_find_what_is_planted() {
    for fault in [Fault::RestUncalled, Fault::Twice, Fault::CreditKept, Fault::EndUntold] {
        assert!(caught(fault, || drop(try_crews(0..60))), "{fault:?} goes unnoticed");
    }
}

#[test]
fn an_end_that_is_not_told_once_is_found() {
    for fault in [Fault::EndUntold, Fault::EndTwice] {
        assert!(
            caught(fault, ended::the_end_of_a_mapping_is_reported_once),
            "{fault:?} goes unnoticed"
        );
    }
}

#[test]
fn a_reason_that_overtakes_is_found() {
    let test = parted::what_was_sent_before_arrives_and_then_the_reason;
    assert!(caught(Fault::Hasty, test), "it goes unnoticed");
}

#[test]
fn pieces_in_another_order_are_found() {
    let test = gathered::pieces_arrive_behind_each_other;
    assert!(caught(Fault::PiecesSwapped, test), "it goes unnoticed");
}

#[test]
fn a_window_that_is_not_the_endpoints_is_found() {
    let test = ended::an_endpoint_has_the_window_that_it_was_given;
    assert!(caught(Fault::OtherWindow, test), "it goes unnoticed");
}

#[test]
fn a_receive_that_is_not_posted_again_is_found() {
    let test = flood::more_messages_than_receives_come_once_and_in_order;
    assert!(caught(Fault::NotPosted, test), "it goes unnoticed");
}

#[test]
fn data_that_is_held_against_each_other_is_found() {
    let test = returned::two_sides_that_send_data_back_do_not_wait_for_each_other;
    assert!(caught(Fault::HeldAgainst, test), "it goes unnoticed");
}

#[test]
fn a_move_that_changes_the_order_is_found() {
    let test = moved::what_comes_during_a_move_is_served_after_it_in_order;
    assert!(caught(Fault::MovedAround, test), "it goes unnoticed");
}
