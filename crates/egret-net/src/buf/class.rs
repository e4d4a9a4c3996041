//! What a pool is inside: size classes over one region, freed by the last owner.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::biased::BiasedSlots;
use super::buffer::Buf;
use super::counts::{ClosingBalance, depart};
use super::region::Region;
use super::slot::SlotHandle;
use super::stats::PoolCounters;
use super::waiters::SlotWaiters;
use crate::sync::deferred;

/// The inside of a pool. It is freed when the pool's handles are gone *and*
/// every buffer is home, by the thread that notices that last.
#[derive(Debug)]
pub(super) struct PoolCore {
    pub(super) region: Region,
    /// From the smallest to the largest.
    pub(super) classes: Box<[BufferClass]>,
    pub(super) counters: PoolCounters,
    /// Where slots go that were [lent](super::visit) to this process.
    host: Option<Box<dyn VisitHost>>,
    leaving: ClosingBalance,
}

/// Takes the slots of a visit that this process has dropped.
pub(crate) trait VisitHost: std::fmt::Debug + Send + Sync {
    /// The last handle to a slot is gone. It must not panic.
    fn dropped(&self, class: u16, number: u32);
}

/// The slots of one size. What a take and a return read of it is in its first
/// line, and what they write is elsewhere.
#[derive(Debug)]
#[repr(C, align(128))]
pub(super) struct BufferClass {
    pub(super) slots: BiasedSlots,
    base: NonNull<u8>,
    stride: usize,
    pub(super) bytes: usize,
    pub(super) low_water: usize,
    /// Its own owner, so that a wake needs nothing of the pool any more.
    pub(super) waiters: Arc<SlotWaiters>,
    core: AtomicPtr<PoolCore>,
    reclaims: Box<[Mutex<Option<Reclaim>>]>,
    index: u16,
}

/// What runs when the last reader of a shared buffer is gone.
pub(super) struct Reclaim(pub(super) Box<dyn FnOnce(Buf) + Send>);

impl Reclaim {
    /// Gives the buffer back: at once, or when the thread has given a lock up that the callback may want.
    pub(super) fn run(self, buf: Buf) {
        deferred::run(move || (self.0)(buf));
    }
}

/// Where the slots of a class lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClassLayout {
    pub(super) bytes: usize,
    pub(super) stride: usize,
    pub(super) offset: usize,
    pub(super) count: u32,
    pub(super) low_water: usize,
}

impl PoolCore {
    /// Cuts `region` into classes. The caller has seen to it that the layouts
    /// lie in it and do not overlap.
    pub(super) fn new(region: Region, layouts: &[ClassLayout]) -> NonNull<Self> {
        Self::build(region, layouts, None, BiasedSlots::new)
    }

    /// As [`new`](Self::new), with all slots away, at another process that has
    /// the pool; those that come go to `host` in the end. It is left, not closed.
    pub(super) fn visit(
        region: Region,
        layouts: &[ClassLayout],
        host: Box<dyn VisitHost>,
    ) -> NonNull<Self> {
        Self::build(region, layouts, Some(host), BiasedSlots::away)
    }

    fn build(
        region: Region,
        layouts: &[ClassLayout],
        host: Option<Box<dyn VisitHost>>,
        slots: fn(u32) -> BiasedSlots,
    ) -> NonNull<Self> {
        let base = region.base();
        let cut = |(index, layout): (usize, &ClassLayout)| {
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            BufferClass::new(base, *layout, index, slots(layout.count))
        };
        let classes = layouts.iter().enumerate().map(cut).collect();
        let (counters, leaving) = (PoolCounters::default(), ClosingBalance::new());
        let core = Box::new(Self { region, classes, counters, host, leaving });
        let core = NonNull::from(Box::leak(core));
        // SAFETY: just made, and not freed before it is closed.
        for class in &unsafe { core.as_ref() }.classes {
            class.core.store(core.as_ptr(), Ordering::Relaxed);
        }
        core
    }

    /// Ends the taking of buffers; the pool is freed when the last is home.
    ///
    /// # Safety
    ///
    /// Called once, by the last handle, which does not use `core` afterwards.
    pub(super) unsafe fn close(core: NonNull<Self>) {
        // SAFETY: freed only after the balance below is zero.
        let this = unsafe { core.as_ref() };
        let out: usize = this.classes.iter().map(|class| class.slots.close()).sum();
        if this.leaving.closed(out as u64) {
            // SAFETY: no handle, and every buffer is home.
            unsafe { Self::free(core) };
        }
    }

    /// Ends a visit to which `met` slots came that were not given back by their
    /// holders; what is still here goes to the host when it is dropped.
    ///
    /// # Safety
    ///
    /// Called once, for a core made by [`visit`](Self::visit), by who does not
    /// use it afterwards.
    pub(super) unsafe fn leave(core: NonNull<Self>, met: u64) {
        // SAFETY: freed only after the balance below is zero.
        let leaving = unsafe { &(*core.as_ptr()).leaving };
        if leaving.closed(met) {
            // SAFETY: the visit is over, and nothing is here.
            unsafe { Self::free(core) };
        }
    }

    pub(super) fn is_visit(&self) -> bool {
        self.host.is_some()
    }

