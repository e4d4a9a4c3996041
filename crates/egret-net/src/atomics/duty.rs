//! Which background thread is on duty, while another one watches it.
//!
//! One thread is on duty, and a second, the standby, takes over from it when one of its tasks lasts
//! too long. In the common case nothing is handed over: the thread on duty counts the tasks it begins
//! and ends, and the standby looks at the count now and then.
//!
//! ```text
//!   count, even                      begin                     count, odd
//!   no task is under way  ───────────────────────────▶  a task is under way
//!         ▲                                                     │
//!         └─────────── end, if the count is the same ───────────┤
//!         └── take_over, if the standby saw this count before ──┘
//! ```
//!
//! An odd count is made even once, by one of the two threads: that thread is on duty then.
//! The standby [rests](Duty::rest) when no task was begun for a while. It publishes that and reads
//! the count once more; the thread on duty counts and then reads whether the standby rests; and
//! between the two steps each passes a fence. So the standby sees the count, or it is woken.
//!
//! # Costs
//!
//! To begin and to end is a fence, an exchange and three plain words of one line, which the
//! standby reads at each of its looks: about 15 ns.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use super::{Atomics, StdAtomics, Word};
use crate::fault::planted;

/// The count of tasks that the thread on duty and a [roster](super::Roster) share.
pub(super) struct Duty<A: Atomics = StdAtomics> {
    count: A::Word,
    /// Whether the standby looks at the count.
    watched: A::Word,
}

/// A task that the thread on duty has begun.
#[derive(Debug, Clone, Copy)]
#[must_use = "a task that was begun ends"]
pub struct DutyTask {
    count: u64,
    /// Whether the standby rests, and the thread on duty is to wake it.
    pub wakes_standby: bool,
}

impl<A: Atomics> Duty<A> {
    pub(super) fn new() -> Self {
        Self { count: A::Word::new(0), watched: A::Word::new(0) }
    }

    /// The thread on duty begins a task that may last long.
    #[inline]
    pub(super) fn begin(&self) -> DutyTask {
        let count = self.count.load(Relaxed).wrapping_add(1);
        self.count.store(count, Release);
        fence_after_begin::<A>();
        DutyTask { count, wakes_standby: self.watched.load(Relaxed) == 0 }
    }

    /// The task has ended. Returns whether the thread is still on duty.
    #[inline]
    pub(super) fn end(&self, begun: DutyTask) -> bool {
        self.make_even(begun.count) || stays_on_duty()
    }

    /// The tasks begun and ended so far, for the standby.
    #[must_use]
    pub(super) fn count(&self) -> u64 {
        self.count.load(Acquire)
    }

    /// The standby takes over, if the count is still `seen`. Returns whether the
    /// standby is on duty now.
    #[must_use]
    pub(super) fn take_over(&self, seen: u64) -> bool {
        seen % 2 == 1 && self.make_even(seen)
    }

    /// The standby looks from now on.
    pub(super) fn watch(&self) {
        self.watched.store(1, Release);
    }

    /// Whether the standby is to look.
    #[must_use]
    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Acquire) != 0
    }

    /// The standby, which saw `seen` long ago, stops looking until it is woken. Returns whether it
    /// may.
    #[must_use]
    pub(super) fn rest(&self, seen: u64) -> bool {
        self.watched.store(0, Relaxed);
        A::fence(SeqCst);
        let rests = self.count.load(Relaxed) == seen;
        if !rests {
            self.watch();
        }
        rests
    }

    /// As a [fault](Fault::InTwoSteps).
    fn make_even_in_two_steps(&self, odd: u64) -> bool {
        let is_odd = self.count.load(Acquire) == odd;
        if is_odd {
            self.count.store(odd.wrapping_add(1), Release);
        }
        is_odd
    }

    fn make_even(&self, odd: u64) -> bool {
        if planted(Fault::InTwoSteps) {
            return self.make_even_in_two_steps(odd);
        }
        loop {
            match self.count.compare_exchange_weak(odd, odd.wrapping_add(1), AcqRel, Relaxed) {
                Ok(_) => return true,
                Err(now) if now == odd => {}
                Err(_) => return false,
            }
        }
    }
}

#[inline]
fn fence_after_begin<A: Atomics>() {
    if !planted(Fault::Unfenced) {
        A::fence(SeqCst);
    }
}

#[inline]
fn stays_on_duty() -> bool {
    planted(Fault::TwoOnDuty)
}

impl<A: Atomics> fmt::Debug for Duty<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = f.debug_struct("Duty");
        said.field("count", &self.count()).field("is_watched", &self.is_watched()).finish()
    }
}

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The thread on duty reads whether the standby rests before others can see the count.
    Unfenced,
    /// A thread that ends a task takes itself for on duty, whatever the standby did.
    TwoOnDuty,
    /// An odd count is read and then made even, not in one step.
    InTwoSteps,
}
