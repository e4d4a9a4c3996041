//! Completion queues: where descriptors come back.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

use super::ops::NicOps;
use super::{Completion, WaitError};
use crate::rt::Deadline;

/// A queue of [`Completion`]s. Any number of connections of one nic may share
/// it, and a connection may use one for sends and another for receives.
///
/// Four ways to hear of a completion: [`poll`](Self::poll), [`wait`](Self::wait),
/// a [handler](Self::notify), a [file descriptor](Self::fd); and
/// [`next`](Self::next) for async code. Each post reserves its place here, so
/// a queue never overflows: the post is refused instead.
#[derive(Debug, Clone)]
pub struct CompletionQueue {
    inbox: Arc<Inbox>,
    nic: Arc<dyn NicOps>,
}

impl CompletionQueue {
    pub(super) fn new(nic: Arc<dyn NicOps>, capacity: usize) -> Self {
        Self { inbox: Arc::new(Inbox::new(capacity)), nic }
    }

    pub(super) const fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Takes a completion if one is there. Never blocks; lets the fabric make progress.
    #[must_use]
    pub fn poll(&self) -> Option<Completion> {
        if let Some(completion) = self.inbox.pop() {
            return Some(completion);
        }
        self.nic.progress();
        self.inbox.pop()
    }

    /// Waits for a completion.
    ///
    /// # Errors
    ///
    /// If the deadline passes, or nothing is posted that a wait without end
    /// could end with.
    pub fn wait(&self, deadline: Deadline) -> Result<Completion, WaitError> {
        let started = self.nic.now();
        let until = deadline.until_from(started);
        loop {
            if let Some(completion) = self.poll() {
                return Ok(completion);
            }
            let outstanding = self.outstanding();
            if until.is_none() && outstanding == 0 {
                return Err(WaitError::NothingPosted);
            }
            let now = self.nic.now();
            if until.is_some_and(|until| now >= until) {
                return Err(WaitError::TimedOut { waited: now - started, outstanding });
            }
            self.nic.wait(until);
        }
    }

    /// The next completion, as a future that is tied to no runtime. Dropping
    /// it loses nothing: the completion stays in the queue for the next one.
    ///
    /// Its poll lets the fabric make progress; whoever runs the future keeps
    /// the nic going in between, by [`Nic::block_on`](super::Nic::block_on) or
    /// by polling again when [`fd`](Self::fd) is readable.
    pub fn next(&self) -> Next<'_> {
        Next { queue: self }
    }

    /// Calls `handler` with each completion from now on, instead of queueing
    /// it, on the thread that drives the nic. The handler may post; it should
    /// hold its connection weakly, for the connection holds this queue.
    pub fn notify(&self, handler: impl FnMut(Completion) + Send + 'static) {
        self.inbox.lock().handler = Some(Box::new(handler));
        self.inbox.give_notice();
    }

    /// A descriptor that is readable while completions are waiting.
    ///
    /// # Errors
    ///
    /// If the operating system has no descriptor to give.
    pub fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.inbox.fd()
    }

    /// Descriptors that are posted and will complete here.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        let state = self.inbox.lock();
        state.reserved - state.ready.len()
    }

    /// How many completions it can hold, outstanding ones included.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.inbox.capacity
    }
}

/// The next completion of a queue; made by [`CompletionQueue::next`].
#[derive(Debug)]
pub struct Next<'a> {
    queue: &'a CompletionQueue,
}

impl Future for Next<'_> {
    type Output = Completion;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Completion> {
        if let Some(completion) = self.queue.poll() {
            return Poll::Ready(completion);
        }
        self.queue.inbox.poll_pop(context)
    }
}

/// Completion queues that got something, to be told once no lock is held.
#[derive(Debug, Default)]
pub struct Notices(Vec<Arc<Inbox>>);

impl Notices {
    pub(super) fn add(&mut self, inbox: &Arc<Inbox>) {
        if !self.0.iter().any(|known| Arc::ptr_eq(known, inbox)) {
            self.0.push(Arc::clone(inbox));
        }
    }

    /// Whether there is nobody to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Wakes futures, runs handlers, makes file descriptors readable. Call it
    /// with no lock of the fabric held: a handler may post.
    pub fn give(self) {
        for inbox in self.0 {
            inbox.give_notice();
        }
    }
}

/// The part of a completion queue that fabrics and connections hold.
#[derive(Debug)]
pub(super) struct Inbox {
    state: Mutex<State>,
    capacity: usize,
    event: OnceLock<OwnedFd>,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Completion>,
    /// Places promised: what is ready and what is outstanding.
    reserved: usize,
    wakers: Vec<Waker>,
    handler: Option<Box<dyn FnMut(Completion) + Send>>,
}

impl Inbox {
    pub(super) fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), capacity, event: OnceLock::new() }
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Promises a place for one completion.
    pub(super) fn reserve(&self) -> bool {
        let mut state = self.lock();
        let free = state.reserved < self.capacity;
        state.reserved += usize::from(free);
        free
    }

    /// Takes a promise back.
    pub(super) fn release(&self) {
        self.lock().reserved -= 1;
    }

    pub(super) fn push(&self, completion: Completion) {
        self.lock().ready.push_back(completion);
    }

    pub(super) fn pop(&self) -> Option<Completion> {
        self.pop_locked(&mut self.lock())
    }

    fn pop_locked(&self, state: &mut State) -> Option<Completion> {
        let completion = state.ready.pop_front()?;
        state.reserved -= 1;
        if state.ready.is_empty() {
            self.lower();
        }
        Some(completion)
    }

    /// Takes a completion, or leaves word with the waker.
    pub(super) fn poll_pop(&self, context: &mut Context<'_>) -> Poll<Completion> {
        let mut state = self.lock();
        if let Some(completion) = self.pop_locked(&mut state) {
            return Poll::Ready(completion);
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    fn fd(&self) -> io::Result<BorrowedFd<'_>> {
        use std::os::fd::AsFd;
        if self.event.get().is_none() {
            let flags =
                rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
            let event = rustix::event::eventfd(0, flags)?;
            // Of two threads that both made one, the second one's is closed again.
            let _ = self.event.set(event);
            let state = self.lock();
            if !state.ready.is_empty() {
                self.raise();
            }
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

    fn lower(&self) {
        if let Some(event) = self.event.get() {
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
    }

    fn give_notice(&self) {
        let mut state = self.lock();
        if state.ready.is_empty() {
            return;
        }
        self.raise();
        let wakers = std::mem::take(&mut state.wakers);
        let handler = state.handler.take();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        if let Some(handler) = handler {
            self.run(handler);
        }
    }

    /// Runs the handler over what is ready. While it runs it is not in its
    /// place, so a notice from inside it leaves the completion to this loop.
    fn run(&self, mut handler: Box<dyn FnMut(Completion) + Send>) {
        loop {
            while let Some(completion) = self.pop() {
                handler(completion);
            }
            let mut state = self.lock();
            if state.ready.is_empty() {
                // A handler that set another in its place has the last word.
                state.handler.get_or_insert(handler);
                return;
            }
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ready of {} reserved", self.ready.len(), self.reserved)
    }
}
