//! A check that cannot fail is no check: each fault planted here is found by the
//! one named here.

use super::{closing, crowd, hostile, split, turns};
use crate::fabric::tcp::fault::{Fault, caught};

#[test]
fn planted_faults_are_found() {
    let faults: [(Fault, fn()); 9] = [
        (Fault::HeadForgotten, split::every_boundary),
        (Fault::AnswerMisplaced, turns::reads_pass_between_chunks),
        (Fault::ChunksInARow, turns::reads_pass_between_chunks),
        (Fault::RestForgotten, turns::large_arrives_whole),
        (Fault::LengthIgnored, hostile::lengths),
        (Fault::ReceivesIgnored, hostile::receives),
        (Fault::CountsBelieved, hostile::counts),
        (Fault::NoLinger, closing::last_messages_arrive),
        (Fault::LorisAwaited, crowd::the_slow_are_sent_away),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
        scene();
    }
}
