//! Outbound connections being made: an attempt at a handshake after the other, until there is an
//! answer or the time is up.
//!
//! Repeated names: `Connector`, one in each fabric.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, connect};
use thiserror::Error;

use super::datapath::DataPath;
use super::nic_context::{HANDSHAKE, ShmNicContext};
use super::parts::{LocalEnd, PeerEnd, UNFIT, terms};
use super::rendezvous::{
    AcceptOffer, ConnectOffer, ControlSocket, ControlSocketError, CooperationRequest, NameTooLong,
    OfferedDescriptors, OtherUser, PeerProcess, SegmentTerms, ShmRequirements, address, hear,
};
use super::socket::{ControlPacket, PacketSent, PacketSocket, ReceivedPacket, seqpacket};
use crate::fabric::ConnectRequest;
use crate::fabric::common::bytes::{LENGTH, Malformed};
use crate::fabric::common::connect_retry::ConnectRetry;
use crate::fabric::common::epoll::{self, token};
use crate::fabric::common::{ConnectOutcome, PendingConnector};
use crate::fabric::handshake::{Caller, CallerRequest, HandshakeError, HandshakeEvent};
use crate::rt::Instant;
use crate::vi::{AgreedTrust, ConnectError, Hello, PublicKey};

/// How soon the first attempt is repeated.
const RETRY_MIN: Duration = Duration::from_millis(1);

const NOBODY: &str = "no process of this machine has a nic of this name";

/// An outbound connection being made: it repeats handshake attempts until one is answered or the
/// time is up.
#[derive(Debug)]
pub(super) struct Connector {
    pub retry: ConnectRetry,
    local_end: Option<LocalEnd>,
    attempt: Option<(HandshakeAttempt, Instant)>,
}

/// A connection, how far the two sides trust each other, and the key of the other.
type MadeConnection = (Box<DataPath>, AgreedTrust, PublicKey);

impl Connector {
    pub(super) fn new(request: ConnectRequest, now: Instant) -> Self {
        Self { retry: ConnectRetry::new(request, now, RETRY_MIN), local_end: None, attempt: None }
    }

    /// Begins an attempt if it is time to, or gives up.
    pub(super) fn tick(
        &mut self,
        fixed: &ShmNicContext,
        id: u64,
        now: Instant,
    ) -> ConnectOutcome<MadeConnection> {
        if self.retry.is_over(now) {
            return ConnectOutcome::Failed(self.timed_out(now));
        }
        if self.attempt.is_some() || now < self.retry.next {
            return ConnectOutcome::Pending;
        }
        self.retry.attempted(now);
        match self.start(fixed) {
            Ok(Some(attempt)) => {
                // If the set cannot watch the attempt, its answer is seen at the next tick.
                let _ = epoll::watch(
                    &fixed.sockets,
                    attempt.fd(),
                    token(HANDSHAKE, id),
                    EventFlags::IN,
                );
                self.attempt = Some((attempt, now));
            }
            // Not if this process lacked memory or descriptors to offer.
            Ok(None) if self.retry.is_in_vain() && self.local_end.is_some() => {
                return ConnectOutcome::Failed(self.timed_out(now));
            }
            Ok(None) => {}
            Err(why) => return self.failed(why, now),
        }
        ConnectOutcome::Pending
    }

    fn start(
        &mut self,
        fixed: &ShmNicContext,
    ) -> Result<Option<HandshakeAttempt>, HandshakeAttemptError> {
        let ShmNicContext { host, sleep_policy, stance, .. } = fixed;
        let ConnectRequest { to, spec, .. } = &self.retry.request;
        let (hello, terms) = (self.retry.hello(), terms(spec.depth));
        let call = AttemptTarget { to: &to.host, key: to.key, hello, host, terms };
        if self.local_end.is_none() {
            self.local_end = LocalEnd::new(*sleep_policy);
        }
        if self.local_end.is_none() {
            self.retry.missing = "this process had no memory or descriptors to share".into();
            return Ok(None);
        }
        let started = HandshakeAttempt::start(call, stance)?;
        match started {
            AttemptStart::Nobody => self.retry.missing = NOBODY.into(),
            AttemptStart::Started(_) | AttemptStart::Busy => self.retry.known = true,
        }
        Ok(match started {
            AttemptStart::Started(attempt) => Some(attempt),
            AttemptStart::Nobody | AttemptStart::Busy => None,
        })
    }

    /// Polls the attempt for its answer.
    pub(super) fn poll(&mut self, now: Instant) -> ConnectOutcome<MadeConnection> {
        let (Some((attempt, started)), Some(local_end)) = (self.attempt.take(), &self.local_end)
        else {
            return ConnectOutcome::Pending;
        };
        match attempt.poll(local_end.handles()) {
            Ok(AttemptProgress::Pending(attempt)) => {
                self.attempt = Some((attempt, started));
                ConnectOutcome::Pending
            }
            Ok(AttemptProgress::Accepted(accepted)) => self.accepted(accepted),
            Err(why) => self.failed(why, now),
        }
    }

