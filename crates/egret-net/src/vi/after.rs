//! What a call of a machine is given, and what it leaves to do once no lock is held: everything
//! that runs code of the program.

use std::task::Waker;

use super::contained::contained;
use super::machine::{ConnectPromise, NewConnection};
use super::{ConnectError, Notices, Settled};
use crate::rt::{self, Instant};

/// The time of one call of a [machine](super::machine), and the completions and wakers that it causes.
/// The [module](super::machine) has an example.
#[derive(Debug, Default)]
pub struct After {
    /// Completions, and their queues.
    pub notices: Notices,
    /// The wakers to wake.
    pub wakers: Vec<Waker>,
    /// Whether something has happened that a waiting thread may want to look at: a caller, the
    /// end of a connection, eager messages or room for them. Completions need not say so.
    pub happened: bool,
    settled: Vec<(ConnectPromise, Result<NewConnection, ConnectError>)>,
    now: Option<Instant>,
}

impl After {
    /// The present moment, the same throughout the call. The clock is asked when the machine
    /// wants to know: that takes as long as a poll that finds nothing.
    #[inline]
    pub fn now(&mut self) -> Instant {
        *self.now.get_or_insert_with(rt::now)
    }

    /// A connection was made, or was not.
    pub fn settle(&mut self, promise: ConnectPromise, result: Result<NewConnection, ConnectError>) {
        self.happened = true;
        self.settled.push((promise, result));
    }

    /// Whether something has happened that waits may be for.
    #[must_use]
    #[inline]
    pub const fn is_news(&self) -> bool {
        self.happened || !self.notices.is_empty()
    }

    /// The connections that were made, or were not, for those who connect by way of `above`. Whether
    /// there are any.
    #[inline]
    pub(crate) fn take_settled(&mut self, above: &Settled) -> bool {
        !self.settled.is_empty() && self.take_all_settled(above)
    }

    #[cold]
    fn take_all_settled(&mut self, above: &Settled) -> bool {
        let mut any = false;
        for (promise, result) in std::mem::take(&mut self.settled) {
            if promise.is_by_way_of(above) {
                any = true;
                promise.settle(result);
            } else {
                self.settled.push((promise, result));
            }
        }
        any
    }

    /// Another call begins.
    #[inline]
    pub(crate) const fn begin(&mut self) {
        self.now = None;
    }

    /// The news were counted.
    #[inline]
    pub(super) const fn counted(&mut self) {
        self.happened = false;
        self.notices.counted();
    }

    /// Whether there is anything to deliver.
    #[inline]
    pub(crate) const fn has_more(&self) -> bool {
        !self.notices.is_empty() || !self.wakers.is_empty() || !self.settled.is_empty()
    }

    /// Leaves it to `other` to tell.
    pub(crate) fn move_to(&mut self, other: &mut Self) {
        self.notices.move_to(&mut other.notices);
        other.wakers.append(&mut self.wakers);
        other.settled.append(&mut self.settled);
        other.happened |= std::mem::take(&mut self.happened);
    }

    /// Tells everybody. No lock may be held. Handlers come last: they are the program's.
    pub(crate) fn tell(mut self) {
        self.wake();
        self.notices.give();
    }

    /// Wakes those who wait for more than a queue. Whether there were any.
    pub(crate) fn wake(&mut self) -> bool {
        let (wakers, settled) =
            (std::mem::take(&mut self.wakers), std::mem::take(&mut self.settled));
        let has_any = !wakers.is_empty() || !settled.is_empty();
        // A waker that panics is its executor's affair: the others are to be told too.
        for (promise, result) in settled {
            if contained(|| promise.settle(result)).is_none() {
                tracing::error!("a waker panicked");
            }
        }
        for waker in wakers {
            if contained(|| waker.wake()).is_none() {
                tracing::error!("a waker panicked");
            }
        }
        has_any
    }
}
