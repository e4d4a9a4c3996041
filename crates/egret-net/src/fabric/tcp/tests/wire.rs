//! The bytes of frames.

use proptest::prelude::*;

use super::raw::{COUNTS, counted, frame};
use crate::fabric::hub::counts::Counts;
use crate::fabric::hub::eager::Drained;
use crate::fabric::tcp::wire::{CHUNK, CONTROL_MAX, Frame, HEAD, Head};
use crate::vi::{AccessError, EAGER_MAX, Lane};

/// One of each kind, with their payloads.
fn all() -> Vec<(Frame, Vec<u8>)> {
    let outside = AccessError::OutOfBounds { offset: 5, len: 6, size: 7 };
    let with = |frame, bytes: &[u8]| (frame, bytes.to_vec());
    let alone = |frame| (frame, Vec::new());
    vec![
        with(Frame::Message { tag: 7, kind: None }, b"hello"),
        with(Frame::Message { tag: 7, kind: Some(9) }, b"hello"),
        with(Frame::Begin { tag: 1, kind: None, len: 65_537 }, b"first"),
        with(Frame::Begin { tag: 1, kind: Some(2), len: 65_537 }, b"first"),
        with(Frame::Piece, b"more"),
        alone(Frame::Read { id: 1, secret: 2, offset: 3, len: 4 }),
        with(Frame::ReadPiece { id: 1 }, b"some"),
        alone(Frame::ReadEnd { id: 1, result: Ok(()) }),
        alone(Frame::ReadEnd { id: 1, result: Err(AccessError::Forbidden { asked: "read" }) }),
        alone(Frame::Write { secret: 2, offset: 3, len: 4 }),
        alone(Frame::WriteEnd { id: 1, notify: None }),
        alone(Frame::WriteEnd { id: 1, notify: Some(8) }),
        alone(Frame::Written { id: 1, result: Ok(()) }),
        alone(Frame::Written { id: 1, result: Err(AccessError::Revoked) }),
        alone(Frame::Written { id: 1, result: Err(outside) }),
        alone(Frame::Written { id: 1, result: Err(AccessError::Forbidden { asked: "write" }) }),
        with(Frame::Kind { fingerprint: 9 }, b"\x03f64"),
        alone(COUNTS),
        alone(Frame::Counts { drained: Drained(3 << 32 | 4), asks: true }),
        with(Frame::Eager { lane: Lane::Talk, tag: 7, drained: Drained(5) }, b"talk"),
        with(Frame::Eager { lane: Lane::Bulk, tag: 8, drained: Drained(6 << 32) }, b""),
        with(Frame::Goodbye, b"\0"),
    ]
}

#[test]
fn a_message_is_these_bytes_for_ever() {
    let counts = Counts { taken: 3, receives: 2, placed: 1 };
    let bytes = counted(Frame::Message { tag: 0x0102, kind: None }, b"hi", counts);
    let expected = b"\x01\0\0\0\x02\0\0\0\x02\x01\0\0\0\0\0\0\
                     \x01\0\x40\0\0\x0c\0\0hi";
    assert_eq!(bytes, expected);
}

#[test]
fn a_typed_beginning_is_these_bytes_for_ever() {
    let begin = Frame::Begin { tag: 5, kind: Some(0xabcd), len: 0x01_0001 };
    let expected = b"\x02\x01\x02\0\x01\0\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
                     \x01\0\x01\0\0\0\0\0\xcd\xab\0\0\0\0\0\0x";
    assert_eq!(frame(begin, b"x"), expected);
}

#[test]
fn an_eager_message_is_these_bytes_for_ever() {
    let eager = Frame::Eager { lane: Lane::Bulk, tag: 0x0102, drained: Drained(3 << 32 | 9) };
    let expected = b"\x0d\x10\x01\0\x02\0\0\0\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
                     \x09\0\0\0\x03\0\0\0hi";
    assert_eq!(frame(eager, b"hi"), expected);
}

#[test]
fn a_refused_write_is_these_bytes_for_ever() {
    let why = AccessError::OutOfBounds { offset: 1, len: 2, size: 3 };
    let expected = b"\x09\x04\x04\0\0\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
                     \x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
    assert_eq!(frame(Frame::Written { id: 7, result: Err(why) }, b""), expected);
}

#[test]
fn what_is_written_is_read() {
    for (written, payload) in all() {
        let counts = Counts { taken: 1, receives: 2, placed: 3 };
        let bytes = counted(written, &payload, counts);
        let len = Head::len(bytes.first_chunk().unwrap()).unwrap();
        let head = Head::decode(&bytes[..len]).unwrap();
        assert_eq!(head, Head { frame: written, payload: payload.len(), counts: counts.pack() });
    }
}

#[test]
fn lengths_have_bounds() {
    let lengths = [
        (Frame::Message { tag: 0, kind: None }, CHUNK),
        (Frame::Piece, CHUNK),
        (Frame::ReadPiece { id: 0 }, CHUNK),
        (Frame::Kind { fingerprint: 0 }, CONTROL_MAX),
        (Frame::Goodbye, CONTROL_MAX),
        (COUNTS, 0),
        (Frame::Eager { lane: Lane::Talk, tag: 0, drained: Drained(0) }, EAGER_MAX),
        (Frame::WriteEnd { id: 0, notify: None }, 0),
    ];
    for (frame, most) in lengths {
        for (payload, is_fit) in [(most, true), (most + 1, false), (u32::MAX as usize, false)] {
            let mut bytes = Vec::new();
            frame.push(payload, Counts::default(), &mut bytes);
            assert_eq!(Head::decode(&bytes).is_ok(), is_fit, "{frame:?} of {payload}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer(bytes in proptest::collection::vec(any::<u8>(), HEAD..=HEAD + 32)) {
        if let Ok(head) = Head::decode(&bytes) {
            let mut again = Vec::new();
            head.frame.push(head.payload, Counts::default(), &mut again);
            prop_assert_eq!(&again[..16], &bytes[..16]);
            prop_assert_eq!(&again[HEAD..], &bytes[HEAD..]);
        }
    }

    #[test]
    fn heads_that_are_nearly_right_are_an_answer(
        kind in 0..14_u8, flags in 0..17_u8, words in 0..5_u8, payload in 0..70_000_u32,
        rest in proptest::collection::vec(any::<u8>(), 48),
    ) {
        let mut bytes = vec![kind, flags, words, 0];
        bytes.extend(payload.to_le_bytes());
        bytes.extend(rest);
        bytes.truncate(HEAD + 8 * usize::from(words));
        if let Ok(head) = Head::decode(&bytes) {
            let mut again = Vec::new();
            head.frame.push(head.payload, Counts::default(), &mut again);
            prop_assert_eq!(&again[..16], &bytes[..16]);
        }
    }
}
