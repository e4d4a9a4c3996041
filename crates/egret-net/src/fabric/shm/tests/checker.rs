//! Shared memory and cords of the model checker.

use loom::sync::atomic::AtomicU64;
use loom::sync::{Condvar, Mutex};

use crate::atomics::checker::LoomAtomics;
use crate::fabric::shm::doorbell::DoorbellSignal;
use crate::fabric::shm::doorbell_socket::DoorbellError;
use crate::fabric::shm::memory::{LINE_WORDS, Line, Peek, Readable, Writable};

/// Some lines. Leaked, as all the checker's things here: it cannot end a run in
/// which all threads wait for ever if things are dropped on the way out.
pub(super) type Memory = &'static [Line<AtomicU64>];

pub(super) fn memory(lines: usize) -> Memory {
    let line = || std::array::from_fn::<_, LINE_WORDS, _>(|_| AtomicU64::new(0));
    Box::leak((0..lines).map(|_| line()).collect())
}

impl Writable for Memory {
    type Atomics = LoomAtomics;

    fn lines(&self) -> &[Line<AtomicU64>] {
        self
    }
}

impl Readable for Memory {
    type Atomics = LoomAtomics;
    type Word = AtomicU64;

    fn lines(&self) -> &[Line<AtomicU64>] {
        self
    }
}

impl Peek for AtomicU64 {
    fn peek(&self) -> u64 {
        self.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// A cord without a kernel, in a set that says each pull once.
#[derive(Debug)]
pub(super) struct Cord {
    pulled: Mutex<Pulled>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Pulled {
    /// Whether it has something to say.
    edge: bool,
    /// Whether there is something to drain.
    full: bool,
}

impl Cord {
    pub(super) fn new() -> &'static Self {
        Box::leak(Box::new(Self { pulled: Mutex::default(), changed: Condvar::new() }))
    }

    /// As an edge-triggered wait: it takes the edge, if there is still something
    /// to drain behind it.
    pub(super) fn sleep(&self) {
        let mut pulled = self.pulled.lock().unwrap();
        while !(std::mem::take(&mut pulled.edge) && pulled.full) {
            pulled = self.changed.wait(pulled).unwrap();
        }
    }

    pub(super) fn drain(&self) {
        self.pulled.lock().unwrap().full = false;
    }
}

impl DoorbellSignal for &'static Cord {
    fn pull(&self) -> Result<(), DoorbellError> {
        *self.pulled.lock().unwrap() = Pulled { edge: true, full: true };
        self.changed.notify_one();
        Ok(())
    }
}
