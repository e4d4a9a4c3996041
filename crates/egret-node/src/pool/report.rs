//! What nodes do and wait for, as values that people are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use egret_stream::{Reader, Wire};

use super::wire::bytes_of;
use super::{Location, NodeId};

/// What a node does, and what its threads wait for ([`NodeHandle::report`](crate::node::NodeHandle::report)).
/// `egret top` shows those of all nodes of a job.
///
/// ```
/// let pool = egret_node::local::pool(2)?;
/// let report = pool[0].report();
/// println!("{report}");
/// assert_eq!((report.node, report.process), (pool[0].id(), std::process::id()));
/// # Ok::<(), egret_node::node::JoinError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node.
    pub node: NodeId,
    /// The number of its process.
    pub process: u32,
    /// Where it is.
    pub location: Location,
    /// How many nodes are members, as far as it knows.
    pub members: u32,
    /// The links with other nodes, those with most messages first.
    pub peers: Vec<PeerReport>,
    /// What its threads wait for, the longest wait first.
    pub waits: Vec<WaitReport>,
    /// Links and waits that are left away so that the report is short.
    pub omitted: u32,
}

/// The traffic of one link of a node; a part of [`NodeReport`].
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct PeerReport {
    /// The other node; `None` if it is the registry, or no member any more.
    pub node: Option<NodeId>,
    /// The fabric; `registry` if the link is with the registry.
    pub fabric: String,
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were received.
    pub received: u64,
    /// Requests whose answers have not come.
    pub calls: u32,
    /// Messages that wait to be sent.
    pub queued: u32,
}

/// What one thread waits for; a part of [`NodeReport`].
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct WaitReport {
    /// The name of the thread.
    pub thread: String,
    /// The kind of the wait: `answer`, `event`, `name`, `room`, `message` and others.
    pub kind: String,
    /// What is waited for: a method, a name; empty if the kind says it all.
    pub object: String,
    /// The node that is waited for, if it is one.
    pub node: Option<NodeId>,
    /// The line of the program that waits.
    pub at: String,
    /// For how long, in milliseconds.
    pub waited_ms: u64,
}

impl NodeReport {
    /// The report without links and waits that one message has no room for.
    pub(crate) fn cut(mut self) -> Self {
        let before = self.peers.len() + self.waits.len();
        self.waits.truncate(WAITS_MAX);
        self.peers.truncate(PEERS_MAX);
        while self.to_bytes().len() > BYTES_MAX && self.peers.pop().is_some() {}
        while self.to_bytes().len() > BYTES_MAX && self.waits.pop().is_some() {}
        self.omitted = short(before - self.peers.len() - self.waits.len());
        self
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        bytes_of(self)
    }

    /// A report as a member has sent it.
    ///
    /// Its texts go to terminals of people, who need no control characters in them.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut report: Self = Reader::new(bytes).read_last().ok()?;
        let is_shown = |text: &str| !text.contains(char::is_control);
        let waits = &mut report.waits;
        waits.retain(|wait| {
            [&wait.thread, &wait.kind, &wait.object, &wait.at].into_iter().all(|it| is_shown(it))
        });
        report.peers.retain(|peer| is_shown(&peer.fabric));
        is_shown(&report.location.to_string()).then_some(report)
    }

    /// A number that grows with every message of this node to another.
    #[doc(hidden)]
    #[must_use]
    pub fn progress(&self) -> u64 {
        let peers = self.peers.iter().filter(|peer| peer.node.is_some());
        let messages = peers.map(|peer| peer.sent.wrapping_add(peer.received));
        messages.fold(0, u64::wrapping_add)
    }
}

