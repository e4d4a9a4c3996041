//! Calling an object: the stub that the macro's methods go through.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_node::am::{self, Reply, SendError};
use egret_node::node::Handle;
use egret_stream::{FromWire, Wire};

use super::args::{Args, with_pieces};
use super::asked::UNTOLD;
use super::called::Aligned;
use super::callee::{Callee, End};
use super::context::Inherited;
use super::exchange::Exchange;
use super::interface::Interface;
use super::pair::Connected;
use super::pending::Pending;
use super::served::Answer;
use super::trouble::PATIENCE;
use super::words::{Head, WORDS_MAX};
use super::{CallError, ObjectRef};

/// Calls an object of the interface `I` by the numbers of its methods; what the macro writes
/// gives them names.
pub struct Stub<I: ?Sized> {
    callee: Callee,
    deadline: Deadline,
    interface: PhantomData<fn(&I)>,
}

impl<I: Interface + ?Sized> Stub<I> {
    pub(crate) fn new(handle: &Handle, object: &ObjectRef) -> Self {
        let pair = Exchange::of(handle).pair(handle, object.node);
        let callee = Callee::new::<I>(pair, object);
        Self { callee, deadline: handle.deadline(), interface: PhantomData }
    }

    /// What it calls.
    #[must_use]
    pub fn object(&self) -> ObjectRef {
        self.callee.reference(I::NAME)
    }
}

impl<I: ?Sized> Stub<I> {
    /// The same, with another deadline for each call.
    #[must_use]
    pub fn with_deadline(&self, deadline: impl Into<Deadline>) -> Self {
        let deadline = deadline.into();
        Self { deadline, ..self.clone() }
    }

    /// Calls a method and waits for its answer.
    ///
    /// # Errors
    ///
    /// If there is none.
    #[inline]
    pub fn call<A, T, E>(&self, method: usize, args: &A) -> Result<T, CallError<E>>
    where
        A: Wire,
        T: for<'a> FromWire<'a>,
        E: for<'a> FromWire<'a>,
    {
        let call = Outgoing::new(&self.callee, self.deadline);
        let asked = self.callee.asked(method);
        let (end, deadline) = call.connect().map_err(|why| asked.failed(why))?;
        let head = call.head(method, deadline);
        let whole = || if let Deadline::In(time) = deadline { time } else { Duration::ZERO };
        match end {
            End::There(there) => {
                let failed = |why: CallError| asked.failed(why.after(call.spent(deadline)));
                let reply = call.ask(&there, &head, args).map_err(failed)?;
                asked.read(reply.words(), reply.bytes(), whole)
            }
            End::Here => {
                let answer = call.ask_here(&head, args).map_err(|why| asked.failed(why))?;
                let words = answer.words().to_vec();
                asked.read(&words, &answer.into_bytes(), whole)
            }
        }
    }

    /// Calls a method and does not wait for it.
    ///
    /// # Errors
    ///
    /// If the call could not be sent.
    pub fn send<A: Wire>(&self, method: usize, args: &A) -> Result<(), CallError> {
        self.send_off(method, args).map_err(|why| self.callee.asked(method).failed(why))
    }

    fn send_off<A: Wire>(&self, method: usize, args: &A) -> Result<(), CallError> {
        let call = Outgoing::new(&self.callee, self.deadline);
        let (end, deadline) = call.connect()?;
        let head = call.head(method, deadline);
        let mut args = Args::copy(args)?;
        self.callee.check_size(args.len())?;
        match end {
            End::There(there) => call.post(&there, &head, &mut args),
            End::Here => {
                self.callee.find(head.to)?.begin_here(&head, args.aligned());
                Ok(())
            }
        }
    }

    /// Begins a call.
    pub fn begin<A: Wire, T, E>(&self, method: usize, args: A) -> Pending<T, E> {
        Pending::new(&self.callee, self.deadline, method, args, true)
    }

    /// Begins a call that nobody waits for: it is over when it is sent.
    pub fn begin_send<A: Wire>(&self, method: usize, args: A) -> Pending<()> {
        Pending::new(&self.callee, self.deadline, method, args, false)
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
struct Outgoing<'a> {
    callee: &'a Callee,
    inherited: Inherited,
}

impl<'a> Outgoing<'a> {
    #[inline]
    fn new(callee: &'a Callee, deadline: Deadline) -> Self {
        Self { callee, inherited: Inherited::by(deadline) }
    }

    /// What a call says that cannot be cancelled.
    #[inline]
    fn head(&self, method: usize, deadline: Deadline) -> Head {
        let Inherited { within, chain, .. } = &self.inherited;
        let to = self.callee.to(method);
        Head { to, deadline, chain: *chain, number: 0, within: within.clone() }
    }

