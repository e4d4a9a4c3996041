//! Records around a ring.

mod hostile;
mod models;

use std::sync::atomic::Ordering::Acquire;

pub(super) use hostile::{impossible_consumption, items_are_for_posted, nonsense};
pub(super) use models::{one_line, posted, right_behind, stale_payload, two_lines};
use proptest::prelude::*;

use super::shared;
use crate::fabric::shm::memory::{LINE, LINE_WORDS, OwnMemory};
use crate::fabric::shm::records::{
    INLINE_WORDS, LINES_MIN, RECORD_MAX, RingLayoutError, RingReceiver, RingSender, Scratch,
    SendRecordError,
};
use crate::rt::{self, SplitMix64};

/// Two ends over real memory, and what a hostile peer would write: the ring, and the
/// word that says how much was consumed.
struct Ends {
    sender: RingSender,
    receiver: RingReceiver,
    scratch: Scratch,
    ring: OwnMemory,
    consumed: OwnMemory,
}

/// A ring of so many lines, from the second line of its memory on.
fn ends(lines: usize) -> Ends {
    let (ring, ring_seen) = shared((lines + 1) * LINE);
    let (consumed, consumed_seen) = shared(LINE);
    let sender = RingSender::from_lines(2, ring.clone(), LINE, lines, consumed_seen, 8).unwrap();
    let (first, count) = (LINE as u64, lines as u64);
    let receiver = RingReceiver::from_lines(2, ring_seen, first, count, consumed.clone(), 8);
    Ends { sender, receiver: receiver.unwrap(), scratch: Scratch::new(), ring, consumed }
}

impl Ends {
    /// Sends, and takes what was sent.
    fn pass(&mut self, tag: u64, payload: &[u8]) {
        self.sender.send(tag, &[payload]).unwrap();
        assert_eq!(self.take(), Some((tag, payload.to_vec())));
    }

    fn take(&mut self) -> Option<(u64, Vec<u8>)> {
        let taken = self.receiver.take(&mut self.scratch).unwrap();
        taken.map(|(tag, payload)| (tag, payload.to_vec()))
    }

    /// Both ends as if so many lines had passed, some times round the ring.
    fn jump(&mut self, lines: u64) {
        self.sender.jump(lines);
        self.receiver.jump(lines);
    }
}

#[test]
fn an_ask_is_answered_and_not_delivered() {
    asked();
}

pub(super) fn asked() {
    let mut ends = ends(256);
    assert!(ends.sender.ask(), "nothing to ask for");
    assert_eq!(ends.sender.position(), 0);
    for round in 0..300 {
        let sent = ends.sender.send(round, &[b"payload"]).unwrap();
        assert!(ends.sender.ask() && ends.sender.ask());
        assert_eq!(ends.sender.position(), sent + 1, "it is asked once");
        assert_eq!(ends.take(), Some((round, b"payload".to_vec())));
        assert_eq!(ends.take(), None);
        assert_eq!(ends.sender.arrived(), Ok(sent + 1));
    }
}

#[test]
fn a_full_ring_cannot_be_asked_and_is_published_by_and_by() {
    let mut ends = ends(256);
    let mut sent = 0;
    while ends.sender.send(sent, &[]).is_ok() {
        sent += 1;
    }
    assert_eq!((sent, ends.sender.send(0, &[])), (256, Err(SendRecordError::Full)));
    assert!(!ends.sender.ask());
    for tag in 0..64 {
        assert_eq!(ends.sender.arrived(), Ok(0));
        assert_eq!(ends.take(), Some((tag, vec![])));
    }
    assert_eq!(ends.sender.arrived(), Ok(64));
    assert!(ends.sender.ask());
    ends.take().unwrap();
    ends.receiver.publish();
    assert_eq!(ends.sender.arrived(), Ok(65));
}

#[test]
fn a_record_of_any_length_fits_when_all_are_taken() {
    for first in 0..256 {
        let mut ends = ends(256);
        (0..first).for_each(|tag| ends.pass(tag, &[]));
        ends.pass(1, &content(1, RECORD_MAX));
    }
}

#[test]
fn positions_may_wrap() {
    around_the_positions();
}

pub(super) fn around_the_positions() {
    let mut ends = ends(8);
    ends.jump((1 << 32) - 16);
    for tag in 0..20 {
        ends.pass(tag, &content(tag, 40));
        assert_eq!(ends.take(), None, "only one was sent");
        ends.pass(tag, &content(tag, 100));
        assert!(!ends.receiver.is_ready(), "only one was sent");
    }
}

#[test]
fn payload_of_old_and_heads_of_old_are_no_records() {
    stale_lines();
}

