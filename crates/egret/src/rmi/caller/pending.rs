//! Calls that were begun.

use std::cell::Cell;
use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_node::am::{Call, CallReply, MessageError, in_handler};
use egret_node::{Alarm, Awaited};
use egret_stream::FromWire;

use crate::rmi::answer::CallAnswer;
use crate::rmi::answer_slot::AnswerSlot;
use crate::rmi::caller::call_site::{CallSite, UNTOLD};
use crate::rmi::caller::failure::PATIENCE;
use crate::rmi::caller::pair::{NodePair, PairConnection};
use crate::rmi::caller::stub_target::{CallDestination, StubTarget};
use crate::rmi::caller::unsent::{RemovedCall, UnsentCall, UnsentOutcome};
use crate::rmi::context::Inherited;
use crate::rmi::fault::{self, Fault, planted};
use crate::rmi::head::{CallAddress, CallHead};
use crate::rmi::interface_table::StubInterface;
use crate::rmi::payload::CallPayload;
use crate::rmi::{CallError, CallStage};

/// A call that was begun: a future, or to be waited for. Dropped, the call is cancelled: if
/// it has not begun to run it never will, and if it runs it can
/// [see](crate::rmi::CurrentCall::is_cancelled) that its answer is not wanted.
///
/// The call is sent at once if there is a connection to the node, its interface is known, and there is room
/// for one more call under way. Else it waits behind those that were begun before it, and is sent when
/// one of them, it, or a later one is polled or waited for: calls leave in the order in which they are begun.
/// [`rmi`](crate::rmi) has an example.
#[must_use = "dropped, the call is cancelled"]
pub struct Pending<T, E = Infallible> {
    begun: BegunCall,
    types: PhantomData<fn() -> (T, E)>,
}

/// A call that was begun, whatever its types.
struct BegunCall {
    pair: Arc<NodePair>,
    /// The interface of the stub.
    face: &'static StubInterface,
    /// The number of the object's interface.
    interface: u16,
    chain: u64,
    /// By which it can be cancelled.
    number: u64,
    started: Instant,
    until: Option<Instant>,
    /// By its number at the stub, of at most 256.
    method: u8,
    /// Whether it is a part of another.
    is_nested: bool,
    /// Whether it is over only when it is answered.
    is_answered: bool,
    /// Whether it was waited for in time, while it was not sent.
    is_awaited: bool,
    state: PendingState,
    /// Set while it is polled, and not before: a call that was begun is moved about.
    polled: Option<Box<PendingWakers>>,
}

enum PendingState {
    /// In the queue of those that wait to be sent.
    Unsent(u64),
    Sent(Call, Arc<PairConnection>),
    Here(Arc<AnswerSlot>),
    Failed(Box<CallError>),
    Over,
}

/// What a call has while it is awaited.
#[derive(Default)]
struct PendingWakers {
    /// At its deadline.
    end: Option<Alarm>,
    /// By a thread that drives meanwhile, and runs what is a part of the call.
    awaited: Option<Awaited>,
}

/// What came of a call.
enum PendingOutcome {
    Reply(CallReply),
    Answer(CallAnswer),
    Sent,
}

impl<T, E> Pending<T, E> {
    /// Begins a call with arguments that were written, if they could be.
    pub(crate) fn new(
        callee: &StubTarget,
        (inherited, waits_since): (Inherited, Option<Instant>),
        method: usize,
        args: Result<CallPayload, CallError>,
        is_answered: bool,
    ) -> Self {
        let Inherited { deadline, within, chain, is_nested, .. } = inherited;
        let CallSite { face, interface, .. } = callee.asked(method);
        let pair = Arc::clone(&callee.pair);
        let (to, number) = (CallAddress::UNKNOWN, new_number());
        let started = waits_since.unwrap_or_else(rt::now);
        let until = deadline.until_from(started);
        let begun = BegunCall {
            pair,
            face,
            interface,
            chain,
            number,
            started,
            until,
            // A call without an answer waits for room, as others do: it would be lost without.
            is_nested: is_nested && is_answered,
            method: u8::try_from(method).unwrap_or(u8::MAX),
            is_answered,
            is_awaited: false,
            state: PendingState::Over,
            polled: None,
        };
        let mut pending = Self { begun, types: PhantomData };
        match args.and_then(|args| callee.check_size(args.len()).map(|()| args)) {
            Ok(_) if deadline == Deadline::NOW => {
                pending.begun.fail(CallError::late(Duration::ZERO, CallStage::Made, false));
            }
            Ok(args) => {
                let deadline = waits_since.map_or(deadline, |_| Deadline::left(until));
                let head = CallHead { to, deadline, chain, number, within, version: None };
                pending.begun.send(callee, method, args, head);
            }
            Err(why) => pending.begun.fail(why),
        }
        pending
    }
}

