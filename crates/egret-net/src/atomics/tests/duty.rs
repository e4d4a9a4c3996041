//! Every interleaving of a thread on duty and its standby, by the model checker, and what the
//! checks say to planted faults.

use std::sync::Arc;

use loom::thread;

use super::super::StdAtomics;
use super::super::checker::{LoomAtomics, check};
use super::super::duty::{Duty, Fault};
use crate::fault::caught;

/// One thread ends what another takes over meanwhile: one of both is on duty.
fn one_is_on_duty() {
    let duty = Arc::new(Duty::<LoomAtomics>::new());
    let begun = duty.begin();
    let seen = duty.count();
    let standby = thread::spawn({
        let duty = Arc::clone(&duty);
        move || duty.take_over(seen)
    });
    let stays = duty.end(begun);
    assert!(stays != standby.join().unwrap(), "one of both is on duty");
}

/// A standby goes to rest while something is begun: it goes on, or it is called.
fn watches_or_is_called() {
    let duty = Arc::new(Duty::<LoomAtomics>::new());
    duty.watch();
    let seen = duty.count();
    let standby = thread::spawn({
        let duty = Arc::clone(&duty);
        move || duty.rest(seen)
    });
    let begun = duty.begin();
    let rests = standby.join().unwrap();
    assert!(begun.wakes_standby || !rests, "nobody watches, and nobody was called");
    assert!(duty.end(begun));
}

#[test]
fn a_thread_that_is_taken_over_from_knows_it() {
    check(one_is_on_duty);
}

#[test]
fn what_is_begun_is_watched() {
    check(watches_or_is_called);
}

#[test]
fn what_has_ended_is_not_taken_over() {
    let duty = Duty::<StdAtomics>::new();
    let begun = duty.begin();
    let seen = duty.count();
    assert!(duty.end(begun));
    assert!(!duty.take_over(seen), "it has ended");
    assert!(!duty.take_over(duty.count()), "nothing is under way");
    let _again = duty.begin();
    assert!(!duty.take_over(seen), "something else is");
}

#[test]
fn every_planted_fault_is_found() {
    let faults: [(Fault, fn()); 3] = [
        (Fault::Unfenced, watches_or_is_called),
        (Fault::TwoOnDuty, one_is_on_duty),
        (Fault::InTwoSteps, one_is_on_duty),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, || check(scene)), "{fault:?}");
    }
}
