//! A check that cannot fail is no check: each fault planted in the rendezvous
//! is found by the one named here.

use super::super::fault::{Fault, caught};
use super::{meeting, proxy, trust, wire};

#[test]
fn planted_faults_are_found() {
    let faults: [(Fault, fn()); 11] = [
        (Fault::UserUnchecked, meeting::a_stranger_is_refused),
        (Fault::SurplusLeaked, wire::surplus_descriptors_are_closed),
        (Fault::VersionIgnored, wire::another_version_is_refused),
        (Fault::EndIsSilence, meeting::the_end_is_seen),
        (Fault::ResetIsEnd, meeting::last_words_are_heard),
        (Fault::ExecutableUnchecked, trust::another_executable_is_seen),
        (Fault::SecretUnchecked, trust::a_guess_is_refused),
        (Fault::VerdictIgnored, trust::the_hosts_verdict_counts),
        (Fault::RoleForgotten, trust::an_echo_is_refused),
        (Fault::NonceRepeated, trust::a_replay_is_refused),
        (Fault::ProcessesForgotten, proxy::a_relay_is_not_trusted),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
        scene();
    }
    let truncated = crate::fabric::hub::bytes::Fault::TruncatedAccepted;
    assert!(caught(truncated, wire::a_greeting_is_whole), "{truncated:?} was not found");
    wire::a_greeting_is_whole();
}
