//! A connection that this nic is making.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

use super::socket::Socket;
use super::wire::{Farewell, Head, Number, greet};
use crate::fabric::ConnectRequest;
use crate::fabric::greet::{Caller, GreetError, News, Stance};
use crate::fabric::hub::Listens;
use crate::fabric::place::{Peer, Resolved, Resolving};
use crate::rt::{self, Instant};
use crate::vi::{ConnectError, Hello};

/// Somebody who greets until there is an answer or the time is up.
#[derive(Debug)]
pub(super) struct Knocking {
    pub request: ConnectRequest,
    since: Instant,
    next: Instant,
    again_after: Duration,
    host: Host,
    /// Which of the host's addresses is tried.
    turn: usize,
    attempt: Attempt,
    /// Whether the host was ever there.
    known: bool,
    /// What the host said last: whether somebody listens.
    listens: Option<Listens>,
}

/// Where the host is.
#[derive(Debug)]
enum Host {
    Unknown,
    /// The system will say, when it is asked.
    Unasked {
        name: String,
        port: u16,
    },
    Asking(Resolving),
    At(Vec<SocketAddr>),
}

/// One greeting.
#[derive(Debug)]
struct Attempt {
    /// Where this side listens for answers.
    number: Number,
    token: u64,
    caller: Caller,
    /// Whether it has come to nothing, and another is due.
    is_over: bool,
    /// Where the other side will listen, if it said so.
    theirs: Option<Number>,
}

/// How it stands with a connection that is being made.
#[derive(Debug)]
pub(super) enum Outcome {
    Knocking,
    Made { own: Number, theirs: Number, at: SocketAddr },
    Failed(ConnectError),
}

/// How soon to greet again, at first and at last.
const AGAIN_MIN: Duration = Duration::from_millis(2);
const AGAIN_MAX: Duration = Duration::from_millis(100);
/// How long a host may be unknown to somebody who would wait for ever.
const UNKNOWN_MAX: Duration = Duration::from_secs(5);

impl Attempt {
    fn new(request: &ConnectRequest, stance: &Stance) -> Self {
        let ConnectRequest { to, spec, .. } = request;
        let hello =
            Hello { reliability: spec.reliability, service: to.service.clone(), tag: to.tag };
        let number = Number(rt::random());
        let caller = Caller::new(stance.clone(), hello, &number.0.to_le_bytes());
        Self { number, token: 0, caller, is_over: false, theirs: None }
    }

    /// Says the step that is due, again if it was said before.
    fn say(&mut self, at: SocketAddr, socket: &Socket) {
        if self.caller.outgoing().is_empty() {
            self.caller.repeat();
        }
        let step = self.caller.outgoing();
        let datagram = greet(self.token, self.number, step);
        let len = step.len();
        let _ = socket.send(&at.into(), &[IoSlice::new(&datagram)]);
        self.caller.sent(len);
    }
}

impl Knocking {
    pub(super) fn new(request: ConnectRequest, now: Instant, stance: &Stance) -> Self {
        let host = match Peer::read(&request.to.host) {
            None => Host::Unknown,
            Some(Peer::At(addresses)) => Host::At(addresses),
            Some(Peer::Named { name, port }) => Host::Unasked { name, port },
        };
        let attempt = Attempt::new(&request, stance);
        Self {
            request,
            since: now,
            next: now,
            again_after: AGAIN_MIN,
            host,
            turn: 0,
            attempt,
            known: false,
            listens: None,
        }
    }

    pub(super) const fn number(&self) -> Number {
        self.attempt.number
    }

    /// When to look at it again at the latest.
    pub(super) fn deadline(&self) -> Instant {
        self.request.until.map_or(self.next, |until| until.min(self.next))
    }

    /// Where it greets now.
    fn at(&self, socket: &Socket) -> Option<SocketAddr> {
        let reached = self.reached(socket);
        let count = reached.clone().count();
        reached.copied().nth(self.turn.checked_rem(count)?)
    }

    /// The host's addresses that the nic can send to.
    fn reached(&self, socket: &Socket) -> impl Iterator<Item = &SocketAddr> + Clone {
        let addresses = match &self.host {
            Host::At(addresses) => addresses.as_slice(),
            _ => &[],
        };
        let is_four = socket.local().is_ipv4();
        addresses.iter().filter(move |at| at.is_ipv4() == is_four)
    }

