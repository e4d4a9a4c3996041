//! A connection that this nic is making.
//!
//! Repeated names: `Connector`, one in each fabric.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

use super::fault::{Fault, planted};
use super::socket::DatagramSocket;
use super::wire::{ConnectionNumber, GoodbyeReason, UdpHead, start_handshake};
use crate::fabric::ConnectRequest;
use crate::fabric::common::connect_retry::{ConnectRetry, NOBODY, UNRESOLVED};
use crate::fabric::common::{ConnectOutcome, ListenState, PendingConnector};
use crate::fabric::handshake::{Caller, CallerRequest, Credentials, HandshakeEvent, Session};
use crate::fabric::place::HostLookup;
use crate::rt::{self, Instant};

/// Why a host is unknown that this nic cannot send to.
const OTHER_FAMILY: &str = "it has no address of the IP version of this nic";

/// Makes attempts to connect until one is answered or the deadline has passed.
#[derive(Debug)]
pub(super) struct Connector {
    pub retry: ConnectRetry,
    host_lookup: HostLookup,
    /// Which of the host's addresses is tried.
    turn: usize,
    attempt: UdpAttempt,
}

/// One attempt to connect.
#[derive(Debug)]
struct UdpAttempt {
    /// The connection number of this side.
    number: ConnectionNumber,
    token: u64,
    /// Once the address of the host is known.
    caller: Option<Caller>,
    /// Whether the attempt has failed, and another is due.
    is_over: bool,
    /// The connection number of the other side, once it is known.
    theirs: Option<ConnectionNumber>,
}

/// The numbers of both ends of a connection, this one first, the address of the peer, and what the handshake
/// has left.
pub(super) type UdpConnected = ([ConnectionNumber; 2], SocketAddr, Session);

/// The time between the first two datagrams.
const AGAIN_MIN: Duration = Duration::from_millis(2);

impl UdpAttempt {
    fn new() -> Self {
        let number = ConnectionNumber(rt::random());
        Self { number, token: 0, caller: None, is_over: false, theirs: None }
    }

    /// Says the step that is due, again if it was said before. Without a token nothing is said but
    /// that somebody starts a handshake: a listener on the way could send an opening first that is shown too early, and
    /// an opening is answered once.
    fn say(&mut self, at: SocketAddr, socket: &DatagramSocket) {
        let Some(caller) = &mut self.caller else { return };
        if lacks_token(self.token) {
            let datagram = start_handshake(0, self.number, &[]);
            let _ = socket.send(&at.into(), &[IoSlice::new(&datagram)]);
            return;
        }
        if caller.outgoing().is_empty() {
            caller.repeat();
        }
        let step = caller.outgoing();
        let datagram = start_handshake(self.token, self.number, step);
        let len = step.len();
        let _ = socket.send(&at.into(), &[IoSlice::new(&datagram)]);
        caller.sent(len);
    }
}

impl UdpAttempt {
    /// Whether what the host says under this number is nothing to this attempt.
    fn is_of_another(&self, theirs: ConnectionNumber) -> bool {
        self.theirs.is_some_and(|known| known != theirs) && !planted(Fault::AnswersMixed)
    }
}

fn lacks_token(token: u64) -> bool {
    token == 0 && !planted(Fault::OpeningShown)
}

impl Connector {
    pub(super) fn new(request: ConnectRequest, now: Instant) -> Self {
        let host_lookup = HostLookup::of(&request.to.host);
        let retry = ConnectRetry::new(request, now, AGAIN_MIN);
        Self { retry, host_lookup, turn: 0, attempt: UdpAttempt::new() }
    }

    pub(super) const fn number(&self) -> ConnectionNumber {
        self.attempt.number
    }

    /// The address that is tried now.
    fn at(&self, socket: &DatagramSocket) -> Option<SocketAddr> {
        let reached = self.reached(socket);
        let count = reached.clone().count();
        reached.copied().nth(self.turn.checked_rem(count)?)
    }

    /// The addresses of the host that the nic can send to.
    fn reached(&self, socket: &DatagramSocket) -> impl Iterator<Item = &SocketAddr> + Clone {
        let addresses = self.host_lookup.known().and_then(Result::ok).unwrap_or_default();
        let is_four = socket.local().is_ipv4();
        addresses.iter().filter(move |at| at.is_ipv4() == is_four)
    }

    /// Whether this is the address of the host. The first of its addresses that answers is taken.
    fn is_at(&mut self, from: SocketAddr, socket: &DatagramSocket) -> bool {
        let turn = self.reached(socket).position(|at| *at == from);
        if let (false, Some(turn)) = (self.retry.known, turn) {
            (self.turn, self.retry.known) = (turn, true);
        }
        self.at(socket) == Some(from)
    }

