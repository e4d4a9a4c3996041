//! What can go wrong with graphs between nodes.

use std::time::Duration;

use egret_net::rt::GivenBack;
use egret_node::channel::ChannelError;
use egret_node::node::{NodeError, NodeId};
use egret_stream::graph::{Graph, GraphError};
use thiserror::Error;

use super::Source;

/// Why a graph was not sent to a rank or received from one.
///
/// ```
/// use egret::graph::RankGraphError;
///
/// let gone = RankGraphError::Gone { rank: 2, why: "it was killed".into() };
/// assert_eq!(gone.to_string(), "rank 2 is gone: it was killed");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RankGraphError {
    /// The pool has no such rank.
    #[error("the pool has the ranks below {size}, and rank {rank} is none of them")]
    NoSuchRank {
        /// Which.
        rank: u32,
        /// How many there are.
        size: u32,
    },
    /// The pool is open: its nodes come and go, and have no ranks to send to.
    #[error(
        "graphs go from rank to rank of a closed pool, and {node} is in an open one; calls, channels and \
         active messages carry graphs there"
    )]
    OpenPool {
        /// This node.
        node: NodeId,
    },
    /// The node of the rank is gone, or there is no way to it.
    #[error("rank {rank} is gone: {why}")]
    Gone {
        /// Which.
        rank: u32,
        /// What the registry says of its end, or what the link does.
        why: String,
    },
    /// All other nodes have left or died: no graph can arrive.
    #[error("all other nodes have left or died; no graph can arrive")]
    AllGone,
    /// What came is no such graph. The next is received as usual.
    #[error("rank {from} sent {why}")]
    Refused {
        /// The rank that sent it.
        from: u32,
        /// Where it is wrong, and how.
        why: GraphError,
    },
    /// A reference of the graph leads to an object that was removed; nothing was sent.
    #[error("nothing was sent to rank {rank}: {why}")]
    Dangling {
        /// The receiver.
        rank: u32,
        /// The class and the index of the object.
        why: GraphError,
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
        /// The rank it was for.
        rank: u32,
        /// How long.
        waited: Duration,
        /// Whether the rank takes such graphs at all, as far as is known.
        is_open: bool,
    },
    /// None came in time.
    #[error("no graph of {from} has arrived within {waited:?}")]
    RecvTimedOut {
        /// The rank it was to come from.
        from: Source,
        /// How long.
        waited: Duration,
    },
    /// The node has left the pool, or the graphs were dropped.
    #[error("the node has left, or its graphs were dropped")]
    Closed,
    /// The registry does not do what it is asked.
    #[error(transparent)]
    Registry(#[from] NodeError),
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

impl<Root> From<GivenBack<Option<Box<Graph<Root>>>, RankGraphError>> for RankGraphError {
    fn from(not_sent: GivenBack<Option<Box<Graph<Root>>>, RankGraphError>) -> Self {
        not_sent.why
    }
}

impl From<ChannelError> for RankGraphError {
    fn from(_: ChannelError) -> Self {
        Self::NoMemory
    }
}

const fn absent(is_open: bool) -> &'static str {
    if is_open { "" } else { ", nor said that it takes any" }
}
