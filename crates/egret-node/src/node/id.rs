//! Who a node is, and where.

use std::fmt;

use egret_net::vi::PublicKey;
use egret_stream::Wire;

use super::Properties;

/// Which node, in which life: the registry gives each life of a rank another incarnation. Rank 1 in
/// incarnation 2 is written `1#2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Wire)]
pub struct NodeId {
    /// Its place in the pool, from 0 to below the size.
    pub rank: u32,
    /// Which life, counted over the pool from 1. Of a process that ended before it joined, 0.
    pub incarnation: u64,
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.rank, self.incarnation)
    }
}

/// A node of the pool, as it has told the registry.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct Member {
    /// Who.
    pub id: NodeId,
    /// Which machine it is on: nodes whose machines are equal can meet in memory.
    pub machine: String,
    /// The fabrics it has, the one it likes best first.
    pub fabrics: Vec<Offer>,
    key: Option<[u8; 32]>,
}

/// A fabric that a node has, and where it is to be found there.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct Offer {
    /// The fabric's name.
    pub fabric: String,
    /// What its nic is called.
    pub host: String,
    /// What the fabric is like.
    pub properties: Properties,
}

impl Member {
    pub(crate) fn new(
        id: NodeId,
        machine: String,
        fabrics: Vec<Offer>,
        key: Option<PublicKey>,
    ) -> Self {
        Self { id, machine, fabrics, key: key.map(PublicKey::to_bytes) }
    }

    /// The key that it has proven to the registry, and must prove to everybody who links with it.
    /// `None` on fabrics where nodes have no keys.
    #[must_use]
    pub fn key(&self) -> Option<PublicKey> {
        self.key.map(PublicKey::from_bytes)
    }

    pub(crate) fn offer(&self, fabric: &str) -> Option<&Offer> {
        self.fabrics.iter().find(|offer| offer.fabric == fabric)
    }
}

impl Offer {
    pub(crate) fn new(fabric: &str, host: &str, properties: Properties) -> Self {
        Self { fabric: fabric.to_owned(), host: host.to_owned(), properties }
    }
}
