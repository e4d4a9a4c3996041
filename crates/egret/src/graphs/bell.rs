//! Who waits for something to happen to the graphs of a node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use egret_net::rt::{self, Instant};
use egret_net::sync::Mutex;

/// Wakes all who wait: each looks whether it was for them.
#[derive(Debug, Default)]
pub(super) struct Bell {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: BTreeMap<u64, Waker>,
    next: u64,
}

/// One who may wait.
#[derive(Debug)]
pub(super) struct Place {
    bell: Arc<Bell>,
    number: u64,
}

impl Bell {
    pub(super) fn place(self: &Arc<Self>) -> Place {
        let mut inner = self.inner.lock();
        inner.next += 1;
        Place { bell: Arc::clone(self), number: inner.next }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let waiting = std::mem::take(&mut self.inner.lock().waiting);
        waiting.into_values().for_each(Waker::wake);
    }
}

impl Place {
    /// Has this one woken when the bell rings next.
    pub(super) fn wait(&self, context: &Context<'_>) {
        let before = self.bell.inner.lock().waiting.insert(self.number, context.waker().clone());
        drop(before);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let waker = self.bell.inner.lock().waiting.remove(&self.number);
        drop(waker);
    }
}

/// Blocks until `poll` has something, at the latest until a moment. It looks now and then for
/// what comes without a wake.
pub(super) fn wait<T>(
    until: Option<Instant>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let waker = Waker::from(Arc::new(rt::current()));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(found) = poll(&mut context) {
            return Some(found);
        }
        let now = rt::now();
        if until.is_some_and(|until| now >= until) {
            return None;
        }
        rt::park(until.into_iter().chain([now + GLANCE]).min());
    }
}

/// How often is looked at what comes without a wake.
pub(super) const GLANCE: Duration = Duration::from_millis(100);
