//! Requests to the registry: names, and leaving.

use egret_net::rt::waits;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use egret_net::rt::{self, Deadline};

use super::NodeHandle;
use super::view::PoolWatch;
use crate::am::{CallReply, MessageError};
use crate::in_handler::in_handler;
use crate::pool::wire::{NAME_MAX, RegistryAnswer, RegistryQuestion};
use crate::pool::{GLANCE, NodeError, NodeId, RegistryRefusal};

/// The value of a bound name; the [module](super) has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Binding {
    /// The node that has bound the name.
    pub owner: NodeId,
    /// The bytes that the name is bound to.
    pub bytes: Vec<u8>,
}

/// A request to the registry, whose answer is a future; made by [`NodeHandle::begin`]. Dropping it
/// discards the answer.
#[doc(hidden)]
#[must_use = "the registry's answer is inside"]
pub struct RegistryReply<T> {
    watch: Arc<PoolWatch>,
    /// The number of the question, unless there was no room for it.
    number: Result<u64, MessageError>,
    read: fn(RegistryAnswer) -> Result<T, NodeError>,
}

/// Asks the registry without waiting; made by [`NodeHandle::begin`].
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct RegistryRequests<'a> {
    pub(super) handle: &'a NodeHandle,
}

impl RegistryRequests<'_> {
    /// See [`NodeHandle::bind`].
    pub fn bind(self, name: &str, bytes: &[u8]) -> RegistryReply<()> {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        self.ask(&RegistryQuestion::Bind { name, bytes, replace: false }, RegistryAnswer::done)
    }

    /// See [`NodeHandle::rebind`].
    pub fn rebind(self, name: &str, bytes: &[u8]) -> RegistryReply<()> {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        self.ask(&RegistryQuestion::Bind { name, bytes, replace: true }, RegistryAnswer::done)
    }

    /// See [`NodeHandle::unbind`].
    pub fn unbind(self, name: &str, bytes: &[u8]) -> RegistryReply<bool> {
        self.ask(&unbind(name, bytes), RegistryAnswer::unbound)
    }

    /// See [`NodeHandle::bound`]; waits so long for the name to be bound. The registry does not
    /// wait longer than a year, which is what [`Deadline::UntilDead`] means to it.
    pub fn bound(self, name: &str, wait: impl Into<Deadline>) -> RegistryReply<Option<Binding>> {
        let wait_ms = ms(wait.into());
        let read = if wait_ms == 0 { RegistryAnswer::bound_now } else { RegistryAnswer::bound };
        self.ask(&RegistryQuestion::Lookup { name: name.to_owned(), wait_ms }, read)
    }

    /// See [`Node::leave`](super::Node::leave).
    pub fn leave(self) -> RegistryReply<()> {
        self.ask(&RegistryQuestion::Leave, RegistryAnswer::done)
    }

    /// Enters a view, as [`NodeHandle::enter`] does.
    pub fn enter(self, view: &str) -> RegistryReply<()> {
        self.ask(&RegistryQuestion::Enter { view: view.to_owned() }, RegistryAnswer::reached)
    }

    /// Exits a view, as [`NodeHandle::exit`] does.
    pub fn exit(self, view: &str) -> RegistryReply<()> {
        self.ask(&RegistryQuestion::Exit { view: view.to_owned() }, RegistryAnswer::reached)
    }

    /// Sends a signal, as [`NodeHandle::signal`] does.
    pub fn signal(self, to: &[NodeId], bytes: &[u8]) -> RegistryReply<()> {
        let (to, bytes) = (to.to_vec(), bytes.to_vec());
        self.ask(&RegistryQuestion::Signal { to, bytes }, RegistryAnswer::reached)
    }

    fn ask<T>(
        self,
        ask: &RegistryQuestion,
        read: fn(RegistryAnswer) -> Result<T, NodeError>,
    ) -> RegistryReply<T> {
        let watch = Arc::clone(self.handle.watch());
        RegistryReply { number: watch.questions.ask(ask), watch, read }
    }
}

impl<T> RegistryReply<T> {
    fn poll_reply(&mut self, context: &mut Context<'_>) -> Poll<Result<CallReply, MessageError>> {
        let number = match &self.number {
            Ok(number) => *number,
            Err(why) => return Poll::Ready(Err(why.clone())),
        };
        if let Poll::Ready(reply) = self.watch.questions.poll(number, context) {
            return Poll::Ready(reply);
        }
        // It may wait for the next link to the registry, which may be there meanwhile.
        self.watch.wake_when_changed(context.waker());
        self.watch.questions.poll(number, context)
    }
}

impl<T> Drop for RegistryReply<T> {
    fn drop(&mut self) {
        if let Ok(number) = self.number {
            self.watch.questions.remove(number);
        }
    }
}

impl<T> fmt::Debug for RegistryReply<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryReply").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<T> Future for RegistryReply<T> {
    type Output = Result<T, NodeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let read = self.read;
        self.poll_reply(context).map(|reply| answer(reply).and_then(read))
    }
}

