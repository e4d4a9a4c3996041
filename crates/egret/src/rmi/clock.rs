//! Wakes futures whose deadline passes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use egret_net::rt::{self, Instant, Thread};
use egret_net::sync::Mutex;
use egret_net::vi::contained;

/// The alarms of a node. A thread looks after them while there are some; in a simulated world without threads
/// somebody calls [`ring`](Self::ring).
#[derive(Debug, Default)]
pub(crate) struct Clock {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    alarms: BTreeMap<(Instant, u64), Waker>,
    next: u64,
    /// Whether there is a thread, and which, when it has begun.
    is_running: bool,
    thread: Option<Thread>,
    /// When it looks next, at the latest: what is due later need not wake it.
    looks: Option<Instant>,
    is_closed: bool,
}

/// An alarm that was set; dropped, it does not ring.
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Arc<Clock>,
    key: (Instant, u64),
}

impl Clock {
    /// Has `waker` woken at a moment.
    pub(crate) fn set(self: &Arc<Self>, at: Instant, waker: &Waker) -> Alarm {
        let mut inner = self.inner.lock();
        let key = (at, inner.next);
        inner.next += 1;
        let is_soon = inner.looks.is_none_or(|looks| at < looks);
        inner.alarms.insert(key, waker.clone());
        match &inner.thread {
            Some(thread) if is_soon => thread.unpark(),
            Some(_) => {}
            None if inner.is_running || inner.is_closed || !rt::has_background() => {}
            None => self.start(&mut inner),
        }
        Alarm { clock: Arc::clone(self), key }
    }

    /// Wakes those that are due; when the next one is.
    pub(crate) fn ring(&self) -> Option<Instant> {
        let now = rt::now();
        loop {
            let mut inner = self.inner.lock();
            let first = inner.alarms.first_entry()?;
            if first.key().0 > now {
                return Some(first.key().0);
            }
            let waker = first.remove();
            drop(inner);
            // Its panic is its executor's affair: others are to be woken too.
            _ = contained(|| waker.wake());
        }
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        let mut inner = self.inner.lock();
        inner.is_closed = true;
        inner.thread.take().into_iter().for_each(|thread| thread.unpark());
    }

    fn start(self: &Arc<Self>, inner: &mut Inner) {
        let clock = Arc::clone(self);
        // Without a thread there are no alarms: those who poll find their deadlines passed.
        inner.is_running = rt::spawn("egret-clock", move || clock.run()).is_ok();
    }

    fn run(&self) {
        {
            let mut inner = self.inner.lock();
            if inner.is_closed {
                return;
            }
            inner.thread = Some(rt::current());
        }
        loop {
            self.ring();
            let until = {
                let mut inner = self.inner.lock();
                // One may have been set since.
                let first = inner.alarms.keys().next().map(|(at, _)| *at);
                let until = first.map_or_else(|| rt::now() + IDLE, |at| at.min(rt::now() + IDLE));
                inner.looks = Some(until);
                until
            };
            rt::park(Some(until));
            let mut inner = self.inner.lock();
            inner.looks = None;
            if inner.is_closed || inner.alarms.is_empty() && rt::now() >= until {
                (inner.thread, inner.is_running) = (None, false);
                return;
            }
        }
    }
}

impl Alarm {
    /// Wakes another instead.
    pub(crate) fn wakes(&self, waker: &Waker) {
        let before = {
            let mut inner = self.clock.inner.lock();
            let known = inner.alarms.get_mut(&self.key).filter(|known| !known.will_wake(waker));
            known.map(|known| std::mem::replace(known, waker.clone()))
        };
        // Without the lock: it may own what has an alarm.
        drop(before);
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let removed = self.clock.inner.lock().alarms.remove(&self.key);
        drop(removed);
    }
}

/// A thread that has had nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    struct Rings(AtomicU32);

    impl Wake for Rings {
        fn wake(self: Arc<Self>) {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "the first panics");
        }
    }

    #[test]
    fn a_waker_that_panics_keeps_nobody_asleep() {
        let (clock, rings) = (Arc::new(Clock::default()), Arc::new(Rings(0.into())));
        // Without its thread.
        clock.close();
        let (now, waker) = (rt::now(), Waker::from(Arc::clone(&rings)));
        let alarms = [(); 3].map(|()| clock.set(now, &waker));
        assert!(clock.ring().is_none());
        assert_eq!(rings.0.load(Ordering::Relaxed), 3);
        drop(alarms);
    }
}
