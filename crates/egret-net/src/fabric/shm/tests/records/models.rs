//! Every interleaving of a sender and a receiver, by the model checker.

use loom::thread;

use super::content;
use crate::atomics::checker::check;
use crate::fabric::shm::memory::{LINE, Readable, Writable};
use crate::fabric::shm::records::{INLINE, RingReceiver, RingSender, Scratch, SendRecordError};
use crate::fabric::shm::tests::checker::{Memory, memory};

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
        assert_eq!(why, SendRecordError::Full);
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

/// The ring has room for two, so the sender waits for the first to be consumed.
pub(in super::super) fn one_line() {
    models(2, &[8, 48, 16]);
}

#[test]
fn loom_records_of_two_lines_go_around_a_ring() {
    check(two_lines);
}

/// The second does not fit before the end of the ring, nor beside the first.
pub(in super::super) fn two_lines() {
    models(4, &[56, 64]);
}

#[test]
fn loom_posted_records_and_items_go_around_a_ring() {
    check(posted);
}

/// An item of two lines, records, and one where the item was. The sender looks how far the
/// receiver is, which says so when it is done with each.
pub(in super::super) fn posted() {
    const LENGTHS: [usize; 4] = [56, 0, 0, 8];
    let (mut sender, receiver) = model(4);
    let mut receiver = receiver.of_posted();
    let sending = thread::spawn(move || {
        for (tag, len) in (1..).zip(LENGTHS) {
            let bytes = content(tag, len);
            let mut send = || match tag {
                1 => sender.send_item(tag, &[&bytes]),
                _ => sender.send(tag, &[&bytes]),
            };
            while let Err(why) = send() {
                assert_eq!(why, SendRecordError::Full);
                thread::yield_now();
            }
        }
    });
    let mut scratch = Scratch::of_posted();
    for (tag, len) in (1..).zip(LENGTHS) {
        let taken = loop {
            match receiver.take_posted(&mut scratch).unwrap() {
                Some(taken) => break taken,
                None => thread::yield_now(),
            }
        };
        assert_eq!((taken.is_item, taken.tag), (tag == 1, tag));
        assert_eq!(taken.payload, content(tag, len));
        receiver.release(receiver.position());
    }
    sending.join().unwrap();
}

#[test]
fn loom_a_record_is_not_written_over_before_it_is_copied() {
    check(right_behind);
}

/// The last one goes where the first was, as soon as there is room.
pub(in super::super) fn right_behind() {
    models(4, &[56, 0, 0, 8]);
}

#[test]
fn loom_a_record_too_long_for_the_rest_of_the_ring_skips_it() {
    check(skipping);
}

pub(in super::super) fn skipping() {
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
pub(in super::super) fn stale_payload() {
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
fn loom_copies_by_words_are_exact() {
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
