//! The doorbell: wakes a process that sleeps, and costs little for one that does not.
//!
//! Each end of a connection has one word, in memory of its own that the peer reads: the doorbell
//! word of `docs/wire/shm.md`. It says whether this end sleeps, and counts how often it has: with
//! its nic, or by itself, because nothing came for long and the nic has many others to look at
//! ([`rounds`](super::rounds)).
//!
//! | the sleeper | a ringer |
//! |---|---|
//! | [`doze`](DoorbellSleeper::doze): asleep ← 1; [`settle`]: fence | puts into its ring |
//! | looks at its rings once more | [`ring`](DoorbellRinger::ring): fence, asleep? |
//! | sleeps until its socket is signalled | if so, signals its socket |
//! | [`disarm`](DoorbellSleeper::disarm): asleep ← 0; may drain its socket | |
//!
//! Of two fences one comes first. If it is the sleeper's, the ringer sees it
//! asleep and signals; if it is the ringer's, the sleeper sees the message in its
//! last look. Without either fence both may see old values: that is the lost
//! wake-up.
//!
//! # Who pays for the fence
//!
//! A fence behind a put waits until the line that was put is this processor's, which
//! is most of what a message costs. A sleep costs far more, so the sleeper pays: it
//! passes a [fence over processes](Atomics::global_fence), one for all ends of its nic, and a
//! ringer has to keep the order of its own program alone. When the ringer connects it learns
//! whether both hold to that; otherwise it fences by itself. If the kernel denies a sleeper the
//! fence that it had before, [`settle`] says that the bells are [doubtful](WakeupCertainty), and the caller
//! does not sleep long, nor promises the fence to who connects from then on.
//!
//! # What the kernel misses
//!
//! Linux leaves out some processors (seen on 6.18). Where a thread of a process ends, and the next
//! to run on that processor is another thread of the same process, the kernel counts the processor as one
//! without registered processes until another process has run there. A ringer on it is not fenced,
//! and a put at the very moment of a doze may be missed by both. What was put is seen a moment
//! later. So a sleep behind the kernel's fence is at first a
//! [nap](NAP): the sleeper looks once more after a millisecond, and then after longer
//! and longer ones.
//!
//! # When a ringer signals
//!
//! The count tells a ringer that it has signalled for this sleep already. It need
//! not signal again, though the sleeper is slow to wake: the sleeper will look at its
//! rings between this sleep and the next, and the look after the next arming finds
//! what that look misses. So a sleep costs each ringer one system call at
//! most.
//!
//! A socket is drained while its owner is awake, before the next arming: after it
//! the signal might be for the sleep to come. A socket left undrained loses nothing:
//! each signal ends one sleep, this one or the next, whatever is in the socket before
//! it. But it must not fill up; see [`doorbell_socket`](super::doorbell_socket).
//!
//! An end whose nic never sleeps says so from the start, and its ringer does not fence: what is put
//! at the moment when such an end begins to rest its nic finds late, in turn.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

use super::doorbell_socket::{DoorbellError, DoorbellHandle};
use super::fault::{self, Fault, planted};
use super::foreign::ForeignMemory;
use super::memory::{LINE, OwnMemory, Peek, Readable, Writable};
use crate::atomics::{Atomics, Word};

/// The end of a doorbell that sleeps.
#[derive(Debug)]
pub(super) struct DoorbellSleeper<M = OwnMemory> {
    memory: M,
    line: usize,
    sleeps: u64,
    /// What the word says from the start: [`FENCES`] if the ringer may rely on the fence over
    /// processes, [`SPINS`] if its nic never sleeps.
    says: u64,
}

/// The end of a doorbell that wakes the sleeper.
#[derive(Debug)]
pub(super) struct DoorbellRinger<M = ForeignMemory, H = DoorbellHandle> {
    memory: M,
    handle: H,
    line: usize,
    /// The doorbell word for which the socket was signalled last.
    rung: u64,
    fence: RingerFence,
}

/// The fence that a ringer passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RingerFence {
    /// None: the peer's nic never sleeps.
    Nothing,
    /// The order of its program: the sleeper fences for it.
    Light,
    Full,
}

/// Whether a nic ever sleeps, and what it promises to those who wake it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SleepPolicy {
    /// When there is nothing to do.
    Sleeps,
    /// The same, and the kernel has denied it the fence over processes: it promises none.
    SleepsUnfenced,
    /// Never: it polls for ever.
    Spins,
}

/// The means by which a ringer wakes a sleeper.
pub(super) trait DoorbellSignal {
    fn pull(&self) -> Result<(), DoorbellError>;
}

impl<M: Writable> DoorbellSleeper<M> {
    /// A sleeper whose word is the first of the line at byte `offset`. To be
    /// made before a peer is given the memory.
    ///
    /// # Panics
    ///
    /// If there is no such line.
    pub(super) fn new(memory: M, offset: usize, sleep_policy: SleepPolicy) -> Self {
        assert!(offset.is_multiple_of(LINE), "a bell at {offset} is not on a line of its own");
        let line = offset / LINE;
        let says = match sleep_policy {
            SleepPolicy::Spins => SPINS,
            SleepPolicy::Sleeps if M::Atomics::has_global_fence() => FENCES,
            SleepPolicy::Sleeps | SleepPolicy::SleepsUnfenced => 0,
        };
        memory.lines()[line][0].store(says, Relaxed);
        Self { memory, line, sleeps: 0, says }
    }