    /// Sends the step that is due, or gives up.
    pub(super) fn tick(
        &mut self,
        now: Instant,
        socket: &DatagramSocket,
        credentials: &Credentials,
    ) -> ConnectOutcome<UdpConnected> {
        if self.retry.is_over(now) {
            return ConnectOutcome::Failed(self.retry.timed_out(now));
        }
        if now < self.retry.next {
            return ConnectOutcome::Pending;
        }
        self.retry.attempted(now);
        self.host_lookup.look_up();
        match self.host_lookup.known() {
            None => self.retry.missing = UNRESOLVED.into(),
            Some(Err(why)) => {
                self.retry.missing = why.to_owned().into();
                return ConnectOutcome::Failed(self.retry.unknown(now));
            }
            Some(Ok(_)) if self.at(socket).is_none() => self.retry.missing = OTHER_FAMILY.into(),
            Some(Ok(_)) => self.retry.missing = NOBODY.into(),
        }
        if !self.retry.known {
            self.turn = self.turn.wrapping_add(1);
        }
        if self.attempt.is_over {
            self.attempt = UdpAttempt::new();
        }
        if let Some(at) = self.at(socket) {
            if self.attempt.caller.is_none() {
                let wanted = self.wanted(socket, credentials);
                self.attempt.caller = Some(Caller::new(credentials.clone(), wanted));
            }
            self.attempt.say(at, socket);
        }
        ConnectOutcome::Pending
    }

    /// What is wanted of the host, wherever it turns out to be.
    fn wanted(&self, socket: &DatagramSocket, credentials: &Credentials) -> CallerRequest {
        CallerRequest {
            hello: self.retry.hello(),
            terms: self.attempt.number.0.to_le_bytes().to_vec(),
            key: self.retry.request.to.key,
            is_plain: self.reached(socket).all(|at| credentials.is_plain_to(at.ip())),
        }
    }

    /// The host gives a token.
    pub(super) fn given(&mut self, token: u64, from: SocketAddr, socket: &DatagramSocket) {
        if self.is_at(from, socket) && !self.attempt.is_over && self.attempt.token != token {
            self.attempt.token = token;
            self.attempt.say(from, socket);
        }
    }

    /// Begins a new attempt: the host has dropped this handshake.
    pub(super) fn forgotten(&mut self, from: SocketAddr, socket: &DatagramSocket) {
        if self.is_at(from, socket) {
            self.attempt.is_over = true;
        }
    }

    /// The host answers.
    pub(super) fn answered(
        &mut self,
        from: SocketAddr,
        ((theirs, waits), step): ((ConnectionNumber, bool), &[u8]),
        socket: &DatagramSocket,
        now: Instant,
    ) -> ConnectOutcome<UdpConnected> {
        if !self.is_at(from, socket) || self.attempt.is_over {
            return ConnectOutcome::Pending;
        }
        if waits {
            self.retry.listens = Some(ListenState::Yes);
        }
        let attempt = &mut self.attempt;
        // The host may have forgotten who starts a handshake and hear a repeated opening as one of another: what
        // it says to that one is nothing to who goes on with the first.
        if attempt.is_of_another(theirs) {
            return ConnectOutcome::Pending;
        }
        let Some(caller) = &mut attempt.caller else { return ConnectOutcome::Pending };
        if step.is_empty() || caller.has_heard(step) {
            return ConnectOutcome::Pending;
        }
        let fed = caller.feed(step);
        if fed.is_ok() {
            // The host has proven its key: from now on no other host is heard.
            attempt.theirs = Some(theirs);
        }
        match fed {
            Ok(fed) => match fed.news {
                HandshakeEvent::Welcome { terms } if terms == theirs.0.to_le_bytes() => {
                    if let Some(session) = caller.take_session() {
                        return ConnectOutcome::Made(([attempt.number, theirs], from, session));
                    }
                }
                HandshakeEvent::Welcome { .. } => attempt.is_over = true,
                HandshakeEvent::Nothing | HandshakeEvent::Hello { .. } => attempt.say(from, socket),
            },
            Err(why) => {
                attempt.is_over = true;
                if !caller.outgoing().is_empty() {
                    attempt.say(from, socket);
                }
                self.give_up(socket);
                let why = why.final_error(&mut self.retry, now);
                return why.map_or(ConnectOutcome::Pending, ConnectOutcome::Failed);
            }
        }
        ConnectOutcome::Pending
    }

    /// Ends an attempt that was given up, and tells the host.
    pub(super) fn give_up(&mut self, socket: &DatagramSocket) {
        if let (Some(theirs), Some(at)) = (self.attempt.theirs.take(), self.at(socket)) {
            let goodbye = UdpHead::goodbye(theirs, GoodbyeReason::Closed);
            let _ = socket.send(&at.into(), &[IoSlice::new(goodbye.bytes())]);
        }
    }
}

impl PendingConnector for Connector {
    fn deadline(&self) -> Option<Instant> {
        Some(self.retry.deadline())
    }

    fn into_retry(self) -> ConnectRetry {
        self.retry
    }
}
