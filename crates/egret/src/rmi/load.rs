//! How much a node has taken on: calls that wait or run, and their bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use egret_net::rt;

/// The account of a node's calls.
#[derive(Debug)]
pub(crate) struct Load {
    calls: AtomicUsize,
    bytes: AtomicU64,
    /// The next number of a call inside of a gate; such numbers tell calls of all nodes
    /// apart.
    next: AtomicU64,
}

impl Load {
    pub(crate) fn new() -> Self {
        let next = AtomicU64::new(rt::random());
        Self { calls: AtomicUsize::new(0), bytes: AtomicU64::new(0), next }
    }

    /// A number that no other call has.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes on a call of so many bytes, unless that would be too much.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Option<Charge> {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let charge = Charge { load: Arc::clone(self), bytes };
        // One call may be as large as it likes: its object has said how large.
        let fits = calls < CALLS_MAX && (before == 0 || before.saturating_add(bytes) <= BYTES_MAX);
        fits.then_some(charge)
    }

    /// Calls that wait or run.
    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

/// A call that was taken on; it is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    load: Arc<Load>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.load.calls.fetch_sub(1, Ordering::Relaxed);
        self.load.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Calls of a node that wait or run.
pub(crate) const CALLS_MAX: usize = 16_384;
/// Bytes of their arguments.
const BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_so_many_bytes_or_one_call_of_any_size() {
        let load = Arc::new(Load::new());
        let huge = load.take(3 * BYTES_MAX).expect("it is the only one");
        assert!(load.take(1).is_none(), "beside it there is no room");
        assert_eq!(load.calls(), 1, "what was refused is not counted");
        drop(huge);
        let half: Vec<_> = (0..2).map(|_| load.take(BYTES_MAX / 2).expect("room")).collect();
        assert!(load.take(1).is_none());
        assert!(load.take(u64::MAX).is_none(), "nor for what nobody can add up");
        drop(half);
        assert!(load.take(BYTES_MAX).is_some(), "all is given back");
    }
}
