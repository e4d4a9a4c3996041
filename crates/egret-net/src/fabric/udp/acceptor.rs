//! Handshakes of callers.
//!
//! A caller is sent a token first, for which this nic keeps no state, and its handshake begins when it
//! returns the token: this shows that it receives at the address it sends from. No answer is longer than
//! the datagram it answers, and handshakes are bounded in number, altogether and of one source, and in
//! time; past the bound [the oldest](HandshakeLimits) that have proven nothing give way.
//!
//! Repeated names: `Acceptor`, one in each fabric.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use super::fault::{self, Fault, planted};
use super::socket::DatagramSocket;
use super::wire::{self, ConnectionNumber, UdpHead};
use crate::fabric::common::{self, ConnectRefusal, RejectionLog};
use crate::fabric::handshake::{
    Admission, Callee, CallerSource, Credentials, DISPLACED, HandshakeError, HandshakeEvent,
    HandshakeLimits, HandshakeStage, PendingHandshake, Session,
};
use crate::rt::{self, Instant};
use crate::vi::{Hello, HelloError};

#[derive(Debug)]
pub(super) struct Acceptor {
    /// The secret key that tokens are made with.
    key: [u8; 32],
    handshakes: BTreeMap<(SocketAddr, ConnectionNumber), Arc<UdpHandshake>>,
    complaints: RejectionLog,
}

/// A handshake that is under way, or whose last answer may have been lost.
#[derive(Debug)]
pub(super) struct UdpHandshake {
    at: SocketAddr,
    /// The connection number of the caller, and that of this side.
    pub theirs: ConnectionNumber,
    pub own: ConnectionNumber,
    source: CallerSource,
    since: Instant,
    talk: Mutex<UdpHandshakeState>,
}

#[derive(Debug)]
struct UdpHandshakeState {
    callee: Callee,
    /// Whether it has proven the secret.
    is_proven: bool,
    /// The first step.
    first: Vec<u8>,
    waits: bool,
    is_gone: bool,
    /// Whether the caller was refused, or uses its connection: the handshake is kept only for datagrams that
    /// arrive late.
    is_settled: bool,
    /// Ticks since a datagram of the caller arrived.
    idle: u32,
}

/// A connection request of a caller whose handshake is complete.
#[derive(Debug)]
pub(super) struct UdpRequest {
    hello: Hello,
    pub handshake: Arc<UdpHandshake>,
    socket: Arc<DatagramSocket>,
}

/// Handshakes at the same time, and those of one source: 3 KiB of memory each.
pub(super) const HANDSHAKES: HandshakeLimits = HandshakeLimits { all: 1024, of_one: 256 };
/// Ticks after which a handshake whose caller is silent is dropped: five seconds.
const IDLE_MAX: u32 = 10;
/// Ticks after which a settled handshake is dropped: one second.
const SETTLED_MAX: u32 = 2;

impl Acceptor {
    pub(super) fn new() -> Self {
        let mut key = [0; 32];
        for word in key.as_chunks_mut().0 {
            *word = rt::random().to_ne_bytes();
        }
        Self { key, handshakes: BTreeMap::new(), complaints: RejectionLog::default() }
    }

    pub(super) fn handshakes(&self) -> usize {
        self.handshakes.len()
    }

