//! What can go wrong with a node.

use std::fmt;
use std::time::Duration;

use egret_net::fabric::OpenError as NicError;
use egret_net::vi::ConnectError;
use egret_stream::Wire;
use thiserror::Error;

use super::{Fate, NodeId};
use crate::am::{CallError, MapError};
use crate::link::{LinkUpError, OpenError};
use crate::settings::SettingsError;

/// Why a node is no member.
///
/// `Debug` writes what `Display` does: it is what people see of an error that `main` returns.
#[derive(Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Somebody chose the secret, and it does not say which key the registry has: whoever answers
    /// at its address could guess the secret.
    #[error(
        "somebody chose this secret, and whoever answers at {address} could guess it: it is proven to a \
         registry whose key is known, and it says none; make a secret with `egret secret FILE`, open \
         the registry with Operator::load(FILE), and set EGRET_SECRET_FILE=FILE (in the process of the \
         registry, Registry::config() has the key)"
    )]
    KeyUnknown {
        /// Where the registry is said to be.
        address: String,
    },
    /// A setting is missing or means nothing.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No fabric is left.
    #[error("no fabric is left: {why}")]
    NoFabric {
        /// What became of each.
        why: String,
    },
    /// A nic cannot be opened.
    #[error("{fabric}: {why}")]
    Nic {
        /// Of which fabric.
        fabric: String,
        /// Why.
        why: NicError,
    },
    /// Links cannot be opened.
    #[error(transparent)]
    Links(#[from] OpenError),
    /// The registry cannot be reached, or does not let this node talk to it.
    #[error("the registry at {address} cannot be joined: {why}; {}", advice(why))]
    NoRegistry {
        /// Where.
        address: String,
        /// Why.
        why: MapError,
    },
    /// The registry did not take the node.
    #[error("the registry at {address} refuses: {why}")]
    Refused {
        /// Where.
        address: String,
        /// Why.
        why: Refused,
    },
    /// The registry did not answer, or was lost.
    #[error("the registry at {address} was lost: {why}")]
    Lost {
        /// Where.
        address: String,
        /// How.
        why: String,
    },
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says what answers this.
    #[error("a node cannot be joined in a handler, which must not wait: a thread of its own can")]
    InHandler,
    /// The deadline passed.
    #[error("the registry at {address} has not answered within {waited:?}")]
    TimedOut {
        /// Where.
        address: String,
        /// How long was waited.
        waited: Duration,
    },
}

/// What helps where the registry cannot be reached.
fn advice(why: &MapError) -> &'static str {
    match why {
        MapError::Up(LinkUpError::Connect(ConnectError::Secret(_))) => {
            "EGRET_SECRET_FILE must be the file that the registry was opened with"
        }
        MapError::Up(LinkUpError::Connect(ConnectError::Key(_))) => {
            "the file in EGRET_SECRET_FILE says the key of another registry: take that of the \
             operator who opened this one"
        }
        _ => "is it started (`egret run`, `Registry::open`), and at this address (EGRET_REGISTRY)?",
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why the registry refuses. It travels as it is: the order of its variants is on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Error, Wire)]
#[non_exhaustive]
pub enum Refused {
    /// It speaks another version.
    #[error("it speaks version {theirs} of the protocol, not {}", crate::registry::wire::VERSION)]
    Version {
        /// Which.
        theirs: u64,
    },
    /// It could not read the question.
    #[error("it cannot read the question")]
    Unreadable,
    /// It has another pool.
    #[error("its pool is {pool:?}, and the node asks for another (EGRET_POOL)")]
    OtherPool {
        /// Its name.
        pool: String,
    },
    /// The pool has another size.
    #[error("its pool has {size} nodes, and the node asks for another size (EGRET_SIZE)")]
    OtherSize {
        /// How many nodes.
        size: u32,
    },
    /// Somebody has the rank.
    #[error("{by} has the rank (EGRET_RANK): it is free when {by} is gone")]
    RankTaken {
        /// Who.
        by: NodeId,
    },
    /// The pool has no such rank.
    #[error("its pool has the ranks below {size}, and the node asks for another (EGRET_RANK)")]
    NoSuchRank {
        /// How many nodes.
        size: u32,
    },
    /// All places are taken.
    #[error("all {size} nodes are there: a rank is free when one of them is gone")]
    PoolFull {
        /// How many nodes.
        size: u32,
    },
    /// The same links have joined before.
    #[error("it has joined already, as {id}")]
    JoinedAlready {
        /// Who it is there.
        id: NodeId,
    },
    /// It is no member, or has left.
    #[error("it is no member")]
    NotMember,
    /// The registry has declared it dead.
    #[error("it was declared dead: {why}")]
    Fenced {
        /// Why.
        why: String,
    },
    /// Somebody has the name.
    #[error("the name is {owner}'s")]
    NameTaken {
        /// Whose.
        owner: NodeId,
    },
    /// Something is larger than the registry takes.
    #[error("{what}, of which it takes {most} at most; no setting raises that")]
    TooLarge {
        /// What, with its size.
        what: String,
        /// How much it takes.
        most: u64,
    },
    /// The key has had a life in this pool: whoever has left or died comes back with a new one.
    #[error("its key was that of {by}; a node that joins again has a new one")]
    KeyUsed {
        /// Whose.
        by: NodeId,
    },
    /// Another member is there where the node says it is.
    #[error(
        "{by} is at {host}: a node is where no member is (EGRET_LISTEN), or joins when {by} is gone"
    )]
    HostTaken {
        /// Where.
        host: String,
        /// Who.
        by: NodeId,
    },
}

