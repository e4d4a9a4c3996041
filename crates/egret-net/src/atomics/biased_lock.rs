//! A lock that is biased towards one thread.
//!
//! Most locks of this crate are taken by one thread again and again: the driver of a nic. An atomic
//! read-modify-write costs as much as the rest of a small message, so a thread that has taken a lock
//! many times in a row gets the *bias* of the lock and from then on takes it with plain stores. Any
//! other thread revokes the bias first, by a system call, and the lock is an ordinary one until a
//! thread has again taken it many times in a row.
//!
//! ```text
//!   biased thread                    another thread
//!   busy := busy + 1 (odd)           takes the ordinary lock
//!   light fence                      bias := NOBODY
//!   does it still have the bias?     heavy fence
//!     yes: it has the lock           waits until busy is even
//!   busy := busy + 1 (release)       has the lock
//! ```
//!
//! Of two threads that each write one word and then, past a fence, read the other's word, at least
//! one sees what the other wrote: either the biased thread sees that it has lost the bias, or the
//! other thread sees that it is busy and waits. The light fence stops the compiler alone; the heavy
//! fence (`membarrier`) puts a full fence into every running thread of the process. Where the kernel
//! denies `membarrier` from the start, no thread gets a bias; where the kernel denies it later, by a
//! filter that the program installed meanwhile, no correct way to revoke a bias is left, and the
//! process is [aborted](super::Atomics::heavy_fence) rather than two threads let in.
//!
//! A biased thread that was slow may still be about to write `busy` long after its bias was revoked,
//! and must not end what the next biased thread began: each thread that ever had the bias has a
//! `busy` word of its own, for good, and the word `bias` names the thread and its `busy` word. A
//! thread that gets the bias again finds its word even: the thread that revoked the bias has waited
//! for that, and the thread itself is not inside, for it is about to leave the ordinary lock. A lock
//! has [`WORDS`] such words, so that as many threads can ever have its bias.
//!
//! # When a thread gets the bias
//!
//! To revoke a bias takes as long as hundreds of turns with the ordinary lock. How many turns in a
//! row earn the bias is therefore learnt: four times as many as before if the last bias was revoked
//! before it had [paid](PAID_AFTER), a quarter if it had. `busy` says how often the biased thread
//! took the lock. A thread that has the lock to itself for milliseconds at a time soon has the bias
//! back after another thread has passed by; a lock that is really shared costs one system call in
//! [`NEEDED_MAX`] turns.
//!
//! # Costs
//!
//! For the biased thread four loads and four stores of words that no other thread writes, and for
//! values that share its lock two loads and two stores more each; an uncontended `std::sync::Mutex`
//! takes two atomic read-modify-writes. To revoke a bias, one system call.
//!
//! Repeated names: `Fault`, one for each module with planted faults.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{Atomics, Lock, StdAtomics, Word};

/// A value that one thread at a time reaches, cheaply if the same thread always does.
/// Several values may [share](Self::sharing) one lock: a thread that has the lock through one of them
/// reaches the others with two loads and two stores, and none of them twice. There is no guard: a
/// caller that dropped the first guard early would keep the others without the lock.
pub(crate) struct BiasedLock<T, A: Atomics = StdAtomics> {
    gate: Arc<BiasedGate<A>>,
    /// Whether the thread that has the lock is inside `with` for this value.
    is_taken: UnsafeCell<bool>,
    value: UnsafeCell<T>,
}

/// The lock behind one value or several.
struct BiasedGate<A: Atomics> {
    /// The number of the thread that has the lock, or [`NOBODY`]. A thread writes only its own
    /// number, so it reads its number here only while it has the lock. Other threads conclude
    /// nothing from the word: a plain one, at which the model checker need not stop.
    holder: AtomicU64,
    /// The number of the biased thread and of its `busy` word, or [`NOBODY`]. Written under
    /// `ordinary`.
    bias: A::Word,
    /// How often a biased thread has taken and left the lock since it got the bias: odd while it has
    /// the lock. Each word is written by one thread alone.
    busy: [A::Word; WORDS],
    ordinary: A::Lock<GateHistory>,
}

