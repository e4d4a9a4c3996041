//! The part of a completion queue that fabrics and connections hold.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use super::Completion;
use super::contained::contained;
use super::hub::Hub;
use crate::atomics::BiasedLock;

/// What an inbox's owner holds: nothing is kept for an owner that is gone.
///
/// A completion in an inbox holds that inbox, as does each descriptor that was
/// ever posted to it. So it is the drop of this, not of the last reference, that
/// ends it.
#[derive(Debug)]
pub(super) struct InboxOwner(Arc<CompletionInbox>);

#[derive(Debug)]
pub(super) struct CompletionInbox {
    state: BiasedLock<InboxState>,
    /// How many are ready; written with the state. A thread that sees that something
    /// has happened on the nic sees this, too.
    ready: AtomicUsize,
    capacity: usize,
    event: OnceLock<OwnedFd>,
}

pub(super) type CompletionHandler = Box<dyn FnMut(Completion) + Send>;

#[derive(Default)]
struct InboxState {
    ready: VecDeque<Completion>,
    /// Places promised: what is ready and what is outstanding.
    reserved: usize,
    /// Places ever promised.
    promised: u64,
    wakers: Vec<Waker>,
    handler: Option<CompletionHandler>,
    /// Whether the handler has not heard of what is ready.
    late: bool,
    /// Counts the handlers set: one that was replaced while it ran stays out.
    epoch: u64,
    /// Whether the owner is gone.
    closed: bool,
}

impl InboxOwner {
    pub(super) fn new(hub: &Hub, capacity: usize) -> Self {
        Self::counting(hub, capacity, InboxState::default())
    }

    /// With a lock of its own, for a machine that stands on another.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn alone() -> Self {
        let (ready, event) = (AtomicUsize::new(0), OnceLock::new());
        let state = BiasedLock::new(InboxState::default());
        Self(Arc::new(CompletionInbox { state, ready, capacity: usize::MAX / 2, event }))
    }

    /// For a single completion, under a number that no queue gives.
    pub(super) fn single(hub: &Hub) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(1 << 62);
        let promised = LAST.fetch_add(1, Ordering::Relaxed);
        Self::counting(hub, 1, InboxState { promised, ..InboxState::default() })
    }

    fn counting(hub: &Hub, capacity: usize, state: InboxState) -> Self {
        let (ready, event) = (AtomicUsize::new(0), OnceLock::new());
        Self(Arc::new(CompletionInbox { state: hub.sharing(state), ready, capacity, event }))
    }

    #[inline]
    pub(super) const fn inbox(&self) -> &Arc<CompletionInbox> {
        &self.0
    }
}

impl Drop for InboxOwner {
    fn drop(&mut self) {
        let left = self.0.state.with(|state| {
            state.closed = true;
            (
                std::mem::take(&mut state.ready),
                std::mem::take(&mut state.wakers),
                state.handler.take(),
            )
        });
        drop(left);
    }
}

impl CompletionInbox {
    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Promises a place for one completion, and gives a number that counts up.
    #[inline]
    pub(super) fn reserve(&self) -> Option<u64> {
        self.state.with(|state| {
            if state.reserved == self.capacity {
                return None;
            }
            state.reserved += 1;
            state.promised += 1;
            Some(state.promised)
        })
    }

    /// Takes a promise back.
    pub(super) fn release(&self) {
        self.state.with(|state| state.reserved -= 1);
    }

    pub(super) fn reserved(&self) -> usize {
        self.state.with(|state| state.reserved)
    }

    pub(super) fn outstanding(&self) -> usize {
        self.state.with(|state| state.reserved - state.ready.len())
    }

    /// Whether a waiter is to be told. A completion whose owner is gone comes
    /// back: to drop it may run a program's code, which is not for under a lock.
    #[inline]
    pub(super) fn push(&self, completion: Completion) -> Result<bool, Completion> {
        self.state.with(|state| {
            if state.closed {
                state.reserved -= 1;
                return Err(completion);
            }
            state.ready.push_back(completion);
            self.ready.store(state.ready.len(), Ordering::Release);
            let tell = state.handler.is_some() || !state.wakers.is_empty();
            Ok(tell || self.event.get().is_some())
        })
    }

