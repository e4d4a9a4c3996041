//! A connection that this nic is making.

use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::Duration;

use super::fault::{Fault, planted};
use super::socket::Socket;
use super::wire::{Farewell, Head, Number, greet};
use crate::fabric::ConnectRequest;
use crate::fabric::greet::{Caller, News, Session, Stance, Wanted};
use crate::fabric::hub::patience::Patience;
use crate::fabric::hub::{Connecting, Listens, Outcome};
use crate::fabric::place::Whereabouts;
use crate::rt::{self, Instant};

/// Somebody who greets until there is an answer or the time is up.
#[derive(Debug)]
pub(super) struct Connector {
    pub patience: Patience,
    whereabouts: Whereabouts,
    /// Which of the host's addresses is tried.
    turn: usize,
    attempt: Attempt,
}

/// One greeting.
#[derive(Debug)]
struct Attempt {
    /// Where this side listens for answers.
    number: Number,
    token: u64,
    /// Once it is known whom to greet.
    caller: Option<Caller>,
    /// Whether it has come to nothing, and another is due.
    is_over: bool,
    /// Where the other side will listen, if it said so.
    theirs: Option<Number>,
}

/// The numbers of both ends of a connection, this one first, where the other is, and what both
/// have of the greeting.
pub(super) type Met = ([Number; 2], SocketAddr, Session);

/// How soon to greet again at first.
const AGAIN_MIN: Duration = Duration::from_millis(2);

impl Attempt {
    fn new() -> Self {
        let number = Number(rt::random());
        Self { number, token: 0, caller: None, is_over: false, theirs: None }
    }

    /// Says the step that is due, again if it was said before. Without a token nothing is said but
    /// that somebody greets: whoever listens could say an opening first that is shown too early, and
    /// an opening is answered once.
    fn say(&mut self, at: SocketAddr, socket: &Socket) {
        let Some(caller) = &mut self.caller else { return };
        if self.token == 0 && !planted(Fault::OpeningShown) {
            let datagram = greet(0, self.number, &[]);
            let _ = socket.send(&at.into(), &[IoSlice::new(&datagram)]);
            return;
        }
        if caller.outgoing().is_empty() {
            caller.repeat();
        }
        let step = caller.outgoing();
        let datagram = greet(self.token, self.number, step);
        let len = step.len();
        let _ = socket.send(&at.into(), &[IoSlice::new(&datagram)]);
        caller.sent(len);
    }
}

impl Connector {
    pub(super) fn new(request: ConnectRequest, now: Instant) -> Self {
        let whereabouts = Whereabouts::of(&request.to.host);
        let patience = Patience::new(request, now, AGAIN_MIN);
        Self { patience, whereabouts, turn: 0, attempt: Attempt::new() }
    }

    pub(super) const fn number(&self) -> Number {
        self.attempt.number
    }

    /// Where it greets now.
    fn at(&self, socket: &Socket) -> Option<SocketAddr> {
        let reached = self.reached(socket);
        let count = reached.clone().count();
        reached.copied().nth(self.turn.checked_rem(count)?)
    }

    /// The host's addresses that the nic can send to.
    fn reached(&self, socket: &Socket) -> impl Iterator<Item = &SocketAddr> + Clone {
        let addresses = self.whereabouts.known().unwrap_or_default();
        let is_four = socket.local().is_ipv4();
        addresses.iter().filter(move |at| at.is_ipv4() == is_four)
    }

    /// Whether this is the host. Whichever of its addresses answers first is it.
    fn is_at(&mut self, from: SocketAddr, socket: &Socket) -> bool {
        let turn = self.reached(socket).position(|at| *at == from);
        if let (false, Some(turn)) = (self.patience.known, turn) {
            (self.turn, self.patience.known) = (turn, true);
        }
        self.at(socket) == Some(from)
    }

    /// Greets if it is time to, or gives up.
    pub(super) fn tick(&mut self, now: Instant, socket: &Socket, stance: &Stance) -> Outcome<Met> {
        if self.patience.is_over(now) {
            return Outcome::Failed(self.patience.too_late(now));
        }
        if now < self.patience.next {
            return Outcome::Pending;
        }
        self.patience.knocked(now);
        self.whereabouts.look_up();
        if !self.patience.known {
            self.turn = self.turn.wrapping_add(1);
        }
        if self.attempt.is_over {
            self.attempt = Attempt::new();
        }
        if let Some(at) = self.at(socket) {
            if self.attempt.caller.is_none() {
                let wanted = self.wanted(socket, stance);
                self.attempt.caller = Some(Caller::new(stance.clone(), wanted));
            }
            self.attempt.say(at, socket);
        }
        Outcome::Pending
    }

    /// What is wanted of the host, wherever it turns out to be.
    fn wanted(&self, socket: &Socket, stance: &Stance) -> Wanted {
        Wanted {
            hello: self.patience.hello(),
            terms: self.attempt.number.0.to_le_bytes().to_vec(),
            key: self.patience.request.to.key,
            is_plain: self.reached(socket).all(|at| stance.is_plain_to(at.ip())),
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
    ) -> Outcome<Met> {
        if !self.is_at(from, socket) || self.attempt.is_over {
            return Outcome::Pending;
        }
        if waits {
            self.patience.listens = Some(Listens::Yes);
        }
        let attempt = &mut self.attempt;
        // The host may have forgotten who greets and hear a repeated opening as one of another: what
        // it says to that one is nothing to who goes on with the first.
        let is_other = attempt.theirs.is_some_and(|known| known != theirs);
        if is_other && !planted(Fault::AnswersMixed) {
            return Outcome::Pending;
        }
        let Some(caller) = &mut attempt.caller else { return Outcome::Pending };
        if step.is_empty() || caller.has_heard(step) {
            return Outcome::Pending;
        }
        let fed = caller.feed(step);
        if fed.is_ok() {
            // The host has proven its key: from now on nobody else is heard.
            attempt.theirs = Some(theirs);
        }
        match fed {
            Ok(fed) => match fed.news {
                News::Welcome { terms } if terms == theirs.0.to_le_bytes() => {
                    if let Some(session) = caller.take_session() {
                        return Outcome::Made(([attempt.number, theirs], from, session));
                    }
                }
                News::Welcome { .. } => attempt.is_over = true,
                News::Nothing | News::Hello { .. } => attempt.say(from, socket),
            },
            Err(why) => {
                attempt.is_over = true;
                if !caller.outgoing().is_empty() {
                    attempt.say(from, socket);
                }
                self.give_up(socket);
                let why = self.patience.not_greeted(why, now);
                return why.map_or(Outcome::Pending, Outcome::Failed);
            }
        }
        Outcome::Pending
    }

    /// Nobody waits for this attempt any more: the host need not.
    pub(super) fn give_up(&mut self, socket: &Socket) {
        if let (Some(theirs), Some(at)) = (self.attempt.theirs.take(), self.at(socket)) {
            let goodbye = Head::goodbye(theirs, Farewell::Closed);
            let _ = socket.send(&at.into(), &[IoSlice::new(goodbye.bytes())]);
        }
    }
}

impl Connecting for Connector {
    fn deadline(&self) -> Option<Instant> {
        Some(self.patience.deadline())
    }

    fn into_patience(self) -> Patience {
        self.patience
    }
}
