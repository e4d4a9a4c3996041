//! A check that cannot fail is no check: each fault planted in the rendezvous
//! is found by the one named here.

use super::{crowd, meeting, namespaces, proxy, trust, wire};
use crate::fabric::shm::fault::{Fault, caught};

#[test]
fn planted_faults_are_found() {
    let faults: [(Fault, fn()); 11] = [
        (Fault::UserUnchecked, meeting::a_stranger_is_refused),
        (Fault::NamespaceUnchecked, namespaces::a_number_is_not_a_user),
        (Fault::SurplusLeaked, wire::surplus_descriptors_are_closed),
        (Fault::EndIsSilence, meeting::the_end_is_seen),
        (Fault::ResetIsEnd, meeting::last_words_are_heard),
        (Fault::ExecutableUnchecked, trust::another_executable_is_seen),
        (Fault::VerdictIgnored, trust::the_hosts_verdict_counts),
        (Fault::ProcessesForgotten, proxy::a_relay_is_not_trusted),
        (Fault::SharesForgotten, crowd::a_process_has_its_share),
        (Fault::HandshakesUnbounded, crowd::handshakes_are_begun_by_turns),
        (Fault::LostUncounted, crowd::handshakes_that_come_to_nothing_count),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
        scene();
    }
    let truncated = crate::fabric::common::fault::Fault::TruncatedAccepted;
    assert!(caught(truncated, wire::a_handshake_is_whole), "{truncated:?} was not found");
    wire::a_handshake_is_whole();
}
