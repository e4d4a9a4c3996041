//! A check that cannot fail is no check: each fault planted here is found by the
//! one named here.

use super::{orders, scenes};
use crate::atomics::checker::check;
use crate::fabric::shm::fault::{Fault, caught};

#[test]
fn loom_finds_planted_faults() {
    let faults: [(Fault, fn()); 7] = [
        (Fault::GateBeforeInside, orders::waits_for_who_is_inside),
        (Fault::GateBeforeInside, orders::opens_again),
        (Fault::EnterUnfenced, orders::waits_for_who_is_inside),
        (Fault::ShutUnfenced, orders::waits_for_who_is_inside),
        (Fault::OutUnfenced, orders::waits_for_who_is_inside),
        (Fault::LeaveUnfenced, orders::does_not_wait),
        (Fault::ShutUnfenced, orders::does_not_wait),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, || check(scene)), "{fault:?} was not found");
    }
}

#[test]
fn other_checks_find_planted_faults() {
    let faults: [(Fault, fn()); 2] =
        [(Fault::WriteOvertakes, scenes::in_order), (Fault::InsideIgnored, scenes::stands_still)];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
    }
}
