//! How the threads of a nic wait.
//!
//! One of them sleeps on the set of everything that can happen, the others
//! wait for it: when something has happened, or it has slept enough, all look
//! for themselves and one of those that still wait takes its place.
//!
//! A bell is drained by the one who sleeps, after it has said that it is awake.
//! If somebody else drained it, a peer would believe that it had rung, and the
//! sleeper would sleep on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::bell::Sleeper;
use super::nic::{EVENTS, Inner};
use crate::fabric::Seen;
use crate::rt::{self, Instant};
use crate::vi::Wait;

#[derive(Debug)]
pub(super) struct Sleep {
    place: Mutex<Place>,
    /// Told when the place is free or something has happened.
    changed: Condvar,
    /// Threads that sleep, or wait for the place.
    waiting: AtomicU32,
    event: OwnedFd,
    bell: Mutex<Sleeper>,
}

#[derive(Debug)]
struct Place {
    taken: bool,
}

impl Sleep {
    pub(super) fn new(bell: Sleeper) -> Result<Self, Errno> {
        Ok(Self {
            place: Mutex::new(Place { taken: false }),
            changed: Condvar::new(),
            waiting: AtomicU32::new(0),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            bell: Mutex::new(bell),
        })
    }

    /// Readable when a sleep is to end.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Ends all sleeps: something has happened, and is counted already.
    pub(super) fn end(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let place = self.place();
        if place.taken {
            // A full counter is readable already.
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
        drop(place);
        self.changed.notify_all();
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place of the one who sleeps, or waits until there is
    /// something to look at. Whether it was taken.
    fn take_place(&self, has_happened: impl Fn() -> bool, until: Option<Instant>) -> bool {
        let mut place = self.place();
        loop {
            if has_happened() {
                return false;
            }
            if !place.taken {
                place.taken = true;
                return true;
            }
            let left = left(until).unwrap_or(Duration::from_secs(1));
            if left.is_zero() {
                return false;
            }
            #[expect(clippy::disallowed_methods, reason = "real processes share no virtual time")]
            let waited = self.changed.wait_timeout(place, left);
            place = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn leave_place(&self) {
        let mut place = self.place();
        // With the place: what is written from now on is for the next.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
        place.taken = false;
        drop(place);
        self.changed.notify_all();
    }

    fn bell(&self) -> MutexGuard<'_, Sleeper> {
        self.bell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    pub(super) fn wait(self: &Arc<Self>, seen: Seen, until: Option<Instant>) {
        match self.wait {
            Wait::Spin => std::hint::spin_loop(),
            Wait::Balanced => {
                if !self.spin(seen) {
                    self.sleep(seen, until);
                }
            }
            Wait::Frugal => self.sleep(seen, until),
        }
    }

    fn has_happened(&self, seen: Seen) -> bool {
        self.happened.load(Ordering::SeqCst) != seen.0
    }

    /// Looks for a while. Whether something has happened.
    fn spin(self: &Arc<Self>, seen: Seen) -> bool {
        for turn in 0..SPINS + YIELDS {
            if self.has_happened(seen) || self.progress() != seen {
                return true;
            }
            if turn < SPINS { std::hint::spin_loop() } else { rt::yield_now() }
        }
        false
    }

    fn sleep(self: &Arc<Self>, seen: Seen, until: Option<Instant>) {
        self.sleep.waiting.fetch_add(1, Ordering::SeqCst);
        if self.sleep.take_place(|| self.has_happened(seen), until) {
            self.sleep_on_everything(seen, until);
            self.sleep.leave_place();
        }
        self.sleep.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn sleep_on_everything(self: &Arc<Self>, seen: Seen, until: Option<Instant>) {
        self.sleep.bell().arm();
        let mut events = Vec::with_capacity(EVENTS);
        if let Some(deadline) = self.last_look().filter(|_| !self.has_happened(seen)) {
            let until = until.into_iter().chain(deadline).min();
            // An error is a short sleep: the caller looks, and comes again.
            let _ = self.ready(&mut events, left(until));
        }
        self.sleep.bell().disarm();
        self.woken(&events);
    }
}

fn left(until: Option<Instant>) -> Option<Duration> {
    let now = rt::now();
    until.map(|until| if until > now { until - now } else { Duration::ZERO })
}

/// About two round trips.
const SPINS: u32 = 64;
const YIELDS: u32 = 16;
