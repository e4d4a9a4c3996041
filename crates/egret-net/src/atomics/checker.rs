//! The model checker's atomics, locks and threads underneath our protocol.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loom::sync::atomic::fence;
use loom::thread;

use super::{Atomics, FenceFault, Lock, word};
use crate::fault::planted;
use crate::rt::Instant;

/// Tries all interleavings of `body` with at most [`preemptions`].
pub(crate) fn check(body: fn()) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(preemptions());
    checker.check(body);
}

/// How many preemptions a model tries at most: three with `EGRET_TESTS=all` and where a fault is planted,
/// which the model must find; two in other runs, which take a fifth of the time.
pub(crate) fn preemptions() -> usize {
    if crate::rt::tries_all() || crate::fault::is_any_planted() { 3 } else { 2 }
}

#[derive(Debug)]
pub(crate) struct LoomAtomics;

impl Atomics for LoomAtomics {
    type Word = loom::sync::atomic::AtomicU64;
    type Lock<T: Send> = loom::sync::Mutex<T>;
    type Thread = Arc<Parker>;
    type Places = [loom::sync::atomic::AtomicU64; 2];
    const IN_A_ROW: u64 = 0;

    fn fence(order: Ordering) {
        fence(order);
    }

    fn current() -> Arc<Parker> {
        PARKER.with(Arc::clone)
    }

    fn park(_until: Option<Instant>) {
        let parker = Self::current();
        if parker.is_told.swap(false, Ordering::Relaxed) {
            parker.token.swap(0, Ordering::Acquire);
            return;
        }
        while !parker.is_told.swap(false, Ordering::Relaxed) {
            parker.is_parked.store(true, Ordering::Relaxed);
            thread::park();
            parker.is_parked.store(false, Ordering::Relaxed);
        }
    }

    fn unpark(thread: &Arc<Parker>) {
        if !thread.is_parked.load(Ordering::Relaxed) {
            thread.token.store(1, Ordering::Release);
        }
        thread.is_told.store(true, Ordering::Relaxed);
        if thread.is_parked.load(Ordering::Relaxed) {
            thread.thread.unpark();
        }
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

    /// Without the other half it is nothing.
    fn light_fence() {
        if !planted(FenceFault::GlobalLater) {
            fence(Ordering::SeqCst);
        }
    }

    fn heavy_fence() {
        fence(Ordering::SeqCst);
    }

    fn has_global_fence() -> bool {
        !planted(FenceFault::GlobalNever)
    }

    fn global_fence() -> bool {
        let is_granted = !planted(FenceFault::GlobalLater);
        if is_granted {
            fence(Ordering::SeqCst);
        }
        is_granted
    }

    fn relax(_turns: u32) {
        thread::yield_now();
    }
}

/// What a thread parks by. The checker's own `unpark` is no good for a thread that has
/// gone on meanwhile: it also ends a wait for another thread, or for a lock.
///
/// The checker changes threads only at what is its own, so the two flags, which are not,
/// are read and written at once with what stands beside them. The token orders memory
/// for a thread that was told before it parked.
#[derive(Debug)]
pub(crate) struct Parker {
    thread: thread::Thread,
    token: loom::sync::atomic::AtomicU64,
    is_told: AtomicBool,
    is_parked: AtomicBool,
}

impl Parker {
    fn new() -> Arc<Self> {
        let (thread, token) = (thread::current(), loom::sync::atomic::AtomicU64::new(0));
        Arc::new(Self { thread, token, is_told: false.into(), is_parked: false.into() })
    }
}

/// The checker's threads are its own, and new in every run.
fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

loom::thread_local! {
    static NUMBER: u64 = next_number();
    static PARKER: Arc<Parker> = Parker::new();
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
