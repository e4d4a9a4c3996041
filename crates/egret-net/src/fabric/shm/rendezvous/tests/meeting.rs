//! Both sides of a rendezvous in one process, step by step.

use super::*;
use crate::buf::{Kind, Plain};
use crate::rt;
use crate::vi::{ConnectError, HelloError, ViError};

#[test]
fn an_attempt_is_accepted_and_both_have_the_others_memory() {
    let (host, listening) = (unique("accepted"), plain());
    let host_key = listening.key();
    let mut acceptor = Acceptor::open(&host, listening).unwrap();
    assert!(acceptor.poll_proven_peer(at(0), at(1)).unwrap().is_none());
    let (near, far) = (handles("near"), handles("far"));
    let caller = plain();
    let attempt = started_attempt(HandshakeAttempt::start(call(&host), &caller).unwrap());
    assert!(becomes(&acceptor.fd(), PollFlags::IN, LONG));
    let (attempt, visitor) = visit(&mut acceptor, not_yet(attempt, &near), &near);
    assert_eq!((&visitor.hello, &visitor.offer), (&hello(), &handshake("caller")));
    assert_eq!(visitor.key, caller.key());
    assert_eq!(visitor.peer().pid.unsigned_abs(), std::process::id());
    assert!(visitor.peer().pidfd().is_some() && !visitor.is_gone());
    assert_eq!(text_of(&visitor.handles.control), "near");

    let answer = SegmentTerms { depth: 65, ..terms() };
    let (control, theirs) = visitor.accept(&answer, lend(&far)).unwrap();
    assert_eq!(text_of(&theirs.control), "near");
    assert!(becomes(&attempt.fd(), PollFlags::IN, LONG));
    let accepted = accepted(attempt, &near);
    assert_eq!((accepted.terms, text_of(&accepted.handles.control)), (answer, "far".into()));
    assert_eq!(accepted.key, host_key);
    rustix::io::write(&accepted.handles.bell, &1_u64.to_ne_bytes()).unwrap();
    assert!(becomes(&far.bell, PollFlags::IN, LONG), "the bell rings");
    assert!(accepted.control.poll().unwrap().is_none());
    drop(control);
    assert!(matches!(accepted.control.poll(), Err(ControlSocketError::PeerGone { .. })));
}

#[test]
fn a_name_is_taken_once_and_free_again() {
    let host = unique("taken");
    assert!(matches!(start(&host), Ok(AttemptStart::Nobody)));
    let acceptor = open(&host).unwrap();
    let error = open(&host).unwrap_err();
    assert_eq!(error, AcceptorError::Taken { host: host.clone() });
    assert!(error.to_string().contains("is open already"), "{error}");
    drop(acceptor);
    open(&host).unwrap();
    let long = "h".repeat(120);
    assert!(matches!(open(&long), Err(AcceptorError::Name(NameTooLong { .. }))));
    assert!(matches!(start(&long), Err(HandshakeAttemptError::Name(NameTooLong { .. }))));
}

#[test]
fn a_refusal_says_why_and_who_may_try_again() {
    let host = unique("refused");
    let mut acceptor = open(&host).unwrap();
    let version = HelloError::Version { theirs: 1, ours: 2 };
    let swapped = HelloError::Version { theirs: 2, ours: 1 };
    let (ours, theirs) = (Reliability::Delivery, Reliability::Reception);
    let user = rustix::process::geteuid().as_raw();
    let cases = [
        (ConnectRefusal::NotListening, ConnectRefusal::NotListening, None),
        (ConnectRefusal::OtherTag, ConnectRefusal::OtherTag, None),
        (ConnectRefusal::Crowded, ConnectRefusal::Crowded, None),
        (
            ConnectRefusal::Reliability(theirs),
            ConnectRefusal::Reliability(theirs),
            Some(ConnectError::ReliabilityMismatch { ours, theirs }),
        ),
        (
            ConnectRefusal::Hello(version),
            ConnectRefusal::Hello(swapped.clone()),
            Some(swapped.into()),
        ),
        (
            ConnectRefusal::OtherUser { uid: 5 },
            ConnectRefusal::OtherUser { uid: 5 },
            Some(ConnectError::OtherUser { ours: user, theirs: 5 }),
        ),
        (
            ConnectRefusal::OtherUser { uid: user },
            ConnectRefusal::OtherUser { uid: user },
            Some(ConnectError::OtherNamespace { user }),
        ),
    ];
    for (said, heard, error) in cases {
        let mine = handles("");
        let (attempt, visitor) = visit(&mut acceptor, start_attempt(&host), &mine);
        visitor.refuse(&said);
        assert_eq!(attempt.poll(lend(&mine)).unwrap_err(), refused(heard.clone()));
        assert_eq!(heard.into_error(ours), error);
    }
}

