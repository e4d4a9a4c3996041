//! A check that cannot fail is no check: each fault planted here is found by the
//! one named here.

use super::{bell, copy, cord, crowd, lanes, left, memory, reach, records, waiting};
use crate::atomics::checker::check;
use crate::fabric::shm::fault::{Fault, caught};

#[test]
fn loom_finds_planted_faults() {
    let faults: [(Fault, fn()); 17] = [
        (Fault::ConsumedEarly, records::posted),
        (Fault::TakeUnfenced, records::posted),
        (Fault::HeadEarly, records::one_line),
        (Fault::HeadRelaxed, records::one_line),
        (Fault::TakeUnfenced, records::one_line),
        (Fault::ConsumedEarly, records::one_line),
        (Fault::HeadEarly, records::two_lines),
        (Fault::HeadRelaxed, records::two_lines),
        (Fault::TakeUnfenced, records::two_lines),
        (Fault::ConsumedEarly, records::right_behind),
        (Fault::ClearLate, records::stale_payload),
        (Fault::StaleForgotten, records::stale_payload),
        (Fault::RingUnfenced, bell::no_lost_wake_up),
        (Fault::ArmUnfenced, bell::no_lost_wake_up),
        (Fault::LookBeforeArm, bell::no_lost_wake_up),
        (Fault::DrainAfterArm, bell::no_lost_wake_up),
        (Fault::RestUnfenced, bell::rest),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, || check(scene)), "{fault:?} was not found");
    }
}

#[test]
fn other_checks_find_planted_faults() {
    let faults: [(Fault, fn()); 35] = [
        (Fault::Undisturbed, crowd::begun_at_rest),
        (Fault::RestUnsaid, crowd::found_soon),
        (Fault::HeardByOthers, crowd::heard_by_who_sleeps),
        (Fault::ItemsAnywhere, records::items_are_for_posted),
        (Fault::KeptForgotten, waiting::kept_bytes),
        (Fault::ReleasedEarly, waiting::not_done_with),
        (Fault::PositionStops, records::around_the_positions),
        (Fault::StaleForgotten, records::stale_lines),
        (Fault::SkipForgotten, records::over_the_end),
        (Fault::LengthUnchecked, records::nonsense),
        (Fault::ConsumedUnchecked, records::impossible_consumption),
        (Fault::AskIgnored, records::asked),
        (Fault::ShortUncleared, records::stale_short),
        (Fault::RoomUnchecked, lanes::trials),
        (Fault::ArrivedAhead, lanes::trials),
        (Fault::BulkFirst, lanes::trials),
        (Fault::LaneMistaken, lanes::trials),
        (Fault::ConsumedCrossed, lanes::trials),
        (Fault::ToldForGood, lanes::trials),
        (Fault::BulkRoomSilent, lanes::trials),
        (Fault::ArrivedForgotten, lanes::trials),
        (Fault::KeptArrived, lanes::trials),
        (Fault::KeptTurned, lanes::trials),
        (Fault::TailForgotten, copy::every_place_and_length),
        (Fault::BoundsOffByOne, memory::ends_are_ends),
        (Fault::SealsIgnored, memory::unsealed_is_refused),
        (Fault::LightUnasked, bell::no_promise),
        (Fault::NotDrained, cord::wakes_for_ever),
        (Fault::LeftIgnored, left::a_heap_message_is_not_torn),
        (Fault::MarkIgnored, reach::another_program_is_not_read),
        (Fault::EndIgnored, reach::a_number_given_away_is_not_read),
        (Fault::ShortReadEnds, reach::bytes_that_are_not_there),
        (Fault::LeftIgnored, left::a_message_is_not_torn),
        (Fault::FarewellFirst, left::messages_before_the_farewell),
        (Fault::LeftIgnored, left::a_write_is_not_announced_torn),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
    }
}
