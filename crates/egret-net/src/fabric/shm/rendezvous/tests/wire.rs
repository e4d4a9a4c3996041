//! The bytes, and any other bytes.

use std::borrow::Cow;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::answer::Answer;
use super::super::socket::{Packet, Received};
use super::*;
use crate::buf::Kind;
use crate::fabric::hub::bytes::known;
use crate::vi::{AccessError, HelloError, Nonce, ViError};

const GREETING: &[u8] = b"EGRT\x02\x01\x04\x00\x01\x04\x07\0\0\0\0\0\0\0grid\
    \x02\0\0\0\x40\0\0\0\0\0\x02\0\0\0\0\0\x01\x02\x01a\x00";
const ACCEPT: &[u8] = b"EGRT\x04\0\x00\
    \x02\0\0\0\x40\0\0\0\0\0\x02\0\0\0\0\0\x01\x02\x00";

/// A packet with two descriptors.
fn packet(bytes: &[u8]) -> Packet {
    let Handles { control, bell } = handles("");
    Packet { bytes: bytes.to_vec(), fds: vec![control, bell], cut_off: false }
}

#[test]
#[cfg(target_endian = "little")]
fn the_bytes_are_these_for_ever() {
    assert_eq!(greeting("a").encode(), GREETING);
    assert_eq!(Greeting::decode(packet(GREETING)).unwrap().0, greeting("a"));
    assert_eq!(Answer::accept(&terms(), Agreed::Isolated(None)), ACCEPT);
    let Answer::Accept(read, agreed, _) = Answer::decode(packet(ACCEPT)).unwrap() else { panic!() };
    assert_eq!((read, agreed), (terms(), Agreed::Isolated(None)));
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
        (Refusal::OtherTag, b"\x08"),
    ] {
        assert_eq!(Answer::refuse(&refusal), [b"EGRT\x04\0", bytes].concat(), "{refusal:?}");
    }
}

#[test]
fn the_bytes_of_messages_are_these_for_ever() {
    let kind = |fingerprint, name: &'static str| Kind { fingerprint, name: Cow::Borrowed(name) };
    let mismatch = ViError::TypeMismatch { sent: kind(1, "a"), posted: kind(2, "b") };
    let failed = |why| Message::Goodbye(Farewell::Failed(why));
    let outside = AccessError::OutOfBounds { offset: 1, len: 2, size: 3 };
    for (message, bytes) in [
        (Message::Region { number: 258 }, &b"\x01\x01\x02\x01\0\0"[..]),
        (
            Message::Commons { number: 258, plan: vec![3, 64] },
            b"\x04\x01\x02\x01\x03\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0",
        ),
        (Message::Kind(kind(0x0102, "f64")), b"\x02\0\x02\x01\0\0\0\0\0\0\x03f64"),
        (Message::Goodbye(Farewell::Closed), b"\x03\0\0"),
        (Message::Goodbye(Farewell::NicDown), b"\x03\0\x01"),
        (
            failed(ViError::TooLong { sent: 9, posted: 8 }),
            b"\x03\0\x02\x09\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0",
        ),
        (failed(mismatch), b"\x03\0\x03\x01\0\0\0\0\0\0\0\x01a\x02\0\0\0\0\0\0\0\x01b"),
        (failed(AccessError::Revoked.into()), b"\x03\0\x04\x01"),
        (
            failed(outside.into()),
            b"\x03\0\x04\x02\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0",
        ),
        (failed(AccessError::Forbidden { asked: "read" }.into()), b"\x03\0\x04\x03"),
        (failed(AccessError::Forbidden { asked: "write" }.into()), b"\x03\0\x04\x04"),
        (failed(ViError::Protocol("too short")), b"\x03\0\x05\x09too short"),
    ] {
        assert_eq!(message.encode(), bytes, "{message:?}");
        assert_eq!(Message::decode(packet(bytes)).unwrap().0, message);
    }
}

