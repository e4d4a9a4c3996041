//! What a pool counted, on its slow paths only.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What happened in a pool since it was built; made by
/// [`Pool::stats`](super::Pool::stats).
///
/// Takes and returns are not counted: a counter would cost them more than they
/// cost now.
///
/// ```
/// # use egret_net::buf::Pool;
/// let pool = Pool::new(64, 1)?;
/// let held = pool.take(64)?.hold();
/// assert!(pool.take(64).is_err());
/// let stats = pool.stats();
/// assert_eq!((stats.held_resident, stats.held_copied, stats.exhausted), (1, 0, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolStats {
    /// Buffers that [`hold`](super::Typed::hold) kept where they were.
    pub held_resident: u64,
    /// Buffers that [`hold`](super::Typed::hold) copied, for the class was low.
    pub held_copied: u64,
    /// Buffers copied later, by [`Held::evacuate`](super::Held::evacuate).
    pub evacuated: u64,
    /// Takes that found their class empty, those that then waited included.
    pub exhausted: u64,
}

/// The counters behind [`PoolStats`]; they order nothing.
#[derive(Debug, Default)]
pub(super) struct PoolCounters {
    pub(super) held_resident: AtomicU64,
    pub(super) held_copied: AtomicU64,
    pub(super) evacuated: AtomicU64,
    pub(super) exhausted: AtomicU64,
}

impl PoolCounters {
    pub(super) fn read(&self) -> PoolStats {
        PoolStats {
            held_resident: self.held_resident.load(Relaxed),
            held_copied: self.held_copied.load(Relaxed),
            evacuated: self.evacuated.load(Relaxed),
            exhausted: self.exhausted.load(Relaxed),
        }
    }
}