    /// Whether this is the host. Whichever of its addresses answers first is it.
    fn is_at(&mut self, from: SocketAddr, socket: &Socket) -> bool {
        let turn = self.reached(socket).position(|at| *at == from);
        if let (false, Some(turn)) = (self.known, turn) {
            (self.turn, self.known) = (turn, true);
        }
        self.at(socket) == Some(from)
    }

    /// Greets if it is time to, or gives up.
    pub(super) fn tick(&mut self, now: Instant, socket: &Socket, stance: &Stance) -> Outcome {
        let hopeless = !self.known && now - self.since >= UNKNOWN_MAX;
        if self.request.until.map_or(hopeless, |until| now >= until) {
            return Outcome::Failed(self.too_late(now));
        }
        if now < self.next {
            return Outcome::Knocking;
        }
        self.next = now + self.again_after;
        self.again_after = (self.again_after * 2).min(AGAIN_MAX);
        self.look_up();
        if !self.known {
            self.turn = self.turn.wrapping_add(1);
        }
        if self.attempt.is_over {
            self.attempt = Attempt::new(&self.request, stance);
        }
        if let Some(at) = self.at(socket) {
            self.attempt.say(at, socket);
        }
        Outcome::Knocking
    }

    /// Asks the system where the host is, as soon as it may, and looks for the answer.
    fn look_up(&mut self) {
        if let Host::Unasked { name, port } = &self.host
            && let Some(resolving) = Resolving::start(name, *port, || ())
        {
            self.host = Host::Asking(resolving);
        }
        if let Host::Asking(resolving) = &self.host
            && let Some(resolved) = resolving.poll()
        {
            self.host = match resolved {
                Resolved::At(addresses) => Host::At(addresses),
                Resolved::Unknown => Host::Unknown,
            };
        }
    }

    /// The host gives a token.
    pub(super) fn given(&mut self, token: u64, from: SocketAddr, socket: &Socket) {
        if self.is_at(from, socket) && !self.attempt.is_over && self.attempt.token != token {
            self.attempt.token = token;
            self.attempt.say(from, socket);
        }
    }

    /// The host does not know this greeting any more.
    pub(super) fn forgotten(&mut self, from: SocketAddr, socket: &Socket) {
        if self.is_at(from, socket) {
            self.attempt.is_over = true;
        }
    }

    /// The host answers.
    pub(super) fn answered(
        &mut self,
        from: SocketAddr,
        ((theirs, waits), step): ((Number, bool), &[u8]),
        socket: &Socket,
        now: Instant,
    ) -> Outcome {
        if !self.is_at(from, socket) || self.attempt.is_over {
            return Outcome::Knocking;
        }
        if waits {
            self.listens = Some(Listens::Yes);
        }
        let attempt = &mut self.attempt;
        attempt.theirs = Some(theirs);
        if step.is_empty() || attempt.caller.has_heard(step) {
            return Outcome::Knocking;
        }
        match attempt.caller.feed(step) {
            Ok(fed) => match fed.news {
                News::Welcome { terms } if terms == theirs.0.to_le_bytes() => {
                    return Outcome::Made { own: attempt.number, theirs, at: from };
                }
                News::Welcome { .. } => attempt.is_over = true,
                News::Nothing | News::Hello { .. } => attempt.say(from, socket),
            },
            Err(why) => {
                attempt.is_over = true;
                if !attempt.caller.outgoing().is_empty() {
                    attempt.say(from, socket);
                }
                self.give_up(socket);
                if let GreetError::Refused(refusal) = &why {
                    self.listens = Some(refusal.listens());
                    if self.request.at_once && refusal.listens() != Listens::Yes {
                        return Outcome::Failed(self.too_late(now));
                    }
                }
                if let Some(why) = why.into_error(self.request.spec.reliability) {
                    return Outcome::Failed(why);
                }
            }
        }
        Outcome::Knocking
    }

    /// Nobody waits for this attempt any more: the host need not.
    pub(super) fn give_up(&mut self, socket: &Socket) {
        if let (Some(theirs), Some(at)) = (self.attempt.theirs.take(), self.at(socket)) {
            let goodbye = Head::goodbye(theirs, Farewell::Closed);
            let _ = socket.send(&at.into(), &[IoSlice::new(goodbye.bytes())]);
        }
    }

    fn too_late(&self, now: Instant) -> ConnectError {
        let (to, waited) = (self.request.to.clone(), now - self.since);
        match self.listens.and_then(|listens| listens.error(&to, waited)) {
            Some(why) => why,
            _ if self.known => ConnectError::NotAccepted { to, waited },
            _ => ConnectError::UnknownHost { host: to.host },
        }
    }
}
