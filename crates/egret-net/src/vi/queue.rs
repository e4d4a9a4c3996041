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
        self.inbox.give_late_notice();
        if let Some(completion) = self.inbox.pop() {
            return Some(completion);
        }
        self.nic.progress();
        self.inbox.pop()
    }

    pub(super) fn is_of(&self, nic: &Arc<dyn NicOps>) -> bool {
        Arc::ptr_eq(&self.nic, nic)
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
            self.inbox.give_late_notice();
            if let Some(completion) = self.inbox.pop() {
                return Ok(completion);
            }
            let seen = self.nic.progress();
            if let Some(completion) = self.inbox.pop() {
                return Ok(completion);
            }
            if until.is_none() && self.inbox.lock().reserved == 0 {
                return Err(WaitError::NothingPosted);
            }
            let now = self.nic.now();
            if until.is_some_and(|until| now >= until) {
                let outstanding = self.outstanding();
                return Err(WaitError::TimedOut { waited: now - started, outstanding });
            }
            self.nic.wait(seen, until);
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
        let mut state = self.inbox.lock();
        state.epoch += 1;
        let old = state.handler.replace(Box::new(handler));
        drop(state);
        drop(old);
        self.inbox.give_notice();
    }

    /// Takes the handler back out; completions are queued again.
    pub fn unnotify(&self) {
        let mut state = self.inbox.lock();
        state.epoch += 1;
        let old = state.handler.take();
        drop(state);
        drop(old);
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

/// Completion queues that got something, to be told once no lock is held, at
/// the latest when this is dropped.
#[derive(Debug, Default)]
pub struct Notices(Vec<Arc<Inbox>>);

impl Drop for Notices {
    fn drop(&mut self) {
        self.give_all();
    }
}

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
    pub fn give(mut self) {
        self.give_all();
    }

    /// If a handler panics, those behind it are told by the drop.
    fn give_all(&mut self) {
        while let Some(inbox) = self.0.pop() {
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

type Handler = Box<dyn FnMut(Completion) + Send>;

#[derive(Default)]
struct State {
    ready: VecDeque<Completion>,
    /// Places promised: what is ready and what is outstanding.
    reserved: usize,
    wakers: Vec<Waker>,
    handler: Option<Handler>,
    /// Whether the handler has not heard of what is ready.
    late: bool,
    /// Counts the handlers set: one that was replaced while it ran stays out.
    epoch: u64,
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
        // Cloned and, if it is known already, dropped outside the lock.
        let waker = context.waker().clone();
        let mut state = self.lock();
        if let Some(completion) = self.pop_locked(&mut state) {
            return Poll::Ready(completion);
        }
        if !state.wakers.iter().any(|known| known.will_wake(&waker)) {
            state.wakers.push(waker);
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
        self.give_quiet_notice();
        let mut state = self.lock();
        state.late = false;
        let epoch = state.epoch;
        let handler = if state.ready.is_empty() { None } else { state.handler.take() };
        drop(state);
        if handler.is_some() {
            Running { inbox: self, handler, epoch }.run();
        }
    }

    /// Wakes futures and raises the descriptor, and leaves the handler for later.
    pub(super) fn give_quiet_notice(&self) {
        let mut state = self.lock();
        if state.ready.is_empty() {
            return;
        }
        self.raise();
        state.late = true;
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// What a quiet notice left to do.
    fn give_late_notice(&self) {
        let is_late = {
            let state = self.lock();
            state.late && state.handler.is_some()
        };
        if is_late {
            self.give_notice();
        }
    }
}

/// A handler that runs over what is ready. While it runs it is not in its
/// place, so a notice from inside it leaves the completion to this loop; it
/// goes back also if it panics, unless it was replaced meanwhile.
struct Running<'a> {
    inbox: &'a Inbox,
    handler: Option<Handler>,
    epoch: u64,
}

impl Running<'_> {
    fn run(&mut self) {
        while let Some(handler) = &mut self.handler {
            while let Some(completion) = self.inbox.pop() {
                handler(completion);
            }
            let mut state = self.inbox.lock();
            if state.epoch != self.epoch {
                return;
            }
            if state.ready.is_empty() {
                state.handler = self.handler.take();
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.inbox.lock();
        if state.epoch == self.epoch && self.handler.is_some() {
            state.handler = self.handler.take();
        }
        drop(state);
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ready of {} reserved", self.ready.len(), self.reserved)
    }
}
