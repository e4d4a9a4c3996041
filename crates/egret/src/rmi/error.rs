//! What can go wrong with remote calls.

use std::fmt;
use std::time::Duration;

use egret_node::node::Fate;
use egret_stream::{Describe, FromWire, Invalid, Reader, Size, Stop, Wire, Writer, Written};
use thiserror::Error;

use super::asked::UNTOLD;
use super::load::COMMON;
use super::{CallTo, NodeId};

/// Why a call has no value. `E` is the method's own error; all others say by `call` to what the call
/// was made.
///
/// What `may_have_run` says of a call without an answer: `false` if the object has certainly
/// not seen it, `true` if it may have. Nothing is ever tried twice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallError<E = Never> {
    /// The object's node is gone, or there is no way to it.
    #[error(
        "node {node} is gone: {why}; the call of {} {}; its objects are gone with it",
        call.name(), ran(*may_have_run)
    )]
    PeerDied {
        /// Which.
        node: NodeId,
        /// Why: what it panicked with, what the registry says of its end, or what the link does.
        why: String,
        /// Whether the call may have run there.
        may_have_run: bool,
        /// What was called.
        call: CallTo,
    },
    /// The stub's own node is no member any more: it has left, was dropped, or was declared dead.
    #[error(
        "this node, {node}, is no member of its pool any more: {fate}; the call of {call} {}; \
         `Node::join` makes another node, which makes stubs of its own",
        ran(*may_have_run)
    )]
    NotMember {
        /// Which: the node that called.
        node: NodeId,
        /// How it came to be none.
        fate: Fate,
        /// Whether the call may have run.
        may_have_run: bool,
        /// What was called.
        call: CallTo,
    },
    /// The deadline passed.
    #[error("{}", late(*deadline, *stage, *may_have_run, call))]
    Deadline {
        /// How long the call could take: the stub's deadline, or what was left of the call that it is a
        /// part of.
        deadline: Duration,
        /// How far the call had come.
        stage: Stage,
        /// Whether the call may have run, or still runs.
        may_have_run: bool,
        /// What was called.
        call: CallTo,
    },
    /// There is no such object (any more).
    #[error(
        "there is no such object (any more); the call of {call} has not run; \
         look the object up again, if it was bound to a name"
    )]
    UnknownObject {
        /// What was called.
        call: CallTo,
    },
    /// The object has another interface than the stub.
    #[error(
        "the stub is one of `{ours}`, and the object has the interface `{theirs}`; the call of {call} has not run; \
         make a stub of that interface"
    )]
    OtherInterface {
        /// What the caller takes the object for.
        ours: String,
        /// What it is.
        theirs: String,
        /// What was called.
        call: CallTo,
    },
    /// The object has no such method.
    #[error("the object has no method `{name}`; the call of {call} has not run")]
    UnknownMethod {
        /// Its name.
        name: String,
        /// What was called.
        call: CallTo,
    },
    /// The object's method has other types.
    #[error(
        "method `{method}`: this side has {ours}, the object {theirs}; the call of {call} has not run"
    )]
    TypeMismatch {
        /// Its name.
        method: String,
        /// What the caller takes it for.
        ours: String,
        /// What it is.
        theirs: String,
        /// What was called.
        call: CallTo,
    },
    /// The object's node has as much to do as it takes.
    #[error(
        "node {} takes no more calls of this node now: {} calls and {} bytes of \
         arguments of whoever comes first, and as much again divided among the nodes of the pool; \
         the call of {} has not run; have fewer calls under way at once, or try again",
        call.node(), COMMON.calls, COMMON.bytes, call.name()
    )]
    Busy {
        /// What was called.
        call: CallTo,
    },
    /// The call was cancelled before it ran.
    #[error("the call of {call} was cancelled before it ran")]
    Cancelled {
        /// What was called.
        call: CallTo,
    },
    /// The method panicked.
    #[error("the method {call} panicked: {message}")]
    Panicked {
        /// With these words.
        message: String,
        /// What was called.
        call: CallTo,
    },
    /// The call comes back to an object that waits for it.
    #[error(
        "the object waits for a call that this is a part of; the call of {call} has not run; \
         it may run where both methods take `&self`"
    )]
    Reentered {
        /// What was called.
        call: CallTo,
    },
    /// The method has run, and its answer is larger than this side takes.
    #[error(
        "the method {call} has run, and its answer needs {bytes} bytes of buffers, of which this \
         node takes at most {most}: `Config::budget` of this node raises that"
    )]
    AnswerTooLarge {
        /// What the answer needs.
        bytes: u64,
        /// Most that this node takes.
        most: u64,
        /// What was called.
        call: CallTo,
    },
    /// The arguments are larger than is taken.
    #[error("the call of {call} has {bytes} bytes, of which at most {most} are taken: {limit}")]
    TooLarge {
        /// Bytes of the arguments, or what they need of buffers.
        bytes: u64,
        /// Most there may be.
        most: u64,
        /// Whose limit that is, and what raises it.
        limit: Limit,
        /// What was called.
        call: CallTo,
    },
    /// The arguments or the answer could not be written or read.
    #[error("the call of {call} could not be written or read: {why}")]
    Unreadable {
        /// Why.
        why: String,
        /// What was called.
        call: CallTo,
    },
    /// A method that is declared non-blocking may not wait.
    #[error(
        "a method that is declared non-blocking may not wait; the call of {call} {}; without \
         `#[nonblocking]` it may, and `begin` without waiting it may as well",
        ran(*may_have_run)
    )]
    InHandler {
        /// Whether the call was sent before it was waited for; it is cancelled, as one that is
        /// dropped.
        may_have_run: bool,
        /// What was called.
        call: CallTo,
    },
    /// The object's node has dropped the call without an answer.
    #[error(
        "node {node}, which has the object, gave no answer to the call of {}, which may have run",
        call.name()
    )]
    NoAnswer {
        /// Which.
        node: NodeId,
        /// What was called.
        call: CallTo,
    },
    /// The method's own error.
    #[error("{0}")]
    Failed(E),
}