    /// Where the call goes, and how long it may still take.
    #[inline]
    fn connect(&self) -> Result<(End, Deadline), CallError> {
        match self.callee.end() {
            Some(end) => Ok((end, self.inherited.deadline)),
            None => self.connect_first(),
        }
    }

    #[cold]
    fn connect_first(&self) -> Result<(End, Deadline), CallError> {
        if self.inherited.is_inline {
            let here = self.callee.end_here()?.ok_or(CallError::IN_HANDLER)?;
            return Ok((here, self.inherited.deadline));
        }
        let started = rt::now();
        let end = self.inherited.away(|| self.callee.wait_end(self.inherited.deadline));
        let end = end.map_err(|why| why.waited_since(started))?;
        let deadline = match self.inherited.deadline {
            Deadline::In(whole) => Deadline::In(whole.saturating_sub(rt::now() - started)),
            Deadline::UntilDead => Deadline::UntilDead,
        };
        Ok((end, deadline))
    }

    /// What of its time was gone when so much was left.
    fn spent(&self, left: Deadline) -> Duration {
        match (self.inherited.deadline, left) {
            (Deadline::In(whole), Deadline::In(left)) => whole.saturating_sub(left),
            _ => Duration::ZERO,
        }
    }

    #[inline]
    fn ask<A: Wire>(
        &self,
        there: &Arc<Connected>,
        head: &Head,
        args: &A,
    ) -> Result<Reply, CallError> {
        let asked = with_pieces(args, |pieces| {
            self.callee.check_size(pieces.iter().map(|piece| piece.len() as u64).sum())?;
            Ok::<_, CallError>(self.inherited.away(|| self.ask_with(there, head, pieces)))
        })??;
        asked.map_err(|error| self.failed(there, error))
    }

    #[inline]
    fn ask_with(
        &self,
        there: &Arc<Connected>,
        head: &Head,
        pieces: &[&[u8]],
    ) -> Result<Reply, am::CallError> {
        let mut words = [0; WORDS_MAX];
        let count = head.write(&mut words);
        match there.way(self.inherited.is_nested).try_call_with(
            head.to.message(&words[..count]),
            pieces,
            head.deadline,
        ) {
            Err(am::CallError::Send(SendError::Full { .. })) => {
                self.ask_when_room(there, head, pieces)
            }
            asked => asked,
        }
    }

    /// Waits for room, and tells the object how much time is left then.
    #[cold]
    fn ask_when_room(
        &self,
        there: &Arc<Connected>,
        head: &Head,
        pieces: &[&[u8]],
    ) -> Result<Reply, am::CallError> {
        let until = head.deadline.until();
        let left = || Deadline::left(until);
        loop {
            there.way(self.inherited.is_nested).wait_room(left())?;
            let head = Head { deadline: left(), ..head.clone() };
            let mut words = [0; WORDS_MAX];
            let count = head.write(&mut words);
            match there.way(self.inherited.is_nested).try_call_with(
                head.to.message(&words[..count]),
                pieces,
                head.deadline,
            ) {
                Err(am::CallError::Send(SendError::Full { .. })) => {}
                asked => return asked,
            }
        }
    }

    fn post(&self, there: &Arc<Connected>, head: &Head, args: &mut Args) -> Result<(), CallError> {
        // By the way of most calls: one that nobody waits for waits for room, and is lost without.
        let mut head = head.clone();
        let until = head.deadline.until();
        let sent = args.wait_send(there.way(false), &self.inherited, until, &mut head);
        // Its credit comes back when it has run, so that a caller is never far ahead.
        sent.map(drop).map_err(|why| self.failed(there, why.into()))
    }

    fn ask_here<A: Wire>(&self, head: &Head, args: &A) -> Result<Answer, CallError> {
        let object = self.callee.find(head.to)?;
        if self.inherited.is_inline && !object.is_inline(head.to.method) {
            return Err(CallError::IN_HANDLER);
        }
        let started = rt::now();
        let args = with_pieces(args, Aligned::copy)?;
        let spot = match object.call_here(head, args, !self.inherited.is_inline) {
            Ok(answer) => return Ok(answer),
            Err(spot) => spot.ok_or(CallError::IN_HANDLER)?,
        };
        let workers = &self.callee.pair.exchange.workers;
        let until = head.deadline.until_from(started);
        let answer = self.inherited.away(|| spot.wait(until, workers));
        answer.ok_or_else(|| {
            let waited = rt::now() - started;
            CallError::Deadline { waited, may_have_run: true, call: UNTOLD }
        })
    }

    #[cold]
    fn failed(&self, there: &Arc<Connected>, error: am::CallError) -> CallError {
        let patience = if self.inherited.is_inline { Duration::ZERO } else { PATIENCE };
        self.callee.pair.failed(there, error, patience)
    }
}
