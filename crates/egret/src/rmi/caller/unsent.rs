//! Calls that could not be sent when they were begun: no connection yet, an interface that is not met, or
//! no room for one more under way. They wait in a queue of their pair and leave in the order in which they were
//! begun; a call that is begun behind them waits behind them. So the calls of a caller enter a gate in the
//! order in which they were begun.
//!
//! A thread that begins, polls or waits for a call of the pair sends from the queue, one at a time. The queue is itself
//! the waker of what its first call waits for, and wakes the first of the waiting callers to send. A
//! caller that was woken and is dropped wakes the next; if the woken caller does not come (a future that is kept and not
//! polled), all are woken a moment later. No handler runs between taking a call and sending it.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::Mutex;
use egret_net::vi::contained;
use egret_node::Alarm;
use egret_node::am::{Call, MessageError, handlers_later, in_handler};
use egret_node::node::NodeError;

use crate::rmi::caller::call_site::UNTOLD;
use crate::rmi::caller::pair::{NodePair, PairConnection};
use crate::rmi::caller::stub_target::{InterfaceRequest, StubTarget};
use crate::rmi::context::Inherited;
use crate::rmi::fault::{Fault, planted};
use crate::rmi::head::CallHead;
use crate::rmi::interface_table::MethodNumbers;
use crate::rmi::payload::CallPayload;
use crate::rmi::{CallError, CallStage};

/// The queue of one of the two ways of a pair.
pub(crate) struct UnsentQueue {
    /// Whether it is the way of calls that are a part of others.
    is_nested: bool,
    /// Calls that have not left. Who reads it without the lock has begun them, or knows of none.
    count: AtomicUsize,
    queue: Mutex<UnsentQueueState>,
}

#[derive(Default)]
struct UnsentQueueState {
    next: u64,
    waits: BTreeMap<u64, Box<UnsentCall>>,
    /// The one that is being sent, without the lock.
    leaving: Option<u64>,
    /// Whether the owner of that one has dropped it, and whether it may be with the links already.
    is_dropped: bool,
    is_handed: bool,
    /// Whether the queue was woken meanwhile: there may be something to send.
    again: bool,
    /// What the first of them waits for.
    stage: Option<CallStage>,
    /// What became of those that have left, until their owners take it.
    left: BTreeMap<u64, UnsentOutcome>,
    /// The wakers of those who wait for their calls to leave.
    wakers: BTreeMap<u64, Waker>,
    /// The caller woken last that has not sent yet.
    woken_last: Option<u64>,
    /// Wakes the first caller where nothing else would wake it, and all if that one does not come.
    alarms: Option<[Alarm; 2]>,
}

/// A call that waits to be sent, to an object of another node.
pub(crate) struct UnsentCall {
    /// The arguments; none if the owner of the call lends them, and sends it itself when there is a connection.
    pub(crate) args: Option<CallPayload>,
    /// Where it goes is known when it is sent.
    pub(crate) head: CallHead,
    pub(crate) callee: StubTarget,
    pub(crate) method: usize,
    pub(crate) until: Option<Instant>,
    pub(crate) meeting: Option<InterfaceRequest>,
}

/// What became of a call that waited.
pub(crate) enum UnsentOutcome {
    Sent(Call, Arc<PairConnection>),
    /// Its owner may send it now, to a method of these.
    Next(Arc<PairConnection>, Arc<MethodNumbers>),
    Failed(Box<SendFailure>),
}

/// Why a call was not sent. Who waits for it says how long the registry may be asked for more.
pub(crate) enum SendFailure {
    Late,
    Known(CallError),
    Route(NodeError),
    Map(MessageError),
    /// The object's node does not say which methods it has.
    Unmet(MessageError),
    Send(MessageError),
}

/// What became of a call that its owner has dropped.
pub(crate) enum RemovedCall {
    Unsent,
    /// The call is just being sent, and is cancelled behind that.
    Leaving,
    Left(UnsentOutcome),
}

impl UnsentQueue {
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
    pub(crate) fn stage(&self, pair: &NodePair) -> CallStage {
        let there = pair.there();
        let stage = self.queue.lock().stage.filter(|_| there.is_some());
        stage.unwrap_or(CallStage::Connecting)
    }