    /// A buffer came home to a closed class, or left a visit.
    ///
    /// # Safety
    ///
    /// Called once per such buffer, by its last handle, which does not use
    /// `core` afterwards.
    unsafe fn came_home(core: NonNull<Self>) {
        // SAFETY: freed only after this buffer is accounted for.
        let leaving = unsafe { &(*core.as_ptr()).leaving };
        if leaving.came_home() {
            // SAFETY: no handle, and this was the last buffer.
            unsafe { Self::free(core) };
        }
    }

    unsafe fn free(core: NonNull<Self>) {
        // SAFETY: made by `Box::leak` in `new`, and the balance of the leaving
        // reaches zero once.
        drop(unsafe { Box::from_raw(core.as_ptr()) });
    }
}

impl BufferClass {
    fn new(region: NonNull<u8>, layout: ClassLayout, index: u16, slots: BiasedSlots) -> Self {
        // SAFETY: the layout lies in the region, as the caller of `PoolCore::new`
        // has seen to.
        let base = unsafe { region.add(layout.offset) };
        Self {
            slots,
            base,
            stride: layout.stride,
            bytes: layout.bytes,
            low_water: layout.low_water,
            waiters: Arc::new(SlotWaiters::new()),
            core: AtomicPtr::new(std::ptr::null_mut()),
            reclaims: (0..layout.count).map(|_| Mutex::new(None)).collect(),
            index,
        }
    }

    /// Takes a buffer of `len` bytes, at most [`bytes`](Self::bytes).
    #[inline]
    pub(super) fn take(&self, len: usize) -> Option<SlotHandle> {
        self.slots.take().map(|number| self.slot(number, len))
    }

    /// The only handle to a slot that was just taken off the list.
    #[inline]
    pub(super) fn slot(&self, number: u32, len: usize) -> SlotHandle {
        debug_assert!(len <= self.bytes, "the class was chosen to fit");
        // SAFETY: the list numbers as many slots as the layout has.
        let start = unsafe { self.base.add(number as usize * self.stride) };
        SlotHandle { class: NonNull::from(self), start, len, capacity: self.bytes, number }
    }

    /// Gives a slot back.
    ///
    /// # Safety
    ///
    /// The caller was the last handle of the slot, and uses neither the slot
    /// nor the class afterwards: the pool may be gone.
    #[inline]
    pub(super) unsafe fn give(class: NonNull<Self>, number: u32) {
        // SAFETY: the pool lives while one of its slots is out.
        let slots = NonNull::from(unsafe { &(*class.as_ptr()).slots });
        // SAFETY: the caller holds the slot.
        let given = unsafe { BiasedSlots::give(slots, number) };
        if given.is_err() {
            // SAFETY: as the caller promised; the slot was not given.
            unsafe { Self::give_flagged(class, number) };
        }
    }

    #[cold]
    unsafe fn give_flagged(class: NonNull<Self>, number: u32) {
        // SAFETY: the pool lives while one of its slots is out.
        let this = unsafe { class.as_ref() };
        let (core, list) = (this.core(), NonNull::from(this.slots.list()));
        // SAFETY: as above.
        if let Some(host) = unsafe { &(*core.as_ptr()).host } {
            depart(this.handles(number), || host.dropped(this.index, number));
            // SAFETY: this slot's last handle says so once.
            return unsafe { PoolCore::came_home(core) };
        }
        // SAFETY: called before the slot is back; the pool lives until then.
        let queue = move || Arc::clone(unsafe { &(*class.as_ptr()).waiters });
        // SAFETY: the caller holds the slot.
        if unsafe { SlotWaiters::give(queue, list, number) } {
            // SAFETY: this slot's last handle says so once.
            unsafe { PoolCore::came_home(core) };
        }
    }

    /// The count of the handles to a slot that is out.
    #[inline]
    pub(super) fn handles(&self, number: u32) -> &AtomicU64 {
        self.slots.list().handles(number)
    }

    /// Which of the pool's classes it is, from the smallest.
    pub(super) fn index(&self) -> u16 {
        self.index
    }

    /// Where its slots lie, seen from the start of the region.
    pub(super) fn layout(&self, region: &Region) -> ClassLayout {
        let offset = self.base.as_ptr().addr() - region.base().as_ptr().addr();
        let count = u32::try_from(self.slots.list().count()).expect("it was made from one");
        let (bytes, stride, low_water) = (self.bytes, self.stride, self.low_water);
        ClassLayout { bytes, stride, offset, count, low_water }
    }

    /// Whether received data should rather be copied than stay.
    pub(super) fn is_low(&self) -> bool {
        self.slots.available() < self.low_water
    }

    /// The pool it belongs to.
    pub(super) fn core(&self) -> NonNull<PoolCore> {
        NonNull::new(self.core.load(Ordering::Relaxed)).expect("set before the pool is handed out")
    }

    /// Puts down, or takes away, what runs when a shared slot is free.
    pub(super) fn swap_reclaim(&self, number: u32, reclaim: Option<Reclaim>) -> Option<Reclaim> {
        let place = &self.reclaims[number as usize];
        std::mem::replace(&mut *place.lock().unwrap_or_else(PoisonError::into_inner), reclaim)
    }
}

// SAFETY: the pointer to the region's memory is only ever handed out slot by
// slot, each to one holder at a time; the free list keeps that.
unsafe impl Send for BufferClass {}
// SAFETY: as for `Send`; everything that changes is atomic or behind a lock.
unsafe impl Sync for BufferClass {}

impl std::fmt::Debug for Reclaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reclaim")
    }
}
