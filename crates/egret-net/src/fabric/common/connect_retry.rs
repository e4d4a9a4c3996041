//! When a connector tries again, when it gives up, and the error it reports then.

use std::borrow::Cow;
use std::time::Duration;

use super::{ConnectRefusal, ListenState};
use crate::fabric::ConnectRequest;
use crate::rt::Instant;
use crate::vi::{ConnectError, Hello};

/// What a connector asks for, when its attempts were, and what is known of the host.
#[derive(Debug)]
pub(in crate::fabric) struct ConnectRetry {
    pub request: ConnectRequest,
    /// When the next attempt is due.
    pub next: Instant,
    again_after: Duration,
    /// Whether the host has ever answered.
    pub known: bool,
    /// Why the host has not answered, as far as that is known.
    pub missing: Cow<'static, str>,
    /// What the host's last refusal says of the listener.
    pub listens: Option<ListenState>,
}

/// Why a host is unknown that sends nothing.
pub(in crate::fabric) const NOBODY: &str = "no host answers there";
/// Why one is unknown of which only a name is known so far.
pub(in crate::fabric) const UNRESOLVED: &str = "the system has not said yet where it is";
/// The longest time between two attempts.
const RETRY_MAX: Duration = Duration::from_millis(100);
/// An attempt that has been connected for so long without an answer waits for a listener: a handshake has
/// two round trips, and a busy machine takes its time for them.
const INSIDE_MIN: Duration = Duration::from_secs(1);
/// How long a host may be unknown to a connector without a deadline.
const UNKNOWN_MAX: Duration = Duration::from_secs(5);

impl ConnectRetry {
    /// The first attempt is due now, the second `again_after` later, and then ever more rarely.
    pub(in crate::fabric) const fn new(
        request: ConnectRequest,
        now: Instant,
        again_after: Duration,
    ) -> Self {
        let missing = Cow::Borrowed(NOBODY);
        Self { request, next: now, again_after, known: false, missing, listens: None }
    }

    /// What the caller asks for in its handshake.
    pub(in crate::fabric) fn hello(&self) -> Hello {
        let ConnectRequest { to, spec, .. } = &self.request;
        Hello { reliability: spec.reliability, service: to.service.clone(), tag: to.tag }
    }

    /// Whether the deadline has passed, the host is not to be found, or the wait for the connection was given up.
    pub(in crate::fabric) fn is_over(&self, now: Instant) -> bool {
        let hopeless = !self.known && now - self.request.since >= UNKNOWN_MAX;
        self.request.until.map_or(hopeless, |until| now >= until)
            || self.request.promise.is_abandoned()
    }

    /// Whether the program does not wait for hosts, and this one has never answered.
    pub(in crate::fabric) const fn is_in_vain(&self) -> bool {
        self.request.at_once && !self.known
    }

    /// When to look at the connector again, if it waits for nothing but its next attempt.
    pub(in crate::fabric) fn deadline(&self) -> Instant {
        self.request.until.map_or(self.next, |until| until.min(self.next))
    }

    /// An attempt begins now; the time to the next one doubles.
    pub(in crate::fabric) fn attempted(&mut self, now: Instant) {
        self.next = now + self.again_after;
        self.again_after = (self.again_after * 2).min(RETRY_MAX);
    }

    /// The host refuses: the error for the program, unless another attempt may succeed.
    pub(in crate::fabric) fn refused(
        &mut self,
        refusal: ConnectRefusal,
        now: Instant,
    ) -> Option<ConnectError> {
        let listens = refusal.listens();
        self.listens = Some(listens);
        if self.request.at_once && listens != ListenState::Yes {
            return Some(self.timed_out(now));
        }
        refusal.into_error(self.request.spec.reliability)
    }

    /// The error for a program whose deadline has passed, if its attempt has been connected `since` then: a
    /// host without a listener would have said so quickly.
    pub(in crate::fabric) fn timed_out_in_handshake(
        &mut self,
        since: Option<Instant>,
        now: Instant,
    ) -> ConnectError {
        if since.is_some_and(|since| now - since >= INSIDE_MIN) {
            self.listens = Some(ListenState::Yes);
        }
        self.timed_out(now)
    }

    /// The error for a program whose deadline has passed.
    pub(in crate::fabric) fn timed_out(&self, now: Instant) -> ConnectError {
        let (to, waited) = (Box::new(self.request.to.clone()), now - self.request.since);
        match self.listens {
            Some(ListenState::No) => ConnectError::NotListening { to, waited },
            Some(ListenState::OtherTag) => ConnectError::OtherTag { to, waited },
            _ if self.known => ConnectError::NotAccepted { to, waited },
            _ => self.unknown(now),
        }
    }

    pub(in crate::fabric) fn unknown(&self, now: Instant) -> ConnectError {
        let (host, why) = (self.request.to.host.clone(), self.missing.clone().into_owned());
        ConnectError::UnknownHost { host, waited: now - self.request.since, why }
    }
}
