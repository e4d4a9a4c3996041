//! The calls of a node's objects that wait or run.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use egret_net::sync::Mutex;
use egret_node::am::LinkPeer;

use crate::rmi::callee::accepted::AcceptedCall;
use crate::rmi::callee::early_cancels::EarlyCancels;
use crate::rmi::callee::load::CallingPeer;
use crate::rmi::callee::object::ExportedObject;
use crate::rmi::callee::objects::WITHIN_WINDOW;
use crate::rmi::fault::{Fault, planted};
use crate::rmi::head::AnswerCode;

/// Calls of plain methods that wait or run, of all objects of a node.
#[derive(Debug)]
pub(crate) struct CallTable {
    inner: Mutex<CallTableState>,
    /// Whether a call may have been cancelled before it came. Written under the lock.
    has_early: AtomicBool,
}

#[derive(Debug)]
struct CallTableState {
    places: Vec<CallTableSlot>,
    free: Vec<u32>,
    /// Where those are that the threads which received them run at once, or decide about: few.
    at_once: Vec<u32>,
    /// The others that can be cancelled: by caller and number, and where each is.
    numbered: BTreeSet<(CallingPeer, u64, u32)>,
    /// Calls that were cancelled before they came: data has a lane of its own.
    early: EarlyCancels,
    /// The callers that were the last to go: a call of theirs may just be begun by another thread.
    gone: VecDeque<LinkPeer>,
    /// What every place begins at that is made from now on, so that none is taken for one before.
    floor: u32,
}

#[derive(Debug)]
struct CallTableSlot {
    /// Calls that were here before.
    before: u32,
    call: Option<TrackedCall>,
}

/// A call that waits or runs.
#[derive(Debug)]
struct TrackedCall {
    caller: CallingPeer,
    number: u64,
    is_cancelled: bool,
    /// What is kept of it, if the thread that received it has not run it at once.
    called: Option<Arc<AcceptedCall>>,
}

/// Where a call is in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallTicket {
    place: u32,
    before: u32,
}

impl CallTable {
    /// For callers that have so many calls under way.
    pub(crate) fn new(window: u32) -> Self {
        let window = window.max(WITHIN_WINDOW);
        let inner = Mutex::new(CallTableState {
            places: Vec::new(),
            free: Vec::new(),
            at_once: Vec::new(),
            numbered: BTreeSet::new(),
            early: EarlyCancels::new(usize::try_from(window).unwrap_or(usize::MAX)),
            gone: VecDeque::new(),
            floor: 0,
        });
        Self { inner, has_early: AtomicBool::new(false) }
    }

    /// Adds a call that has come, unless its caller has cancelled it before or is gone.
    #[inline]
    pub(crate) fn add(&self, caller: CallingPeer, number: u64) -> Option<CallTicket> {
        let mut inner = self.inner.lock();
        if caller.is_some_and(|peer| inner.is_unwanted(peer, number)) {
            return None;
        }
        let place = inner.free.pop().unwrap_or_else(|| {
            let before = inner.floor;
            inner.places.push(CallTableSlot { before, call: None });
            u32::try_from(inner.places.len() - 1).expect("a node takes fewer calls")
        });
        inner.at_once.push(place);
        let at = &mut inner.places[place as usize];
        at.call = Some(TrackedCall { caller, number, is_cancelled: false, called: None });
        Some(CallTicket { place, before: at.before })
    }

    /// Keeps a call until it can run, and returns whether it was cancelled meanwhile.
    pub(crate) fn keep(&self, called: &Arc<AcceptedCall>) -> bool {
        let mut inner = self.inner.lock();
        let place = called.ticket.place;
        inner.at_once.retain(|at| *at != place);
        let entry = inner.entry(called.ticket).expect("it was added");
        entry.called = Some(Arc::clone(called));
        let (caller, number, is_cancelled) = (entry.caller, entry.number, entry.is_cancelled);
        if number > 0 {
            inner.numbered.insert((caller, number, place));
        }
        is_cancelled
    }

