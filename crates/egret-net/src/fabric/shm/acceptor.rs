//! Inbound connections being made: the socket that a nic is found by, and the handshakes of those
//! who connect to it.
//!
//! Repeated names: `Acceptor`, one in each fabric.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SocketFlags, accept_with, bind, connect, listen};
use thiserror::Error;

use super::fault::{self, Fault, planted};
use super::rendezvous::{
    AcceptOffer, ConnectOffer, ControlSocket, ControlSocketError, CooperationReply, NameTooLong,
    OfferedDescriptors, OtherUser, PeerProcess, SegmentTerms, ShmRequirements, address, hear,
    own_user,
};
use super::socket::{ControlPacket, PacketSent, PacketSocket, ReceivedPacket, seqpacket};
use crate::fabric::common::ConnectRefusal;
use crate::fabric::handshake::{
    Admission, Callee, CallerSource, DISPLACED, HandshakeError, HandshakeEvent, HandshakeLimits,
    HandshakeStage, PendingHandshake,
};
use crate::rt::Instant;
use crate::vi::{AgreedTrust, Hello, HelloError, PublicKey};

/// The socket by which a nic is found under its name. Dropping the acceptor closes the socket and
/// all connections whose handshake is not finished.
#[derive(Debug)]
pub(super) struct Acceptor {
    listener: OwnedFd,
    stance: ShmRequirements,
    /// Watches the listener and the sockets of unproven peers.
    epoll: OwnedFd,
    unproven: BTreeMap<u64, ShmUnprovenPeer>,
    next: u64,
    /// Until when the acceptor accepts nothing, after the system was out of descriptors.
    resting: Option<Instant>,
    /// Handshakes that may begin until the next [turn](Self::turn).
    left: usize,
}

/// An inbound connection whose handshake is under way.
#[derive(Debug)]
struct ShmUnprovenPeer {
    control: ControlSocket,
    since: Instant,
    until: Instant,
    callee: Callee,
}

/// An inbound connection whose handshake has proven the peer, and which waits to be accepted.
#[derive(Debug)]
pub(super) struct ShmProvenPeer {
    /// What the peer asks for.
    pub hello: Hello,
    /// What the peer offers: its memory and its trust.
    pub offer: ConnectOffer,
    /// The key that the peer has proven.
    pub key: PublicKey,
    /// How far the two trust each other.
    pub agreed: AgreedTrust,
    /// The peer's descriptors, unchecked.
    pub handles: OfferedDescriptors<OwnedFd>,
    control: ControlSocket,
    callee: Callee,
}

