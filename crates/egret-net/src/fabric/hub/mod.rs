//! What the nics of real processes share: the place to sleep, counting what
//! has happened, and whom to tell of it when no lock is held.
//!
//! A fabric implements [`Work`], which is what it does under the nic's lock, and
//! gets a [`Hub`]: progress by whichever thread comes by, waits that spin, give
//! way or sleep, listeners with their backlog.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs`, `nic.rs` | the hub, what a fabric brings, and what a program has of it |
//! | `sleep.rs`, `luck.rs`, `stride.rs` | how the threads of a nic wait |
//! | `watch.rs` | sleeping without a thread, for event loops |
//! | `after.rs` | what is left to do once no lock is held |
//! | `listeners.rs` | who listens, and who waits to be accepted |
//! | `pace.rs` | how often to look at what is slow to look at |
//! | `complaints.rs` | what the log is told of callers that are sent away |
//! | `set.rs` | sets of descriptors |
//! | `end.rs`, `incoming.rs` | an end, open or gone; what arrives at it, piece by piece |
//! | `counts.rs` | how far an end is, in one word |
//! | `fuzzed.rs` | an end that a fuzzer's peer writes to |
//! | `bytes.rs`, `farewell.rs` | fields of packets, and the last word of a connection |

mod after;
pub(super) mod bytes;
mod complaints;
pub(super) mod counts;
pub(super) mod end;
pub(super) mod farewell;
pub(super) mod fault;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzed;
pub(super) mod incoming;
mod listeners;
mod luck;
mod nic;
mod pace;
pub(super) mod set;
mod sleep;
mod stride;
mod watch;

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use rustix::event::epoll;

pub(super) use self::after::{After, Settled};
pub(super) use self::complaints::Complaints;
pub(super) use self::listeners::{Away, HubListener, Key, Listeners, Visitor};
pub(super) use self::nic::HubNic;
pub(super) use self::pace::Pace;
pub(super) use self::sleep::Sleep;
use self::stride::Stride;
use super::{ConnectRequest, ListenerOps, Seen, ViOps, ViSpec};
use crate::atomics::{Lean, LeanGuard};
use crate::rt::{self, Instant};
use crate::vi::{
    ConnectError, DrainId, Keys, Limits, ListenError, Notices, Reliability, Sink, Wait,
};

/// What a fabric does under the lock of a nic: its changing part.
pub(super) trait Work: fmt::Debug + Send + Sized + 'static {
    /// The part that stays as it is.
    type Fixed: fmt::Debug + Send + Sync;
    /// What the thread that sleeps has to itself.
    type Place: fmt::Debug + Send;
    /// A connection.
    type Link: fmt::Debug + Send;
    /// Somebody who wants one.
    type Visitor: Visitor;

    /// The name peers connect to.
    fn host(fixed: &Self::Fixed) -> &str;
    /// The memory it exposes.
    fn keys(fixed: &Self::Fixed) -> &Arc<Keys>;
    /// What it allows.
    fn limits() -> Limits;
    /// Does what can be done without waiting.
    fn progress(&mut self, fixed: &Self::Fixed, after: &mut After<Self>);
    /// Looks at everything once more before a sleep. Whether there is something
    /// to do after all.
    fn last_look(&mut self, fixed: &Self::Fixed, after: &mut After<Self>) -> bool;
    /// When a sleep must end.
    fn deadline(&self) -> Option<Instant>;
    /// The set that ends a sleep.
    fn set(fixed: &Self::Fixed) -> &OwnedFd;
    /// Somebody is about to have the last look and to sleep.
    fn arm(_place: &mut Self::Place) {}
    /// The sleep is over; its number.
    fn disarm(_place: &mut Self::Place) -> u64 {
        0
    }
    /// Deals with what ended the sleep with this number, or a look before it if
    /// `None`.
    fn woken(
        &mut self,
        fixed: &Self::Fixed,
        sleep: u64,
        events: Option<&[epoll::Event]>,
        after: &mut After<Self>,
    );

    /// Who listens; `None` when the nic is down.
    fn listeners(&mut self) -> Option<&mut Listeners<Self::Visitor>>;
    /// The oldest caller of a listener is accepted.
    fn accept(&mut self, key: &Key, spec: ViSpec, fixed: &Self::Fixed) -> Option<Self::Link>;
    /// Begins to connect. The nic is up.
    fn connect(
        &mut self,
        request: ConnectRequest,
        now: Instant,
        fixed: &Self::Fixed,
        after: &mut After<Self>,
    );
    /// Nobody is let in any more, and everything ends.
    fn shut(&mut self, fixed: &Self::Fixed, after: &mut After<Self>);
    /// Whether it carries eager messages itself.
    const HAS_EAGER: bool = false;
    /// Passes eager messages to `sink`, at most `budget`.
    fn drain(
        &mut self,
        _drain: DrainId,
        _budget: usize,
        _sink: &mut Sink<'_>,
        _after: &mut After<Self>,
    ) -> Drained {
        Drained::default()
    }
    /// The handle of a connection.
    fn vi(hub: &Arc<Hub<Self>>, link: Self::Link) -> Box<dyn ViOps>;
}

