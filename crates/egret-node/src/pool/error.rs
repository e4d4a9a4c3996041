//! What can go wrong with a node's questions about its pool.

use std::fmt;
use std::time::Duration;

use egret_stream::Wire;
use thiserror::Error;

use super::{Departure, NodeId};
use crate::am::MessageError;
use crate::link::LinkError;

/// Why a question about the pool has no answer, or not the one that was wanted: the registry did not
/// do what it was asked, a node is gone, or there is no route to it.
///
/// ```
/// use egret_node::local;
/// use egret_node::node::NodeError;
///
/// let pool = local::pool(2)?;
/// assert_eq!(pool[0].route(pool[0].id()).unwrap_err(), NodeError::Oneself);
/// pool[0].bind("leader", b"here")?;
/// let taken = pool[1].bind("leader", b"there").unwrap_err();
/// assert!(matches!(taken, NodeError::NameTaken { owner, .. } if owner == pool[0].id()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The registry refuses what it was asked.
    #[error("the registry refuses: {0}")]
    Refused(RegistryRefusal),
    /// The registry has not answered.
    #[error("the registry: {0}")]
    NoAnswer(#[from] MessageError),
    /// The registry is lost.
    #[error(
        "the registry was lost: {why}; members that are known can still be called, and the process may join again"
    )]
    RegistryLost {
        /// How.
        why: String,
    },
    /// The registry has sent another answer than the request has.
    #[error(
        "the registry sent another kind of answer than was asked for; use the same version of egret"
    )]
    OtherAnswer,
    /// This node is no member any more: it has left, or was dropped.
    #[error(
        "this node, {node}, is no member of its pool any more: {fate}; `Node::join` makes another"
    )]
    NotMember {
        /// The node that this was.
        node: NodeId,
        /// How it came to be none.
        fate: Departure,
    },
    /// Another node has bound the name.
    #[error(
        "node {owner} has bound {name:?} already; `rebind` takes a name from its owner, and one that is \
         dropped or taken back (`unbind`) is free"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// The node that has bound it.
        owner: NodeId,
    },
    /// The name is not bound.
    #[error("{}", not_bound(name, *waited, *withdrawn_by))]
    NotBound {
        /// The name.
        name: String,
        /// How long was to be waited: not at all by who only [looks](crate::node::NodeHandle::try_bound).
        waited: Duration,
        /// The last owner of the name, if it is a member still and has taken the name back: by
        /// [`unbind`](crate::node::NodeHandle::unbind), or because what it stood for was dropped.
        withdrawn_by: Option<NodeId>,
    },
    /// The name is not bound, and the node that had it last is gone.
    #[error(
        "{name:?} is not bound: node {owner}, which had bound it, is gone: {fate}; the name is there \
         again when another node binds it, or in a closed pool the next node of rank {}", owner.rank
    )]
    OwnerGone {
        /// The name.
        name: String,
        /// The node that had bound it.
        owner: NodeId,
        /// How that node came to be gone.
        fate: Departure,
    },
    /// The name is not bound, and all other nodes of the pool are gone.
    #[error("{name:?} is not bound, and all other nodes of the pool are gone")]
    NobodyLeft {
        /// The name.
        name: String,
    },
    /// A node is no member any more.
    #[error("{node} is gone: {fate}")]
    Gone {
        /// Which node.
        node: NodeId,
        /// How it came to be gone.
        fate: Departure,
    },
    /// Not all ranks have joined within the deadline.
    #[error("{here} of {size} nodes have joined within {waited:.1?}")]
    NotAllJoined {
        /// How many nodes are members.
        here: u32,
        /// How many nodes the pool has.
        size: u32,
        /// How long was waited.
        waited: Duration,
    },
    /// A view has changed since the epoch that something came with.
    #[error(
        "what was sent at epoch {epoch} of the view {view:?} is refused: the view has epoch {now}; the sender looks at \
         the view again, and sends to those who are in it"
    )]
    OldEpoch {
        /// The view.
        view: String,
        /// The epoch that something came with.
        epoch: u64,
        /// The epoch of the view as of the events that this node has received.
        now: u64,
    },
    /// The event that made a view of an epoch has not come within the deadline.
    #[error(
        "epoch {epoch} of the view {view:?} has not come within {waited:?}: this node has received the events before \
         epoch {next}; wait longer, or see whether that epoch was sent by a member of this pool"
    )]
    EarlyEpoch {
        /// The view.
        view: String,
        /// The epoch that something came with.
        epoch: u64,
        /// The number of the next event that this node will receive.
        next: u64,
        /// How long was waited.
        waited: Duration,
    },
    /// Nothing has happened in the pool within the deadline.
    #[error("no event has arrived for {waited:?}")]
    NoEvent {
        /// How long was waited.
        waited: Duration,
    },
    /// The registry has declared this node dead: it has no peers any more.
    #[error("this node was declared dead: {why}")]
    Fenced {
        /// Why.
        why: String,
    },
    /// A node of this rank and incarnation has not joined, as far as this node knows.
    #[error("{node} has not joined")]
    Unknown {
        /// Which node.
        node: NodeId,
    },
    /// The link with a node was not measured.
    #[error("the link with {node} was not probed: {why}")]
    NotProbed {
        /// Which node.
        node: NodeId,
        /// What happened to the probe.
        why: MessageError,
    },
    /// The node asked for the route to itself.
    #[error("a node has no way to itself")]
    Oneself,
    /// The two nodes have no fabric in common.
    #[error("no fabric to {node}: {why}")]
    NoFabric {
        /// Which node.
        node: NodeId,
        /// What is in the way of each fabric.
        why: String,
    },
    /// No fabric gives what is required: of those that lead from one node to the other, or of those that this node
    /// uses. Nothing was begun.
    #[error(
        "no fabric of node {node} gives what is required here, {required}: {}",
        listed(fabrics)
    )]
    Unsuitable {
        /// The other node; this one if there is no other.
        node: NodeId,
        /// What is required.
        required: String,
        /// Each fabric, and what does not match.
        fabrics: Vec<(String, String)>,
    },
    /// No fabric that gives what is required has connected.
    #[error(
        "no link with node {node} over a fabric that gives what is required: {}",
        listed(tried)
    )]
    NotLinked {
        /// The other node.
        node: NodeId,
        /// Each fabric that was tried, in this order, and why there is no link over it.
        tried: Vec<(String, LinkError)>,
    },
}

