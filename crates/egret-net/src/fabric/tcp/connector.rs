//! A connection that this nic is making.
//!
//! Repeated names: `Connector`, one in each fabric.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::datapath::DataPath;
use super::handshake::{HandshakeFailure, advance_handshake};
use super::nic_context::{CONNECTOR, TcpNicContext};
use super::socket::TcpSocket;
use super::stream::ByteStream;
use crate::fabric::ConnectRequest;
use crate::fabric::common::connect_retry::{ConnectRetry, UNRESOLVED};
use crate::fabric::common::epoll::{self, token};
use crate::fabric::common::{ConnectOutcome, PendingConnector};
use crate::fabric::handshake::{Caller, CallerRequest, HandshakeEvent, PeerProof};
use crate::fabric::place::HostLookup;
use crate::rt::Instant;
use crate::vi::ConnectError;

/// Makes attempts to connect until one is answered or the deadline has passed.
#[derive(Debug)]
pub(super) struct Connector {
    pub retry: ConnectRetry,
    host_lookup: HostLookup,
    /// How many of the addresses were tried, ever.
    tried: usize,
    attempt: Option<TcpAttempt>,
}

/// One attempt to connect.
#[derive(Debug)]
struct TcpAttempt {
    socket: TcpSocket,
    caller: Caller,
    is_connected: bool,
    since: Instant,
}

/// A connection, what its peer has proven, and the bytes that arrived behind the handshake.
type TcpConnected = (Box<DataPath>, PeerProof, Vec<u8>);

/// The time between the first two attempts.
const RETRY_MIN: Duration = Duration::from_millis(1);
/// How long one attempt may go unanswered before the next address is tried.
const UNHEARD_MAX: Duration = Duration::from_secs(5);
/// How soon to look for the system's answer again.
const ASK_AGAIN: Duration = Duration::from_millis(2);

impl Connector {
    pub(super) fn new(request: ConnectRequest, now: Instant) -> Self {
        let host_lookup = HostLookup::of(&request.to.host);
        let retry = ConnectRetry::new(request, now, RETRY_MIN);
        Self { retry, host_lookup, tried: 0, attempt: None }
    }

    /// Begins an attempt if one is due, or gives up.
    pub(super) fn tick(
        &mut self,
        fixed: &TcpNicContext,
        id: u64,
        now: Instant,
    ) -> ConnectOutcome<TcpConnected> {
        if self.retry.is_over(now) {
            let inside = self.attempt.as_ref().filter(|attempt| attempt.is_connected);
            let since = inside.map(|attempt| attempt.since);
            return ConnectOutcome::Failed(self.retry.timed_out_in_handshake(since, now));
        }
        if self.attempt.as_ref().is_some_and(|a| !a.is_connected && now - a.since >= UNHEARD_MAX) {
            self.attempt = None;
        }
        if self.attempt.is_some() || now < self.retry.next {
            return ConnectOutcome::Pending;
        }
        let to = match self.host_lookup(now) {
            Err(why) => return ConnectOutcome::Failed(why),
            Ok(None) => return ConnectOutcome::Pending,
            Ok(Some(to)) => to,
        };
        self.retry.attempted(now);
        // A host that cannot be reached now may be later.
        let socket = match TcpSocket::connect(to) {
            Ok(socket) => socket,
            Err(why) => return self.unreached(why, now),
        };
        let wanted = CallerRequest {
            hello: self.retry.hello(),
            terms: fixed.host.clone().into_bytes(),
            key: self.retry.request.to.key,
            is_plain: fixed.credentials.is_plain_to(to.ip()),
        };
        let caller = Caller::new(fixed.credentials.clone(), wanted);
        // Without a place in the set the answer is seen at the next tick.
        let flags = EventFlags::IN | EventFlags::OUT;
        let _ = epoll::watch(&fixed.set, socket.fd(), token(CONNECTOR, id), flags);
        self.attempt = Some(TcpAttempt { socket, caller, is_connected: false, since: now });
        ConnectOutcome::Pending
    }

    /// The address of the next attempt, once the lookup has an answer.
    fn host_lookup(&mut self, now: Instant) -> Result<Option<SocketAddr>, ConnectError> {
        self.host_lookup.look_up();
        match self.host_lookup.known() {
            None => {
                self.retry.missing = UNRESOLVED.into();
                self.retry.next = now + ASK_AGAIN;
                Ok(None)
            }
            Some(Err(why)) => {
                self.retry.missing = why.to_owned().into();
                Err(self.retry.unknown(now))
            }
            Some(Ok(all)) => {
                let to = all[self.tried % all.len()];
                self.tried += 1;
                Ok(Some(to))
            }
        }
    }

    /// Looks whether there is an answer.
    pub(super) fn poll(
        &mut self,
        fixed: &TcpNicContext,
        id: u64,
        now: Instant,
    ) -> ConnectOutcome<TcpConnected> {
        let Some(mut attempt) = self.attempt.take() else { return ConnectOutcome::Pending };
        if !attempt.is_connected {
            match attempt.socket.connected() {
                None => {
                    self.attempt = Some(attempt);
                    return ConnectOutcome::Pending;
                }
                Some(Err(why)) => return self.unreached(why, now),
                Some(Ok(())) => {
                    attempt.is_connected = true;
                    let (fd, data) = (attempt.socket.fd(), token(CONNECTOR, id));
                    let _ = epoll::watch(&fixed.set, fd, data, EventFlags::IN);
                }
            }
        }
        self.retry.known = true;
        match advance_handshake(&attempt.socket, &mut attempt.caller) {
            Ok(None) => {
                self.attempt = Some(attempt);
                ConnectOutcome::Pending
            }
            Ok(Some((HandshakeEvent::Welcome { .. }, behind))) => {
                let Some(session) = attempt.caller.take_session() else {
                    return ConnectOutcome::Pending;
                };
                let stream = ByteStream::Socket(attempt.socket);
                let keys = fixed.seal.keys_of_caller().or(session.keys);
                let conn = DataPath::new(self.retry.request.spec, stream, &[], keys);
                ConnectOutcome::Made((Box::new(conn), session.known, behind))
            }
            Err(HandshakeFailure::Handshake(why)) => {
                let why = why.final_error(&mut self.retry, now);
                why.map_or(ConnectOutcome::Pending, ConnectOutcome::Failed)
            }
            Ok(Some(_)) | Err(HandshakeFailure::Left | HandshakeFailure::Unfit) => {
                ConnectOutcome::Pending
            }
        }
    }

    /// An attempt was refused by a kernel, there or on the way. Another attempt, or another address, may
    /// succeed.
    fn unreached(&mut self, why: Errno, now: Instant) -> ConnectOutcome<TcpConnected> {
        self.retry.missing = io::Error::from(why).to_string().into();
        let all = self.host_lookup.known().and_then(Result::ok);
        let tried_all = all.is_some_and(|all| self.tried >= all.len());
        if self.retry.is_in_vain() && tried_all {
            return ConnectOutcome::Failed(self.retry.unknown(now));
        }
        ConnectOutcome::Pending
    }
}

impl PendingConnector for Connector {
    fn deadline(&self) -> Option<Instant> {
        let next = match &self.attempt {
            None => Some(self.retry.next),
            Some(attempt) if !attempt.is_connected => Some(attempt.since + UNHEARD_MAX),
            Some(_) => None,
        };
        self.retry.request.until.into_iter().chain(next).min()
    }

    fn into_retry(self) -> ConnectRetry {
        self.retry
    }
}
