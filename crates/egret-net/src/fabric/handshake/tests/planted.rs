//! A check that cannot fail is no check: each fault planted in the handshake is
//! found by the one named here.

use super::{keys, meeting, refusals, secrets, wire};
use crate::fabric::handshake::fault::{Fault, caught};

#[test]
fn planted_faults_are_found() {
    let faults: [(Fault, fn()); 14] = [
        (Fault::SecretForgotten, secrets::another_secret_is_refused),
        (Fault::EphemeralRepeated, secrets::a_replay_is_refused),
        (Fault::EphemeralRepeated, keys::another_connection_has_other_keys),
        (Fault::DirectionsAlike, secrets::an_echo_is_refused),
        (Fault::PrologueForgotten, keys::a_downgrade_is_noticed),
        (Fault::KeyUnchecked, keys::another_key_is_refused),
        (Fault::GuessesAllowed, keys::a_chosen_secret_needs_a_key),
        (Fault::SignUnchecked, keys::a_stranger_is_worth_two_hashes),
        (Fault::DowngradeAllowed, keys::one_side_is_enough_to_seal),
        (Fault::VersionIgnored, refusals::another_version_is_reported),
        (Fault::LengthUnchecked, wire::a_step_is_not_longer_than_it_may_be),
        (Fault::EndOverrun, meeting::what_follows_is_left_alone),
        (Fault::OpeningsForgotten, secrets::an_opening_is_worth_one_handshake),
        (Fault::RefusalBelieved, refusals::a_refusal_without_a_proof_is_not_believed),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
        scene();
    }
}
