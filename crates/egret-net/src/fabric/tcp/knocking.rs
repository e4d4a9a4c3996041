//! A connection that this nic is making.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::event::epoll::EventFlags;

use super::datapath::Conn;
use super::driver::Fixed;
use super::socket::{Socket, is_later};
use super::token::KNOCK;
use crate::fabric::ConnectRequest;
use crate::fabric::greet::{Caller, GreetError, News, STEP_MAX};
use crate::fabric::hub::Listens;
use crate::fabric::hub::set::{self, token};
use crate::fabric::place::{Peer, Resolved, Resolving};
use crate::rt::Instant;
use crate::vi::{ConnectError, Hello};

/// Somebody who knocks until there is an answer or the time is up.
#[derive(Debug)]
pub(super) struct Knocking {
    pub request: ConnectRequest,
    since: Instant,
    next: Instant,
    again_after: Duration,
    whereabouts: Whereabouts,
    attempt: Option<Attempt>,
    /// Whether somebody was ever there.
    known: bool,
    /// What the host said last: whether somebody listens.
    listens: Option<Listens>,
}

#[derive(Debug)]
enum Whereabouts {
    /// Nowhere.
    Unknown,
    /// The system will say, when it is asked.
    Unasked { name: String, port: u16 },
    /// The system is being asked.
    Asked(Resolving),
    /// At one of these, tried in turn.
    At { all: Vec<SocketAddr>, next: usize },
}

/// One knock.
#[derive(Debug)]
struct Attempt {
    socket: Socket,
    caller: Caller,
    is_connected: bool,
    since: Instant,
}

/// How it stands with a connection that is being made.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It goes on.
    Knocking,
    /// With the bytes that came behind the greeting.
    Made(Box<Conn>, Vec<u8>),
    Failed(ConnectError),
}

/// How soon to knock again, at first and at last.
const KNOCK_MIN: Duration = Duration::from_millis(1);
const KNOCK_MAX: Duration = Duration::from_millis(100);
/// How long one knock may go unheard before the next address is tried.
const UNHEARD_MAX: Duration = Duration::from_secs(5);
/// How long a host may be unknown to somebody who would wait for ever.
const UNKNOWN_MAX: Duration = Duration::from_secs(5);
/// How soon to look for the system's answer again.
const ASK_AGAIN: Duration = Duration::from_millis(2);

impl Knocking {
    pub(super) fn new(request: ConnectRequest, now: Instant) -> Self {
        let whereabouts = match Peer::read(&request.to.host) {
            None => Whereabouts::Unknown,
            Some(Peer::Named { name, port }) => Whereabouts::Unasked { name, port },
            Some(Peer::At(all)) => Whereabouts::At { all, next: 0 },
        };
        Self {
            request,
            since: now,
            next: now,
            again_after: KNOCK_MIN,
            whereabouts,
            attempt: None,
            known: false,
            listens: None,
        }
    }

