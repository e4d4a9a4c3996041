//! Listeners, and the connection requests that wait to be accepted.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::task::Waker;

use super::ConnectRefusal;
use crate::fabric::{After, ListenerName};
use crate::vi::{Hello, OpenError, Reliability};

/// A caller whose handshake is proven and that asks for a connection.
pub(in crate::fabric) trait ConnectionRequest: fmt::Debug + Send {
    /// What the caller asks for.
    fn hello(&self) -> &Hello;
    /// Whether the caller has given up.
    fn is_gone(&self) -> bool;
    /// Refuses the connection, and tells the caller why.
    fn turn_away(self, why: &ConnectRefusal);
}

/// The listeners of a nic; `None` when the nic is down.
#[derive(Debug)]
pub(in crate::fabric) struct Listeners<V>(Option<BTreeMap<ListenerName, ListenerState<V>>>);

#[derive(Debug)]
struct ListenerState<V> {
    reliability: Reliability,
    wakers: Vec<Waker>,
    backlog: VecDeque<V>,
}

/// Connection requests that a listener keeps until they are accepted.
pub(in crate::fabric) const BACKLOG: usize = 128;

impl<V> Default for Listeners<V> {
    fn default() -> Self {
        Self(Some(BTreeMap::new()))
    }
}

impl<V: ConnectionRequest> Listeners<V> {
    pub(in crate::fabric) const fn is_up(&self) -> bool {
        self.0.is_some()
    }

    /// Begins to listen.
    pub(in crate::fabric) fn open(
        &mut self,
        name: &ListenerName,
        reliability: Reliability,
    ) -> Result<(), OpenError> {
        let all = self.0.as_mut().ok_or(OpenError::NicDown)?;
        if all.contains_key(name) {
            let (service, tag) = name.clone();
            return Err(OpenError::ServiceTaken { service, tag });
        }
        let (wakers, backlog) = (Vec::new(), VecDeque::new());
        all.insert(name.clone(), ListenerState { reliability, wakers, backlog });
        Ok(())
    }

    /// Stops to listen.
    pub(in crate::fabric) fn close(&mut self, name: &ListenerName, after: &mut After) {
        if let Some(listening) = self.0.as_mut().and_then(|all| all.remove(name)) {
            listening.close(after);
        }
    }

    /// The nic goes down.
    pub(in crate::fabric) fn shut(&mut self, after: &mut After) {
        let all = self.0.take().into_iter().flat_map(BTreeMap::into_values);
        all.for_each(|listening| listening.close(after));
    }

    /// Registers a waker for the next connection request, or gives it back if it is registered already.
    pub(in crate::fabric) fn wake_on_arrival(
        &mut self,
        name: &ListenerName,
        waker: Waker,
    ) -> Option<Waker> {
        let listening = self.0.as_mut().and_then(|all| all.get_mut(name));
        match listening {
            Some(ListenerState { wakers, .. }) if !wakers.iter().any(|it| it.will_wake(&waker)) => {
                wakers.push(waker);
                None
            }
            _ => Some(waker),
        }
    }

    /// Queues a connection request and wakes the tasks that wait for one, or refuses it.
    pub(in crate::fabric) fn arrived(&mut self, visitor: V, after: &mut After) {
        let hello = visitor.hello();
        let key = (hello.service.clone(), hello.tag);
        let Some(all) = &mut self.0 else {
            return visitor.turn_away(&ConnectRefusal::NotListening);
        };
        let mut tags = all.range((key.0.clone(), 0)..);
        let has_service = tags.next().is_some_and(|((service, _), _)| *service == key.0);
        let why = match all.get_mut(&key) {
            None if has_service => ConnectRefusal::OtherTag,
            None => ConnectRefusal::NotListening,
            Some(listening) if listening.reliability != hello.reliability => {
                ConnectRefusal::Reliability(listening.reliability)
            }
            Some(listening) => {
                listening.backlog.retain(|visitor| !visitor.is_gone());
                if listening.backlog.len() < BACKLOG {
                    listening.backlog.push_back(visitor);
                    after.wakers.append(&mut listening.wakers);
                    after.happened = true;
                    return;
                }
                ConnectRefusal::Crowded
            }
        };
        visitor.turn_away(&why);
    }

    /// The oldest connection request of a listener whose caller has not given up.
    pub(in crate::fabric) fn next(&mut self, name: &ListenerName) -> Result<Option<V>, OpenError> {
        let all = self.0.as_mut().ok_or(OpenError::NicDown)?;
        let Some(listening) = all.get_mut(name) else { return Ok(None) };
        while let Some(visitor) = listening.backlog.pop_front() {
            if !visitor.is_gone() {
                return Ok(Some(visitor));
            }
        }
        Ok(None)
    }
}

impl<V: ConnectionRequest> ListenerState<V> {
    /// Refuses all requests. The wakers are dropped with no lock held: one may hold the last handle of
    /// a nic.
    fn close(self, after: &mut After) {
        for visitor in self.backlog {
            visitor.turn_away(&ConnectRefusal::NotListening);
        }
        after.wakers.extend(self.wakers);
    }
}
