//! Waking a process that sleeps, and only then.
//!
//! Each nic has one word, in memory of its own that its peers read:
//!
//! ```text
//!   ┌───────────────────────────────────────┬──────────────┬────────┐
//!   │ how often it went to sleep, 62 bits   │ never sleeps │ asleep │
//!   └───────────────────────────────────────┴──────────────┴────────┘
//! ```
//!
//! | the sleeper | a ringer |
//! |---|---|
//! | [`arm`](Sleeper::arm): asleep ← 1, fence | puts into its ring |
//! | looks at its rings once more | [`ring`](Ringer::ring): fence, asleep? |
//! | sleeps until a cord is pulled | if so, pulls its cord |
//! | [`disarm`](Sleeper::disarm): asleep ← 0; may drain its cords | |
//!
//! Of two fences one comes first. Is it the sleeper's, then the ringer sees it
//! asleep and pulls; is it the ringer's, then the sleeper sees the message in its
//! last look. Without either fence both may look at what was: that is the lost
//! wake-up.
//!
//! The count tells a ringer that it has pulled for this sleep already. It need
//! not again, though the sleeper is slow to wake: the sleeper will look at its
//! rings between this sleep and the next, and what that look misses the look
//! after the next arming finds. So a sleep costs each ringer one system call at
//! most.
//!
//! A cord is drained while its owner is awake, before the next arming: after it
//! the pull might be for the sleep to come. A cord left undrained loses nothing:
//! each pull ends one sleep, this one or the next, whatever is in the cord before
//! it. But it must not fill up; see [`cord`](super::cord).
//!
//! A nic that never sleeps says so from the start. Its ringers ask once, when
//! they connect, and from then on do nothing at all.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::cord::{CordError, Handle};
use super::fault::{Fault, planted};
use super::foreign::Foreign;
use super::memory::{LINE, Own, Peek, Readable, Writable};
use crate::atomics::{Atomics, Word};

/// The side that sleeps.
#[derive(Debug)]
pub(super) struct Sleeper<M = Own> {
    memory: M,
    line: usize,
    sleeps: u64,
}

/// The side that wakes it.
#[derive(Debug)]
pub(super) struct Ringer<M = Foreign, H = Handle> {
    memory: M,
    handle: H,
    /// `None` for a peer that never sleeps.
    line: Option<usize>,
    /// The word for which the cord was pulled last.
    rung: u64,
}

/// Whether a nic ever sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    /// When there is nothing to do.
    Sleeps,
    /// Never: it polls for ever.
    Spins,
}

/// What wakes a sleeper.
pub(super) trait Pull {
    fn pull(&self) -> Result<(), CordError>;
}

impl<M: Writable> Sleeper<M> {
    /// A sleeper whose word is the first of the line at byte `offset`. To be
    /// made before a peer is given the memory.
    ///
    /// # Panics
    ///
    /// If there is no such line.
    pub(super) fn new(memory: M, offset: usize, habit: Habit) -> Self {
        assert!(offset.is_multiple_of(LINE), "a bell at {offset} is not on a line of its own");
        let line = offset / LINE;
        memory.lines()[line][0].store(if habit == Habit::Spins { SPINS } else { 0 }, Relaxed);
        Self { memory, line, sleeps: 0 }
    }

    /// From now on peers pull their cords. The caller looks at all its rings
    /// once more before it sleeps.
    ///
    /// # Panics
    ///
    /// If it never sleeps.
    #[inline]
    pub(super) fn arm(&mut self) {
        assert_eq!(self.word().load(Relaxed) & SPINS, 0, "this nic said that it never sleeps");
        self.sleeps += 1;
        self.word().store(self.sleeps << COUNT_SHIFT | ASLEEP, Relaxed);
        if !planted(Fault::ArmUnfenced) {
            M::Atomics::fence(SeqCst);
        }
    }

    /// From now on peers need not pull their cords. The caller looks at its rings,
    /// and may drain the cords that were pulled. The number of the sleep that ends.
    #[inline]
    pub(super) fn disarm(&mut self) -> u64 {
        self.word().store(self.sleeps << COUNT_SHIFT, Relaxed);
        self.sleeps
    }

    #[inline]
    fn word(&self) -> &<M::Atomics as Atomics>::Word {
        &self.memory.lines()[self.line][0]
    }
}

impl Ringer {
    /// A second one for the same peer, for another thread.
    pub(super) fn another(&self) -> Result<Self, CordError> {
        let (memory, handle) = (self.memory.clone(), self.handle.another()?);
        Ok(Self { memory, handle, line: self.line, rung: 0 })
    }
}

impl<M: Readable, H: Pull> Ringer<M, H> {
    /// The ringer of a peer whose word is the first of the line at byte
    /// `offset`, as that peer says; `None` if there is no such line. Asks whether
    /// the peer ever sleeps.
    pub(super) fn new(memory: M, offset: u64, handle: H) -> Option<Self> {
        let line =
            usize::try_from(offset).ok().filter(|offset| offset.is_multiple_of(LINE))? / LINE;
        let spins = memory.lines().get(line)?[0].peek() & SPINS != 0;
        Some(Self { memory, handle, line: (!spins).then_some(line), rung: 0 })
    }

    /// After something was put into a ring: wakes the peer if it sleeps. Says
    /// whether that took a system call.
    #[inline]
    pub(super) fn ring(&mut self) -> Result<bool, CordError> {
        let Some(line) = self.line else { return Ok(false) };
        if !planted(Fault::RingUnfenced) {
            M::Atomics::fence(SeqCst);
        }
        let word = self.memory.lines()[line][0].peek();
        if word & ASLEEP == 0 || word == self.rung {
            return Ok(false);
        }
        self.handle.pull()?;
        self.rung = word;
        Ok(true)
    }
}

const ASLEEP: u64 = 1;
const SPINS: u64 = 1 << 1;
const COUNT_SHIFT: u32 = 2;