impl<T: for<'a> FromWire<'a>, E: for<'a> FromWire<'a>> Pending<T, E> {
    /// Waits for the answer. In a method that is declared non-blocking it gives an answer
    /// that has come, and does not wait for another.
    ///
    /// # Errors
    ///
    /// If there is none.
    #[track_caller]
    pub fn wait(mut self) -> Result<T, CallError<E>> {
        let _waits = self.begun.asked().waits();
        self.begun.send_others();
        if let Some((words, count)) = self.begun.take_words() {
            return self.begun.asked().read(&words[..count], &[], || self.begun.whole());
        }
        let came = self.begun.wait();
        self.begun.read(came)
    }
}

impl<T: for<'a> FromWire<'a>, E: for<'a> FromWire<'a>> Future for Pending<T, E> {
    type Output = Result<T, CallError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(came) = self.begun.poll(context) else { return Poll::Pending };
        Poll::Ready(self.begun.read(came))
    }
}

impl BegunCall {
    /// To what it was made.
    fn asked(&self) -> CallSite<'_> {
        let Self { pair, face, interface, method, .. } = self;
        CallSite { pair, face, interface: *interface, method: (*method).into() }
    }

    /// How long it could take in all.
    fn whole(&self) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until - self.started)
    }

    /// What came of it, as its value.
    fn read<T, E>(&self, came: Result<PendingOutcome, CallError>) -> Result<T, CallError<E>>
    where
        T: for<'a> FromWire<'a>,
        E: for<'a> FromWire<'a>,
    {
        let (asked, whole) = (self.asked(), || self.whole());
        match came {
            Ok(PendingOutcome::Reply(reply)) => asked.read(reply.words(), reply.bytes(), whole),
            Ok(PendingOutcome::Answer(answer)) => {
                let words = answer.words().to_vec();
                asked.read(&words, &answer.into_bytes(), whole)
            }
            Ok(PendingOutcome::Sent) => asked.read(&[], &[], whole),
            Err(why) => Err(asked.failed(why)),
        }
    }

    /// Whether no call that was begun before waits to be sent.
    #[inline]
    fn is_first(&self) -> bool {
        self.pair.unsent(self.is_nested).is_empty() || planted(Fault::BegunOvertakes)
    }

    /// Sends it, if it can be sent now and no other waits to be sent; else it waits behind those.
    #[inline]
    fn send(
        &mut self,
        callee: &StubTarget,
        method: usize,
        mut args: CallPayload,
        mut head: CallHead,
    ) {
        if self.is_first()
            && let Some(CallDestination::There(there)) = callee.end()
        {
            head.to = callee.to(method);
            if head.to.is_refused() {
                return self.fail(callee.refusal(method));
            }
            match args.try_send(&head, there.way(self.is_nested)) {
                Ok(call) => return self.sent(call, there),
                Err(MessageError::Full { .. }) => {}
                Err(why) => {
                    return self.fail(self.pair.failed(&there, why, Duration::ZERO));
                }
            }
        }
        self.send_later(callee, method, args, head);
    }

    #[cold]
    fn send_later(
        &mut self,
        callee: &StubTarget,
        method: usize,
        args: CallPayload,
        mut head: CallHead,
    ) {
        match callee.end_here() {
            Ok(None) => {}
            Ok(Some(_)) => {
                head.to = callee.to(method);
                return match head.to.is_refused() {
                    true => self.fail(callee.refusal(method)),
                    false => self.send_here(callee, head, &args),
                };
            }
            Err(why) => return self.fail(why),
        }
        let (callee, until) = (callee.clone(), self.until);
        let args = Some(args);
        let waiting = UnsentCall { args, head, callee, method, until, meeting: None };
        let unsent = self.pair.unsent(self.is_nested);
        let at = unsent.push(Box::new(waiting));
        self.state = PendingState::Unsent(at);
        unsent.send(&self.pair);
        self.look(at);
    }

    /// Whether it has left meanwhile.
    fn look(&mut self, at: u64) {
        if let Some(left) = self.pair.unsent(self.is_nested).take_left(at) {
            self.left(left, Duration::ZERO);
        }
    }

    /// Others that wait to be sent may go by now.
    #[inline]
    fn send_others(&self) {
        let unsent = self.pair.unsent(self.is_nested);
        if !unsent.is_empty() {
            unsent.send(&self.pair);
        }
    }

    /// Takes the outcome of a call that has left the queue.
    fn left(&mut self, left: UnsentOutcome, patience: Duration) {
        match left {
            UnsentOutcome::Sent(call, there) => self.sent(call, there),
            UnsentOutcome::Next(..) => unreachable!("it has its arguments"),
            UnsentOutcome::Failed(why) => {
                let late = || self.late(self.stage(), false);
                let why = self.pair.trouble(patience).not_sent(*why, late);
                self.fail(why.within(self.whole()));
            }
        }
    }

    /// Somebody waits for it.
    fn be_in_time(&mut self) {
        if let PendingState::Unsent(_) = self.state {
            self.is_awaited |= self.until.is_none_or(|until| rt::now() < until);
        }
    }

    fn fail(&mut self, why: CallError) {
        self.state = PendingState::Failed(Box::new(why));
    }

    fn late(&self, stage: CallStage, may_have_run: bool) -> CallError {
        CallError::late(self.whole(), stage, may_have_run)
    }

    /// What it waits for before it is sent.
    fn stage(&self) -> CallStage {
        if self.is_awaited {
            self.pair.unsent(self.is_nested).stage(&self.pair)
        } else {
            CallStage::Begun
        }
    }

    fn sent(&mut self, call: Call, there: Arc<PairConnection>) {
        self.state =
            if self.is_answered { PendingState::Sent(call, there) } else { PendingState::Over };
    }

    fn send_here(&mut self, callee: &StubTarget, mut head: CallHead, args: &CallPayload) {
        let object = match callee.find(&mut head) {
            Ok(found) => found,
            Err(why) => return self.state = PendingState::Failed(Box::new(why)),
        };
        let spot = object.begin_here(&head, args.aligned());
        self.state = if self.is_answered { PendingState::Here(spot) } else { PendingState::Over };
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<PendingOutcome, CallError>> {
        self.be_in_time();
        if let PendingState::Unsent(at) = self.state
            && let Poll::Ready(left) =
                self.pair.unsent(self.is_nested).poll(at, &self.pair, context)
        {
            self.left(left, Duration::ZERO);
        }
        if let PendingState::Sent(..) = self.state {
            self.send_others();
        }
        let came = match &mut self.state {
            PendingState::Unsent(_) => Poll::Pending,
            PendingState::Sent(call, there) => {
                let there = Arc::clone(there);
                Pin::new(call).poll(context).map(|reply| {
                    let pair = &self.pair;
                    let failed = |error| pair.failed(&there, error, Duration::ZERO);
                    reply.map(PendingOutcome::Reply).map_err(failed)
                })
            }
            PendingState::Here(spot) => {
                spot.poll(context).map(|answer| Ok(PendingOutcome::Answer(answer)))
            }
            PendingState::Failed(_) | PendingState::Over => Poll::Ready(self.ended()),
        };
        if came.is_ready() {
            self.state = PendingState::Over;
            self.polled = None;
            return came;
        }
        self.be_awaited();
        self.poll_deadline(context)
    }

    /// Callbacks are the calling thread's, if that runs the future by `block_on`.
    fn be_awaited(&mut self) {
        let known = self.polled.as_mut().and_then(|polled| polled.awaited.take());
        let awaited =
            known.filter(Awaited::is_here).or_else(|| Awaited::here(self.chain, self.number));
        if awaited.is_some() {
            self.polled.get_or_insert_default().awaited = awaited;
        }
    }

    fn poll_deadline(&mut self, context: &Context<'_>) -> Poll<Result<PendingOutcome, CallError>> {
        let Some(until) = self.until else { return Poll::Pending };
        let now = rt::now();
        if now >= until {
            self.polled = None;
            return Poll::Ready(self.cancel_late());
        }
        let polled = self.polled.get_or_insert_default();
        // The clock of who rings it may be a little ahead: then it is set again.
        if polled.end.as_ref().is_none_or(|alarm| !alarm.set_waker(context.waker())) {
            polled.end = Some(self.pair.handle.alarm(until, context.waker()));
        }
        Poll::Pending
    }

    /// The words of an answer that has come, of a few words, and how many there are: of many calls that
    /// are under way several are answered at once, and to move a [`CallReply`] takes longer.
    #[inline]
    fn take_words(&mut self) -> Option<([u64; 6], usize)> {
        let PendingState::Sent(call, _) = &mut self.state else { return None };
        let mut words = [0; 6];
        let count = call.take_words(&mut words)?;
        self.state = PendingState::Over;
        Some((words, count))
    }

    fn wait(&mut self) -> Result<PendingOutcome, CallError> {
        let inherited = Inherited::of_chain(self.chain);
        if inherited.is_inline || in_handler() {
            return self.wait_in_handler();
        }
        self.be_in_time();
        if let PendingState::Unsent(at) = self.state {
            let unsent = self.pair.unsent(self.is_nested);
            match unsent.wait(at, &self.pair, &inherited, self.until) {
                Some(left) => self.left(left, PATIENCE),
                None => return self.cancel_late(),
            }
        }
        match std::mem::replace(&mut self.state, PendingState::Over) {
            PendingState::Sent(call, there) => {
                let left = Deadline::left(self.until);
                let reply = inherited.away(|| call.wait(left));
                if let Err(MessageError::TimedOut { .. }) = &reply {
                    there.cancel(self.number);
                }
                let failed = |error| self.pair.failed(&there, error, PATIENCE);
                reply.map(PendingOutcome::Reply).map_err(|error| failed(error).within(self.whole()))
            }
            PendingState::Here(spot) => {
                let workers = &self.pair.exchange.workers;
                let answer = inherited.away(|| spot.wait(self.until, workers));
                answer.map(PendingOutcome::Answer).ok_or_else(|| {
                    self.state = PendingState::Here(spot);
                    self.cancel();
                    self.late(CallStage::Sent, true)
                })
            }
            other => {
                self.state = other;
                self.ended()
            }
        }
    }

    /// What is known without waiting. What has not been sent is not sent either.
    fn wait_in_handler(&mut self) -> Result<PendingOutcome, CallError> {
        if let PendingState::Unsent(at) = self.state {
            self.look(at);
        }
        if let PendingState::Unsent(_) = self.state {
            let may_have_run = self.cancel();
            return Err(CallError::InHandler { may_have_run, call: UNTOLD });
        }
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(came) => came,
            Poll::Pending => Err(CallError::InHandler { may_have_run: true, call: UNTOLD }),
        }
    }

    fn ended(&mut self) -> Result<PendingOutcome, CallError> {
        match std::mem::replace(&mut self.state, PendingState::Over) {
            PendingState::Failed(why) => Err(*why),
            _ if self.is_answered => panic!("a call was polled after it was over"),
            _ => Ok(PendingOutcome::Sent),
        }
    }

    /// Its time is over, if it has not left in the last moment and is over by that.
    fn cancel_late(&mut self) -> Result<PendingOutcome, CallError> {
        if let PendingState::Unsent(at) = self.state {
            self.look(at);
        }
        if let PendingState::Failed(_) | PendingState::Over = self.state {
            return self.ended();
        }
        let stage = self.stage();
        let is_sent = self.cancel();
        let stage = if is_sent { CallStage::Sent } else { stage };
        Err(self.late(stage, fault::may_have_run(is_sent)))
    }

    /// Cancels the call; whether it may have been sent.
    fn cancel(&mut self) -> bool {
        let mut state = std::mem::replace(&mut self.state, PendingState::Over);
        if let PendingState::Unsent(at) = state {
            state = match self.pair.unsent(self.is_nested).remove(at, &self.pair) {
                RemovedCall::Left(UnsentOutcome::Sent(call, there)) if self.is_answered => {
                    PendingState::Sent(call, there)
                }
                RemovedCall::Left(UnsentOutcome::Sent(..)) | RemovedCall::Leaving => return true,
                RemovedCall::Left(_) | RemovedCall::Unsent => return false,
            };
        }
        match state {
            PendingState::Sent(call, there) => {
                there.cancel(self.number);
                drop(call);
                true
            }
            PendingState::Here(_) => {
                self.pair.exchange.objects.calls.cancel(None, self.number);
                true
            }
            PendingState::Unsent(_) | PendingState::Failed(_) | PendingState::Over => false,
        }
    }
}