/// A greeting that was cut anywhere, or goes on, is refused.
pub(super) fn a_greeting_is_whole() {
    for len in 0..GREETING.len() {
        let read = Greeting::decode(packet(&GREETING[..len]));
        assert!(matches!(read, Err(HelloError::Malformed(_))), "{len}: {read:?}");
    }
    let longer = [GREETING, b"x"].concat();
    assert!(Greeting::decode(packet(&longer)).is_err());
    let cut_off = Packet { cut_off: true, ..packet(GREETING) };
    assert!(Greeting::decode(cut_off).is_err());
}

/// Another version is told from nonsense, whatever else it says.
pub(super) fn another_version_is_refused() {
    let mut bytes = GREETING.to_vec();
    bytes[6] = 9;
    let read = Greeting::decode(packet(&bytes)).map(|(greeting, _)| greeting);
    assert_eq!(read, Err(HelloError::Version { theirs: 9, ours: 4 }));
    let mut bytes = ACCEPT.to_vec();
    bytes[4] = 9;
    let read = Answer::decode(packet(&bytes)).unwrap_err();
    assert_eq!(read, HelloError::Version { theirs: 9, ours: 4 });
}

/// Descriptors nobody asked for are closed, those within a packet's room and those beyond.
pub(super) fn surplus_descriptors_are_closed() {
    for surplus in [1, 7, 8, 30] {
        let (near, far) = sockets();
        let far = control_of(far);
        let (wire, end) = Tripwire::new();
        let fds = vec![end.as_fd(); 1 + surplus];
        send_raw(&near, &Message::Region { number: 1 }.encode(), &fds);
        drop(end);
        let (_, fds) = far.poll().unwrap().unwrap();
        assert_eq!(fds.len(), 1);
        drop(fds);
        wire.assert_closed();
    }
}

#[test]
fn scenes_hold() {
    a_greeting_is_whole();
    another_version_is_refused();
    surplus_descriptors_are_closed();
}

#[test]
fn descriptors_must_be_there_once_each() {
    for (roles, right) in [([1, 2], true), ([2, 1], true), ([1, 1], false), ([1, 3], false)] {
        let mut bytes = GREETING.to_vec();
        let at = GREETING.len() - 5;
        bytes[at..at + 2].copy_from_slice(&roles);
        assert_eq!(Greeting::decode(packet(&bytes)).is_ok(), right, "{roles:?}");
    }
    let mut missing = packet(GREETING);
    missing.fds.pop();
    let error = Greeting::decode(missing).unwrap_err();
    assert_eq!(error.to_string(), "the greeting is malformed: fewer descriptors than declared");
    let none = Packet { fds: Vec::new(), ..packet(&Message::Region { number: 0 }.encode()) };
    assert_eq!(Message::decode(none).unwrap_err(), Malformed("fewer descriptors than declared"));
}

#[test]
fn what_is_of_one_end_alone_is_not_told() {
    for error in [
        ViError::Closed,
        ViError::ClosedByPeer,
        ViError::Cancelled,
        ViError::PeerDied { why: "it did" },
    ] {
        assert_eq!(Farewell::of(error).into_error(), ViError::ClosedByPeer);
    }
    let down = Farewell::of(ViError::NicDown).into_error();
    assert_eq!(down.to_string(), "the peer died: its nic went down");
}

fn kinds() -> impl Strategy<Value = Kind> {
    (any::<u64>(), "\\PC{0,60}")
        .prop_map(|(fingerprint, name)| Kind { fingerprint, name: Cow::Owned(name) })
}

