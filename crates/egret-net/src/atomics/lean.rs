//! A lock that leans towards one thread.
//!
//! Most locks of this crate are taken by one thread again and again: whoever
//! drives a nic. An atomic read-modify-write costs as much as the rest of a
//! small message, so the thread that has taken a lock many times in a row
//! becomes its *favourite* and from then on takes it with plain stores. Any
//! other thread ends that first, by a system call, and the lock is an ordinary
//! one until a thread has again taken it many times in a row.
//!
//! ```text
//!   favourite                        another thread
//!   busy := busy + 1 (odd)           takes the ordinary lock
//!   light fence                      favourite := nobody
//!   still the favourite?             heavy fence
//!     yes: has the lock              waits until busy is even
//!   busy := busy + 1 (release)       has the lock
//! ```
//!
//! Of two threads that each write one word and then, past a fence, read the
//! other's, one at least sees what the other wrote: either the favourite sees
//! that it is none, or the other sees it busy and waits. The light fence stops
//! the compiler alone; the heavy one (`membarrier`) puts a full fence into every
//! thread of the process that runs. A kernel that denies `membarrier` from the start has no
//! favourites; one that denies it later, by a filter that the program installed meanwhile,
//! leaves no correct way to end a favour, and the process is
//! [aborted](super::Atomics::heavy_fence) rather than two threads let in.
//!
//! A favourite that was slow may still be about to write `busy` when it has long
//! been one no more, and must not end what the next favourite began: each thread
//! that ever was a favourite has a `busy` word of its own, for good, and the word
//! `favour` names the thread and its word. One that is favoured again finds its word
//! even: who ended the favour has waited for that, and the thread itself is not inside,
//! for it is about to leave the ordinary lock. There are [`WORDS`] such words, so that
//! as many threads can ever be favourites.
//!
//! # When
//!
//! To end a favour takes as long as hundreds of turns with the ordinary lock. How many
//! turns in a row win it is therefore learnt: four times as many as before if the last
//! favour was ended before it had [paid](PAYS), a quarter if it had. `busy` says how often
//! the favourite came. A thread that has the lock to itself for milliseconds at a time soon
//! has its favour back when another has passed by; a lock that is really shared costs a
//! system call in [`MOST`] turns.
//!
//! # Costs
//!
//! For the favourite three loads and two stores of words that no other thread
//! writes, where an uncontended `std::sync::Mutex` takes two atomic
//! read-modify-writes; to end a favour, one system call.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{Atomics, Lock, StdAtomics, Word};
use crate::fault::planted;

/// A mutual exclusion around `T` that is cheap for a thread that is alone with it.
pub(crate) struct Lean<T, A: Atomics = StdAtomics> {
    /// The favourite's number and its word, or [`NOBODY`]. Written under `all`.
    favour: A::Word,
    /// How often a favourite has taken and left the lock since it is one: odd while it has
    /// it. Each is written by one thread alone.
    busy: [A::Word; WORDS],
    all: A::Lock<Turns>,
    value: UnsafeCell<T>,
}

/// Who had the ordinary lock last, and how often in a row.
#[derive(Debug)]
struct Turns {
    last: u64,
    in_a_row: u64,
    /// So many in a row win the favour.
    enough: u64,
    /// Whose words those of the lock are; 0: nobody's yet.
    words: [u64; WORDS],
}

