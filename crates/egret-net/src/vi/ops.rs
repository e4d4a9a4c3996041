//! What a fabric implements: the other side of the virtual interface.
//!
//! What a fabric may rely on: descriptors were checked against its
//! [`Limits`]; receives are writable. What it must keep:
//!
//! * A [`Posted`] completes exactly once. Dropping one fails it, so forgetting
//!   one takes effort.
//! * `disconnect`, and an error, complete everything outstanding before they
//!   return or before the error can be seen.
//! * Nothing blocks but `wait`.
//! * [`Notices`] are given with no lock held.
//! * Messages of the eager class ([`Posted::is_eager`]) take receives of that class only, and
//!   neither class waits for the other. A fabric that [carries](NicOps::has_eager) eager
//!   messages itself is never given any.
//! * Bytes of a peer never panic.

use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::Waker;

#[cfg(doc)]
use super::Notices;
pub use super::promise::{Pending, Promise, pending};
use super::{
    Address, ConnectError, Counters, DrainId, Keys, Lane, Limits, ListenError, Position, Posted,
    Refused, Reliability, SendError, Sink, Ticket, Trust, ViError, ViId, WhyIsolated,
};
use crate::rt::{self, Instant};

/// What a fabric's nic does. See the [module](self) for the rules.
pub trait NicOps: Send + Sync + fmt::Debug {
    /// The name peers connect to.
    fn host(&self) -> &str;
    /// What it allows.
    fn limits(&self) -> Limits;
    /// The memory it exposes.
    fn keys(&self) -> &Arc<Keys>;
    /// Begins to listen; nobody else may listen for the same.
    ///
    /// # Errors
    ///
    /// If someone does, or the nic is down.
    fn listen(
        &self,
        service: &str,
        tag: u64,
        reliability: Reliability,
    ) -> Result<Box<dyn ListenerOps>, ListenError>;
    /// Begins to connect, and fulfils the promise when that is decided, at the
    /// latest when the request's time is up.
    fn connect(&self, request: ConnectRequest);
    /// Does what can be done without waiting. Answers how much has happened so far.
    fn progress(&self) -> Seen;
    /// Waits until more has happened than was `seen`, by this thread or another,
    /// or [`wake`](Self::wake) was called since; at the latest `until`. May return
    /// early. Whoever looks between `progress` and this misses nothing. Makes
    /// progress, and answers like `progress`.
    fn wait(&self, seen: Seen, until: Option<Instant>) -> Seen;
    /// Ends all waits for what was seen before.
    fn wake(&self);
    /// What an event loop polls while it is armed; `None` if there is no such thing.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// From now on what happens makes the descriptor readable, unless more has
    /// happened than was `seen`. Not called where there is no descriptor.
    fn arm(&self, _seen: Seen) -> Arming {
        Arming::Ready
    }
    /// The loop is awake.
    fn disarm(&self) {}
    /// The present moment in the world this nic lives in.
    fn now(&self) -> Instant {
        rt::now()
    }
    /// Whether it carries eager messages itself: then it drains, and its ends send. Otherwise
    /// they travel as posted messages of the eager class.
    fn has_eager(&self) -> bool {
        false
    }
    /// Passes eager messages that have arrived for this drain to `sink`, at most `budget`, and
    /// says how many.
    fn drain(&self, _drain: DrainId, _budget: usize, _sink: &mut Sink<'_>) -> usize {
        0
    }
}

/// How much has happened on a nic: something to wait for more than.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen(pub u64);

/// What came of [arming](super::Nic::arm) a nic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arming {
    /// It is not armed: something is there to look at.
    Ready,
    /// It is armed: its descriptor is readable when something happens.
    Armed {
        /// When it is to be disarmed at the latest.
        until: Option<Instant>,
    },
}

/// What a fabric's listener does. Dropping it stops listening.
pub trait ListenerOps: Send + Sync + fmt::Debug {
    /// Accepts a connection if one is waiting.
    ///
    /// # Errors
    ///
    /// If the nic is down.
    fn try_accept(&self, spec: ViSpec) -> Result<Option<Box<dyn ViOps>>, ListenError>;
    /// Wakes `waker` once when a connection arrives.
    fn wake_on_arrival(&self, waker: &Waker);
}

/// What a fabric's end of a connection does. Dropping it closes it.
pub trait ViOps: Send + Sync + fmt::Debug {
    /// The other end's host.
    fn peer(&self) -> &str;
    /// The level both sides asked for.
    fn reliability(&self) -> Reliability;
    /// How far the two sides trust each other.
    fn trust(&self) -> Trust {
        Trust::Isolated
    }
    /// Why it is isolated, if this side asked for more.
    fn why_isolated(&self) -> Option<WhyIsolated> {
        None
    }
    /// Takes a descriptor, or gives it back with the reason.
    ///
    /// # Errors
    ///
    /// If the queue is full or the connection broken.
    fn post(&self, posted: Posted) -> Result<(), Unposted>;
    /// Completes a descriptor that has not begun with [`ViError::Cancelled`],
    /// before it returns `true`.
    fn cancel(&self, ticket: Ticket) -> bool;
    /// Closes the connection and completes everything outstanding.
    fn disconnect(&self);
    /// Why it is in the error state, if it is.
    fn error(&self) -> Option<ViError>;
    /// What it has done so far.
    fn counters(&self) -> Counters;
    /// Sends an eager message. Not called where the nic does not
    /// [carry](NicOps::has_eager) them.
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    fn send(&self, _lane: Lane, _tag: u64, _parts: &[&[u8]]) -> Result<Position, SendError> {
        Err(SendError::Closed(self.error().unwrap_or(ViError::Closed)))
    }
    /// How much of a lane has arrived at the peer, as far as is known; if it is to be `asked`, it
    /// says so soon.
    fn arrived(&self, _lane: Lane, _asked: bool) -> Position {
        Position::default()
    }
}

/// A descriptor that a fabric did not take, and why. In a box: it is the rare
/// answer, and the common one should not move its size about.
#[derive(Debug)]
pub struct Unposted(Box<(Refused, Posted)>);

impl Unposted {
    /// Gives `posted` back.
    #[cold]
    #[must_use]
    pub fn new(reason: Refused, posted: Posted) -> Self {
        Self(Box::new((reason, posted)))
    }

    pub(super) fn into_parts(self) -> (Refused, Posted) {
        *self.0
    }
}

/// How an end of a connection is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViSpec {
    /// The level asked for.
    pub reliability: Reliability,
    /// Descriptors that may be outstanding on each queue.
    pub depth: u32,
    /// What its handle is called.
    pub vi: ViId,
    /// Where its eager messages are drained.
    pub drain: DrainId,
}

impl ViSpec {
    /// An end of its own, with a drain of its own.
    #[must_use]
    pub fn new(reliability: Reliability, depth: u32) -> Self {
        Self { reliability, depth, vi: ViId::unused(), drain: DrainId::unused() }
    }
}

/// A connection to be made.
#[derive(Debug)]
pub struct ConnectRequest {
    /// Where to.
    pub to: Address,
    /// How this end is to be.
    pub spec: ViSpec,
    /// When to give up.
    pub until: Option<Instant>,
    /// Whether to give up as soon as it is known that the host, or the listener, is not there.
    pub at_once: bool,
    /// What to tell.
    pub promise: Promise<Result<Box<dyn ViOps>, ConnectError>>,
}