pub(super) fn stale_lines() {
    let mut ends = ends(8);
    (0..8).for_each(|tag| ends.pass(tag, &[]));
    // The next time round the lines 6 and 7 are skipped, and the head in 7 stays.
    (8..14).for_each(|tag| ends.pass(tag, &[]));
    ends.pass(14, &content(14, 150));
    ends.jump((1 << 32) - 16);
    (0..3).for_each(|tag| ends.pass(tag, &[]));
    assert_eq!(ends.sender.position() % (1 << 32), 6);
    ends.pass(6, &[]);
    assert_eq!(ends.take(), None, "this was sent long ago");
    ends.pass(7, &[]);
}

#[test]
fn payload_that_looks_like_the_next_head_is_no_record() {
    stale_short();
}

/// The lines of a long record hold heads that will be right one round later, when records of one
/// line go over them.
pub(super) fn stale_short() {
    let mut ends = ends(8);
    for round in 0..4 {
        let first = ends.sender.position();
        let heads = (first + 1..first + 3).flat_map(|position| {
            let head = (position + 8) << 32 | 1;
            std::iter::once(head).chain([0; LINE_WORDS - 1])
        });
        let words: Vec<u64> = std::iter::repeat_n(0, INLINE_WORDS).chain(heads).collect();
        ends.pass(round, bytemuck::cast_slice(&words));
        while ends.sender.position() % 8 != first % 8 {
            ends.pass(round, &[]);
        }
        for tag in 0..9 {
            if ends.sender.try_short(tag, &[&[]]).is_none() {
                ends.sender.send(tag, &[&[]]).unwrap();
            }
            assert_eq!(ends.take(), Some((tag, vec![])));
            assert!(!ends.receiver.is_ready(), "only one was sent");
            assert_eq!(ends.take(), None, "only one was sent");
        }
    }
}

#[test]
fn records_that_run_over_the_end_begin_at_the_start() {
    over_the_end();
}

pub(super) fn over_the_end() {
    let mut ends = ends(256);
    for round in 0..2000 {
        ends.pass(round, &content(round, 113 * usize::try_from(round).unwrap() % 4097));
    }
    assert!(ends.sender.position() > 16 * 256);
}

#[test]
fn too_long_is_said_at_once() {
    let mut ends = ends(256);
    let most = [1; RECORD_MAX + 1];
    let len = RECORD_MAX + 1;
    assert_eq!(ends.sender.send(0, &[&most]), Err(SendRecordError::TooLarge { len }));
    assert_eq!(ends.sender.send(0, &[&most[1..], &[1]]), Err(SendRecordError::TooLarge { len }));
    assert_eq!((ends.sender.position(), ends.take()), (0, None));
}

#[test]
fn what_a_record_looks_like_is_for_ever() {
    let mut ends = ends(4);
    ends.sender.send(0xAABB, &[&[1; 8], &[2; 40], &[3; 9]]).unwrap();
    ends.sender.ask();
    let word = |word: usize| ends.ring.word(LINE + word * 8).load(Acquire);
    let [ones, twos, threes] = [1, 2, 3].map(|byte| u64::from_ne_bytes([byte; 8]));
    let line: Vec<u64> = (0..10).map(word).collect();
    assert_eq!(line, [57 << 16 | 1, 0xAABB, ones, twos, twos, twos, twos, twos, threes, 3]);
    assert_eq!([word(16), word(24)], [2 << 32 | 1 << 8 | 1, 0]);
    let (taken, _) = (ends.take().unwrap(), ends.take());
    assert_eq!(taken.1.len(), 57);
    ends.sender.send(1, &[&[4; 60]]).unwrap();
    assert_eq!(ends.ring.word(LINE + 3 * LINE).load(Acquire), 3 << 32 | 2 << 8 | 1, "a skip");
    assert_eq!(ends.ring.word(LINE).load(Acquire), 4 << 32 | 60 << 16 | 1);
}

#[test]
fn what_an_item_looks_like_is_for_ever() {
    let mut ends = ends(4);
    ends.sender.send_item(0xAABB, &[&[1; 8], &[2; 3]]).unwrap();
    let line: Vec<u64> = (0..4).map(|word| ends.ring.word(LINE + word * 8).load(Acquire)).collect();
    assert_eq!(line, [11 << 16 | 3 << 8 | 1, 0xAABB, u64::from_ne_bytes([1; 8]), 0x02_02_02]);
}

#[test]
fn what_is_posted_is_published_when_its_owner_is_done_with_it() {
    let Ends { mut sender, receiver, .. } = ends(256);
    let (mut receiver, mut scratch) = (receiver.of_posted(), Scratch::of_posted());
    for tag in 0..256 {
        sender.send_item(tag, &[&content(tag, 8)]).unwrap();
        let taken = receiver.take_posted(&mut scratch).unwrap().unwrap();
        assert_eq!((taken.is_item, taken.tag, taken.payload), (true, tag, &content(tag, 8)[..]));
    }
    assert!(!sender.has_room(1));
    assert_eq!((sender.arrived(), sender.send(0, &[])), (Ok(0), Err(SendRecordError::Full)));
    receiver.release(100);
    assert_eq!(sender.arrived(), Ok(100));
    assert!(sender.has_room(100) && !sender.has_room(101));
    // As if a record of the receiver's had said so.
    assert_eq!(sender.hear(256), Ok(()));
    assert!(sender.has_room(256) && sender.hear(255).is_err() && sender.hear(257).is_err());
}

