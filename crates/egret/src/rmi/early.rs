//! Calls that were cancelled before they came.
//!
//! Large arguments wait for bytes and travel in a lane of their own, so that a word to cancel
//! a call may be there first. It may also come when the call is over; what is remembered of each
//! caller is as much as it may have under way, and not for long.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use egret_net::rt::{self, Instant};
use egret_net::sync::Mutex;
use egret_node::am::Peer;

/// Numbers of calls that are not to begin.
#[derive(Debug)]
pub(crate) struct Early {
    /// Since when. A caller's later calls have higher numbers.
    numbers: Mutex<BTreeMap<Peer, BTreeMap<u64, Instant>>>,
    is_any: AtomicBool,
    /// How many are remembered of each caller.
    most: usize,
}

impl Early {
    /// For callers that have so many calls under way.
    pub(crate) const fn new(most: usize) -> Self {
        Self { numbers: Mutex::new(BTreeMap::new()), is_any: AtomicBool::new(false), most }
    }

    /// A call of this number was cancelled, and is not here.
    pub(crate) fn put(&self, peer: Peer, number: u64) {
        let now = rt::now();
        let mut numbers = self.numbers.lock();
        let own = numbers.entry(peer).or_default();
        let is_old = |(_, since): (&u64, &Instant)| now - *since >= LONG;
        while own.len() >= self.most || own.first_key_value().is_some_and(is_old) {
            own.pop_first();
        }
        own.insert(number, now);
        self.is_any.store(true, Ordering::Release);
    }

    /// Whether a call that has come was cancelled before.
    #[inline]
    pub(crate) fn take(&self, peer: Peer, number: u64) -> bool {
        self.is_any.load(Ordering::Acquire) && self.look(peer, number)
    }

    #[cold]
    fn look(&self, peer: Peer, number: u64) -> bool {
        let mut numbers = self.numbers.lock();
        let Some(own) = numbers.get_mut(&peer) else { return false };
        let is_found = own.remove(&number).is_some();
        if own.is_empty() {
            numbers.remove(&peer);
        }
        self.is_any.store(!numbers.is_empty(), Ordering::Release);
        is_found
    }

    /// A caller is gone.
    pub(crate) fn forget(&self, peer: Peer) {
        let mut numbers = self.numbers.lock();
        numbers.remove(&peer);
        self.is_any.store(!numbers.is_empty(), Ordering::Release);
    }
}

/// How long one is remembered, at least.
const LONG: Duration = Duration::from_secs(60);