    fn accepted(&mut self, accepted: AcceptedConnection) -> ConnectOutcome<MadeConnection> {
        let AcceptedConnection { terms, agreed, key, handles, control } = accepted;
        let local_end = self.local_end.take().expect("it was sent with the handshake");
        let peer_end = PeerEnd::new(&terms, handles);
        let conn = peer_end.and_then(|peer_end| {
            let parts = local_end.join(control, peer_end);
            DataPath::new(self.retry.request.spec, agreed.trust(), parts).ok_or(UNFIT)
        });
        match conn {
            Ok(conn) => ConnectOutcome::Made((Box::new(conn), agreed, key)),
            Err(why) => ConnectOutcome::Failed(why.into()),
        }
    }

    /// Separates failures after which another attempt may succeed from the others.
    fn failed(
        &mut self,
        why: HandshakeAttemptError,
        now: Instant,
    ) -> ConnectOutcome<MadeConnection> {
        let final_error = match why {
            HandshakeAttemptError::Gone { .. } | HandshakeAttemptError::System(_) => {
                self.retry.missing = why.to_string().into();
                None
            }
            HandshakeAttemptError::Name(_) => {
                self.retry.missing = why.to_string().into();
                Some(self.retry.unknown(now))
            }
            HandshakeAttemptError::OtherUser(other) => {
                Some(ConnectError::other_user(other.theirs()))
            }
            HandshakeAttemptError::Handshake(why) => why.final_error(&mut self.retry, now),
        };
        final_error.map_or(ConnectOutcome::Pending, ConnectOutcome::Failed)
    }

    fn timed_out(&mut self, now: Instant) -> ConnectError {
        let since = self.attempt.as_ref().map(|(_, since)| *since);
        self.retry.timed_out_in_handshake(since, now)
    }
}

impl PendingConnector for Connector {
    fn deadline(&self) -> Option<Instant> {
        let next = self.attempt.is_none().then_some(self.retry.next);
        self.retry.request.until.into_iter().chain(next).min()
    }

    fn into_retry(self) -> ConnectRetry {
        self.retry
    }
}

/// A handshake attempt that is under way.
#[derive(Debug)]
pub(super) struct HandshakeAttempt {
    control: ControlSocket,
    caller: Box<Caller>,
    wish: CooperationRequest,
}

/// What an attempt asks for, and the host that it asks.
#[derive(Debug, Clone)]
pub(super) struct AttemptTarget<'a> {
    /// The name of the nic.
    pub to: &'a str,
    /// The key that it must prove, if one is known.
    pub key: Option<PublicKey>,
    pub hello: Hello,
    /// The name of this side's nic.
    pub host: &'a str,
    pub terms: SegmentTerms,
}

/// Whether an attempt has begun.
#[derive(Debug)]
pub(super) enum AttemptStart {
    /// The handshake is under way.
    Started(HandshakeAttempt),
    /// No nic of this user has that name at the moment.
    Nobody,
    /// The queue of the acceptor is full; try again later.
    Busy,
}

/// Whether an attempt is answered.
#[derive(Debug)]
pub(super) enum AttemptProgress {
    /// Not yet.
    Pending(HandshakeAttempt),
    /// With a connection.
    Accepted(AcceptedConnection),
}

