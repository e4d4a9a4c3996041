//! The free slots of one size class, as a lock-free stack; all of them, or all
//! but those in a thread's [cache](super::biased).
//!
//! # The head
//!
//! ```text
//!  63                                26  25      24     23                 0
//! +------------------------------------+-------+-------+-------------------+
//! | tag                                |waiting|closed | top slot, or NONE |
//! +------------------------------------+-------+-------+-------------------+
//! ```
//!
//! * A take replaces the top by the slot under it and adds one to the *tag*. A
//!   head that was read, taken and given back therefore differs from the one
//!   read. (A thread would have to sleep through exactly 2^38 takes to be
//!   fooled: an hour and a half of nothing else.)
//! * *waiting* is set only while the stack is empty, by a waiter that already
//!   stands in the queue. The thread that gives the next slot clears it in the same
//!   exchange and owes the queue a wake. The bit and the emptiness it speaks of
//!   are one word, so no fence is needed between looking and sleeping.
//! * *closed* is for ever. A slot that comes home after it is not put back; its
//!   bringer is told, and the last one frees the pool.
//!
//! A stack that is not empty has neither bit set, so [`take`](FreeList::take)
//! never looks at them.
//!
//! # The slots
//!
//! A free slot's *link* holds the slot under it and its *depth*, the number of
//! free slots from it down. How many are free is then a load of the head and a
//! load of the top's link, and no thread maintains a counter. A slot's *handles*
//! counts who holds it; it is 1 while the slot is free and while it has one
//! holder, so neither a take nor the usual return writes it.
//!
//! # Costs
//!
//! See the [module above](super#costs).

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::fault::{self, Fault, planted};
use crate::atomics::{Atomics, StdAtomics, Word};

/// A stack of free slots, known by their numbers.
#[derive(Debug)]
pub(crate) struct FreeList<A: Atomics = StdAtomics> {
    stack: Box<Stack<A>>,
    /// Apart from the links: a thread with a cache reads the counts of its
    /// slots and need not wait for those who write the links of others.
    handles: Box<[A::Word]>,
}

/// What takes and gives write. It has its cache lines to itself (two, for they
/// are fetched in pairs), for the same reason.
#[derive(Debug)]
#[repr(align(128))]
struct Stack<A: Atomics> {
    head: A::Word,
    links: Box<[A::Word]>,
}

/// What became of a slot that was given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// The slot is free.
    Free,
    /// The slot is free and the giver owes the queue a wake.
    FreeAndAwaited,
    /// The list was closed: the slot is gone, and its giver tells the pool.
    Closed,
}

/// Why [`FreeList::give`] did not take the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flagged;

impl<A: Atomics> FreeList<A> {
    /// The most slots a list can have.
    pub(crate) const COUNT_MAX: usize = number(NONE) as usize;

    /// A list of `count` free slots, the lowest on top.
    pub(crate) fn new(count: u32) -> Self {
        assert!(count as usize <= Self::COUNT_MAX, "a class has at most 2^24 - 1 slots");
        let link = |slot: u32| {
            let under = if slot + 1 == count { NONE } else { u64::from(slot + 1) };
            A::Word::new(linked(under, u64::from(count - slot)))
        };
        let head = A::Word::new(if count == 0 { NONE } else { 0 });
        let stack = Box::new(Stack { head, links: (0..count).map(link).collect() });
        Self { stack, handles: (0..count).map(|_| A::Word::new(1)).collect() }
    }

    /// A list of `count` slots that are away, and never in it: closed from the
    /// beginning. Their handles are counted from zero.
    pub(crate) fn away(count: u32) -> Self {
        assert!(count as usize <= Self::COUNT_MAX, "a class has at most 2^24 - 1 slots");
        let zeros = || (0..count).map(|_| A::Word::new(0)).collect();
        let stack = Stack { head: A::Word::new(NONE | CLOSED), links: zeros() };
        Self { stack: Box::new(stack), handles: zeros() }
    }

    /// The slots it was made with.
    pub(crate) fn count(&self) -> usize {
        self.handles.len()
    }

    /// How many slots are free; while others take and give, how many were a
    /// moment ago.
    pub(crate) fn available(&self) -> usize {
        let depth = self.depth(self.head().load(Acquire) & INDEX);
        usize::try_from(depth).expect("a depth has 32 bits").min(self.count())
    }

    /// Takes a free slot; `None` if there is none.
    #[inline]
    pub(crate) fn take(&self) -> Option<u32> {
        let mut head = self.head().load(Acquire);
        loop {
            let top = head & INDEX;
            if top == NONE {
                return None;
            }
            let new = without(head, self.under(top));
            match self.head().compare_exchange_weak(head, new, Acquire, Acquire) {
                Ok(_) => return Some(number(top)),
                Err(seen) => head = seen,
            }
        }
    }

    /// Takes up to `most` slots at once, but not more than every second that is
    /// free, and hands them to `each`, the top first.
    pub(crate) fn take_many(&self, most: u64, mut each: impl FnMut(u32)) {
        let (mut slot, end) = self.cut(most);
        while slot != end {
            let under = self.under(slot);
            each(number(slot));
            slot = under;
        }
    }

    /// Takes slots off the top; the first, and the one that the last was on.
    ///
    /// The links it follows may change under it. Then the tag has changed too,
    /// or the top, and the exchange fails: a slot leaves the list only by a take.
    fn cut(&self, most: u64) -> (u64, u64) {
        let mut head = self.head().load(Acquire);
        loop {
            let top = head & INDEX;
            let count = most.min(self.depth(top).div_ceil(2));
            let end = (0..count).fold(top, |slot, _| self.under(slot));
            if top == end {
                return (top, end);
            }
            match self.head().compare_exchange_weak(head, without(head, end), Acquire, Acquire) {
                Ok(_) => return (top, end),
                Err(seen) => head = seen,
            }
        }
    }