    /// A call waits behind all others.
    pub(crate) fn push(&self, call: Box<UnsentCall>) -> u64 {
        let mut queue = self.queue.lock();
        let at = queue.next;
        queue.next += 1;
        queue.waits.insert(at, call);
        self.counts(&queue);
        at
    }

    /// What became of a call, if it has left.
    pub(crate) fn take_left(&self, at: u64) -> Option<UnsentOutcome> {
        self.queue.lock().left.remove(&at)
    }

    /// What became of a call. If it still waits, the waker is woken when it has left, or when its owner has to
    /// come and send.
    pub(crate) fn poll(
        self: &Arc<Self>,
        at: u64,
        pair: &NodePair,
        context: &Context<'_>,
    ) -> Poll<UnsentOutcome> {
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

    /// Waits until a call has left, or until then.
    #[cold]
    pub(crate) fn wait(
        self: &Arc<Self>,
        at: u64,
        pair: &NodePair,
        inherited: &Inherited,
        until: Option<Instant>,
    ) -> Option<UnsentOutcome> {
        inherited.away(|| {
            loop {
                let polled = poll_fn(|context| {
                    // The node may be one of which the registry is just telling.
                    if pair.there().is_none() {
                        pair.handle.poll();
                    }
                    self.poll(at, pair, context)
                });
                // By which links it goes may come out meanwhile.
                let left = until.map_or(LOOKS, |until| until.since(rt::now()).min(LOOKS));
                let left = pair.wait_on(polled, Deadline::In(left));
                let is_late = || until.is_some_and(|until| rt::now() >= until);
                if left.is_some() || is_late() || in_handler() {
                    return left;
                }
            }
        })
    }

    /// Removes a call that its owner has dropped.
    pub(crate) fn remove(&self, at: u64, pair: &NodePair) -> RemovedCall {
        let mut queue = self.queue.lock();
        let (waiting, left) = (queue.waits.remove(&at), queue.left.remove(&at));
        let is_leaving = queue.leaving == Some(at);
        queue.is_dropped |= is_leaving;
        let is_handed = is_leaving && queue.is_handed;
        let waker = queue.wakers.remove(&at);
        // The one that was to come and send may be this one.
        let next = match queue.is_woken_last(at) {
            true => queue.wake_first(),
            false => None,
        };
        let alarms = if queue.waits.is_empty() { queue.alarms.take() } else { None };
        self.counts(&queue);
        drop(queue);
        tell(next);
        drop((waiting, waker, alarms));
        pair.stop_unwanted();
        match left {
            Some(left) => RemovedCall::Left(left),
            None if is_handed => RemovedCall::Leaving,
            None => RemovedCall::Unsent,
        }
    }

    /// Sends calls in their order, as far as that goes now. Handlers run between two of them: they may begin
    /// others.
    pub(crate) fn send(self: &Arc<Self>, pair: &NodePair) {
        let (mut tells, mut turns) = (WakesOnDrop::default(), 0);
        while handlers_later(|| self.send_next(pair, &mut tells)) {
            turns += 1;
            // Who has come to send one call is not kept here for those of others.
            if turns == TURNS_MAX {
                let alarms = self.alarms(pair, LOOKS);
                let mut queue = self.queue.lock();
                tells.0.extend(queue.wake_first());
                let before = queue.alarms.replace(alarms);
                drop(queue);
                drop(before);
                break;
            }
        }
        drop(tells);
        pair.stop_unwanted();
    }

    /// Sends the first one, if it can be sent now; whether there may be more to send.
    fn send_next(self: &Arc<Self>, pair: &NodePair, tells: &mut WakesOnDrop) -> bool {
        let Some((at, mut call)) = self.take() else { return false };
        let leaving = SendingGuard { unsent: self, at };
        let waker = Waker::from(Arc::clone(self));
        let sent = call.send(self, &mut Context::from_waker(&waker));
        let alarms = sent.as_ref().err().map(|stage| {
            self.alarms(pair, if *stage == CallStage::Connecting { GLANCE } else { LOOKS })
        });
        std::mem::forget(leaving);
        self.put((at, call), sent, alarms, tells)
    }

    /// An alarm that wakes the first waiting caller, and one that wakes all.
    fn alarms(self: &Arc<Self>, pair: &NodePair, time: Duration) -> [Alarm; 2] {
        let now = rt::now();
        let first = pair.alarm(now + time, &Waker::from(Arc::clone(self)));
        let all = Waker::from(Arc::new(WakesAll(Arc::clone(self))));
        [first, pair.alarm(now + time + LOOKS, &all)]
    }

    /// Whether the one that is being sent is to go to the links now.
    fn hand(&self, is_handed: bool) -> bool {
        let mut queue = self.queue.lock();
        queue.is_handed = is_handed && !queue.is_dropped;
        queue.is_handed
    }

    /// Takes the next one, unless another thread sends.
    fn take(&self) -> Option<(u64, Box<UnsentCall>)> {
        let mut queue = self.queue.lock();
        if queue.leaving.is_some() {
            return None;
        }
        let (at, call) = queue.waits.pop_first()?;
        (queue.leaving, queue.again) = (Some(at), false);
        (queue.is_dropped, queue.is_handed) = (false, false);
        queue.woken_last = None;
        Some((at, call))
    }

    /// What became of the one that was taken, or what it waits for; whether there may be more to send.
    fn put(
        &self,
        (at, call): (u64, Box<UnsentCall>),
        sent: Result<UnsentOutcome, CallStage>,
        alarms: Option<[Alarm; 2]>,
        tells: &mut WakesOnDrop,
    ) -> bool {
        let number = call.head.number;
        let mut queue = self.queue.lock();
        queue.leaving = None;
        let (is_dropped, mut more) = (queue.is_dropped, true);
        // What is dropped is dropped without the lock.
        let (mut before, mut done, mut unwanted) = (alarms, None, None);
        match sent {
            Err(stage) if !is_dropped => {
                more = queue.again;
                queue.stage = Some(stage);
                queue.waits.insert(at, call);
                std::mem::swap(&mut queue.alarms, &mut before);
            }
            Ok(left) if !is_dropped => {
                tells.0.extend(queue.wakers.remove(&at));
                queue.left.insert(at, left);
                done = Some(call);
            }
            sent => unwanted = Some((sent, call)),
        }
        let spent = if queue.waits.is_empty() { queue.alarms.take() } else { None };
        self.counts(&queue);
        drop(queue);
        drop((before, spent, done));
        if let Some((Ok(UnsentOutcome::Sent(sent, there)), _)) = unwanted {
            there.cancel(number);
            drop(sent);
        }
        more
    }

    fn counts(&self, queue: &UnsentQueueState) {
        let count = queue.waits.len() + usize::from(queue.leaving.is_some());
        self.count.store(count, Ordering::Release);
    }
}

impl UnsentQueueState {
    /// Whether the owner of this call was woken last and is to send.
    fn is_woken_last(&self, at: u64) -> bool {
        self.woken_last == Some(at) && !planted(Fault::NextUntold)
    }

