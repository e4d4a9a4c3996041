//! Calling an object: the stub that the macro's methods go through.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_node::am::{CallReply, MessageError, in_handler};
use egret_node::node::{NodeHandle, Requirement};
use egret_stream::{FromWire, Wire};

use crate::rmi::answer::CallAnswer;
use crate::rmi::callee::accepted::AlignedBytes;
use crate::rmi::caller::failure::PATIENCE;
use crate::rmi::caller::pair::{NodePair, PairConnection};
use crate::rmi::caller::pending::Pending;
use crate::rmi::caller::stub_target::{CallDestination, StubTarget};
use crate::rmi::caller::unsent::{UnsentCall, UnsentOutcome, UnsentQueue};
use crate::rmi::context::Inherited;
use crate::rmi::exchange::Exchange;
use crate::rmi::head::{CallAddress, CallHead, WORDS_MAX};
use crate::rmi::interface::RemoteInterface;
use crate::rmi::payload::{CallPayload, with_pieces};
use crate::rmi::{CallError, CallStage, ObjectRef};

/// Calls an object of the interface `I` by the numbers of its methods; what the macro writes
/// gives them names.
/// [`rmi`](crate::rmi) has an example.
pub struct Stub<I: ?Sized> {
    callee: StubTarget,
    deadline: Deadline,
    interface: PhantomData<fn(&I)>,
}

impl<I: RemoteInterface + ?Sized> Stub<I> {
    /// For calls over a fabric that gives what the object requires, and this besides.
    pub(crate) fn new(handle: &NodeHandle, object: &ObjectRef, more: &Requirement) -> Self {
        let requirement = object.requirement.clone().and(more);
        let pair = Exchange::of(handle).pair(handle, object.node, requirement);
        let callee = StubTarget::new::<I>(pair, object);
        Self { callee, deadline: handle.deadline(), interface: PhantomData }
    }

    /// A reference to the object that the stub calls.
    #[must_use]
    pub fn object(&self) -> ObjectRef {
        self.callee.reference(I::NAME)
    }
}

impl<I: ?Sized> Stub<I> {
    /// A stub of the same object whose calls have another deadline.
    #[must_use]
    pub fn with_deadline(&self, deadline: impl Into<Deadline>) -> Self {
        let deadline = deadline.into();
        Self { deadline, ..self.clone() }
    }

    /// Calls a method and waits for its answer.
    ///
    /// # Errors
    ///
    /// If the call has no answer.
    #[inline]
    #[track_caller]
    pub fn call<A, T, E>(&self, method: usize, args: &A) -> Result<T, CallError<E>>
    where
        A: Wire,
        T: for<'a> FromWire<'a>,
        E: for<'a> FromWire<'a>,
    {
        let call = OutgoingCall::new(&self.callee, self.deadline);
        let asked = self.callee.asked(method);
        let _waits = asked.waits();
        let failed = |why: CallError| asked.failed(why.within(call.whole()));
        let end = call.end(call.inherited.is_nested).map_err(failed)?;
        // Set if the call has waited, and time is gone.
        let mut started = None;
        let end = match end {
            None => call.wait_end(method, *started.insert(rt::now())).map_err(failed)?,
            end => end,
        };
        match end {
            Some(CallDestination::There(there)) => {
                let head = call.head(method, call.left(started));
                if head.to.is_refused() {
                    return Err(failed(self.callee.refusal(method)));
                }
                match call.ask(&there, &head, args).map_err(failed)? {
                    Some(reply) => asked.read(reply.words(), reply.bytes(), || call.whole()),
                    None => call.begin_since(started, method, CallPayload::copy(args), true).wait(),
                }
            }
            Some(CallDestination::Here) => {
                let head = call.head(method, call.left(started));
                if head.to.is_refused() {
                    return Err(failed(self.callee.refusal(method)));
                }
                let answer = call.ask_here(head, args).map_err(failed)?;
                let words = answer.words().to_vec();
                asked.read(&words, &answer.into_bytes(), || call.whole())
            }
            None => call.begin_since(started, method, CallPayload::copy(args), true).wait(),
        }
    }

    /// Sends a call of a method and does not wait for its answer.
    ///
    /// # Errors
    ///
    /// If the call could not be sent.
    pub fn send<A: Wire>(&self, method: usize, args: &A) -> Result<(), CallError> {
        let call = OutgoingCall::new(&self.callee, self.deadline);
        match call.send(method, args) {
            Ok(None) => Ok(()),
            Ok(Some(args)) => call.begin::<(), Infallible>(method, Ok(args), false).wait(),
            Err(why) => Err(self.callee.asked(method).failed(why)),
        }
    }

