//! Views: named sets of members.

use egret_stream::Wire;

use super::NodeId;
use super::fault::{Fault, planted};

/// The members of a named set, in the order in which they have entered it
/// ([`NodeHandle::view`](crate::node::NodeHandle::view)).
///
/// A node enters and exits by itself, and exits when it is no member of the pool any more. The registry
/// changes views in the order of its events, so all nodes see the same views in the same order. What counts
/// on the members of a view sends the epoch along, and refuses what comes with an older one.
///
/// ```
/// let pool = egret_node::local::pool(2)?;
/// for node in pool.iter() {
///     node.enter("solvers")?;
/// }
/// let view = pool[1].view("solvers");
/// assert_eq!(view.members, [pool[0].id(), pool[1].id()]);
/// assert_eq!(view.first(), Some(pool[0].id()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct View {
    /// The number of the latest change: it grows with each, also when the view was empty in between. Of a
    /// view without members the number of the next event of the pool.
    pub epoch: u64,
    /// The members; the one that is there longest is the first.
    pub members: Vec<NodeId>,
    /// The epoch at which the first member became the first: the fencing token of an election.
    pub first_since: u64,
}

impl View {
    /// The member that is there longest: the winner, if the view is an election.
    #[must_use]
    pub fn first(&self) -> Option<NodeId> {
        self.members.first().copied()
    }

    /// Whether a node is in the view.
    #[must_use]
    pub fn has(&self, node: NodeId) -> bool {
        self.members.contains(&node)
    }

    pub(super) fn enter(&mut self, node: NodeId, epoch: u64) {
        if self.members.is_empty() {
            self.first_since = epoch;
        }
        self.members.push(node);
        self.epoch = epoch;
    }

    pub(super) fn exit(&mut self, node: NodeId, epoch: u64) {
        if self.first() == Some(node) {
            self.begin_first(epoch);
        }
        self.members.retain(|member| *member != node);
        self.epoch = epoch;
    }

    /// Another member is the first from now on.
    fn begin_first(&mut self, epoch: u64) {
        if !planted(Fault::EpochKept) {
            self.first_since = epoch;
        }
    }
}
