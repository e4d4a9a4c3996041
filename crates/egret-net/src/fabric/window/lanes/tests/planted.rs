//! Every fault that can be planted is caught by a test that is not about it.

use super::super::fault::{Fault, caught};
use super::{bytes, ends, hostile, manners, seeds};

#[test]
fn every_fault_is_caught_by_its_test() {
    let tests: &[(Fault, fn())] = &[
        (Fault::Unchecked, bytes::a_changed_bit_anywhere_is_noticed),
        (Fault::NumberAgain, || seeds::play(1)),
        (Fault::HeldUntold, manners::a_message_that_has_to_wait_is_not_taken_for_silence),
        (Fault::HeldTakenBack, manners::a_message_that_came_early_may_have_to_wait),
        (Fault::Twice, manners::a_lost_last_acknowledgement_is_sent_again),
        (
            Fault::Overtaken,
            manners::memory_is_asked_for_once_for_each_message_in_order_and_for_long_ones_only,
        ),
        (Fault::QuietDoubles, manners::a_lost_last_acknowledgement_is_sent_again),
        (Fault::Unrepeated, manners::a_lost_last_acknowledgement_is_sent_again),
        (Fault::NeverSilent, ends::silence_is_found_after_so_many_repeats_and_bounded_time),
        (
            Fault::Storm,
            manners::after_silence_one_piece_is_repeated_and_then_twice_as_many_each_round,
        ),
        (Fault::AckOfAck, manners::an_acknowledgement_waits_for_company_and_not_for_long),
        (Fault::AnyAck, hostile::acknowledgements_of_unsent_pieces_are_refused),
        (Fault::Boundless, hostile::early_pieces_take_bounded_memory),
        (Fault::AnySize, hostile::a_piece_has_the_bytes_of_its_place),
    ];
    for (fault, test) in tests {
        assert!(caught(*fault, test), "{fault:?} goes unnoticed");
        test();
    }
}

/// Those that an honest peer meets are found by conversations alone.
#[test]
fn a_few_seeds_find_what_an_honest_peer_would_meet() {
    let faults = [
        Fault::Unchecked,
        Fault::Twice,
        Fault::Overtaken,
        Fault::QuietDoubles,
        Fault::Unrepeated,
        Fault::HeldTakenBack,
    ];
    for fault in faults {
        assert!(caught(fault, || (0..20).for_each(seeds::play)), "{fault:?} goes unnoticed");
    }
}