    /// Removes a call that is over, or that will not run.
    #[inline]
    pub(crate) fn remove(&self, CallTicket { place, before }: CallTicket) {
        let mut inner = self.inner.lock();
        let at = &mut inner.places[place as usize];
        debug_assert_eq!(at.before, before, "a call is over once");
        at.before = before.wrapping_add(1);
        let removed = at.call.take();
        inner.free.push(place);
        match &removed {
            Some(entry) if entry.called.is_some() => {
                inner.numbered.remove(&(entry.caller, entry.number, place));
            }
            _ => inner.at_once.retain(|at| *at != place),
        }
        // There were many, and who looks through all would do so for ever.
        if inner.free.len() == inner.places.len() && inner.places.len() > KEPT {
            inner.shrink();
        }
        drop(inner);
        drop(removed);
    }

    /// How many wait or run.
    pub(crate) fn len(&self) -> usize {
        let inner = self.inner.lock();
        inner.places.len() - inner.free.len()
    }

    /// Whether the answer of a call is not wanted any more: it was cancelled, or is over.
    pub(crate) fn is_unwanted(&self, ticket: CallTicket) -> bool {
        self.inner.lock().entry(ticket).is_none_or(|entry| entry.is_cancelled)
    }

    /// Whether a call that has come was cancelled before. The lock is taken only if any was, since long:
    /// what another thread cancels just now may be late as well.
    #[inline]
    pub(crate) fn is_early(&self, peer: LinkPeer, number: u64) -> bool {
        number > 0 && self.has_early.load(Relaxed) && self.take_early(peer, number)
    }

    #[cold]
    fn take_early(&self, peer: LinkPeer, number: u64) -> bool {
        let mut inner = self.inner.lock();
        let is_early = inner.early.take(peer, number);
        self.has_early.store(!inner.early.is_empty(), Relaxed);
        is_early
    }

    /// Cancels a call of a caller.
    pub(crate) fn cancel(&self, caller: CallingPeer, number: u64) {
        let mut waiting = Vec::new();
        let mut inner = self.inner.lock();
        let CallTableState { at_once, numbered, places, early, .. } = &mut *inner;
        let kept = numbered.range((caller, number, 0)..=(caller, number, u32::MAX));
        let mut is_known = false;
        for place in kept.map(|(.., place)| place).chain(at_once.iter()) {
            let entry = places[*place as usize].call.as_mut();
            if let Some(entry) = entry.filter(|it| (it.caller, it.number) == (caller, number)) {
                is_known = true;
                waiting.extend(entry.cancel());
            }
        }
        if let Some(peer) = caller.filter(|_| !is_known) {
            early.put(peer, number);
            self.has_early.store(true, Relaxed);
        }
        drop(inner);
        waiting.iter().for_each(|called| called.answer_unrun(AnswerCode::Cancelled));
    }

    /// Cancels all calls of a caller whose link has ended.
    pub(crate) fn caller_gone(&self, peer: LinkPeer) {
        if planted(Fault::GoneUnheard) {
            return;
        }
        let waiting = self.inner.lock().caller_gone(peer);
        waiting.iter().for_each(|called| called.answer_unrun(AnswerCode::Cancelled));
    }

    /// Ends the waiting calls of an object that is closed.
    pub(crate) fn close(&self, object: &ExportedObject) {
        let left = self.filter(|called| std::ptr::eq(&*called.object, object));
        left.iter().for_each(|called| called.answer_unrun(AnswerCode::UnknownObject));
    }

    /// Ends the waiting calls of all objects that are closed.
    pub(crate) fn close_all(&self) {
        let left = self.filter(|called| called.object.is_closed());
        left.iter().for_each(|called| called.answer_unrun(AnswerCode::UnknownObject));
    }

