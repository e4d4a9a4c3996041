//! The background threads of a nic: which one is on duty, which one stands by, which ones end.
//!
//! ```text
//!   employ ─▶ starts ─────────────▶ on duty ── begin ──▶ on duty, outside ── end ─▶ on duty
//!               │ another is on duty    ▲                       │ look, relieve
//!               ▼                       │ look, relieve         ▼
//!            stands by ─────────────────┘                    relieved
//!               ▲         no other stands by                    │ end
//!               └─────────────────── report ◀───────────────────┘
//! ```
//!
//! The roster is the rules alone: it parks, wakes and starts no thread, and takes the time from its
//! callers. A thread asks what to do ([`RosterOrder`]), does it, and asks again; the thread that is to
//! be woken is returned to the caller. So the same code runs with threads, by seeds without any, and under the
//! model checker.
//!
//! All that changes which thread is on duty happens under one lock, but for [`begin`](Roster::begin) and
//! [`end`](Roster::end), which the thread on duty does without: these are the count of a [`Duty`].
//! The thread that makes an odd count even is on duty, and a standby does so under the lock.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::duty::{Duty, DutyTask};
use super::{Atomics, Lock, StdAtomics, Word};
use crate::fault::planted;
use crate::rt::Instant;

/// The threads of which one is on duty, each named by a `T`.
///
/// ```
/// use std::time::Duration;
///
/// use egret_net::rt::Instant;
/// use egret_net::sync::{Employment, Roster, RosterOrder};
///
/// let roster = Roster::default();
/// let now = Instant::default();
/// assert_eq!(roster.employ(), Employment::Start);
/// assert_eq!(roster.started(&"first", now), RosterOrder::Drive);
/// assert_eq!(roster.employ(), Employment::Start);
/// assert!(matches!(roster.started(&"second", now), RosterOrder::Park(_)));
/// // What the first begins lasts: the second looks twice.
/// let begun = roster.begin();
/// assert!(begun.wakes_standby && roster.call_standby() == Some("second"));
/// assert!(matches!(roster.look(&"second", now), RosterOrder::Park(Some(_))));
/// let later = now + Duration::from_millis(1);
/// assert_eq!(roster.look(&"second", later), RosterOrder::Drive);
/// assert!(!roster.end(begun), "another thread is on duty");
/// assert_eq!(roster.report(&"first", later), RosterOrder::Park(Some(later + Duration::from_micros(100))));
/// ```
pub struct Roster<T: Send, A: Atomics = StdAtomics> {
    duty: Duty<A>,
    /// Whether a thread stands by or is about to. Written under the lock.
    has_standby: A::Word,
    inside: A::Lock<RosterState<T>>,
}

struct RosterState<T> {
    on_duty: Option<T>,
    standby: Option<Standby<T>>,
    /// Threads that were employed and have not ended.
    threads: usize,
    /// Threads among them that have not started yet.
    coming: usize,
    is_closed: bool,
}

struct Standby<T> {
    thread: T,
    /// The count at its last look.
    seen: u64,
    /// Since when the count is that; none while the standby rests.
    still: Option<Instant>,
}

/// What a thread of a [`Roster`] does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RosterOrder {
    /// The thread is on duty.
    Drive,
    /// The thread stands by: it parks, at most until then, and [looks](Roster::look).
    Park(Option<Instant>),
    /// The thread is not needed: it ends, and the roster has forgotten it.
    End,
}

/// The outcome of asking for a thread that stands by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Employment {
    /// The caller starts a thread, which [starts](Roster::started), or says that it [does not](Roster::start_failed).
    Start,
    /// A thread stands by already.
    Present,
    /// There are as many threads as there may be, or the roster is closed.
    Full,
}

impl<T: Clone + PartialEq + Send, A: Atomics> Roster<T, A> {
    pub(crate) fn new() -> Self {
        let (on_duty, standby) = (None, None);
        let inside = RosterState { on_duty, standby, threads: 0, coming: 0, is_closed: false };
        Self { duty: Duty::new(), has_standby: A::Word::new(0), inside: A::Lock::new(inside) }
    }

