//! A peer that is only memory and a socket: it does what it is told, also what
//! no fabric would do. For tests and fuzzers.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
#[cfg(test)]
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::connector::{
    AcceptedConnection, AttemptProgress, AttemptStart, AttemptTarget, HandshakeAttempt,
};
use super::doorbell::{DoorbellSleeper, SleepPolicy};
use super::doorbell_socket::DoorbellSocket;
use super::foreign::ForeignMemory;
use super::layout::{BELL, BYTES, RING, RING_LINES};
use super::memory::OwnMemory;
use super::parts::terms;
use super::process_memory;
use super::records::RingSender;
use super::rendezvous::{OfferedDescriptors, ShmRequirements};
#[cfg(test)]
use super::wire::PostedItem;
#[cfg(test)]
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::handshake;
use crate::rt::{self, Instant};
use crate::vi::{Encrypt, Hello, Identity, Listener, Secret, Trust, Vi};

/// What it gives to a connection.
#[derive(Debug)]
pub(super) struct ScriptedSegment {
    pub own: OwnMemory,
    _cord: DoorbellSocket,
    pub handle: OwnedFd,
}

/// A handshake under way.
#[derive(Debug)]
pub(super) struct ScriptedHandshake {
    strings: ScriptedSegment,
    attempt: HandshakeAttempt,
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct ShmScriptedPeer {
    pub strings: ScriptedSegment,
    /// Records in their order, each with the position that it must have.
    ring: RingSender,
    /// What the other end gave.
    pub accepted: AcceptedConnection,
}

impl ScriptedSegment {
    pub(super) fn new() -> Self {
        let own = OwnMemory::new(BYTES).expect("memory");
        process_memory::mark(&own);
        drop(DoorbellSleeper::new(own.clone(), BELL, SleepPolicy::Spins));
        let (cord, handle) = DoorbellSocket::pair().expect("sockets");
        Self { own, _cord: cord, handle }
    }

    pub(super) fn handles(&self) -> OfferedDescriptors<BorrowedFd<'_>> {
        OfferedDescriptors { control: self.own.fd(), bell: self.handle.as_fd() }
    }
}

impl ScriptedHandshake {
    /// Begins a handshake with `host`; `None` if no nic listens, or too many callers are before it.
    pub(super) fn new(host: &str, hello: Hello) -> Option<Self> {
        let strings = ScriptedSegment::new();
        let attempt = start_handshake(host, hello)?;
        Some(Self { strings, attempt })
    }

    /// Waits for the answer; `None` if it is a refusal, or none comes in time.
    #[cfg(test)]
    pub(super) fn wait(self, until: Instant) -> Option<ShmScriptedPeer> {
        let Self { strings, attempt } = self;
        let accepted = wait_answer(attempt, strings.handles(), until)?;
        ShmScriptedPeer::new(strings, accepted)
    }

    /// Meets the nic of this thread, whose end of the connection comes from its listener.
    pub(super) fn meet(self, listener: &Listener, until: Instant) -> Option<(Vi, ShmScriptedPeer)> {
        let Self { strings, mut attempt } = self;
        let mut vi = None;
        let accepted = loop {
            vi = vi.or(listener.poll_accept().ok()?);
            attempt = match attempt.poll(strings.handles()).ok()? {
                AttemptProgress::Accepted(accepted) => break accepted,
                AttemptProgress::Pending(_) if rt::now() >= until => return None,
                AttemptProgress::Pending(attempt) => attempt,
            };
        };
        Some((vi?, ShmScriptedPeer::new(strings, accepted)?))
    }
}

/// A nic that asks for nothing, and has no secret.
pub(super) fn stance() -> ShmRequirements {
    let (secret, identity) = (Secret::none(), Identity::random());
    let handshake =
        handshake::Credentials::new("shm", secret, identity, Encrypt::default()).local();
    ShmRequirements { trust: Trust::Isolated, handshake }
}

/// Begins a handshake with `host`.
pub(super) fn start_handshake(host: &str, hello: Hello) -> Option<HandshakeAttempt> {
    let call = AttemptTarget { to: host, key: None, hello, host: "puppet", terms: terms(8) };
    match HandshakeAttempt::start(call, &stance()) {
        Ok(AttemptStart::Started(attempt)) => Some(attempt),
        _ => None,
    }
}

/// Goes on with the handshake, with any descriptors.
#[cfg(test)]
pub(super) fn wait_answer(
    mut attempt: HandshakeAttempt,
    handles: OfferedDescriptors<BorrowedFd<'_>>,
    until: Instant,
) -> Option<AcceptedConnection> {
    loop {
        attempt = match attempt.poll(handles).ok()? {
            AttemptProgress::Accepted(accepted) => return Some(accepted),
            AttemptProgress::Pending(_) if rt::now() >= until => return None,
            AttemptProgress::Pending(attempt) => attempt,
        };
        rt::sleep(Duration::from_micros(100));
    }
}

impl ShmScriptedPeer {
    fn new(strings: ScriptedSegment, accepted: AcceptedConnection) -> Option<Self> {
        let own = strings.own.clone();
        let seen =
            ForeignMemory::map(own.fd().try_clone_to_owned().ok()?, own.len() as u64).ok()?;
        // How far the other end is it does not ask.
        let ring = RingSender::new(own, RING, RING_LINES, seen, 0).ok()?;
        Some(Self { strings, ring, accepted })
    }

    /// Puts an item with its bytes, also where there is no room.
    #[cfg(test)]
    pub(super) fn put(&mut self, item: PostedItem, bytes: &[u8], counts: ReceiveCounts) {
        let words = item.encode(counts);
        self.put_any(true, words.what, &[words.bytes(), bytes].concat());
    }

    /// Puts any record of at most 4 KiB.
    pub(super) fn put_any(&mut self, is_item: bool, tag: u64, payload: &[u8]) {
        self.ring.hear(self.ring.position()).expect("all that was written");
        let put = match is_item {
            true => self.ring.send_item(tag, &[payload]),
            false => self.ring.send(tag, &[payload]),
        };
        put.expect("there is room");
    }

    /// Lines that were put.
    #[cfg(test)]
    pub(super) fn position(&self) -> u64 {
        self.ring.position()
    }

    /// Sends any packet.
    pub(super) fn say(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(fds)), "at most 32");
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let socket = self.accepted.control.fd();
        sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags).map(drop)
    }
}