    fn filter(&self, wanted: impl Fn(&AcceptedCall) -> bool) -> Vec<Arc<AcceptedCall>> {
        let inner = self.inner.lock();
        if inner.free.len() == inner.places.len() {
            return Vec::new();
        }
        let all = inner.places.iter().filter_map(|place| place.call.as_ref()?.called.as_ref());
        all.filter(|called| wanted(called)).cloned().collect()
    }
}

impl CallTableState {
    /// Whether a call that has come has no caller, or was cancelled before.
    #[inline]
    fn is_unwanted(&mut self, peer: LinkPeer, number: u64) -> bool {
        number > 0 && self.early.take(peer, number)
            || !self.gone.is_empty() && self.gone.contains(&peer)
    }

    /// Cancels all calls of a caller; those that wait are to be answered.
    fn caller_gone(&mut self, peer: LinkPeer) -> Vec<Arc<AcceptedCall>> {
        self.early.forget(peer);
        if !self.gone.contains(&peer) {
            self.gone.push_back(peer);
        }
        if self.gone.len() > GONE {
            self.gone.pop_front();
        }
        let all = self.places.iter_mut().filter_map(|place| place.call.as_mut());
        let own = all.filter(|entry| entry.caller == Some(peer));
        own.filter_map(TrackedCall::cancel).collect()
    }

    fn entry(&mut self, ticket: CallTicket) -> Option<&mut TrackedCall> {
        let at = self.places.get_mut(ticket.place as usize)?;
        at.call.as_mut().filter(|_| at.before == ticket.before)
    }

    /// Gives back what many calls have taken.
    #[cold]
    fn shrink(&mut self) {
        let most = self.places.iter().map(|place| place.before).max().unwrap_or_default();
        self.floor = self.floor.max(most);
        (self.places, self.free) = (Vec::new(), Vec::new());
    }
}

impl TrackedCall {
    /// The call is not wanted any more; what is kept of it is to be answered.
    fn cancel(&mut self) -> Option<Arc<AcceptedCall>> {
        if planted(Fault::CancelLost) {
            return None;
        }
        self.is_cancelled = true;
        self.called.clone()
    }
}

/// Places that are kept though there are no calls.
const KEPT: usize = 1024;
/// Callers that are remembered though they are gone: more than go while a thread begins one call.
const GONE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_wanted_until_it_is_cancelled_or_over() {
        let calls = CallTable::new(1);
        let [first, second] = [(); 2].map(|()| calls.add(None, 7).expect("nobody cancelled it"));
        let other = calls.add(None, 8).expect("nobody cancelled it");
        assert!(!calls.is_unwanted(first) && !calls.is_unwanted(second));
        calls.cancel(None, 7);
        assert!(calls.is_unwanted(first) && calls.is_unwanted(second));
        assert!(!calls.is_unwanted(other));
        calls.remove(other);
        let next = calls.add(None, 0).expect("nobody cancelled it");
        assert_eq!(next.place, other.place);
        assert!(calls.is_unwanted(other), "another is where it was");
        assert!(!calls.is_unwanted(next));
        [first, second, next].into_iter().for_each(|ticket| calls.remove(ticket));
        assert_eq!(calls.len(), 0);
    }

    #[test]
    fn memory_of_many_calls_is_freed() {
        let calls = CallTable::new(1);
        let all: Vec<_> = (0..2 * KEPT).map(|_| calls.add(None, 0).expect("wanted")).collect();
        assert_eq!(calls.len(), 2 * KEPT);
        all.iter().for_each(|ticket| calls.remove(*ticket));
        assert_eq!(calls.len(), 0);
        assert!(calls.inner.lock().places.len() < KEPT);
        let again: Vec<_> = (0..2 * KEPT).map(|_| calls.add(None, 0).expect("wanted")).collect();
        assert!(again.iter().all(|ticket| !calls.is_unwanted(*ticket)));
        assert!(all.iter().all(|ticket| calls.is_unwanted(*ticket)), "none of them is that");
    }
}
