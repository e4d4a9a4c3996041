//! A connection that a machine owes to who connects.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use super::ConnectError;
use super::handle::ViHandle;
use super::hub::Hub;
use super::machine::{NewConnection, ViSpec};

/// What a program that connects was promised. Dropped unsettled, it says that the nic is down.
/// The [module](super::machine) has an example.
#[derive(Debug)]
pub struct ConnectPromise {
    /// `None` once settled.
    state: Option<Arc<Mutex<PromiseState>>>,
    /// Weak: the machine has the promise, and is the hub's.
    hub: Weak<Hub>,
    /// A machine that hears first.
    above: Option<(Settled, ViSpec)>,
}

/// What was settled for a machine that stands on another, which makes something of it first.
pub(crate) type Settled =
    Arc<Mutex<Vec<(ConnectPromise, ViSpec, Result<NewConnection, ConnectError>)>>>;

/// The side that waits.
#[derive(Debug)]
pub(super) struct PendingConnection(Arc<Mutex<PromiseState>>);

#[derive(Debug, Default)]
struct PromiseState {
    answer: Option<ConnectAnswer>,
    is_taken: bool,
    waker: Option<Waker>,
}

type ConnectAnswer = Result<ViHandle, ConnectError>;

impl ConnectPromise {
    pub(super) fn new(hub: Weak<Hub>) -> (Self, PendingConnection) {
        let state = Arc::default();
        (Self { state: Some(Arc::clone(&state)), hub, above: None }, PendingConnection(state))
    }

    /// One for a machine without a nic, and who waits for it, for fuzzers.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn alone() -> (Self, impl Sized) {
        Self::new(Weak::new())
    }

    /// The same promise for a machine below: what is settled comes by way of the one `above`.
    pub(crate) fn by_way_of(mut self, above: &Settled, spec: ViSpec) -> Self {
        self.above = Some((Arc::clone(above), spec));
        self
    }

    pub(super) fn is_by_way_of(&self, above: &Settled) -> bool {
        self.above.as_ref().is_some_and(|(own, _)| Arc::ptr_eq(own, above))
    }

    /// Whether the waiter is gone.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.state.as_ref().is_none_or(|state| Arc::strong_count(state) == 1)
    }

    /// Keeps it. A connection that no program waits for any more is released, so no lock may be held.
    pub(super) fn settle(mut self, result: Result<NewConnection, ConnectError>) {
        if let Some((above, spec)) = self.above.take() {
            above.lock().unwrap_or_else(PoisonError::into_inner).push((self, spec, result));
            return;
        }
        let hub = self.hub.upgrade().ok_or(ConnectError::NicDown);
        drop(self.give(result.and_then(|made| Ok(ViHandle::new(hub?, made)))));
    }

    /// Gives the answer to the waiter; back, if that is gone.
    fn give(&mut self, answer: ConnectAnswer) -> Option<ConnectAnswer> {
        let Some(state) = self.state.take().filter(|state| Arc::strong_count(state) > 1) else {
            return Some(answer);
        };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.answer = Some(answer);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        None
    }
}

impl Drop for ConnectPromise {
    fn drop(&mut self) {
        drop(self.give(Err(ConnectError::NicDown)));
    }
}

impl PendingConnection {
    /// The connection, or why there is none, once that is decided.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<ConnectAnswer> {
        // Wakers are cloned and dropped outside the lock.
        let waker = context.waker().clone();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = state.answer.take() {
            state.is_taken = true;
            return Poll::Ready(answer);
        }
        if state.is_taken {
            return Poll::Ready(Err(ConnectError::NicDown));
        }
        let old = state.waker.replace(waker);
        drop(state);
        drop(old);
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(pending: &mut PendingConnection) -> Poll<ConnectAnswer> {
        pending.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn kept_broken_and_abandoned() {
        let promised = || ConnectPromise::new(Weak::new());
        let (promise, mut waiting) = promised();
        assert!(look(&mut waiting).is_pending());
        promise.settle(Err(ConnectError::OtherNic));
        assert!(matches!(look(&mut waiting), Poll::Ready(Err(ConnectError::OtherNic))));
        assert!(look(&mut waiting).is_ready(), "who asks once more does not wait for ever");

        let (promise, mut waiting) = promised();
        drop(promise);
        assert!(matches!(look(&mut waiting), Poll::Ready(Err(ConnectError::NicDown))));

        let (mut promise, waiting) = promised();
        drop(waiting);
        assert!(promise.is_abandoned());
        let back = promise.give(Err(ConnectError::OtherNic));
        assert!(matches!(back, Some(Err(ConnectError::OtherNic))));
    }
}
