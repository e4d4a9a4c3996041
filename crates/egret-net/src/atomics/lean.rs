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
//! For the favourite four loads and four stores of words that no other thread
//! writes, and for values that share its lock two loads and two stores more each; where an uncontended `std::sync::Mutex` takes two atomic
//! read-modify-writes; to end a favour, one system call.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{Atomics, Lock, StdAtomics, Word};
use crate::fault::planted;

/// A value that one thread at a time reaches, which is cheap for a thread that is alone with it.
/// Several may [share](Self::sharing) one lock: a thread that has the lock by one of them reaches the
/// others with two loads and two stores, and none of them twice. There is no guard: who drops the
/// one that took the lock first would leave it with the others in hand.
pub(crate) struct Joint<T, A: Atomics = StdAtomics> {
    gate: Arc<Gate<A>>,
    /// Whether the thread that has the lock has the value.
    is_out: UnsafeCell<bool>,
    value: UnsafeCell<T>,
}

/// The lock of one value or of several.
struct Gate<A: Atomics> {
    /// Who has the lock, or [`NOBODY`]. A thread writes its own number alone, so that it finds
    /// that there only while it has the lock. It says nothing to other threads: a plain word,
    /// at which the model checker need not stop.
    inside: AtomicU64,
    /// The favourite's number and its word, or [`NOBODY`]. Written under `all`.
    favour: A::Word,
    /// How often a favourite has taken and left the lock since it is one: odd while it has
    /// it. Each is written by one thread alone.
    busy: [A::Word; WORDS],
    all: A::Lock<Turns>,
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

impl<T, A: Atomics> Joint<T, A> {
    pub(crate) fn new(value: T) -> Self {
        let gate = Gate {
            inside: AtomicU64::new(NOBODY),
            favour: A::Word::new(NOBODY),
            busy: std::array::from_fn(|_| A::Word::new(0)),
            all: A::Lock::new(Turns::new::<A>()),
        };
        Self::behind(Arc::new(gate), value)
    }

    const fn behind(gate: Arc<Gate<A>>, value: T) -> Self {
        Self { gate, is_out: UnsafeCell::new(false), value: UnsafeCell::new(value) }
    }

    /// Another value behind the same lock.
    pub(crate) fn sharing<U>(&self, value: U) -> Joint<U, A> {
        Joint::behind(Arc::clone(&self.gate), value)
    }

    /// Runs `body` with the value, alone.
    ///
    /// # Panics
    ///
    /// If the calling thread has the value already.
    #[inline]
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        // None of these is moved: what a favourite does stays in registers.
        let (mut turn, mut busy) = (None, None);
        match self.gate.quickly() {
            Quick::Within => {}
            Quick::Favoured(word) => busy = Some(word),
            Quick::No => turn = Some(self.gate.turn()),
        }
        let _entry = Entry { gate: &self.gate, busy, turn: &mut turn };
        self.take_out();
        let _out = Out(self);
        // SAFETY: the lock is held as long as `_entry` lives, and nobody else on this thread has
        // the value as long as `_out` does.
        body(unsafe { &mut *self.value.get() })
    }

    /// Runs `body` with the value, unless a thread has the lock, be it this one.
    #[inline]
    pub(crate) fn try_with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        let (mut turn, mut busy) = (None, None);
        match self.gate.quickly() {
            Quick::Within => return None,
            Quick::Favoured(word) => busy = Some(word),
            Quick::No => turn = Some(self.gate.try_turn()?),
        }
        let _entry = Entry { gate: &self.gate, busy, turn: &mut turn };
        self.take_out();
        let _out = Out(self);
        // SAFETY: the lock is held as long as `_entry` lives, and was taken by it: nobody else on
        // this thread has the value.
        Some(body(unsafe { &mut *self.value.get() }))
    }

    /// With the lock: takes the value.
    #[inline]
    fn take_out(&self) {
        // SAFETY: only the thread that has the lock reaches the flag, and keeps no reference.
        let was_out = unsafe { std::mem::replace(&mut *self.is_out.get(), true) };
        if was_out && !planted(Fault::TakenTwice) {
            taken_twice();
        }
    }

    /// With the lock: puts the value back.
    #[inline]
    fn put_back(&self) {
        // SAFETY: only the thread that has the lock reaches the flag, and keeps no reference.
        unsafe { *self.is_out.get() = false };
    }

    /// Whether the calling thread has the lock, by this value or another.
    #[inline]
    pub(crate) fn is_mine(&self) -> bool {
        self.gate.inside.load(Relaxed) == A::me()
    }

    /// Whether the calling thread is the favourite.
    #[cfg(test)]
    pub(super) fn leans_to_me(&self) -> bool {
        self.gate.favour.load(Relaxed) >> WORD_BITS == A::me()
    }
}

#[cold]
fn taken_twice() -> ! {
    panic!(
        "this thread is inside this lock already: \
         the function of a drain answers by its `Reply`, and does not use the nic by other means"
    )
}

