//! Those who greet this nic.
//!
//! Whoever greets is given a token first, which costs this nic nothing to keep, and is
//! heard when it shows the token: then it receives at the address it sends from. No
//! answer is larger than the greeting it answers, and the guests are bounded in number,
//! altogether and of one source, and in time; if there are more, [the oldest](Room) that
//! have proven nothing give way.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

use super::fault::{Fault, planted};
use super::socket::Socket;
use super::wire::{self, Head, Number};
use crate::fabric::greet::{
    Admission, Callee, DISPLACED, GreetError, News, Room, Session, Source, Stage, Stance, UnderWay,
};
use crate::fabric::hub::{self, Complaints, Refusal};
use crate::rt::{self, Instant};
use crate::vi::{Hello, HelloError};

#[derive(Debug)]
pub(super) struct Acceptor {
    /// Known to nobody else: what tokens are made of.
    key: [u8; 32],
    guests: BTreeMap<(SocketAddr, Number), Arc<Guest>>,
    complaints: Complaints,
}

/// Somebody who greets, or has greeted and may not know the answer.
#[derive(Debug)]
pub(super) struct Guest {
    at: SocketAddr,
    /// Where it listens, and where this side will.
    pub theirs: Number,
    pub own: Number,
    source: Source,
    since: Instant,
    talk: Mutex<Talk>,
}

#[derive(Debug)]
struct Talk {
    callee: Callee,
    /// Whether it has proven the secret.
    is_proven: bool,
    /// The first step.
    first: Vec<u8>,
    waits: bool,
    is_gone: bool,
    /// Whether it was turned away, or uses its connection: it is kept only in case
    /// something of its greeting comes late.
    is_settled: bool,
    /// Beats since it was heard.
    idle: u32,
}

/// Somebody who has greeted and wants a connection.
#[derive(Debug)]
pub(super) struct Visitor {
    hello: Hello,
    pub guest: Arc<Guest>,
    socket: Arc<Socket>,
}

/// Guests at the same time, and those of one source: 3 KiB of memory each.
pub(super) const GUESTS: Room = Room { all: 1024, of_one: 256 };
/// Beats after which a guest that is silent is forgotten: five seconds.
const IDLE_MAX: u32 = 10;
/// And one that nothing more is expected of: one second.
const SETTLED_MAX: u32 = 2;

impl Acceptor {
    pub(super) fn new() -> Self {
        let mut key = [0; 32];
        for word in key.as_chunks_mut().0 {
            *word = rt::random().to_ne_bytes();
        }
        Self { key, guests: BTreeMap::new(), complaints: Complaints::default() }
    }

    pub(super) fn guests(&self) -> usize {
        self.guests.len()
    }

    /// Somebody at `at`, who listens under `theirs`, greets. A visitor if it has said
    /// all there is to say. `Err`: its token is none.
    pub(super) fn greeted(
        &mut self,
        (at, theirs): (SocketAddr, Number),
        (token, step): (u64, &[u8]),
        (stance, socket): (&Stance, &Arc<Socket>),
        now: Instant,
    ) -> Result<Option<Visitor>, NoToken> {
        let right = self.token(&at, theirs);
        if token != right && !planted(Fault::TokenIgnored) {
            reply(socket, at, Head::token(theirs, right).bytes());
            return Err(NoToken);
        }
        let known = self.guests.get(&(at, theirs)).cloned();
        let is_new = known.is_none();
        let guest = known.unwrap_or_else(|| Arc::new(Guest::new(at, theirs, stance, now)));
        // A handshake is begun for who has a place, and a place is given to who is no stranger.
        let asks_room = is_new && Callee::is_worth(stance, step);
        if asks_room && !planted(Fault::CrowdHeard) && self.is_crowded(at, now) {
            guest.turn_away(&Refusal::Crowded, socket);
            return Ok(None);
        }
        let hello = match guest.hear(step) {
            Heard::Before => return Ok(None),
            Heard::Step(hello) => {
                guest.answer(socket);
                self.guests.insert((at, theirs), Arc::clone(&guest));
                hello
            }
            // It is told why each time it comes.
            Heard::Refused(why) => {
                self.complaints.say("udp", at, why, now);
                guest.answer(socket);
                self.guests.remove(&(at, theirs));
                None
            }
            Heard::Nonsense => {
                if is_new {
                    // It goes on with a greeting that this side has forgotten.
                    reply(socket, at, Head::unknown(theirs).bytes());
                }
                self.guests.remove(&(at, theirs));
                None
            }
        };
        let socket = Arc::clone(socket);
        Ok(hello.map(|hello| Visitor { hello, guest, socket }))
    }

    /// Whether one more would be too many. Those who are settled make room, and then the
    /// oldest that has proven nothing.
    fn is_crowded(&mut self, at: SocketAddr, now: Instant) -> bool {
        let source = Source::of(at.ip());
        if self.admit(source, now) == Admission::Free {
            return false;
        }
        self.guests.retain(|_, guest| !guest.talk().is_settled);
        match self.admit(source, now) {
            Admission::Free => false,
            Admission::Later => true,
            Admission::Instead(oldest) => {
                if let Some(guest) = self.guests.remove(&oldest) {
                    self.complaints.say("udp", guest.at, DISPLACED, now);
                    guest.talk().is_gone = true;
                }
                false
            }
        }
    }

