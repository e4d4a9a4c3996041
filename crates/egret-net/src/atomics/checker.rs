//! The model checker's atomics, locks and threads underneath our protocol.

use std::sync::atomic::{AtomicU64, Ordering};

use loom::sync::atomic::fence;
use loom::thread;

use super::{Atomics, Lock, word};
use crate::rt::Instant;

/// Tries all interleavings of `body` with at most three preemptions.
pub(crate) fn check(body: fn()) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(3);
    checker.check(body);
}

#[derive(Debug)]
pub(crate) struct LoomAtomics;

impl Atomics for LoomAtomics {
    type Word = loom::sync::atomic::AtomicU64;
    type Lock<T: Send> = loom::sync::Mutex<T>;
    type Thread = thread::Thread;
    type Places = [loom::sync::atomic::AtomicU64; 2];
    const IN_A_ROW: u64 = 0;

    fn fence(order: Ordering) {
        fence(order);
    }

    fn current() -> thread::Thread {
        thread::current()
    }

    fn park(_until: Option<Instant>) {
        thread::park();
    }

    fn unpark(thread: &thread::Thread) {
        thread.unpark();
    }

    fn places() -> Self::Places {
        std::array::from_fn(|_| loom::sync::atomic::AtomicU64::new(0))
    }

    fn me() -> u64 {
        NUMBER.with(|number| *number)
    }

    fn number_me() -> u64 {
        Self::me()
    }

    fn has_heavy_fence() -> bool {
        true
    }

    fn light_fence() {
        fence(Ordering::SeqCst);
    }

    fn heavy_fence() {
        fence(Ordering::SeqCst);
    }

    fn relax(_turns: u32) {
        thread::yield_now();
    }
}

/// The checker's threads are its own, and new in every run.
fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

loom::thread_local! {
    static NUMBER: u64 = next_number();
}

impl<T: Send> Lock<T> for loom::sync::Mutex<T> {
    type Guard<'a>
        = loom::sync::MutexGuard<'a, T>
    where
        Self: 'a;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn lock(&self) -> Self::Guard<'_> {
        self.lock().unwrap()
    }

    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.try_lock().ok()
    }
}

word!(loom::sync::atomic::AtomicU64);
