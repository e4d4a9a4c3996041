//! A check that cannot fail is no check: each fault planted here is found by the
//! one named here.

use super::{loans, orders, reaper};
use crate::atomics::checker::check;
use crate::buf::{BufFault, buf_caught};
use crate::fabric::shm::fault::{Fault, caught};

#[test]
fn loom_finds_planted_faults() {
    let faults: [(Fault, fn()); 3] = [
        (Fault::ReturnRelaxed, orders::comes_again),
        (Fault::ReturnsUnfenced, orders::one_way_home),
        (Fault::LeaveUnlocked, orders::not_held),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, || check(scene)), "{fault:?} was not found");
    }
    let faults: [(BufFault, fn()); 2] =
        [(BufFault::DepartLate, orders::comes_again), (BufFault::DepartRelaxed, orders::leaves)];
    for (fault, scene) in faults {
        assert!(buf_caught(fault, || check(scene)), "{fault:?} was not found");
    }
}

#[test]
fn other_checks_find_planted_faults() {
    let faults: [(Fault, fn()); 4] = [
        (Fault::ReturnForgotten, loans::dropped_returns),
        (Fault::HeldForgotten, reaper::held_stays_out),
        (Fault::OrphansDropped, reaper::held_stays_out),
        (Fault::GoneUnasked, loans::the_kernel_is_asked),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
    }
    let faults: [(BufFault, fn()); 4] = [
        (BufFault::AdoptUnsealed, loans::unsealed_is_not_adopted),
        (BufFault::ArriveTwice, loans::handed_over_twice),
        (BufFault::LendParts, loans::parts_stay),
        (BufFault::VisitMiscounts, loans::mapped_while_needed),
    ];
    for (fault, scene) in faults {
        assert!(buf_caught(fault, scene), "{fault:?} was not found");
    }
}