/// What came of a drain.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Drained {
    /// Messages.
    pub count: usize,
    /// Whether some were answered there and then.
    pub answers: bool,
}

/// What a nic, its listeners and its connections share.
#[derive(Debug)]
pub(super) struct Hub<W: Work> {
    pub fixed: W::Fixed,
    wait: Wait,
    inside: Lean<Inside<W>>,
    sleep: Sleep<W::Place>,
    pub stride: Stride,
    /// How much has happened under the lock, and beside it. What waits are for is
    /// that the sum grows.
    happened: AtomicU64,
    happened_beside: AtomicU64,
}

#[derive(Debug)]
struct Inside<W: Work> {
    work: W,
    /// How much has happened here.
    happened: u64,
    /// Threads that sleep, or are about to.
    sleepers: u32,
    /// What `progress` leaves to do; empty between its calls.
    after: After<W>,
}

impl<W: Work> Hub<W> {
    pub(super) fn new(fixed: W::Fixed, wait: Wait, sleep: Sleep<W::Place>, work: W) -> Arc<Self> {
        let inside = Inside { work, happened: 0, sleepers: 0, after: After::default() };
        Arc::new(Self {
            fixed,
            wait,
            inside: Lean::new(inside),
            sleep,
            stride: Stride::default(),
            happened: AtomicU64::new(0),
            happened_beside: AtomicU64::new(0),
        })
    }

    /// Does what can be done without waiting.
    #[inline]
    pub(super) fn progress(self: &Arc<Self>) -> Seen {
        // Whoever has it does the same just now, and counts what happens.
        if let Some(guard) = self.inside.try_lock() {
            self.run(guard, |work, fixed, after| work.progress(fixed, after));
        }
        self.seen()
    }

    /// Works under the lock, and tells afterwards.
    #[inline]
    pub(super) fn work<R>(
        self: &Arc<Self>,
        body: impl FnOnce(&mut W, &W::Fixed, &mut After<W>) -> R,
    ) -> R {
        self.run(self.inside.lock(), body)
    }

    /// Works under the lock, where nobody is to be told of what comes of it.
    #[inline]
    pub(super) fn quietly<R>(&self, body: impl FnOnce(&mut W) -> R) -> R {
        self.inside.with(|inside| body(&mut inside.work))
    }

    /// Works with the lock, and tells when it is free again, if there is anybody to tell.
    #[inline]
    fn run<R>(
        self: &Arc<Self>,
        mut guard: LeanGuard<'_, Inside<W>>,
        body: impl FnOnce(&mut W, &W::Fixed, &mut After<W>) -> R,
    ) -> R {
        let inside = &mut *guard;
        let result = body(&mut inside.work, &self.fixed, &mut inside.after);
        let wake = inside.after.is_news() && self.count(inside);
        if wake || inside.after.has_more() {
            let after = std::mem::take(&mut inside.after);
            drop(guard);
            self.finish(after, wake);
        }
        result
    }

