//! The bytes, and any other bytes.

use std::borrow::Cow;

use proptest::collection::vec;
use proptest::prelude::*;

use rustix::net::connect;

use super::super::name::address;
use super::super::offer::{AcceptOffer, hear};
use super::super::trust::{CooperationReply, ProcessPair};
use super::*;
use crate::buf::Kind;
use crate::fabric::common::bytes::known;
use crate::fabric::handshake::{Callee, Caller, CallerRequest, HandshakeEvent};
use crate::fabric::shm::socket::seqpacket;
use crate::fabric::shm::socket::{ControlPacket, ReceivedPacket};
use crate::vi::{AccessError, HelloError, ViError};

const HANDSHAKE: &[u8] = b"\x02\0\0\0\x40\0\0\0\0\0\x02\0\0\0\0\0\x01\x02\x01a\x00";
const ACCEPT: &[u8] = b"\x02\0\0\0\x40\0\0\0\0\0\x02\0\0\0\0\0\x01\x02\x00";
const ISOLATED: AcceptOffer =
    AcceptOffer { terms: terms(), verdict: CooperationReply(AgreedTrust::Isolated(None)) };

/// A packet with two descriptors.
fn packet(bytes: &[u8]) -> ControlPacket {
    let OfferedDescriptors { control, bell } = handles("");
    ControlPacket { bytes: bytes.to_vec(), fds: vec![control, bell], cut_off: false }
}

fn read_handshake(bytes: &[u8]) -> Result<ConnectOffer, Malformed> {
    ConnectOffer::decode(bytes, &mut packet(bytes)).map(|(handshake, _)| handshake)
}

fn read_acceptance(bytes: &[u8]) -> Result<AcceptOffer, Malformed> {
    AcceptOffer::decode(bytes, &mut packet(bytes)).map(|(acceptance, _)| acceptance)
}

#[test]
fn the_bytes_are_these_for_ever() {
    assert_eq!(handshake("a").encode(), HANDSHAKE);
    assert_eq!(read_handshake(HANDSHAKE), Ok(handshake("a")));
    assert_eq!(ISOLATED.encode(), ACCEPT);
    assert_eq!(read_acceptance(ACCEPT), Ok(ISOLATED));
}

#[test]
fn the_bytes_of_messages_are_these_for_ever() {
    let kind = |fingerprint, name: &'static str| Kind { fingerprint, name: Cow::Borrowed(name) };
    let mismatch = ViError::TypeMismatch { sent: kind(1, "a"), posted: kind(2, "b") };
    let failed = |why| ControlMessage::Close(CloseReason::Failed(why));
    let outside = AccessError::OutOfBounds { offset: 1, len: 2, size: 3 };
    for (message, bytes) in [
        (ControlMessage::Region { number: 258 }, &b"\x01\x01\x02\x01\0\0"[..]),
        (
            ControlMessage::CooperatingRegion { number: 258, plan: vec![3, 64] },
            b"\x04\x01\x02\x01\x03\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0",
        ),
        (ControlMessage::Kind(kind(0x0102, "f64")), b"\x02\0\x02\x01\0\0\0\0\0\0\x03f64"),
        (ControlMessage::Close(CloseReason::Closed), b"\x03\0\0"),
        (ControlMessage::Close(CloseReason::NicDown), b"\x03\0\x01"),
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
        assert_eq!(ControlMessage::decode(packet(bytes)).unwrap().0, message);
    }
}

/// A handshake that was cut anywhere, or goes on, is refused.
pub(super) fn a_handshake_is_whole() {
    for len in 0..HANDSHAKE.len() {
        assert!(read_handshake(&HANDSHAKE[..len]).is_err(), "{len}");
    }
    for len in 0..ACCEPT.len() {
        assert!(read_acceptance(&ACCEPT[..len]).is_err(), "{len}");
    }
    assert!(read_handshake(&[HANDSHAKE, b"x"].concat()).is_err());
    assert!(read_acceptance(&[ACCEPT, b"x"].concat()).is_err());
}

/// Each packet is one step: who says less or more is not waited for, and is told so.
#[test]
fn a_packet_is_one_step() {
    let opening = caller(Vec::new()).outgoing().to_vec();
    let callee = || Callee::new(plain().handshake, true);
    assert_eq!(hear(&mut callee(), &packet(&opening)), Ok(HandshakeEvent::Nothing));
    let part = &opening[..opening.len() - 1];
    for bytes in [part, &opening[..7], &[&opening[..], b"x"].concat()] {
        let mut callee = callee();
        let why = hear(&mut callee, &packet(bytes)).unwrap_err();
        assert!(matches!(why, HandshakeError::Hello(HelloError::Malformed(_))), "{why}");
        assert_eq!(callee.outgoing()[8], 4, "a refusal");
    }
    let cut_off = ControlPacket { cut_off: true, ..packet(&opening) };
    assert!(hear(&mut callee(), &cut_off).is_err());
}