/// Why the registry has not done what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AskError {
    /// It refuses.
    #[error("the registry refuses: {0}")]
    Refused(#[from] Refused),
    /// It has not answered.
    #[error("the registry: {0}")]
    NoAnswer(#[from] CallError),
    /// It is lost.
    #[error("the registry was lost: {why}; its pool is over, and nodes join another")]
    RegistryLost {
        /// How.
        why: String,
    },
    /// It answers something else.
    #[error("the registry answers something else")]
    OtherAnswer,
    /// This node is no member any more: it has left, or was dropped.
    #[error(
        "this node, {node}, is no member of its pool any more: {fate}; `Node::join` makes another"
    )]
    NotMember {
        /// Who it was.
        node: NodeId,
        /// How it came to be none.
        fate: Fate,
    },
    /// Somebody has the name.
    #[error(
        "node {owner} has bound {name:?} already; `rebind` takes a name from whoever has it, and one that is \
         dropped or taken back (`unbind`) is free"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// Who has it.
        owner: NodeId,
    },
    /// Nobody has bound the name.
    #[error("{}", not_bound(name, *waited, *withdrawn_by))]
    NotBound {
        /// The name.
        name: String,
        /// How long was to be waited: not at all by who only [looks](super::Handle::try_bound).
        waited: Duration,
        /// Who had the name last, is a member still, and has taken the name back: by
        /// [`unbind`](super::Handle::unbind), or because what it stood for was dropped.
        withdrawn_by: Option<NodeId>,
    },
    /// Nobody has bound the name, and the node that had it last is gone.
    #[error(
        "nobody has bound {name:?} since node {owner}, which had, is gone: {fate}; the name is there \
         again when another node binds it, or rank {} joins again and does", owner.rank
    )]
    OwnerGone {
        /// The name.
        name: String,
        /// Who had it.
        owner: NodeId,
        /// How that node came to be gone.
        fate: Fate,
    },
    /// Nobody has bound the name, and all other nodes of the pool are gone.
    #[error("nobody has bound {name:?}, and all other nodes of the pool are gone")]
    NobodyLeft {
        /// The name.
        name: String,
    },
}

/// What is known of a name that nobody has.
fn not_bound(name: &str, waited: Duration, withdrawn_by: Option<NodeId>) -> String {
    let before = match withdrawn_by {
        Some(node) => format!(
            "node {node} had the name and has withdrawn it, and nobody has bound it again since"
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
        "nobody has bound {name:?} within {waited:?}: {before}; see whether the node that is to bind it runs, and \
         spells it so, or wait longer"
    )
}

/// Why not everybody is there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AbsentError {
    /// A node is gone and has not come back.
    #[error("{node} is gone: {fate}")]
    Gone {
        /// Which.
        node: NodeId,
        /// How.
        fate: Fate,
    },
    /// The registry is lost.
    #[error("the registry was lost: {why}")]
    RegistryLost {
        /// How.
        why: String,
    },
    /// The deadline passed.
    #[error("{here} of {size} nodes have joined within {waited:?}")]
    TimedOut {
        /// How many have joined.
        here: u32,
        /// How many nodes there are.
        size: u32,
        /// How long was waited.
        waited: Duration,
    },
}

/// Why there is no way to a node.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// It is no member any more.
    #[error("{node} is gone: {fate}")]
    Gone {
        /// Which.
        node: NodeId,
        /// How.
        fate: Fate,
    },
    /// The registry has declared this node dead: it has no peers any more.
    #[error("this node was declared dead: {why}")]
    Fenced {
        /// Why.
        why: String,
    },
    /// This node is no member any more: it has left, or was dropped.
    #[error("this node, {node}, is no member of its pool any more: {fate}")]
    NotMember {
        /// Who it was.
        node: NodeId,
        /// How it came to be none.
        fate: Fate,
    },
    /// Nobody has heard of it.
    #[error("{node} has not joined")]
    Unknown {
        /// Which.
        node: NodeId,
    },
    /// It is this one.
    #[error("a node has no way to itself")]
    Oneself,
    /// The two have no fabric in common.
    #[error("no fabric to {node}: {why}")]
    NoFabric {
        /// Which.
        node: NodeId,
        /// What is in the way of each.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use egret_net::vi::{KeyError, SecretError};

    use super::*;

    #[test]
    fn who_cannot_join_is_told_what_helps() {
        let text = |why: ConnectError| {
            let why = MapError::Up(LinkUpError::Connect(why));
            JoinError::NoRegistry { address: "a:1".to_owned(), why }.to_string()
        };
        let other_secret = text(SecretError::Stranger.into());
        assert!(other_secret.ends_with("the file that the registry was opened with"));
        assert!(text(KeyError::Other.into()).contains("the key of another registry"));
        let nobody = text(ConnectError::NicDown);
        assert!(nobody.contains("a:1") && nobody.contains("EGRET_REGISTRY"), "{nobody}");
    }
}
