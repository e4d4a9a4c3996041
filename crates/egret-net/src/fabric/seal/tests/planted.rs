//! A check that cannot fail is no check: each fault planted here is found by the one named here.

use super::{counted, numbered};
use crate::fabric::seal::fault::{Fault, caught};

#[test]
fn planted_faults_are_found() {
    let faults: [(Fault, fn()); 6] = [
        (Fault::TagUnchecked, counted::what_is_beside),
        (Fault::NumberKept, counted::in_order_and_once),
        (Fault::KeyKept, counted::keys_change),
        (Fault::RepeatTaken, numbered::once),
        (Fault::MarkedUnproven, numbered::once),
        (Fault::KeyDropped, numbered::late_over_a_change),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
        scene();
    }
}
