//! The bytes, for ever.

use proptest::prelude::*;

use crate::fabric::common::bytes::Malformed;
use crate::fabric::udp::wire::{
    ConnectionNumber, GoodbyeReason, HANDSHAKE_BYTES, HEAD_MAX, MESSAGE_MAX, MessageSplit,
    UNIT_MIN, UdpDatagram, UdpHead, UdpKind, UdpPiece, answer, extra, start_handshake,
};

const TO: ConnectionNumber = ConnectionNumber(0x0807_0605_0403_0201);

fn piece(split: MessageSplit, index: u32, bytes: &[u8]) -> UdpPiece<'_> {
    UdpPiece { number: 9, tag: 0xaabb, eager: false, split, index, kind: None, bytes }
}

fn joined(head: &UdpHead, bytes: &[u8]) -> Vec<u8> {
    [head.bytes(), bytes].concat()
}

#[test]
fn the_bytes_are_these_for_ever() {
    let whole = piece(MessageSplit { len: 2, unit: 2 }, 0, b"hi");
    let bytes = joined(&UdpHead::<HEAD_MAX>::of_piece(TO, &whole), b"hi");
    let expected = b"\x01\0\0\0\x02\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\
        \x09\0\0\0\0\0\0\0\xbb\xaa\0\0\0\0\0\0hi";
    assert_eq!(bytes, expected);
    assert_eq!(UdpDatagram::decode(expected), Ok(UdpDatagram::Piece { to: TO, piece: whole }));

    let rest = [7; 44];
    let kind = Some(UdpKind { fingerprint: 5, name: "f32" });
    let part = UdpPiece { kind, ..piece(MessageSplit { len: 300, unit: 256 }, 1, &rest) };
    let bytes = joined(&UdpHead::<HEAD_MAX>::of_piece(TO, &part), &rest);
    let expected = b"\x02\x01\0\0\x2c\x01\0\0\x01\x02\x03\x04\x05\x06\x07\x08\
        \x09\0\0\0\0\0\0\0\xbb\xaa\0\0\0\0\0\0\x01\0\0\0\0\x01\0\0\
        \x05\0\0\0\0\0\0\0\x03f32";
    assert_eq!(bytes, [expected.as_slice(), &rest].concat());
    assert_eq!(UdpDatagram::decode(&bytes), Ok(UdpDatagram::Piece { to: TO, piece: part }));
}

#[test]
fn the_bytes_of_groups_are_these_for_ever() {
    let whole = piece(MessageSplit { len: 2, unit: 2 }, 0, b"hi");
    let head = UdpHead::<HEAD_MAX>::of_group(3, 4, true, &whole);
    let bytes = joined(&head, b"hi0123456789abcdef");
    let expected = b"\x01\x06\0\0\x02\0\0\0\x03\0\0\0\0\0\0\0\
        \x09\0\0\0\0\0\0\0\xbb\xaa\0\0\0\0\0\0\x04\0\0\0\0\0\0\0hi0123456789abcdef";
    assert_eq!(bytes, expected);
    let signature = Some(b"0123456789abcdef");
    let group = UdpDatagram::Group { group: 3, from: 4, signature, piece: whole };
    assert_eq!(UdpDatagram::decode(expected), Ok(group));
}

#[test]
fn the_bytes_of_other_kinds_are_these_for_ever() {
    let number = b"\x01\x02\x03\x04\x05\x06\x07\x08";
    let fixed =
        |kind: u8, flags: u8| [&[kind, flags, 0, 0, 0, 0, 0, 0], number.as_slice()].concat();
    let token = [fixed(8, 0), vec![5, 0, 0, 0, 0, 0, 0, 0]].concat();
    let all = [
        (UdpHead::probe(TO), fixed(3, 0), UdpDatagram::Probe { to: TO }),
        (UdpHead::alive(TO), fixed(4, 0), UdpDatagram::Alive { to: TO }),
        (
            UdpHead::goodbye(TO, GoodbyeReason::NicDown),
            fixed(5, 1),
            UdpDatagram::Goodbye { to: TO, why: GoodbyeReason::NicDown },
        ),
        (
            UdpHead::goodbye(TO, GoodbyeReason::Closed),
            fixed(5, 0),
            UdpDatagram::Goodbye { to: TO, why: GoodbyeReason::Closed },
        ),
        (UdpHead::unknown(TO), fixed(6, 0), UdpDatagram::Unknown { number: TO }),
        (UdpHead::token(TO, 5), token, UdpDatagram::Token { to: TO, token: 5 }),
    ];
    for (head, bytes, datagram) in all {
        assert_eq!(head.bytes(), bytes);
        assert_eq!(UdpDatagram::decode(&bytes), Ok(datagram));
    }
}

#[test]
fn the_bytes_of_windows_are_these_for_ever() {
    let bytes = [UdpHead::window(TO, 6).as_slice(), b"window"].concat();
    assert_eq!(bytes, b"\x0a\0\0\0\x06\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08window");
    assert_eq!(UdpDatagram::decode(&bytes), Ok(UdpDatagram::Window { to: TO, bytes: b"window" }));
}

