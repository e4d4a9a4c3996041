//! Every fault that can be planted is caught by a test that is not about it.

use super::seeds::try_seeds;
use super::{flood, moved};
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
];

#[test]
fn trials_find_what_is_planted() {
    for fault in FOUND {
        assert!(caught(*fault, || drop(try_seeds(0..40))), "{fault:?} goes unnoticed");
    }
}

#[test]
fn a_receive_that_is_not_posted_again_is_found() {
    let test = flood::more_messages_than_receives_come_once_and_in_order;
    assert!(caught(Fault::NotPosted, test), "it goes unnoticed");
}

#[test]
fn a_move_that_changes_the_order_is_found() {
    let test = moved::what_comes_during_a_move_is_served_after_it_in_order;
    assert!(caught(Fault::MovedAround, test), "it goes unnoticed");
}
