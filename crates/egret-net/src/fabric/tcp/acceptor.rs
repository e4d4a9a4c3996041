//! Inbound connections: the listening socket, and the handshakes that are under way.
//!
//! A caller is a stranger until its handshake is complete. A bounded number of handshakes is under way, each
//! for a bounded time and with bounded memory; if there are more callers, [the oldest](HandshakeLimits) give way.
//!
//! Repeated names: `Acceptor`, one in each fabric.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt};

use super::fault::{self, Fault, planted};
use super::handshake::{HandshakeFailure, advance_handshake, say};
use super::nic_context::{ACCEPTOR, HANDSHAKE};
use super::socket::{TcpSocket, is_later};
use super::stream::ByteStream;
use crate::fabric::common::epoll::{self, token};
use crate::fabric::common::{self, ConnectRefusal, RejectionLog};
use crate::fabric::handshake::{
    Admission, Callee, CallerSource, Credentials, DISPLACED, HandshakeEvent, HandshakeLimits,
    HandshakeStage, PendingHandshake,
};
use crate::rt::Instant;
use crate::vi::{Hello, HelloError};

#[derive(Debug)]
pub(super) struct Acceptor {
    listening: OwnedFd,
    credentials: Credentials,
    handshakes: BTreeMap<u64, TcpHandshake>,
    /// When to accept callers again, if the system has no descriptors left.
    paused: Option<Instant>,
    complaints: RejectionLog,
    /// Handshakes that may begin until the next [turn](Self::turn).
    left: usize,
}

/// A caller whose handshake is not complete.
#[derive(Debug)]
struct TcpHandshake {
    socket: TcpSocket,
    source: CallerSource,
    callee: Callee,
    since: Instant,
}

/// A caller whose handshake is complete.
#[derive(Debug)]
pub(super) struct TcpRequest {
    pub stream: ByteStream,
    pub callee: Callee,
    pub hello: Hello,
    pub host: String,
}

/// Strangers that are waited for at the same time, and those of one source: a descriptor and
/// 2 KiB of memory each.
pub(super) const CROWD: HandshakeLimits = HandshakeLimits { all: 256, of_one: 128 };
/// How long a handshake may take.
pub(super) const HANDSHAKE_MAX: Duration = Duration::from_secs(2);
/// How long to accept no caller if the system has no descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Callers let in at once, so that those who connect for ever do not stop the others.
const AT_ONCE: usize = 16;
/// Handshakes that are begun in one turn. The others wait where they are, so that callers that come
/// without end do not stop what goes over connections.
pub(super) const HANDSHAKES_AT_ONCE: usize = 8;
/// Handshakes that are looked at to find one that gives way.
const GIVE_WAY_MAX: usize = 4;
/// Callers that the kernel keeps waiting.
const BACKLOG: i32 = 512;
const HOST_MAX: usize = 255;
/// Why a caller is waited for no more.
const LATE: &str = "its handshake took too long";

impl Acceptor {
    /// Listens; the address has the port that the system chose.
    pub(super) fn open(
        at: SocketAddr,
        credentials: Credentials,
    ) -> Result<(Self, SocketAddr), Errno> {
        let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let listening = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        // A port that was asked for is free again as soon as its listener is gone.
        sockopt::set_socket_reuseaddr(&listening, true)?;
        rustix::net::bind(&listening, &at)?;
        rustix::net::listen(&listening, BACKLOG)?;
        let bound = SocketAddr::try_from(rustix::net::getsockname(&listening)?)?;
        let (handshakes, complaints) = (BTreeMap::new(), RejectionLog::default());
        let left = HANDSHAKES_AT_ONCE;
        Ok((Self { listening, credentials, handshakes, paused: None, complaints, left }, bound))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.listening.as_fd()
    }

    /// The nic looks at its sockets again.
    pub(super) const fn turn(&mut self) {
        self.left = HANDSHAKES_AT_ONCE;
    }