/// Why an acceptor does not open.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(super) enum AcceptorError {
    /// The name is too long for a socket.
    #[error(transparent)]
    Name(#[from] NameTooLong),
    /// Another socket has the name: most likely a nic of this user.
    #[error("a nic named {host:?} is open already (`grep egret/ /proc/net/unix` shows the names)")]
    Taken {
        /// The name.
        host: String,
    },
    /// A system call failed.
    #[error("no acceptor for the nic: {0}")]
    System(#[from] Errno),
}

/// A peer that was refused. For the log; the acceptor stays open.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("process {pid} was refused: {why}")]
pub(super) struct RefusedPeer {
    /// The process; zero if it is not known.
    pub pid: i32,
    /// Why.
    pub why: RefusedPeerCause,
}

/// Why a peer was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(super) enum RefusedPeerCause {
    /// Another user's process.
    #[error("{0}")]
    OtherUser(#[from] OtherUser),
    /// As many unproven peers as are allowed are connected.
    #[error("too many other handshakes are under way")]
    Crowded,
    /// The peer gave way to another one.
    #[error("{DISPLACED}")]
    Displaced,
    /// The handshake was not finished in time.
    #[error("it did not finish its handshake in time")]
    Silent,
    /// The peer left during the handshake.
    #[error("it left without a handshake")]
    Left,
    /// The handshake failed.
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    /// A system call failed.
    #[error("{0}; if it is \"too many open files\", raise `ulimit -n`")]
    System(#[from] Errno),
}

/// How many unproven peers may be connected, and how many of one process: each costs a descriptor or
/// two, and 3 KiB of memory.
pub(super) const CROWD: HandshakeLimits = HandshakeLimits { all: 128, of_one: 64 };
/// Handshakes that begin in one turn. The others wait in the kernel, so that peers which connect
/// without end do not stop the traffic of connections.
pub(super) const HANDSHAKES_AT_ONCE: usize = 8;

impl Acceptor {
    /// Takes the name `host`, for this user. Visitors are trusted as the
    /// `stance` says.
    ///
    /// # Errors
    ///
    /// If the name is taken or too long.
    pub(super) fn open(host: &str, stance: ShmRequirements) -> Result<Self, AcceptorError> {
        let address = address(host)?;
        let listener = seqpacket()?;
        bind(&listener, &address).map_err(|errno| match errno {
            Errno::ADDRINUSE => AcceptorError::Taken { host: host.to_owned() },
            errno => AcceptorError::System(errno),
        })?;
        listen(&listener, BACKLOG)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&epoll, &listener, LISTENER)?;
        let (unproven, next) = (BTreeMap::new(), LISTENER + 1);
        let (resting, left) = (None, HANDSHAKES_AT_ONCE);
        Ok(Self { listener, stance, epoll, unproven, next, resting, left })
    }

    /// Readable when [`poll_proven_peer`](Self::poll_proven_peer) has something to tell.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// The nic looks at its sockets again.
    pub(super) const fn turn(&mut self) {
        self.left = HANDSHAKES_AT_ONCE;
    }

    /// When to call [`poll_proven_peer`](Self::poll_proven_peer) even if nothing is readable.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.unproven.values().map(|peer| peer.until).chain(self.resting).min()
    }

    /// The next peer that has finished its handshake, if there is one. Call this function until
    /// there is none. A peer whose handshake would be one more than a [turn](Self::turn) begins
    /// keeps [`fd`](Self::fd) readable. A peer that connects now must finish its handshake by `until`.
    ///
    /// # Errors
    ///
    /// If a peer was refused. The acceptor goes on.
    pub(super) fn poll_proven_peer(
        &mut self,
        now: Instant,
        until: Instant,
    ) -> Result<Option<ShmProvenPeer>, RefusedPeer> {
        self.rested(now);
        self.drop_expired(now)?;
        // Each round ends the call, accepts an unproven peer, or takes a handshake one step on.
        while self.left > 0
            && let Some(ready) = self.ready()
        {
            let proven = if ready == LISTENER {
                self.accept_socket(now, until)?
            } else if let Some(peer) = self.unproven.remove(&ready) {
                self.hear(ready, peer)?
            } else {
                None
            };
            if proven.is_some() {
                return Ok(proven);
            }
        }
        Ok(None)
    }

    /// The number of a peer, or of the listener, whose socket is readable.
    fn ready(&self) -> Option<u64> {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(LISTENER),
        }];
        let found = retry_on_intr(|| {
            epoll::wait(&self.epoll, events.as_mut_slice(), Some(&Timespec::default()))
        });
        found.is_ok_and(|count| count == 1).then(|| events[0].data.u64())
    }

    /// Accepts one more peer, if the kernel permits it, the peer is of this user and there is room.
    /// A proven peer, if the one that was to give way has finished its handshake meanwhile.
    fn accept_socket(
        &mut self,
        now: Instant,
        until: Instant,
    ) -> Result<Option<ShmProvenPeer>, RefusedPeer> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = match accept_with(&self.listener, flags) {
            Ok(fd) => fd,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(errno) => {
                self.rest(now);
                return Err(RefusedPeer { pid: 0, why: errno.into() });
            }
        };
        let socket = PacketSocket::new(fd);
        let peer =
            PeerProcess::of(&socket).map_err(|errno| RefusedPeer { pid: 0, why: errno.into() })?;
        let pid = peer.pid;
        let strange = peer.check_user();
        let control = ControlSocket::new(socket, peer);
        let callee = Callee::new(self.stance.handshake.clone(), true);
        if let Err(why) = strange {
            refuse(&control, callee, &ConnectRefusal::OtherUser { uid: own_user() });
            return Err(RefusedPeer { pid, why: why.into() });
        }
        let outcome = match self.admit(pid, now) {
            Admission::Free => Ok(None),
            Admission::Instead(oldest) => self.give_way(oldest),
            Admission::Later => Err(RefusedPeer { pid, why: RefusedPeerCause::Crowded }),
        };
        let is_full = self.admit(pid, now) != Admission::Free;
        if is_full {
            refuse(&control, callee, &ConnectRefusal::Crowded);
            return outcome;
        }
        let number = self.next;
        if let Err(errno) = watch(&self.epoll, &control.fd(), number) {
            refuse(&control, callee, &ConnectRefusal::Crowded);
            // A peer that finished its handshake meanwhile is not affected.
            let proven = outcome?.ok_or(RefusedPeer { pid, why: errno.into() })?;
            return Ok(Some(proven));
        }
        self.next += 1;
        self.unproven.insert(number, ShmUnprovenPeer { control, since: now, until, callee });
        outcome
    }

    /// Whether there is a place for one more of this process.
    fn admit(&self, pid: i32, now: Instant) -> Admission<u64> {
        let under_way = self.unproven.iter().map(|(number, peer)| {
            let stage = if peer.callee.is_silent() {
                HandshakeStage::Silent
            } else {
                HandshakeStage::Opened
            };
            let source = CallerSource::Process(peer.control.peer().pid);
            PendingHandshake { key: *number, source, stage: stage(peer.since) }
        });
        fault::limits(CROWD).admit(CallerSource::Process(pid), now, under_way)
    }

    /// An unproven peer gives way to the next, unless it has sent something meanwhile.
    fn give_way(&mut self, number: u64) -> Result<Option<ShmProvenPeer>, RefusedPeer> {
        let Some(peer) = self.unproven.remove(&number) else { return Ok(None) };
        let pid = peer.control.peer().pid;
        if is_readable(&peer.control.fd()) {
            return self.hear(number, peer);
        }
        refuse(&peer.control, peer.callee, &ConnectRefusal::Crowded);
        Err(RefusedPeer { pid, why: RefusedPeerCause::Displaced })
    }

    /// Feeds a step to a handshake. A handshake that begins with this step counts, also if it fails.
    fn feed(
        &mut self,
        callee: &mut Callee,
        packet: &ControlPacket,
    ) -> Result<HandshakeEvent, HandshakeError> {
        let had_begun = callee.has_begun();
        let news = hear(callee, packet);
        if !had_begun && callee.has_begun() {
            self.left -= fault::begun(&news);
        }
        news
    }

    /// Receives the next step of a handshake, and answers.
    fn hear(
        &mut self,
        number: u64,
        mut peer: ShmUnprovenPeer,
    ) -> Result<Option<ShmProvenPeer>, RefusedPeer> {
        let pid = peer.control.peer().pid;
        let away = |why| RefusedPeer { pid, why };
        let mut packet = match peer.control.receive() {
            Ok(ReceivedPacket::Packet(packet)) => packet,
            // The socket was readable: a peer that has sent nothing has left.
            Ok(ReceivedPacket::Gone | ReceivedPacket::Nothing) => {
                return Err(away(RefusedPeerCause::Left));
            }
            Err(errno) => return Err(away(errno.into())),
        };
        let news = self.feed(&mut peer.callee, &packet);
        let said = peer.send_step();
        let (key, hello, terms) = match news.map_err(|why| away(why.into()))? {
            HandshakeEvent::Hello { peer, hello, terms } => (peer, hello, terms),
            _ if said => {
                self.unproven.insert(number, peer);
                return Ok(None);
            }
            _ => return Err(away(RefusedPeerCause::Left)),
        };
        let ShmUnprovenPeer { control, callee, .. } = peer;
        let (offer, handles) = match ConnectOffer::decode(&terms, &mut packet) {
            Ok(read) => read,
            Err(why) => {
                let why = HelloError::from(why);
                refuse(&control, callee, &ConnectRefusal::Hello(why.clone()));
                return Err(away(HandshakeError::from(why).into()));
            }
        };
        // The proven peer keeps its socket; the acceptor does not watch it any more.
        epoll::delete(&self.epoll, control.fd()).map_err(|errno| away(errno.into()))?;
        let agreed = self.stance.settle(offer.wish, control.peer());
        Ok(Some(ShmProvenPeer { hello, offer, key, agreed, handles, control, callee }))
    }

    /// Sends one away whose time is up, if there is one.
    fn drop_expired(&mut self, now: Instant) -> Result<(), RefusedPeer> {
        let late = self.unproven.iter().find(|(_, peer)| peer.until <= now);
        let Some(number) = late.map(|(number, _)| *number) else { return Ok(()) };
        let peer = self.unproven.remove(&number).expect("just found");
        Err(RefusedPeer { pid: peer.control.peer().pid, why: RefusedPeerCause::Silent })
    }

    /// Accepts no caller for a moment: without descriptors the listener would stay
    /// readable and keep its nic busy with nothing.
    fn rest(&mut self, now: Instant) {
        self.resting = now.checked_add(REST);
        _ = epoll::delete(&self.epoll, &self.listener);
    }

    fn rested(&mut self, now: Instant) {
        if self.resting.is_some_and(|until| until <= now) {
            let watched = watch(&self.epoll, &self.listener, LISTENER);
            self.resting = if watched.is_ok() { None } else { now.checked_add(REST) };
        }
    }
}

