//! The free slots of one size class: a [list](super::free_list) that all
//! threads share, and over it a [cache](super::slot_cache) that is one thread's.
//!
//! # The owner
//!
//! The first thread that takes from a class owns its cache and takes and
//! returns without an atomic read-modify-write; the other threads use the list.
//! A cache that is empty is filled from the list, and one that is full gives to
//! it, half of its room at a time.
//!
//! ```text
//!   owner:   NOBODY ──▶ number of a thread ──▶ REVOKING ──▶ REVOKED
//!               └──────────────────────────────▲
//! ```
//!
//! # Revocation
//!
//! What is in the cache must not be missed by others. So a thread that finds the list
//! empty, is about to sleep or closes the pool *revokes* first: from then on,
//! and for ever, all threads use the list, which has what was in the cache.
//!
//! ```text
//!   owner                            revoker
//!   busy := 1                        owner := REVOKING
//!   light fence                      heavy fence
//!   owner still me?                  wait until busy = 0
//!     yes: use the cache             give the cache to the list
//!   busy := 0 (release)              owner := REVOKED
//! ```
//!
//! Of two threads that each write one word and then, past a fence, read the
//! other's, one at least sees what the other wrote. Either the owner sees that
//! it is no longer the owner and keeps its hands off, or the revoker sees that
//! it is busy, waits, and with `busy = 0` sees all it did. The owner's fence is
//! light: it only stops the compiler. The revoker's is a system call
//! (`membarrier`) that puts a full fence into every thread of the process that
//! runs: before it, the owner's `busy := 1` has become visible; after it, the
//! owner reads `REVOKING`. Where the kernel has no such call a class is born
//! revoked; where it denies the call later the process is
//! [aborted](crate::atomics::Atomics::heavy_fence).
//!
//! A revocation waits for a thread, which may have been preempted while busy:
//! for a few instructions as a rule, for a time slice at worst, and once in the
//! life of a class. All else is lock-free.
//!
//! This implies, for the parts of the pool that were there before:
//!
//! * While the owner is busy with its cache the list has no flag: they are set
//!   after a revocation, and that waits.
//! * A waiter sleeps only after a revocation, so every later return goes to the
//!   list and sees the *waiting* bit.
//! * A pool is closed only after a revocation, so the list knows how many slots
//!   are out. `busy := 0` is the last thing an owner's return touches, since a
//!   closer that waited for it may free the pool.
//! * A thread that ended leaves its cache to the thread that revokes it.
//!
//! # Costs
//!
//! See the [module above](super#costs).

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::fault::{self, Fault, planted};
use super::free_list::{Flagged, FreeList};
use super::slot_cache::SlotCache;
use crate::atomics::{Atomics, Lock, StdAtomics, Word};

/// The free slots of a class, known by their numbers.
pub(crate) struct BiasedSlots<A: Atomics = StdAtomics> {
    owner: A::Word,
    cache: Box<SlotCache<A>>,
    list: FreeList<A>,
}

impl<A: Atomics> BiasedSlots<A> {
    /// `count` free slots, and no cache yet.
    pub(crate) fn new(count: u32) -> Self {
        let owner = if A::has_heavy_fence() { NOBODY } else { REVOKED };
        Self { owner: A::Word::new(owner), ..Self::unbiased(count) }
    }

    /// The same for all threads from the beginning.
    pub(crate) fn unbiased(count: u32) -> Self {
        let (cache, list) = (Box::new(SlotCache::new(count)), FreeList::new(count));
        Self { owner: A::Word::new(REVOKED), cache, list }
    }

    /// Slots that are [away](FreeList::away).
    pub(crate) fn away(count: u32) -> Self {
        let (cache, list) = (Box::new(SlotCache::new(0)), FreeList::away(count));
        Self { owner: A::Word::new(REVOKED), cache, list }
    }

    /// The list that all share.
    #[inline]
    pub(crate) fn list(&self) -> &FreeList<A> {
        &self.list
    }

    /// How many slots are free; while others take and give, how many were a
    /// moment ago.
    pub(crate) fn available(&self) -> usize {
        (self.list.available() + self.cache.len()).min(self.list.count())
    }

    /// Takes a free slot; `None` if there is none.
    #[inline]
    pub(crate) fn take(&self) -> Option<u32> {
        match self.mine(|cache, _| cache.pop()) {
            Some(slot) => Some(slot),
            None => self.take_shared(),
        }
    }

    #[inline(never)]
    fn take_shared(&self) -> Option<u32> {
        if let Some(slot) = self.mine(SlotCache::refill) {
            return Some(slot);
        }
        match self.owner.load(Relaxed) {
            NOBODY => self.claim(),
            // The owner has found both the cache and the list empty.
            owner if owner == A::me() => return None,
            _ => {}
        }
        self.list.take().or_else(|| self.take_cached())
    }

