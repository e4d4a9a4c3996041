//! Records around a ring: by the model checker, through real memory, and from peers
//! that write what they like.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::thread;
use proptest::prelude::*;

use super::checker::{Memory, memory};
use super::{Rng, shared};
use crate::atomics::checker::check;
use crate::fabric::shm::memory::{LINE, Own, Readable, Writable};
use crate::fabric::shm::records::{
    INLINE, LINES_MIN, Lie, NoRing, NotSent, RECORD_MAX, RingReceiver, RingSender, Scratch,
};
use crate::rt;

/// Two ends over real memory, and what a hostile peer would write: the ring, and the
/// word that says how much was consumed.
struct Ends {
    sender: RingSender,
    receiver: RingReceiver,
    scratch: Scratch,
    ring: Own,
    consumed: Own,
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

/// A sender and a receiver under the model checker.
type Model = (RingSender<Memory, Memory>, RingReceiver<Memory, Memory>);

fn model(lines: usize) -> Model {
    let (ring, consumed) = (memory(lines), memory(1));
    let sender = RingSender::from_lines(2, ring, 0, lines, consumed, 0).unwrap();
    let receiver = RingReceiver::from_lines(2, ring, 0, lines as u64, consumed, 0).unwrap();
    (sender, receiver)
}

fn send(sender: &mut RingSender<Memory, Memory>, tag: u64, payload: &[u8]) {
    while let Err(why) = sender.send(tag, &[payload]) {
        assert_eq!(why, NotSent::Full);
        thread::yield_now();
    }
}

fn expect(receiver: &mut RingReceiver<Memory, Memory>, tag: u64, payload: &[u8]) {
    let mut scratch = Scratch::new();
    loop {
        if let Some(taken) = receiver.take(&mut scratch).unwrap() {
            assert_eq!(taken, (tag, payload));
            return;
        }
        thread::yield_now();
    }
}

/// These records in this order, from one thread to another.
fn models(lines: usize, lengths: &'static [usize]) {
    let (mut sender, mut receiver) = model(lines);
    let sending = thread::spawn(move || {
        for (tag, len) in (1..).zip(lengths) {
            send(&mut sender, tag, &content(tag, *len));
        }
    });
    for (tag, len) in (1..).zip(lengths) {
        expect(&mut receiver, tag, &content(tag, *len));
    }
    sending.join().unwrap();
}

#[test]
fn loom_records_of_one_line_go_around_a_ring() {
    check(one_line);
}

/// The ring has room for one, so the sender waits for each to be consumed.
pub(super) fn one_line() {
    models(2, &[8, 48, 16]);
}

#[test]
fn loom_records_of_two_lines_go_around_a_ring() {
    check(two_lines);
}

/// The second does not fit before the end of the ring, nor beside the first.
pub(super) fn two_lines() {
    models(4, &[56, 64]);
}

#[test]
fn loom_a_record_is_not_written_over_before_it_is_copied() {
    check(right_behind);
}

/// The last one goes where the first was, as soon as there is room.
pub(super) fn right_behind() {
    models(4, &[56, 0, 0, 8]);
}

#[test]
fn loom_a_record_too_long_for_the_rest_of_the_ring_skips_it() {
    check(skipping);
}

pub(super) fn skipping() {
    let (mut sender, mut receiver) = model(4);
    for tag in 0..3 {
        send(&mut sender, tag, &[]);
        expect(&mut receiver, tag, &[]);
    }
    let sending = thread::spawn(move || send(&mut sender, 7, &content(7, 56)));
    expect(&mut receiver, 7, &content(7, 56));
    sending.join().unwrap();
}

#[test]
fn loom_payload_of_old_is_no_record() {
    check(stale_payload);
}

/// The second line of the first record looks like the head at position 5. The record
/// at position 4 is published while the receiver looks for the one behind it.
pub(super) fn stale_payload() {
    let (mut sender, mut receiver) = model(4);
    let mut payload = [0; 56];
    payload[INLINE..].copy_from_slice(&(5 << 32 | 1_u64).to_ne_bytes());
    send(&mut sender, 0, &payload);
    expect(&mut receiver, 0, &payload);
    for tag in 2..4 {
        send(&mut sender, tag, &[]);
        expect(&mut receiver, tag, &[]);
    }
    let sending = thread::spawn(move || send(&mut sender, 4, &[]));
    expect(&mut receiver, 4, &[]);
    assert_eq!(receiver.take(&mut Scratch::new()), Ok(None), "nothing was sent");
    sending.join().unwrap();
}

#[test]
fn loom_who_is_asked_publishes() {
    check(|| {
        let (mut sender, mut receiver) = model(16);
        let receiving = thread::spawn(move || {
            expect(&mut receiver, 1, &[1; 8]);
            while receiver.position() < 2 {
                assert_eq!(receiver.take(&mut Scratch::new()), Ok(None));
                thread::yield_now();
            }
        });
        send(&mut sender, 1, &[1; 8]);
        assert!(sender.ask());
        while sender.arrived().unwrap() < sender.position() {
            thread::yield_now();
        }
        receiving.join().unwrap();
    });
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
    assert_eq!((sent, ends.sender.send(0, &[])), (255, Err(NotSent::Full)));
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
    assert_eq!(ends.sender.send(0, &[&most]), Err(NotSent::TooLarge { len }));
    assert_eq!(ends.sender.send(0, &[&most[1..], &[1]]), Err(NotSent::TooLarge { len }));
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

proptest! {
    #[test]
    fn records_of_any_length_arrive_whole_and_in_order(
        records in prop::collection::vec((any::<u64>(), 0..=RECORD_MAX, 0..=RECORD_MAX), 1..200),
        under_way in 0..8_usize,
    ) {
        let mut ends = ends(256);
        let mut sent = std::collections::VecDeque::new();
        for (tag, len, cut) in records {
            let payload = content(tag, len);
            let (left, right) = payload.split_at(cut.min(len));
            while sent.len() > under_way || ends.sender.send(tag, &[left, &[], right]).is_err() {
                prop_assert_eq!(ends.take(), sent.pop_front());
            }
            sent.push_back((tag, payload));
        }
        while let Some(record) = sent.pop_front() {
            prop_assert_eq!(ends.take(), Some(record));
        }
        prop_assert_eq!(ends.take(), None);
    }

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
        Err(why) => assert_eq!(why, Lie::Head { head, position }),
    }
}

#[test]
fn heads_that_make_no_sense_are_lies() {
    nonsense();
}

/// Each length of each kind, at places of which some are near the end.
pub(super) fn nonsense() {
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
fn asks_without_end_are_a_lie() {
    let mut ends = ends(256);
    for position in 0..3 {
        let at = usize::try_from(position).unwrap();
        ends.ring.word(LINE + at * LINE).store(position << 32 | 1 << 8 | 1, Release);
    }
    let head = 2 << 32 | 1 << 8 | 1;
    let taken = ends.receiver.take(&mut ends.scratch);
    assert_eq!(taken, Err(Lie::Head { head, position: 2 }));
}

#[test]
fn a_receiver_that_says_nonsense_is_a_liar() {
    impossible_consumption();
}

pub(super) fn impossible_consumption() {
    let mut ends = ends(256);
    (0..100).for_each(|tag| ends.pass(tag, &[]));
    for (said, before) in [(101, 0), (u64::MAX, 0), (1 << 32, 0), (50, 50), (49, 50), (0, 50)] {
        ends.consumed.word(8).store(said, Release);
        let lie = Lie::Consumed { said, before, position: 100 };
        let expected = if said == 50 { Ok(50) } else { Err(lie) };
        assert_eq!(ends.sender.arrived(), expected);
    }
    while ends.sender.position() < 50 + 255 {
        ends.sender.send(0, &[]).unwrap();
    }
    let lie = Lie::Consumed { said: 0, before: 50, position: 305 };
    assert_eq!(ends.sender.send(0, &[]), Err(NotSent::Lie(lie)));
    assert!(!ends.sender.ask());
}

#[test]
fn a_ring_that_is_not_there_is_an_error() {
    let (own, foreign) = shared(5 * 4096);
    let len = foreign.len();
    let ring = |first, lines, consumed| {
        RingReceiver::new(foreign.clone(), first, lines, own.clone(), consumed).map(drop)
    };
    for lines in [0, 1, 128, 257, 1 << 32, u64::MAX] {
        assert_eq!(ring(0, lines, 0), Err(NoRing::Lines { lines, least: LINES_MIN }));
    }
    for offset in [1, 8, 63, u64::MAX] {
        assert_eq!(ring(offset, 256, 0), Err(NoRing::Unaligned { offset, align: LINE }));
    }
    for (offset, lines) in [(0, 512), (4160, 256), (u64::MAX - 63, 256), (0, 1 << 31)] {
        let bytes = lines * LINE as u64;
        assert_eq!(ring(offset, lines, 0), Err(NoRing::Outside { offset, bytes, len }));
    }
    assert_eq!(ring(0, 256, 4), Err(NoRing::Unaligned { offset: 4, align: 8 }));
    let outside = NoRing::Outside { offset: len as u64, bytes: 8, len };
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
            assert_eq!(why, NotSent::Full);
            std::hint::spin_loop();
        }
    }
    receiving.unwrap().join().unwrap();
}