/// Which thread had the ordinary lock last, and how often in a row.
#[derive(Debug)]
struct GateHistory {
    last: u64,
    in_a_row: u64,
    /// How many turns in a row earn the bias.
    needed: u64,
    /// The thread to which each `busy` word belongs; 0: to none yet.
    words: [u64; WORDS],
}

impl<T, A: Atomics> BiasedLock<T, A> {
    pub(crate) fn new(value: T) -> Self {
        let gate = BiasedGate {
            holder: AtomicU64::new(NOBODY),
            bias: A::Word::new(NOBODY),
            busy: std::array::from_fn(|_| A::Word::new(0)),
            ordinary: A::Lock::new(GateHistory::new::<A>()),
        };
        Self::with_gate(Arc::new(gate), value)
    }

    const fn with_gate(gate: Arc<BiasedGate<A>>, value: T) -> Self {
        Self { gate, is_taken: UnsafeCell::new(false), value: UnsafeCell::new(value) }
    }

    /// Another value under the same lock.
    pub(crate) fn sharing<U>(&self, value: U) -> BiasedLock<U, A> {
        BiasedLock::with_gate(Arc::clone(&self.gate), value)
    }

    /// Runs `body` with the value, alone.
    ///
    /// # Panics
    ///
    /// If the calling thread has the value already.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        // None of these is moved, so the path of the biased thread stays in registers.
        let (mut turn, mut busy) = (None, None);
        match self.gate.try_fast() {
            FastEntry::AlreadyHeld => {}
            FastEntry::Biased(word) => busy = Some(word),
            FastEntry::Denied => turn = Some(self.gate.lock_ordinary()),
        }
        let _entry = HeldGate { gate: &self.gate, busy, turn: &mut turn };
        self.take_value();
        let _out = TakenValue(self);
        // SAFETY: the lock is held as long as `_entry` lives, and no other code on this thread has
        // the value as long as `_out` does.
        body(unsafe { &mut *self.value.get() })
    }

    /// Runs `body` with the value, unless a thread has the lock, be it this one.
    #[inline]
    pub(crate) fn try_with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        let (mut turn, mut busy) = (None, None);
        match self.gate.try_fast() {
            FastEntry::AlreadyHeld => return None,
            FastEntry::Biased(word) => busy = Some(word),
            FastEntry::Denied => turn = Some(self.gate.try_lock_ordinary()?),
        }
        let _entry = HeldGate { gate: &self.gate, busy, turn: &mut turn };
        self.take_value();
        let _out = TakenValue(self);
        // SAFETY: the lock is held as long as `_entry` lives, and was taken by it: nobody else on
        // this thread has the value.
        Some(body(unsafe { &mut *self.value.get() }))
    }

    /// With the lock: takes the value.
    #[inline]
    fn take_value(&self) {
        // SAFETY: only the thread that has the lock reaches the flag, and keeps no reference.
        let was_taken = unsafe { std::mem::replace(&mut *self.is_taken.get(), true) };
        if was_taken {
            taken_twice();
        }
    }

    /// With the lock: puts the value back.
    #[inline]
    fn return_value(&self) {
        // SAFETY: only the thread that has the lock reaches the flag, and keeps no reference.
        unsafe { *self.is_taken.get() = false };
    }

    /// Whether the calling thread has the lock, through this value or another.
    #[inline]
    pub(crate) fn is_mine(&self) -> bool {
        self.gate.holder.load(Relaxed) == A::me()
    }

    /// Whether the calling thread has the bias.
    #[cfg(test)]
    pub(super) fn is_biased_to_me(&self) -> bool {
        self.gate.bias.load(Relaxed) >> WORD_BITS == A::me()
    }
}

#[cold]
fn taken_twice() {
    assert!(
        fault::may_take_twice(),
        "this thread is inside this lock already: \
         the function of a drain answers by its `Reply`, and does not use the nic by other means"
    );
}

