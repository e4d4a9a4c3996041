//! A check that cannot fail is no check: each fault planted here is found by the
//! one named here.

use super::{acceptor, closing, crowd, eager, hostile, split, turns};
use crate::fabric::common::fault::Fault as Eager;
use crate::fabric::tcp::fault::{Fault, caught};

#[test]
fn planted_faults_are_found() {
    let faults: [(Fault, fn()); 16] = [
        (Fault::HeadForgotten, split::every_boundary),
        (Fault::AnswerMisplaced, turns::reads_pass_between_chunks),
        (Fault::ChunksInARow, turns::reads_pass_between_chunks),
        (Fault::ChunksKept, turns::talk_passes_what_the_kernel_did_not_take),
        (Fault::CutCounted, turns::large_arrives_whole),
        (Fault::RestForgotten, turns::large_arrives_whole),
        (Fault::LengthIgnored, hostile::lengths),
        (Fault::ReceivesIgnored, hostile::receives),
        (Fault::CountsBelieved, hostile::counts),
        (Fault::NoLinger, closing::last_messages_arrive),
        (Fault::SentUnmarked, eager::company_leaves_with_the_next_drive),
        (Fault::EagerHeld, eager::they_pass_a_message_that_waits),
        (Fault::HandshakesUnbounded, acceptor::handshakes_are_begun_by_turns),
        (Fault::LostUncounted, acceptor::handshakes_that_come_to_nothing_count),
        (Fault::UnheardDisplaced, acceptor::the_unheard_do_not_give_way),
        (Fault::LorisAwaited, crowd::the_slow_are_sent_away),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
        scene();
    }
}

#[test]
fn planted_faults_of_eager_messages_are_found() {
    let faults: [(Eager, fn()); 3] = [
        (Eager::LaneBoundless, hostile::lanes),
        (Eager::DrainedBelieved, hostile::drained),
        (Eager::DrainedUntold, eager::a_lane_that_was_full_has_room_again),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
        scene();
    }
}
