//! The same over streams that are sealed, and what holds for those alone.

mod stream;
mod tampered;

use std::cell::Cell;

use proptest::prelude::*;

use super::conformance::{V4, all_on_threads};
use super::{closing, eager, hostile, processes, split, turns};
use crate::fabric::seal::Fault as Sealing;
use crate::fabric::tcp::fault::{Fault, caught};
use crate::fabric::tcp::sealed::record::AROUND;
use crate::vi::Wait;

thread_local! {
    static RECORD_MAX: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Whether the nics that this thread opens seal their connections.
pub(in crate::fabric::tcp) fn is_sealed() -> bool {
    RECORD_MAX.get().is_some()
}

/// Bytes in a record of a peer without a nic, if it seals.
pub(super) fn record_max() -> Option<usize> {
    RECORD_MAX.get()
}

/// How long so many bytes of such a peer are.
pub(super) fn len_of(plain: usize) -> usize {
    plain + record_max().map_or(0, |most| plain.div_ceil(most) * AROUND)
}

/// Plays a scene with nics that seal, and peers without a nic that do in records of `most` bytes.
pub(super) fn sealed<T>(most: usize, scene: impl FnOnce() -> T) -> T {
    struct Plain;
    impl Drop for Plain {
        fn drop(&mut self) {
            RECORD_MAX.set(None);
        }
    }
    RECORD_MAX.set(Some(most));
    let _plain = Plain;
    scene()
}

/// Plays a scene as another thread does, whose [`record_max`] this is.
pub(super) fn as_before<T>(records: Option<usize>, scene: impl FnOnce() -> T) -> T {
    match records {
        Some(most) => sealed(most, scene),
        None => scene(),
    }
}

#[test]
fn conformance_sealed() {
    sealed(usize::MAX, || all_on_threads(V4, Wait::Balanced));
}

#[test]
fn conformance_sealed_and_asleep() {
    sealed(usize::MAX, || all_on_threads(V4, Wait::Frugal));
}

#[test]
fn conformance_sealed_in_two_processes() {
    sealed(usize::MAX, || processes::all_in_processes(V4));
}

#[test]
fn sealed_frames_may_be_cut_at_every_byte() {
    sealed(90, split::every_boundary);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn any_split_into_records_and_pieces_gives_the_same(
        cuts in proptest::collection::vec(any::<usize>(), 0..24),
        most in prop_oneof![20_usize..100, 1000_usize..40_000],
    ) {
        let mut outcome = None;
        sealed(most, || outcome = Some(split::outcome(split::LARGE, &cuts)));
        prop_assert_eq!(outcome, Some(split::outcome(split::LARGE, &[])));
    }
}

#[test]
fn lies_are_the_end_of_a_sealed_connection_too() {
    for most in [7, usize::MAX] {
        sealed(most, || {
            for scene in [
                hostile::lanes,
                hostile::drained,
                hostile::receives,
                hostile::lengths,
                hostile::counts,
                hostile::nonsense,
            ] {
                scene();
            }
        });
    }
}

/// What is unsent goes on, with and without company, and before the end.
#[test]
fn sealed_messages_pass_and_arrive_as_others_do() {
    sealed(usize::MAX, || {
        for scene in [
            turns::large_arrives_whole,
            turns::reads_pass_between_chunks,
            turns::talk_passes_what_the_kernel_did_not_take,
            closing::last_messages_arrive,
            eager::a_lane_that_was_full_has_room_again,
            eager::they_pass_a_message_that_waits,
            eager::company_leaves_with_the_next_drive,
        ] {
            scene();
        }
    });
}

#[test]
fn planted_faults_are_found() {
    let scenes: [(Fault, fn()); 5] = [
        (Fault::GuessBelieved, stream::other_lengths_are_read),
        (Fault::UnsentForgotten, turns::large_arrives_whole),
        (Fault::UnsentShut, stream::last_words),
        (Fault::ReadyForgotten, tampered::nothing_ready_is_left),
        (Fault::EndBelieved, tampered::an_end_without_a_goodbye_is_a_death),
    ];
    for (fault, scene) in scenes {
        assert!(caught(fault, || sealed(100, scene)), "{fault:?} was not found");
        sealed(100, scene);
    }
    let scenes: [(Sealing, fn()); 5] = [
        (Sealing::TagUnchecked, stream::every_bit_counts),
        (Sealing::TagUnchecked, stream::places_are_proven),
        (Sealing::NumberKept, stream::order_counts),
        (Sealing::TagUnchecked, tampered::changes_are_the_end),
        (Sealing::NumberKept, tampered::repetition_is_the_end),
    ];
    for (fault, scene) in scenes {
        assert!(caught(fault, || sealed(100, scene)), "{fault:?} was not found");
        sealed(100, scene);
    }
}
