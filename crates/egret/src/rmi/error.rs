//! The error of remote calls, of exports and of look-ups.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use egret_node::am::MessageError;
use egret_node::node::{Departure, NodeError};
use egret_stream::WireError;
use thiserror::Error;

use crate::rmi::callee::load::COMMON;
use crate::rmi::callee::objects::OBJECTS_MAX;
use crate::rmi::caller::call_site::UNTOLD;
use crate::rmi::head::INTERFACES_MAX;
use crate::rmi::{CallTo, NodeId};

/// Why a call has no value, an object was not exported or bound to a name, or a name leads to no stub.
/// `E` is the method's own error. The error of a call says by [`call`](Self::call) which method of which
/// node was called.
///
/// `may_have_run` of a call without an answer: `false` if the object has certainly not received the call,
/// `true` if it may have. No call is ever sent twice.
///
/// ```
/// use std::time::Duration;
///
/// use egret::prelude::*;
/// use egret::rmi::CallStage;
///
/// fn explain(failed: &CallError) -> &'static str {
///     match failed {
///         CallError::Deadline { stage: CallStage::Sent, may_have_run: true, .. } => "it may have run",
///         CallError::Busy { .. } => "try again later",
///         CallError::Registry(_) => "ask the registry's operator",
///         _ => "look at the text",
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallError<E = Infallible> {
    /// The object's node is gone, or was not reached: its link has ended, or there is no way to it.
    #[error("{}", unreached(*node, why, *is_member, *may_have_run, call))]
    PeerDied {
        /// Which.
        node: NodeId,
        /// Why: what it panicked with, what the registry says of its end, or what the link does.
        why: String,
        /// Whether the node is still a member, as far as this node knows: then its objects may be well, and the
        /// next call makes another link.
        is_member: bool,
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
        fate: Departure,
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
        stage: CallStage,
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
         make a stub of `{theirs}`"
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
    /// The object's method has other types, and one side cannot read what the other writes. Other methods of the
    /// object can be called.
    #[error(
        "the types of {call} are not those of this side: {field} is {ours} here, and {theirs} at the object; \
         the call has not run"
    )]
    TypeMismatch {
        /// The first field that differs and cannot be read, from the name of an argument or from `the answer` on.
        field: String,
        /// What it is here.
        ours: String,
        /// What it is at the object.
        theirs: String,
        /// What was called.
        call: CallTo,
    },
    /// The object's node has as much to do as it takes.
    #[error(
        "node {} takes no more calls of this node now: {} calls and {} bytes of \
         arguments in the order in which they come, and as much again divided among the nodes of the pool; \
         the call of {} has not run; have fewer calls under way at once, or try again",
        call.node(), COMMON.calls, COMMON.bytes, call.name()
    )]
    Busy {
        /// What was called.
        call: CallTo,
    },
    /// No fabric that leads to the object's node gives what the object or the stub requires, or the call came
    /// over one that does not.
    #[error("the call of {call} has not run, for the fabric that it needs: {why}")]
    Unsuitable {
        /// Each fabric, and what does not match.
        why: String,
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
    #[error(
        "the method {call} panicked: {message}; it has run in part, and its object stays as the panic left it; \
         correct the method: its process has printed where it panicked"
    )]
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
    /// The registry has not looked up or bound the name; or no fabric gives what an export or a look-up requires
    /// ([`NodeError::Unsuitable`]).
    #[error(transparent)]
    Registry(#[from] NodeError),
    /// The name is bound to bytes that are no reference to an object.
    #[error("the name {name:?} is bound to bytes that are no reference to an object: {why}")]
    NoObject {
        /// The name.
        name: String,
        /// Why the bytes are no reference.
        why: WireError,
    },
    /// The name is bound to an object of another interface than that of the stub.
    #[error(
        "the name {name:?} is bound to an object of the interface `{theirs}`, not of `{ours}`; \
         make a stub of `{theirs}`"
    )]
    NameOfOther {
        /// The name.
        name: String,
        /// The interface of the stub.
        ours: &'static str,
        /// The interface of the object.
        theirs: String,
    },
    /// The node has no endpoint by which other nodes could call the object.
    #[error(transparent)]
    Endpoint(#[from] MessageError),
    /// The node has 16,777,216 objects, or objects of 16,384 interfaces.
    #[error(
        "a node exports at most {} objects, of at most {} interfaces: drop exports that are not called \
         any more",
        OBJECTS_MAX,
        INTERFACES_MAX as u32 + 1
    )]
    Full,
    /// The method's own error.
    #[error("{0}")]
    Failed(E),
}

/// The limit that a call exceeded; it displays as what raises it. [`CallError`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// What the object takes: [`Export::bytes_max`](crate::rmi::Export::bytes_max).
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