impl ShmUnprovenPeer {
    /// Says what there is to say; whether it could.
    fn send_step(&mut self) -> bool {
        let step = self.callee.outgoing();
        let len = step.len();
        let said = len == 0 || matches!(self.control.send_bytes(step, &[]), Ok(PacketSent::Sent));
        self.callee.sent(len);
        said
    }
}

impl ShmProvenPeer {
    /// Makes the connection.
    ///
    /// # Errors
    ///
    /// If the peer is gone.
    pub(super) fn accept(
        self,
        terms: &SegmentTerms,
        handles: OfferedDescriptors<BorrowedFd<'_>>,
    ) -> Result<(ControlSocket, OfferedDescriptors<OwnedFd>), ControlSocketError> {
        let Self { control, mut callee, .. } = self;
        let pid = control.peer().pid;
        let verdict = CooperationReply::of(self.agreed, self.offer.wish);
        callee.welcome(&AcceptOffer { terms: *terms, verdict }.encode());
        match control.send_bytes(callee.outgoing(), &handles.borrowed())? {
            PacketSent::Sent => Ok((control, self.handles)),
            // The first packet always fits; only descriptors under way can be too many.
            PacketSent::Full => Err(ControlSocketError::System { pid, errno: Errno::TOOMANYREFS }),
        }
    }

