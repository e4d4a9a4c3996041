//! The bytes, and any other bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fabric::common::ConnectRefusal;
use crate::fabric::common::bytes::{ByteReader, Malformed, TEXTS};
use crate::fabric::handshake::STEP_MAX;
use crate::fabric::handshake::fuzzing;
use crate::fabric::handshake::step::{BODY_MAX, HEAD, HandshakeStep, StepKind, StepReader};
use crate::vi::SecretError;

/// The messages of the handshake were made with an implementation of its own in Python, with the
/// primitives of the package `cryptography`.
#[test]
#[cfg(target_endian = "little")]
fn the_bytes_are_these_for_ever() {
    let (mut caller, mut callee) = (caller("egret"), callee("egret"));
    let opening = said_by_caller(&mut caller);
    assert_eq!(opening[..12], *b"EGRT\x02\x01\x05\0\x01\x03\x40\0");
    assert_eq!(shown(&opening[12..]), GOLDEN[0]);
    callee.feed(&opening).unwrap();
    let opening = said_by_callee(&mut callee);
    assert_eq!(opening[..12], *b"EGRT\x02\x01\x05\0\x01\0\x61\0");
    assert_eq!(shown(&opening[12..]), GOLDEN[1]);
    caller.feed(&opening).unwrap();
    let asking = said_by_caller(&mut caller);
    assert_eq!(asking[..12], *b"EGRT\x02\x01\x05\0\x02\0\x62\0");
    assert_eq!(shown(&asking[12..]), GOLDEN[2]);
    callee.feed(&asking).unwrap();
    callee.welcome(b"terms of b");
    let welcome = said_by_callee(&mut callee);
    assert_eq!(welcome[..12], *b"EGRT\x02\x01\x05\0\x03\0\x1a\0");
    assert_eq!(shown(&welcome[12..]), GOLDEN[3]);
}

fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const GOLDEN: [&str; 4] = [
    "452bf1b7e5955c05572c38c03a24919da4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9d\
     f9dc2b4409f8a209bf656541c8a48d97f515d425010e9404",
    "ce8d3ad1ccb633ec7b70c17814a5c76ecd029685050d344745ba05870e587d597de69406fe43aeae\
     87a078bb8fd3f9ce201ad1af3added7dc538ee2f1417d658532d5696b22587c04ef87084ee1995bb\
     1fd14a27c04bf1c19fa3f48916e53334c3",
    "5739992f7d772aa21ec01f6f282a3e8bccb7e9bc09e520bbbce90b4b1c9c0c36eb5f16355d322c04\
     be96693198cc42e3d232183d94a1ba0ee45024310b7cc89ed05077a48f57b3b5366f47f7b46b83fc\
     61e57320c8cfcc4c962822a0d97f698c9c09",
    "a124a044d8d2438ddf39cce54fa2defafda5e19054e283c73c5b",
];

#[test]
fn the_bytes_of_refusals_are_these_for_ever() {
    let version = HelloError::Version { theirs: 3, ours: 2 };
    for (refusal, bytes) in [
        (ConnectRefusal::NotListening, &b"\x01"[..]),
        (ConnectRefusal::Reliability(Reliability::Reception), b"\x02\x02"),
        (ConnectRefusal::Hello(HelloError::NotEgret), b"\x03\x01"),
        (ConnectRefusal::Hello(HelloError::OtherByteOrder), b"\x03\x02"),
        (ConnectRefusal::Hello(version), b"\x03\x03\x02\0\x03\0"),
        (ConnectRefusal::Hello(HelloError::Malformed("service name")), b"\x03\x04\x0cservice name"),
        (ConnectRefusal::OtherUser { uid: 1000 }, b"\x04\xe8\x03\0\0"),
        (ConnectRefusal::Crowded, b"\x05"),
        (ConnectRefusal::Secret(SecretError::Different), b"\x06\x01"),
        (ConnectRefusal::Secret(SecretError::OnlyOurs), b"\x06\x02"),
        (ConnectRefusal::Secret(SecretError::OnlyTheirs), b"\x06\x03"),
        (ConnectRefusal::Secret(SecretError::Stranger), b"\x06\x04"),
        (ConnectRefusal::NicDown, b"\x07"),
        (ConnectRefusal::OtherTag, b"\x08"),
    ] {
        let mut written = Vec::new();
        refusal.push(&mut written);
        assert_eq!(written, bytes, "{refusal:?}");
        let mut again = Vec::new();
        read(bytes).unwrap().push(&mut again);
        // Whoever reads it is the other side.
        let mirrored = matches!(refusal, ConnectRefusal::Hello(HelloError::Version { .. }))
            || matches!(
                refusal,
                ConnectRefusal::Secret(SecretError::OnlyOurs | SecretError::OnlyTheirs)
            );
        assert_eq!(again == bytes, !mirrored, "{refusal:?}");
    }
}