#[test]
fn a_door_that_closes_is_left() {
    let host = unique("closes");
    let mut acceptor = open(&host).unwrap();
    let mine = handles("");
    let (waits_inside, visitor) = visit(&mut acceptor, start_attempt(&host), &mine);
    let in_handshake = start_attempt(&host);
    assert!(acceptor.poll_proven_peer(at(0), at(1)).unwrap().is_none());
    let waits_outside = start_attempt(&host);
    drop(acceptor);
    drop(visitor);
    for attempt in [waits_outside, in_handshake, waits_inside] {
        assert!(matches!(attempt.poll(lend(&mine)), Err(HandshakeAttemptError::Gone { .. })));
    }
}

#[test]
fn messages_arrive_in_order_with_their_regions() {
    let (near, far) = pair();
    let region = handles("a region");
    let kind = ControlMessage::Kind(f64::kind());
    assert_eq!(
        near.send(&ControlMessage::Region { number: 3 }, &[region.control.as_fd()]),
        Ok(PacketSent::Sent)
    );
    assert_eq!(near.send(&kind, &[]), Ok(PacketSent::Sent));
    assert!(becomes(&far.fd(), PollFlags::IN, LONG));
    let (message, fds) = far.poll().unwrap().unwrap();
    assert_eq!((message, fds.len()), (ControlMessage::Region { number: 3 }, 1));
    assert_eq!(text_of(&fds[0]), "a region");
    let flags = rustix::io::fcntl_getfd(&fds[0]).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    let (ControlMessage::Kind(Kind { name, .. }), _) = far.poll().unwrap().unwrap() else {
        panic!("not a kind")
    };
    assert_eq!(name, "f64");
    assert!(far.poll().unwrap().is_none());
}

#[test]
fn a_full_socket_is_an_outcome() {
    let (near, far) = pair();
    let message = ControlMessage::Kind(f64::kind());
    let mut sent = 0_u32;
    while near.send(&message, &[]).unwrap() == PacketSent::Sent {
        sent += 1;
        assert!(sent < 100_000, "a bound that the kernel keeps");
    }
    assert!(sent > 8, "{sent}");
    for _ in 0..sent {
        assert_eq!(far.poll().unwrap().unwrap().0, message);
    }
    assert_eq!(near.send(&message, &[]), Ok(PacketSent::Sent));
}

/// One end that left in this order: it was told something, said `why` and went
/// without having read what it was told.
fn left_with(why: &ViError) -> ControlSocket {
    let (near, far) = pair();
    assert_eq!(near.send(&ControlMessage::Kind(f64::kind()), &[]), Ok(PacketSent::Sent));
    let goodbye = ControlMessage::Close(CloseReason::of(why.clone()));
    assert_eq!(far.send(&goodbye, &[]), Ok(PacketSent::Sent));
    near
}

/// Whoever leaves without reading everything has still said what it said.
pub(super) fn last_words_are_heard() {
    let why = ViError::TooLong { sent: 9, posted: 8 };
    let near = left_with(&why);
    assert!(near.is_gone());
    let (ControlMessage::Close(farewell), _) = near.poll().unwrap().expect("its goodbye") else {
        panic!("not a farewell")
    };
    assert_eq!(farewell.into_error(), why);
    assert!(matches!(near.poll(), Err(ControlSocketError::PeerGone { .. })));
}

#[test]
fn last_words_are_heard_after_a_reset() {
    last_words_are_heard();
}

#[test]
fn a_send_to_nobody_leaves_the_last_words() {
    let near = left_with(&ViError::Closed);
    for _ in 0..2 {
        let gone = near.send(&ControlMessage::Region { number: 0 }, &[near.fd()]).unwrap_err();
        assert!(matches!(gone, ControlSocketError::PeerGone { .. }), "{gone}");
    }
    let heard = near.poll().unwrap().map(|(message, _)| message);
    assert_eq!(heard, Some(ControlMessage::Close(CloseReason::Closed)));
}

/// The end of a connection is seen, and is not silence.
pub(super) fn the_end_is_seen() {
    let (near, far) = pair();
    assert!(near.poll().unwrap().is_none());
    drop(far);
    for _ in 0..2 {
        assert!(matches!(near.poll(), Err(ControlSocketError::PeerGone { .. })));
    }
}

#[test]
fn the_end_of_a_connection_is_seen() {
    the_end_is_seen();
}

/// Whatever the two trust each other with.
pub(super) fn a_stranger_is_refused() {
    let error = PeerProcess::stranger().check_user().unwrap_err();
    let OtherUser::Number { theirs, ours, .. } = error else { panic!("{error}") };
    assert_eq!(theirs, ours + 1);
    let said = error.to_string();
    assert!(said.contains("only processes of one user"), "{said}");
}

#[test]
fn a_process_of_another_user_is_a_stranger() {
    a_stranger_is_refused();
    let (near, _far) = pair();
    assert_eq!(near.peer().check_user(), Ok(()));
}

#[test]
fn a_door_needs_no_clock_but_the_callers() {
    let host = unique("clock");
    let mut acceptor = open(&host).unwrap();
    let now = rt::now();
    assert!(acceptor.poll_proven_peer(now, now).unwrap().is_none());
    assert_eq!(acceptor.next_deadline(), None);
}