#[test]
fn the_bytes_of_handshakes_are_these_for_ever() {
    let from = ConnectionNumber(2);
    let bytes = start_handshake(TO.0, from, b"step");
    let expected = b"\x07\0\0\0\x04\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\x02\0\0\0\0\0\0\0step";
    assert_eq!((&bytes[..28], bytes.len()), (expected.as_slice(), HANDSHAKE_BYTES));
    let decoded = UdpDatagram::decode(&bytes);
    assert_eq!(decoded, Ok(UdpDatagram::Handshake { token: TO.0, from, stream: b"step" }));
    assert!(UdpDatagram::decode(&bytes[..1199]).is_err(), "a short handshake would be amplified");

    let bytes = answer(TO, from, true, b"step");
    let expected = b"\x09\x01\0\0\x04\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08\x02\0\0\0\0\0\0\0step";
    assert_eq!(bytes, expected);
    let decoded = UdpDatagram::Answer { to: TO, from, waits: true, stream: b"step" };
    assert_eq!(UdpDatagram::decode(expected), Ok(decoded));
}

/// Every datagram whose header and bytes do not go together is none.
pub(super) fn lengths_are_checked() {
    let head = |split, index| UdpHead::<HEAD_MAX>::of_piece(TO, &piece(split, index, &[]));
    let whole = MessageSplit { len: 10, unit: 10 };
    let cut = MessageSplit { len: 600, unit: 256 };
    for (split, index, right) in [(whole, 0, 10), (cut, 0, 256), (cut, 1, 256), (cut, 2, 88)] {
        for len in [0, 1, right - 1, right, right + 1, 600] {
            let bytes = joined(&head(split, index), &vec![0; len]);
            assert_eq!(
                UdpDatagram::decode(&bytes).is_ok(),
                len == right,
                "{split:?} {index} {len}"
            );
        }
    }
    let wrong = [
        (MessageSplit { len: 600, unit: UNIT_MIN - 1 }, 0, 255),
        (MessageSplit { len: MESSAGE_MAX + 1, unit: 1024 }, 0, 1024),
        (MessageSplit { len: u32::MAX, unit: u32::MAX - 1 }, 0, 0),
        (cut, 3, 0),
        (cut, u32::MAX, 0),
        (MessageSplit { len: 600, unit: 0 }, 0, 0),
    ];
    for (split, index, len) in wrong {
        let bytes = joined(&head(split, index), &vec![0; len]);
        assert!(UdpDatagram::decode(&bytes).is_err(), "{split:?} {index}");
    }
}

#[test]
fn a_datagram_goes_together() {
    lengths_are_checked();
}

/// Every datagram says how long it is, with others behind it.
#[test]
fn datagrams_that_come_together_are_told_apart() {
    let payload = [7; 256];
    let cut = piece(MessageSplit { len: 600, unit: 256 }, 0, &payload);
    let all = [
        [UdpHead::window(TO, 6).as_slice(), b"window"].concat(),
        joined(
            &UdpHead::<HEAD_MAX>::of_piece(TO, &piece(MessageSplit { len: 2, unit: 2 }, 0, b"hi")),
            b"hi",
        ),
        joined(&UdpHead::<HEAD_MAX>::of_piece(TO, &cut), &payload),
        UdpHead::probe(TO).bytes().to_vec(),
        UdpHead::token(TO, 5).bytes().to_vec(),
        start_handshake(TO.0, ConnectionNumber(2), b"step"),
        answer(TO, ConnectionNumber(2), true, b"step"),
    ];
    let together = all.concat();
    let mut left = &together[..];
    for datagram in &all {
        assert_eq!(UdpDatagram::first(left).map(|(_, len)| len), Ok(datagram.len()));
        assert_eq!(UdpDatagram::decode(left).is_ok(), left.len() == datagram.len());
        left = &left[datagram.len()..];
    }
    assert!(left.is_empty());
}

#[test]
fn what_is_not_said_is_zero() {
    let good = UdpHead::probe(TO).bytes().to_vec();
    for at in 1..8 {
        let mut bytes = good.clone();
        bytes[at] = 8;
        assert!(UdpDatagram::decode(&bytes).is_err(), "byte {at}");
    }
    assert_eq!(UdpDatagram::decode(&good[..15]), Err(Malformed("too short")));
    let more = [good, vec![0]].concat();
    assert_eq!(UdpDatagram::decode(&more), Err(Malformed("bytes after its end")));
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer(kind in 0..12_u8, rest in proptest::collection::vec(any::<u8>(), 0..400)) {
        let bytes = [vec![kind], rest].concat();
        let _ = UdpDatagram::decode(&bytes);
    }

    #[test]
    fn pieces_are_all_of_a_message_once(len in 0..=MESSAGE_MAX, room in 548..65_507_usize, name in 0..80_usize) {
        let kind = (name > 0).then(|| crate::buf::Kind {
            fingerprint: 1,
            name: "n".repeat(name).into(),
        });
        let split = MessageSplit::new(len, room, extra(kind.as_ref(), false, false));
        let mut end = 0;
        for index in 0..split.count() {
            let (offset, bytes) = split.range(index);
            prop_assert_eq!(offset, end);
            end += bytes;
            let named = kind.as_ref().map(|kind| UdpKind { fingerprint: 1, name: &kind.name });
            let payload = vec![0; bytes as usize];
            let piece = UdpPiece { kind: named, ..piece(split, index, &payload) };
            let datagram = joined(&UdpHead::<HEAD_MAX>::of_piece(TO, &piece), &payload);
            prop_assert!(datagram.len() <= room, "{} of {}", datagram.len(), room);
            if index < 2 || index + 2 > split.count() {
                prop_assert!(UdpDatagram::decode(&datagram).is_ok());
            }
        }
        prop_assert_eq!(end, len);
    }
}
