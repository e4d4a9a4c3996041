//! Two sides that do not agree, and say why.

use super::*;
use crate::fabric::handshake::ConnectRefusal;
use crate::vi::{ConnectError, SecretError};

/// What a caller learns of a callee that says `why`.
fn refused(why: &ConnectRefusal) -> HandshakeError {
    let (mut caller, mut callee) = (caller("egret"), callee("egret"));
    ask(&mut caller, &mut callee).unwrap();
    callee.refuse(why);
    let said = said_by_callee(&mut callee);
    let error = caller.feed(&said).unwrap_err();
    assert_eq!(caller.outgoing(), b"", "a refusal is not answered");
    error
}

#[test]
fn a_refusal_says_why() {
    let level = Reliability::Delivery;
    let other = Reliability::Reception;
    for (why, told) in [
        (ConnectRefusal::NotListening, None),
        (ConnectRefusal::OtherTag, None),
        (ConnectRefusal::Crowded, None),
        (ConnectRefusal::NicDown, Some(ConnectError::NicDown)),
        (
            ConnectRefusal::Reliability(other),
            Some(ConnectError::ReliabilityMismatch { ours: level, theirs: other }),
        ),
    ] {
        let error = refused(&why);
        assert_eq!(error, HandshakeError::Refused(why));
        assert_eq!(error.into_error(level), told);
    }
}

#[test]
fn a_crowd_is_refused_before_it_speaks() {
    let (mut caller, mut callee) = (caller(""), callee(""));
    callee.refuse(&ConnectRefusal::Crowded);
    let said = said_by_callee(&mut callee);
    // It has not sent anything yet.
    assert_eq!(caller.feed(&said), Err(HandshakeError::Refused(ConnectRefusal::Crowded)));
    assert_eq!(caller.outgoing(), b"");
}

/// Both learn of it; what a caller of another version hears in `step` is changed by `change`.
fn both_learn(change: impl Fn(&mut Vec<u8>)) -> (HandshakeError, HandshakeError) {
    let (mut caller, mut callee) = (caller(""), callee(""));
    let mut opening = said_by_caller(&mut caller);
    change(&mut opening);
    let callees = callee.feed(&opening).unwrap_err();
    let refusal = said_by_callee(&mut callee);
    let callers = caller.feed(&refusal).unwrap_err();
    (callees, callers)
}

pub(super) fn another_version_is_reported() {
    let (callees, callers) = both_learn(|opening| opening[6] = 9);
    assert_eq!(callees, HandshakeError::Hello(HelloError::Version { theirs: 9, ours: 5 }));
    let version = HelloError::Version { theirs: 5, ours: 9 };
    assert_eq!(callers, HandshakeError::Refused(ConnectRefusal::Hello(version.clone())));
    let told = callers.into_error(Reliability::Delivery);
    assert_eq!(told, Some(version.into()));
}

#[test]
fn another_version_is_told_to_both() {
    another_version_is_reported();
}

#[test]
fn a_refusal_of_a_later_version_is_understood() {
    let mut caller = caller("");
    said_by_caller(&mut caller);
    let said = b"EGRT\x02\x01\x09\0\x04\0\x08\0\x03\x03\x09\0\x05\0??";
    let version = HelloError::Version { theirs: 9, ours: 5 };
    assert_eq!(caller.feed(said), Err(HandshakeError::Refused(ConnectRefusal::Hello(version))));
}

#[test]
fn the_other_byte_order_is_told_to_both() {
    let (callees, callers) = both_learn(|opening| opening.swap(4, 5));
    assert_eq!(callees, HandshakeError::Hello(HelloError::OtherByteOrder));
    assert_eq!(callers, HandshakeError::Refused(ConnectRefusal::Hello(HelloError::OtherByteOrder)));
}

#[test]
fn a_strangers_bytes_are_not_answered() {
    let mut callee = callee("");
    let error = callee.feed(b"GET / HTTP/1.1\r\n").unwrap_err();
    assert_eq!(error, HandshakeError::Hello(HelloError::NotEgret));
    assert_eq!(callee.outgoing(), b"");
    assert_eq!(callee.feed(b"more"), Ok(FedStep { consumed: 0, news: HandshakeEvent::Nothing }));
}

#[test]
fn two_sides_do_not_refuse_each_other_for_ever() {
    let (mut one, mut other) = (callee(""), callee(""));
    let error = one.feed(b"EGRT\x02\x01\x05\0\x03\0\0\0").unwrap_err();
    assert_eq!(error, malformed("a step that is not the next one"));
    let refusal = said_by_callee(&mut one);
    assert!(other.feed(&refusal).is_err());
    assert_eq!(other.outgoing(), b"");
}

#[test]
fn a_step_before_its_turn_is_refused() {
    let (mut caller, mut callee) = (caller(""), callee(""));
    let opening = said_by_caller(&mut caller);
    callee.feed(&opening).unwrap();
    callee.sent(3);
    assert_eq!(callee.feed(&opening), Err(malformed("a step that is not the next one")));
    let half = callee.outgoing().len();
    assert_eq!(half, 12 + 97 - 3, "nothing is said in the middle of a step");
    let mut callee = super::callee("");
    let asked = ask(&mut super::caller(""), &mut callee).unwrap();
    assert!(matches!(asked, HandshakeEvent::Hello { .. }));
    assert_eq!(callee.feed(b"x"), Err(malformed("a step that is not the next one")));
}

pub(super) fn a_refusal_without_a_proof_is_not_believed() {
    let (mut caller, mut callee) = (caller("egret"), callee("egret"));
    ask(&mut caller, &mut callee).unwrap();
    let forged = b"EGRT\x02\x01\x05\0\x04\0\x02\0\x02\x02";
    assert_eq!(caller.feed(forged), Err(malformed("a refusal without a proof")));
}

#[test]
fn forged_refusals_are_not_believed() {
    a_refusal_without_a_proof_is_not_believed();
}

#[test]
fn errors_are_clear() {
    for (error, says) in [
        (SecretError::Different, "the secret was refused: the peer has another secret"),
        (
            SecretError::OnlyOurs,
            "the secret was refused: this side has a secret and the peer has none",
        ),
        (
            SecretError::OnlyTheirs,
            "the secret was refused: the peer has a secret and this side has none",
        ),
    ] {
        let told = HandshakeError::Secret(error).into_error(Reliability::Delivery).unwrap();
        assert_eq!(told.to_string(), says);
    }
}
