//! A check that cannot fail is no check: each fault planted here is found by the
//! one named here.

use super::{
    copy, crowd, doorbell, doorbell_socket, eager, left, memory, process_memory, records, waiting,
};
use crate::atomics::checker::check;
use crate::fabric::shm::fault::{Fault, caught};

#[test]
fn loom_finds_planted_faults() {
    let faults: [(Fault, fn()); 15] = [
        (Fault::ConsumedEarly, records::posted),
        (Fault::TakeUnfenced, records::posted),
        (Fault::HeadRelaxed, records::one_line),
        (Fault::TakeUnfenced, records::one_line),
        (Fault::ConsumedEarly, records::one_line),
        (Fault::HeadRelaxed, records::two_lines),
        (Fault::TakeUnfenced, records::two_lines),
        (Fault::ConsumedEarly, records::right_behind),
        (Fault::ClearLate, records::stale_payload),
        (Fault::StaleForgotten, records::stale_payload),
        (Fault::RingUnfenced, doorbell::no_lost_wake_up),
        (Fault::ArmUnfenced, doorbell::no_lost_wake_up),
        (Fault::LookBeforeArm, doorbell::no_lost_wake_up),
        (Fault::DrainAfterArm, doorbell::no_lost_wake_up),
        (Fault::RestUnfenced, doorbell::rest),
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
        (Fault::RoomUnchecked, eager::trials),
        (Fault::ArrivedAhead, eager::trials),
        (Fault::BulkFirst, eager::trials),
        (Fault::LaneMistaken, eager::trials),
        (Fault::ConsumedCrossed, eager::trials),
        (Fault::ToldForGood, eager::trials),
        (Fault::BulkRoomSilent, eager::trials),
        (Fault::ArrivedForgotten, eager::trials),
        (Fault::KeptArrived, eager::trials),
        (Fault::KeptTurned, eager::trials),
        (Fault::TailForgotten, copy::every_place_and_length),
        (Fault::BoundsOffByOne, memory::ends_are_ends),
        (Fault::SealsIgnored, memory::unsealed_is_refused),
        (Fault::LightUnasked, doorbell::no_promise),
        (Fault::NotDrained, doorbell_socket::wakes_for_ever),
        (Fault::LeftIgnored, left::a_heap_message_is_not_torn),
        (Fault::MarkIgnored, process_memory::another_program_is_not_read),
        (Fault::EndIgnored, process_memory::a_number_given_away_is_not_read),
        (Fault::ShortReadEnds, process_memory::bytes_that_are_not_there),
        (Fault::LeftIgnored, left::a_message_is_not_torn),
        (Fault::FarewellFirst, left::messages_before_the_farewell),
        (Fault::LeftIgnored, left::a_write_is_not_announced_torn),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
    }
}
