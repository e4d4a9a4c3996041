//! What can go wrong with graphs between nodes.

use std::fmt;
use std::time::Duration;

use egret_node::channel::{ChannelError, ReadError};
use egret_node::node::AskError;
use egret_stream::graph::{Graph, Refusal};
use thiserror::Error;

use super::Source;

/// Why a graph was not sent or received.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// The pool has no such rank.
    #[error("the pool has the ranks below {size}, and rank {rank} is none of them")]
    NoSuchRank {
        /// Which.
        rank: u32,
        /// How many there are.
        size: u32,
    },
    /// The node of the rank is gone, or there is no way to it.
    #[error("rank {rank} is gone: {why}")]
    Gone {
        /// Which.
        rank: u32,
        /// What the registry says of its end, or what the link does.
        why: String,
    },
    /// All others are gone: nobody can send a graph.
    #[error("all others are gone")]
    AllGone,
    /// What came is no such graph. The next is received as usual.
    #[error("rank {from} sent what is no such graph: {why}")]
    Refused {
        /// Who sent it.
        from: u32,
        /// Where it is wrong, and how.
        why: Refusal,
    },
    /// The graph is larger than its receiver takes.
    #[error(
        "a graph of {bytes} bytes, and rank {rank} takes at most {most}: \
         `GraphsOptions::bytes_max` there raises that"
    )]
    TooLarge {
        /// The receiver.
        rank: u32,
        /// What it has.
        bytes: u64,
        /// Most there may be.
        most: u64,
    },
    /// Graphs of this name are of another type there.
    #[error("{name:?} are graphs of another type at rank {rank}, or of another structure")]
    OtherType {
        /// Where.
        rank: u32,
        /// What both call them.
        name: String,
    },
    /// The rank takes no such graphs any more: they were dropped there.
    #[error("rank {rank} takes none of these graphs any more")]
    Stopped {
        /// Which.
        rank: u32,
    },
    /// Graphs of this name were joined on this node already.
    #[error("{name:?} were joined on this node already")]
    Taken {
        /// The name.
        name: String,
    },
    /// The graph is not there in time.
    #[error("rank {rank} has not taken the graph within {waited:?}{}", absent(*is_open))]
    SendTimedOut {
        /// To whom.
        rank: u32,
        /// How long.
        waited: Duration,
        /// Whether the rank takes such graphs at all, as far as is known.
        is_open: bool,
    },
    /// None came in time.
    #[error("no graph of {from} has come within {waited:?}")]
    RecvTimedOut {
        /// From whom one was to come.
        from: Source,
        /// How long.
        waited: Duration,
    },
    /// The node has left the pool, or the graphs were dropped.
    #[error("the node has left, or its graphs were dropped")]
    Closed,
    /// The registry does not do what it is asked.
    #[error(transparent)]
    Registry(#[from] AskError),
    /// The channel to the rank was not opened.
    #[error("rank {rank}: {why}")]
    Channel {
        /// Which.
        rank: u32,
        /// Why.
        why: ChannelError,
    },
    /// There is no memory for the graph.
    #[error("no memory for a graph")]
    NoMemory,
    /// A handler must not wait.
    #[error("a handler may not wait for a graph")]
    InHandler,
}

/// A graph that was posted and did not go, and why.
#[derive(Error)]
#[error("{why}")]
pub struct NotSent<Root> {
    /// Why.
    pub why: GraphError,
    /// The graph; references to its objects are still right. Nothing if it may still go, or was
    /// given back already.
    pub graph: Option<Box<Graph<Root>>>,
}

impl<Root> fmt::Debug for NotSent<Root> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotSent").field("why", &self.why).finish_non_exhaustive()
    }
}

impl<Root> From<NotSent<Root>> for GraphError {
    fn from(not_sent: NotSent<Root>) -> Self {
        not_sent.why
    }
}

impl From<ReadError> for GraphError {
    fn from(_: ReadError) -> Self {
        Self::NoMemory
    }
}

const fn absent(is_open: bool) -> &'static str {
    if is_open { "" } else { ", nor said that it takes any" }
}