    /// Processes a handshake step of the caller at `at` with the number `theirs`. A request if the handshake
    /// is complete; an error if the token is wrong.
    pub(super) fn handshake_done(
        &mut self,
        (at, theirs): (SocketAddr, ConnectionNumber),
        (token, step): (u64, &[u8]),
        (credentials, socket): (&Credentials, &Arc<DatagramSocket>),
        now: Instant,
    ) -> Result<Option<UdpRequest>, TokenMismatch> {
        let right = self.token(&at, theirs);
        if !is_right_token(token, right) {
            reply(socket, at, UdpHead::token(theirs, right).bytes());
            return Err(TokenMismatch);
        }
        let known = self.handshakes.get(&(at, theirs)).cloned();
        let is_new = known.is_none();
        let handshake =
            known.unwrap_or_else(|| Arc::new(UdpHandshake::new(at, theirs, credentials, now)));
        // Only an opening that is worth a handshake takes a place.
        let asks_room = is_new && Callee::is_worth(credentials, step);
        if asks_room && self.is_crowded(at, now) {
            handshake.turn_away(&ConnectRefusal::Crowded, socket);
            return Ok(None);
        }
        let hello = match handshake.hear(step) {
            StepReceived::Before => return Ok(None),
            StepReceived::Step(hello) => {
                handshake.answer(socket);
                self.handshakes.insert((at, theirs), Arc::clone(&handshake));
                hello
            }
            // The refusal is repeated each time the step is.
            StepReceived::Refused(why) => {
                self.complaints.say("udp", at, why, now);
                handshake.answer(socket);
                self.handshakes.remove(&(at, theirs));
                None
            }
            StepReceived::Nonsense => {
                if is_new {
                    // The caller goes on with a handshake that this side has dropped.
                    reply(socket, at, UdpHead::unknown(theirs).bytes());
                }
                self.handshakes.remove(&(at, theirs));
                None
            }
        };
        let socket = Arc::clone(socket);
        Ok(hello.map(|hello| UdpRequest { hello, handshake, socket }))
    }

    /// Whether one more handshake would be too many. Settled ones make room, and then the oldest that has
    /// proven nothing.
    fn is_crowded(&mut self, at: SocketAddr, now: Instant) -> bool {
        let source = CallerSource::of(at.ip());
        if self.admit(source, now) == Admission::Free {
            return false;
        }
        self.handshakes.retain(|_, handshake| !handshake.talk().is_settled);
        match self.admit(source, now) {
            Admission::Free => false,
            Admission::Later => true,
            Admission::Instead(oldest) => {
                if let Some(handshake) = self.handshakes.remove(&oldest) {
                    self.complaints.say("udp", handshake.at, DISPLACED, now);
                    handshake.talk().is_gone = true;
                }
                false
            }
        }
    }

    fn admit(
        &self,
        source: CallerSource,
        now: Instant,
    ) -> Admission<(SocketAddr, ConnectionNumber)> {
        let under_way = self.handshakes.iter().map(|(key, handshake)| {
            // Only a caller that has opened has a handshake here.
            let is_proven = handshake.talk().is_proven;
            let stage = if is_proven {
                HandshakeStage::Proven
            } else {
                HandshakeStage::Opened(handshake.since)
            };
            PendingHandshake { key: *key, source: handshake.source, stage }
        });
        fault::limits(HANDSHAKES).admit(source, now, under_way)
    }

    pub(super) fn token(&self, at: &SocketAddr, theirs: ConnectionNumber) -> u64 {
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update(theirs.0.to_le_bytes());
        hash.update(at.to_string());
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(hash.finalize());
        // Zero stands for no token.
        u64::from_le_bytes([a, b, c, d, e, f, g, h]) | 1
    }

    /// Drops the handshake of a caller at `at` that has given up: it does not know the number any more, or
    /// has sent a goodbye.
    pub(super) fn left(&mut self, at: SocketAddr, number: ConnectionNumber) {
        let is_it = |handshake: &UdpHandshake| {
            handshake.at == at && [handshake.theirs, handshake.own].contains(&number)
        };
        self.handshakes.retain(|_, handshake| {
            let left = is_it(handshake);
            if left {
                handshake.talk().is_gone = true;
            }
            !left
        });
    }

    /// Notes that a caller uses its connection, so that it has received the welcome.
    pub(super) fn settled(&self, at: SocketAddr, theirs: ConnectionNumber) {
        if let Some(handshake) = self.handshakes.get(&(at, theirs)) {
            handshake.talk().is_settled = true;
        }
    }

    /// Handles a tick: drops handshakes whose callers are silent.
    pub(super) fn keep_alive_tick(&mut self) {
        self.handshakes.retain(|_, handshake| {
            let mut talk = handshake.talk();
            talk.idle += 1;
            let most = if talk.is_settled { SETTLED_MAX } else { IDLE_MAX };
            let is_over = talk.idle > most;
            talk.is_gone |= is_over;
            !is_over
        });
    }
}

