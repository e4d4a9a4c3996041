//! Completion queues: where descriptors come back.

use std::future::Future;
use std::io;
use std::os::fd::BorrowedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::hub::{Hub, WaitClock};
use super::inbox::{CompletionInbox, InboxOwner};
use super::{Completion, ViError};
use crate::rt::Deadline;

/// A queue of [`Completion`]s. Any number of connections of one nic may share
/// it, and a connection may use one for sends and another for receives.
///
/// Four ways to hear of a completion: [`poll`](Self::poll), [`wait`](Self::wait),
/// a [handler](Self::notify), a [file descriptor](Self::fd); and
/// [`next`](Self::next) for async code. Each post reserves its place here, so
/// a queue never overflows: the post is refused instead.
///
/// Clones are handles to the same one. What is in it when the last is dropped,
/// and what completes into it later, is dropped too.
/// The [module](super) has an example.
#[derive(Debug, Clone)]
pub struct CompletionQueue {
    inbox_owner: Arc<InboxOwner>,
    hub: Arc<Hub>,
}

impl CompletionQueue {
    pub(super) fn new(hub: Arc<Hub>, capacity: usize) -> Self {
        Self { inbox_owner: Arc::new(InboxOwner::new(&hub, capacity)), hub }
    }

    #[inline]
    pub(super) fn inbox(&self) -> &Arc<CompletionInbox> {
        self.inbox_owner.inbox()
    }

    /// Takes a completion if one is there, and else lets the fabric make progress and looks again.
    /// The call waits for nothing but the lock of the nic, which others hold for one step at a time.
    #[must_use]
    pub fn poll(&self) -> Option<Completion> {
        if let Some(completion) = self.inbox().take() {
            return Some(completion);
        }
        self.hub.progress();
        self.inbox().take()
    }

    /// Takes a completion if one is there, without letting the fabric make progress: for
    /// who has just done so.
    #[must_use]
    #[inline]
    pub fn take(&self) -> Option<Completion> {
        self.inbox().take()
    }

    pub(super) fn is_of(&self, hub: &Arc<Hub>) -> bool {
        Arc::ptr_eq(&self.hub, hub)
    }

    /// Waits for a completion.
    ///
    /// # Errors
    ///
    /// If the deadline passes, or nothing is posted that a wait without end
    /// could end with.
    pub fn wait(&self, deadline: impl Into<Deadline>) -> Result<Completion, ViError> {
        let deadline = deadline.into();
        let (mut spin, mut clock) = (self.hub.spin(), WaitClock::of(deadline));
        loop {
            if let Some(completion) = self.inbox().take() {
                return Ok(completion);
            }
            if spin.again() {
                continue;
            }
            match clock.until(&self.hub) {
                Ok(None) if self.inbox().reserved() == 0 => return Err(ViError::NothingPosted),
                Ok(until) => spin.wait(until),
                Err(waited) => {
                    let outstanding = self.outstanding();
                    return Err(ViError::NoCompletion { waited, outstanding });
                }
            }
        }
    }

    /// The next completion, as a future that is tied to no runtime. Dropping
    /// it loses nothing: the completion stays in the queue for the next one.
    ///
    /// Its poll lets the fabric make progress; the executor of the future keeps
    /// the nic going in between, by [`Nic::block_on`](super::Nic::block_on) or
    /// by polling again when [`Nic::fd`](super::Nic::fd) is readable, which is
    /// [armed](super::Nic::arm) before each sleep.
    pub fn next(&self) -> impl Future<Output = Completion> + use<'_> {
        NextCompletion { queue: self }
    }

    /// Calls `handler` with each completion from now on, instead of queueing
    /// it, on the thread that drives the nic. The handler may post; it should
    /// hold its connection weakly, for the connection holds this queue.
    ///
    /// The thread that drives the nic is whichever polls it or waits for anything of it, for
    /// another connection too. So a panic of the handler does not unwind there: it is
    /// reported, by the panic hook and by an error in the log, and ends that call alone. The
    /// completion is gone, and the handler stays for the next.
    pub fn notify(&self, handler: impl FnMut(Completion) + Send + 'static) {
        self.inbox().set_handler(Some(Box::new(handler)));
    }

    /// Takes the handler back out; completions are queued again.
    pub fn unnotify(&self) {
        self.inbox().set_handler(None);
    }

    /// A descriptor that is readable while completions are waiting.
    ///
    /// Completions come when a thread drives the nic, and this descriptor does not: an event
    /// loop that sleeps on it alone sleeps for ever if no other thread polls or waits. A loop
    /// that is alone with its nic sleeps on the nic's descriptor,
    /// [`Nic::fd`](super::Nic::fd), which it [arms](super::Nic::arm) before each sleep, and
    /// polls the nic after it. This one is for loops beside a thread that drives.
    ///
    /// # Errors
    ///
    /// If the operating system has no descriptor to give.
    pub fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.inbox().fd()
    }

    /// Descriptors that are posted and will complete here.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.inbox().outstanding()
    }

    /// How many completions it can hold, outstanding ones included.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.inbox().capacity()
    }
}

/// The next completion of a queue; made by [`CompletionQueue::next`].
struct NextCompletion<'a> {
    queue: &'a CompletionQueue,
}

impl Future for NextCompletion<'_> {
    type Output = Completion;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completion> {
        if let Some(completion) = self.queue.poll() {
            return Poll::Ready(completion);
        }
        self.queue.inbox().poll_pop(context)
    }
}
