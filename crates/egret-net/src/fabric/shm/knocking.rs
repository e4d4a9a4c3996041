//! A connection that this nic is making.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::EventFlags;

use super::bell::Ringer;
use super::cord::{Cord, Handle};
use super::datapath::Conn;
use super::driver::Fixed;
use super::foreign::Foreign;
use super::io::Parts;
use super::layout::{BELL, BELL_BYTES, BOUNCE, BYTES};
use super::memory::Own;
use super::reach;
use super::rendezvous::{
    Accepted, Answered, Control, Greeting, Handles, Knock, KnockError, Started, Terms,
};
use super::token::KNOCK;
use crate::fabric::hub::Listens;
use crate::fabric::hub::set::{self, token};
use crate::fabric::{ConnectRequest, ViSpec};
use crate::rt::Instant;
use crate::vi::{Agreed, ConnectError, Hello, HelloError, Trust};

/// What this side gives to a connection.
#[derive(Debug)]
pub(super) struct Ground {
    own: Own,
    cord: Cord,
    handle: OwnedFd,
}

/// Why a peer's part of a connection cannot be used.
const UNFIT: HelloError = HelloError::Malformed("memory or a bell that cannot be used safely");
/// More than pages of any size make of a peer's part.
const MEMORY_MAX: u64 = 1 << 20;
/// How soon to knock again, at first and at last.
const KNOCK_MIN: Duration = Duration::from_millis(1);
const KNOCK_MAX: Duration = Duration::from_millis(100);
/// How long a host may be unknown to somebody who would wait for ever.
const UNKNOWN_MAX: Duration = Duration::from_secs(5);

impl Ground {
    /// `None` if the system has no memory or no descriptors to give.
    pub(super) fn new() -> Option<Self> {
        let own = Own::with_first(BYTES, BOUNCE).ok()?;
        reach::mark(&own);
        let (cord, handle) = Cord::pair().ok()?;
        Some(Self { own, cord, handle })
    }

    pub(super) fn handles<'a>(&'a self, bell_page: &'a Own) -> Handles<BorrowedFd<'a>> {
        let (control, bell) = (self.own.fd(), self.handle.as_fd());
        Handles { control, bell_page: bell_page.fd(), bell }
    }

    /// Puts the two sides' parts together.
    pub(super) fn join(
        self,
        spec: ViSpec,
        trust: Trust,
        control: Control,
        peer: Met,
    ) -> Option<Conn> {
        let Met { foreign, ringer } = peer;
        Conn::new(spec, trust, Parts { own: self.own, foreign, control, cord: self.cord, ringer })
    }
}

/// What a peer gives to a connection, checked.
#[derive(Debug)]
pub(super) struct Met {
    foreign: Foreign,
    ringer: Ringer,
}

impl Met {
    pub(super) fn new(terms: &Terms, handles: Handles<OwnedFd>) -> Result<Self, HelloError> {
        let foreign = Foreign::map(handles.control, MEMORY_MAX).map_err(|_| UNFIT)?;
        let bell = Foreign::map(handles.bell_page, MEMORY_MAX).map_err(|_| UNFIT)?;
        let handle = Handle::new(handles.bell).map_err(|_| UNFIT)?;
        let ringer = Ringer::new(bell, BELL as u64, handle).ok_or(UNFIT)?;
        if foreign.len() < BYTES || (foreign.len() as u64) < terms.control_bytes {
            return Err(UNFIT);
        }
        Ok(Self { foreign, ringer })
    }
}

pub(super) fn terms(depth: u32) -> Terms {
    let (control_bytes, bell_bytes) = (BYTES as u64, BELL_BYTES as u64);
    Terms { depth, control_bytes, bell_bytes }
}

/// Somebody who knocks until there is an answer or the time is up.
#[derive(Debug)]
pub(super) struct Knocking {
    pub request: ConnectRequest,
    since: Instant,
    next: Instant,
    again_after: Duration,
    ground: Option<Ground>,
    knock: Option<(Knock, Instant)>,
    /// Whether the host was ever there.
    known: bool,
    /// What the host said last: whether somebody listens.
    listens: Option<Listens>,
}

/// How it stands with a connection that is being made.
pub(super) enum Outcome {
    /// It goes on.
    Knocking,
    Made(Box<Conn>, Agreed),
    Failed(ConnectError),
}

impl Knocking {
    pub(super) fn new(request: ConnectRequest, now: Instant) -> Self {
        Self {
            request,
            since: now,
            next: now,
            again_after: KNOCK_MIN,
            ground: None,
            knock: None,
            known: false,
            listens: None,
        }
    }