/// A handshake step without the right token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TokenMismatch;

enum StepReceived {
    /// A step that was answered before: the network was slow.
    Before,
    /// The next step or the last one again, which may be a hello.
    Step(Option<Hello>),
    Refused(HandshakeError),
    Nonsense,
}

impl UdpHandshake {
    fn new(
        at: SocketAddr,
        theirs: ConnectionNumber,
        credentials: &Credentials,
        since: Instant,
    ) -> Self {
        let callee = Callee::new(credentials.clone(), credentials.is_plain_to(at.ip()));
        let talk = UdpHandshakeState {
            callee,
            is_proven: false,
            first: Vec::new(),
            waits: false,
            is_gone: false,
            is_settled: false,
            idle: 0,
        };
        let (own, source) = (ConnectionNumber(rt::random()), CallerSource::of(at.ip()));
        Self { at, theirs, own, source, since, talk: Mutex::new(talk) }
    }

    fn talk(&self) -> MutexGuard<'_, UdpHandshakeState> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, step: &[u8]) -> StepReceived {
        let mut talk = self.talk();
        talk.idle = 0;
        if talk.callee.has_heard(step) {
            talk.callee.repeat();
            return StepReceived::Step(None);
        }
        if talk.first == step {
            return StepReceived::Before;
        }
        if talk.first.is_empty() {
            talk.first = step.to_vec();
        }
        let fed = talk.callee.feed(step);
        talk.is_gone |= fed.is_err();
        match fed.map(|fed| fed.news) {
            Ok(HandshakeEvent::Hello { hello, terms, .. })
                if terms == self.theirs.0.to_le_bytes() =>
            {
                (talk.waits, talk.is_proven) = (true, true);
                StepReceived::Step(Some(hello))
            }
            Ok(HandshakeEvent::Nothing) => StepReceived::Step(None),
            Err(HandshakeError::Hello(HelloError::Malformed(_) | HelloError::NotEgret)) | Ok(_) => {
                StepReceived::Nonsense
            }
            Err(why) => StepReceived::Refused(why),
        }
    }

    /// Sends the outgoing step, if any.
    fn answer(&self, socket: &DatagramSocket) {
        let mut talk = self.talk();
        let said = wire::answer(self.theirs, self.own, talk.waits, talk.callee.outgoing());
        let len = talk.callee.outgoing().len();
        talk.callee.sent(len);
        drop(talk);
        reply(socket, self.at, &said);
    }

    /// Refuses the connection, and tells the caller why.
    fn turn_away(&self, why: &ConnectRefusal, socket: &DatagramSocket) {
        let mut talk = self.talk();
        talk.callee.refuse(why);
        (talk.waits, talk.is_settled) = (false, true);
        drop(talk);
        self.answer(socket);
    }

    /// Accepts the connection.
    pub(super) fn welcome(&self, socket: &DatagramSocket) -> Session {
        let session = self.talk().callee.welcome(&self.own.0.to_le_bytes());
        self.talk().waits = false;
        self.answer(socket);
        session
    }
}

impl UdpRequest {
    /// The address of the caller.
    pub(super) fn at(&self) -> SocketAddr {
        self.handshake.at
    }
}

impl common::ConnectionRequest for UdpRequest {
    fn hello(&self) -> &Hello {
        &self.hello
    }

    fn is_gone(&self) -> bool {
        self.handshake.talk().is_gone
    }

    fn turn_away(self, why: &ConnectRefusal) {
        self.handshake.turn_away(why, &self.socket);
    }
}

/// Sends an answer; one that does not leave is lost.
fn reply(socket: &DatagramSocket, to: SocketAddr, bytes: &[u8]) {
    debug_assert!(bytes.len() <= wire::HANDSHAKE_BYTES);
    let _ = socket.send(&to.into(), &[IoSlice::new(bytes)]);
}

fn is_right_token(token: u64, right: u64) -> bool {
    token == right || planted(Fault::TokenIgnored)
}
