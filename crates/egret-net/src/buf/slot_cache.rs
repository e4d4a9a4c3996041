//! Free slots that one thread keeps at hand.
//!
//! Everything here is for the thread that has the cache to itself: its owner while it
//! says that it is [busy](SlotCache::busy), or a revoker that has waited for the
//! owner. [`Biased`](super::biased::BiasedSlots) sees to that. Nothing here can
//! panic or run code of others, so the owner is never busy for long, and never
//! twice at once.

use std::sync::atomic::Ordering::Relaxed;

use super::fault::{Fault, planted};
use super::free_list::FreeList;
use crate::atomics::{Atomics, Lock, StdAtomics, Word};

/// A stack of a few slot numbers, in cache lines that other threads do not
/// touch in the normal course.
#[repr(C, align(128))]
pub(crate) struct SlotCache<A: Atomics = StdAtomics> {
    /// 1 while its owner is at it.
    pub(super) busy: A::Word,
    len: A::Word,
    /// How many it may have: not more than every second of its class.
    room: usize,
    places: A::Places,
    /// Held by the revoking thread.
    pub(super) revoking: A::Lock<()>,
}

impl<A: Atomics> SlotCache<A> {
    pub(super) fn new(count: u32) -> Self {
        let places = A::places();
        let room = places.as_ref().len().min((count as usize).div_ceil(2));
        let (busy, len) = (A::Word::new(0), A::Word::new(0));
        Self { busy, len, room, places, revoking: A::Lock::new(()) }
    }

    /// How many it has; for others than its owner, how many it had a moment ago.
    #[inline]
    pub(super) fn len(&self) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "at most the room")]
        let len = self.len.load(Relaxed) as usize;
        len
    }

    #[inline]
    pub(super) fn pop(&self) -> Option<u32> {
        let below = self.len().checked_sub(1)?;
        let slot = self.places.as_ref().get(below)?.load(Relaxed);
        self.set_len(below);
        #[expect(clippy::cast_possible_truncation, reason = "a slot's number has 24 bits")]
        Some(slot as u32)
    }

    /// `None` if it is full.
    #[inline]
    pub(super) fn push(&self, slot: u32) -> Option<()> {
        let len = self.len();
        if len >= self.room {
            return None;
        }
        self.places.as_ref().get(len)?.store(u64::from(slot), Relaxed);
        self.set_len(len + 1);
        Some(())
    }

    /// Fetches half of what it has room for from `list`, and one of them out.
    pub(super) fn refill(&self, list: &FreeList<A>) -> Option<u32> {
        let mut first = None;
        list.take_many(self.half() as u64 + 1, |slot| {
            if first.is_none() {
                first = Some(slot);
            } else {
                self.push(slot);
            }
        });
        first
    }

    /// Gives the upper half to `list`.
    pub(super) fn spill(&self, list: &FreeList<A>) {
        self.shrink(self.len().saturating_sub(self.half().max(1)), list);
    }

    /// Gives all to `list`.
    pub(super) fn flush(&self, list: &FreeList<A>) {
        if !planted(Fault::CacheForgotten) {
            self.shrink(0, list);
        }
    }

    fn shrink(&self, to: usize, list: &FreeList<A>) {
        if let Some(slots) = self.places.as_ref().get(to..self.len()) {
            list.give_many(slots);
            self.set_len(to);
        }
    }

    fn half(&self) -> usize {
        self.room / 2
    }

    #[inline]
    fn set_len(&self, len: usize) {
        self.len.store(len as u64, Relaxed);
    }
}