impl Drop for BegunCall {
    fn drop(&mut self) {
        _ = self.cancel();
    }
}

impl<T, E> fmt::Debug for Pending<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("node", &self.begun.pair.node).finish_non_exhaustive()
    }
}

/// A number by which a call can be cancelled: none is given twice in a process, and none is 0.
#[inline]
pub(crate) fn new_number() -> u64 {
    NUMBERS.with(|own| {
        let (next, end) = own.get();
        let next = if next < end { next } else { TAKEN.fetch_add(NUMBERS_TAKEN, Relaxed) };
        let end = next | (NUMBERS_TAKEN - 1);
        own.set((next + 1, end + 1));
        next
    })
}

thread_local! {
    /// The numbers that the thread gives: the next one, and behind the last.
    static NUMBERS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// The first number that no thread has taken.
static TAKEN: AtomicU64 = AtomicU64::new(NUMBERS_TAKEN);
/// Numbers that a thread takes at once.
const NUMBERS_TAKEN: u64 = 1 << 10;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use egret_net::rt;

    use super::*;

    #[test]
    fn no_call_has_the_number_of_another() {
        let some = || (0..3 * NUMBERS_TAKEN).map(|_| new_number()).collect::<Vec<_>>();
        let spawned = [(); 4].map(|()| rt::spawn("numbers", some).expect("a thread"));
        let mut all = some();
        all.extend(spawned.into_iter().flat_map(|it| it.join().expect("it does not panic")));
        let count = all.len();
        let all = BTreeSet::from_iter(all);
        assert_eq!(all.len(), count);
        assert!(!all.contains(&0), "0 is no number");
    }
}
