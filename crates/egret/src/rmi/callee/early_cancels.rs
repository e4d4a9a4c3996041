//! Cancellations that arrived before their calls.
//!
//! Large arguments wait for bytes and travel in a lane of their own, so that a word to cancel
//! a call may be there first. It may also come when the call is over; what is remembered of each
//! caller is as much as it may have under way, and not for long.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use egret_net::rt::{self, Instant};
use egret_node::am::LinkPeer;

/// Numbers of calls that were cancelled before they arrived and must not begin.
#[derive(Debug)]
pub(crate) struct EarlyCancels {
    callers: BTreeMap<LinkPeer, CallerCancels>,
    /// How many are remembered of each caller.
    most: usize,
}

/// The early cancels of one caller.
#[derive(Debug, Default)]
struct CallerCancels {
    all: BTreeSet<u64>,
    /// In the order in which they were cancelled, and when. Some have come since.
    order: VecDeque<(u64, Instant)>,
}

impl EarlyCancels {
    /// For callers that have so many calls under way.
    pub(crate) const fn new(most: usize) -> Self {
        Self { callers: BTreeMap::new(), most }
    }

    /// A call of this number was cancelled, and is not here.
    pub(crate) fn put(&mut self, peer: LinkPeer, number: u64) {
        let now = rt::now();
        let own = self.callers.entry(peer).or_default();
        own.expire(now);
        while own.all.len() >= self.most {
            own.drop_first();
        }
        if own.all.insert(number) {
            own.order.push_back((number, now));
        }
        // Most of them may have come since, but for the first.
        if own.order.len() > 2 * self.most {
            let CallerCancels { all, order } = own;
            order.retain(|(number, _)| all.contains(number));
        }
    }

    /// Whether a call that has come was cancelled before.
    #[inline]
    pub(crate) fn take(&mut self, peer: LinkPeer, number: u64) -> bool {
        !self.callers.is_empty() && self.look(peer, number)
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.callers.is_empty()
    }

    #[cold]
    fn look(&mut self, peer: LinkPeer, number: u64) -> bool {
        let now = rt::now();
        let is_found = self.callers.get_mut(&peer).is_some_and(|own| own.all.remove(&number));
        self.callers.retain(|_, own| {
            own.expire(now);
            !own.all.is_empty()
        });
        is_found
    }

    /// A caller is gone.
    pub(crate) fn forget(&mut self, peer: LinkPeer) {
        self.callers.remove(&peer);
    }
}

impl CallerCancels {
    fn expire(&mut self, now: Instant) {
        let is_over = |all: &BTreeSet<u64>, (number, since): &(u64, Instant)| {
            now - *since >= LONG || !all.contains(number)
        };
        while self.order.front().is_some_and(|first| is_over(&self.all, first)) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        let first = self.order.pop_front();
        first.into_iter().for_each(|(number, _)| _ = self.all.remove(&number));
    }
}

/// How long one is remembered.
const LONG: Duration = Duration::from_secs(60);