fn read(bytes: &[u8]) -> Result<ConnectRefusal, Malformed> {
    let mut reader = ByteReader::new(bytes);
    let refusal = ConnectRefusal::read(reader.u8()?, &mut reader)?;
    reader.end().map(|()| refusal)
}

#[test]
fn every_text_is_known() {
    for text in TEXTS {
        let mut bytes = Vec::new();
        let why = ConnectRefusal::Hello(HelloError::Malformed(text));
        why.push(&mut bytes);
        assert_eq!(read(&bytes), Ok(why));
    }
    let unknown = read(b"\x03\x04\x02hm").unwrap();
    let says = "the handshake is malformed: for a reason that this version has no words for";
    assert_eq!(unknown.to_string(), says);
}

pub(super) fn a_step_is_not_longer_than_it_may_be() {
    for kind in [1, 2, 3, 4, 5] {
        let len = u16::try_from(BODY_MAX + 1).unwrap().to_le_bytes();
        let head = [&b"EGRT\x02\x01\x05\0"[..], &[kind, 0], &len].concat();
        let mut inbox = StepReader::default();
        assert!(inbox.feed(&head).is_err(), "{kind}");
        assert!(inbox.held() <= HEAD, "{kind}");
    }
}

#[test]
fn a_step_has_a_bound() {
    a_step_is_not_longer_than_it_may_be();
}

#[test]
fn memory_is_taken_for_what_has_come() {
    let len = u16::try_from(BODY_MAX).unwrap().to_le_bytes();
    let head = [&b"EGRT\x02\x01\x05\0\x02\0"[..], &len].concat();
    let mut inbox = StepReader::default();
    assert_eq!(inbox.feed(&head), Ok((HEAD, None)));
    assert!(inbox.held() <= HEAD);
    assert_eq!(inbox.feed(&[0; 100]), Ok((100, None)));
    assert!(inbox.held() <= HEAD + 100);
    assert!(matches!(inbox.feed(&[0; STEP_MAX]), Ok((taken, Some(_))) if taken == BODY_MAX - 100));
}

proptest! {
    #[test]
    fn a_step_is_read_as_it_was_written(
        kind in 0..4_usize, flags: u8, body in vec(any::<u8>(), 0..BODY_MAX), cut: prop::sample::Index,
    ) {
        let kind = [StepKind::Opening, StepKind::Asking, StepKind::Welcome, StepKind::Refusal][kind];
        let step = HandshakeStep::new(kind, flags, body);
        let mut bytes = step.encode();
        bytes.extend(b"more");
        let (first, second) = bytes.split_at(cut.index(bytes.len() - 4));
        let mut inbox = StepReader::default();
        prop_assert_eq!(inbox.feed(first), Ok((first.len(), None)));
        prop_assert_eq!(inbox.feed(second), Ok((second.len() - 4, Some(step))));
    }

    #[test]
    fn any_bytes_have_one_outcome(side: u8, piece: u8, bytes in vec(any::<u8>(), 0..200)) {
        fuzzing::stranger(&[&[side, piece][..], &bytes].concat());
    }

    #[test]
    fn nearly_right_bytes_have_one_outcome(
        side: u8, piece: u8, kind in 0..6_u8, flags in 0..3_u8, len in 0..80_u8, bytes in vec(any::<u8>(), 0..200),
    ) {
        let head = [&[side, piece][..], b"EGRT\x02\x01\x05\0", &[kind, flags, len, 0]].concat();
        fuzzing::stranger(&[head, bytes].concat());
    }
}
