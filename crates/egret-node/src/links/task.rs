//! Futures that the thread polls which wakes them.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use egret_net::sync::Mutex;
use egret_net::vi::contained;

use super::awaited::for_others;

/// A future that needs no executor: the thread that wakes the future polls it, which is mostly a thread
/// that drives links. So the future must not wait otherwise than by awaiting. When the task is
/// dropped, the future is dropped too, once no thread polls it.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
///
/// static IS_DONE: AtomicBool = AtomicBool::new(false);
/// let task = egret_node::Task::new(async { IS_DONE.store(true, Ordering::Relaxed) });
/// assert!(IS_DONE.load(Ordering::Relaxed));
/// # drop(task);
/// ```
#[doc(hidden)]
#[must_use = "a dropped task drops its future"]
pub struct Task(Arc<TaskState>);

struct TaskState {
    /// Wakes that no poll has answered yet. The thread of the first one polls until there is none.
    wakes: AtomicUsize,
    /// `None` inside while it is polled.
    future: Mutex<TaskFuture>,
}

#[derive(Default)]
struct TaskFuture {
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    is_dropped: bool,
}

impl Task {
    /// Polls a future for the first time.
    pub fn new(future: impl Future<Output = ()> + Send + 'static) -> Self {
        let future = Mutex::new(TaskFuture { future: Some(Box::pin(future)), is_dropped: false });
        let inner = Arc::new(TaskState { wakes: AtomicUsize::new(0), future });
        inner.wake_by_ref();
        Self(inner)
    }
}

impl TaskState {
    fn poll(self: &Arc<Self>) {
        // Without the lock: the future may drop the task.
        let Some(mut future) = self.future.lock().future.take() else { return };
        let waker = Waker::from(Arc::clone(self));
        // One that panics is over: others are to be woken too.
        let poll = || future.as_mut().poll(&mut Context::from_waker(&waker));
        let polled = contained(|| for_others(poll));
        let mut slot = self.future.lock();
        if polled.is_some_and(|polled| polled.is_pending()) && !slot.is_dropped {
            slot.future = Some(future);
            return;
        }
        drop(slot);
        if contained(|| drop(future)).is_none() {
            tracing::error!("a task panicked when it was dropped");
        }
    }
}

impl Wake for TaskState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        let mut answered = 1;
        while answered > 0 {
            self.poll();
            answered = self.wakes.fetch_sub(answered, Ordering::AcqRel) - answered;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let mut slot = self.0.future.lock();
        slot.is_dropped = true;
        let future = slot.future.take();
        drop(slot);
        drop(future);
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::task::Poll;

    use super::*;

    #[test]
    fn a_task_woken_while_polled_is_polled_again() {
        let polls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&polls);
        let task = Task::new(poll_fn(move |context| {
            context.waker().wake_by_ref();
            if count.fetch_add(1, Ordering::Relaxed) == 4 { Poll::Ready(()) } else { Poll::Pending }
        }));
        assert_eq!(polls.load(Ordering::Relaxed), 5);
        drop(task);
    }

    #[test]
    fn a_future_that_panics_when_it_is_dropped_harms_nobody_who_wakes_it() {
        struct Panics(Arc<AtomicUsize>);
        impl Drop for Panics {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
                panic!("of a test");
            }
        }
        let drops = Arc::new(AtomicUsize::new(0));
        let panics = Panics(Arc::clone(&drops));
        let task = Task::new(poll_fn(move |_| {
            let _own = &panics;
            Poll::Ready(())
        }));
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        drop(task);
    }

    #[test]
    fn a_task_that_is_dropped_frees_what_its_future_has() {
        let has = Arc::new(());
        let held = Arc::clone(&has);
        let task = Task::new(async move {
            pending::<()>().await;
            drop(held);
        });
        assert_eq!(Arc::strong_count(&has), 2);
        drop(task);
        assert_eq!(Arc::strong_count(&has), 1);
    }
}