impl NodeHandle {
    /// Gives a name to some bytes, at most 3 KiB, for as long as this node is a member.
    ///
    /// # Errors
    ///
    /// If the name is bound already.
    #[track_caller]
    pub fn bind(&self, name: &str, bytes: &[u8]) -> Result<(), NodeError> {
        let ask =
            RegistryQuestion::Bind { name: name.to_owned(), bytes: bytes.to_vec(), replace: false };
        let bound = self.ask(&ask, self.deadline()).and_then(RegistryAnswer::done);
        bound.map_err(|why| why.of(name))
    }

    /// As [`bind`](Self::bind), and takes the name from its owner.
    ///
    /// # Errors
    ///
    /// If the registry does not do so.
    #[track_caller]
    pub fn rebind(&self, name: &str, bytes: &[u8]) -> Result<(), NodeError> {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        self.ask(&RegistryQuestion::Bind { name, bytes, replace: true }, self.deadline())
            .and_then(RegistryAnswer::done)
    }

    /// Takes a name of this node back if it stands for these bytes; whether it did.
    ///
    /// # Errors
    ///
    /// If it is another's.
    #[track_caller]
    pub fn unbind(&self, name: &str, bytes: &[u8]) -> Result<bool, NodeError> {
        let unbound =
            self.ask(&unbind(name, bytes), self.deadline()).and_then(RegistryAnswer::unbound);
        unbound.map_err(|why| why.of(name))
    }

    /// As [`unbind`](Self::unbind), for who cannot wait, as when something is dropped: it is
    /// asked as soon as there is room for it.
    pub fn unbind_soon(&self, name: &str, bytes: &[u8]) {
        self.watch().questions.owe(&unbind(name, bytes));
    }

    /// What a name stands for, if it is bound.
    ///
    /// # Errors
    ///
    /// If the registry does not answer.
    #[track_caller]
    pub fn bound(&self, name: &str) -> Result<Option<Binding>, NodeError> {
        let ask = RegistryQuestion::Lookup { name: name.to_owned(), wait_ms: 0 };
        self.ask(&ask, self.deadline()).and_then(RegistryAnswer::bound_now)
    }

    /// As [`bound`](Self::bound), and says why the name is not bound.
    ///
    /// # Errors
    ///
    /// As [`wait_bound`](Self::wait_bound), at once: [`NotBound`](NodeError::NotBound) too.
    #[track_caller]
    pub fn try_bound(&self, name: &str) -> Result<Binding, NodeError> {
        self.find_bound(name, Deadline::NOW, self.deadline())
    }