    fn admit(&self, source: Source, now: Instant) -> Admission<(SocketAddr, Number)> {
        let under_way = self.guests.iter().map(|(key, guest)| {
            // Whoever is here has opened.
            let is_proven = guest.talk().is_proven;
            let stage = if is_proven { Stage::Proven } else { Stage::Opened(guest.since) };
            UnderWay { key: *key, source: guest.source, stage }
        });
        GUESTS.admit(source, now, under_way)
    }

    pub(super) fn token(&self, at: &SocketAddr, theirs: Number) -> u64 {
        let mut hash = Sha256::new();
        hash.update(self.key);
        hash.update(theirs.0.to_le_bytes());
        hash.update(at.to_string());
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(hash.finalize());
        // Nobody is given zero, which stands for none.
        u64::from_le_bytes([a, b, c, d, e, f, g, h]) | 1
    }

    /// A guest at `at` has given up: it does not listen under `theirs` any more, or says
    /// goodbye to `own`.
    pub(super) fn left(&mut self, at: SocketAddr, number: Number) {
        let is_it = |guest: &Guest| guest.at == at && [guest.theirs, guest.own].contains(&number);
        self.guests.retain(|_, guest| {
            let left = is_it(guest);
            if left {
                guest.talk().is_gone = true;
            }
            !left
        });
    }

    /// A guest at `at` uses its connection: it has heard that it is welcome.
    pub(super) fn settled(&self, at: SocketAddr, theirs: Number) {
        if let Some(guest) = self.guests.get(&(at, theirs)) {
            guest.talk().is_settled = true;
        }
    }

    /// Some time has passed: forgets those who are silent.
    pub(super) fn beat(&mut self) {
        self.guests.retain(|_, guest| {
            let mut talk = guest.talk();
            talk.idle += 1;
            let most = if talk.is_settled { SETTLED_MAX } else { IDLE_MAX };
            let is_over = talk.idle > most;
            talk.is_gone |= is_over;
            !is_over
        });
    }
}

/// A greeting without the token that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoToken;

enum Heard {
    /// Something that is over: the network was slow.
    Before,
    /// The next step or the last one again, which may be a hello.
    Step(Option<Hello>),
    Refused(GreetError),
    Nonsense,
}

impl Guest {
    fn new(at: SocketAddr, theirs: Number, stance: &Stance, since: Instant) -> Self {
        let callee = Callee::new(stance.clone(), stance.is_plain_to(at.ip()));
        let talk = Talk {
            callee,
            is_proven: false,
            first: Vec::new(),
            waits: false,
            is_gone: false,
            is_settled: false,
            idle: 0,
        };
        let (own, source) = (Number(rt::random()), Source::of(at.ip()));
        Self { at, theirs, own, source, since, talk: Mutex::new(talk) }
    }

    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(&self, step: &[u8]) -> Heard {
        let mut talk = self.talk();
        talk.idle = 0;
        if talk.callee.has_heard(step) {
            talk.callee.repeat();
            return Heard::Step(None);
        }
        if talk.first == step {
            return Heard::Before;
        }
        if talk.first.is_empty() {
            talk.first = step.to_vec();
        }
        let fed = talk.callee.feed(step);
        talk.is_gone |= fed.is_err();
        match fed.map(|fed| fed.news) {
            Ok(News::Hello { hello, terms, .. }) if terms == self.theirs.0.to_le_bytes() => {
                (talk.waits, talk.is_proven) = (true, true);
                Heard::Step(Some(hello))
            }
            Ok(News::Nothing) => Heard::Step(None),
            Err(GreetError::Hello(HelloError::Malformed(_) | HelloError::NotEgret)) | Ok(_) => {
                Heard::Nonsense
            }
            Err(why) => Heard::Refused(why),
        }
    }

    /// Says what there is to say: the step that is outgoing, if any.
    fn answer(&self, socket: &Socket) {
        let mut talk = self.talk();
        let said = wire::answer(self.theirs, self.own, talk.waits, talk.callee.outgoing());
        let len = talk.callee.outgoing().len();
        talk.callee.sent(len);
        drop(talk);
        reply(socket, self.at, &said);
    }

    /// Says why it is not let in.
    fn turn_away(&self, why: &Refusal, socket: &Socket) {
        let mut talk = self.talk();
        talk.callee.refuse(why);
        (talk.waits, talk.is_settled) = (false, true);
        drop(talk);
        self.answer(socket);
    }

    /// Lets it in.
    pub(super) fn welcome(&self, socket: &Socket) -> Session {
        let session = self.talk().callee.welcome(&self.own.0.to_le_bytes());
        self.talk().waits = false;
        self.answer(socket);
        session
    }
}

impl Visitor {
    /// Where it is.
    pub(super) fn at(&self) -> SocketAddr {
        self.guest.at
    }
}

impl hub::Visitor for Visitor {
    fn hello(&self) -> &Hello {
        &self.hello
    }

    fn is_gone(&self) -> bool {
        self.guest.talk().is_gone
    }

    fn turn_away(self, why: &Refusal) {
        self.guest.turn_away(why, &self.socket);
    }
}

/// Answers a greeting, or does not.
fn reply(socket: &Socket, to: SocketAddr, bytes: &[u8]) {
    debug_assert!(bytes.len() <= wire::GREETING_BYTES);
    let _ = socket.send(&to.into(), &[IoSlice::new(bytes)]);
}