/// How far a call had come when its deadline passed; [`CallError`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallStage {
    /// There was no time left when it was made.
    Made,
    /// The call was begun, could not be sent at once, and was neither waited for nor polled in time.
    Begun,
    /// There was no connection to the node yet, or the node had not said which methods the object has.
    Connecting,
    /// The call was to be sent, and as many calls were under way as the node takes from this one.
    NoRoom {
        /// How many, of all stubs and threads of this node:
        /// [`Config::in_flight`](egret_node::node::Config::in_flight) of the other.
        most: u32,
    },
    /// The call was sent.
    Sent,
}

impl<E> CallError<E> {
    /// What was called; none if the error is the method's own, or that of an export or a look-up.
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
            | Self::Unsuitable { call, .. }
            | Self::Cancelled { call }
            | Self::Panicked { call, .. }
            | Self::Reentered { call }
            | Self::AnswerTooLarge { call, .. }
            | Self::TooLarge { call, .. }
            | Self::Unreadable { call, .. }
            | Self::InHandler { call, .. }
            | Self::NoAnswer { call, .. } => Some(call),
            Self::Registry(_)
            | Self::NoObject { .. }
            | Self::NameOfOther { .. }
            | Self::Endpoint(_)
            | Self::Full
            | Self::Failed(_) => None,
        }
    }
}

impl CallError {
    /// What a call says that would have to wait before it is sent.
    pub(crate) const IN_HANDLER: Self = Self::InHandler { may_have_run: false, call: UNTOLD };

    /// Of a call whose deadline passed.
    pub(crate) const fn late(deadline: Duration, stage: CallStage, may_have_run: bool) -> Self {
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
            Self::PeerDied { node, why, is_member, may_have_run, call } => {
                To::PeerDied { node, why, is_member, may_have_run, call: map(call) }
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
            Self::TypeMismatch { field, ours, theirs, call } => {
                To::TypeMismatch { field, ours, theirs, call: map(call) }
            }
            Self::Busy { call } => To::Busy { call: map(call) },
            Self::Unsuitable { why, call } => To::Unsuitable { why, call: map(call) },
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
            Self::Registry(why) => To::Registry(why),
            Self::NoObject { name, why } => To::NoObject { name, why },
            Self::NameOfOther { name, ours, theirs } => To::NameOfOther { name, ours, theirs },
            Self::Endpoint(why) => To::Endpoint(why),
            Self::Full => To::Full,
            Self::Failed(never) => match never {},
        }
    }
}

fn late(deadline: Duration, stage: CallStage, may_have_run: bool, call: &CallTo) -> String {
    let (name, node) = (call.name(), call.node());
    match stage {
        CallStage::Made => format!(
            "the call of {name} of node {node} was not sent: no time was left of its deadline, or of that \
             of the call that it is a part of"
        ),
        CallStage::Begun => format!(
            "the call of {name} of node {node} was begun, and nobody waited for it within \
             {deadline:?}, its deadline; it was not sent, for want of a connection, of room, or behind others: \
             wait for calls that were begun, or poll them, or give them longer (`with_deadline`)"
        ),
        CallStage::Connecting => format!(
            "node {node} was not reached within {deadline:?}, the deadline of the call of {name}, \
             which was not sent; `with_deadline` of the stub gives calls longer"
        ),
        CallStage::NoRoom { most } => format!(
            "node {node} takes {most} calls of this node at a time, of all its stubs and threads, and had not \
             answered one of them within {deadline:?}, the deadline of the call of {name}, which \
             was not sent; `with_deadline` of the stub gives calls longer, and `Config::in_flight` of node \
             {node} raises the number"
        ),
        CallStage::Sent if may_have_run => format!(
            "no answer of node {node} within {deadline:?}, the deadline of the call of {name}, which \
             may have run, or still run; `with_deadline` of the stub gives calls longer"
        ),
        CallStage::Sent => format!(
            "node {node} did not come to the call of {name} within {deadline:?}, its deadline; it has not \
             run; `with_deadline` of the stub gives calls longer"
        ),
    }
}

/// Of a call whose node is gone, or is a member that was not reached.
fn unreached(
    node: NodeId,
    why: &str,
    is_member: bool,
    may_have_run: bool,
    call: &CallTo,
) -> String {
    let (name, ran) = (call.name(), ran(may_have_run));
    if !is_member {
        let then = match may_have_run {
            true => "find out what the call has done before an object of another node is called",
            false => "call an object of another node",
        };
        return format!(
            "node {node} is gone: {why}; the call of {name} {ran}; its objects are gone with it: {then}"
        );
    }
    let then = match may_have_run {
        true => "find out what the call has done before it is made again",
        false => "call again",
    };
    format!(
        "node {node} was not reached: {why}; the call of {name} {ran}; the node is still a member, as far as this node \
         knows, and the next call makes another link, or says that this node itself is no member any more: {then}"
    )
}

fn ran(may_have_run: bool) -> &'static str {
    if may_have_run { "may have run" } else { "has not run" }
}