/// A limit on the bytes of a call. It tells what raises it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// What the object takes: [`Export::bytes_max`](super::Export::bytes_max).
    Object,
    /// What the object's node takes: [`Config::budget`](egret_node::node::Config::budget).
    Node,
    /// What a message can have.
    Message,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "`Export::bytes_max` where the object is exported raises that",
            Self::Node => "`Config::budget` of the object's node raises that",
            Self::Message => "nothing raises that; several calls can take more",
        })
    }
}

/// How far a call had come when its deadline passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// There was no time left when it was made.
    Made,
    /// It was begun, could not be sent at once, and nobody waited for it nor polled it in time.
    Begun,
    /// There was no connection to the node yet, or the node had not said which methods the object has.
    Connecting,
    /// It was to be sent, and as many calls were under way as the node takes from this one.
    NoRoom {
        /// How many, of all stubs and threads of this node:
        /// [`Config::in_flight`](egret_node::node::Config::in_flight) of the other.
        most: u32,
    },
    /// It was sent.
    Sent,
}

/// The error of methods that have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Never {}

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for Never {}

impl<E> CallError<E> {
    /// What was called; nothing of the method's own error.
    #[must_use]
    pub const fn call(&self) -> Option<&CallTo> {
        match self {
            Self::PeerDied { call, .. }
            | Self::NotMember { call, .. }
            | Self::Deadline { call, .. }
            | Self::UnknownObject { call }
            | Self::OtherInterface { call, .. }
            | Self::UnknownMethod { call, .. }
            | Self::TypeMismatch { call, .. }
            | Self::Busy { call }
            | Self::Cancelled { call }
            | Self::Panicked { call, .. }
            | Self::Reentered { call }
            | Self::AnswerTooLarge { call, .. }
            | Self::TooLarge { call, .. }
            | Self::Unreadable { call, .. }
            | Self::InHandler { call, .. }
            | Self::NoAnswer { call, .. } => Some(call),
            Self::Failed(_) => None,
        }
    }
}

impl CallError {
    /// What a call says that would have to wait before it is sent.
    pub(crate) const IN_HANDLER: Self = Self::InHandler { may_have_run: false, call: UNTOLD };

    /// Of a call whose deadline passed.
    pub(crate) const fn late(deadline: Duration, stage: Stage, may_have_run: bool) -> Self {
        Self::Deadline { deadline, stage, may_have_run, call: UNTOLD }
    }

    /// Of a call that could take so long in all.
    pub(crate) fn within(mut self, whole: Duration) -> Self {
        if let Self::Deadline { deadline, .. } = &mut self {
            *deadline = whole;
        }
        self
    }

    /// Of a call that was not sent.
    pub(crate) fn unsent(mut self) -> Self {
        if let Self::PeerDied { may_have_run, .. }
        | Self::NotMember { may_have_run, .. }
        | Self::Deadline { may_have_run, .. } = &mut self
        {
            *may_have_run = false;
        }
        self
    }

