//! Who listens, and who waits to be accepted.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use super::{Hub, Work};
use crate::fabric::{ListenerOps, ViOps, ViSpec};
use crate::vi::{Hello, ListenError, Reliability};

/// The service and the tag of a listener.
pub(in crate::fabric) type Key = (String, u64);

/// Somebody who has greeted and wants a connection.
pub(in crate::fabric) trait Visitor: fmt::Debug + Send {
    /// What it said.
    fn hello(&self) -> &Hello;
    /// Whether it has given up.
    fn is_gone(&self) -> bool;
    /// Tells it why it is not let in.
    fn turn_away(self, why: Away);
}

/// Why a visitor is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fabric) enum Away {
    /// Nobody listens for this service.
    NotListening,
    /// Nobody listens for this tag of the service.
    OtherTag,
    /// Who listens asks for this level.
    Reliability(Reliability),
    /// Too many wait already.
    Crowded,
}

/// The listeners of a nic.
#[derive(Debug)]
pub(in crate::fabric) struct Listeners<V>(BTreeMap<Key, Listening<V>>);

#[derive(Debug)]
struct Listening<V> {
    reliability: Reliability,
    wakers: Vec<Waker>,
    backlog: VecDeque<V>,
}

/// Callers that wait for a listener to accept them.
const BACKLOG: usize = 128;

impl<V> Default for Listeners<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V: Visitor> Listeners<V> {
    /// Whether nobody listened there before.
    pub(super) fn open(&mut self, key: Key, reliability: Reliability) -> bool {
        let is_new = !self.0.contains_key(&key);
        if is_new {
            let (wakers, backlog) = (Vec::new(), VecDeque::new());
            self.0.insert(key, Listening { reliability, wakers, backlog });
        }
        is_new
    }

    /// Whether somebody listens for the service, with any tag.
    fn has_service(&self, service: &str) -> bool {
        let mut tags = self.0.range((service.to_owned(), 0)..);
        tags.next().is_some_and(|((found, _), _)| found == service)
    }

    /// Somebody greeted. Whether it may wait to be accepted; who waits for it is to
    /// be woken.
    pub(in crate::fabric) fn arrived(&mut self, visitor: V, wakers: &mut Vec<Waker>) -> bool {
        let hello = visitor.hello();
        let key = (hello.service.clone(), hello.tag);
        let has_service = self.has_service(&key.0);
        let why = match self.0.get_mut(&key) {
            None if has_service => Away::OtherTag,
            None => Away::NotListening,
            Some(listening) if listening.reliability != hello.reliability => {
                Away::Reliability(listening.reliability)
            }
            Some(listening) => {
                listening.backlog.retain(|visitor| !visitor.is_gone());
                if listening.backlog.len() < BACKLOG {
                    listening.backlog.push_back(visitor);
                    wakers.append(&mut listening.wakers);
                    return true;
                }
                Away::Crowded
            }
        };
        visitor.turn_away(why);
        false
    }

    /// The oldest caller of a listener that has not given up.
    pub(in crate::fabric) fn next(&mut self, key: &Key) -> Option<V> {
        let listening = self.0.get_mut(key)?;
        loop {
            let visitor = listening.backlog.pop_front()?;
            if !visitor.is_gone() {
                return Some(visitor);
            }
        }
    }

    /// Sends all callers away. Gives back whom to wake.
    pub(in crate::fabric) fn close_all(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.0).into_values().flat_map(Listening::close).collect()
    }
}

impl<V: Visitor> Listening<V> {
    fn close(self) -> Vec<Waker> {
        for visitor in self.backlog {
            visitor.turn_away(Away::NotListening);
        }
        self.wakers
    }
}

/// The handle of a listener.
#[derive(Debug)]
pub(in crate::fabric) struct HubListener<W: Work> {
    hub: Arc<Hub<W>>,
    key: Key,
}

impl<W: Work> HubListener<W> {
    pub(super) const fn new(hub: Arc<Hub<W>>, key: Key) -> Self {
        Self { hub, key }
    }
}

impl<W: Work> ListenerOps for HubListener<W> {
    fn try_accept(&self, spec: ViSpec) -> Result<Option<Box<dyn ViOps>>, ListenError> {
        let hub = &self.hub;
        let accepted = hub.inside.with(|inside| {
            let is_up = inside.work.listeners().is_some();
            is_up.then(|| inside.work.accept(&self.key, spec, &hub.fixed))
        });
        Ok(accepted.ok_or(ListenError::NicDown)?.map(|link| W::vi(hub, link)))
    }

    fn wake_on_arrival(&self, waker: &Waker) {
        // Cloned and, if it is not kept, dropped outside the lock.
        let mut waker = Some(waker.clone());
        self.hub.inside.with(|inside| {
            let listeners = inside.work.listeners();
            let listening = listeners.and_then(|listeners| listeners.0.get_mut(&self.key));
            let Some(listening) = listening else { return };
            let is_known = |new: &Waker| listening.wakers.iter().any(|known| known.will_wake(new));
            if !waker.as_ref().is_some_and(is_known) {
                listening.wakers.extend(waker.take());
            }
        });
        drop(waker);
    }
}

impl<W: Work> Drop for HubListener<W> {
    fn drop(&mut self) {
        let listening = self
            .hub
            .inside
            .with(|inside| inside.work.listeners().and_then(|all| all.0.remove(&self.key)));
        // Its wakers are dropped outside the lock: one may be the last to hold a nic.
        drop(listening.map(Listening::close));
    }
}