fn caller(terms: Vec<u8>) -> Caller {
    Caller::new(
        plain().handshake,
        CallerRequest { hello: hello(), terms, key: None, is_plain: true },
    )
}

/// Descriptors nobody asked for are closed, those within a packet's room and those beyond.
pub(super) fn surplus_descriptors_are_closed() {
    for surplus in [1, 7, 8, 30] {
        let (near, far) = sockets();
        let far = control_of(far);
        let (wire, end) = Tripwire::new();
        let fds = vec![end.as_fd(); 1 + surplus];
        send_raw(&near, &ControlMessage::Region { number: 1 }.encode(), &fds);
        drop(end);
        let (_, fds) = far.poll().unwrap().unwrap();
        assert_eq!(fds.len(), 1);
        drop(fds);
        wire.assert_closed();
    }
}

#[test]
fn scenes_hold() {
    a_handshake_is_whole();
    surplus_descriptors_are_closed();
}

#[test]
fn descriptors_must_be_there_once_each() {
    for (roles, right) in [([1, 2], true), ([2, 1], true), ([1, 1], false), ([1, 3], false)] {
        let mut bytes = HANDSHAKE.to_vec();
        let at = HANDSHAKE.len() - 5;
        bytes[at..at + 2].copy_from_slice(&roles);
        assert_eq!(read_handshake(&bytes).is_ok(), right, "{roles:?}");
    }
    let mut missing = packet(HANDSHAKE);
    missing.fds.pop();
    let error = ConnectOffer::decode(HANDSHAKE, &mut missing).unwrap_err();
    assert_eq!(error, Malformed("fewer descriptors than declared"));
    let none =
        ControlPacket { fds: Vec::new(), ..packet(&ControlMessage::Region { number: 0 }.encode()) };
    assert_eq!(
        ControlMessage::decode(none).unwrap_err(),
        Malformed("fewer descriptors than declared")
    );
}

#[test]
fn errors_of_one_end_are_not_sent_to_the_peer() {
    for error in [
        ViError::Closed,
        ViError::ClosedByPeer,
        ViError::Cancelled,
        ViError::PeerDied { why: "it did" },
    ] {
        assert_eq!(CloseReason::of(error).into_error(), ViError::ClosedByPeer);
    }
    let down = CloseReason::of(ViError::NicDown).into_error();
    assert_eq!(down.to_string(), "the peer died: its nic went down; connect again when it is back");
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

/// Bytes that are nearly one of these.
fn hurt(nearly: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (nearly, vec((any::<u16>(), any::<u8>()), 0..3), any::<u16>()).prop_map(
        |(mut bytes, changes, keep)| {
            for (place, byte) in changes {
                let place = usize::from(place) % bytes.len();
                bytes[place] = byte;
            }
            bytes.truncate(1 + usize::from(keep) % (2 * bytes.len()));
            bytes
        },
    )
}

/// Bytes that are nearly right, or not at all.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let nearly = prop_oneof![
        Just(HANDSHAKE.to_vec()),
        Just(ACCEPT.to_vec()),
        Just(caller(HANDSHAKE.to_vec()).outgoing().to_vec()),
        Just(b"EGRT\x02\x01\x05\0\x04\0\x0f\0\x03\x04\x0cservice name".to_vec()),
        Just(ControlMessage::Region { number: 7 }.encode()),
        errors().prop_map(|why| ControlMessage::Close(CloseReason::of(why)).encode()),
    ];
    prop_oneof![4 => hurt(nearly), 1 => vec(any::<u8>(), 1..64), 1 => vec(any::<u8>(), 4000..4200)]
}

/// What one side of a handshake makes of a packet; `None` if it is understood.
type Reading = fn(ControlPacket) -> Option<HandshakeError>;

const READINGS: [Reading; 5] = [
    |mut packet| Some(ConnectOffer::decode(&packet.bytes.clone(), &mut packet).err()?.into()),
    |mut packet| Some(AcceptOffer::decode(&packet.bytes.clone(), &mut packet).err()?.into()),
    |packet| Some(ControlMessage::decode(packet).err()?.into()),
    |packet| hear(&mut caller(Vec::new()), &packet).err(),
    |packet| hear(&mut Callee::new(plain().handshake, true), &packet).err(),
];

