//! The bytes of datagrams.

use crate::rt::Instant;
use crate::vi::Descriptor;
use proptest::prelude::*;

use super::super::WindowLane;
use super::super::WindowViolation;
use super::super::fuzzing::shelf::Shelved as Window;
use super::super::lane::LANES;
use super::super::wire::{self, Ack, DatagramHead, MessageStart, WindowPiece};
use super::run::{Ground, terms};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn datagrams_are_these_for_ever() {
    let mut window = Window::new(terms(8), Ground::new());
    let talk = Descriptor::new(b"egret".to_vec()).with_tag(0x0102_0304_0506_0708);
    window.send(WindowLane::Eager, talk);
    window.send(WindowLane::Control, Descriptor::empty().with_tag(9));
    let mut out = Vec::new();
    assert!(window.poll_datagram(Instant::from_nanos(0), &mut out));
    let head = "cb907a30 01000000 0000000000000000 00000000000000000000000000000000";
    let control = "00000000 00000080 0000000000000000 0900000000000000";
    let talk = "00000000 05000081 0500000000000000 0807060504030201 6567726574";
    assert_eq!(hex(&out), [head, control, talk].concat().replace(' ', ""));
}

#[test]
fn acknowledgements_are_these_for_ever() {
    let acks = [(1, 0), (2, 6), (3, 1 << 63), (4, 0)].map(|(next, bits)| Ack { next, bits });
    let mut out = Vec::new();
    DatagramHead { number: 5, held: true, answer: true, acks }.write(&mut out);
    wire::seal(&mut out);
    let head = "a3bcc0d6 012d0000 0500000000000000 01000000020000000300000004000000";
    let bits = "0600000000000000 0000000000000080";
    assert_eq!(hex(&out), [head, bits].concat().replace(' ', ""));
}

#[test]
fn what_makes_no_sense_is_said() {
    let malformed = |bytes: &[u8]| {
        matches!(DatagramHead::read(&mut &*bytes), Err(WindowViolation::Malformed(_)))
    };
    let mut good = Vec::new();
    let [second, third, fourth] = [Ack::default(); 3];
    let acks = [Ack { next: 7, bits: 2 }, second, third, fourth];
    DatagramHead { number: 5, held: false, answer: false, acks }.write(&mut good);
    assert!(!malformed(&good));
    for (at, byte) in [(4, 0), (4, 2), (5, 64), (5, 255), (6, 1), (7, 1), (32, 0), (32, 3)] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert!(malformed(&bad), "byte {at} is {byte}");
    }
    for len in 0..good.len() {
        assert!(malformed(&good[..len]), "{len} bytes");
    }
}

#[test]
pub(super) fn a_changed_bit_anywhere_is_noticed() {
    let mut out = Vec::new();
    DatagramHead { number: 5, held: false, answer: true, acks: [Ack::default(); LANES] }
        .write(&mut out);
    WindowPiece::write_head(WindowLane::Posted, 3, None, 4, &mut out);
    out.extend_from_slice(&[1, 2, 3, 4]);
    wire::seal(&mut out);
    assert!(wire::is_intact(&out));
    for bit in 0..out.len() * 8 {
        out[bit / 8] ^= 1 << (bit % 8);
        assert!(!wire::is_intact(&out), "bit {bit}");
        out[bit / 8] ^= 1 << (bit % 8);
    }
    for len in 0..out.len() {
        assert!(!wire::is_intact(&out[..len]), "{len} bytes");
    }
}

fn ack() -> impl Strategy<Value = Ack> {
    (any::<u32>(), prop_oneof![Just(0), any::<u64>()])
        .prop_map(|(next, bits)| Ack { next, bits: bits & !1 })
}

fn head() -> impl Strategy<Value = DatagramHead> {
    let acks = [ack(), ack(), ack(), ack()];
    let head = (any::<u64>(), any::<bool>(), any::<bool>(), acks);
    head.prop_map(|(number, held, answer, acks)| DatagramHead { number, held, answer, acks })
}

type PieceRange = (usize, u32, Option<(u64, u64)>, Vec<u8>);

fn cut() -> impl Strategy<Value = PieceRange> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..40);
    (0..LANES, any::<u32>(), proptest::option::of(any::<(u64, u64)>()), bytes)
}

fn piece((lane, number, begins, bytes): &PieceRange) -> WindowPiece<'_> {
    let begins = begins.map(|(len, tag)| MessageStart { len, tag });
    WindowPiece { lane: WindowLane::ALL[*lane], number: *number, begins, bytes }
}

fn write(head: &DatagramHead, pieces: &[WindowPiece<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    head.write(&mut out);
    for piece in pieces {
        let len = u32::try_from(piece.bytes.len()).unwrap();
        WindowPiece::write_head(piece.lane, piece.number, piece.begins, len, &mut out);
        out.extend_from_slice(piece.bytes);
    }
    wire::seal(&mut out);
    out
}

fn read(mut from: &[u8]) -> Result<(DatagramHead, Vec<WindowPiece<'_>>), WindowViolation> {
    let head = DatagramHead::read(&mut from)?;
    let mut pieces = Vec::new();
    while let Some(piece) = WindowPiece::read(&mut from)? {
        pieces.push(piece);
    }
    Ok((head, pieces))
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_written(
        head in head(),
        cuts in proptest::collection::vec(cut(), 0..5),
    ) {
        let pieces: Vec<_> = cuts.iter().map(piece).collect();
        let out = write(&head, &pieces);
        prop_assert!(wire::is_intact(&out));
        prop_assert_eq!(read(&out).unwrap(), (head, pieces));
    }

    #[test]
    fn there_is_one_way_to_write_it(
        mut bytes in proptest::collection::vec(any::<u8>(), 32..120),
        flags in 0..64_u8,
    ) {
        (bytes[4], bytes[5], bytes[6], bytes[7]) = (1, flags, 0, 0);
        wire::seal(&mut bytes);
        if let Ok((head, pieces)) = read(&bytes) {
            prop_assert_eq!(write(&head, &pieces), bytes);
        }
    }

    #[test]
    fn the_nearest_number_is_found(near: u64, distance in -1000..1000_i64) {
        let number = near.checked_add_signed(distance);
        prop_assume!(number.is_some() || near < 1000);
        let low = wire::low(near.wrapping_add_signed(distance));
        prop_assert_eq!(wire::whole(low, near), number);
    }
}
