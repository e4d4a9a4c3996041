//! Calls that could not be sent when they were begun: no connection yet, an interface that is not met, or
//! no room for one more under way. They wait in a queue of their pair and leave in the order in which they were
//! begun; a call that is begun behind them waits behind them. So the calls of a caller enter a gate in the
//! order in which they were begun.
//!
//! Whoever polls or waits for a call of the pair sends from the queue, one at a time. The queue is itself the
//! waker of what it waits for, and wakes the first of those who wait for their calls: they may come and go.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::Mutex;
use egret_node::Alarm;
use egret_node::am::{self, Call, MapError, SendError};
use egret_node::node::RouteError;

use super::args::Args;
use super::callee::{Callee, Meeting};
use super::context::Inherited;
use super::fault::{Fault, planted};
use super::pair::{Connected, Pair};
use super::table::Methods;
use super::words::Head;
use super::{CallError, Stage};

/// The queue of one of the two ways of a pair.
pub(crate) struct Unsent {
    /// Whether it is the way of calls that are a part of others.
    is_nested: bool,
    /// Calls that have not left. Who reads it without the lock has begun them, or knows of none.
    count: AtomicUsize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    next: u64,
    waits: BTreeMap<u64, Box<Waiting>>,
    /// The one that is being sent, without the lock: sending may run handlers, which may begin others.
    leaving: Option<u64>,
    /// Whether nobody wants that one any more.
    is_dropped: bool,
    /// Whether somebody has come meanwhile to send, or has told that there is something to see.
    again: bool,
    /// What the first of them waits for.
    stage: Stage,
    /// What became of those that have left, until their owners take it.
    left: BTreeMap<u64, Left>,
    /// Of those who wait for their calls to leave.
    wakers: BTreeMap<u64, Waker>,
    /// Looks again where nobody tells that there is something to see.
    glance: Option<Alarm>,
}

/// A call that waits to be sent, to an object of another node.
pub(crate) struct Waiting {
    /// None if its owner lends them, and sends it itself when there is a connection.
    pub(crate) args: Option<Args>,
    /// Where it goes is known when it is sent.
    pub(crate) head: Head,
    pub(crate) callee: Callee,
    pub(crate) method: usize,
    pub(crate) until: Option<Instant>,
    pub(crate) meeting: Option<Meeting>,
}

/// What became of a call that waited.
pub(crate) enum Left {
    Sent(Call, Arc<Connected>),
    /// Its owner may send it now, to a method of these.
    Next(Arc<Connected>, Arc<Methods>),
    Failed(Box<NotSent>),
}

/// Why a call was not sent. Who waits for it says how long the registry may be asked for more.
pub(crate) enum NotSent {
    Late,
    Known(CallError),
    Route(RouteError),
    Map(MapError),
    /// The object's node does not say which methods it has.
    Unmet(am::CallError),
    Send(SendError),
}

