//! One class of a pool under the model checker.
//!
//! A slot has a cell that its holder writes, so the checker notices two holders
//! at once, and a holder that does not see what the one before it did.

use std::ptr::NonNull;
use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::thread;

use crate::atomics::checker::LoomAtomics;
use crate::buf::biased::BiasedSlots;
use crate::buf::counts::{ClosingBalance, let_go};
use crate::buf::free_list::FreeList;
use crate::buf::waiters::SlotWaiters;

/// A pool without its memory: the lists and cells of one class.
pub(super) struct Slots {
    slots: BiasedSlots<LoomAtomics>,
    waiters: Arc<SlotWaiters<LoomAtomics>>,
    leaving: ClosingBalance<LoomAtomics>,
    cells: Vec<UnsafeCell<u32>>,
    freed: UnsafeCell<bool>,
}

impl Slots {
    /// All slots in the list.
    pub(super) fn new(count: u32) -> &'static Self {
        Self::leak(count, BiasedSlots::unbiased(count))
    }

    /// The first thread that takes has a cache.
    pub(super) fn biased(count: u32) -> &'static Self {
        Self::leak(count, BiasedSlots::new(count))
    }

    /// Leaked: the checker cannot end a run in mid-air, as it does when all
    /// threads wait for ever, if things are dropped on the way out.
    fn leak(count: u32, slots: BiasedSlots<LoomAtomics>) -> &'static Self {
        Box::leak(Box::new(Self {
            slots,
            waiters: Arc::new(SlotWaiters::new()),
            leaving: ClosingBalance::new(),
            cells: (0..count).map(UnsafeCell::new).collect(),
            freed: UnsafeCell::new(false),
        }))
    }

    pub(super) fn spawn<T: 'static>(
        &'static self,
        body: impl FnOnce(&Self) -> T + 'static,
    ) -> thread::JoinHandle<T> {
        thread::spawn(move || body(self))
    }

    /// Makes the calling thread the owner, with up to `count` slots in its cache.
    pub(super) fn own(&self, count: usize) {
        let taken: Vec<u32> = (0..count).map_while(|_| self.take()).collect();
        for slot in taken {
            self.give(slot);
        }
    }

    pub(super) fn take_all(&self) -> usize {
        std::iter::from_fn(|| self.take()).count()
    }

    pub(super) fn list(&self) -> &FreeList<LoomAtomics> {
        self.slots.list()
    }

    pub(super) fn available(&self) -> usize {
        self.slots.available()
    }

    pub(super) fn take(&self) -> Option<u32> {
        self.slots.take().inspect(|&slot| self.write(slot))
    }

    pub(super) fn wait_take(&self) -> u32 {
        self.take().unwrap_or_else(|| self.wait())
    }

    /// The part of `wait_take` that follows a take in vain.
    pub(super) fn wait(&self) -> u32 {
        let slot = self.waiters.wait_take(&self.slots, None).expect("no deadline");
        self.write(slot);
        slot
    }

    /// As `BufferClass::give`, which it stands for.
    pub(super) fn give(&self, slot: u32) {
        self.write(slot);
        self.alive();
        // SAFETY: the slots live as long as the model.
        if unsafe { BiasedSlots::give(NonNull::from(&self.slots), slot) }.is_ok() {
            return;
        }
        let queue = || {
            self.alive();
            Arc::clone(&self.waiters)
        };
        let list = NonNull::from(self.list());
        // SAFETY: the list lives as long as the model.
        if unsafe { SlotWaiters::give(queue, list, slot) } {
            self.free_if(self.leaving.came_home());
        }
    }

    /// As `PoolCore::close`.
    pub(super) fn close(&self) {
        self.alive();
        let out = self.slots.close();
        self.free_if(self.leaving.closed(out as u64));
    }

    pub(super) fn stop_reading(&self, slot: u32) {
        // SAFETY: the checker sees to it that nobody writes meanwhile.
        self.cells[slot as usize].with(|cell| assert_eq!(unsafe { *cell }, slot));
        if let_go(self.list().handles(slot)).is_some() {
            self.give(slot);
        }
    }

    pub(super) fn write(&self, slot: u32) {
        // SAFETY: the checker sees to it that nobody else has it meanwhile.
        self.cells[slot as usize].with_mut(|cell| unsafe { *cell = slot });
    }

    fn alive(&self) {
        // SAFETY: the checker sees to it that nobody frees meanwhile.
        self.freed.with(|freed| assert!(!unsafe { *freed }, "used after it was freed"));
    }

    pub(super) fn is_freed(&self) -> bool {
        // SAFETY: the checker sees to it that nobody writes meanwhile.
        self.freed.with(|freed| unsafe { *freed })
    }

    fn free_if(&self, last: bool) {
        if last {
            self.alive();
            // SAFETY: the checker sees to it that nobody uses it meanwhile.
            self.freed.with_mut(|freed| unsafe { *freed = true });
        }
    }
}
