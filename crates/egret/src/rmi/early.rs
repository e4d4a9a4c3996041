//! Calls that were cancelled before they came.
//!
//! Large arguments wait for bytes and travel in a lane of their own, so that a word to cancel
//! a call may be there first. It may also come when the call is over; what is remembered of each
//! caller is little, and not for long.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use egret_net::rt::{self, Instant};
use egret_net::sync::Mutex;
use egret_node::am::Peer;

/// Numbers of calls that are not to begin.
#[derive(Debug, Default)]
pub(crate) struct Early {
    numbers: Mutex<BTreeMap<Peer, VecDeque<(u64, Instant)>>>,
    is_any: AtomicBool,
}

impl Early {
    /// A call of this number was cancelled, and is not here.
    pub(crate) fn put(&self, peer: Peer, number: u64) {
        let mut numbers = self.numbers.lock();
        let own = numbers.entry(peer).or_default();
        if own.len() == MOST {
            own.pop_front();
        }
        own.push_back((number, rt::now()));
        self.is_any.store(true, Ordering::Release);
    }

    /// Whether a call that has come was cancelled before.
    #[inline]
    pub(crate) fn take(&self, peer: Peer, number: u64) -> bool {
        self.is_any.load(Ordering::Acquire) && self.look(peer, number)
    }

    #[cold]
    fn look(&self, peer: Peer, number: u64) -> bool {
        let now = rt::now();
        let mut numbers = self.numbers.lock();
        let Some(own) = numbers.get_mut(&peer) else { return false };
        own.retain(|(_, since)| now - *since < LONG);
        let before = own.len();
        own.retain(|(its, _)| *its != number);
        let is_found = own.len() < before;
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

/// How many are remembered of each caller.
const MOST: usize = 64;
/// How long.
const LONG: Duration = Duration::from_secs(60);