impl Unsent {
    pub(crate) fn new(is_nested: bool) -> Arc<Self> {
        let (count, queue) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { is_nested, count, queue })
    }

    /// Whether no call waits: then the next one may be sent at once.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// What the first of those that wait waits for.
    pub(crate) fn stage(&self) -> Stage {
        self.queue.lock().stage
    }

    /// A call waits behind all others.
    pub(crate) fn push(&self, call: Box<Waiting>) -> u64 {
        let mut queue = self.queue.lock();
        let at = queue.next;
        queue.next += 1;
        queue.waits.insert(at, call);
        self.counts(&queue);
        at
    }

    /// What became of a call. If it still waits, the waker is woken when it has left, or when its owner has to
    /// come and send.
    pub(crate) fn poll(
        self: &Arc<Self>,
        at: u64,
        pair: &Pair,
        context: &Context<'_>,
    ) -> Poll<Left> {
        let mut queue = self.queue.lock();
        if !queue.left.contains_key(&at) {
            let before = queue.wakers.insert(at, context.waker().clone());
            drop(queue);
            drop(before);
            self.send(pair);
            queue = self.queue.lock();
        }
        queue.left.remove(&at).map_or(Poll::Pending, Poll::Ready)
    }

    /// Waits until a call has left. If it has not within its deadline, this is what it waited for.
    #[cold]
    pub(crate) fn wait(
        self: &Arc<Self>,
        at: u64,
        pair: &Pair,
        inherited: &Inherited,
        until: Option<Instant>,
    ) -> Result<Left, Stage> {
        let polled = poll_fn(|context| self.poll(at, pair, context));
        let left = inherited.away(|| pair.wait_on(polled, Deadline::left(until)));
        left.ok_or_else(|| self.stage())
    }

    /// Nobody wants a call any more. If it has left, this is what became of it.
    pub(crate) fn remove(&self, at: u64, pair: &Pair) -> Option<Left> {
        let mut queue = self.queue.lock();
        let (removed, left) = (queue.waits.remove(&at), queue.left.remove(&at));
        queue.is_dropped |= queue.leaving == Some(at);
        // The one that was to come and send may be this one.
        let waker = queue.wakers.remove(&at);
        let next =
            waker.as_ref().and_then(|_| queue.first()).filter(|_| !planted(Fault::NextUntold));
        let glance = if queue.waits.is_empty() { queue.glance.take() } else { None };
        self.counts(&queue);
        drop(queue);
        next.into_iter().for_each(Waker::wake);
        drop((removed, waker, glance));
        pair.stop_unwanted();
        left
    }

    /// Sends calls in their order, as far as that goes now.
    pub(crate) fn send(self: &Arc<Self>, pair: &Pair) {
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        while let Some((at, mut call)) = self.take() {
            let sent = call.send(self.is_nested, &mut context);
            let glance = match sent {
                // Nobody tells that a node is known, or reached.
                Err(Stage::Connecting) => Some(pair.handle.alarm(rt::now() + GLANCE, &waker)),
                _ => None,
            };
            if self.put(at, call, sent, glance) {
                break;
            }
        }
        pair.stop_unwanted();
    }

    /// Takes the next one, unless somebody else sends.
    fn take(&self) -> Option<(u64, Box<Waiting>)> {
        let mut queue = self.queue.lock();
        if queue.leaving.is_some() {
            queue.again = true;
            return None;
        }
        let (at, call) = queue.waits.pop_first()?;
        (queue.leaving, queue.is_dropped, queue.again) = (Some(at), false, false);
        Some((at, call))
    }

    /// What became of the one that was taken, or what it waits for; whether those behind it wait, too.
    fn put(
        &self,
        at: u64,
        call: Box<Waiting>,
        sent: Result<Left, Stage>,
        glance: Option<Alarm>,
    ) -> bool {
        let number = call.head.number;
        let mut queue = self.queue.lock();
        queue.leaving = None;
        let (is_dropped, mut waits) = (queue.is_dropped, false);
        // What is dropped is dropped without the lock.
        let (mut waker, mut done, mut unwanted) = (None, None, None);
        match sent {
            Err(stage) if !is_dropped => {
                waits = !queue.again;
                queue.stage = stage;
                queue.waits.insert(at, call);
            }
            Ok(left) if !is_dropped => {
                waker = queue.wakers.remove(&at);
                queue.left.insert(at, left);
                done = Some(call);
            }
            sent => unwanted = Some((sent, call)),
        }
        let before = std::mem::replace(&mut queue.glance, glance);
        self.counts(&queue);
        drop(queue);
        waker.into_iter().for_each(Waker::wake);
        drop((before, done));
        if let Some((Ok(Left::Sent(sent, there)), _)) = unwanted {
            there.cancel(number);
            drop(sent);
        }
        waits
    }

    fn counts(&self, queue: &Queue) {
        let count = queue.waits.len() + usize::from(queue.leaving.is_some());
        self.count.store(count, Ordering::Release);
    }
}

impl Queue {
    /// The first of those who wait.
    fn first(&self) -> Option<Waker> {
        self.wakers.first_key_value().map(|(_, waker)| waker.clone())
    }
}

impl Wake for Unsent {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut queue = self.queue.lock();
        queue.again = true;
        let first = queue.first();
        drop(queue);
        first.into_iter().for_each(Waker::wake);
    }
}

impl Waiting {
    /// Sends it, if it can be sent now.
    fn send(&mut self, is_nested: bool, context: &mut Context<'_>) -> Result<Left, Stage> {
        let failed = |why| Ok(Left::Failed(Box::new(why)));
        if self.until.is_some_and(|until| rt::now() >= until) {
            return failed(NotSent::Late);
        }
        let there = match self.callee.poll_connected(&mut self.meeting, context) {
            Poll::Ready(Ok(there)) => there,
            Poll::Ready(Err(why)) => return failed(why),
            Poll::Pending => return Err(Stage::Connecting),
        };
        let Some(args) = &mut self.args else {
            return Ok(Left::Next(there, self.callee.methods()));
        };
        self.head.to = self.callee.to(self.method);
        loop {
            self.head.deadline = Deadline::left(self.until);
            match args.try_send(&self.head, there.way(is_nested)) {
                Ok(call) => return Ok(Left::Sent(call, there)),
                Err(SendError::Full { .. }) => match there.way(is_nested).poll_room(context) {
                    Poll::Ready(_) => {}
                    Poll::Pending => return Err(Stage::NoRoom),
                },
                Err(why) => {
                    self.callee.pair.forget_if_broken(&there, &why.clone().into());
                    return failed(NotSent::Send(why));
                }
            }
        }
    }
}

impl From<CallError> for NotSent {
    fn from(why: CallError) -> Self {
        Self::Known(why)
    }
}

/// How often is looked where nobody tells.
const GLANCE: Duration = Duration::from_millis(5);
