//! What can go wrong with remote calls.

use std::fmt;
use std::time::Duration;

use egret_net::rt::{self, Instant};
use egret_stream::{Describe, FromWire, Invalid, Reader, Size, Stop, Wire, Writer, Written};
use thiserror::Error;

use super::NodeId;
use super::load::COMMON;

/// Why a call has no value. `E` is the method's own error.
///
/// What `may_have_run` says of a call without an answer: `false` if the object has certainly
/// not seen it, `true` if it may have. Nothing is ever tried twice.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallError<E = Never> {
    /// The object's node is gone, or there is no way to it.
    #[error("node {node} is gone: {why}; the call {}", ran(*may_have_run))]
    PeerDied {
        /// Which.
        node: NodeId,
        /// Why: what it panicked with, what the registry says of its end, or what the link does.
        why: String,
        /// Whether the call may have run there.
        may_have_run: bool,
    },
    /// The deadline passed.
    #[error("no answer within {waited:?}; the call {}", ran(*may_have_run))]
    Deadline {
        /// How long.
        waited: Duration,
        /// Whether the call may have run, or still runs.
        may_have_run: bool,
    },
    /// There is no such object (any more).
    #[error("there is no such object")]
    UnknownObject,
    /// The object has another interface than the stub.
    #[error("the stub is one of `{ours}`, and the object is a `{theirs}`")]
    OtherInterface {
        /// What the caller takes the object for.
        ours: String,
        /// What it is.
        theirs: String,
    },
    /// The object has no such method.
    #[error("the object has no method `{name}`")]
    UnknownMethod {
        /// Its name.
        name: String,
    },
    /// The object's method has other types.
    #[error("method `{method}`: this side has {ours}, the object {theirs}")]
    TypeMismatch {
        /// Its name.
        method: String,
        /// What the caller takes it for.
        ours: String,
        /// What it is.
        theirs: String,
    },
    /// The object's node has as much to do as it takes.
    #[error(
        "the object's node takes no more calls of this node now: {} calls and {} bytes of \
         arguments of whoever comes first, and as much again divided among the nodes of the pool; \
         have fewer calls under way at once, or try again",
        COMMON.calls,
        COMMON.bytes
    )]
    Busy,
    /// The call was cancelled before it ran.
    #[error("cancelled before it ran")]
    Cancelled,
    /// The method panicked.
    #[error("the method panicked: {message}")]
    Panicked {
        /// With these words.
        message: String,
    },
    /// The call comes back to an object that waits for it.
    #[error("the object waits for a call that this is a part of")]
    Reentered,
    /// The method has run, and its answer is larger than this side takes.
    #[error(
        "the method has run, and its answer needs {bytes} bytes of buffers, of which this node \
         takes at most {most}: `Config::budget` of this node raises that"
    )]
    AnswerTooLarge {
        /// What the answer needs.
        bytes: u64,
        /// Most that this node takes.
        most: u64,
    },
    /// The arguments are larger than is taken.
    #[error("a call of {bytes} bytes, of which at most {most} are taken: {limit}")]
    TooLarge {
        /// Bytes of the arguments, or what they need of buffers.
        bytes: u64,
        /// Most there may be.
        most: u64,
        /// Whose limit that is, and what raises it.
        limit: Limit,
    },
    /// The arguments or the answer could not be written or read.
    #[error("it could not be written or read: {why}")]
    Unreadable {
        /// Why.
        why: String,
    },
    /// A method that is declared non-blocking may not wait.
    #[error("a method that is declared non-blocking may not wait; the call {}", ran(*may_have_run))]
    InHandler {
        /// Whether the call was sent before it was waited for; it is cancelled, as one that is
        /// dropped.
        may_have_run: bool,
    },
    /// The object's node has dropped the call without an answer.
    #[error("node {node}, which has the object, gave no answer to the call, which may have run")]
    NoAnswer {
        /// Which.
        node: NodeId,
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

/// The error of methods that have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Never {}

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for Never {}

impl CallError {
    /// What a call says that would have to wait before it is sent.
    pub(crate) const IN_HANDLER: Self = Self::InHandler { may_have_run: false };

    /// Of a call that had waited so long before it was sent.
    pub(crate) fn after(self, before: Duration) -> Self {
        match self {
            Self::Deadline { waited, may_have_run } => {
                Self::Deadline { waited: waited + before, may_have_run }
            }
            other => other,
        }
    }

    /// Of a call that has waited since then.
    pub(crate) fn waited_since(self, started: Instant) -> Self {
        match self {
            Self::Deadline { may_have_run, .. } => {
                Self::Deadline { waited: rt::now() - started, may_have_run }
            }
            other => other,
        }
    }

    /// As the error of a method that has one.
    #[must_use]
    pub fn widen<E>(self) -> CallError<E> {
        match self {
            Self::PeerDied { node, why, may_have_run } => {
                CallError::PeerDied { node, why, may_have_run }
            }
            Self::Deadline { waited, may_have_run } => CallError::Deadline { waited, may_have_run },
            Self::UnknownObject => CallError::UnknownObject,
            Self::OtherInterface { ours, theirs } => CallError::OtherInterface { ours, theirs },
            Self::UnknownMethod { name } => CallError::UnknownMethod { name },
            Self::TypeMismatch { method, ours, theirs } => {
                CallError::TypeMismatch { method, ours, theirs }
            }
            Self::Busy => CallError::Busy,
            Self::Cancelled => CallError::Cancelled,
            Self::Panicked { message } => CallError::Panicked { message },
            Self::Reentered => CallError::Reentered,
            Self::TooLarge { bytes, most, limit } => CallError::TooLarge { bytes, most, limit },
            Self::AnswerTooLarge { bytes, most } => CallError::AnswerTooLarge { bytes, most },
            Self::Unreadable { why } => CallError::Unreadable { why },
            Self::InHandler { may_have_run } => CallError::InHandler { may_have_run },
            Self::NoAnswer { node } => CallError::NoAnswer { node },
            Self::Failed(never) => match never {},
        }
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