/// Of 64 records one may be of any length; the others take a line or two.
fn length_of(tag: u64) -> usize {
    Rng(tag).below(if tag.is_multiple_of(64) { RECORD_MAX + 1 } else { 80 })
}

/// Whatever a sender writes while it is read comes out as some record or a lie.
#[test]
fn a_record_that_is_rewritten_while_it_is_copied_stays_inside() {
    let Ends { ring, mut receiver, mut scratch, .. } = ends(256);
    let over = Arc::new(AtomicBool::new(false));
    let writing = rt::spawn("writer", {
        let over = Arc::clone(&over);
        move || {
            let mut rng = Rng(1);
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

#[test]
fn copies_by_words_are_exact() {
    check(|| {
        let lines = memory(3);
        for (offset, len) in [(0, 64), (8, 9), (3, 2), (70, 100), (64, 0), (63, 2)] {
            let mut expected = [0; 3 * LINE];
            let mut words = [0; 3 * 8];
            Readable::copy_out(&lines, 0, &mut words).unwrap();
            expected.copy_from_slice(bytemuck::cast_slice(&words));
            let bytes = content(offset as u64, len);
            expected[offset..offset + len].copy_from_slice(&bytes);
            Writable::copy_in(&lines, offset, &bytes);
            Readable::copy_out(&lines, 0, &mut words).unwrap();
            assert_eq!(bytemuck::cast_slice::<_, u8>(&words), expected, "{len} at {offset}");
        }
        assert!(Readable::copy_out(&lines, 2 * LINE, &mut [0; 9]).is_err());
    });
}

fn content(tag: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![];
    fill(&mut bytes, tag, len);
    bytes
}

/// Bytes of which none is zero.
fn fill(bytes: &mut Vec<u8>, tag: u64, len: usize) {
    bytes.clear();
    bytes.extend((0..len).map(|at| (tag as usize + at).to_le_bytes()[0] | 1));
}
