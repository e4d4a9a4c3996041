//! The cores that the methods of a node use, as far as that tells who is to run the next one.
//!
//! A node counts its methods that are under way: those of workers, and those of receiving threads that
//! take long. What other programs of the machine do is not known, nor whether a method computes or waits
//! for something that is no call: each counts as a core in use.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use egret_net::rt::{self, Instant};
use egret_node::am::LinkPeer;

use crate::rmi::fault::{Fault, planted};

/// The cores of a machine, and how many of them the methods of a node use.
#[derive(Debug)]
pub(crate) struct CoreUse {
    all: usize,
    /// Workers that run a call, or are about to.
    workers: AtomicUsize,
    /// Receiving threads that run a method which takes long.
    receivers: AtomicUsize,
}

impl CoreUse {
    pub(crate) const fn new(all: usize) -> Self {
        Self { all, workers: AtomicUsize::new(0), receivers: AtomicUsize::new(0) }
    }

    /// So many workers run calls, or are about to.
    pub(crate) fn set_workers(&self, workers: usize) {
        self.workers.store(workers, Relaxed);
    }

    /// A receiving thread runs a method that takes long, until this is dropped.
    #[cold]
    pub(crate) fn receives(&self) -> CoreInUse<'_> {
        self.receivers.fetch_add(1, Relaxed);
        CoreInUse(self)
    }

    /// Whether a receiving thread leaves a method that takes long to a worker: if there is something
    /// else to do meanwhile, and a core to do that. `waits` tells whether another call waits.
    pub(crate) fn passes_on(&self, waits: impl FnOnce() -> bool) -> bool {
        let used = self.workers.load(Relaxed) + self.receivers.load(Relaxed);
        // One is the receiving thread's.
        used + 1 < self.all && (used > 0 || waits()) && !planted(Fault::NeverPassed)
    }
}

/// A core that a receiving thread uses.
#[derive(Debug)]
pub(crate) struct CoreInUse<'a>(&'a CoreUse);

impl Drop for CoreInUse<'_> {
    fn drop(&mut self) {
        self.0.receivers.fetch_sub(1, Relaxed);
    }
}

/// The calling thread, which receives, has run a method that takes long.
#[cold]
pub(crate) fn has_run(caller: LinkPeer) {
    LAST.set(Some((caller, rt::now())));
}

/// Whether a call that has just been received has waited while the calling thread ran one of another
/// caller: as callers that call in turns do, of which none waits when a method starts.
pub(crate) fn has_waited(caller: LinkPeer) -> bool {
    LAST.get().is_some_and(|(last, ended)| last != caller && rt::now() - ended < AT_ONCE)
}

thread_local! {
    /// Whose method that takes long the thread has run last, and when that ended.
    static LAST: Cell<Option<(LinkPeer, Instant)>> = const { Cell::new(None) };
}

/// What is received so soon after a method was there before.
const AT_ONCE: Duration = Duration::from_micros(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rmi::fault::caught;

    #[test]
    fn a_method_is_passed_on_if_something_waits_and_a_core_is_idle() {
        passes_on();
        assert!(caught(Fault::NeverPassed, passes_on));
    }

    fn passes_on() {
        let cores = CoreUse::new(3);
        assert!(!cores.passes_on(|| false), "nothing else is to be done");
        assert!(cores.passes_on(|| true));
        cores.set_workers(1);
        assert!(cores.passes_on(|| false), "there are two callers at least");
        let one = cores.receives();
        assert!(!cores.passes_on(|| true), "the third core is the receiving thread's");
        cores.set_workers(0);
        assert!(cores.passes_on(|| true), "a core is idle again");
        drop(one);
        assert!(!cores.passes_on(|| false), "all are");
    }

    #[test]
    fn with_one_core_nothing_is_passed_on() {
        let cores = CoreUse::new(1);
        assert!(!cores.passes_on(|| true));
    }
}
