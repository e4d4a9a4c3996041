//! A check that cannot fail is no check: each fault planted in the greeting is
//! found by the one named here.

use super::{meeting, refusals, secrets, wire};
use crate::fabric::greet::fault::{Fault, caught};

#[test]
fn planted_faults_are_found() {
    let faults: [(Fault, fn()); 8] = [
        (Fault::ProofUnchecked, secrets::another_secret_is_refused),
        (Fault::SideForgotten, secrets::an_echo_is_refused),
        (Fault::NonceRepeated, secrets::a_replay_is_refused),
        (Fault::WordsUnproven, secrets::a_changed_byte_is_refused),
        (Fault::VersionIgnored, refusals::another_version_is_told),
        (Fault::LengthUnchecked, wire::a_step_is_not_longer_than_it_may_be),
        (Fault::EndOverrun, meeting::what_follows_is_left_alone),
        (Fault::RefusalBelieved, refusals::a_refusal_without_a_proof_is_not_believed),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
        scene();
    }
}
