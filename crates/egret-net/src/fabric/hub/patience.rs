//! How long a connector goes on, and what it is told when it stops.

use std::time::Duration;

use super::{Listens, Refusal};
use crate::fabric::ConnectRequest;
use crate::fabric::greet::GreetError;
use crate::rt::Instant;
use crate::vi::{ConnectError, Hello};

/// What a connector asks for, and how it stands with the host.
#[derive(Debug)]
pub(in crate::fabric) struct Patience {
    pub request: ConnectRequest,
    since: Instant,
    /// When to knock again.
    pub next: Instant,
    again_after: Duration,
    /// Whether the host was ever there.
    pub known: bool,
    /// What the host said last: whether somebody listens.
    pub listens: Option<Listens>,
}

/// How soon to knock again at last.
const KNOCK_MAX: Duration = Duration::from_millis(100);
/// A knock that was heard for so long without a word waits for somebody who listens: a greeting has two
/// round trips, and a busy machine takes its time for them.
const INSIDE_MIN: Duration = Duration::from_secs(1);
/// How long a host may be unknown to somebody who would wait for ever.
const UNKNOWN_MAX: Duration = Duration::from_secs(5);

impl Patience {
    /// To knock now, and again after `again_after` at first.
    pub(in crate::fabric) const fn new(
        request: ConnectRequest,
        now: Instant,
        again_after: Duration,
    ) -> Self {
        Self { request, since: now, next: now, again_after, known: false, listens: None }
    }

    /// What to say first.
    pub(in crate::fabric) fn hello(&self) -> Hello {
        let ConnectRequest { to, spec, .. } = &self.request;
        Hello { reliability: spec.reliability, service: to.service.clone(), tag: to.tag }
    }

    /// Whether the time is up, the host is nowhere, or nobody waits any more.
    pub(in crate::fabric) fn is_over(&self, now: Instant) -> bool {
        let hopeless = !self.known && now - self.since >= UNKNOWN_MAX;
        self.request.until.map_or(hopeless, |until| now >= until)
            || self.request.promise.is_abandoned()
    }

    /// Whether not to wait for the host, which was never there.
    pub(in crate::fabric) const fn is_in_vain(&self) -> bool {
        self.request.at_once && !self.known
    }

    /// When to look at the connector again, if it waits for nothing but its next knock.
    pub(in crate::fabric) fn deadline(&self) -> Instant {
        self.request.until.map_or(self.next, |until| until.min(self.next))
    }

    /// There is a knock now; the next one is due later than this was.
    pub(in crate::fabric) fn knocked(&mut self, now: Instant) {
        self.next = now + self.again_after;
        self.again_after = (self.again_after * 2).min(KNOCK_MAX);
    }

    /// The host says no: what the program is told, unless another knock may mend it.
    pub(in crate::fabric) fn refused(
        &mut self,
        refusal: Refusal,
        now: Instant,
    ) -> Option<ConnectError> {
        let listens = refusal.listens();
        self.listens = Some(listens);
        if self.request.at_once && listens != Listens::Yes {
            return Some(self.too_late(now));
        }
        refusal.into_error(self.request.spec.reliability)
    }

    /// The greeting came to nothing: the same.
    pub(in crate::fabric) fn not_greeted(
        &mut self,
        why: GreetError,
        now: Instant,
    ) -> Option<ConnectError> {
        match why {
            GreetError::Refused(refusal) => self.refused(refusal, now),
            why => why.into_error(self.request.spec.reliability),
        }
    }

    /// What the program is told that has waited in vain, if its knock was heard at `since`: a door
    /// that nobody listens behind says so quickly.
    pub(in crate::fabric) fn too_late_inside(
        &mut self,
        since: Option<Instant>,
        now: Instant,
    ) -> ConnectError {
        if since.is_some_and(|since| now - since >= INSIDE_MIN) {
            self.listens = Some(Listens::Yes);
        }
        self.too_late(now)
    }

    /// What the program is told that has waited in vain.
    pub(in crate::fabric) fn too_late(&self, now: Instant) -> ConnectError {
        let (to, waited) = (Box::new(self.request.to.clone()), now - self.since);
        match self.listens {
            Some(Listens::No) => ConnectError::NotListening { to, waited },
            Some(Listens::OtherTag) => ConnectError::OtherTag { to, waited },
            _ if self.known => ConnectError::NotAccepted { to, waited },
            _ => self.unknown(),
        }
    }

    pub(in crate::fabric) fn unknown(&self) -> ConnectError {
        ConnectError::UnknownHost { host: self.request.to.host.clone() }
    }
}
