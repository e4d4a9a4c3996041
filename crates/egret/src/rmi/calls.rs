//! The calls of a node's objects that wait or run.

use std::collections::BTreeSet;
use std::sync::Arc;

use egret_net::sync::Mutex;
use egret_node::am::Peer;

use super::called::Called;
use super::early::Early;
use super::fault::{Fault, planted};
use super::load::Caller;
use super::object::Object;
use super::objects::WITHIN_WINDOW;
use super::words::Code;

/// Calls of plain methods that wait or run, of all objects of a node.
#[derive(Debug)]
pub(crate) struct Calls {
    inner: Mutex<Inner>,
    /// Calls that were cancelled before they came: data has a lane of its own.
    early: Early,
}

#[derive(Debug, Default)]
struct Inner {
    places: Vec<Option<Arc<Called>>>,
    free: Vec<u32>,
    /// Those that can be cancelled: by whom, by which number, and where each is.
    numbered: BTreeSet<(Caller, u64, u32)>,
}

impl Calls {
    /// For callers that have so many calls under way.
    pub(crate) fn new(window: u32) -> Self {
        let window = window.max(WITHIN_WINDOW);
        let early = Early::new(usize::try_from(window).unwrap_or(usize::MAX));
        Self { inner: Mutex::default(), early }
    }

    /// Adds a call, which is made for its place.
    pub(crate) fn add(&self, make: impl FnOnce(u32) -> Arc<Called>) -> Arc<Called> {
        let mut inner = self.inner.lock();
        let place = inner.free.pop().unwrap_or_else(|| {
            inner.places.push(None);
            u32::try_from(inner.places.len() - 1).expect("a node takes fewer calls")
        });
        let called = make(place);
        let key = called.key;
        if key.number > 0 {
            inner.numbered.insert((key.caller, key.number, place));
        }
        inner.places[place as usize] = Some(Arc::clone(&called));
        called
    }

    /// A call is over, or will not be.
    pub(crate) fn remove(&self, called: &Called) {
        let (key, place) = (called.key, called.place);
        let mut inner = self.inner.lock();
        let removed = inner.places[place as usize].take();
        inner.free.push(place);
        if key.number > 0 {
            inner.numbered.remove(&(key.caller, key.number, place));
        }
        // There were many, and who looks through all would do so for ever.
        if inner.free.len() == inner.places.len() && inner.places.len() > KEPT {
            (inner.places, inner.free) = (Vec::new(), Vec::new());
        }
        drop(inner);
        drop(removed);
    }

    /// How many wait or run.
    pub(crate) fn len(&self) -> usize {
        let inner = self.inner.lock();
        inner.places.len() - inner.free.len()
    }

    /// Whether a call that has come was cancelled before.
    #[inline]
    pub(crate) fn is_early(&self, peer: Peer, number: u64) -> bool {
        number > 0 && self.early.take(peer, number)
    }

    /// A caller does not want one of its calls any more.
    pub(crate) fn cancel(&self, caller: Caller, number: u64) {
        let calls: Vec<_> = {
            let inner = self.inner.lock();
            let known = inner.numbered.range((caller, number, 0)..=(caller, number, u32::MAX));
            known.filter_map(|(.., place)| inner.places[*place as usize].clone()).collect()
        };
        calls.iter().for_each(|called| called.cancel());
        if let Some(peer) = caller.filter(|_| calls.is_empty()) {
            self.early.put(peer, number);
        }
    }

    /// A caller is gone.
    pub(crate) fn caller_gone(&self, peer: Peer) {
        if planted(Fault::GoneUnheard) {
            return;
        }
        self.early.forget(peer);
        let gone = self.filter(|called| called.key.caller == Some(peer));
        gone.iter().for_each(|called| called.cancel());
    }

    /// No call of an object is to begin any more.
    pub(crate) fn close(&self, object: &Object) {
        let left = self.filter(|called| std::ptr::eq(&*called.object, object));
        left.iter().for_each(|called| called.answer_unrun(Code::UnknownObject));
    }

    /// No call of an object that was closed is to begin any more.
    pub(crate) fn close_all(&self) {
        let left = self.filter(|called| called.object.is_closed());
        left.iter().for_each(|called| called.answer_unrun(Code::UnknownObject));
    }

    fn filter(&self, wanted: impl Fn(&Called) -> bool) -> Vec<Arc<Called>> {
        let inner = self.inner.lock();
        if inner.free.len() == inner.places.len() {
            return Vec::new();
        }
        inner.places.iter().flatten().filter(|called| wanted(called)).cloned().collect()
    }
}

/// Places that are kept though there are no calls.
const KEPT: usize = 1024;
