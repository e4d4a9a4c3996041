//! Identifiers of nodes, and what a member has told the registry.

use std::fmt;

use egret_net::vi::PublicKey;
use egret_stream::Wire;

use super::{Location, Properties};

/// The identifier of a node: its rank, and its incarnation, which the registry gives to each life of a
/// rank. Rank 1 in incarnation 2 is written `1#2`.
///
/// Nodes are addressed by their identifiers or by names; [`NodeHandle::id_of`](crate::node::NodeHandle::id_of)
/// has the node of a rank, with an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Wire)]
pub struct NodeId {
    /// The place in the pool, from 0 to below the size.
    pub rank: u32,
    /// The number of the life, counted over the pool from 1; 0 for a process that ended before it
    /// joined.
    pub incarnation: u64,
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.rank, self.incarnation)
    }
}

/// A member of the pool, as it has described itself to the registry
/// ([`NodeHandle::member`](crate::node::NodeHandle::member)).
///
/// ```
/// let pool = egret_node::local::pool(2)?;
/// let other = pool[0].member(pool[1].id()).ok_or("it has left")?;
/// assert!(other.fabrics.iter().any(|offer| offer.fabric == "tcp"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct Member {
    /// The node.
    pub id: NodeId,
    /// The machine of the node: nodes whose machines are equal can use shared memory.
    pub machine: String,
    /// Where the node is.
    pub location: Location,
    /// The fabrics of the node, the preferred one first.
    pub fabrics: Vec<FabricOffer>,
    key: Option<[u8; 32]>,
}

/// A fabric that a member offers, and its host there; [`Member`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct FabricOffer {
    /// The fabric's name.
    pub fabric: String,
    /// The host: the name of the member's nic.
    pub host: String,
    /// The properties of the fabric.
    pub properties: Properties,
}

impl Member {
    pub(crate) fn new(
        id: NodeId,
        machine: String,
        location: Location,
        fabrics: Vec<FabricOffer>,
        key: Option<PublicKey>,
    ) -> Self {
        Self { id, machine, location, fabrics, key: key.map(PublicKey::to_bytes) }
    }

    /// The key that it has proven to the registry, and must prove to everybody who links with it.
    /// `None` on fabrics where nodes have no keys.
    #[must_use]
    pub fn key(&self) -> Option<PublicKey> {
        self.key.map(PublicKey::from_bytes)
    }

    pub(crate) fn offer(&self, fabric: &str) -> Option<&FabricOffer> {
        self.fabrics.iter().find(|offer| offer.fabric == fabric)
    }
}

impl FabricOffer {
    pub(crate) fn new(fabric: &str, host: &str, properties: Properties) -> Self {
        Self { fabric: fabric.to_owned(), host: host.to_owned(), properties }
    }
}