    /// Whether a thread stands by or is about to.
    #[inline]
    #[must_use]
    pub fn has_standby(&self) -> bool {
        self.has_standby.load(Relaxed) != 0
    }

    /// Asks for a thread: the first, or one that stands by.
    pub fn employ(&self) -> Employment {
        self.with(|inside| {
            if inside.has_standby() {
                return Employment::Present;
            }
            if inside.is_full() || inside.is_closed {
                return Employment::Full;
            }
            inside.threads += 1;
            inside.coming += 1;
            Employment::Start
        })
    }

    /// A thread that was employed could not be started.
    pub fn start_failed(&self) {
        self.with(|inside| {
            inside.threads -= 1;
            inside.coming -= 1;
        });
    }

    /// A thread that was employed begins.
    pub fn started(&self, me: &T, now: Instant) -> RosterOrder {
        self.with(|inside| {
            inside.coming -= 1;
            self.place(inside, me, now)
        })
    }

    /// A thread that was relieved is back from its task.
    pub fn report(&self, me: &T, now: Instant) -> RosterOrder {
        self.with(|inside| self.place(inside, me, now))
    }

    /// The standby has slept long enough, or was woken.
    pub fn look(&self, me: &T, now: Instant) -> RosterOrder {
        self.with(|inside| {
            if inside.must_end() {
                return inside.end(me);
            }
            if inside.on_duty.as_ref() == Some(me) {
                return RosterOrder::Drive;
            }
            let Some(standby) = &mut inside.standby else { return inside.end(me) };
            let (count, before) = (self.duty.count(), standby.seen);
            if count == before && self.duty.take_over(before) {
                inside.on_duty = inside.standby.take().map(|standby| standby.thread);
                return RosterOrder::Drive;
            }
            standby.look(&self.duty, count, now)
        })
    }

    /// The thread on duty goes outside of what it drives, perhaps for long. The caller
    /// [calls](Self::call_standby) the standby if it is told to.
    #[inline]
    pub fn begin(&self) -> DutyTask {
        self.duty.begin()
    }

    /// The standby looks from now on: the caller wakes it.
    #[cold]
    pub fn call_standby(&self) -> Option<T> {
        self.duty.watch();
        self.with(|inside| inside.called().map(|standby| standby.thread.clone()))
    }

    /// The thread is back from its task. Returns whether it is still on duty; if not, it
    /// [reports](Self::report).
    #[inline]
    #[must_use]
    pub fn end(&self, begun: DutyTask) -> bool {
        self.duty.end(begun)
    }

    /// A thread that is outside will not be back soon. If it is on duty, the standby is from now
    /// on: the caller wakes it.
    #[cold]
    #[must_use]
    pub fn relieve(&self, me: &T) -> Option<T> {
        self.with(|inside| {
            // A thread that was relieved may say so again, when its successor is outside.
            if !inside.is_relieved(me)
                || inside.standby.is_none()
                || !self.duty.take_over(self.duty.count())
            {
                return None;
            }
            let standby = inside.standby.take().map(|standby| standby.thread);
            inside.set_on_duty(&standby);
            standby
        })
    }

    /// The thread on duty.
    pub fn on_duty(&self) -> Option<T> {
        self.with(|inside| inside.on_duty.clone())
    }

    /// Whether there is a thread on duty, which is not outside.
    #[must_use]
    pub fn is_at_hand(&self) -> bool {
        let is_outside = self.duty.count() % 2 == 1;
        !is_outside && self.with(|inside| inside.on_duty.is_some() && !inside.is_closed)
    }

    /// The thread on duty ends.
    pub fn leave(&self, me: &T) {
        self.with(|inside| _ = inside.end(me));
    }

    /// Closes the roster: nothing is left to drive. The caller wakes the returned threads.
    pub fn close(&self) -> impl Iterator<Item = T> {
        let (on_duty, standby) = self.with(|inside| {
            inside.is_closed = true;
            let standby = inside.standby.as_ref().map(|standby| standby.thread.clone());
            (inside.on_duty.clone(), standby)
        });
        on_duty.into_iter().chain(standby)
    }