/// A guest of an acceptor, whose every packet has so many descriptors of a tripwire.
struct Guest {
    acceptor: Acceptor,
    socket: PacketSocket,
    fds: usize,
}

impl Guest {
    fn new(fds: usize) -> Self {
        let name = unique("any");
        let acceptor = open(&name).unwrap();
        let fd = seqpacket().unwrap();
        connect(&fd, &address(&name).unwrap()).unwrap();
        Self { acceptor, socket: PacketSocket::new(fd), fds }
    }

    /// Says this, which has the acceptor let it in or send it away, or wait for more.
    fn says(
        &mut self,
        bytes: &[u8],
    ) -> (Tripwire, Result<Option<ShmProvenPeer>, RefusedPeerCause>) {
        let (wire, end) = Tripwire::new();
        send_raw(&self.socket, bytes, &std::vec::from_elem(end.as_fd(), self.fds));
        drop(end);
        (wire, self.acceptor.poll_proven_peer(at(0), at(1)).map_err(|away| away.why))
    }
}

proptest! {
    #[test]
    fn any_packet_is_an_answer_and_leaves_nothing_open(bytes in packets(), count in 0..=20_usize) {
        for read in READINGS {
            let (near, far) = sockets();
            let (wire, end) = Tripwire::new();
            send_raw(&near, &bytes, &std::vec::from_elem(end.as_fd(), count));
            drop(end);
            let Ok(ReceivedPacket::Packet(packet)) = PacketSocket::new(far).receive() else {
                panic!("a packet was sent")
            };
            prop_assert_eq!(packet.cut_off, bytes.len() > 4096);
            if let Some(HandshakeError::Hello(HelloError::Malformed(said))) = read(packet) {
                prop_assert_eq!(known(said), said, "the peer would not know this text");
            }
            wire.assert_closed();
        }
    }

    #[test]
    fn an_acceptor_hears_any_packet_and_keeps_nothing_of_it(
        bytes in packets(), count in 0..=20_usize,
    ) {
        let (wire, heard) = Guest::new(count).says(&bytes);
        prop_assert!(!matches!(heard, Ok(Some(_))), "it has not asked");
        wire.assert_closed();
    }

    /// A caller whose handshake is right so far may ask for anything beside any descriptors.
    #[test]
    fn an_acceptor_hears_any_terms_and_keeps_what_it_asked_for(
        terms in hurt(Just(HANDSHAKE.to_vec())), count in 0..=20_usize,
    ) {
        let mut guest = Guest::new(count);
        let mut caller = caller(terms.clone());
        let (wire, heard) = guest.says(caller.outgoing());
        prop_assert!(matches!(heard, Ok(None)), "it has opened");
        wire.assert_closed();
        caller.sent(caller.outgoing().len());
        let Ok(ReceivedPacket::Packet(answer)) = guest.socket.receive() else { panic!("no answer") };
        prop_assert_eq!(caller.feed_step(&answer.bytes), Ok(HandshakeEvent::Nothing));
        let (wire, heard) = guest.says(caller.outgoing());
        let is_right = count >= 2 && read_handshake(&terms).is_ok();
        match heard {
            Ok(visitor) => prop_assert!(visitor.is_some() && is_right),
            Err(why) => prop_assert!(!is_right, "{}", why),
        }
        wire.assert_closed();
    }

    #[test]
    fn an_error_is_read_as_it_was_written(error in errors()) {
        let bytes = ControlMessage::Close(CloseReason::of(error.clone())).encode();
        let packet = ControlPacket { bytes, fds: Vec::new(), cut_off: false };
        let Ok((ControlMessage::Close(farewell), _)) = ControlMessage::decode(packet) else {
            panic!("a farewell was written")
        };
        // Kinds are equal if their fingerprints are; names are to arrive as well.
        prop_assert_eq!(format!("{:?}", farewell.into_error()), format!("{error:?}"));
    }

    #[test]
    fn a_handshake_is_read_as_it_was_written(
        host in "\\PC{0,60}",
        (control_bytes, depth) in any::<(u64, u32)>(),
        processes in any::<Option<(i32, i32)>>(),
    ) {
        let wish = processes.map_or(CooperationRequest::Nothing, |(connecting, listening)| {
            CooperationRequest::Yes(ProcessPair { connecting, listening })
        });
        let handshake = ConnectOffer { host, terms: SegmentTerms { depth, control_bytes }, wish };
        prop_assert_eq!(read_handshake(&handshake.encode()), Ok(handshake));
    }
}
