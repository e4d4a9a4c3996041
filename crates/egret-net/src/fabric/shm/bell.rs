//! Waking a process that sleeps, and only then.
//!
//! Each nic has one word, in memory of its own that its peers read: the doorbell word of
//! `docs/shm-wire.md`. It says whether the nic sleeps, and counts how often it has.
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
//! # Who pays for the fence
//!
//! A fence behind a put waits until the line that was put is this processor's, which
//! is most of what a message costs. A sleep costs far more, so the sleeper pays: it
//! passes a [fence over processes](Atomics::global_fence), and a ringer has to keep
//! the order of its own program alone. When the ringer connects it learns whether both
//! hold to that; otherwise it fences by itself. If the kernel denies a sleeper the
//! fence that it had before, [`arm`](Sleeper::arm) says that the bell is not to be trusted,
//! and the caller does not sleep long.
//!
//! # When a ringer pulls
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
    /// Whether ringers may rely on the fence over processes.
    is_relied_on: bool,
    /// What the word says of that: [`FENCES`] or nothing.
    fences: u64,
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
    /// Whether the sleeper fences for this end.
    is_light: bool,
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
        let is_relied_on = habit == Habit::Sleeps && M::Atomics::has_global_fence();
        let fences = if is_relied_on { FENCES } else { 0 };
        let spins = if habit == Habit::Spins { SPINS } else { 0 };
        memory.lines()[line][0].store(fences | spins, Relaxed);
        Self { memory, line, sleeps: 0, is_relied_on, fences }
    }

    /// From now on peers pull their cords. The caller looks at all its rings
    /// once more before it sleeps. If the answer is `false`, some peers may not see that
    /// it sleeps, and it must wake by itself soon.
    ///
    /// # Panics
    ///
    /// If it never sleeps.
    #[inline]
    #[must_use]
    pub(super) fn arm(&mut self) -> bool {
        assert_eq!(self.word().load(Relaxed) & SPINS, 0, "this nic said that it never sleeps");
        self.sleeps += 1;
        self.store(ASLEEP);
        if planted(Fault::ArmUnfenced) || self.is_relied_on && M::Atomics::global_fence() {
            return true;
        }
        if self.fences != 0 {
            self.fences = 0;
            self.store(ASLEEP);
        }
        // For ringers that fence.
        M::Atomics::fence(SeqCst);
        !self.is_relied_on
    }

    /// From now on peers need not pull their cords. The caller looks at its rings,
    /// and may drain the cords that were pulled. The number of the sleep that ends.
    #[inline]
    pub(super) fn disarm(&mut self) -> u64 {
        self.store(0);
        self.sleeps
    }

    #[inline]
    fn store(&self, asleep: u64) {
        self.word().store(self.fences | self.sleeps << COUNT_SHIFT | asleep, Relaxed);
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
        Ok(Self { memory, handle, line: self.line, rung: 0, is_light: self.is_light })
    }
}

impl<M: Readable, H: Pull> Ringer<M, H> {
    /// The ringer of a peer whose word is the first of the line at byte
    /// `offset`, as that peer says; `None` if there is no such line. Asks whether
    /// the peer ever sleeps, and whether it fences then.
    pub(super) fn new(memory: M, offset: u64, handle: H) -> Option<Self> {
        let line =
            usize::try_from(offset).ok().filter(|offset| offset.is_multiple_of(LINE))? / LINE;
        let word = memory.lines().get(line)?[0].peek();
        let line = (word & SPINS == 0).then_some(line);
        let is_asked = word & FENCES != 0 || planted(Fault::LightUnasked);
        let is_light = is_asked && line.is_some() && M::Atomics::has_global_fence();
        Some(Self { memory, handle, line, rung: 0, is_light })
    }

    /// After something was put into a ring: wakes the peer if it sleeps. Says
    /// whether that took a system call.
    #[inline]
    pub(super) fn ring(&mut self) -> Result<bool, CordError> {
        self.asleep().map_or(Ok(false), |word| self.pull(word))
    }

    /// After something was put into a ring: the word of a peer that sleeps and was not rung for
    /// that, to [`pull`](Self::pull) for.
    #[inline(always)]
    pub(super) fn asleep(&self) -> Option<u64> {
        let line = self.line?;
        match self.is_light {
            _ if planted(Fault::RingUnfenced) => {}
            true => M::Atomics::light_fence(),
            false => M::Atomics::fence(SeqCst),
        }
        let word = self.memory.lines()[line][0].peek();
        (word & ASLEEP != 0 && word != self.rung).then_some(word)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn pull(&mut self, word: u64) -> Result<bool, CordError> {
        self.handle.pull()?;
        self.rung = word;
        Ok(true)
    }
}

#[cfg(test)]
impl<M, H> Ringer<M, H> {
    pub(super) fn is_light(&self) -> bool {
        self.is_light
    }
}

/// The highest bit: a count never comes to it, also that of a peer which does not know
/// this one.
const FENCES: u64 = 1 << 63;
const ASLEEP: u64 = 1;
const SPINS: u64 = 1 << 1;
const COUNT_SHIFT: u32 = 2;