    /// Gives a slot back, unless a thread waits or the list is closed: then
    /// [`give_flagged`](Self::give_flagged) has to, after the caller has made
    /// sure of whatever it needs for the wake.
    ///
    /// # Safety
    ///
    /// The caller holds `slot`, and the list lives as long as a slot of it is
    /// out. That is over the moment this slot is back, when another thread may
    /// free the list; hence the pointer, which promises less than `&self`, and
    /// the exchange as the last thing that touches the list.
    #[inline]
    pub(crate) unsafe fn give(list: NonNull<Self>, slot: u32) -> Result<(), Flagged> {
        // SAFETY: alive until the slot is back, as the caller promised.
        let list = unsafe { list.as_ref() };
        let (word, link) = (list.head(), list.link(slot));
        let mut head = word.load(Acquire);
        loop {
            if head & FLAGS != 0 {
                return Err(Flagged);
            }
            let depth = list.depth(head & INDEX);
            match push(word, link, head, depth, slot) {
                Ok(()) => return Ok(()),
                Err(seen) => head = seen,
            }
        }
    }

    /// Gives a slot back whatever the flags say.
    ///
    /// # Safety
    ///
    /// As for [`give`](Self::give).
    #[cold]
    pub(crate) unsafe fn give_flagged(list: NonNull<Self>, slot: u32) -> Given {
        // SAFETY: alive until the slot is back, as the caller promised.
        let list = unsafe { list.as_ref() };
        let (word, link) = (list.head(), list.link(slot));
        let mut head = word.load(Acquire);
        loop {
            if head & CLOSED != 0 {
                return Given::Closed;
            }
            let depth = list.depth(head & INDEX);
            match push(word, link, head, depth, slot) {
                Ok(()) if head & WAITING == 0 => return Given::Free,
                Ok(()) => return Given::FreeAndAwaited,
                Err(seen) => head = seen,
            }
        }
    }

    /// Gives slots back at once, the last on top. Only while no flag can be
    /// set, and for who keeps the list alive otherwise than by these slots.
    pub(crate) fn give_many(&self, slots: &[A::Word]) {
        let mut head = self.head().load(Acquire);
        while !slots.is_empty() {
            let (mut top, mut depth) = (head & INDEX, self.depth(head & INDEX));
            for slot in slots.iter().map(|slot| slot.load(Relaxed)) {
                depth += 1;
                self.link(number(slot)).store(linked(top, depth), Relaxed);
                top = slot;
            }
            let new = (head & !INDEX) | top;
            match self.head().compare_exchange_weak(head, new, Release, Acquire) {
                Ok(_) => return,
                Err(seen) => head = seen,
            }
        }
    }

    /// Raises the waiting bit. `false` if there is something to take instead.
    #[cold]
    pub(crate) fn raise_waiting(&self) -> bool {
        let mut head = self.head().load(Acquire);
        loop {
            if head & INDEX != NONE {
                return false;
            }
            if head & WAITING != 0 {
                return true;
            }
            match self.head().compare_exchange_weak(head, head | WAITING, AcqRel, Acquire) {
                Ok(_) => return true,
                Err(seen) => head = seen,
            }
        }
    }

    /// Closes the list for ever and returns how many slots are still out.
    #[cold]
    pub(crate) fn close(&self) -> usize {
        let head = self.head().swap(NONE | CLOSED, AcqRel);
        let free = usize::try_from(self.depth(head & INDEX)).expect("a depth has 32 bits");
        let out = self.count() - free;
        if planted(Fault::CloseMiscounts) { out.saturating_sub(1) } else { out }
    }

    /// The count of the handles to a slot that is out.
    #[inline]
    pub(crate) fn handles(&self, slot: u32) -> &A::Word {
        &self.handles[slot as usize]
    }

    #[inline]
    fn link(&self, slot: u32) -> &A::Word {
        &self.stack.links[slot as usize]
    }

    #[inline]
    fn head(&self) -> &A::Word {
        &self.stack.head
    }

    /// The slot under `slot`, if that is in the list; if not, some slot or none.
    #[inline]
    fn under(&self, slot: u64) -> u64 {
        if slot == NONE { NONE } else { self.link(number(slot)).load(Relaxed) & INDEX }
    }

    #[inline]
    fn depth(&self, top: u64) -> u64 {
        if top == NONE { 0 } else { self.link(number(top)).load(Relaxed) >> 32 }
    }
}

/// Tries once to put `slot`, whose link is `link`, on the top that `head` names.
#[inline]
fn push<W: Word>(word: &W, link: &W, head: u64, depth: u64, slot: u32) -> Result<(), u64> {
    link.store(linked(head & INDEX, depth + 1), Relaxed);
    let new = (head & !(INDEX | WAITING)) | u64::from(slot);
    word.compare_exchange_weak(head, new, fault::push_order(Release), Acquire)?;
    Ok(())
}

/// The head after a take that leaves `top` on top.
#[inline]
fn without(head: u64, top: u64) -> u64 {
    let tag = if planted(Fault::NoTag) { 0 } else { TAG };
    (head & !INDEX).wrapping_add(tag) | top
}

#[inline]
const fn linked(under: u64, depth: u64) -> u64 {
    depth << 32 | under
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "an index has 24 bits")]
const fn number(index: u64) -> u32 {
    index as u32
}

const INDEX: u64 = (1 << 24) - 1;
const NONE: u64 = INDEX;
const CLOSED: u64 = 1 << 24;
const WAITING: u64 = 1 << 25;
const FLAGS: u64 = CLOSED | WAITING;
const TAG: u64 = 1 << 26;