impl<A: Atomics> BiasedGate<A> {
    /// Takes the lock if the calling thread has it already or has the bias.
    #[inline]
    fn try_fast(&self) -> FastEntry<'_, A> {
        let me = A::me();
        if self.holder.load(Relaxed) == me {
            return FastEntry::AlreadyHeld;
        }
        let bias = self.bias.load(Relaxed);
        if bias >> WORD_BITS != me {
            return FastEntry::Denied;
        }
        let busy = self.busy(bias);
        let times = busy.load(Relaxed);
        busy.store(times + 1, Relaxed);
        A::light_fence();
        if fault::has_lost_bias(self.bias.load(Relaxed), bias) {
            self.retreat(busy, times);
            return FastEntry::Denied;
        }
        self.holder.store(me, Relaxed);
        FastEntry::Biased(busy)
    }

    /// The biased thread releases the lock.
    #[inline]
    fn leave_fast(&self, busy: &A::Word) {
        self.holder.store(NOBODY, Relaxed);
        busy.store(busy.load(Relaxed) + 1, fault::release_order(Release));
    }

    /// The bias was revoked while the thread took the lock.
    #[cold]
    fn retreat(&self, busy: &A::Word, times: u64) {
        busy.store(times + 2, Release);
    }

    #[cold]
    fn lock_ordinary(&self) -> GateGuard<'_, A> {
        self.enter_ordinary(self.ordinary.lock())
    }

    #[cold]
    fn try_lock_ordinary(&self) -> Option<GateGuard<'_, A>> {
        let bias = self.bias.load(Relaxed);
        if bias != NOBODY && is_odd(self.busy(bias).load(Relaxed)) {
            return None;
        }
        self.ordinary.try_lock().map(|turns| self.enter_ordinary(turns))
    }

    /// With the ordinary lock: revokes the bias.
    fn enter_ordinary<'a>(&'a self, mut turns: GateGuard<'a, A>) -> GateGuard<'a, A> {
        let bias = self.bias.load(Relaxed);
        if bias != NOBODY {
            let times = self.revoke(bias) / 2;
            turns.learn::<A>(times);
        }
        self.holder.store(A::number_me(), Relaxed);
        turns
    }

    /// A thread without the bias releases the lock. It may have earned the bias.
    #[cold]
    fn leave_ordinary(&self, turn: &mut Option<GateGuard<'_, A>>) {
        let Some(mut turns) = turn.take() else { return };
        self.holder.store(NOBODY, Relaxed);
        if let Some(word) = turns.count::<A>() {
            let bias = A::me() << WORD_BITS | word as u64;
            // The word is the thread's own, and even: it counts from here.
            self.busy(bias).store(0, Relaxed);
            self.bias.store(bias, Relaxed);
        }
    }

    /// The `busy` word of a biased thread.
    #[inline]
    fn busy(&self, bias: u64) -> &A::Word {
        #[expect(clippy::cast_possible_truncation, reason = "three bits")]
        let word = bias as usize % WORDS;
        &self.busy[fault::word(word)]
    }

    /// Takes the bias away and waits until its thread is outside. Returns that thread's `busy` word.
    fn revoke(&self, bias: u64) -> u64 {
        self.bias.store(NOBODY, Relaxed);
        fault::revoke_fence::<A>();
        let (busy, mut turns) = (self.busy(bias), 0);
        loop {
            let times = busy.load(Acquire);
            if !fault::is_awaited(is_odd(times)) {
                return times;
            }
            A::relax(turns);
            turns = turns.saturating_add(1);
        }
    }
}

impl GateHistory {
    fn new<A: Atomics>() -> Self {
        Self { last: 0, in_a_row: 0, needed: A::IN_A_ROW, words: [0; WORDS] }
    }

    /// Counts one turn of the calling thread. Returns its `busy` word if it has earned the bias.
    fn count<A: Atomics>(&mut self) -> Option<usize> {
        let me = A::number_me();
        self.in_a_row = if self.last == me { self.in_a_row + 1 } else { 1 };
        self.last = me;
        if self.in_a_row < self.needed || !A::has_heavy_fence() {
            return None;
        }
        let word = self.words.iter().position(|whose| [0, me].contains(whose))?;
        self.words[word] = me;
        self.in_a_row = 0;
        Some(word)
    }

    /// Learns from a bias during which its thread took the lock `times` times.
    fn learn<A: Atomics>(&mut self, times: u64) {
        self.needed = if times < PAID_AFTER {
            self.needed.saturating_mul(4).min(NEEDED_MAX)
        } else {
            (self.needed / 4).max(A::IN_A_ROW)
        };
    }
}