    /// When to look at it again at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let next = match &self.attempt {
            None => Some(self.next),
            Some(attempt) if !attempt.is_connected => Some(attempt.since + UNHEARD_MAX),
            Some(_) => None,
        };
        self.request.until.into_iter().chain(next).min()
    }

    /// Knocks if it is time to, or gives up.
    pub(super) fn tick(&mut self, fixed: &Fixed, id: u64, now: Instant) -> Outcome {
        let hopeless = !self.known && now - self.since >= UNKNOWN_MAX;
        if self.request.until.map_or(hopeless, |until| now >= until) {
            return Outcome::Failed(self.too_late(now));
        }
        if self.attempt.as_ref().is_some_and(|a| !a.is_connected && now - a.since >= UNHEARD_MAX) {
            self.attempt = None;
        }
        if self.attempt.is_some() || now < self.next {
            return Outcome::Knocking;
        }
        let to = match self.whereabouts(now) {
            Err(why) => return Outcome::Failed(why),
            Ok(None) => return Outcome::Knocking,
            Ok(Some(to)) => to,
        };
        self.next = now + self.again_after;
        self.again_after = (self.again_after * 2).min(KNOCK_MAX);
        // A host that cannot be reached now may be later.
        let Ok(socket) = Socket::connect(to) else { return self.unreached() };
        let ConnectRequest { to, spec, .. } = &self.request;
        let hello =
            Hello { reliability: spec.reliability, service: to.service.clone(), tag: to.tag };
        let caller = Caller::new(fixed.stance.clone(), hello, fixed.host.as_bytes());
        // Without a place in the set the answer is seen at the next tick.
        let flags = EventFlags::IN | EventFlags::OUT;
        let _ = set::watch(&fixed.set, socket.fd(), token(KNOCK, id), flags);
        self.attempt = Some(Attempt { socket, caller, is_connected: false, since: now });
        Outcome::Knocking
    }

    /// Where to knock next, as far as it is known.
    fn whereabouts(&mut self, now: Instant) -> Result<Option<SocketAddr>, ConnectError> {
        if let Whereabouts::Unasked { name, port } = &self.whereabouts
            && let Some(asked) = Resolving::start(name, *port, || ())
        {
            self.whereabouts = Whereabouts::Asked(asked);
        }
        if let Whereabouts::Asked(asked) = &self.whereabouts {
            match asked.poll() {
                None => {}
                Some(Resolved::Unknown) => self.whereabouts = Whereabouts::Unknown,
                Some(Resolved::At(all)) => self.whereabouts = Whereabouts::At { all, next: 0 },
            }
        }
        match &mut self.whereabouts {
            Whereabouts::At { all, next } if !all.is_empty() => {
                let to = all[*next % all.len()];
                *next += 1;
                Ok(Some(to))
            }
            Whereabouts::Unknown | Whereabouts::At { .. } => Err(self.unknown()),
            Whereabouts::Unasked { .. } | Whereabouts::Asked(_) => {
                self.next = now + ASK_AGAIN;
                Ok(None)
            }
        }
    }

    fn unknown(&self) -> ConnectError {
        ConnectError::UnknownHost { host: self.request.to.host.clone() }
    }

    /// Looks whether there is an answer.
    pub(super) fn poll(&mut self, fixed: &Fixed, id: u64, now: Instant) -> Outcome {
        let Some(mut attempt) = self.attempt.take() else { return Outcome::Knocking };
        if !attempt.is_connected {
            match attempt.socket.connected() {
                None => {
                    self.attempt = Some(attempt);
                    return Outcome::Knocking;
                }
                Some(Err(_)) => return self.unreached(),
                Some(Ok(())) => {
                    attempt.is_connected = true;
                    let (fd, data) = (attempt.socket.fd(), token(KNOCK, id));
                    let _ = set::watch(&fixed.set, fd, data, EventFlags::IN);
                }
            }
        }
        self.known = true;
        match attempt.hear() {
            Ok(None) => {
                self.attempt = Some(attempt);
                Outcome::Knocking
            }
            Ok(Some(behind)) => {
                let conn = Conn::new(self.request.spec, attempt.socket, &[]);
                Outcome::Made(Box::new(conn), behind)
            }
            Err(Unheard::Gone) => Outcome::Knocking,
            Err(Unheard::Refused(why)) => self.refused(why, now),
        }
    }

    /// The kernel there, or on the way, says that nobody is at the address. Somebody may come,
    /// or be at another.
    fn unreached(&self) -> Outcome {
        let tried_all = match &self.whereabouts {
            Whereabouts::At { all, next } => *next >= all.len(),
            _ => false,
        };
        if self.request.at_once && tried_all && !self.known {
            return Outcome::Failed(self.unknown());
        }
        Outcome::Knocking
    }

    /// Sorts the failures that another knock may mend from the others.
    fn refused(&mut self, why: GreetError, now: Instant) -> Outcome {
        if let GreetError::Refused(refusal) = &why {
            self.listens = Some(refusal.listens());
            if self.request.at_once && refusal.listens() != Listens::Yes {
                return Outcome::Failed(self.too_late(now));
            }
        }
        let level = self.request.spec.reliability;
        why.into_error(level).map_or(Outcome::Knocking, Outcome::Failed)
    }

    fn too_late(&self, now: Instant) -> ConnectError {
        let (to, waited) = (self.request.to.clone(), now - self.since);
        // A door that nobody listens behind says so quickly.
        let is_let_in = self
            .attempt
            .as_ref()
            .is_some_and(|attempt| attempt.is_connected && now - attempt.since >= KNOCK_MAX);
        match self.listens.and_then(|listens| listens.error(&to, waited)) {
            Some(why) if !is_let_in => why,
            _ if self.known => ConnectError::NotAccepted { to, waited },
            _ => ConnectError::UnknownHost { host: to.host },
        }
    }
}

/// Why an attempt came to nothing.
enum Unheard {
    /// The peer hung up.
    Gone,
    Refused(GreetError),
}

impl Attempt {
    /// Says and hears. Once it is welcome: what came behind the greeting.
    fn hear(&mut self) -> Result<Option<Vec<u8>>, Unheard> {
        let mut bytes = [0; STEP_MAX];
        self.say()?;
        loop {
            let n = match self.socket.recv(&mut bytes) {
                Ok(0) => return Err(Unheard::Gone),
                Ok(n) => n,
                Err(why) => return if is_later(why) { Ok(None) } else { Err(Unheard::Gone) },
            };
            let mut rest = &bytes[..n];
            while !rest.is_empty() {
                let fed = self.caller.feed(rest);
                let said = self.say();
                let fed = fed.map_err(Unheard::Refused)?;
                said?;
                rest = &rest[fed.consumed..];
                if let News::Welcome { .. } = fed.news {
                    return Ok(Some(rest.to_vec()));
                }
                if fed.consumed == 0 {
                    return Err(Unheard::Gone);
                }
            }
        }
    }

    /// A few bytes, which a kernel that has just made the connection takes.
    fn say(&mut self) -> Result<(), Unheard> {
        let outgoing = self.caller.outgoing();
        let len = outgoing.len();
        if len > 0 {
            let sent = self.socket.send(outgoing).unwrap_or(0);
            self.caller.sent(sent);
            if sent < len {
                return Err(Unheard::Gone);
            }
        }
        Ok(())
    }
}