impl<T, A: Atomics> Lean<T, A> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            favour: A::Word::new(NOBODY),
            busy: std::array::from_fn(|_| A::Word::new(0)),
            all: A::Lock::new(Turns::new::<A>()),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until the calling thread has the lock, which it has until the guard
    /// is dropped.
    ///
    /// # Panics
    ///
    /// May panic, or never return, if the calling thread has the lock already.
    #[inline]
    pub(crate) fn lock(&self) -> LeanGuard<'_, T, A> {
        let busy = self.favoured();
        let turn = if busy.is_some() { None } else { Some(self.turn()) };
        LeanGuard { lock: self, _busy: busy, _turn: turn, _value: PhantomData }
    }

    /// The lock, unless another thread, or this one, has it.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<LeanGuard<'_, T, A>> {
        let busy = self.favoured();
        let turn = if busy.is_some() { None } else { Some(self.try_turn()?) };
        Some(LeanGuard { lock: self, _busy: busy, _turn: turn, _value: PhantomData })
    }

    /// Runs `body` with the value, alone.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        // A favourite needs no guard: what a guard may hold costs its drop.
        let Some(_busy) = self.favoured() else { return self.with_turn(body) };
        // SAFETY: the lock is held as long as `_busy` lives.
        body(unsafe { &mut *self.value.get() })
    }

    #[cold]
    fn with_turn<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        let _turn = self.turn();
        // SAFETY: the lock is held as long as `_turn` lives.
        body(unsafe { &mut *self.value.get() })
    }

    /// Whether the calling thread is the favourite and does not have the lock. If
    /// so it has it until the answer is dropped.
    #[inline]
    fn favoured(&self) -> Option<Busy<'_, A>> {
        let favour = self.favour.load(Relaxed);
        if favour >> WORD_BITS != A::me() {
            return None;
        }
        let busy = self.busy(favour);
        let times = busy.load(Relaxed);
        if is_odd(times) {
            return None;
        }
        busy.store(times + 1, Relaxed);
        let busy = Busy::<A> { busy, times };
        A::light_fence();
        let still = self.favour.load(Relaxed) == favour || planted(Fault::FavourUnchecked);
        still.then_some(busy)
    }

    /// Whether the calling thread has the lock as its favourite.
    fn is_mine(&self) -> bool {
        let favour = self.favour.load(Relaxed);
        favour >> WORD_BITS == A::me() && is_odd(self.busy(favour).load(Relaxed))
    }

    /// Whether the calling thread is the favourite.
    #[cfg(test)]
    pub(super) fn leans_to_me(&self) -> bool {
        self.favour.load(Relaxed) >> WORD_BITS == A::me()
    }

    #[cold]
    fn turn(&self) -> Turn<'_, A> {
        assert!(!self.is_mine(), "a thread took a lock that it has");
        self.begin_turn(self.all.lock())
    }

    #[cold]
    fn try_turn(&self) -> Option<Turn<'_, A>> {
        let favour = self.favour.load(Relaxed);
        if favour != NOBODY && is_odd(self.busy(favour).load(Relaxed)) {
            return None;
        }
        self.all.try_lock().map(|turns| self.begin_turn(turns))
    }

    /// With the ordinary lock: ends another's favour.
    fn begin_turn<'a>(&'a self, mut turns: TurnsOf<'a, A>) -> Turn<'a, A> {
        let favour = self.favour.load(Relaxed);
        if favour != NOBODY {
            let times = self.end(favour) / 2;
            turns.learn::<A>(times);
        }
        Turn { favour: &self.favour, busy: &self.busy, turns }
    }

    /// The word of a favourite.
    #[inline]
    fn busy(&self, favour: u64) -> &A::Word {
        word_of::<A>(&self.busy, favour)
    }

    /// Waits until the favourite is none. What its word says then.
    fn end(&self, favour: u64) -> u64 {
        self.favour.store(NOBODY, Relaxed);
        if !planted(Fault::FavourUnfenced) {
            A::heavy_fence();
        }
        let (busy, mut turns) = (self.busy(favour), 0);
        loop {
            let times = busy.load(Acquire);
            if !is_odd(times) || planted(Fault::FavourUnawaited) {
                return times;
            }
            A::relax(turns);
            turns = turns.saturating_add(1);
        }
    }
}

impl Turns {
    fn new<A: Atomics>() -> Self {
        Self { last: 0, in_a_row: 0, enough: A::IN_A_ROW, words: [0; WORDS] }
    }

    /// Counts one of the calling thread's. Its word, if it has won the favour.
    fn count<A: Atomics>(&mut self) -> Option<usize> {
        let me = A::number_me();
        self.in_a_row = if self.last == me { self.in_a_row + 1 } else { 1 };
        self.last = me;
        if self.in_a_row < self.enough || !A::has_heavy_fence() {
            return None;
        }
        let word = self.words.iter().position(|whose| [0, me].contains(whose))?;
        self.words[word] = me;
        self.in_a_row = 0;
        Some(word)
    }