    /// Threads that were employed and have not ended.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.with(|inside| inside.threads)
    }

    /// Finds a place for a thread that is not on duty.
    fn place(&self, inside: &mut RosterState<T>, me: &T, now: Instant) -> RosterOrder {
        if inside.is_closed || inside.standby.is_some() {
            return inside.end(me);
        }
        if inside.on_duty.is_none() {
            inside.on_duty = Some(me.clone());
            return RosterOrder::Drive;
        }
        let count = self.duty.count();
        let standby = Standby { thread: me.clone(), seen: count, still: Some(now) };
        inside.standby.insert(standby).look(&self.duty, count, now)
    }

    fn with<R>(&self, body: impl FnOnce(&mut RosterState<T>) -> R) -> R {
        self.inside.with(|inside| {
            let result = body(inside);
            self.has_standby.store(inside.has_standby().into(), Relaxed);
            result
        })
    }
}

impl<T: Clone + PartialEq> RosterState<T> {
    fn is_full(&self) -> bool {
        self.threads >= THREADS_MAX && !planted(Fault::Crowded)
    }

    /// Whether a standby that looks has to end.
    fn must_end(&self) -> bool {
        self.is_closed && !planted(Fault::ClosedUnheard)
    }

    /// The standby that is woken because the thread on duty is outside.
    fn called(&self) -> Option<&Standby<T>> {
        self.standby.as_ref().filter(|_| !planted(Fault::Uncalled))
    }

    /// Whether a thread that is outside is on duty, and so is relieved.
    fn is_relieved(&self, me: &T) -> bool {
        self.on_duty.as_ref() == Some(me) || planted(Fault::RelievesOther)
    }

    fn set_on_duty(&mut self, thread: &Option<T>) {
        if !planted(Fault::Unnamed) {
            self.on_duty.clone_from(thread);
        }
    }

    fn has_standby(&self) -> bool {
        self.standby.is_some() || self.coming > 0
    }

    fn end(&mut self, me: &T) -> RosterOrder {
        self.threads -= 1;
        if self.on_duty.as_ref() == Some(me) {
            self.on_duty = None;
        }
        if self.standby.as_ref().is_some_and(|standby| standby.thread == *me) {
            self.standby = None;
        }
        RosterOrder::End
    }
}

impl<T> Standby<T> {
    /// Nothing is to be taken over at this count: until when it parks.
    fn look<A: Atomics>(&mut self, duty: &Duty<A>, count: u64, now: Instant) -> RosterOrder {
        let still = *self.still.get_or_insert(now);
        if count != self.seen {
            (self.seen, self.still) = (count, Some(now));
        } else if duty.is_watched() && is_still(still, now) {
            _ = duty.rest(count);
        }
        if duty.is_watched() {
            return RosterOrder::Park(Some(now + TICK));
        }
        self.still = None;
        RosterOrder::Park(None)
    }
}

/// Whether the thread on duty was the same for long enough.
fn is_still(since: Instant, now: Instant) -> bool {
    now - since >= STILL && !planted(Fault::NeverRests)
}

impl<T: Clone + PartialEq + Send> Default for Roster<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send, A: Atomics> fmt::Debug for Roster<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roster").field("duty", &self.duty).finish_non_exhaustive()
    }
}

/// How often a standby looks.
pub(super) const TICK: Duration = Duration::from_micros(100);
/// A standby rests if no thread went outside for so long.
pub(super) const STILL: Duration = Duration::from_millis(10);
/// Threads, most of which are outside for long.
pub(super) const THREADS_MAX: usize = 64;

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A thread that was relieved relieves its successor.
    RelievesOther,
    /// A relieved thread stays on duty by name.
    Unnamed,
    /// A standby that rests is not woken when something begins.
    Uncalled,
    /// A standby looks for ever, though nothing is under way.
    NeverRests,
    /// A standby does not hear that the roster is closed.
    ClosedUnheard,
    /// There are more threads than there may be.
    Crowded,
}
