//! A check that cannot fail is no check: each fault planted here is found by the
//! one named here.

use super::whole;
use crate::fabric::shm::fault::{Fault, caught};

#[test]
fn planted_faults_are_found() {
    let faults: [(Fault, fn()); 6] = [
        (Fault::BackIgnored, whole::the_very_buffer),
        (Fault::HandedLength, whole::the_very_buffer),
        (Fault::ReturnsLate, whole::exhausted),
        (Fault::ReturnSilent, whole::sleeping_home),
        (Fault::UnreceivedForgotten, whole::unreceived),
        (Fault::FileForAll, whole::isolated),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
    }
}