    /// Passes eager messages that are there to `sink`, at most `budget`. How many.
    #[inline]
    pub(super) fn drain(
        self: &Arc<Self>,
        drain: DrainId,
        budget: usize,
        sink: &mut Sink<'_>,
    ) -> usize {
        let drained = self.work(|work, _, after| work.drain(drain, budget, sink, after));
        match drained {
            Drained { count: 0, .. } => self.stride.listen(),
            Drained { answers: true, .. } => self.stride.spoke(),
            Drained { .. } => self.stride.heard(),
        }
        drained.count
    }

    #[inline]
    pub(super) fn seen(&self) -> Seen {
        let beside = self.happened_beside.load(Ordering::SeqCst);
        Seen(self.happened.load(Ordering::Acquire).wrapping_add(beside))
    }

    fn has_happened(&self, seen: Seen) -> bool {
        self.seen() != seen
    }

    /// Something has happened; for whoever has the lock, which orders it with those
    /// who go to sleep. Whether there are any.
    #[inline]
    fn count(&self, inside: &mut Inside<W>) -> bool {
        inside.after.counted();
        inside.happened += 1;
        self.happened.store(inside.happened, Ordering::Release);
        inside.sleepers > 0
    }

    /// Looks at everything once more before a sleep. Whether there is nothing
    /// to do, and until when that will last.
    fn last_look(&self) -> (Option<Option<Instant>>, After<W>) {
        self.inside.with(|inside| {
            let busy = inside.work.last_look(&self.fixed, &mut inside.after);
            let idle = !busy && !inside.after.is_news();
            // Those who wait are told when the place of the one who sleeps is free.
            if inside.after.is_news() {
                self.count(inside);
            }
            let deadline = inside.work.deadline();
            (idle.then_some(deadline), std::mem::take(&mut inside.after))
        })
    }

    fn woken(&self, sleep: u64, events: Option<&[epoll::Event]>) -> After<W> {
        self.inside.with(|inside| {
            inside.work.woken(&self.fixed, sleep, events, &mut inside.after);
            if inside.after.is_news() {
                self.count(inside);
            }
            std::mem::take(&mut inside.after)
        })
    }

    /// Tells everyone, with no lock held, and wakes those who sleep if `wake`.
    fn finish(self: &Arc<Self>, after: After<W>, wake: bool) {
        let After { notices, wakers, settled, .. } = after;
        if wake {
            self.sleep.end();
        }
        for Settled { promise, result } in settled {
            let made = result.map(|link| W::vi(self, link));
            drop(promise.fulfil(made));
        }
        notices.give();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Tells of what happened beside the lock.
    #[inline]
    pub(super) fn tell(&self, notices: Notices) {
        if !notices.is_empty() {
            self.happen();
            notices.give();
        }
    }

    /// Something has happened beside the lock: waits end.
    pub(super) fn happen(&self) {
        self.happened_beside.fetch_add(1, Ordering::SeqCst);
        self.sleep.end();
    }

    pub(super) fn listen(
        self: &Arc<Self>,
        service: &str,
        tag: u64,
        reliability: Reliability,
    ) -> Result<Box<dyn ListenerOps>, ListenError> {
        let key = (service.to_owned(), tag);
        let is_new = self.inside.with(|inside| {
            let listeners = inside.work.listeners().ok_or(ListenError::NicDown)?;
            Ok(listeners.open(key.clone(), reliability))
        })?;
        if !is_new {
            return Err(ListenError::Taken { service: key.0, tag });
        }
        Ok(Box::new(HubListener::new(Arc::clone(self), key)))
    }

    pub(super) fn connect(self: &Arc<Self>, request: ConnectRequest) {
        let now = rt::now();
        let refused = self.work(|work, fixed, after| {
            if work.listeners().is_none() {
                return Some(request);
            }
            work.connect(request, now, fixed, after);
            None
        });
        match refused {
            Some(request) => drop(request.promise.fulfil(Err(ConnectError::NicDown))),
            // A thread that sleeps has a new moment to wake up at.
            None => self.happen(),
        }
    }

    /// The nic goes down.
    pub(super) fn shut(self: &Arc<Self>) {
        self.work(|work, fixed, after| work.shut(fixed, after));
        self.happen();
    }
}
