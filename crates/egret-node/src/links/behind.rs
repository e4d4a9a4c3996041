//! Wakers that are kept under the lock of the links, and what happens behind it.
//!
//! A waker is its executor's: to wake or to drop it may run, or end, a task that uses the
//! same links. So neither is done while this thread has the lock; nor is
//! [anything else](egret_net::sync::behind) that is the program's.

use std::cell::Cell;
use std::task::Waker;
use std::time::Duration;

use egret_net::rt::{self, Instant};
use egret_net::sync::Baton;
use egret_net::sync::behind::{self, Left};
use egret_net::vi::{Beside, Nic, contained};

use super::state::State;
use crate::am::as_handler;

/// The state of the links, behind the lock of their nic.
pub(crate) struct Locked(Beside<State>);

impl Locked {
    pub(crate) fn new(nic: &Nic, state: State) -> Self {
        Self(nic.beside(state))
    }

    /// The role of driving them, which is known under the same lock.
    pub(crate) fn role(&self) -> Baton {
        self.0.role()
    }

    /// Does something with the state, alone; then wakes who is to be woken by that.
    #[inline]
    pub(crate) fn with<T>(&self, body: impl FnOnce(&mut State) -> T) -> T {
        // Told last, also if the body panics.
        let _tell = TellNic(&self.0);
        let _behind = Behind::begin();
        self.0.with_untold(body)
    }
}

/// Tells whom calls of the nic concern, when it is dropped.
struct TellNic<'a>(&'a Beside<State>);

impl Drop for TellNic<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.tell();
    }
}

/// Does something under a lock of another kind, which `body` gives up; then wakes who is to be
/// woken by that.
#[inline]
pub(crate) fn under<T>(body: impl FnOnce() -> T) -> T {
    let _behind = Behind::begin();
    body()
}

/// A waker that is kept. It is woken, or dropped, when this thread has no lock.
#[derive(Debug)]
pub(crate) struct Sleeper(Option<Waker>);

impl Sleeper {
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

impl Drop for Sleeper {
    #[inline]
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|waker| leave(waker, drop));
    }
}

/// Who waits for the same thing.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    all: Vec<Sleeper>,
    /// How many there may be before all look for themselves, and when they did so last.
    most: usize,
    looked: Option<Instant>,
}

impl Waiters {
    /// Keeps a waker, if there is one, for who brings what it waits for. If nobody does so for
    /// long, all look for themselves: who gave up waiting does not say so.
    #[inline]
    pub(crate) fn wait(&mut self, waker: Option<&Waker>) {
        waker.into_iter().for_each(|waker| self.keep(waker));
    }

    fn keep(&mut self, waker: &Waker) {
        if self.all.iter().any(|known| known.is(waker)) {
            return;
        }
        if self.all.len() >= self.most.max(WAITERS_LEAST) {
            // Those who come back at once still wait, and the next ones are to find room; those who gave
            // up waiting do not.
            let now = rt::now();
            let are_back = self.looked.replace(now).is_some_and(|before| now - before < AT_ONCE);
            self.most = if are_back { 2 * self.all.len() } else { 0 };
            self.wake_all();
        }
        self.all.push(Sleeper::of(waker));
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
        self.all.drain(..).for_each(Sleeper::wake);
    }
}

/// So many wait before all look for themselves, at first.
const WAITERS_LEAST: usize = 64;
/// Who is woken and has to wait again does so within that.
const AT_ONCE: Duration = Duration::from_millis(10);

/// Does something with a waker, now or behind the lock.
#[cold]
fn leave(waker: Waker, then: fn(Waker)) {
    if let Err(left) = behind::leave(Left::Waker(waker, then)) {
        run(left);
    }
}

/// Does what was left, which is an executor's or the program's: its panic is that one's affair, and
/// what else was left is to be done too.
fn run(left: Left) {
    let before = WAKES.replace(true);
    match left {
        Left::Waker(waker, then) => {
            if contained(|| then(waker)).is_none() {
                tracing::error!("a waker panicked");
            }
        }
        // This thread may have the role: it must not wait.
        Left::Does(does) => as_handler(does),
    }
    WAKES.set(before);
}

/// Whether this thread wakes somebody just now. It may drive, with the role: what it wakes must not
/// run handlers, which may wait for the role.
#[inline]
pub(super) fn wakes() -> bool {
    WAKES.get()
}

/// The end of what is done under a lock.
struct Behind {
    is_last: bool,
}

impl Behind {
    #[inline]
    fn begin() -> Self {
        Self { is_last: behind::begin() }
    }
}

impl Drop for Behind {
    #[inline]
    fn drop(&mut self) {
        if self.is_last && behind::end() {
            do_left();
        }
    }
}

#[cold]
fn do_left() {
    let mut left = behind::take();
    left.drain(..).for_each(run);
    behind::give_back(left);
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
        let behind = Behind::begin();
        for waker in [&panics, &other, &panics, &other] {
            Sleeper::of(waker).wake();
        }
        assert_eq!(counts.0.load(Ordering::Relaxed), 0, "under the lock");
        drop(behind);
        assert_eq!(counts.0.load(Ordering::Relaxed), 2);
        Sleeper::of(&panics).wake();
    }
}