    /// Of this call.
    pub(crate) fn told(self, call: CallTo) -> Self {
        self.map_call(|_| call)
    }

    /// As the error of a method that has one.
    #[must_use]
    pub fn widen<E>(self) -> CallError<E> {
        self.map_call(|call| call)
    }

    fn map_call<E>(self, map: impl FnOnce(CallTo) -> CallTo) -> CallError<E> {
        type To<E> = CallError<E>;
        match self {
            Self::PeerDied { node, why, may_have_run, call } => {
                To::PeerDied { node, why, may_have_run, call: map(call) }
            }
            Self::NotMember { node, fate, may_have_run, call } => {
                To::NotMember { node, fate, may_have_run, call: map(call) }
            }
            Self::Deadline { deadline, stage, may_have_run, call } => {
                To::Deadline { deadline, stage, may_have_run, call: map(call) }
            }
            Self::UnknownObject { call } => To::UnknownObject { call: map(call) },
            Self::OtherInterface { ours, theirs, call } => {
                To::OtherInterface { ours, theirs, call: map(call) }
            }
            Self::UnknownMethod { name, call } => To::UnknownMethod { name, call: map(call) },
            Self::TypeMismatch { method, ours, theirs, call } => {
                To::TypeMismatch { method, ours, theirs, call: map(call) }
            }
            Self::Busy { call } => To::Busy { call: map(call) },
            Self::Cancelled { call } => To::Cancelled { call: map(call) },
            Self::Panicked { message, call } => To::Panicked { message, call: map(call) },
            Self::Reentered { call } => To::Reentered { call: map(call) },
            Self::TooLarge { bytes, most, limit, call } => {
                To::TooLarge { bytes, most, limit, call: map(call) }
            }
            Self::AnswerTooLarge { bytes, most, call } => {
                To::AnswerTooLarge { bytes, most, call: map(call) }
            }
            Self::Unreadable { why, call } => To::Unreadable { why, call: map(call) },
            Self::InHandler { may_have_run, call } => {
                To::InHandler { may_have_run, call: map(call) }
            }
            Self::NoAnswer { node, call } => To::NoAnswer { node, call: map(call) },
            Self::Failed(never) => match never {},
        }
    }
}

fn late(deadline: Duration, stage: Stage, may_have_run: bool, call: &CallTo) -> String {
    let (name, node) = (call.name(), call.node());
    match stage {
        Stage::Made => format!(
            "the call of {name} of node {node} was not sent: no time was left of its deadline, or of that \
             of the call that it is a part of"
        ),
        Stage::Begun => format!(
            "the call of {name} of node {node} was begun, and nobody waited for it within \
             {deadline:?}, its deadline; it was not sent, for want of a connection, of room, or behind others: \
             wait for calls that were begun, or poll them, or give them longer (`with_deadline`)"
        ),
        Stage::Connecting => format!(
            "node {node} was not reached within {deadline:?}, the deadline of the call of {name}, \
             which was not sent; `with_deadline` of the stub gives calls longer"
        ),
        Stage::NoRoom { most } => format!(
            "node {node} takes {most} calls of this node at a time, of all its stubs and threads, and had not \
             answered one of them within {deadline:?}, the deadline of the call of {name}, which \
             was not sent; `with_deadline` of the stub gives calls longer, and `Config::in_flight` of node \
             {node} raises the number"
        ),
        Stage::Sent if may_have_run => format!(
            "no answer of node {node} within {deadline:?}, the deadline of the call of {name}, which \
             may have run, or still run; `with_deadline` of the stub gives calls longer"
        ),
        Stage::Sent => format!(
            "node {node} did not come to the call of {name} within {deadline:?}, its deadline; it has not \
             run; `with_deadline` of the stub gives calls longer"
        ),
    }
}

fn ran(may_have_run: bool) -> &'static str {
    if may_have_run { "may have run" } else { "has not run" }
}

impl Wire for Never {
    const SIZE: Size = Size::at_least(0);

    fn describe(d: &mut Describe) {
        d.word("never");
    }

    fn write<'w>(&'w self, _: &mut Writer<'w>) -> Written {
        match *self {}
    }
}

impl<'a> FromWire<'a> for Never {
    fn read(r: &mut Reader<'a>) -> Result<Self, Stop> {
        Err(r.fail(Invalid::new("error of a method that has none")))
    }
}
