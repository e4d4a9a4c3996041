//! Wakers that are kept under the lock of the links, and are woken after the lock is released.
//!
//! A waker belongs to its executor: to wake or to drop it may run, or end, a task that uses the
//! same links. So neither is done while this thread has the lock; nor is
//! [anything else](egret_net::sync::deferred) that is the program's.

use std::cell::Cell;
use std::task::Waker;
use std::time::Duration;

use egret_net::rt::{self, Instant};
use egret_net::sync::deferred::{self, DeferredWork};
use egret_net::vi::contained;

use crate::in_handler::as_handler;

/// Runs `body`, which takes and releases a lock of another kind; then wakes the tasks that `body` has
/// woken.
#[inline]
pub(crate) fn under<T>(body: impl FnOnce() -> T) -> T {
    let _behind = AfterLock::begin();
    body()
}

/// A waker that is woken, or dropped, only when this thread has no lock.
#[derive(Debug)]
pub(crate) struct DeferredWaker(Option<Waker>);

impl DeferredWaker {
    #[inline]
    pub(crate) fn of(waker: &Waker) -> Self {
        Self(Some(waker.clone()))
    }

    /// Whether it is the same as this one.
    #[inline]
    pub(crate) fn is(&self, waker: &Waker) -> bool {
        self.0.as_ref().is_some_and(|known| known.will_wake(waker))
    }

    #[inline]
    pub(crate) fn wake(mut self) {
        self.0.take().into_iter().for_each(|waker| leave(waker, Waker::wake));
    }
}

impl Drop for DeferredWaker {
    #[inline]
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|waker| leave(waker, drop));
    }
}

/// The wakers of tasks that wait for the same event.
#[derive(Debug, Default)]
pub(crate) struct WakerList {
    all: Vec<DeferredWaker>,
    /// How many there may be before all are woken to look again, and when that was done last.
    most: usize,
    looked: Option<Instant>,
}

impl WakerList {
    /// Registers a waker, if there is one. When too many are registered, at first 64, wakes all: a
    /// task that has given up waiting does not unregister its waker.
    #[inline]
    pub(crate) fn wait(&mut self, waker: Option<&Waker>) {
        waker.into_iter().for_each(|waker| self.keep(waker));
    }

    fn keep(&mut self, waker: &Waker) {
        if self.all.iter().any(|known| known.is(waker)) {
            return;
        }
        if self.all.len() >= self.most.max(WAITERS_LEAST) {
            // Tasks that come back at once still wait, so the limit is doubled; tasks that have given up
            // do not come back.
            let now = rt::now();
            let are_back = self.looked.replace(now).is_some_and(|before| now - before < AT_ONCE);
            self.most = if are_back { 2 * self.all.len() } else { 0 };
            self.wake_all();
        }
        self.all.push(DeferredWaker::of(waker));
    }

    #[inline]
    pub(crate) fn wake(&mut self) {
        if !self.all.is_empty() {
            self.most = 0;
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&mut self) {
        self.all.drain(..).for_each(DeferredWaker::wake);
    }
}

/// So many wakers are registered before all are woken to look again, at first.
const WAITERS_LEAST: usize = 64;
/// A task that is woken and still waits registers again within this time.
const AT_ONCE: Duration = Duration::from_millis(10);

/// Wakes or drops a waker, now or after the lock is released.
#[cold]
fn leave(waker: Waker, then: fn(Waker)) {
    if let Err(left) = deferred::defer(DeferredWork::Waker(waker, then)) {
        run(left);
    }
}

/// Does what was left, which is an executor's or the program's: its panic is that one's affair, and
/// what else was left is to be done too.
fn run(left: DeferredWork) {
    let before = WAKES.replace(true);
    match left {
        DeferredWork::Waker(waker, then) => {
            if contained(|| then(waker)).is_none() {
                tracing::error!("a waker panicked");
            }
        }
        // This thread may have the role: it must not wait.
        DeferredWork::Closure(does) => _ = as_handler(does),
    }
    WAKES.set(before);
}

/// Whether this thread is waking a task or thread just now. It may drive, with the role: what it wakes must not
/// run handlers, which may wait for the role.
#[inline]
pub(crate) fn wakes() -> bool {
    WAKES.get()
}

/// Runs what was deferred, when the outermost lock of this thread is released.
pub(crate) struct AfterLock {
    is_last: bool,
}

impl AfterLock {
    #[inline]
    pub(crate) fn begin() -> Self {
        Self { is_last: deferred::enter() }
    }
}

impl Drop for AfterLock {
    #[inline]
    fn drop(&mut self) {
        if self.is_last && deferred::leave() {
            do_left();
        }
    }
}

#[cold]
fn do_left() {
    let mut left = deferred::take();
    left.drain(..).for_each(run);
    deferred::recycle(left);
}

thread_local! {
    static WAKES: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("of a test");
        }
    }

    struct Counts(AtomicU32);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_waker_that_panics_keeps_nobody_asleep() {
        let (panics, counts) = (Waker::from(Arc::new(Panics)), Arc::new(Counts(0.into())));
        let other = Waker::from(Arc::clone(&counts));
        let behind = AfterLock::begin();
        for waker in [&panics, &other, &panics, &other] {
            DeferredWaker::of(waker).wake();
        }
        assert_eq!(counts.0.load(Ordering::Relaxed), 0, "under the lock");
        drop(behind);
        assert_eq!(counts.0.load(Ordering::Relaxed), 2);
        DeferredWaker::of(&panics).wake();
    }
}