    fn take_wakers(&mut self) -> BTreeMap<u64, Waker> {
        let all = std::mem::take(&mut self.wakers);
        if planted(Fault::OthersUntold) { BTreeMap::new() } else { all }
    }

    /// Takes the waker of the first waiting caller, which is to send.
    fn wake_first(&mut self) -> Option<Waker> {
        let (at, waker) = self.wakers.pop_first()?;
        self.woken_last = Some(at);
        Some(waker)
    }
}

/// There may be room, or a connection.
impl Wake for UnsentQueue {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut queue = self.queue.lock();
        queue.again = true;
        // Who sends looks again by itself.
        let first = if queue.leaving.is_some() { None } else { queue.wake_first() };
        drop(queue);
        tell(first);
    }
}

/// Wakes all waiting callers when the one woken first has not come.
struct WakesAll(Arc<UnsentQueue>);

impl Wake for WakesAll {
    fn wake(self: Arc<Self>) {
        let mut queue = self.0.queue.lock();
        queue.again = true;
        let all = queue.take_wakers();
        drop(queue);
        tell(all.into_values());
    }
}

/// A call that is being sent, in case that panics: its owner, and those behind it, are not to wait for ever.
struct SendingGuard<'a> {
    unsent: &'a UnsentQueue,
    at: u64,
}

