//! An allocator that keeps count, for tests that say how much memory a path takes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The system's allocator, and how much is allocated.
///
/// ```
/// use egret_net::heap::CountingAllocator;
///
/// #[global_allocator]
/// static HEAP: CountingAllocator = CountingAllocator::new();
///
/// let (list, taken) = HEAP.during(|| vec![0_u8; 1000]);
/// assert!(taken.blocks >= 1 && taken.largest >= list.len());
/// ```
#[derive(Debug, Default)]
pub struct CountingAllocator {
    blocks: AtomicU64,
    largest: AtomicUsize,
}

/// What was allocated, by all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocations {
    /// How often.
    pub blocks: u64,
    /// Bytes of the largest.
    pub largest: usize,
}

impl CountingAllocator {
    /// Nothing is allocated yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { blocks: AtomicU64::new(0), largest: AtomicUsize::new(0) }
    }

    /// Runs `body`, and says what was allocated meanwhile. One at a time.
    pub fn during<R>(&self, body: impl FnOnce() -> R) -> (R, Allocations) {
        self.largest.store(0, Ordering::SeqCst);
        let before = self.blocks.load(Ordering::SeqCst);
        let done = body();
        let blocks = self.blocks.load(Ordering::SeqCst) - before;
        (done, Allocations { blocks, largest: self.largest.load(Ordering::SeqCst) })
    }

    fn count(&self, bytes: usize) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        self.largest.fetch_max(bytes, Ordering::Relaxed);
    }
}

// SAFETY: it does what the system's allocator does, and that keeps the contract.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: the caller keeps the contract of the same function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size());
        // SAFETY: the caller keeps the contract of the same function.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.count(size);
        // SAFETY: the caller keeps the contract of the same function, and the block came from
        // there.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of the same function, and the block came from
        // there.
        unsafe { System.dealloc(block, layout) }
    }
}
