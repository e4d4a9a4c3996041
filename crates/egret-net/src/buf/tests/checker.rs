//! The model checker's atomics, locks and threads underneath our protocol.

use std::sync::atomic::Ordering;

use loom::thread;

use crate::buf::atomics::{Atomics, Lock, word};
use crate::rt::Instant;

/// Tries all interleavings of `body` with at most three preemptions.
pub(super) fn check(body: fn()) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(3);
    checker.check(body);
}

#[derive(Debug)]
pub(super) struct LoomAtomics;

impl Atomics for LoomAtomics {
    type Word = loom::sync::atomic::AtomicU64;
    type Lock<T: Send> = loom::sync::Mutex<T>;
    type Thread = thread::Thread;

    fn current() -> thread::Thread {
        thread::current()
    }

    fn park(_until: Option<Instant>) {
        thread::park();
    }

    fn unpark(thread: &thread::Thread) {
        thread.unpark();
    }
}

impl<T: Send> Lock<T> for loom::sync::Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.lock().unwrap())
    }
}

word!(loom::sync::atomic::AtomicU64);