impl Drop for SendingGuard<'_> {
    fn drop(&mut self) {
        let why = "a panic while it was being sent".to_owned();
        let why = CallError::Unreadable { why, call: UNTOLD }.into();
        let mut queue = self.unsent.queue.lock();
        queue.leaving = None;
        if !queue.is_dropped {
            queue.left.insert(self.at, UnsentOutcome::Failed(Box::new(why)));
        }
        let tells = [queue.wakers.remove(&self.at), queue.wake_first()];
        self.unsent.counts(&queue);
        drop(queue);
        tell(tells.into_iter().flatten());
    }
}

/// Wakers that are woken when this is dropped.
#[derive(Default)]
struct WakesOnDrop(Vec<Waker>);

impl Drop for WakesOnDrop {
    fn drop(&mut self) {
        tell(self.0.drain(..));
    }
}

/// Wakes some, one behind the other: one that runs its task at once may send, and so wake others.
fn tell(wakers: impl IntoIterator<Item = Waker>) {
    let mut wakers = wakers.into_iter().peekable();
    if wakers.peek().is_none() {
        return;
    }
    let mut wakers: VecDeque<_> = wakers.collect();
    let is_inner = TOLD.try_with(|told| match &mut *told.borrow_mut() {
        Some(told) => {
            told.append(&mut wakers);
            true
        }
        none => {
            *none = Some(VecDeque::new());
            false
        }
    });
    let next = || TOLD.try_with(|told| told.borrow_mut().as_mut()?.pop_front()).ok().flatten();
    while let Some(waker) =
        wakers.pop_front().or_else(|| if is_inner == Ok(false) { next() } else { None })
    {
        if contained(|| waker.wake()).is_none() {
            tracing::error!("a waker panicked");
        }
    }
    if is_inner == Ok(false) {
        drop(TOLD.take());
    }
}

thread_local! {
    static TOLD: RefCell<Option<VecDeque<Waker>>> = const { RefCell::new(None) };
}

impl UnsentCall {
    /// Sends it, if it can be sent now.
    fn send(
        &mut self,
        unsent: &UnsentQueue,
        context: &mut Context<'_>,
    ) -> Result<UnsentOutcome, CallStage> {
        let failed = |why| Ok(UnsentOutcome::Failed(Box::new(why)));
        if self.until.is_some_and(|until| rt::now() >= until) {
            return failed(SendFailure::Late);
        }
        let there = match self.callee.poll_connected(&mut self.meeting, context) {
            Poll::Ready(Ok(there)) => there,
            Poll::Ready(Err(why)) => return failed(why),
            Poll::Pending => return Err(CallStage::Connecting),
        };
        let Some(args) = &mut self.args else {
            return Ok(UnsentOutcome::Next(there, self.callee.methods()));
        };
        self.head.to = self.callee.to(self.method);
        if self.head.to.is_refused() {
            return failed(self.callee.refusal(self.method).into());
        }
        let is_nested = unsent.is_nested;
        for _ in 0..2 {
            if !unsent.hand(true) {
                break;
            }
            self.head.deadline = Deadline::left(self.until);
            match args.try_send(&self.head, there.way(is_nested)) {
                Ok(call) => return Ok(UnsentOutcome::Sent(call, there)),
                Err(MessageError::Full { .. }) => {
                    _ = unsent.hand(false);
                    if there.way(is_nested).poll_room(context).is_pending() {
                        break;
                    }
                }
                Err(why) => {
                    self.callee.pair.forget_if_broken(&there, &why);
                    return failed(SendFailure::Send(why));
                }
            }
        }
        Err(CallStage::NoRoom { most: there.way(is_nested).window() })
    }
}

impl From<CallError> for SendFailure {
    fn from(why: CallError) -> Self {
        Self::Known(why)
    }
}

/// Polling interval while a node is not known or not reached: nothing wakes the caller then.
const GLANCE: Duration = Duration::from_millis(5);
/// Polling interval while there is no room, which also wakes; and the time that a woken caller may take to come.
const LOOKS: Duration = Duration::from_millis(50);
/// Calls that one caller sends at most.
const TURNS_MAX: u32 = 256;