    /// Accepts the sockets that wait. Returns the requests of handshakes that turn out to be complete when
    /// they were to give way.
    pub(super) fn accept_callers(
        &mut self,
        set: &OwnedFd,
        now: Instant,
        mut id: impl FnMut() -> u64,
    ) -> Vec<TcpRequest> {
        let mut requests = Vec::new();
        for _ in 0..AT_ONCE {
            let socket = match TcpSocket::accept(&self.listening) {
                Ok(socket) => socket,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    self.pause(set, now);
                    break;
                }
                Err(why) if is_later(why) => break,
                // Of one that has left meanwhile.
                Err(_) => continue,
            };
            let Some(peer) = socket.peer_address() else { continue };
            let is_plain = self.credentials.is_plain_to(peer.ip());
            let callee = Callee::new(self.credentials.clone(), is_plain);
            let source = CallerSource::of(peer.ip());
            let handshake = TcpHandshake { socket, source, callee, since: now };
            if !self.make_room(source, (set, now), &mut requests) {
                handshake.turn_away();
                continue;
            }
            let id = id();
            if epoll::watch(set, handshake.socket.fd(), token(HANDSHAKE, id), EventFlags::IN)
                .is_ok()
            {
                self.handshakes.insert(id, handshake);
            }
        }
        requests
    }

    /// Whether there is room for one more handshake of `source`, after another gave way if need be. A caller
    /// with bytes that were not read yet is read first, or in the next turn if no handshake may begin in
    /// this one, before it gives way.
    fn make_room(
        &mut self,
        source: CallerSource,
        (set, now): (&OwnedFd, Instant),
        requests: &mut Vec<TcpRequest>,
    ) -> bool {
        for _ in 0..GIVE_WAY_MAX {
            let oldest = match self.admit(source, now) {
                Admission::Free => return true,
                Admission::Later => return false,
                Admission::Instead(oldest) => oldest,
            };
            if self.is_put_off(oldest) {
                return false;
            }
            let was_silent = self.is_silent(oldest);
            requests.extend(self.heard(oldest, set, now));
            if self.is_silent(oldest) == was_silent {
                self.displace(oldest, now);
            }
        }
        self.admit(source, now) == Admission::Free
    }

    fn is_silent(&self, id: u64) -> bool {
        self.handshakes.get(&id).is_some_and(|handshake| handshake.callee.is_silent())
    }

    /// Whether a caller has sent what this turn does not read any more.
    fn is_put_off(&self, id: u64) -> bool {
        let handshake = self.handshakes.get(&id);
        self.left == 0
            && handshake.is_some_and(|it| it.callee.is_silent() && it.has_spoken())
            && !planted(Fault::UnheardDisplaced)
    }

    fn admit(&self, source: CallerSource, now: Instant) -> Admission<u64> {
        let under_way = self.handshakes.iter().map(|(id, handshake)| {
            let stage = if handshake.callee.is_silent() {
                HandshakeStage::Silent
            } else {
                HandshakeStage::Opened
            };
            PendingHandshake { key: *id, source: handshake.source, stage: stage(handshake.since) }
        });
        CROWD.admit(source, now, under_way)
    }

    /// Ends a handshake, to make room for the next.
    fn displace(&mut self, id: u64, now: Instant) {
        if let Some(handshake) = self.handshakes.remove(&id) {
            self.complaints.say("tcp", handshake.socket.peer(), DISPLACED, now);
            handshake.turn_away();
        }
    }

    /// Stops watching the listening socket for a while: epoll would report it again and again.
    fn pause(&mut self, set: &OwnedFd, now: Instant) {
        self.paused = Some(now + PAUSE);
        let _ = epoll::watch(set, &self.listening, token(ACCEPTOR, 0), EventFlags::empty());
    }

    /// Reads the bytes of a caller. Its request, if the handshake is complete.
    pub(super) fn heard(&mut self, id: u64, set: &OwnedFd, now: Instant) -> Option<TcpRequest> {
        let handshake = self.handshakes.get_mut(&id)?;
        if handshake.callee.is_silent() && self.left == 0 {
            // The set tells of it again.
            return None;
        }
        let had_begun = handshake.callee.has_begun();
        let heard = handshake.hear();
        // A handshake that begins counts, also if it fails.
        if !had_begun && handshake.callee.has_begun() {
            self.left = self.left.saturating_sub(fault::begun(&heard));
        }
        match heard {
            Ok(None) => None,
            Ok(Some((hello, host))) => {
                let TcpHandshake { socket, callee, .. } = self.handshakes.remove(&id)?;
                // Whether it leaves is looked at when it matters; the set would say it for ever.
                let _ = epoll::forget(set, socket.fd());
                Some(TcpRequest { stream: ByteStream::Socket(socket), callee, hello, host })
            }
            Err(why) => {
                if let Some(TcpHandshake { socket, .. }) = self.handshakes.remove(&id) {
                    self.complaints.say("tcp", socket.peer(), why, now);
                }
                None
            }
        }
    }

    /// Ends handshakes that take too long.
    pub(super) fn tick(&mut self, set: &OwnedFd, now: Instant) {
        if self.paused.is_some_and(|until| until <= now) {
            self.paused = None;
            let _ = epoll::watch(set, &self.listening, token(ACCEPTOR, 0), EventFlags::IN);
        }
        let Self { handshakes, complaints, .. } = self;
        handshakes.retain(|_, handshake| {
            let is_late = handshake.is_late(now);
            if is_late {
                complaints.say("tcp", handshake.socket.peer(), LATE, now);
            }
            !is_late
        });
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.handshakes.values().map(TcpHandshake::until).chain(self.paused).min()
    }
}