    #[cold]
    fn claim(&self) {
        // If it fails another thread was first, or revoked.
        let _ = self.owner.compare_exchange_weak(NOBODY, A::number_me(), Relaxed, Relaxed);
    }

    /// Takes a slot that may be in another thread's cache.
    #[cold]
    fn take_cached(&self) -> Option<u32> {
        self.revoke();
        self.list.take()
    }

    /// Gives a slot back as [`FreeList::give`] does, and with its promises.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline]
    pub(crate) unsafe fn give(this: NonNull<Self>, slot: u32) -> Result<(), Flagged> {
        // SAFETY: as the caller promised; what follows uses `this` only if the
        // slot was not given.
        match unsafe { Self::owned(this, |cache, _| cache.push(slot)) } {
            Some(()) => Ok(()),
            // SAFETY: as the caller promised.
            None => unsafe { Self::give_shared(this, slot) },
        }
    }

    #[inline(never)]
    unsafe fn give_shared(this: NonNull<Self>, slot: u32) -> Result<(), Flagged> {
        let spill = |cache: &SlotCache<A>, list: &FreeList<A>| {
            cache.spill(list);
            cache.push(slot)
        };
        // SAFETY: as the caller promised; and as in `give`.
        if unsafe { Self::owned(this, spill) }.is_some() {
            return Ok(());
        }
        // SAFETY: alive until the slot is back, as the caller promised.
        let list = NonNull::from(unsafe { &(*this.as_ptr()).list });
        // SAFETY: as the caller promised.
        unsafe { FreeList::give(list, slot) }
    }

    /// Makes the list all there is, for ever.
    #[cold]
    pub(crate) fn revoke(&self) {
        if self.owner.load(Acquire) == REVOKED {
            return;
        }
        self.cache.revoking.with(|()| {
            if self.owner.load(Acquire) == REVOKED {
                return;
            }
            let owner = self.owner.swap(fault::owner_while_revoking(REVOKING, REVOKED), Relaxed);
            if owner != NOBODY && owner != A::me() {
                self.wait_for_owner();
            }
            self.cache.flush(&self.list);
            self.owner.store(REVOKED, Release);
        });
    }

    fn wait_for_owner(&self) {
        A::heavy_fence();
        let mut turns = 0;
        while fault::is_awaited(self.cache.busy.load(Acquire) != 0) {
            A::relax(turns);
            turns = turns.saturating_add(1);
        }
    }

    /// Closes the class for ever and returns how many slots are still out.
    #[cold]
    pub(crate) fn close(&self) -> usize {
        fault::revoke_to_close(|| self.revoke());
        self.list.close()
    }

    /// Whether a thread that owned the cache does, now that it is busy.
    #[inline]
    fn is_still_of(&self, me: u64) -> bool {
        self.owner.load(Relaxed) == me || planted(Fault::CheckBeforeBusy)
    }

    #[inline]
    fn mine<R>(&self, body: impl FnOnce(&SlotCache<A>, &FreeList<A>) -> Option<R>) -> Option<R> {
        // SAFETY: borrowed, so alive.
        unsafe { Self::owned(NonNull::from(self), body) }
    }

    /// Runs `body` with the cache if the calling thread owns it. `None` if it
    /// does not, or `body` says so.
    ///
    /// # Safety
    ///
    /// `this` is alive, until `body` has given the slot that keeps it so; then
    /// the end of being busy is the last that touches it.
    #[inline]
    unsafe fn owned<R>(
        this: NonNull<Self>,
        body: impl FnOnce(&SlotCache<A>, &FreeList<A>) -> Option<R>,
    ) -> Option<R> {
        // SAFETY: alive, as the caller promised; not an argument, so not
        // promised to be alive to the end of the function.
        let (this, me) = (unsafe { this.as_ref() }, A::me());
        if this.owner.load(Relaxed) != me {
            return None;
        }
        let cache = &*this.cache;
        let busy = &cache.busy;
        busy.store(1, Relaxed);
        fault::light_fence::<A>();
        let outcome = if this.is_still_of(me) { body(cache, &this.list) } else { None };
        busy.store(0, fault::done_order(Release));
        outcome
    }
}

impl<A: Atomics> std::fmt::Debug for BiasedSlots<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cached = self.cache.len();
        f.debug_struct("BiasedSlots")
            .field("available", &self.available())
            .field("cached", &cached)
            .finish_non_exhaustive()
    }
}

/// No thread has taken yet.
const NOBODY: u64 = u64::MAX;
/// A thread returns the cache to the list.
const REVOKING: u64 = u64::MAX - 1;
/// There is no cache any more.
const REVOKED: u64 = u64::MAX - 2;