    /// Takes a completion, after a handler had its turn that did not hear of it.
    #[inline]
    pub(super) fn take(&self) -> Option<Completion> {
        if self.ready.load(Ordering::Acquire) == 0 {
            return None;
        }
        let taken = self.state.with(|state| {
            let is_owed = state.late && state.handler.is_some();
            if is_owed { None } else { Some(self.pop_from(state)) }
        });
        taken.unwrap_or_else(|| {
            self.give_notice();
            self.pop()
        })
    }

    pub(super) fn pop(&self) -> Option<Completion> {
        self.state.with(|state| self.pop_from(state))
    }

    #[inline]
    fn pop_from(&self, state: &mut InboxState) -> Option<Completion> {
        let completion = state.ready.pop_front()?;
        state.reserved -= 1;
        self.ready.store(state.ready.len(), Ordering::Release);
        if state.ready.is_empty() {
            self.lower();
        }
        Some(completion)
    }

    /// Takes a completion, or leaves word with the waker.
    pub(super) fn poll_pop(&self, context: &mut Context<'_>) -> Poll<Completion> {
        // Cloned and, if it is known already, dropped outside the lock.
        let mut waker = Some(context.waker().clone());
        self.state.with(|state| {
            if let Some(completion) = self.pop_from(state) {
                return Poll::Ready(completion);
            }
            let is_known = |new: &Waker| state.wakers.iter().any(|known| known.will_wake(new));
            if !waker.as_ref().is_some_and(is_known) {
                state.wakers.extend(waker.take());
            }
            Poll::Pending
        })
    }

    pub(super) fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        if self.event.get().is_none() {
            let flags =
                rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
            let event = rustix::event::eventfd(0, flags)?;
            // Of two threads that both made one, the second one's is closed again.
            let _ = self.event.set(event);
            self.state.with(|state| {
                if !state.ready.is_empty() {
                    self.raise();
                }
            });
        }
        Ok(self.event.get().expect("set just now").as_fd())
    }

    /// Makes the descriptor readable. Its counter cannot overflow in practice
    /// and a full one is readable already, so the result is of no interest.
    fn raise(&self) {
        if let Some(event) = self.event.get() {
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }

    #[inline]
    fn lower(&self) {
        if let Some(event) = self.event.get() {
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
    }

    /// Sets the handler, or takes it out. What is ready it hears of at once.
    pub(super) fn set_handler(&self, handler: Option<CompletionHandler>) {
        let is_some = handler.is_some();
        let old = self.state.with(|state| {
            state.epoch += 1;
            std::mem::replace(&mut state.handler, handler)
        });
        drop(old);
        if is_some {
            self.give_notice();
        }
    }

    pub(super) fn give_notice(&self) {
        self.give_quiet_notice();
        let (epoch, handler) = self.state.with(|state| {
            state.late = false;
            let handler = if state.ready.is_empty() { None } else { state.handler.take() };
            (state.epoch, handler)
        });
        self.run(handler, epoch);
    }

    /// Runs a handler over what is ready. While it runs it is not in its
    /// place, so a notice from inside it leaves the completion to this loop; it
    /// goes back unless it was replaced meanwhile. A panic of one call is the end of that
    /// call alone.
    fn run(&self, mut running: Option<CompletionHandler>, epoch: u64) {
        while let Some(handler) = &mut running {
            while let Some(completion) = self.pop() {
                // The thread that drives the nic runs it, and may wait for something else.
                if contained(|| handler(completion)).is_none() {
                    tracing::error!("a handler of a completion queue panicked; it stays");
                }
            }
            let goes_on = self.state.with(|state| {
                let stays = state.epoch == epoch && !state.closed;
                if stays && state.ready.is_empty() {
                    state.handler = running.take();
                }
                stays
            });
            if !goes_on {
                return;
            }
        }
    }

    /// Wakes futures and raises the descriptor, and leaves the handler for later.
    pub(super) fn give_quiet_notice(&self) {
        let wakers = self.state.with(|state| {
            if state.ready.is_empty() {
                return Vec::new();
            }
            self.raise();
            state.late = true;
            std::mem::take(&mut state.wakers)
        });
        for waker in wakers {
            if contained(|| waker.wake()).is_none() {
                tracing::error!("a waker that waits for a completion queue panicked");
            }
        }
    }
}

impl std::fmt::Debug for InboxState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ready of {} reserved", self.ready.len(), self.reserved)
    }
}
