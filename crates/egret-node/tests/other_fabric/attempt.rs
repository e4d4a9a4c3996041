//! A connection that a nic is making.

use std::time::Duration;

use egret_net::fabric::{ConnectRequest, ListenerName};
use egret_net::rt::Instant;
use egret_net::vi::ConnectError;

use crate::switch::{Body, EndAt, Found, Packet, Switch};

#[derive(Debug)]
pub(crate) struct Attempt {
    pub request: ConnectRequest,
    since: Instant,
    next: Instant,
    /// Whether the listener was called, and may accept.
    is_called: bool,
    found: Found,
}

/// How soon to look for a listener again.
const AGAIN: Duration = Duration::from_millis(1);

impl Attempt {
    pub(crate) const fn new(request: ConnectRequest, now: Instant) -> Self {
        Self { request, since: now, next: now, is_called: false, found: Found::NoHost }
    }

    /// When to look at it again at the latest.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let next = (!self.is_called).then_some(self.next);
        self.request.until.into_iter().chain(next).min()
    }

    /// Calls if it is time to. An error: it has come to nothing.
    pub(crate) fn tick(
        &mut self,
        own: &EndAt,
        now: Instant,
        switch: &Switch,
    ) -> Result<(), ConnectError> {
        let is_late = self.request.until.is_some_and(|until| now >= until);
        if !is_late && (self.is_called || now < self.next) {
            return Ok(());
        }
        let (to, level) = (&self.request.to, self.request.spec.reliability);
        let name: ListenerName = (to.service.clone(), to.tag);
        self.next = now + AGAIN;
        if !self.is_called {
            self.found = switch.find(&to.host, &name);
        }
        match self.found {
            Found::Listening(theirs) if theirs != level => {
                Err(ConnectError::ReliabilityMismatch { ours: level, theirs })
            }
            Found::Listening(_) if !is_late => {
                let (from, body) = (own.clone(), Body::Call(name));
                switch.send(&to.host, Packet { to: 0, from, body });
                self.is_called = true;
                Ok(())
            }
            _ if is_late || self.request.at_once => Err(self.failed(now)),
            _ => Ok(()),
        }
    }

    /// The listener has gone without accepting: another may come.
    pub(crate) const fn again(&mut self) {
        self.is_called = false;
    }

    /// A listener that was called is told that nobody waits for it.
    pub(crate) fn give_up(&self, own: &EndAt, switch: &Switch) {
        if self.is_called {
            let (from, body) = (own.clone(), Body::GiveUp);
            switch.send(&self.request.to.host, Packet { to: 0, from, body });
        }
    }

    fn failed(&self, now: Instant) -> ConnectError {
        let (to, waited) = (self.request.to.clone(), now - self.since);
        match self.found {
            Found::NoHost => {
                ConnectError::UnknownHost { host: to.host, waited, why: "nobody has it".into() }
            }
            Found::NotListening => ConnectError::NotListening { to: to.into(), waited },
            Found::OtherTag => ConnectError::OtherTag { to: to.into(), waited },
            Found::Listening(_) => ConnectError::NotAccepted { to: to.into(), waited },
        }
    }
}