impl From<RegistryRefusal> for NodeError {
    fn from(why: RegistryRefusal) -> Self {
        Self::Refused(why)
    }
}

/// Fabrics, and what is to say of each.
fn listed<T: fmt::Display>(fabrics: &[(String, T)]) -> String {
    let all = fabrics.iter().map(|(name, what)| format!("{name}: {what}"));
    all.collect::<Vec<_>>().join("; ")
}

/// What is known of a name that is not bound.
fn not_bound(name: &str, waited: Duration, withdrawn_by: Option<NodeId>) -> String {
    let before = match withdrawn_by {
        Some(node) => format!(
            "node {node} had the name and has withdrawn it, and no node has bound it again since"
        ),
        None => "no node has published the name so far".to_owned(),
    };
    if waited.is_zero() {
        return format!(
            "{name:?} is not bound now: {before}; `lookup` and `wait_bound` with a longer deadline wait until \
             a node binds it"
        );
    }
    format!(
        "no node has bound {name:?} within {waited:?}: {before}; see whether the node that is to bind it runs, and \
         spells it so, or wait longer"
    )
}

/// Why the registry refuses what a node asks: the cause inside of [`NodeError::Refused`] and
/// [`JoinError::Refused`](crate::node::JoinError::Refused).
///
/// A refusal is sent as it is: the order of its variants is part of the protocol. [`NodeError`] has an example.
///
/// ```
/// use egret_node::node::{JoinError, RegistryRefusal};
///
/// fn is_full(why: &JoinError) -> bool {
///     matches!(why, JoinError::Refused { why: RegistryRefusal::PoolFull { .. }, .. })
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub enum RegistryRefusal {
    /// The registry speaks another version of the protocol.
    Version {
        /// The version of the registry.
        theirs: u64,
    },
    /// The registry could not read the request.
    Unreadable,
    /// The registry has a pool of another name.
    OtherPool {
        /// The name of the registry's pool.
        pool: String,
    },
    /// The pool has another size.
    OtherSize {
        /// How many nodes.
        size: u32,
    },
    /// A member has the rank.
    RankTaken {
        /// That node.
        by: NodeId,
    },
    /// The pool has no such rank.
    NoSuchRank {
        /// How many nodes.
        size: u32,
    },
    /// All ranks are taken.
    PoolFull {
        /// How many nodes.
        size: u32,
    },
    /// The same links have joined before.
    JoinedAlready {
        /// The node that joined over these links.
        id: NodeId,
    },
    /// The node is no member, or has left.
    NotMember,
    /// The registry has declared the node dead.
    Fenced {
        /// Why.
        why: String,
    },
    /// Another node has bound the name.
    NameTaken {
        /// The node that has bound it.
        owner: NodeId,
    },
    /// Something is larger than the registry takes.
    TooLarge {
        /// What is too large, with its size.
        what: String,
        /// The most that the registry takes.
        most: u64,
    },
    /// The key has had a life in this pool: a node that has left or died comes back with a new one.
    KeyUsed {
        /// The node whose key it was.
        by: NodeId,
    },
    /// Another member has one of the hosts of the node.
    HostTaken {
        /// The host.
        host: String,
        /// That node.
        by: NodeId,
    },
    /// The pool is open, and the node has asked for a size or a rank.
    OpenPool,
    /// The pool is closed for nodes that have not joined.
    PoolClosed {
        /// The node that has closed it.
        by: NodeId,
    },
    /// The registry cannot write its state, so it promises nothing just now. If the change was under way already, it
    /// may still happen.
    Unwritten {
        /// What the operating system said.
        why: String,
    },
    /// The node knows more than the registry: the registry was started with a state that is older than one it had.
    OlderState {
        /// Entries of the pool's log that the node knows.
        knows: u64,
        /// Entries that the registry has.
        has: u64,
    },
    /// The pool has a fixed size, and the node joins an open one only.
    NotOpen {
        /// The size.
        size: u32,
    },
    /// The request is one of the operator, and the link has not proven the private key of the registry.
    NotOperator,
}

