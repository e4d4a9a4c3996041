//! The threads that run calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use egret_net::rt::{self, Instant, JoinHandle, Thread};
use egret_net::sync::Mutex;
use egret_net::vi::caught;

use super::called::Called;
use super::load::Caller;
use super::turns::Turns;
use super::words::Code;

/// A bounded number of threads that run calls, started as they are needed.
///
/// A worker that waits for a call of its own does not count as busy, so that calls which come
/// back find somebody to run them.
#[derive(Debug)]
pub(crate) struct Workers {
    inner: Mutex<Inner>,
    /// Whether nothing waits for a worker, and there may be some. Written under the lock.
    is_idle: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    /// How many may be busy.
    busy_max: usize,
    queue: Turns<Caller, Arc<Called>>,
    /// Threads that have nothing to do, who has been idle for the shortest time last.
    idle: Vec<Thread>,
    /// All threads.
    threads: usize,
    /// Threads that wait for calls of their own.
    away: usize,
    is_closed: bool,
    handles: Vec<JoinHandle<()>>,
    /// Whether threads that receive run calls, though there are no workers.
    #[cfg(test)]
    is_lent: bool,
}

impl Workers {
    /// At most so many that are busy; with 0 somebody calls [`run_one`](Self::run_one).
    pub(crate) fn new(busy_max: usize) -> Self {
        let inner = Mutex::new(Inner { busy_max, ..Inner::default() });
        Self { inner, is_idle: AtomicBool::new(busy_max > 0) }
    }

    /// From now on at most so many are busy.
    pub(crate) fn set_busy_max(self: &Arc<Self>, busy_max: usize) {
        let mut inner = self.inner.lock();
        inner.busy_max = busy_max;
        self.count(&inner);
        let waiting = inner.queue.len();
        drop(inner);
        for _ in 0..waiting.min(busy_max) {
            let _ = self.employ(self.inner.lock());
        }
    }

    /// Has a call run. Gives it back if there is nobody to run it.
    pub(crate) fn push(self: &Arc<Self>, called: Arc<Called>) -> Result<(), Arc<Called>> {
        let mut inner = self.inner.lock();
        if inner.is_closed {
            return Err(called);
        }
        let caller = called.caller;
        inner.queue.push(caller, called);
        self.count(&inner);
        self.employ(inner).map_err(|mut inner| {
            // With no thread at all it would wait for ever.
            let last = inner.queue.pop_last().expect("just pushed");
            self.count(&inner);
            last
        })
    }

    /// Runs a call that waits, if there is one.
    pub(crate) fn run_one(&self) -> bool {
        let next = {
            let mut inner = self.inner.lock();
            let next = inner.queue.pop();
            self.count(&inner);
            next
        };
        let found = next.is_some();
        next.into_iter().for_each(|called| called.run(None));
        found
    }

    /// Runs a call that waits, where nobody else does.
    pub(crate) fn help(&self) -> bool {
        self.inner.lock().busy_max == 0 && self.run_one()
    }

    /// Runs `body`, in which the calling thread, one of these, waits for others.
    pub(crate) fn while_away<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let mut inner = self.inner.lock();
        inner.away += 1;
        let _ = self.employ(inner);
        let _back = Back(self);
        body()
    }

    /// A call that waits need not be run.
    pub(crate) fn forget(&self, called: &Called) {
        let mut inner = self.inner.lock();
        inner.queue.retain(|waiting| !std::ptr::eq(&raw const **waiting, called));
        self.count(&inner);
    }

    /// Whether nothing waits for a worker, and there may be some: if there are none, nobody runs
    /// calls but who is asked to.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    /// Has threads that receive run calls, though there are no workers.
    #[cfg(test)]
    pub(super) fn lend(&self) {
        let mut inner = self.inner.lock();
        inner.is_lent = true;
        self.count(&inner);
    }

    fn count(&self, inner: &Inner) {
        let has_threads = inner.busy_max > 0;
        #[cfg(test)]
        let has_threads = has_threads || inner.is_lent;
        let is_idle = inner.queue.is_empty() && has_threads && !inner.is_closed;
        self.is_idle.store(is_idle, Ordering::Relaxed);
    }

    /// Ends all threads, when they have run what they run now. Whoever takes longer than
    /// `until` for that is not waited for: the thread has its own part of all that it needs,
    /// and ends with its call.
    pub(crate) fn close(&self, until: Instant) {
        let (handles, queue) = {
            let mut inner = self.inner.lock();
            inner.is_closed = true;
            self.count(&inner);
            inner.idle.drain(..).for_each(|idle| idle.unpark());
            (std::mem::take(&mut inner.handles), std::mem::take(&mut inner.queue))
        };
        queue.into_all().for_each(|called| called.answer_unrun(Code::UnknownObject));
        let me = rt::current().id();
        let is_over = |handle: &JoinHandle<()>| handle.is_finished() || handle.thread().id() == me;
        while !handles.iter().all(is_over) && rt::now() < until {
            rt::sleep(Duration::from_micros(200));
        }
    }

    /// Sees to it that somebody comes for what waits; fails if nobody ever will.
    fn employ<'a>(
        self: &'a Arc<Self>,
        mut inner: MutexGuard<'a, Inner>,
    ) -> Result<(), MutexGuard<'a, Inner>> {
        if inner.queue.is_empty() || inner.busy_max == 0 || inner.is_closed {
            return Ok(());
        }
        if let Some(idle) = inner.idle.pop() {
            drop(inner);
            idle.unpark();
            return Ok(());
        }
        if inner.threads - inner.away >= inner.busy_max || inner.threads >= THREADS_MAX {
            return Ok(());
        }
        inner.threads += 1;
        let workers = Arc::clone(self);
        match rt::spawn("egret-call", move || workers.work()) {
            Ok(handle) => {
                inner.handles.retain(|handle| !handle.is_finished());
                inner.handles.push(handle);
                Ok(())
            }
            Err(_) => {
                inner.threads -= 1;
                if inner.threads > inner.away { Ok(()) } else { Err(inner) }
            }
        }
    }

    fn work(self: Arc<Self>) {
        while let Some(called) = self.next() {
            // With the call may go the last of its object, whose drop is the program's.
            let home = &self;
            if let Err(why) = caught(move || called.run(Some(home))) {
                tracing::error!("an object panicked when it was dropped: {why}");
            }
        }
    }

    /// The next call; none when the thread is to end.
    fn next(self: &Arc<Self>) -> Option<Arc<Called>> {
        let me = rt::current();
        let until = rt::now() + IDLE;
        loop {
            let mut inner = self.inner.lock();
            inner.idle.retain(|idle| idle.id() != me.id());
            // One of those that came back takes no more than its share.
            let is_spare = inner.threads - inner.away > inner.busy_max;
            if !is_spare && let Some(called) = inner.queue.pop() {
                self.count(&inner);
                return Some(called);
            }
            if is_spare || inner.is_closed || rt::now() >= until {
                inner.threads -= 1;
                // What it was woken for waits for another.
                let _ = self.employ(inner);
                return None;
            }
            inner.idle.push(me.clone());
            drop(inner);
            rt::park(Some(until));
        }
    }
}

/// Counts a thread among those that are busy again.
struct Back<'a>(&'a Workers);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        self.0.inner.lock().away -= 1;
    }
}

/// Threads of a node, with those that wait for calls of their own.
const THREADS_MAX: usize = 512;
/// A thread that has had nothing to do for so long ends.
const IDLE: Duration = Duration::from_secs(10);
