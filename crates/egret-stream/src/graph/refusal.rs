//! Why bytes are no graph.

use std::fmt;

use thiserror::Error;

/// Why bytes are not a graph of the type that was asked for, and where.
///
/// ```
/// use egret_stream::graph::{Graph, Reason};
///
/// let refusal = Graph::<u64>::from_bytes(b"no graph at all").unwrap_err();
/// assert_eq!(refusal.offset, 0);
/// assert_eq!(refusal.to_string(), "at byte 0: there is no graph");
/// assert!(matches!(refusal.reason, Reason::NoGraph));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("at byte {offset}: {reason}")]
pub struct Refusal {
    /// From the start of the message.
    pub offset: usize,
    /// What is wrong there.
    pub reason: Reason,
}

impl Refusal {
    pub(super) fn at(offset: usize, reason: Reason) -> Box<Self> {
        Box::new(Self { offset, reason })
    }
}

/// What is wrong; see [`Refusal`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// It does not begin like one.
    #[error("there is no graph")]
    NoGraph,
    /// It is written in a way that is not known here.
    #[error("the graph is written in version {found}, and this is {VERSION}")]
    Version {
        /// Which.
        found: u16,
    },
    /// There are fewer bytes than it says, or more than memory is for.
    #[error("{there} bytes are there, where {said} are said")]
    Length {
        /// How many are said.
        said: u64,
        /// How many there are.
        there: u64,
    },
    /// It has another number of classes.
    #[error("a `{graph}` has {here} classes here and {there} there")]
    Classes {
        /// What was asked for.
        graph: String,
        /// How many it has here.
        here: usize,
        /// How many it has there.
        there: usize,
    },
    /// One of the types is another there.
    #[error("class {number} is `{name}` here, and another type or of another structure there")]
    Class {
        /// Its number.
        number: usize,
        /// What it is here.
        name: String,
    },
    /// The objects of a class do not lie inside the message, or on others.
    #[error("the {what} of class {number}, `{name}`, lie outside of the graph or on others")]
    Misplaced {
        /// Objects, or elements.
        what: &'static str,
        /// The class.
        number: usize,
        /// Its name.
        name: String,
    },
    /// Where an object should begin is something else.
    #[error("no object of `{name}` begins here, nor is the place empty")]
    Header {
        /// The class.
        name: String,
    },
    /// Bytes that are no value.
    #[error("a `{name}` should have {what} here")]
    Value {
        /// The class.
        name: String,
        /// What should be there.
        what: &'static str,
    },
    /// A reference that leads nowhere.
    #[error("a reference leads to object {index} of class {class}, which is not there")]
    Dangling {
        /// The class.
        class: u8,
        /// Which of them.
        index: u32,
    },
    /// A reference that leads to an object of another type.
    #[error("a reference leads to a `{found}`, and should to a `{wanted}`")]
    OtherClass {
        /// What it leads to.
        found: String,
        /// What it should lead to.
        wanted: String,
    },
    /// A slice that is not inside the elements of its class, or lies on the one before.
    #[error("the slice of {count} elements lies outside of what is there, or on another")]
    Span {
        /// How many it says it has.
        count: u32,
    },
    /// A text that is none.
    #[error("a text is not UTF-8")]
    Text,
    /// The type's own check said no.
    #[error("a `{name}` is not what it must be: {why}")]
    Check {
        /// The type.
        name: String,
        /// What its check said.
        why: String,
    },
    /// The graph has no root, or one that is no object of its type.
    #[error("the root is no object of the graph")]
    Root,
}

/// A graph that was refused, with the memory that it would have been.
#[derive(Error)]
#[error("{refusal}")]
pub struct Refused<M> {
    /// Why.
    pub refusal: Refusal,
    /// The memory, as it was.
    pub memory: M,
}

impl<M> fmt::Debug for Refused<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

/// How graphs are written.
pub(super) const VERSION: u16 = 1;