    /// Says why not. Nothing is waited for.
    pub(super) fn refuse(self, refusal: &ConnectRefusal) {
        refuse(&self.control, self.callee, refusal);
    }

    /// Whether it left meanwhile.
    pub(super) fn is_gone(&self) -> bool {
        self.control.is_gone()
    }

    /// Who it is.
    #[cfg(test)]
    pub(super) const fn peer(&self) -> &PeerProcess {
        self.control.peer()
    }
}

/// Says of a name that is taken whether another user has it. `None` if it is this user's, or if
/// no process listens there.
///
/// The process that has the name sees a peer connect and leave.
pub(super) fn other_holder(host: &str) -> Option<OtherUser> {
    let socket = seqpacket().ok()?;
    connect(&socket, &address(host).ok()?).ok()?;
    PeerProcess::of(&PacketSocket::new(socket)).ok()?.check_user().err()
}

/// Sends a refusal, if there is room for one; the peer sees the connection end in any case.
fn refuse(control: &ControlSocket, mut callee: Callee, refusal: &ConnectRefusal) {
    callee.refuse(refusal);
    if !callee.outgoing().is_empty() {
        _ = control.send_bytes(callee.outgoing(), &[]);
    }
}

/// Whether there is something to read, or the peer has left.
fn is_readable(fd: &impl AsFd) -> bool {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn watch(epoll: &OwnedFd, fd: &impl AsFd, number: u64) -> Result<(), Errno> {
    if planted(Fault::WatchRefused) {
        return Err(Errno::NOSPC);
    }
    epoll::add(epoll, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)
}

/// Connections that the kernel keeps for an acceptor that is not looking.
const BACKLOG: i32 = 128;
const REST: Duration = Duration::from_millis(10);
/// The listener's number; visitors have higher ones.
const LISTENER: u64 = 0;
