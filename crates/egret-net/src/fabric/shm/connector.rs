//! A connection that this nic is making.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::EventFlags;

use super::bell::{Habit, Ringer, Sleeper};
use super::cord::{Cord, Handle};
use super::datapath::Conn;
use super::driver::Fixed;
use super::foreign::Foreign;
use super::io::Parts;
use super::layout::{BELL, BOUNCE, BYTES};
use super::memory::Own;
use super::reach;
use super::rendezvous::{
    Accepted, Answered, Call, Control, Handles, Knock, KnockError, Started, Terms,
};
use super::token::KNOCK;
use crate::fabric::hub::patience::Patience;
use crate::fabric::hub::set::{self, token};
use crate::fabric::hub::{Connecting, Outcome};
use crate::fabric::{ConnectRequest, ViSpec};
use crate::rt::Instant;
use crate::vi::{Agreed, ConnectError, HelloError, PublicKey, Trust};

/// What this side gives to a connection.
#[derive(Debug)]
pub(super) struct Ground {
    own: Own,
    sleeper: Sleeper,
    cord: Cord,
    handle: OwnedFd,
}

/// Why a peer's part of a connection cannot be used.
const UNFIT: HelloError = HelloError::Malformed("memory or a bell that cannot be used safely");
/// More than pages of any size make of a peer's part.
const MEMORY_MAX: u64 = 1 << 20;
/// How soon to knock again at first.
const KNOCK_MIN: Duration = Duration::from_millis(1);

impl Ground {
    /// `None` if the system has no memory or no descriptors to give.
    pub(super) fn new(habit: Habit) -> Option<Self> {
        let own = Own::with_first(BYTES, BOUNCE).ok()?;
        reach::mark(&own);
        let mut sleeper = Sleeper::new(own.clone(), BELL, habit);
        // Until somebody looks at it.
        sleeper.doze();
        let (cord, handle) = Cord::pair().ok()?;
        Some(Self { own, sleeper, cord, handle })
    }

    pub(super) fn handles(&self) -> Handles<BorrowedFd<'_>> {
        Handles { control: self.own.fd(), bell: self.handle.as_fd() }
    }

    /// Puts the two sides' parts together.
    pub(super) fn join(
        self,
        spec: ViSpec,
        trust: Trust,
        control: Control,
        peer: Met,
    ) -> Option<Conn> {
        let (Self { own, sleeper, cord, .. }, Met { foreign, ringer }) = (self, peer);
        Conn::new(spec, trust, Parts { own, foreign, control, sleeper, cord, ringer })
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
        let handle = Handle::new(handles.bell).map_err(|_| UNFIT)?;
        let ringer = Ringer::new(foreign.clone(), BELL as u64, handle).ok_or(UNFIT)?;
        if foreign.len() < BYTES || (foreign.len() as u64) < terms.control_bytes {
            return Err(UNFIT);
        }
        Ok(Self { foreign, ringer })
    }
}

pub(super) fn terms(depth: u32) -> Terms {
    Terms { depth, control_bytes: BYTES as u64 }
}

/// Somebody who knocks until there is an answer or the time is up.
#[derive(Debug)]
pub(super) struct Connector {
    pub patience: Patience,
    ground: Option<Ground>,
    knock: Option<(Knock, Instant)>,
}

/// A connection, how far the two sides trust each other, and the key of the other.
type Meeting = (Box<Conn>, Agreed, PublicKey);

impl Connector {
    pub(super) fn new(request: ConnectRequest, now: Instant) -> Self {
        Self { patience: Patience::new(request, now, KNOCK_MIN), ground: None, knock: None }
    }

    /// Knocks if it is time to, or gives up.
    pub(super) fn tick(&mut self, fixed: &Fixed, id: u64, now: Instant) -> Outcome<Meeting> {
        if self.patience.is_over(now) {
            return Outcome::Failed(self.too_late(now));
        }
        if self.knock.is_some() || now < self.patience.next {
            return Outcome::Pending;
        }
        self.patience.knocked(now);
        match self.start(fixed) {
            Ok(Some(knock)) => {
                // Without a place in the set the answer is seen at the next tick.
                let _ = set::watch(&fixed.sockets, knock.fd(), token(KNOCK, id), EventFlags::IN);
                self.knock = Some((knock, now));
            }
            // Not for lack of something to greet with.
            Ok(None) if self.patience.is_in_vain() && self.ground.is_some() => {
                return Outcome::Failed(self.too_late(now));
            }
            Ok(None) => {}
            Err(why) => return self.failed(why, now),
        }
        Outcome::Pending
    }

    fn start(&mut self, fixed: &Fixed) -> Result<Option<Knock>, KnockError> {
        let Fixed { host, habit, stance, .. } = fixed;
        let ConnectRequest { to, spec, .. } = &self.patience.request;
        let (hello, terms) = (self.patience.hello(), terms(spec.depth));
        let call = Call { to: &to.host, key: to.key, hello, host, terms };
        if self.ground.is_none() {
            self.ground = Ground::new(*habit);
        }
        if self.ground.is_none() {
            return Ok(None);
        }
        let started = Knock::start(call, stance)?;
        self.patience.known |= !matches!(started, Started::Nobody);
        Ok(match started {
            Started::Knocking(knock) => Some(knock),
            Started::Nobody | Started::Busy => None,
        })
    }

    /// Looks whether there is an answer.
    pub(super) fn poll(&mut self, now: Instant) -> Outcome<Meeting> {
        let (Some((knock, started)), Some(ground)) = (self.knock.take(), &self.ground) else {
            return Outcome::Pending;
        };
        match knock.poll(ground.handles()) {
            Ok(Answered::NotYet(knock)) => {
                self.knock = Some((knock, started));
                Outcome::Pending
            }
            Ok(Answered::Accepted(accepted)) => self.accepted(accepted),
            Err(why) => self.failed(why, now),
        }
    }

    fn accepted(&mut self, accepted: Accepted) -> Outcome<Meeting> {
        let Accepted { terms, agreed, key, handles, control } = accepted;
        let ground = self.ground.take().expect("it was sent with the greeting");
        let met = Met::new(&terms, handles);
        let conn = met.and_then(|met| {
            ground.join(self.patience.request.spec, agreed.trust(), control, met).ok_or(UNFIT)
        });
        match conn {
            Ok(conn) => Outcome::Made((Box::new(conn), agreed, key)),
            Err(why) => Outcome::Failed(why.into()),
        }
    }

    /// Sorts the failures that another knock may mend from the others.
    fn failed(&mut self, why: KnockError, now: Instant) -> Outcome<Meeting> {
        let final_error = match why {
            KnockError::Gone { .. } | KnockError::System(_) => None,
            KnockError::Name(_) => Some(self.patience.unknown()),
            KnockError::OtherUser(other) => Some(ConnectError::other_user(other.theirs())),
            KnockError::Greeting(why) => self.patience.not_greeted(why, now),
        };
        final_error.map_or(Outcome::Pending, Outcome::Failed)
    }

    fn too_late(&mut self, now: Instant) -> ConnectError {
        let since = self.knock.as_ref().map(|(_, since)| *since);
        self.patience.too_late_inside(since, now)
    }
}

impl Connecting for Connector {
    fn deadline(&self) -> Option<Instant> {
        let next = self.knock.is_none().then_some(self.patience.next);
        self.patience.request.until.into_iter().chain(next).min()
    }

    fn into_patience(self) -> Patience {
        self.patience
    }
}
