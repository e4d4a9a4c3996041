//! Peers that write what they like.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};

use proptest::prelude::*;

use super::{Ends, ends};
use crate::fabric::shm::memory::LINE;
use crate::fabric::shm::records::{POSTED_WORDS, RECORD_MAX, RingError, Scratch, SendRecordError};
use crate::rt::{self, SplitMix64};

proptest! {
    #[test]
    fn any_head_is_an_answer(head: u64, position in 0..512_u64, at_position: bool) {
        let mut ends = ends(256);
        (0..position).for_each(|tag| ends.pass(tag, &[]));
        let head = if at_position { head << 32 >> 32 | position << 32 | 1 } else { head };
        answer(&mut ends, position, head);
    }
}

/// Has the receiver take this head.
fn answer(ends: &mut Ends, position: u64, head: u64) {
    let line = usize::try_from(position % 256).unwrap();
    ends.ring.word(LINE + line * LINE).store(head, Release);
    match ends.receiver.take(&mut ends.scratch) {
        Ok(None) => {}
        Ok(Some((_, payload))) => {
            assert!(payload.len() <= RECORD_MAX && line + payload.len().div_ceil(LINE) <= 256);
        }
        Err(why) => assert_eq!(why, RingError::Head { head, position }),
    }
}

#[test]
fn heads_that_make_no_sense_are_errors() {
    nonsense();
}

/// Each length of each kind, at places of which some are near the end.
pub(in super::super) fn nonsense() {
    for position in [0_u64, 1, 100, 200, 255] {
        for kind in 0..4 {
            for len in (0..200).chain([4095, 4096, 4097, 4111, 4112, 0x7FFF, 0xFFFF]) {
                let mut ends = ends(256);
                (0..position).for_each(|tag| ends.pass(tag, &[]));
                answer(&mut ends, position, position << 32 | len << 16 | kind << 8 | 1);
            }
        }
    }
}

#[test]
fn kinds_are_errors_where_they_do_not_belong() {
    items_are_for_posted();
}

/// Items in rings of eager messages; asks, and records that are too long, among posted ones.
pub(in super::super) fn items_are_for_posted() {
    let (item, ask) = (8 << 16 | 3 << 8 | 1, 1 << 8 | 1);
    let mut eager = ends(256);
    eager.ring.word(LINE).store(item, Release);
    let taken = eager.receiver.take(&mut eager.scratch);
    assert_eq!(taken, Err(RingError::Head { head: item, position: 0 }));
    // One byte more than scratch has behind the head and the tag.
    let too_long = (POSTED_WORDS as u64 * 8 - 15) << 16 | 1;
    for (head, is_fit) in
        [(item, true), (ask, false), (too_long, false), (too_long | 3 << 8, false)]
    {
        let Ends { ring, receiver, .. } = ends(256);
        let (mut receiver, mut scratch) = (receiver.of_posted(), Scratch::of_posted());
        ring.word(LINE).store(head, Release);
        let taken = receiver.take_posted(&mut scratch);
        match is_fit {
            true => assert_eq!(taken.unwrap().map(|taken| taken.is_item), Some(true)),
            false => assert_eq!(taken, Err(RingError::Head { head, position: 0 })),
        }
    }
}

#[test]
fn asks_without_end_are_an_error() {
    let mut ends = ends(256);
    for position in 0..3 {
        let at = usize::try_from(position).unwrap();
        ends.ring.word(LINE + at * LINE).store(position << 32 | 1 << 8 | 1, Release);
    }
    let head = 2 << 32 | 1 << 8 | 1;
    let taken = ends.receiver.take(&mut ends.scratch);
    assert_eq!(taken, Err(RingError::Head { head, position: 2 }));
}

#[test]
fn a_receiver_that_says_nonsense_is_not_believed() {
    impossible_consumption();
}

pub(in super::super) fn impossible_consumption() {
    let mut ends = ends(256);
    (0..100).for_each(|tag| ends.pass(tag, &[]));
    for (said, before) in [(101, 0), (u64::MAX, 0), (1 << 32, 0), (50, 50), (49, 50), (0, 50)] {
        ends.consumed.word(8).store(said, Release);
        let lie = RingError::Consumed { said, before, position: 100 };
        let expected = if said == 50 { Ok(50) } else { Err(lie) };
        assert_eq!(ends.sender.arrived(), expected);
    }
    while ends.sender.position() < 50 + 256 {
        ends.sender.send(0, &[]).unwrap();
    }
    let lie = RingError::Consumed { said: 0, before: 50, position: 306 };
    assert_eq!(ends.sender.send(0, &[]), Err(SendRecordError::Ring(lie)));
    assert!(!ends.sender.ask());
}

/// Whatever a sender writes while it is read comes out as some record or an error.
#[test]
fn a_record_that_is_rewritten_while_it_is_copied_stays_inside() {
    let Ends { ring, mut receiver, mut scratch, .. } = ends(256);
    let over = Arc::new(AtomicBool::new(false));
    let writing = rt::spawn("writer", {
        let over = Arc::clone(&over);
        move || {
            let mut rng = SplitMix64(1);
            while !over.load(Relaxed) {
                let head = [0, 8, 48, 49, 4096, 4097, 0xFFFF][rng.below(7)] << 16 | 1;
                for line in 1..65 {
                    let position = rng.next() % 2 * 256 + line - 1;
                    let word = usize::try_from(line).unwrap() * LINE;
                    ring.word(word).store(position << 32 | head, Release);
                    ring.word(word + 8 * rng.below(8)).store(rng.next(), Relaxed);
                }
            }
        }
    });
    let [mut records, mut lies, mut nothing] = [0; 3];
    while (records < 10_000 || lies < 1000) && nothing < 100_000_000 {
        match receiver.take(&mut scratch) {
            Ok(Some((_, payload))) => {
                assert!(payload.len() <= RECORD_MAX);
                records += 1;
            }
            Ok(None) => nothing += 1,
            Err(_) => lies += 1,
        }
        if receiver.position() >= 60 {
            receiver.restart();
        }
    }
    over.store(true, Relaxed);
    writing.unwrap().join().unwrap();
    assert!(records >= 10_000 && lies >= 1000, "{records} records, {lies} lies");
}