    /// Waits until a name is bound. One that was [taken back](Self::unbind) may be bound
    /// again, and is waited for as one that was never bound; [`try_bound`](Self::try_bound) does not wait.
    ///
    /// # Errors
    ///
    /// If that does not happen within the deadline ([`NotBound`](NodeError::NotBound), which names the node that
    /// has taken it back, if one has). At once if the node that had the name last is gone
    /// ([`OwnerGone`](NodeError::OwnerGone)), until it is bound again or that rank is joined again; in an open pool,
    /// where another node may take the place of that one, not before the deadline;
    /// and if it was never bound and all other nodes of the pool are gone
    /// ([`NobodyLeft`](NodeError::NobodyLeft)): what this node binds by itself it need not wait for.
    #[track_caller]
    pub fn wait_bound(
        &self,
        name: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<Binding, NodeError> {
        let _waits = waits::named(self.wait_hint("name", None), name);
        let wait = deadline.into();
        // At the end of that the registry says why, which takes its way.
        let answered = match wait {
            Deadline::In(wait) => Deadline::In(wait.saturating_add(ANSWER)),
            Deadline::UntilDead => Deadline::UntilDead,
        };
        self.find_bound(name, wait, answered)
    }

    /// Has the registry wait so long for a name, and waits so long for its answer.
    fn find_bound(
        &self,
        name: &str,
        wait: Deadline,
        answered: Deadline,
    ) -> Result<Binding, NodeError> {
        let started = rt::now();
        if name.len() > NAME_MAX {
            let (what, most) = (format!("a name has {} bytes", name.len()), NAME_MAX as u64);
            return Err(RegistryRefusal::TooLarge { what, most }.into());
        }
        let ask = RegistryQuestion::Lookup { name: name.to_owned(), wait_ms: ms(wait) };
        let withdrawn_by = match self.ask(&ask, answered) {
            Ok(RegistryAnswer::Withdrawn { owner }) => {
                // The registry of an open pool does not say which of both it was.
                if let Some(fate) = self.fate(owner).filter(|_| self.is_open()) {
                    return Err(NodeError::OwnerGone { name: name.to_owned(), owner, fate });
                }
                Some(owner)
            }
            // The registry may be slow.
            Err(NodeError::NoAnswer(MessageError::TimedOut { .. })) if wait != Deadline::NOW => {
                None
            }
            answer => match answer?.bound()? {
                Some(bound) => return Ok(bound),
                None => None,
            },
        };
        let waited = if let Deadline::In(wait) = wait { wait } else { rt::now() - started };
        Err(NodeError::NotBound { name: name.to_owned(), waited, withdrawn_by })
    }

    #[track_caller]
    pub(super) fn ask(
        &self,
        ask: &RegistryQuestion,
        deadline: Deadline,
    ) -> Result<RegistryAnswer, NodeError> {
        let _waits = self.waits("registry", None);
        let answer = self.wait_answer(ask, deadline);
        if !matches!(answer, Err(NodeError::NoAnswer(_))) {
            return answer;
        }
        if let Some(why) = self.fenced() {
            return Err(RegistryRefusal::Fenced { why }.into());
        }
        if let Some(fate) = self.own_fate() {
            return Err(NodeError::NotMember { node: self.id(), fate });
        }
        let lost = self.watch().view.lock().lost.clone();
        lost.map_or(answer, |why| Err(NodeError::RegistryLost { why }))
    }

    /// Asks and waits for the answer, and looks now and then whether there is a registry
    /// still.
    fn wait_answer(
        &self,
        ask: &RegistryQuestion,
        deadline: Deadline,
    ) -> Result<RegistryAnswer, NodeError> {
        let (started, until) = (rt::now(), deadline.until());
        let mut asking: Option<RegistryReply<RegistryAnswer>> = None;
        loop {
            let left = until.map_or(GLANCE, |until| GLANCE.min(until.since(rt::now())));
            let reply = asking.get_or_insert_with(|| self.begin().ask(ask, Ok));
            match self.watch().links.wait_on(reply, Deadline::In(left)) {
                // It is asked again when there may be room.
                Some(Err(NodeError::NoAnswer(MessageError::Full { .. }))) => {
                    asking = None;
                    self.watch().links.drive(Deadline::In(left.min(ROOM)), || false);
                }
                Some(answer) => return answer,
                None => {}
            }
            if in_handler() {
                return Err(MessageError::InHandler.into());
            }
            self.watch().questions.settle();
            self.watch().look();
            let is_late = until.is_some_and(|until| rt::now() >= until);
            if is_late || self.has_lost_registry() {
                return Err(MessageError::TimedOut { waited: rt::now() - started }.into());
            }
        }
    }
}

impl NodeError {
    /// Of what was asked of a name.
    pub(super) fn of(self, name: &str) -> Self {
        match self {
            Self::Refused(RegistryRefusal::NameTaken { owner }) => {
                Self::NameTaken { name: name.to_owned(), owner }
            }
            other => other,
        }
    }
}

fn unbind(name: &str, bytes: &[u8]) -> RegistryQuestion {
    RegistryQuestion::Unbind { name: name.to_owned(), bytes: bytes.to_vec() }
}

/// What the registry has answered.
pub(super) fn answer(reply: Result<CallReply, MessageError>) -> Result<RegistryAnswer, NodeError> {
    match RegistryAnswer::from_bytes(reply?.bytes()) {
        Some(RegistryAnswer::Refused(why)) => Err(why.into()),
        Some(answer) => Ok(answer),
        None => Err(NodeError::OtherAnswer),
    }
}

impl RegistryAnswer {
    pub(super) fn done(self) -> Result<(), NodeError> {
        if self == Self::Done { Ok(()) } else { Err(NodeError::OtherAnswer) }
    }

    fn reached(self) -> Result<(), NodeError> {
        if let Self::Reached { .. } = self { Ok(()) } else { Err(NodeError::OtherAnswer) }
    }

    pub(super) fn unbound(self) -> Result<bool, NodeError> {
        match self {
            Self::Done => Ok(true),
            Self::NotBound => Ok(false),
            _ => Err(NodeError::OtherAnswer),
        }
    }

    fn bound(self) -> Result<Option<Binding>, NodeError> {
        match self {
            Self::Bound { owner, bytes } => Ok(Some(Binding { owner, bytes })),
            Self::NotBound | Self::Withdrawn { .. } => Ok(None),
            Self::OwnerGone { name, owner, fate } => {
                Err(NodeError::OwnerGone { name, owner, fate })
            }
            Self::NobodyLeft { name } => Err(NodeError::NobodyLeft { name }),
            _ => Err(NodeError::OtherAnswer),
        }
    }

    /// The same, for who does not wait, and so need not be told that it would be in vain.
    fn bound_now(self) -> Result<Option<Binding>, NodeError> {
        match self {
            Self::OwnerGone { .. } | Self::NobodyLeft { .. } => Ok(None),
            answer => answer.bound(),
        }
    }
}

fn ms(wait: Deadline) -> u64 {
    let time = if let Deadline::In(time) = wait { time } else { LONG };
    u64::try_from(time.min(LONG).as_millis()).unwrap_or(u64::MAX)
}

/// How often a thread looks whether there is room for its question.
const ROOM: Duration = Duration::from_millis(1);
/// How long the registry may take to say why a name was not bound in time.
const ANSWER: Duration = Duration::from_millis(100);
/// The longest wait that is sent: for ever.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);