/// Every error that a peer must be told.
fn errors() -> impl Strategy<Value = ViError> {
    let texts = ["too short", "reliability level", "an unknown kind of packet"];
    let asked = ["read", "write"];
    prop_oneof![
        any::<[u64; 2]>().prop_map(|[sent, posted]| ViError::TooLong { sent, posted }),
        (kinds(), kinds()).prop_map(|(sent, posted)| ViError::TypeMismatch { sent, posted }),
        Just(ViError::RemoteAccess(AccessError::Revoked)),
        any::<[u64; 3]>().prop_map(|[offset, len, size]| {
            ViError::RemoteAccess(AccessError::OutOfBounds { offset, len, size })
        }),
        proptest::sample::select(asked.to_vec())
            .prop_map(|asked| ViError::RemoteAccess(AccessError::Forbidden { asked })),
        proptest::sample::select(texts.to_vec()).prop_map(ViError::Protocol),
        "\\PC{0,60}".prop_map(|why| ViError::NotTaken(Cow::Owned(why))),
    ]
}

/// Bytes that are nearly right, or not at all.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let nearly = prop_oneof![
        Just(GREETING.to_vec()),
        Just(ACCEPT.to_vec()),
        Just(Answer::refuse(&Refusal::Hello(HelloError::Malformed("service name")))),
        Just(Message::Region { number: 7 }.encode()),
        errors().prop_map(|why| Message::Goodbye(Farewell::of(why)).encode()),
    ];
    let hurt = (nearly, vec((any::<u16>(), any::<u8>()), 0..3), any::<u16>()).prop_map(
        |(mut bytes, changes, keep)| {
            for (place, byte) in changes {
                let place = usize::from(place) % bytes.len();
                bytes[place] = byte;
            }
            bytes.truncate(1 + usize::from(keep) % (2 * bytes.len()));
            bytes
        },
    );
    prop_oneof![4 => hurt, 1 => vec(any::<u8>(), 1..64), 1 => vec(any::<u8>(), 4000..4200)]
}

proptest! {
    #[test]
    fn any_packet_is_an_answer_and_leaves_nothing_open(bytes in packets(), count in 0..=20_usize) {
        for decode in [
            |packet| Greeting::decode(packet).err(),
            |packet| Answer::decode(packet).err(),
            |packet| Message::decode(packet).err().map(HelloError::from),
        ] as [fn(Packet) -> Option<HelloError>; 3] {
            let (near, far) = sockets();
            let (wire, end) = Tripwire::new();
            send_raw(&near, &bytes, &std::vec::from_elem(end.as_fd(), count));
            drop(end);
            let Ok(Received::Packet(packet)) = Socket::new(far).receive() else {
                panic!("a packet was sent")
            };
            prop_assert_eq!(packet.cut_off, bytes.len() > 4096);
            if let Some(HelloError::Malformed(said)) = decode(packet) {
                prop_assert_eq!(known(said), said, "the peer would not know this text");
            }
            wire.assert_closed();
        }
    }

    #[test]
    fn an_error_is_read_as_it_was_written(error in errors()) {
        let bytes = Message::Goodbye(Farewell::of(error.clone())).encode();
        let packet = Packet { bytes, fds: Vec::new(), cut_off: false };
        let Ok((Message::Goodbye(farewell), _)) = Message::decode(packet) else {
            panic!("a farewell was written")
        };
        // Kinds are equal if their fingerprints are; names are to arrive as well.
        prop_assert_eq!(format!("{:?}", farewell.into_error()), format!("{error:?}"));
    }

    #[test]
    fn a_greeting_is_read_as_it_was_written(
        (service, host) in ("\\PC{0,60}", "\\PC{0,60}"),
        (tag, control_bytes, depth) in any::<(u64, u64, u32)>(),
        (level, cooperating) in (0..3_u8, any::<bool>()),
    ) {
        let reliability = Reliability::from_wire(level).unwrap();
        let asks = cooperating.then(Nonce::new);
        let terms = Terms { depth, control_bytes };
        let greeting = Greeting { hello: Hello { reliability, service, tag }, host, terms, asks };
        let read = Greeting::decode(packet(&greeting.encode())).unwrap().0;
        prop_assert_eq!(read, greeting);
    }
}
