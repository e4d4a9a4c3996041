//! Asking the registry: names, and leaving.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use egret_net::rt::{self, Deadline};

use super::event::GLANCE;
use super::{AskError, Handle, NodeId, Refused};
use crate::am::{Call, CallError, Message, Reply, SendError, in_handler};
use crate::registry::limits::NAME_MAX;
use crate::registry::wire::{ASK, Answer, Ask, VERSION};

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Binding {
    /// Who has bound it.
    pub owner: NodeId,
    /// What it stands for.
    pub bytes: Vec<u8>,
}

/// Something that the registry was asked; made by [`Handle::begin`]. Whoever drops it does
/// not want the answer.
#[derive(Debug)]
#[must_use = "the registry's answer is inside"]
pub struct Asking<T> {
    call: Result<Call, AskError>,
    read: fn(Answer) -> Result<T, AskError>,
}

/// Asks the registry without waiting; made by [`Handle::begin`].
#[derive(Debug, Clone, Copy)]
pub struct Begin<'a> {
    pub(super) handle: &'a Handle,
}

impl Begin<'_> {
    /// See [`Handle::bind`].
    pub fn bind(self, name: &str, bytes: &[u8]) -> Asking<()> {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        self.ask(&Ask::Bind { name, bytes, replace: false }, Answer::done)
    }

    /// See [`Handle::rebind`].
    pub fn rebind(self, name: &str, bytes: &[u8]) -> Asking<()> {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        self.ask(&Ask::Bind { name, bytes, replace: true }, Answer::done)
    }

    /// See [`Handle::unbind`].
    pub fn unbind(self, name: &str, bytes: &[u8]) -> Asking<bool> {
        self.ask(&unbind(name, bytes), Answer::unbound)
    }

    /// See [`Handle::bound`]; waits so long for somebody to bind the name. The registry does not
    /// wait longer than a year, which is what [`Deadline::UntilDead`] means to it.
    pub fn bound(self, name: &str, wait: impl Into<Deadline>) -> Asking<Option<Binding>> {
        let wait_ms = ms(wait.into());
        let read = if wait_ms == 0 { Answer::bound_now } else { Answer::bound };
        self.ask(&Ask::Lookup { name: name.to_owned(), wait_ms }, read)
    }

    /// See [`Node::leave`](super::Node::leave).
    pub fn leave(self) -> Asking<()> {
        self.ask(&Ask::Leave, Answer::done)
    }

    fn ask<T>(self, ask: &Ask, read: fn(Answer) -> Result<T, AskError>) -> Asking<T> {
        let bytes = ask.to_bytes();
        let message = Message::to(ASK).words(&[VERSION]).bytes(&bytes);
        let call = self.handle.asks().try_request(message);
        let call = call.map_err(|unsent| CallError::from(unsent.reason).into());
        Asking { call, read }
    }
}

impl<T> Future for Asking<T> {
    type Output = Result<T, AskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let read = self.read;
        match &mut self.call {
            Err(why) => Poll::Ready(Err(why.clone())),
            Ok(call) => Pin::new(call).poll(context).map(|reply| answer(reply).and_then(read)),
        }
    }
}

impl Handle {
    /// Gives a name to some bytes, at most 3 KiB, for as long as this node is a member.
    ///
    /// # Errors
    ///
    /// If somebody has the name.
    pub fn bind(&self, name: &str, bytes: &[u8]) -> Result<(), AskError> {
        let ask = Ask::Bind { name: name.to_owned(), bytes: bytes.to_vec(), replace: false };
        let bound = self.ask(&ask, self.deadline()).and_then(Answer::done);
        bound.map_err(|why| why.of(name))
    }

    /// As [`bind`](Self::bind), and takes the name from whoever has it.
    ///
    /// # Errors
    ///
    /// If the registry does not do so.
    pub fn rebind(&self, name: &str, bytes: &[u8]) -> Result<(), AskError> {
        let (name, bytes) = (name.to_owned(), bytes.to_vec());
        self.ask(&Ask::Bind { name, bytes, replace: true }, self.deadline()).and_then(Answer::done)
    }

    /// Takes a name of this node back if it stands for these bytes; whether it did.
    ///
    /// # Errors
    ///
    /// If it is another's.
    pub fn unbind(&self, name: &str, bytes: &[u8]) -> Result<bool, AskError> {
        let unbound = self.ask(&unbind(name, bytes), self.deadline()).and_then(Answer::unbound);
        unbound.map_err(|why| why.of(name))
    }

    /// As [`unbind`](Self::unbind), for who cannot wait, as when something is dropped: it is
    /// asked as soon as there is room for it.
    pub fn unbind_soon(&self, name: &str, bytes: &[u8]) {
        self.watch().owe(&unbind(name, bytes));
    }

    /// What a name stands for, if somebody has bound it.
    ///
    /// # Errors
    ///
    /// If the registry does not answer.
    pub fn bound(&self, name: &str) -> Result<Option<Binding>, AskError> {
        let ask = Ask::Lookup { name: name.to_owned(), wait_ms: 0 };
        self.ask(&ask, self.deadline()).and_then(Answer::bound_now)
    }

    /// As [`bound`](Self::bound), and says why nobody has bound the name.
    ///
    /// # Errors
    ///
    /// As [`wait_bound`](Self::wait_bound), at once: [`NotBound`](AskError::NotBound) too.
    pub fn try_bound(&self, name: &str) -> Result<Binding, AskError> {
        self.find_bound(name, Deadline::NOW, self.deadline())
    }