impl TcpHandshake {
    fn until(&self) -> Instant {
        self.since + HANDSHAKE_MAX
    }

    fn is_late(&self, now: Instant) -> bool {
        self.until() <= now && !planted(Fault::LorisAwaited)
    }

    /// Whether there are bytes that were not read yet.
    fn has_spoken(&self) -> bool {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        rustix::net::recv(self.socket.fd(), &mut [0_u8; 1][..], flags).is_ok_and(|(_, n)| n > 0)
    }

    /// Refuses the handshake; the caller may try again.
    fn turn_away(mut self) {
        self.callee.refuse(&ConnectRefusal::Crowded);
        let _ = self.socket.send(self.callee.outgoing());
    }

    /// Reads and answers steps. What the caller asks for and its host, once that is known; an error if the
    /// handshake has failed.
    fn hear(&mut self) -> Result<Option<(Hello, String)>, HandshakeFailure> {
        let (hello, terms) = match advance_handshake(&self.socket, &mut self.callee)? {
            None => return Ok(None),
            Some((HandshakeEvent::Hello { hello, terms, .. }, behind)) if behind.is_empty() => {
                (hello, terms)
            }
            Some(_) => return self.unfit(),
        };
        match String::from_utf8(terms) {
            Ok(host) if host.len() <= HOST_MAX => Ok(Some((hello, host))),
            _ => self.unfit(),
        }
    }

    fn unfit<T>(&mut self) -> Result<T, HandshakeFailure> {
        self.callee.refuse(&ConnectRefusal::Hello(HelloError::Malformed("host")));
        say(&self.socket, &mut self.callee)?;
        Err(HandshakeFailure::Unfit)
    }
}

impl common::ConnectionRequest for TcpRequest {
    fn hello(&self) -> &Hello {
        &self.hello
    }

    fn is_gone(&self) -> bool {
        self.stream.is_over()
    }

    fn turn_away(mut self, why: &ConnectRefusal) {
        self.callee.refuse(why);
        let _ = self.stream.write(self.callee.outgoing());
    }
}
