//! The nodes of a pool in one process: for tests, examples and first programs. [`pool`] has an example.

use std::ops::Deref;

use crate::node::Node;
use crate::pool::JoinError;
use crate::registry::{Operator, Registry, RegistryOptions};

/// Opens a registry in this process and joins `size` nodes, which all know each other: node `i` has rank
/// `i`. The pool has a random secret, and listens on loopback.
///
/// ```
/// # use egret_node::local;
/// let pool = local::pool(2)?;
/// let (a, b) = (&pool[0], &pool[1]);
/// assert_eq!((a.rank(), b.rank(), a.size()), (0, 1, 2));
/// # Ok::<(), egret_node::node::JoinError>(())
/// ```
///
/// # Errors
///
/// If the registry cannot be opened, or a node cannot join.
pub fn pool(size: u32) -> Result<LocalPool, JoinError> {
    of_nodes(size, RegistryOptions::new("local", size))
}

/// As [`pool`], with an open pool: more nodes may join, and those that leave are not missed.
///
/// ```
/// use egret_node::local;
/// use egret_node::node::{Event, Node};
///
/// let pool = local::open_pool(2)?;
/// let mut events = pool[0].events();
/// let late = Node::join(pool.registry().config())?;
/// while events.wait_next(pool[0].deadline())? != Event::Joined(late.member(late.id()).unwrap()) {}
/// assert_eq!((late.rank(), pool[0].size()), (2, 3));
/// late.leave(pool[0].deadline())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the registry cannot be opened, or a node cannot join.
pub fn open_pool(nodes: u32) -> Result<LocalPool, JoinError> {
    of_nodes(nodes, RegistryOptions::open("local"))
}

fn of_nodes(nodes: u32, options: RegistryOptions) -> Result<LocalPool, JoinError> {
    let registry = Registry::open(options.operator(&Operator::random()))?;
    let nodes = (0..nodes).map(|_| Node::join(registry.config())).collect::<Result<Vec<_>, _>>()?;
    for node in &nodes {
        let mut events = node.events();
        while (node.size() as usize) < nodes.len() {
            _ = events.wait_next(node.deadline())?;
        }
        node.wait_all(node.deadline())?;
    }
    Ok(LocalPool { nodes, registry })
}

/// The nodes of a pool, in the order of their ranks, and its registry. The pool ends when it is dropped.
/// [`pool`] has an example.
#[derive(Debug)]
pub struct LocalPool {
    // Nodes leave before the registry is closed: fields are dropped in this order.
    nodes: Vec<Node>,
    registry: Registry,
}

impl LocalPool {
    /// The registry: what nodes of other threads and processes join by, if the pool has a place
    /// ([`Registry::config`], [`Registry::address`]).
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The registry, and the nodes, to be moved to threads of their own, or to
    /// [leave](Node::leave) before the others. The registry must outlive them: bound in this order it is
    /// dropped last.
    #[must_use]
    pub fn into_parts(self) -> (Registry, Vec<Node>) {
        (self.registry, self.nodes)
    }
}

impl Deref for LocalPool {
    type Target = [Node];

    fn deref(&self) -> &[Node] {
        &self.nodes
    }
}
