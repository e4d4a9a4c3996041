//! The bytes, and any other bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fabric::greet::STEP_MAX;
use crate::fabric::greet::fuzzing;
use crate::fabric::greet::step::{BODY_MAX, HEAD, Inbox, Kind, Step};
use crate::fabric::hub::Refusal;
use crate::fabric::hub::bytes::{Malformed, Reader, TEXTS};
use crate::vi::SecretError;

#[test]
#[cfg(target_endian = "little")]
fn the_bytes_are_these_for_ever() {
    let (mut caller, mut callee) = (caller("egret"), callee("egret"));
    let opening = said_by_caller(&mut caller);
    assert_eq!(opening, [&b"EGRT\x02\x01\x04\0\x01\x01\x20\0"[..], &[1; 32]].concat());
    callee.feed(&opening).unwrap();
    let opening = said_by_callee(&mut callee);
    assert_eq!(opening, [&b"EGRT\x02\x01\x04\0\x01\x01\x20\0"[..], &[2; 32]].concat());
    caller.feed(&opening).unwrap();
    let asking = said_by_caller(&mut caller);
    let words = b"\x16\0EGRT\x02\x01\x04\0\x01\x04\x07\0\0\0\0\0\0\0gridterms of a";
    assert_eq!(asking[..12], *b"EGRT\x02\x01\x04\0\x02\0\x42\0");
    assert_eq!(shown(&asking[12..44]), ASKING_PROOF);
    assert_eq!(asking[44..], *words);
    callee.feed(&asking).unwrap();
    callee.welcome(b"terms of b");
    let welcome = said_by_callee(&mut callee);
    assert_eq!(welcome[..12], *b"EGRT\x02\x01\x04\0\x03\0\x2a\0");
    assert_eq!(shown(&welcome[12..44]), WELCOME_PROOF);
    assert_eq!(welcome[44..], *b"terms of b");
}

fn shown(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Made with Python's `hmac` and `hashlib`.
const ASKING_PROOF: &str = "cef76d1ae92ca181052679a80e05456b92fc5f7212792691783580941ec1dde2";
const WELCOME_PROOF: &str = "a904cfcce84fe2334b3106a4187e5a292a513864733c8840a75d64090c692941";

#[test]
fn the_bytes_of_refusals_are_these_for_ever() {
    let version = HelloError::Version { theirs: 3, ours: 2 };
    for (refusal, bytes) in [
        (Refusal::NotListening, &b"\x01"[..]),
        (Refusal::Reliability(Reliability::Reception), b"\x02\x02"),
        (Refusal::Hello(HelloError::NotEgret), b"\x03\x01"),
        (Refusal::Hello(HelloError::OtherByteOrder), b"\x03\x02"),
        (Refusal::Hello(version), b"\x03\x03\x02\0\x03\0"),
        (Refusal::Hello(HelloError::Malformed("service name")), b"\x03\x04\x0cservice name"),
        (Refusal::OtherUser { uid: 1000 }, b"\x04\xe8\x03\0\0"),
        (Refusal::Crowded, b"\x05"),
        (Refusal::Secret(SecretError::Different), b"\x06\x01"),
        (Refusal::Secret(SecretError::OnlyOurs), b"\x06\x02"),
        (Refusal::Secret(SecretError::OnlyTheirs), b"\x06\x03"),
        (Refusal::NicDown, b"\x07"),
        (Refusal::OtherTag, b"\x08"),
    ] {
        let mut written = Vec::new();
        refusal.push(&mut written);
        assert_eq!(written, bytes, "{refusal:?}");
        let mut again = Vec::new();
        read(bytes).unwrap().push(&mut again);
        // Whoever reads it is the other side.
        let mirrored = matches!(refusal, Refusal::Hello(HelloError::Version { .. }))
            || matches!(refusal, Refusal::Secret(SecretError::OnlyOurs | SecretError::OnlyTheirs));
        assert_eq!(again == bytes, !mirrored, "{refusal:?}");
    }
}

fn read(bytes: &[u8]) -> Result<Refusal, Malformed> {
    let mut reader = Reader::new(bytes);
    let refusal = Refusal::read(reader.u8()?, &mut reader)?;
    reader.end().map(|()| refusal)
}

#[test]
fn every_text_is_known() {
    for text in TEXTS {
        let mut bytes = Vec::new();
        let why = Refusal::Hello(HelloError::Malformed(text));
        why.push(&mut bytes);
        assert_eq!(read(&bytes), Ok(why));
    }
    let unknown = read(b"\x03\x04\x02hm").unwrap();
    let says = "the greeting is malformed: for a reason that this version has no words for";
    assert_eq!(unknown.to_string(), says);
}

pub(super) fn a_step_is_not_longer_than_it_may_be() {
    for kind in [1, 2, 3, 4, 5] {
        let len = u16::try_from(BODY_MAX + 1).unwrap().to_le_bytes();
        let head = [&b"EGRT\x02\x01\x04\0"[..], &[kind, 0], &len].concat();
        let mut inbox = Inbox::default();
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
    let head = [&b"EGRT\x02\x01\x04\0\x02\0"[..], &len].concat();
    let mut inbox = Inbox::default();
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
        let kind = [Kind::Opening, Kind::Asking, Kind::Welcome, Kind::Refusal][kind];
        let step = Step::new(kind, flags, body);
        let mut bytes = step.encode();
        bytes.extend(b"more");
        let (first, second) = bytes.split_at(cut.index(bytes.len() - 4));
        let mut inbox = Inbox::default();
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
        let head = [&[side, piece][..], b"EGRT\x02\x01\x04\0", &[kind, flags, len, 0]].concat();
        fuzzing::stranger(&[head, bytes].concat());
    }
}
