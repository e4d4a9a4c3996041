//! Every fault that can be planted is caught by a test that is not about it.

use super::super::fault::{Fault, caught};
use super::super::lanes::fault::Fault as Lanes;
use super::{asleep, closing, conformance, ends, hostile, silent};
use crate::fabric::common::fault::Fault as Eager;

#[test]
fn every_fault_is_caught() {
    for fault in [Fault::EagerBehind, Fault::ReceivesIgnored, Fault::CountsUntold] {
        let run = || assert!(conformance::failures(1, false, |_| {}).is_empty());
        assert!(caught(fault, run), "{fault:?} goes unnoticed");
    }
    let tests: &[(Fault, fn())] = &[
        (Fault::LeavesAtOnce, closing::what_was_sent_before_the_end_arrives_before_it),
        (
            Fault::DeafToGoodbye,
            closing::ends_that_close_at_the_same_time_do_not_wait_for_each_other,
        ),
        (Fault::LingersOn, closing::a_peer_that_lives_and_takes_nothing_is_not_waited_for),
        (Fault::LingerAll, closing::a_nic_waits_for_a_bounded_number_of_peers),
        (Fault::CountsBelieved, hostile::acknowledgements_of_unsent_frames_are_refused),
        (Fault::AnswersUnbounded, ends::answers_to_writes_take_bounded_memory),
        (Fault::EagerUnbounded, ends::eager_messages_take_bounded_memory),
        (Fault::GoodbyeUncounted, ends::what_was_taken_before_the_end_is_known_with_it),
        (Fault::AnswersDropped, ends::what_was_taken_before_the_end_is_known_with_it),
        (Fault::AcknowledgedLost, ends::what_a_hostile_peer_acknowledges_comes_back),
        (Fault::ShutsCongested, closing::what_was_sent_before_the_nic_went_down_arrives),
        (Fault::CancelUnmarked, closing::what_stands_behind_a_cancelled_send_goes),
        (Fault::SleepsOn, asleep::a_sleeper_is_told_of_a_repeat_that_comes_sooner),
    ];
    for (fault, test) in tests {
        assert!(caught(*fault, test), "{fault:?} goes unnoticed");
        test();
    }
    let tests: &[(Eager, fn())] = &[
        (Eager::DrainedBelieved, hostile::acknowledgements_of_unsent_eager_messages_are_refused),
        (Eager::LaneBoundless, hostile::a_lane_holds_no_more_than_its_window),
    ];
    for (fault, test) in tests {
        assert!(caught(*fault, test), "{fault:?} goes unnoticed");
        test();
    }
    assert!(caught(Lanes::NeverSilent, silent::a_peer_that_acknowledges_nothing_is_dead));
    silent::a_peer_that_acknowledges_nothing_is_dead();
}
