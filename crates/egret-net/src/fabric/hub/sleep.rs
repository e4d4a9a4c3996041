//! How the threads of a nic wait.
//!
//! One of them sleeps on the set of everything that can happen, the others
//! wait for it: when something has happened, or it has slept enough, all look
//! for themselves and one of those that still wait takes its place.
//!
//! What the one who sleeps has to itself, the others cannot touch: over shared
//! memory the bell that peers ring. The set that says which bell was rung is asked,
//! and a bell is drained, by the one who sleeps alone, and drained after it has said
//! that it is awake. If somebody else did, a peer would believe that it had rung, and
//! the sleeper would sleep on.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::luck::{LOOKS, Luck};
use super::set::{SPACE, ready};
use super::watch::{Loop, Watched};
use super::{After, Hub, Work};
use crate::fabric::Seen;
use crate::rt::{self, Instant};
use crate::vi::Wait;

#[derive(Debug)]
pub(in crate::fabric) struct Sleep<P> {
    place: Mutex<Place<P>>,
    /// Told when the place is free or something has happened.
    changed: Condvar,
    /// Threads that sleep, or wait for the place.
    pub(super) waiting: AtomicU32,
    event: OwnedFd,
    luck: Luck,
    pub(super) watched: Watched,
}

#[derive(Debug)]
pub(super) struct Place<P> {
    /// `None` while somebody sleeps, who has it.
    pub(super) own: Option<P>,
    /// Whether the event was written for the one who has it.
    told: bool,
    /// Threads that wait for it.
    others: u32,
    /// What an event loop is doing.
    pub(super) looping: Loop<P>,
}

impl<P> Sleep<P> {
    pub(in crate::fabric) fn new(own: P) -> Result<Self, Errno> {
        Ok(Self {
            place: Mutex::new(Place {
                own: Some(own),
                told: false,
                others: 0,
                looping: Loop::Awake,
            }),
            changed: Condvar::new(),
            waiting: AtomicU32::new(0),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            luck: Luck::default(),
            watched: Watched::default(),
        })
    }

    /// Readable when a sleep is to end.
    pub(in crate::fabric) fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Ends all sleeps: something has happened, and is counted already.
    pub(super) fn end(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut place = self.place();
        if place.own.is_none() && !std::mem::replace(&mut place.told, true) {
            let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
        self.tell_others(place);
    }

    /// A system call, so only if there are any.
    fn tell_others(&self, mut place: MutexGuard<'_, Place<P>>) {
        self.watched.tell(&mut place);
        let others = place.others;
        drop(place);
        if others > 0 {
            self.changed.notify_all();
        }
    }

    pub(super) fn place(&self) -> MutexGuard<'_, Place<P>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place of the one who sleeps, or waits until there is
    /// something to look at.
    fn take_place(&self, has_happened: impl Fn() -> bool, until: Option<Instant>) -> Option<P> {
        let mut place = self.place();
        loop {
            if has_happened() {
                return None;
            }
            if let Some(own) = place.own.take() {
                return Some(own);
            }
            let left = left(until).unwrap_or(Duration::from_secs(1));
            if left.is_zero() {
                return None;
            }
            place.others += 1;
            #[expect(clippy::disallowed_methods, reason = "real processes share no virtual time")]
            let waited = self.changed.wait_timeout(place, left);
            place = waited.unwrap_or_else(PoisonError::into_inner).0;
            place.others -= 1;
        }
    }

    pub(super) fn leave_place(&self, own: P) {
        let mut place = self.place();
        // With the place: what is written from now on is for the next.
        if std::mem::take(&mut place.told) {
            let _ = rustix::io::read(&self.event, &mut [0; 8]);
        }
        place.own = Some(own);
        self.tell_others(place);
    }
}

impl<W: Work> Hub<W> {
    /// Waits until more has happened than was `seen`, at the latest `until`, in the
    /// way that the nic waits.
    pub(in crate::fabric) fn wait(self: &Arc<Self>, seen: Seen, until: Option<Instant>) -> Seen {
        match self.wait {
            Wait::Spin => {
                self.spin(seen, LOOKS, until);
            }
            Wait::Balanced => {
                if !self.spin_or_yield(seen, until) {
                    self.sleep(seen, until);
                }
            }
            Wait::Frugal => self.sleep(seen, until),
        }
        self.seen()
    }

    /// Whether a thread sleeps, or is about to: then nobody else may come by soon.
    #[inline]
    pub(in crate::fabric) fn has_sleepers(&self) -> bool {
        self.sleep.waiting.load(Ordering::SeqCst) > 0
    }

    /// Looks so many times, or until it is late: a look may move many bytes of a message that
    /// is not complete by it. Whether something has happened.
    fn spin(self: &Arc<Self>, seen: Seen, looks: u32, until: Option<Instant>) -> bool {
        let pauses = self.stride.pauses();
        for look in 1..=looks {
            for _ in 0..pauses {
                std::hint::spin_loop();
            }
            if self.progress() != seen {
                self.stride.heard();
                return true;
            }
            if look % CLOCK_EVERY == 0 && until.is_some_and(|until| rt::now() >= until) {
                break;
            }
        }
        false
    }

    /// Looks for a while, then gives way now and again, as long as that pays.
    /// Whether something has happened.
    fn spin_or_yield(self: &Arc<Self>, seen: Seen, until: Option<Instant>) -> bool {
        let luck = &self.sleep.luck;
        if self.spin(seen, luck.looks(), until) {
            luck.found();
            return true;
        }
        let yields = luck.missed();
        let mut before = if yields > 0 { rt::now() } else { Instant::default() };
        for _ in 0..yields {
            rt::yield_now();
            let now = rt::now();
            let is_slow = luck.gave_way(now - before);
            before = now;
            if self.progress() != seen {
                return true;
            }
            if is_slow || until.is_some_and(|until| now >= until) {
                break;
            }
        }
        false
    }

    fn sleep(self: &Arc<Self>, seen: Seen, until: Option<Instant>) {
        self.sleep.waiting.fetch_add(1, Ordering::SeqCst);
        self.inside.with(|inside| inside.sleepers += 1);
        let afters = self.sleep.take_place(|| self.has_happened(seen), until).map(|mut own| {
            let afters = self.sleep_on_everything(&mut own, seen, until);
            self.sleep.leave_place(own);
            afters
        });
        self.inside.with(|inside| inside.sleepers -= 1);
        self.sleep.waiting.fetch_sub(1, Ordering::SeqCst);
        // Only now, with the place free: a handler may wait, or panic.
        for after in afters.into_iter().flatten() {
            self.finish(after, false);
        }
    }

    /// Sleeps; what is to be told of it is left to the caller.
    fn sleep_on_everything(
        self: &Arc<Self>,
        own: &mut W::Place,
        seen: Seen,
        until: Option<Instant>,
    ) -> [After<W>; 2] {
        let mut space = SPACE;
        W::arm(own);
        let (idle, before) = self.last_look();
        let idle = idle.filter(|_| !self.has_happened(seen));
        let events = idle.map(|deadline| {
            let until = until.into_iter().chain(deadline).min();
            ready(W::set(&self.fixed), &mut space, left(until))
        });
        let sleep = W::disarm(own);
        [before, self.woken(sleep, events)]
    }
}

/// Looks between two looks at the clock, which costs as much as one that finds nothing.
const CLOCK_EVERY: u32 = 16;

fn left(until: Option<Instant>) -> Option<Duration> {
    until.map(|until| until.since(rt::now()))
}
