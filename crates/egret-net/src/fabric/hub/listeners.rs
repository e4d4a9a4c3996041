//! Who listens, and who waits to be accepted.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::task::Waker;

use super::Refusal;
use crate::fabric::{After, ListenerName};
use crate::vi::{Hello, ListenError, Reliability};

/// Somebody who has greeted and wants a connection.
pub(in crate::fabric) trait Visitor: fmt::Debug + Send {
    /// What it said.
    fn hello(&self) -> &Hello;
    /// Whether it has given up.
    fn is_gone(&self) -> bool;
    /// Tells it why it is not let in.
    fn turn_away(self, why: &Refusal);
}

/// The listeners of a nic; none when it is down.
#[derive(Debug)]
pub(in crate::fabric) struct Listeners<V>(Option<BTreeMap<ListenerName, Listening<V>>>);

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
        Self(Some(BTreeMap::new()))
    }
}

impl<V: Visitor> Listeners<V> {
    pub(in crate::fabric) const fn is_up(&self) -> bool {
        self.0.is_some()
    }

    /// Begins to listen.
    pub(in crate::fabric) fn open(
        &mut self,
        name: &ListenerName,
        reliability: Reliability,
    ) -> Result<(), ListenError> {
        let all = self.0.as_mut().ok_or(ListenError::NicDown)?;
        if all.contains_key(name) {
            let (service, tag) = name.clone();
            return Err(ListenError::Taken { service, tag });
        }
        let (wakers, backlog) = (Vec::new(), VecDeque::new());
        all.insert(name.clone(), Listening { reliability, wakers, backlog });
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

    /// Keeps whom to wake when somebody comes, or gives it back.
    pub(in crate::fabric) fn wake_on_arrival(
        &mut self,
        name: &ListenerName,
        waker: Waker,
    ) -> Option<Waker> {
        let listening = self.0.as_mut().and_then(|all| all.get_mut(name));
        match listening {
            Some(Listening { wakers, .. }) if !wakers.iter().any(|it| it.will_wake(&waker)) => {
                wakers.push(waker);
                None
            }
            _ => Some(waker),
        }
    }

    /// Somebody greeted. Who waits for that is to be woken.
    pub(in crate::fabric) fn arrived(&mut self, visitor: V, after: &mut After) {
        let hello = visitor.hello();
        let key = (hello.service.clone(), hello.tag);
        let Some(all) = &mut self.0 else { return visitor.turn_away(&Refusal::NotListening) };
        let mut tags = all.range((key.0.clone(), 0)..);
        let has_service = tags.next().is_some_and(|((service, _), _)| *service == key.0);
        let why = match all.get_mut(&key) {
            None if has_service => Refusal::OtherTag,
            None => Refusal::NotListening,
            Some(listening) if listening.reliability != hello.reliability => {
                Refusal::Reliability(listening.reliability)
            }
            Some(listening) => {
                listening.backlog.retain(|visitor| !visitor.is_gone());
                if listening.backlog.len() < BACKLOG {
                    listening.backlog.push_back(visitor);
                    after.wakers.append(&mut listening.wakers);
                    after.happened = true;
                    return;
                }
                Refusal::Crowded
            }
        };
        visitor.turn_away(&why);
    }

    /// The oldest caller of a listener that has not given up.
    pub(in crate::fabric) fn next(
        &mut self,
        name: &ListenerName,
    ) -> Result<Option<V>, ListenError> {
        let all = self.0.as_mut().ok_or(ListenError::NicDown)?;
        let Some(listening) = all.get_mut(name) else { return Ok(None) };
        while let Some(visitor) = listening.backlog.pop_front() {
            if !visitor.is_gone() {
                return Ok(Some(visitor));
            }
        }
        Ok(None)
    }
}

impl<V: Visitor> Listening<V> {
    /// Sends all callers away. The wakers go with no lock held: one may be the last to hold a
    /// nic.
    fn close(self, after: &mut After) {
        for visitor in self.backlog {
            visitor.turn_away(&Refusal::NotListening);
        }
        after.wakers.extend(self.wakers);
    }
}