impl<A: Atomics> Gate<A> {
    /// The lock, if the calling thread has it or is the favourite.
    #[inline]
    fn quickly(&self) -> Quick<'_, A> {
        let me = A::me();
        if self.inside.load(Relaxed) == me {
            return Quick::Within;
        }
        let favour = self.favour.load(Relaxed);
        if favour >> WORD_BITS != me {
            return Quick::No;
        }
        let busy = self.busy(favour);
        let times = busy.load(Relaxed);
        busy.store(times + 1, Relaxed);
        A::light_fence();
        if self.favour.load(Relaxed) != favour && !planted(Fault::FavourUnchecked) {
            self.not_favoured(busy, times);
            return Quick::No;
        }
        self.inside.store(me, Relaxed);
        Quick::Favoured(busy)
    }

    /// The favourite leaves.
    #[inline]
    fn leave(&self, busy: &A::Word) {
        self.inside.store(NOBODY, Relaxed);
        let order = if planted(Fault::FavourRelaxed) { Relaxed } else { Release };
        busy.store(busy.load(Relaxed) + 1, order);
    }

    /// The favour ended while the thread came.
    #[cold]
    fn not_favoured(&self, busy: &A::Word, times: u64) {
        busy.store(times + 2, Release);
    }

    #[cold]
    fn turn(&self) -> TurnsOf<'_, A> {
        self.begin_turn(self.all.lock())
    }

    #[cold]
    fn try_turn(&self) -> Option<TurnsOf<'_, A>> {
        let favour = self.favour.load(Relaxed);
        if favour != NOBODY && is_odd(self.busy(favour).load(Relaxed)) {
            return None;
        }
        self.all.try_lock().map(|turns| self.begin_turn(turns))
    }

    /// With the ordinary lock: ends another's favour.
    fn begin_turn<'a>(&'a self, mut turns: TurnsOf<'a, A>) -> TurnsOf<'a, A> {
        let favour = self.favour.load(Relaxed);
        if favour != NOBODY {
            let times = self.end(favour) / 2;
            turns.learn::<A>(times);
        }
        self.inside.store(A::number_me(), Relaxed);
        turns
    }

    /// The thread that is not the favourite leaves. It may have won the favour.
    #[cold]
    fn end_turn(&self, turn: &mut Option<TurnsOf<'_, A>>) {
        let Some(mut turns) = turn.take() else { return };
        self.inside.store(NOBODY, Relaxed);
        if let Some(word) = turns.count::<A>() {
            let favour = A::me() << WORD_BITS | word as u64;
            // Its own word, which is even: it counts from here.
            self.busy(favour).store(0, Relaxed);
            self.favour.store(favour, Relaxed);
        }
    }

    /// The word of a favourite.
    #[inline]
    fn busy(&self, favour: u64) -> &A::Word {
        #[expect(clippy::cast_possible_truncation, reason = "three bits")]
        let word = favour as usize % WORDS;
        &self.busy[if planted(Fault::OneBusyWord) { 0 } else { word }]
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

type TurnsOf<'a, A> = <<A as Atomics>::Lock<Turns> as Lock<Turns>>::Guard<'a>;

/// How a thread comes to a lock.
enum Quick<'a, A: Atomics> {
    /// It has it already, and still has it when it leaves.
    Within,
    /// As the favourite, whose word this is.
    Favoured(&'a A::Word),
    /// Not without the ordinary lock.
    No,
}

/// A thread has the lock until this is dropped: as the favourite, or by the ordinary lock, or
/// still, if it had it before.
struct Entry<'a, 't, A: Atomics> {
    gate: &'a Gate<A>,
    busy: Option<&'a A::Word>,
    turn: &'t mut Option<TurnsOf<'a, A>>,
}

impl<A: Atomics> Drop for Entry<'_, '_, A> {
    #[inline]
    fn drop(&mut self) {
        match self.busy {
            Some(busy) => self.gate.leave(busy),
            None if self.turn.is_none() => {}
            None => self.gate.end_turn(self.turn),
        }
    }
}

/// A thread has the value until this is dropped.
struct Out<'a, T, A: Atomics>(&'a Joint<T, A>);

impl<T, A: Atomics> Drop for Out<'_, T, A> {
    #[inline]
    fn drop(&mut self) {
        self.0.put_back();
    }
}

#[inline]
const fn is_odd(times: u64) -> bool {
    !times.is_multiple_of(2)
}

// SAFETY: the value moves with its lock.
unsafe impl<T: Send, A: Atomics> Send for Joint<T, A> {}
// SAFETY: the value is reached by one thread at a time.
unsafe impl<T: Send, A: Atomics> Sync for Joint<T, A> {}

impl<T: fmt::Debug> fmt::Debug for Joint<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.try_with(|value| write!(f, "{value:?}")).unwrap_or_else(|| f.write_str("locked"))
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
    /// A thread that has a value is given it again.
    TakenTwice,
}