    /// Begins a call.
    pub fn begin<A: Wire, T, E>(&self, method: usize, args: A) -> Pending<T, E> {
        OutgoingCall::new(&self.callee, self.deadline).begin(method, CallPayload::give(args), true)
    }

    /// Begins a call without an answer: the call is over when it is sent.
    pub fn begin_send<A: Wire>(&self, method: usize, args: A) -> Pending<()> {
        OutgoingCall::new(&self.callee, self.deadline).begin(method, CallPayload::give(args), false)
    }
}

impl<I: ?Sized> Clone for Stub<I> {
    fn clone(&self) -> Self {
        let (callee, deadline) = (self.callee.clone(), self.deadline);
        Self { callee, deadline, interface: PhantomData }
    }
}

impl<I: ?Sized> fmt::Debug for Stub<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stub = f.debug_struct("Stub");
        stub.field("callee", &self.callee).field("deadline", &self.deadline).finish()
    }
}

/// A call that the calling thread makes and waits for.
struct OutgoingCall<'a> {
    callee: &'a StubTarget,
    inherited: Inherited,
}

impl<'a> OutgoingCall<'a> {
    #[inline]
    fn new(callee: &'a StubTarget, deadline: Deadline) -> Self {
        Self { callee, inherited: Inherited::by(deadline) }
    }

    /// The head of a call without a number: such a call cannot be cancelled.
    #[inline]
    fn head(&self, method: usize, deadline: Deadline) -> CallHead {
        let Inherited { within, chain, .. } = &self.inherited;
        let (to, within, version) = (self.callee.to(method), within.clone(), None);
        CallHead { to, deadline, chain: *chain, number: 0, within, version }
    }

    /// The whole time that the call may take.
    fn whole(&self) -> Duration {
        if let Deadline::In(whole) = self.inherited.deadline { whole } else { Duration::ZERO }
    }

    /// The destination, if the call can be sent now; none if the call must wait behind others. Fails if the
    /// thread may not wait.
    #[inline]
    fn end(&self, is_nested: bool) -> Result<Option<CallDestination>, CallError> {
        if self.inherited.deadline == Deadline::NOW {
            return Err(CallError::late(Duration::ZERO, CallStage::Made, false));
        }
        match self.callee.end() {
            Some(CallDestination::There(there))
                if self.callee.pair.unsent(is_nested).is_empty() =>
            {
                Ok(Some(CallDestination::There(there)))
            }
            end => self.no_end(end, is_nested),
        }
    }

    #[cold]
    fn no_end(
        &self,
        end: Option<CallDestination>,
        is_nested: bool,
    ) -> Result<Option<CallDestination>, CallError> {
        match end {
            Some(CallDestination::Here) => return Ok(end),
            Some(CallDestination::There(there)) => {
                let unsent = self.callee.pair.unsent(is_nested);
                unsent.send(&self.callee.pair);
                if unsent.is_empty() {
                    return Ok(Some(CallDestination::There(there)));
                }
            }
            None => {
                if let Some(here) = self.callee.end_here()? {
                    return Ok(Some(here));
                }
            }
        }
        self.may_wait().map(|()| None)
    }

    /// Waits until there is a connection and all calls that were begun before have left. If there is one, and
    /// those wait for room, the call waits behind them as one that is begun: so the arguments of a
    /// first call are not copied.
    #[cold]
    fn wait_end(
        &self,
        method: usize,
        started: Instant,
    ) -> Result<Option<CallDestination>, CallError> {
        let Inherited { deadline, ref within, chain, is_nested, .. } = self.inherited;
        if self.callee.end().is_some() {
            return Ok(None);
        }
        let (pair, until) = (&self.callee.pair, deadline.until_from(started));
        let (to, within) = (CallAddress::UNKNOWN, within.clone());
        let head = CallHead { to, deadline, chain, number: 0, within, version: None };
        let (args, callee, meeting) = (None, self.callee.clone(), None);
        let unsent = pair.unsent(is_nested);
        let at = unsent.push(Box::new(UnsentCall { args, head, callee, method, until, meeting }));
        let placed = UnsentPlace { pair, unsent, at };
        let late = |stage| CallError::late(self.whole(), stage, false);
        let left = unsent.wait(at, pair, &self.inherited, until);
        let stage = unsent.stage(pair);
        drop(placed);
        match left {
            Some(UnsentOutcome::Failed(why)) => {
                Err(pair.trouble(PATIENCE).not_sent(*why, || late(stage)))
            }
            Some(UnsentOutcome::Sent(..)) => unreachable!("its arguments are here"),
            Some(UnsentOutcome::Next(there, methods)) => {
                self.callee.knows(methods);
                Ok(Some(CallDestination::There(there)))
            }
            None => Err(late(stage)),
        }
    }