    /// A favour is over in which the favourite came so often.
    fn learn<A: Atomics>(&mut self, times: u64) {
        self.enough = if times < PAYS {
            self.enough.saturating_mul(4).min(MOST)
        } else {
            (self.enough / 4).max(A::IN_A_ROW)
        };
    }
}

/// The value of a lock that is held.
pub(crate) struct LeanGuard<'a, T, A: Atomics = StdAtomics> {
    lock: &'a Lean<T, A>,
    /// One of the two has it.
    _busy: Option<Busy<'a, A>>,
    _turn: Option<Turn<'a, A>>,
    /// It is shared between threads only as the value may be.
    _value: PhantomData<&'a mut T>,
}

impl<T, A: Atomics> Deref for LeanGuard<'_, T, A> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held as long as the guard lives.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T, A: Atomics> DerefMut for LeanGuard<'_, T, A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held as long as the guard lives, which is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

/// A thread that is not the favourite has the lock. When it has done with it, it
/// may have won the favour.
struct Turn<'a, A: Atomics> {
    favour: &'a A::Word,
    busy: &'a [A::Word; WORDS],
    turns: TurnsOf<'a, A>,
}

type TurnsOf<'a, A> = <<A as Atomics>::Lock<Turns> as Lock<Turns>>::Guard<'a>;

impl<A: Atomics> Drop for Turn<'_, A> {
    fn drop(&mut self) {
        if let Some(word) = self.turns.count::<A>() {
            let favour = A::me() << WORD_BITS | word as u64;
            // Its own word, which is even: it counts from here.
            word_of::<A>(self.busy, favour).store(0, Relaxed);
            self.favour.store(favour, Relaxed);
        }
    }
}

/// The word of a favourite.
#[inline]
fn word_of<A: Atomics>(words: &[A::Word; WORDS], favour: u64) -> &A::Word {
    #[expect(clippy::cast_possible_truncation, reason = "three bits")]
    let word = favour as usize % WORDS;
    &words[if planted(Fault::OneBusyWord) { 0 } else { word }]
}

#[inline]
const fn is_odd(times: u64) -> bool {
    !times.is_multiple_of(2)
}

/// The favourite has the lock until this is dropped.
struct Busy<'a, A: Atomics> {
    busy: &'a A::Word,
    /// What the word said before.
    times: u64,
}

impl<A: Atomics> Drop for Busy<'_, A> {
    #[inline]
    fn drop(&mut self) {
        let order = if planted(Fault::FavourRelaxed) { Relaxed } else { Release };
        self.busy.store(self.times + 2, order);
    }
}

// SAFETY: the value moves with its lock.
unsafe impl<T: Send, A: Atomics> Send for Lean<T, A> {}
// SAFETY: the value is reached by one thread at a time.
unsafe impl<T: Send, A: Atomics> Sync for Lean<T, A> {}

impl<T: fmt::Debug> fmt::Debug for Lean<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(value) => write!(f, "{:?}", *value),
            None => f.write_str("locked"),
        }
    }
}

impl<T: Default> Default for Lean<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// No thread has this number.
const NOBODY: u64 = u64::MAX;
/// Threads that can ever be favourites of a lock.
const WORDS: usize = 8;
const WORD_BITS: u32 = 3;
/// A favourite that has come so often has saved some times what it takes to end its favour:
/// that is 2 µs, and a turn with the ordinary lock takes 10 ns more.
const PAYS: u64 = 4096;
/// Turns in a row that win a favour in any case.
const MOST: u64 = 1 << 16;

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A favourite says that it is busy and does not look whether it still is one.
    FavourUnchecked,
    /// A favour is ended without the fence.
    FavourUnfenced,
    /// A favour is ended without waiting for a favourite that is busy.
    FavourUnawaited,
    /// A favourite is done without releasing what it did.
    FavourRelaxed,
    /// All favourites share one word.
    OneBusyWord,
}