    /// When to look at it again at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let next = self.knock.is_none().then_some(self.next);
        self.request.until.into_iter().chain(next).min()
    }

    /// Knocks if it is time to, or gives up.
    pub(super) fn tick(&mut self, fixed: &Fixed, id: u64, now: Instant) -> Outcome {
        let hopeless = !self.known && now - self.since >= UNKNOWN_MAX;
        if self.request.until.map_or(hopeless, |until| now >= until) {
            return Outcome::Failed(self.too_late(now));
        }
        if self.knock.is_some() || now < self.next {
            return Outcome::Knocking;
        }
        self.next = now + self.again_after;
        self.again_after = (self.again_after * 2).min(KNOCK_MAX);
        match self.start(fixed) {
            Ok(Some(knock)) => {
                // Without a place in the set the answer is seen at the next tick.
                let _ = set::watch(&fixed.sockets, knock.fd(), token(KNOCK, id), EventFlags::IN);
                self.knock = Some((knock, now));
            }
            // Not for lack of something to greet with.
            Ok(None) if self.request.at_once && !self.known && self.ground.is_some() => {
                return Outcome::Failed(self.too_late(now));
            }
            Ok(None) => {}
            Err(why) => return self.failed(why, now),
        }
        Outcome::Knocking
    }

    fn start(&mut self, fixed: &Fixed) -> Result<Option<Knock>, KnockError> {
        let Fixed { host, bell_page, stance, .. } = fixed;
        let ConnectRequest { to, spec, .. } = &self.request;
        let hello =
            Hello { reliability: spec.reliability, service: to.service.clone(), tag: to.tag };
        let (host, terms, asks) = (host.clone(), terms(spec.depth), stance.ask());
        let greeting = Greeting { hello, host, terms, asks };
        if self.ground.is_none() {
            self.ground = Ground::new();
        }
        let Some(ground) = &self.ground else { return Ok(None) };
        let handles = ground.handles(bell_page);
        let started = Knock::start(&to.host, &greeting, handles, &stance.secret)?;
        self.known |= !matches!(started, Started::Nobody);
        Ok(match started {
            Started::Knocking(knock) => Some(knock),
            Started::Nobody | Started::Busy => None,
        })
    }

    /// Looks whether there is an answer.
    pub(super) fn poll(&mut self, now: Instant) -> Outcome {
        let Some((knock, started)) = self.knock.take() else { return Outcome::Knocking };
        match knock.poll() {
            Ok(Answered::NotYet(knock)) => {
                self.knock = Some((knock, started));
                Outcome::Knocking
            }
            Ok(Answered::Accepted(accepted)) => self.accepted(accepted),
            Err(why) => self.failed(why, now),
        }
    }

    fn accepted(&mut self, accepted: Accepted) -> Outcome {
        let Accepted { terms, agreed, handles, control } = accepted;
        let ground = self.ground.take().expect("it was sent with the greeting");
        let met = Met::new(&terms, handles);
        let conn = met.and_then(|met| {
            ground.join(self.request.spec, agreed.trust(), control, met).ok_or(UNFIT)
        });
        match conn {
            Ok(conn) => Outcome::Made(Box::new(conn), agreed),
            Err(why) => Outcome::Failed(why.into()),
        }
    }

    /// Sorts the failures that another knock may mend from the others.
    fn failed(&mut self, why: KnockError, now: Instant) -> Outcome {
        let level = self.request.spec.reliability;
        let final_error = match why {
            KnockError::Gone { .. } | KnockError::System(_) => None,
            KnockError::Refused(refusal) => {
                self.listens = Some(refusal.listens());
                if self.request.at_once && refusal.listens() != Listens::Yes {
                    return Outcome::Failed(self.too_late(now));
                }
                refusal.into_error(level)
            }
            KnockError::Name(_) => {
                Some(ConnectError::UnknownHost { host: self.request.to.host.clone() })
            }
            KnockError::OtherUser(other) => {
                Some(ConnectError::OtherUser { ours: other.ours, theirs: other.theirs })
            }
            KnockError::Hello(why) => Some(why.into()),
        };
        final_error.map_or(Outcome::Knocking, Outcome::Failed)
    }

    fn too_late(&self, now: Instant) -> ConnectError {
        let (to, waited) = (self.request.to.clone(), now - self.since);
        // A door that nobody listens behind says so quickly.
        let is_let_in = self.knock.as_ref().is_some_and(|(_, since)| now - *since >= KNOCK_MAX);
        match self.listens.and_then(|listens| listens.error(&to, waited)) {
            Some(why) if !is_let_in => why,
            _ if self.known => ConnectError::NotAccepted { to, waited },
            _ => ConnectError::UnknownHost { host: to.host },
        }
    }
}
