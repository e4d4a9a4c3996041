//! A check that cannot fail is no check: each fault planted here is found by the
//! one named here.

use super::{acceptor, hostile, keep_alive, multicast, recv, sealed, wire};
use crate::fabric::seal::Fault as SealingPort;
use crate::fabric::udp::fault::{Fault, caught};

fn over_a_bad_network() {
    for seed in 0..20 {
        recv::over_any_network(&[10, 900, 3_000, 2_000, 700, 400], seed, 10, 3);
    }
}

#[test]
fn checks_find_planted_faults() {
    let faults: [(Fault, fn()); 17] = [
        (Fault::LengthIgnored, wire::lengths_are_checked),
        (Fault::OpeningShown, acceptor::an_opening_is_shown_with_a_token_only),
        (Fault::AnswersMixed, acceptor::an_opening_that_is_answered_twice_is_answered),
        (Fault::CrowdHeard, acceptor::a_place_comes_before_a_handshake),
        (Fault::DoubleCounted, recv::nothing_comes_twice),
        (Fault::OverForgotten, recv::nothing_comes_twice),
        (Fault::OverForgotten, over_a_bad_network),
        (Fault::LiesBelieved, recv::lies_are_not_believed),
        (Fault::GivenUpKept, recv::messages_at_once_are_bounded),
        (Fault::SilenceIgnored, keep_alive::silence_is_death),
        (Fault::SourceIgnored, hostile::another_source_is_no_peer),
        (Fault::TokenIgnored, hostile::floods_are_bounded),
        (Fault::SignatureIgnored, multicast::only_members_are_heard),
        (Fault::PlainBelieved, sealed::what_is_not_sealed_is_ignored),
        (Fault::PlainBelieved, sealed::hearsay_is_ignored),
        (Fault::SealedTwice, sealed::train::one_that_waits_is_sealed_once),
        (Fault::SourceIgnored, sealed::another_source_is_no_peer),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
    }
    let faults: [(SealingPort, fn()); 4] = [
        (SealingPort::TagUnchecked, sealed::changed_datagrams_are_dropped),
        (SealingPort::RepeatTaken, sealed::repeated_datagrams_are_dropped),
        (SealingPort::MarkedUnproven, sealed::changed_datagrams_are_dropped),
        (SealingPort::RepeatTaken, sealed::train::what_comes_together_is_opened_each),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
    }
}
