//! The bytes of frames.

use proptest::prelude::*;

use super::raw::{COUNTS, counted, frame};
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::DrainedUnits;
use crate::fabric::tcp::wire::{CHUNK, CONTROL_MAX, HEAD, TcpFrame, TcpHead};
use crate::vi::{AccessError, EAGER_MAX, Lane};

/// One of each kind, with their payloads.
fn all() -> Vec<(TcpFrame, Vec<u8>)> {
    let outside = AccessError::OutOfBounds { offset: 5, len: 6, size: 7 };
    let with = |frame, bytes: &[u8]| (frame, bytes.to_vec());
    let alone = |frame| (frame, Vec::new());
    vec![
        with(TcpFrame::Message { tag: 7, kind: None }, b"hello"),
        with(TcpFrame::Message { tag: 7, kind: Some(9) }, b"hello"),
        with(TcpFrame::Begin { tag: 1, kind: None, len: 65_537 }, b"first"),
        with(TcpFrame::Begin { tag: 1, kind: Some(2), len: 65_537 }, b"first"),
        with(TcpFrame::Piece, b"more"),
        alone(TcpFrame::Read { id: 1, secret: 2, offset: 3, len: 4 }),
        with(TcpFrame::ReadPiece { id: 1 }, b"some"),
        alone(TcpFrame::ReadEnd { id: 1, result: Ok(()) }),
        alone(TcpFrame::ReadEnd { id: 1, result: Err(AccessError::Forbidden { asked: "read" }) }),
        alone(TcpFrame::Write { secret: 2, offset: 3, len: 4 }),
        alone(TcpFrame::WriteEnd { id: 1, notify: None }),
        alone(TcpFrame::WriteEnd { id: 1, notify: Some(8) }),
        alone(TcpFrame::Written { id: 1, result: Ok(()) }),
        alone(TcpFrame::Written { id: 1, result: Err(AccessError::Revoked) }),
        alone(TcpFrame::Written { id: 1, result: Err(outside) }),
        alone(TcpFrame::Written { id: 1, result: Err(AccessError::Forbidden { asked: "write" }) }),
        with(TcpFrame::Kind { fingerprint: 9 }, b"\x03f64"),
        alone(COUNTS),
        alone(TcpFrame::Counts { drained: DrainedUnits(3 << 32 | 4), asks: true }),
        with(TcpFrame::Eager { lane: Lane::Talk, tag: 7, drained: DrainedUnits(5) }, b"talk"),
        with(TcpFrame::Eager { lane: Lane::Bulk, tag: 8, drained: DrainedUnits(6 << 32) }, b""),
        with(TcpFrame::Goodbye, b"\0"),
    ]
}

#[test]
fn a_message_is_these_bytes_for_ever() {
    let counts = ReceiveCounts { taken: 3, receives: 2, placed: 1 };
    let bytes = counted(TcpFrame::Message { tag: 0x0102, kind: None }, b"hi", counts);
    let expected = b"\x01\0\0\0\x02\0\0\0\x02\x01\0\0\0\0\0\0\
                     \x01\0\x40\0\0\x0c\0\0hi";
    assert_eq!(bytes, expected);
}

#[test]
fn a_typed_beginning_is_these_bytes_for_ever() {
    let begin = TcpFrame::Begin { tag: 5, kind: Some(0xabcd), len: 0x01_0001 };
    let expected = b"\x02\x01\x02\0\x01\0\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
                     \x01\0\x01\0\0\0\0\0\xcd\xab\0\0\0\0\0\0x";
    assert_eq!(frame(begin, b"x"), expected);
}

#[test]
fn an_eager_message_is_these_bytes_for_ever() {
    let eager =
        TcpFrame::Eager { lane: Lane::Bulk, tag: 0x0102, drained: DrainedUnits(3 << 32 | 9) };
    let expected = b"\x0d\x10\x01\0\x02\0\0\0\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
                     \x09\0\0\0\x03\0\0\0hi";
    assert_eq!(frame(eager, b"hi"), expected);
}

#[test]
fn a_refused_write_is_these_bytes_for_ever() {
    let why = AccessError::OutOfBounds { offset: 1, len: 2, size: 3 };
    let expected = b"\x09\x04\x04\0\0\0\0\0\x07\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
                     \x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
    assert_eq!(frame(TcpFrame::Written { id: 7, result: Err(why) }, b""), expected);
}

#[test]
fn what_is_written_is_read() {
    for (written, payload) in all() {
        let counts = ReceiveCounts { taken: 1, receives: 2, placed: 3 };
        let bytes = counted(written, &payload, counts);
        let len = TcpHead::len(bytes.first_chunk().unwrap()).unwrap();
        let head = TcpHead::decode(&bytes[..len]).unwrap();
        assert_eq!(head, TcpHead { frame: written, payload: payload.len(), counts: counts.pack() });
    }
}

#[test]
fn lengths_have_bounds() {
    let lengths = [
        (TcpFrame::Message { tag: 0, kind: None }, CHUNK),
        (TcpFrame::Piece, CHUNK),
        (TcpFrame::ReadPiece { id: 0 }, CHUNK),
        (TcpFrame::Kind { fingerprint: 0 }, CONTROL_MAX),
        (TcpFrame::Goodbye, CONTROL_MAX),
        (COUNTS, 0),
        (TcpFrame::Eager { lane: Lane::Talk, tag: 0, drained: DrainedUnits(0) }, EAGER_MAX),
        (TcpFrame::WriteEnd { id: 0, notify: None }, 0),
    ];
    for (frame, most) in lengths {
        for (payload, is_fit) in [(most, true), (most + 1, false), (u32::MAX as usize, false)] {
            let mut bytes = Vec::new();
            frame.push(payload, ReceiveCounts::default(), &mut bytes);
            assert_eq!(TcpHead::decode(&bytes).is_ok(), is_fit, "{frame:?} of {payload}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer(bytes in proptest::collection::vec(any::<u8>(), HEAD..=HEAD + 32)) {
        if let Ok(head) = TcpHead::decode(&bytes) {
            let mut again = Vec::new();
            head.frame.push(head.payload, ReceiveCounts::default(), &mut again);
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
        if let Ok(head) = TcpHead::decode(&bytes) {
            let mut again = Vec::new();
            head.frame.push(head.payload, ReceiveCounts::default(), &mut again);
            prop_assert_eq!(&again[..16], &bytes[..16]);
        }
    }
}
