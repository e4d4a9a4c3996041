//! Who is on duty, while another thread watches.
//!
//! One thread is on duty, and a second, the standby, takes over from it when something that it
//! does lasts too long. Nobody hands anything over in the common case: the thread on duty counts
//! what it begins and ends, and the standby looks at the count now and then.
//!
//! ```text
//!   count, even                      begin                     count, odd
//!   nothing is under way  ───────────────────────────▶  something is under way
//!         ▲                                                     │
//!         └─────────── end, if the count is the same ───────────┤
//!         └── take_over, if the standby saw this count before ──┘
//! ```
//!
//! An odd count is made even once, by the one or by the other: so one of them is on duty then.
//! The standby [rests](Duty::rest) when nothing was begun for a while. It says so and looks at
//! the count once more; the thread on duty counts and then looks whether the standby rests; and
//! between the two steps each passes a fence. So the standby sees the count, or it is called.
//!
//! # Costs
//!
//! To begin and to end is a fence, an exchange and three plain words of one line, which the
//! standby reads at each of its looks: about 15 ns.

use std::fmt;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use super::{Atomics, StdAtomics, Word};
use crate::fault::planted;

/// Who is on duty: one thread, until a standby that watches it takes over. What the thread on duty
/// and a [roster](super::Roster) share.
pub(super) struct Duty<A: Atomics = StdAtomics> {
    count: A::Word,
    /// Whether the standby looks at the count.
    watched: A::Word,
}

/// Something that the thread on duty has begun.
#[derive(Debug, Clone, Copy)]
#[must_use = "what was begun ends"]
pub struct Begun {
    count: u64,
    /// Whether the standby rests and is to be called, by who has begun.
    pub calls: bool,
}

impl<A: Atomics> Duty<A> {
    pub(super) fn new() -> Self {
        Self { count: A::Word::new(0), watched: A::Word::new(0) }
    }

    /// The thread on duty begins something that may last long.
    #[inline]
    pub(super) fn begin(&self) -> Begun {
        let count = self.count.load(Relaxed).wrapping_add(1);
        self.count.store(count, Release);
        if !planted(Fault::Unfenced) {
            A::fence(SeqCst);
        }
        Begun { count, calls: self.watched.load(Relaxed) == 0 }
    }

    /// What was begun has ended. Whether the thread is still on duty.
    #[inline]
    pub(super) fn end(&self, begun: Begun) -> bool {
        self.make_even(begun.count) || planted(Fault::TwoOnDuty)
    }

    /// What was begun and ended so far, for the standby.
    #[must_use]
    pub(super) fn count(&self) -> u64 {
        self.count.load(Acquire)
    }

    /// The standby takes over, if the same is still under way as when it saw `seen`. Whether it
    /// is on duty now.
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

    /// The standby, which saw `seen` long ago, looks no more until it is called. Whether it may.
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

    fn make_even(&self, odd: u64) -> bool {
        if planted(Fault::InTwoSteps) {
            let is_odd = self.count.load(Acquire) == odd;
            if is_odd {
                self.count.store(odd.wrapping_add(1), Release);
            }
            return is_odd;
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

impl<A: Atomics> fmt::Debug for Duty<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = f.debug_struct("Duty");
        said.field("count", &self.count()).field("is_watched", &self.is_watched()).finish()
    }
}

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Whoever begins looks at the standby before others can see the count.
    Unfenced,
    /// Whoever ends takes itself for on duty, whatever the standby did.
    TwoOnDuty,
    /// An odd count is looked at and then made even, not at once.
    InTwoSteps,
}