proptest! {
    #[test]
    fn records_of_any_length_arrive_whole_and_in_order(
        records in prop::collection::vec(
            (any::<u64>(), 0..=RECORD_MAX, 0..=RECORD_MAX, any::<bool>()),
            1..200,
        ),
        under_way in 0..8_usize,
    ) {
        let mut ends = ends(256);
        let mut sent = std::collections::VecDeque::new();
        for (tag, len, cut, is_short_cut) in records {
            let payload = content(tag, if is_short_cut { len % 200 } else { len });
            let (left, right) = payload.split_at(cut.min(payload.len()));
            let send = |sender: &mut RingSender| {
                let whole = [&payload[..]];
                let mut sent = is_short_cut.then(|| sender.try_short(tag, &whole)).flatten();
                if is_short_cut && sent.is_none() {
                    sent = sender.try_long(tag, &whole);
                }
                sent.is_some() || sender.send(tag, &[left, &[], right]).is_ok()
            };
            while sent.len() > under_way || !send(&mut ends.sender) {
                prop_assert_eq!(ends.take(), sent.pop_front());
            }
            sent.push_back((tag, payload));
        }
        while let Some(record) = sent.pop_front() {
            prop_assert_eq!(ends.take(), Some(record));
        }
        prop_assert_eq!(ends.take(), None);
    }
}

#[test]
fn a_ring_that_is_not_there_is_an_error() {
    let (own, foreign) = shared(5 * 4096);
    let len = foreign.len();
    let ring = |first, lines, consumed| {
        RingReceiver::new(foreign.clone(), first, lines, own.clone(), consumed).map(drop)
    };
    for lines in [0, 1, 128, 257, 1 << 32, u64::MAX] {
        assert_eq!(ring(0, lines, 0), Err(RingLayoutError::Lines { lines, least: LINES_MIN }));
    }
    for offset in [1, 8, 63, u64::MAX] {
        assert_eq!(ring(offset, 256, 0), Err(RingLayoutError::Unaligned { offset, align: LINE }));
    }
    for (offset, lines) in [(0, 512), (4160, 256), (u64::MAX - 63, 256), (0, 1 << 31)] {
        let bytes = lines * LINE as u64;
        assert_eq!(ring(offset, lines, 0), Err(RingLayoutError::Outside { offset, bytes, len }));
    }
    assert_eq!(ring(0, 256, 4), Err(RingLayoutError::Unaligned { offset: 4, align: 8 }));
    let outside = RingLayoutError::Outside { offset: len as u64, bytes: 8, len };
    assert_eq!(ring(4096, 256, len), Err(outside));
    assert_eq!(ring(4096, 256, len - 8), Ok(()));
    let sender = RingSender::new(own, 4096, 256, foreign, len as u64);
    assert_eq!(sender.map(drop), Err(outside));
}

#[test]
fn a_million_records_go_through_real_memory() {
    const RECORDS: u64 = 1 << 20;
    let Ends { mut sender, mut receiver, mut scratch, .. } = ends(1 << 12);
    let receiving = rt::spawn("receiver", move || {
        let mut expected = vec![];
        for tag in 0..RECORDS {
            fill(&mut expected, tag, length_of(tag));
            loop {
                if let Some(taken) = receiver.take(&mut scratch).unwrap() {
                    assert_eq!(taken, (tag, &expected[..]));
                    break;
                }
                std::hint::spin_loop();
            }
        }
    });
    let mut payload = vec![];
    for tag in 0..RECORDS {
        fill(&mut payload, tag, length_of(tag));
        while let Err(why) = sender.send(tag, &[&payload]) {
            assert_eq!(why, SendRecordError::Full);
            std::hint::spin_loop();
        }
    }
    receiving.unwrap().join().unwrap();
}

/// Of 64 records one may be of any length; the others take a line or two.
fn length_of(tag: u64) -> usize {
    SplitMix64(tag).below(if tag.is_multiple_of(64) { RECORD_MAX + 1 } else { 80 })
}

fn content(tag: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![];
    fill(&mut bytes, tag, len);
    bytes
}

/// Bytes of which none is zero.
fn fill(bytes: &mut Vec<u8>, tag: u64, len: usize) {
    bytes.clear();
    bytes.extend((0..len as u64).map(|at| tag.wrapping_add(at).to_le_bytes()[0] | 1));
}