    fn may_wait(&self) -> Result<(), CallError> {
        if self.inherited.is_inline || in_handler() { Err(CallError::IN_HANDLER) } else { Ok(()) }
    }

    /// What is left of its time, if it has begun to wait before.
    #[inline]
    fn left(&self, started: Option<Instant>) -> Deadline {
        let deadline = self.inherited.deadline;
        started.map_or(deadline, |started| Deadline::left(deadline.until_from(started)))
    }

    /// Begins the call, which may have waited since then.
    fn begin_since<T, E>(
        self,
        started: Option<Instant>,
        method: usize,
        args: Result<CallPayload, CallError>,
        is_answered: bool,
    ) -> Pending<T, E> {
        Pending::new(self.callee, (self.inherited, started), method, args, is_answered)
    }

    /// Begins the call, with arguments that were written, if they could be.
    fn begin<T, E>(
        self,
        method: usize,
        args: Result<CallPayload, CallError>,
        is_answered: bool,
    ) -> Pending<T, E> {
        self.begin_since(None, method, args, is_answered)
    }

    /// Sends the call and waits for its answer, if there is room.
    #[inline]
    fn ask<A: Wire>(
        &self,
        there: &Arc<PairConnection>,
        head: &CallHead,
        args: &A,
    ) -> Result<Option<CallReply>, CallError> {
        let mut words = [0; WORDS_MAX];
        let count = head.write(&mut words);
        let asked = with_pieces(args, |pieces| {
            self.callee.check_size(pieces.iter().map(|piece| piece.len() as u64).sum())?;
            Ok::<_, CallError>(self.inherited.away(|| {
                there.way(self.inherited.is_nested).try_call_with(
                    head.to.message(&words[..count]),
                    pieces,
                    head.deadline,
                )
            }))
        })??;
        match asked {
            Ok(reply) => Ok(Some(reply)),
            Err(MessageError::Full { .. }) => self.may_wait().map(|()| None),
            Err(error) => Err(self.failed(there, error)),
        }
    }

    /// Sends a call without an answer, if there is room; else these are its arguments.
    fn send<A: Wire>(&self, method: usize, args: &A) -> Result<Option<CallPayload>, CallError> {
        // By the way of most calls: one without an answer waits for room, and is lost without.
        let end = self.end(false)?;
        let mut args = CallPayload::copy(args)?;
        self.callee.check_size(args.len())?;
        match end {
            Some(CallDestination::There(there)) => {
                let head = self.head(method, self.inherited.deadline);
                if head.to.is_refused() {
                    return Err(self.callee.refusal(method));
                }
                match args.try_send(&head, there.way(false)) {
                    // Its credit comes back when it has run, so that a caller is never far ahead.
                    Ok(_) => Ok(None),
                    Err(MessageError::Full { .. }) => Ok(Some(args)),
                    Err(why) => Err(self.failed(&there, why)),
                }
            }
            Some(CallDestination::Here) => {
                let mut head = self.head(method, self.inherited.deadline);
                if head.to.is_refused() {
                    return Err(self.callee.refusal(method));
                }
                self.callee.find(&mut head)?.begin_here(&head, args.aligned());
                Ok(None)
            }
            None => Ok(Some(args)),
        }
    }

    fn ask_here<A: Wire>(&self, mut head: CallHead, args: &A) -> Result<CallAnswer, CallError> {
        let object = self.callee.find(&mut head)?;
        if self.inherited.is_inline && !object.is_inline(head.to.method) {
            return Err(CallError::IN_HANDLER);
        }
        let started = rt::now();
        let args = with_pieces(args, AlignedBytes::copy)?;
        let spot = match object.call_here(&head, args, !self.inherited.is_inline) {
            Ok(answer) => return Ok(answer),
            Err(spot) => spot.ok_or(CallError::IN_HANDLER)?,
        };
        let workers = &self.callee.pair.exchange.workers;
        let until = head.deadline.until_from(started);
        let answer = self.inherited.away(|| spot.wait(until, workers));
        answer.ok_or_else(|| CallError::late(self.whole(), CallStage::Sent, true))
    }

    #[cold]
    fn failed(&self, there: &Arc<PairConnection>, error: MessageError) -> CallError {
        let patience = if self.inherited.is_inline { Duration::ZERO } else { PATIENCE };
        self.callee.pair.failed(there, error, patience)
    }
}

/// A place in the queue of calls that wait to be sent, which is left in any case.
struct UnsentPlace<'a> {
    pair: &'a NodePair,
    unsent: &'a UnsentQueue,
    at: u64,
}

impl Drop for UnsentPlace<'_> {
    fn drop(&mut self) {
        _ = self.unsent.remove(self.at, self.pair);
    }
}
