//! What the tests of the rendezvous share.

mod crowd;
mod meeting;
mod namespaces;
mod planted;
mod processes;
mod proxy;
mod texts;
mod trust;
mod wire;

use std::fs::File;
use std::io::{PipeReader, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};

use super::super::acceptor::{
    Acceptor, AcceptorError, CROWD, HANDSHAKES_AT_ONCE, RefusedPeer, RefusedPeerCause,
    ShmProvenPeer, other_holder,
};
use super::super::connector::{
    AcceptedConnection, AttemptProgress, AttemptStart, AttemptTarget, HandshakeAttempt,
    HandshakeAttemptError,
};
use super::super::socket::{PacketSent, PacketSocket};
use super::*;
use crate::fabric::common::{ConnectRefusal, bytes::Malformed, close_reason::CloseReason};
use crate::fabric::handshake::{self, HandshakeError};
use crate::rt::Instant;
use crate::vi::{AgreedTrust, Encrypt, Hello, Identity, Reliability, Secret, Trust};

/// A name that no other test has, in this process or another.
fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{number}-{name}", std::process::id())
}

fn sockets() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn control_of(fd: OwnedFd) -> ControlSocket {
    let socket = PacketSocket::new(fd);
    let peer = PeerProcess::of(&socket).unwrap();
    ControlSocket::new(socket, peer)
}

/// Both ends of a connection that is made.
fn pair() -> (ControlSocket, ControlSocket) {
    let (near, far) = sockets();
    (control_of(near), control_of(far))
}

/// What a nic of its own identity brings along; the empty secret is none.
fn stance(trust: Trust, secret: &str) -> ShmRequirements {
    let (secret, identity) = (Secret::from(secret), Identity::random());
    let handshake = handshake::Credentials::new("shm", secret, identity, Encrypt::default());
    ShmRequirements { trust, handshake: handshake.local() }
}

/// One that asks for nothing.
fn plain() -> ShmRequirements {
    stance(Trust::Isolated, "")
}

/// An acceptor that asks for nothing.
fn open(host: &str) -> Result<Acceptor, AcceptorError> {
    Acceptor::open(host, plain())
}

const fn terms() -> SegmentTerms {
    SegmentTerms { depth: 64, control_bytes: 0x2_0000 }
}

fn hello() -> Hello {
    Hello { reliability: Reliability::Delivery, service: "grid".into(), tag: 7 }
}

fn call(to: &str) -> AttemptTarget<'_> {
    AttemptTarget { to, key: None, hello: hello(), host: "caller", terms: terms() }
}

/// What is said beside the hello of such a call.
fn handshake(host: &str) -> ConnectOffer {
    ConnectOffer { host: host.into(), terms: terms(), wish: CooperationRequest::Nothing }
}

/// Descriptors whose memory says `text`.
fn handles(text: &str) -> OfferedDescriptors<OwnedFd> {
    let memory = || {
        let fd = memfd_create("egret-test", MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(fd);
        file.write_all(text.as_bytes()).unwrap();
        OwnedFd::from(file)
    };
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    OfferedDescriptors { control: memory(), bell }
}

fn lend(handles: &OfferedDescriptors<OwnedFd>) -> OfferedDescriptors<BorrowedFd<'_>> {
    let [control, bell] = handles.borrowed();
    OfferedDescriptors { control, bell }
}

/// What the memory behind `fd` says.
fn text_of(fd: &OwnedFd) -> String {
    let file = File::from(fd.try_clone().unwrap());
    let mut bytes = [0; 64];
    let len = file.read_at(&mut bytes, 0).unwrap();
    String::from_utf8(bytes[..len].to_vec()).unwrap()
}

/// Sends any bytes with any number of descriptors, as nobody honest would.
fn send_raw(to: &impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    sendmsg(to, &[std::io::IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// Notices whether the descriptors made of it are closed everywhere.
struct Tripwire(PipeReader);

impl Tripwire {
    fn new() -> (Self, OwnedFd) {
        let (read, write) = std::io::pipe().unwrap();
        (Self(read), write.into())
    }

    /// A child that is just being started may hold a copy for a moment.
    fn assert_closed(&self) {
        assert!(becomes(&self.0, PollFlags::HUP, 3), "a descriptor was left open");
    }
}

/// Waits until one of `flags` is true of `fd`, at most so many seconds.
fn becomes(fd: &impl AsFd, flags: PollFlags, seconds: i64) -> bool {
    let mut fds = [PollFd::new(fd, flags)];
    let patience = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut fds, Some(&patience)).unwrap();
    fds[0].revents().intersects(flags)
}

/// The moment `seconds` after time began; acceptors know no other clock.
const fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn start(host: &str) -> Result<AttemptStart, HandshakeAttemptError> {
    HandshakeAttempt::start(call(host), &plain())
}

fn started_attempt(started: AttemptStart) -> HandshakeAttempt {
    match started {
        AttemptStart::Started(attempt) => attempt,
        other => panic!("{other:?}"),
    }
}

fn start_attempt(host: &str) -> HandshakeAttempt {
    started_attempt(start(host).unwrap())
}

/// Begins a handshake over a socket that is connected already.
fn handshake_over(control: ControlSocket, stance: &ShmRequirements) -> HandshakeAttempt {
    started_attempt(HandshakeAttempt::begin(control, call("whoever"), stance).unwrap())
}

/// Has the acceptor hear a caller, and the caller it, until all is asked.
fn visit(
    acceptor: &mut Acceptor,
    attempt: HandshakeAttempt,
    mine: &OfferedDescriptors<OwnedFd>,
) -> (HandshakeAttempt, ShmProvenPeer) {
    assert!(acceptor.poll_proven_peer(at(0), at(5)).unwrap().is_none(), "nothing is asked yet");
    let attempt = not_yet(attempt, mine);
    let visitor = acceptor.poll_proven_peer(at(0), at(5)).unwrap();
    (attempt, visitor.expect("it has asked"))
}

/// Looks for an answer that is not there, and says what there is to say.
fn not_yet(attempt: HandshakeAttempt, mine: &OfferedDescriptors<OwnedFd>) -> HandshakeAttempt {
    match attempt.poll(lend(mine)).unwrap() {
        AttemptProgress::Pending(attempt) => attempt,
        AttemptProgress::Accepted(accepted) => panic!("too early: {accepted:?}"),
    }
}

fn accepted(attempt: HandshakeAttempt, mine: &OfferedDescriptors<OwnedFd>) -> AcceptedConnection {
    match attempt.poll(lend(mine)).unwrap() {
        AttemptProgress::Accepted(accepted) => accepted,
        AttemptProgress::Pending(_) => panic!("no answer"),
    }
}

/// Why a caller that is refused comes to nothing.
fn refused(refusal: ConnectRefusal) -> HandshakeAttemptError {
    HandshakeAttemptError::Handshake(HandshakeError::Refused(refusal))
}

/// A patience no test outlasts.
const LONG: i64 = 30;
