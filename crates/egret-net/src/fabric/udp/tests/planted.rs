//! A check that cannot fail is no check: each fault planted here is found by the
//! one named here.

use super::{hostile, multicast, pulse, recv, wire};
use crate::fabric::udp::fault::{Fault, caught};

fn over_a_bad_network() {
    for seed in 0..20 {
        recv::over_any_network(&[10, 900, 3_000, 2_000, 700, 400], seed, 10, 3);
    }
}

#[test]
fn checks_find_planted_faults() {
    let faults: [(Fault, fn()); 10] = [
        (Fault::LengthIgnored, wire::lengths_are_checked),
        (Fault::DoubleCounted, recv::nothing_comes_twice),
        (Fault::OverForgotten, recv::nothing_comes_twice),
        (Fault::OverForgotten, over_a_bad_network),
        (Fault::LiesBelieved, recv::lies_are_not_believed),
        (Fault::GivenUpKept, recv::messages_at_once_are_bounded),
        (Fault::SilenceIgnored, pulse::silence_is_death),
        (Fault::SourceIgnored, hostile::another_source_is_no_peer),
        (Fault::TokenIgnored, hostile::floods_are_bounded),
        (Fault::SignatureIgnored, multicast::only_members_are_heard),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
    }
}