    /// Says that this end sleeps: from now on the peer signals its socket. The caller [settles](settle)
    /// that, and looks at the rings once more.
    #[inline]
    pub(super) fn doze(&mut self) {
        self.sleeps += 1;
        self.store(ASLEEP);
    }

    /// Says that this end is awake: the peer need not signal. The caller looks at the rings,
    /// and may drain the socket.
    #[inline]
    pub(super) fn disarm(&mut self) {
        self.store(0);
    }

    /// How often it has slept.
    pub(super) const fn sleeps(&self) -> u64 {
        self.sleeps
    }

    #[inline]
    fn store(&self, asleep: u64) {
        let word = self.says | self.sleeps << COUNT_SHIFT | asleep;
        self.memory.lines()[self.line][0].store(word, Relaxed);
    }
}

/// Behind the words of those that [doze](DoorbellSleeper::doze) by themselves, while their nic is awake: the
/// caller looks at their rings once more. A put that a ringer does not fence for may be missed.
#[inline]
pub(super) fn rest_fence<A: Atomics>() {
    fault::rest_fence::<A>(SeqCst);
}

/// How far a nic that sleeps can rely on its bells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WakeupCertainty {
    /// Each peer that puts something sees that it sleeps.
    Sure,
    /// The same, but for what the kernel's fence misses: it looks once more after a while.
    Likely,
    /// Some peers may not see that it sleeps: it must wake by itself soon, again and again.
    Doubtful,
}

/// Behind the words of all that [doze](DoorbellSleeper::doze): the caller looks at their rings once more
/// before it sleeps.
#[must_use]
pub(super) fn settle<'a, M: Writable + 'a>(
    mut sleepers: impl Iterator<Item = &'a DoorbellSleeper<M>>,
) -> WakeupCertainty {
    let is_relied_on = sleepers.any(|sleeper| sleeper.says & FENCES != 0);
    if is_relied_on && fault::global_arm_fence::<M::Atomics>() {
        return WakeupCertainty::Likely;
    }
    // For ringers that fence.
    fault::arm_fence::<M::Atomics>(SeqCst);
    if is_relied_on { WakeupCertainty::Doubtful } else { WakeupCertainty::Sure }
}

impl DoorbellRinger {
    /// A second one for the same peer, for another thread.
    pub(super) fn another(&self) -> Result<Self, DoorbellError> {
        let (memory, handle) = (self.memory.clone(), self.handle.another()?);
        Ok(Self { memory, handle, line: self.line, rung: 0, fence: self.fence })
    }
}

impl<M: Readable, H: DoorbellSignal> DoorbellRinger<M, H> {
    /// The ringer of a peer whose word is the first of the line at byte
    /// `offset`, as that peer says; `None` if there is no such line. Asks whether
    /// the peer's nic ever sleeps, and whether it fences then.
    pub(super) fn new(memory: M, offset: u64, handle: H) -> Option<Self> {
        let line =
            usize::try_from(offset).ok().filter(|offset| offset.is_multiple_of(LINE))? / LINE;
        let word = memory.lines().get(line)?[0].peek();
        let fence = match word & SPINS {
            0 if promises_fence(word) && M::Atomics::has_global_fence() => RingerFence::Light,
            0 => RingerFence::Full,
            _ => RingerFence::Nothing,
        };
        Some(Self { memory, handle, line, rung: 0, fence })
    }

    /// After something was put into a ring: wakes the peer if it sleeps. Says
    /// whether that took a system call.
    #[inline]
    pub(super) fn ring(&mut self) -> Result<bool, DoorbellError> {
        self.asleep().map_or(Ok(false), |word| self.pull(word))
    }

    /// After something was put into a ring: the word of a peer that sleeps and was not rung for
    /// that, to [`pull`](Self::pull) for.
    #[inline(always)]
    pub(super) fn asleep(&self) -> Option<u64> {
        self.pass_fence();
        let word = self.memory.lines()[self.line][0].peek();
        self.is_unrung(word).then_some(word)
    }

    #[inline(always)]
    fn pass_fence(&self) {
        match self.fence {
            _ if planted(Fault::RingUnfenced) => {}
            RingerFence::Nothing => {}
            RingerFence::Light => M::Atomics::light_fence(),
            RingerFence::Full => M::Atomics::fence(SeqCst),
        }
    }

    /// Whether this is the word of a peer that sleeps and was not rung for that.
    #[inline(always)]
    fn is_unrung(&self, word: u64) -> bool {
        word & ASLEEP != 0 && word != self.rung && !planted(Fault::SleepUnseen)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn pull(&mut self, word: u64) -> Result<bool, DoorbellError> {
        self.handle.pull()?;
        self.rung = word;
        Ok(true)
    }
}

/// Whether a sleeper with this word fences for those who ring.
fn promises_fence(word: u64) -> bool {
    word & FENCES != 0 || planted(Fault::LightUnasked)
}

#[cfg(test)]
impl<M, H> DoorbellRinger<M, H> {
    pub(super) fn is_light(&self) -> bool {
        self.fence == RingerFence::Light
    }
}

/// The highest bit: a count never comes to it, also that of a peer which does not know
/// this one.
const FENCES: u64 = 1 << 63;
const ASLEEP: u64 = 1;
const SPINS: u64 = 1 << 1;
const COUNT_SHIFT: u32 = 2;
/// How long to sleep when a peer might not ring; and at first, when it rings most likely.
pub(super) const NAP: Duration = Duration::from_millis(1);