/// A connection, from the connecting side.
#[derive(Debug)]
pub(super) struct AcceptedConnection {
    /// What the other end says of its side.
    pub terms: SegmentTerms,
    /// How far the two trust each other.
    pub agreed: AgreedTrust,
    /// The key that it has proven.
    pub key: PublicKey,
    /// Its descriptors, unchecked.
    pub handles: OfferedDescriptors<OwnedFd>,
    /// The socket, to be kept.
    pub control: ControlSocket,
}

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(super) enum HandshakeAttemptError {
    /// No socket can be called so.
    #[error(transparent)]
    Name(#[from] NameTooLong),
    /// Another user has the name.
    #[error("the host's name is taken by another user: {0}")]
    OtherUser(#[from] OtherUser),
    /// The handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The other side left without an answer. The next nic of its name may answer.
    #[error("process {pid} left without an answer")]
    Gone {
        /// The process.
        pid: i32,
    },
    /// The operating system would not.
    #[error("no socket to connect with: {0}")]
    System(#[from] Errno),
}

impl From<Malformed> for HandshakeAttemptError {
    fn from(why: Malformed) -> Self {
        Self::Handshake(why.into())
    }
}

impl HandshakeAttempt {
    /// Connects to the acceptor of a nic of this user.
    ///
    /// # Errors
    ///
    /// If the acceptor is another user's, or the system has no socket to give.
    pub(super) fn start(
        call: AttemptTarget<'_>,
        stance: &ShmRequirements,
    ) -> Result<AttemptStart, HandshakeAttemptError> {
        Self::start_at(&address(call.to)?, call, stance)
    }

    pub(super) fn start_at(
        address: &SocketAddrUnix,
        call: AttemptTarget<'_>,
        stance: &ShmRequirements,
    ) -> Result<AttemptStart, HandshakeAttemptError> {
        let fd = seqpacket()?;
        match connect(&fd, address) {
            Ok(()) => {}
            Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(AttemptStart::Nobody),
            Err(Errno::AGAIN) => return Ok(AttemptStart::Busy),
            Err(errno) => return Err(errno.into()),
        }
        let socket = PacketSocket::new(fd);
        let peer = PeerProcess::of(&socket)?;
        peer.check_user()?;
        Self::begin(ControlSocket::new(socket, peer), call, stance)
    }

    /// Begins the handshake over a connected socket.
    pub(super) fn begin(
        control: ControlSocket,
        call: AttemptTarget<'_>,
        stance: &ShmRequirements,
    ) -> Result<AttemptStart, HandshakeAttemptError> {
        let AttemptTarget { key, hello, host, terms, .. } = call;
        let wish = stance.wish(control.peer());
        let offer = ConnectOffer { host: host.to_owned(), terms, wish };
        let wanted = CallerRequest { hello, terms: offer.encode(), key, is_plain: true };
        let caller = Box::new(Caller::new(stance.handshake.clone(), wanted));
        let mut attempt = Self { control, caller, wish };
        Ok(match attempt.send_step(&[])? {
            PacketSent::Sent => AttemptStart::Started(attempt),
            PacketSent::Full => AttemptStart::Busy,
        })
    }

    /// Sends the outgoing step of the handshake with these descriptors.
    fn send_step(&mut self, fds: &[BorrowedFd<'_>]) -> Result<PacketSent, HandshakeAttemptError> {
        let step = self.caller.outgoing();
        let len = step.len();
        match self.control.send_bytes(step, fds) {
            Ok(PacketSent::Full) => Ok(PacketSent::Full),
            // Gone already, maybe with an answer: it is polled for as ever.
            Ok(PacketSent::Sent) | Err(ControlSocketError::PeerGone { .. }) => {
                self.caller.sent(len);
                Ok(PacketSent::Sent)
            }
            Err(ControlSocketError::System { errno, .. }) => Err(errno.into()),
            Err(ControlSocketError::Protocol { .. }) => unreachable!("nothing was received"),
        }
    }

    /// The answer, if it is there. What is asked for goes beside these descriptors.
    ///
    /// # Errors
    ///
    /// If it is a refusal, or none will come.
    pub(super) fn poll(
        mut self,
        handles: OfferedDescriptors<BorrowedFd<'_>>,
    ) -> Result<AttemptProgress, HandshakeAttemptError> {
        loop {
            if !self.caller.outgoing().is_empty() {
                match self.send_step(&handles.borrowed())? {
                    PacketSent::Sent => {}
                    PacketSent::Full => return Ok(AttemptProgress::Pending(self)),
                }
            }
            let mut packet = match self.control.receive()? {
                ReceivedPacket::Nothing => return Ok(AttemptProgress::Pending(self)),
                ReceivedPacket::Gone => {
                    return Err(HandshakeAttemptError::Gone { pid: self.control.peer().pid });
                }
                ReceivedPacket::Packet(packet) => packet,
            };
            match self.hear(&packet)? {
                HandshakeEvent::Nothing => {}
                HandshakeEvent::Hello { .. } => return Err(Malformed(LENGTH).into()),
                HandshakeEvent::Welcome { terms } => return self.accepted(&terms, &mut packet),
            }
        }
    }

    fn hear(&mut self, packet: &ControlPacket) -> Result<HandshakeEvent, HandshakeAttemptError> {
        let news = hear(&mut *self.caller, packet);
        if news.is_err() && !self.caller.outgoing().is_empty() {
            // Why it is not talked to; it may be gone.
            _ = self.send_step(&[]);
        }
        Ok(news?)
    }

    fn accepted(
        mut self,
        terms: &[u8],
        packet: &mut ControlPacket,
    ) -> Result<AttemptProgress, HandshakeAttemptError> {
        let (AcceptOffer { terms, verdict }, handles) = AcceptOffer::decode(terms, packet)?;
        let agreed = verdict.conclude(self.wish)?;
        let session = self.caller.take_session();
        let key = session.ok_or(Malformed(LENGTH))?.known.key;
        let accepted = AcceptedConnection { terms, agreed, key, handles, control: self.control };
        Ok(AttemptProgress::Accepted(accepted))
    }

    /// Readable when [`poll`](Self::poll) has something to tell.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.control.fd()
    }
}