type GateGuard<'a, A> = <<A as Atomics>::Lock<GateHistory> as Lock<GateHistory>>::Guard<'a>;

/// The outcome of the fast way into a lock.
enum FastEntry<'a, A: Atomics> {
    /// The thread has the lock already, and still has it afterwards.
    AlreadyHeld,
    /// The thread has the bias, with this `busy` word.
    Biased(&'a A::Word),
    /// The thread must take the ordinary lock.
    Denied,
}

/// Releases the lock when dropped, as the biased thread or through the ordinary lock; does nothing if
/// the thread had the lock before.
struct HeldGate<'a, 't, A: Atomics> {
    gate: &'a BiasedGate<A>,
    busy: Option<&'a A::Word>,
    turn: &'t mut Option<GateGuard<'a, A>>,
}

impl<A: Atomics> Drop for HeldGate<'_, '_, A> {
    #[inline]
    fn drop(&mut self) {
        match self.busy {
            Some(busy) => self.gate.leave_fast(busy),
            None if self.turn.is_none() => {}
            None => self.gate.leave_ordinary(self.turn),
        }
    }
}

/// Returns the value when dropped.
struct TakenValue<'a, T, A: Atomics>(&'a BiasedLock<T, A>);

impl<T, A: Atomics> Drop for TakenValue<'_, T, A> {
    #[inline]
    fn drop(&mut self) {
        self.0.return_value();
    }
}

#[inline]
const fn is_odd(times: u64) -> bool {
    !times.is_multiple_of(2)
}

// SAFETY: the value moves with its lock.
unsafe impl<T: Send, A: Atomics> Send for BiasedLock<T, A> {}
// SAFETY: the value is reached by one thread at a time.
unsafe impl<T: Send, A: Atomics> Sync for BiasedLock<T, A> {}

impl<T: fmt::Debug> fmt::Debug for BiasedLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.try_with(|value| write!(f, "{value:?}")).unwrap_or_else(|| f.write_str("locked"))
    }
}

/// No thread has this number.
const NOBODY: u64 = u64::MAX;
/// How many threads can ever have the bias of a lock.
const WORDS: usize = 8;
const WORD_BITS: u32 = 3;
/// After so many turns a biased thread has saved several times what it takes to revoke its bias:
/// that is 2 µs, and a turn with the ordinary lock takes 10 ns more.
const PAID_AFTER: u64 = 4096;
/// So many turns in a row always earn the bias.
const NEEDED_MAX: u64 = 1 << 16;

/// Faults that tests plant in the lock, and what each changes.
pub(super) mod fault {
    use std::sync::atomic::Ordering::{self, Relaxed};

    use super::Atomics;
    use crate::fault::planted;

    #[inline]
    pub(super) fn has_lost_bias(now: u64, before: u64) -> bool {
        now != before && !planted(Fault::BiasUnchecked)
    }

    #[inline]
    pub(super) fn release_order(order: Ordering) -> Ordering {
        if planted(Fault::ReleaseRelaxed) { Relaxed } else { order }
    }

    #[inline]
    pub(super) fn word(word: usize) -> usize {
        if planted(Fault::OneBusyWord) { 0 } else { word }
    }

    pub(super) fn revoke_fence<A: Atomics>() {
        if !planted(Fault::RevokeUnfenced) {
            A::heavy_fence();
        }
    }

    /// Whether a revoker waits for a biased thread.
    pub(super) fn is_awaited(is_busy: bool) -> bool {
        is_busy && !planted(Fault::RevokeUnawaited)
    }

    pub(super) fn may_take_twice() -> bool {
        planted(Fault::TakenTwice)
    }

    /// One way to get it wrong.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(in super::super) enum Fault {
        /// A biased thread says that it is busy and does not check that it still has the bias.
        BiasUnchecked,
        /// A bias is revoked without the fence.
        RevokeUnfenced,
        /// A bias is revoked without waiting for a biased thread that is busy.
        RevokeUnawaited,
        /// A biased thread leaves without releasing its writes.
        ReleaseRelaxed,
        /// All biased threads share one `busy` word.
        OneBusyWord,
        /// A thread that has a value gets it again.
        TakenTwice,
    }
}