    /// Waits until somebody has bound a name. One that was [taken back](Self::unbind) may be bound
    /// again, and is waited for as one that nobody had; [`try_bound`](Self::try_bound) does not wait.
    ///
    /// # Errors
    ///
    /// If nobody does within the deadline ([`NotBound`](AskError::NotBound), which names the node that
    /// has taken it back, if one has). At once if the node that had the name last is gone
    /// ([`OwnerGone`](AskError::OwnerGone)), until somebody binds it or that rank is joined again;
    /// and if nobody ever had it and all other nodes of the pool are gone
    /// ([`NobodyLeft`](AskError::NobodyLeft)): what this node binds by itself it need not wait for.
    pub fn wait_bound(
        &self,
        name: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<Binding, AskError> {
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
    ) -> Result<Binding, AskError> {
        let started = rt::now();
        if name.len() > NAME_MAX {
            let (what, most) = (format!("a name has {} bytes", name.len()), NAME_MAX as u64);
            return Err(Refused::TooLarge { what, most }.into());
        }
        let ask = Ask::Lookup { name: name.to_owned(), wait_ms: ms(wait) };
        let withdrawn_by = match self.ask(&ask, answered) {
            Ok(Answer::Withdrawn { owner }) => Some(owner),
            // The registry may be slow.
            Err(AskError::NoAnswer(CallError::TimedOut { .. })) if wait != Deadline::NOW => None,
            answer => match answer?.bound()? {
                Some(bound) => return Ok(bound),
                None => None,
            },
        };
        let waited = if let Deadline::In(wait) = wait { wait } else { rt::now() - started };
        Err(AskError::NotBound { name: name.to_owned(), waited, withdrawn_by })
    }

    pub(super) fn ask(&self, ask: &Ask, deadline: Deadline) -> Result<Answer, AskError> {
        let answer = answer(self.wait_reply(&ask.to_bytes(), deadline));
        if !matches!(answer, Err(AskError::NoAnswer(_))) {
            return answer;
        }
        if let Some(why) = self.fenced() {
            return Err(Refused::Fenced { why }.into());
        }
        if let Some(fate) = self.own_fate() {
            return Err(AskError::NotMember { node: self.id(), fate });
        }
        let lost = self.watch().view.lock().lost.clone();
        lost.map_or(answer, |why| Err(AskError::RegistryLost { why }))
    }

    /// Asks and waits for the answer, and looks now and then whether there is a registry
    /// still.
    fn wait_reply(&self, ask: &[u8], deadline: Deadline) -> Result<Reply, CallError> {
        let (started, until) = (rt::now(), deadline.until());
        let mut call: Option<Call> = None;
        loop {
            let left = until.map_or(GLANCE, |until| GLANCE.min(until.since(rt::now())));
            let glance = Deadline::In(left);
            match &mut call {
                Some(call) => {
                    if let Some(reply) = call.wait_some(glance) {
                        return reply;
                    }
                }
                None if self.watch().pay(glance) => {
                    let message = Message::to(ASK).words(&[VERSION]).bytes(ask);
                    match self.asks().wait_request(message, glance) {
                        Ok(sent) => {
                            call = Some(sent);
                            continue;
                        }
                        Err(SendError::Full { .. } | SendError::TimedOut { .. }) => {}
                        Err(why) => return Err(why.into()),
                    }
                }
                None => {}
            }
            if in_handler() {
                return Err(CallError::InHandler);
            }
            self.watch().look();
            let is_late = until.is_some_and(|until| rt::now() >= until);
            if is_late || self.has_lost_registry() {
                return Err(CallError::TimedOut { waited: rt::now() - started });
            }
        }
    }
}

impl AskError {
    /// Of what was asked of a name.
    fn of(self, name: &str) -> Self {
        match self {
            Self::Refused(Refused::NameTaken { owner }) => {
                Self::NameTaken { name: name.to_owned(), owner }
            }
            other => other,
        }
    }
}

fn unbind(name: &str, bytes: &[u8]) -> Ask {
    Ask::Unbind { name: name.to_owned(), bytes: bytes.to_vec() }
}

/// What the registry has answered.
pub(super) fn answer(reply: Result<Reply, CallError>) -> Result<Answer, AskError> {
    match Answer::from_bytes(reply?.bytes()) {
        Some(Answer::Refused(why)) => Err(why.into()),
        Some(answer) => Ok(answer),
        None => Err(AskError::OtherAnswer),
    }
}

impl Answer {
    fn done(self) -> Result<(), AskError> {
        if self == Self::Done { Ok(()) } else { Err(AskError::OtherAnswer) }
    }

    fn unbound(self) -> Result<bool, AskError> {
        match self {
            Self::Done => Ok(true),
            Self::NotBound => Ok(false),
            _ => Err(AskError::OtherAnswer),
        }
    }

    fn bound(self) -> Result<Option<Binding>, AskError> {
        match self {
            Self::Bound { owner, bytes } => Ok(Some(Binding { owner, bytes })),
            Self::NotBound | Self::Withdrawn { .. } => Ok(None),
            Self::OwnerGone { name, owner, fate } => Err(AskError::OwnerGone { name, owner, fate }),
            Self::NobodyLeft { name } => Err(AskError::NobodyLeft { name }),
            _ => Err(AskError::OtherAnswer),
        }
    }

    /// The same, for who does not wait, and so need not be told that it would be in vain.
    fn bound_now(self) -> Result<Option<Binding>, AskError> {
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

/// How long the registry may take to say why nobody has bound a name in time.
const ANSWER: Duration = Duration::from_millis(100);
/// As good as for ever.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);
