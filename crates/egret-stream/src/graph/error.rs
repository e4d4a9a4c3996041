//! Why a graph was not sent, received or compacted.

use std::fmt;
use std::io;

use egret_net::vi::{PostError, ViError};
use thiserror::Error;

/// Why a graph was not made of bytes, sent, received, compacted, or written to a file.
///
/// ```
/// use egret_stream::graph::{Graph, GraphDefect, GraphError};
///
/// let error = Graph::<u64>::from_bytes(b"no graph at all").unwrap_err();
/// assert_eq!(error.to_string(), "no such graph: at byte 0: there is no graph");
/// let GraphError::Refused(refusal) = error else { panic!("{error}") };
/// assert!(matches!(refusal.reason, GraphDefect::NoGraph));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The bytes are no graph of the type that was asked for.
    #[error("no such graph: {0}")]
    Refused(GraphRefusal),
    /// A reference in the graph leads to an object that was removed. Such a graph is not sent.
    #[error(
        "object {index} of `{class}` was removed, and a `Ref` to it is left in the graph: make \
         that an `Option<Ref>` and clear it, or remove the object that has it"
    )]
    Dangling {
        /// The class of the missing object.
        class: String,
        /// Its index in the class.
        index: u32,
    },
    /// The root of the graph was removed.
    #[error("the root, object {index} of its class, was removed: set another root first")]
    NoRoot {
        /// Its index in the class.
        index: u32,
    },
    /// The message was not sent or received, or was of another type.
    #[error(transparent)]
    Transfer(#[from] ViError),
    /// The message was not posted.
    #[error("the graph was not posted: {0}")]
    NotPosted(#[source] PostError),
    /// The file was not read or written.
    #[error("the file of the graph: {why}")]
    File {
        /// The kind of the system's error.
        kind: io::ErrorKind,
        /// The system's error.
        why: String,
    },
}

impl From<io::Error> for GraphError {
    fn from(error: io::Error) -> Self {
        Self::File { kind: error.kind(), why: error.to_string() }
    }
}

impl From<GraphRefusal> for GraphError {
    fn from(refusal: GraphRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Where bytes are not a graph of the type that was asked for, and why; in [`GraphError::Refused`],
/// which has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphRefusal {
    /// From the start of the message.
    pub offset: usize,
    /// The defect at that place.
    pub reason: GraphDefect,
}

impl fmt::Display for GraphRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.reason)
    }
}

impl GraphRefusal {
    pub(super) fn at(offset: usize, reason: GraphDefect) -> Box<Self> {
        Box::new(Self { offset, reason })
    }
}

/// What is wrong with bytes that are no graph; see [`GraphError`], which has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphDefect {
    /// The bytes do not begin like a graph.
    NoGraph,
    /// The graph is written in an unknown version.
    Version {
        /// The version.
        found: u16,
    },
    /// The message has fewer bytes than its head says, or more than memory is for.
    Length {
        /// The length in the head.
        said: u64,
        /// The bytes of the message.
        there: u64,
    },
    /// The graph has another number of classes.
    Classes {
        /// The type that was asked for.
        graph: String,
        /// Its number of classes here.
        here: usize,
        /// Its number of classes at the sender.
        there: usize,
    },
    /// A class is of another type at the sender.
    Class {
        /// The number of the class.
        number: usize,
        /// Its type here.
        name: String,
    },
    /// The objects of a class do not lie inside the message, or on others.
    Misplaced {
        /// Objects, or elements.
        what: &'static str,
        /// The class.
        number: usize,
        /// Its name.
        name: String,
    },
    /// No object begins where one should.
    Header {
        /// The class.
        name: String,
    },
    /// Bytes that are no value.
    Value {
        /// The class.
        name: String,
        /// What the bytes should be.
        what: &'static str,
    },
    /// A reference to an object that does not exist.
    Dangling {
        /// The class.
        class: u8,
        /// The index in the class.
        index: u32,
    },
    /// A reference that leads to an object of another type.
    OtherClass {
        /// The type of the object.
        found: String,
        /// The type of the reference.
        wanted: String,
    },
    /// A slice that is not inside the elements of its class, or lies on the one before.
    Span {
        /// The elements that the slice claims to have.
        count: u32,
    },
    /// A text that is not UTF-8.
    Text,
    /// The type's own check refused the value.
    Check {
        /// The type.
        name: String,
        /// The reason of the check.
        why: String,
    },
    /// The graph has no root, or the root is no object of its type.
    Root,
}

impl fmt::Display for GraphDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGraph => f.write_str("there is no graph"),
            Self::Version { found } => {
                write!(f, "the graph is written in version {found}, and this is {VERSION}")
            }
            Self::Length { said, there } => {
                write!(f, "the message has {there} bytes, and its head says {said}")
            }
            Self::Classes { graph, here, there } => {
                write!(f, "a `{graph}` has {here} classes here and {there} at the sender")
            }
            Self::Class { number, name } => write!(
                f,
                "class {number} is `{name}` here, and another type or structure at the sender"
            ),
            Self::Misplaced { what, number, name } => write!(
                f,
                "the {what} of class {number}, `{name}`, lie outside of the graph or on others"
            ),
            Self::Header { name } => {
                write!(f, "no object of `{name}` begins here, and the slot is not empty either")
            }
            Self::Value { name, what } => write!(f, "a `{name}` should have {what} here"),
            Self::Dangling { class, index } => write!(
                f,
                "a reference leads to object {index} of class {class}, which does not exist"
            ),
            Self::OtherClass { found, wanted } => {
                write!(f, "a reference leads to a `{found}`, and should to a `{wanted}`")
            }
            Self::Span { count } => write!(
                f,
                "the slice of {count} elements lies outside of its class, or on another slice"
            ),
            Self::Text => f.write_str("a text is not UTF-8"),
            Self::Check { name, why } => write!(f, "a `{name}` is not what it must be: {why}"),
            Self::Root => f.write_str("the root is no object of the graph"),
        }
    }
}

/// How graphs are written.
pub(super) const VERSION: u16 = 1;
