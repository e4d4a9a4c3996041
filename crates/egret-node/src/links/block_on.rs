//! Futures that a thread runs while it drives the links itself.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use egret_net::rt::Deadline;
use egret_net::sync::Mutex;
use egret_net::vi::Nic;

use super::Links;
use super::awaited::FutureRun;
use super::clock::DeadlineClock;

impl Links {
    /// Runs a future to its end, on the calling thread, which drives the links meanwhile as one
    /// that waits does: a call that is awaited is sent, and its answer taken, by this thread, and it
    /// spins or sleeps as the nic was opened to. What has wakers of its own may be awaited as well.
    ///
    /// Between two polls of the future the thread runs what a thread that waits runs: handlers, and of remote calls also
    /// callbacks, which are plain calls that are made to answer one that the future awaits. Other parts of the
    /// future are not polled meanwhile: a callback that waits for one of them waits for ever, and so does one
    /// that wants a lock which the future holds.
    ///
    /// ```
    /// # use egret_net::fabric::{Fabric, shm::ShmFabric};
    /// # use egret_net::vi::NicOptions;
    /// # use egret_node::{Links, LinksOptions};
    /// # let nic = ShmFabric.open(&NicOptions::new(&format!("on-{}", std::process::id())))?;
    /// let links = Links::open(nic, LinksOptions::default())?;
    /// assert_eq!(links.block_on(async { 6 * 7 }), 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    ///
    /// In a handler, which must not wait; and if the future does.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let _waits = self.core.waits("future", None);
        let output = self.wait_on(future, Deadline::UntilDead);
        output.expect("`block_on` in a handler, which must not wait")
    }

    /// The same, for no longer than the deadline. `None`: the future is not ready in time, or the
    /// thread runs a handler, which must not wait; it is polled once then.
    #[track_caller]
    pub fn wait_on<F: Future>(
        &self,
        future: F,
        deadline: impl Into<Deadline>,
    ) -> Option<F::Output> {
        let _waits = self.core.waits("future", None);
        let woken = Arc::new(FutureWaker {
            is_set: AtomicBool::new(false),
            seat: Mutex::default(),
            nic: self.core.nic.clone(),
        });
        let waker = Waker::from(Arc::clone(&woken));
        let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
        let mut clock = DeadlineClock::of(deadline.into());
        let runs = FutureRun::begin();
        let output = loop {
            if let Poll::Ready(output) = runs.poll(|| future.as_mut().poll(&mut context)) {
                break Some(output);
            }
            if self.core.wait_by(&mut clock, &mut |_, seat| woken.take(seat)).is_err() {
                break None;
            }
        };
        // A waker that is still held wakes no thread any more.
        woken.is_set.store(true, Ordering::Release);
        output
    }
}

/// Says that a future is to be polled.
struct FutureWaker {
    is_set: AtomicBool,
    /// Where that thread sits, if another drives.
    seat: Mutex<Option<Waker>>,
    nic: Nic,
}

impl FutureWaker {
    /// Whether it was said; if not, the waker of a seat is kept.
    #[inline]
    fn take(&self, seat: Option<&Waker>) -> Option<()> {
        if let Some(seat) = seat {
            *self.seat.lock() = Some(seat.clone());
        }
        let is_set = self.is_set.load(Ordering::Acquire);
        (is_set && self.is_set.swap(false, Ordering::AcqRel)).then_some(())
    }
}

impl Wake for FutureWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_set.swap(true, Ordering::AcqRel) {
            return;
        }
        let seat = self.seat.lock().take();
        seat.into_iter().for_each(Waker::wake);
        // Also if the thread wakes itself, by what it has taken: it has looked before, and may
        // sleep next.
        self.nic.wake();
    }
}