/// The nodes of a circle of waits, if there is one: each has a thread that waits for the next, and the last one for the
/// first. It begins with the lowest of them.
///
/// A circle is no proof that nothing will happen: other threads of these nodes may go on.
///
/// ```
/// let pool = egret_node::local::pool(2)?;
/// let reports: Vec<_> = pool.iter().map(|node| node.report()).collect();
/// assert!(egret_node::node::wait_circle(&reports).is_empty());
/// # Ok::<(), egret_node::node::JoinError>(())
/// ```
#[must_use]
pub fn wait_circle(reports: &[NodeReport]) -> Vec<NodeId> {
    let awaited = |report: &NodeReport| -> BTreeSet<NodeId> {
        report.waits.iter().filter_map(|wait| wait.node).collect()
    };
    let edges: BTreeMap<NodeId, BTreeSet<NodeId>> =
        reports.iter().map(|report| (report.node, awaited(report))).collect();
    // From each node on, by depth: nodes that lead to no circle are looked at once.
    let mut over = BTreeSet::new();
    for first in edges.keys() {
        let mut path: Vec<(NodeId, Vec<NodeId>)> = Vec::new();
        let mut next = Some(*first).filter(|node| !over.contains(node));
        while let Some(node) = next.take() {
            let to = edges.get(&node).map(|to| to.iter().copied().collect()).unwrap_or_default();
            path.push((node, to));
            while let Some((node, to)) = path.last_mut() {
                let Some(target) = to.pop() else {
                    over.insert(*node);
                    path.pop();
                    continue;
                };
                if let Some(begin) = path.iter().position(|(known, _)| *known == target) {
                    let mut circle: Vec<_> = path[begin..].iter().map(|(node, _)| *node).collect();
                    let lowest = (0..circle.len()).min_by_key(|at| circle[*at]).unwrap_or(0);
                    circle.rotate_left(lowest);
                    return circle;
                }
                if !over.contains(&target) && edges.contains_key(&target) {
                    next = Some(target);
                    break;
                }
            }
        }
    }
    Vec::new()
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, process, location, members, peers, waits, omitted } = self;
        write!(f, "{node}: process {process} at {location}, {members} members")?;
        for peer in peers {
            write!(f, "\n  {peer}")?;
        }
        for wait in waits {
            write!(f, "\n  {wait}")?;
        }
        if *omitted > 0 {
            write!(f, "\n  and {omitted} more links and waits")?;
        }
        Ok(())
    }
}

impl fmt::Display for PeerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, fabric, sent, received, calls, queued } = self;
        match node {
            Some(node) => write!(f, "with {node}")?,
            None => write!(f, "with the registry or a stranger")?,
        }
        write!(f, " over {fabric}: {sent} messages sent, {received} received")?;
        write!(f, ", {calls} requests without an answer, {queued} messages queued")
    }
}

impl fmt::Display for WaitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, kind, object, node, at, waited_ms } = self;
        let waited = Duration::from_millis(*waited_ms);
        write!(f, "thread {thread} has waited {waited:.1?} for {kind}")?;
        if !object.is_empty() {
            write!(f, " {object}")?;
        }
        if let Some(node) = node {
            write!(f, " of {node}")?;
        }
        write!(f, " at {at}")
    }
}

pub(crate) fn short(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Links of a report.
const PEERS_MAX: usize = 32;
/// Waits of a report.
const WAITS_MAX: usize = 16;
/// Bytes of a report.
const BYTES_MAX: usize = 3 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn id(rank: u32) -> NodeId {
        NodeId { rank, incarnation: u64::from(rank) + 1 }
    }

    /// A report of a node that waits for others.
    fn waiting(rank: u32, to: &[u32]) -> NodeReport {
        let wait = |to: &u32| WaitReport {
            thread: "main".into(),
            kind: "answer".into(),
            object: "Grid::get".into(),
            node: Some(id(*to)),
            at: "src/main.rs:7".into(),
            waited_ms: 1500,
        };
        let (location, waits) = (Location::default(), to.iter().map(wait).collect());
        let node = id(rank);
        NodeReport { node, process: 1, location, members: 4, peers: Vec::new(), waits, omitted: 0 }
    }

    #[test]
    fn a_circle_of_waits_is_found_and_a_chain_is_none() {
        let chain: Vec<_> = (0..5).map(|rank| waiting(rank, &[rank + 1])).collect();
        assert!(wait_circle(&chain).is_empty());
        let circle = [waiting(0, &[1]), waiting(1, &[4, 2]), waiting(2, &[3]), waiting(3, &[1])];
        assert_eq!(wait_circle(&circle), [id(1), id(2), id(3)]);
        assert_eq!(wait_circle(&[waiting(7, &[7])]), [id(7)], "a node that waits for itself");
        // All to all, without and with a way back: no more than once along each edge.
        let down: Vec<_> =
            (0..60).map(|rank| waiting(rank, &(rank + 1..60).collect::<Vec<_>>())).collect();
        assert!(wait_circle(&down).is_empty());
    }

    #[test]
    fn a_report_is_read_as_it_was_sent_and_cut_to_one_message() {
        let mut report = waiting(3, &[1, 2]);
        assert_eq!(NodeReport::from_bytes(&report.to_bytes()), Some(report.clone()));
        let peer = PeerReport {
            node: Some(id(1)),
            fabric: "tcp".repeat(8),
            sent: 1,
            received: 2,
            calls: 3,
            queued: 4,
        };
        report.peers = vec![peer; 500];
        report.waits = (0..40).flat_map(|_| waiting(0, &[1]).waits).collect();
        let cut = report.cut();
        assert!(cut.to_bytes().len() <= BYTES_MAX && cut.waits.len() == WAITS_MAX);
        assert_eq!(cut.omitted as usize, 540 - cut.peers.len() - cut.waits.len());
        let text = cut.to_string();
        assert!(
            text.contains("has waited 1.5s for answer Grid::get of 1#2 at src/main.rs:7"),
            "{text}"
        );
    }
}