const NOT_OPERATOR: &str = "only the operator declares nodes dead, by the private key of the registry (the file of the \
                            secret with `.key` appended)";

impl fmt::Display for RegistryRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { theirs } => write!(
                f,
                "the registry speaks version {theirs} of the protocol, this node {}: build both programs with the same \
                 version of egret",
                super::wire::VERSION
            ),
            Self::Unreadable => write!(f, "the registry cannot read the question"),
            Self::OtherPool { pool } => {
                write!(f, "its pool is {pool:?}, and the node asks for another (EGRET_POOL)")
            }
            Self::OtherSize { size } => write!(
                f,
                "its pool has {size} nodes, and the node asks for another size (EGRET_SIZE)"
            ),
            Self::RankTaken { by } => {
                write!(f, "{by} has the rank (EGRET_RANK): it is free when {by} is gone")
            }
            Self::NoSuchRank { size } => write!(
                f,
                "its pool has the ranks below {size}, and the node asks for another (EGRET_RANK)"
            ),
            Self::OpenPool => write!(
                f,
                "the pool is open, and the node asks for a size or a rank: an open pool has no size, and the \
                 registry gives ranks (leave EGRET_SIZE and EGRET_RANK unset, and size and rank in egret.toml)"
            ),
            Self::PoolClosed { by } => {
                write!(
                    f,
                    "{by} has closed the pool: no node joins it any more, and other nodes join another"
                )
            }
            Self::Unwritten { why } => write!(
                f,
                "the registry cannot write its state: {why}; it tries again, and carries out nothing until it can"
            ),
            Self::OlderState { knows, has } => write!(
                f,
                "the node knows {knows} entries of the pool's log, and the registry {has}: the registry was \
                 started with an older copy of its state"
            ),
            Self::NotOpen { size } => write!(
                f,
                "its pool is closed, of {size} nodes, and the node joins an open pool only (`egret run --open`)"
            ),
            Self::NotOperator => f.write_str(NOT_OPERATOR),
            Self::PoolFull { size } => {
                write!(f, "all {size} nodes are there: a rank is free when one of them is gone")
            }
            Self::JoinedAlready { id } => write!(f, "this node has joined already, as {id}"),
            Self::NotMember => write!(f, "the node is no member of the pool"),
            Self::Fenced { why } => {
                write!(f, "the node was declared dead, and `Node::join` makes another: {why}")
            }
            Self::NameTaken { owner } => write!(f, "the name is {owner}'s"),
            Self::TooLarge { what, most } => {
                write!(f, "{what}, of which it takes {most} at most; no setting raises that")
            }
            Self::KeyUsed { by } => {
                write!(f, "its key was that of {by}; a node that joins again has a new one")
            }
            Self::HostTaken { host, by } => write!(
                f,
                "{by} is at {host}: a node is where no member is (EGRET_LISTEN), or joins when {by} is gone"
            ),
        }
    }
}
