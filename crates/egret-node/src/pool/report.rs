//! What nodes do and wait for, as values that people are shown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use egret_stream::{Reader, Wire};

use super::event::CALLS_WAIT;
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
    /// Which process of which job it is; `None` if `egret run` has not started it.
    pub job: Option<JobProcess>,
    /// Where it is.
    pub location: Location,
    /// How many nodes are members, as far as it knows.
    pub members: u32,
    /// When the report was made, in milliseconds since the process began: what two reports differ in has happened
    /// between their moments.
    pub made_ms: u64,
    /// The sums over all its links with other nodes, also those that have ended or are omitted.
    pub total: TrafficCount,
    /// Its links, those with most messages first; at most 32.
    pub peers: Vec<PeerReport>,
    /// What its threads wait for, the longest wait first; at most 16.
    pub waits: Vec<WaitReport>,
    /// The nodes that its threads wait for, also by waits that are omitted; at most 128.
    pub awaited: Vec<NodeId>,
    /// Links that are left away so that the report is short.
    pub omitted_peers: u32,
    /// Waits that are left away.
    pub omitted_waits: u32,
}

/// A process of a job of `egret run`; a part of [`NodeReport`].
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct JobProcess {
    /// The name of the job (`EGRET_JOB`).
    pub name: String,
    /// The rank of the process in the job (`EGRET_JOB_RANK`), with which `egret run --tag-output` begins lines. In an open
    /// pool it is another number than the rank of the node.
    pub rank: u32,
}

/// What links carry: a part of [`NodeReport`], [`PeerReport`] and
/// [`TrafficChange`](crate::node::TrafficChange).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct TrafficCount {
    /// Messages that were sent.
    pub sent: u64,
    /// Messages that were received.
    pub received: u64,
    /// Bytes of the messages that were sent.
    pub sent_bytes: u64,
    /// Bytes of the messages that were received.
    pub received_bytes: u64,
    /// Requests whose answers have not come.
    pub calls: u64,
    /// Messages that wait to be sent.
    pub queued: u64,
}

/// The traffic of one link of a node; a part of [`NodeReport`].
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
#[non_exhaustive]
pub struct PeerReport {
    /// The other node; `None` if it is the registry, or no member any more.
    pub node: Option<NodeId>,
    /// The fabric; `registry` if the link is with the registry.
    pub fabric: String,
    /// What the link has carried since it was made.
    pub count: TrafficCount,
    /// The time from a request to its answer, the work of the other node included: the average of requests of which
    /// few are measured. `None` if none was measured yet.
    pub round_trip: Option<Duration>,
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

impl WaitReport {
    /// Whether a thread waits that has nothing else to do: it says nothing of what the node does.
    #[doc(hidden)]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.kind == CALLS_WAIT
    }
}

impl NodeReport {
    /// The report without links and waits that one message has no room for.
    pub(crate) fn cut(mut self) -> Self {
        let (peers, waits) = (self.peers.len(), self.waits.len());
        self.awaited.truncate(AWAITED_MAX);
        self.waits.truncate(WAITS_MAX);
        self.peers.truncate(PEERS_MAX);
        while self.to_bytes().len() > BYTES_MAX && self.peers.pop().is_some() {}
        while self.to_bytes().len() > BYTES_MAX && self.waits.pop().is_some() {}
        self.omitted_peers = short(peers - self.peers.len());
        self.omitted_waits = short(waits - self.waits.len());
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
    pub const fn progress(&self) -> u64 {
        self.total.sent.wrapping_add(self.total.received)
    }
}

impl TrafficCount {
    /// Messages sent and received.
    pub(crate) const fn messages(&self) -> u64 {
        self.sent.saturating_add(self.received)
    }

    /// What is counted here and there.
    pub(crate) const fn with(self, other: Self) -> Self {
        Self {
            sent: self.sent.saturating_add(other.sent),
            received: self.received.saturating_add(other.received),
            sent_bytes: self.sent_bytes.saturating_add(other.sent_bytes),
            received_bytes: self.received_bytes.saturating_add(other.received_bytes),
            calls: self.calls.saturating_add(other.calls),
            queued: self.queued.saturating_add(other.queued),
        }
    }

    /// What was carried since `before`, with the requests and messages that wait now.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(before.sent),
            received: self.received.saturating_sub(before.received),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
            calls: self.calls,
            queued: self.queued,
        }
    }
}

/// The nodes of a circle of waits, if there is one: each has a thread that waits for the next, and the last one for the
/// first. It begins with the lowest of them. A node whose thread waits for an object of its own is no circle: what that
/// object waits for is a wait of the node as well.
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
    let awaited = |report: &NodeReport| {
        report.awaited.iter().copied().filter(|node| *node != report.node).collect()
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
        let Self { node, process, location, members, total, peers, waits, .. } = self;
        write!(
            f,
            "{node}: process {process} at {location}, {members} members; all links: {total}"
        )?;
        for peer in peers {
            write!(f, "\n  {peer}")?;
        }
        for wait in waits {
            write!(f, "\n  {wait}")?;
        }
        let Self { omitted_peers, omitted_waits, .. } = self;
        if (*omitted_peers, *omitted_waits) != (0, 0) {
            write!(f, "\n  and {omitted_peers} more links, {omitted_waits} more waits")?;
        }
        Ok(())
    }
}

impl fmt::Display for TrafficCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, received, sent_bytes, received_bytes, calls, queued } = self;
        write!(f, "{sent} messages ({sent_bytes} bytes) sent, ")?;
        write!(f, "{received} messages ({received_bytes} bytes) received, ")?;
        write!(f, "{calls} requests without an answer, {queued} messages queued")
    }
}

impl fmt::Display for PeerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, fabric, count, round_trip } = self;
        match node {
            Some(node) => write!(f, "with {node}")?,
            None => write!(f, "with the registry or a stranger")?,
        }
        write!(f, " over {fabric}: {count}")?;
        match round_trip {
            Some(round_trip) => write!(f, ", round trip {round_trip:.1?}"),
            None => Ok(()),
        }
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
/// Awaited nodes of a report.
const AWAITED_MAX: usize = 128;
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
        NodeReport {
            node: id(rank),
            process: 1,
            job: None,
            location: Location::default(),
            members: 4,
            made_ms: 2000,
            total: TrafficCount::default(),
            peers: Vec::new(),
            waits: to.iter().map(wait).collect(),
            awaited: to.iter().map(|to| id(*to)).collect(),
            omitted_peers: 0,
            omitted_waits: 0,
        }
    }

    #[test]
    fn a_circle_of_waits_is_found_and_a_chain_is_none() {
        let chain: Vec<_> = (0..5).map(|rank| waiting(rank, &[rank + 1])).collect();
        assert!(wait_circle(&chain).is_empty());
        let circle = [waiting(0, &[1]), waiting(1, &[4, 2]), waiting(2, &[3]), waiting(3, &[1])];
        assert_eq!(wait_circle(&circle), [id(1), id(2), id(3)]);
        assert!(wait_circle(&[waiting(7, &[7])]).is_empty(), "a node that waits for itself");
        let behind = [waiting(0, &[0, 1]), waiting(1, &[1, 0])];
        assert_eq!(wait_circle(&behind), [id(0), id(1)]);
        // All to all, without and with a way back: no more than once along each edge.
        let down: Vec<_> =
            (0..60).map(|rank| waiting(rank, &(rank + 1..60).collect::<Vec<_>>())).collect();
        assert!(wait_circle(&down).is_empty());
    }

    #[test]
    fn a_report_is_read_as_it_was_sent_and_cut_to_one_message() {
        let mut report = waiting(3, &[1, 2]);
        assert_eq!(NodeReport::from_bytes(&report.to_bytes()), Some(report.clone()));
        let count = TrafficCount { sent: 1, received: 2, calls: 3, ..TrafficCount::default() };
        let round_trip = Some(Duration::from_micros(7));
        let peer = PeerReport { node: Some(id(1)), fabric: "tcp".repeat(8), count, round_trip };
        report.peers = vec![peer; 500];
        report.total = (0..500).fold(count, |sum, _| sum.with(count));
        report.waits = (0..40).flat_map(|_| waiting(0, &[1]).waits).collect();
        let cut = report.cut();
        assert!(cut.to_bytes().len() <= BYTES_MAX && cut.waits.len() == WAITS_MAX);
        assert_eq!(cut.omitted_peers as usize, 500 - cut.peers.len());
        assert_eq!(cut.omitted_waits as usize, 40 - WAITS_MAX);
        assert_eq!(cut.progress(), 3 * 501, "the sums are over all links");
        let text = cut.to_string();
        assert!(
            text.contains("has waited 1.5s for answer Grid::get of 1#2 at src/main.rs:7"),
            "{text}"
        );
        assert!(text.ends_with(" more links, 24 more waits"), "{text}");
    }

    #[test]
    fn a_circle_of_waits_is_found_behind_waits_that_are_omitted() {
        // The thread that closes the circle has waited for the shortest time of a hundred.
        let others: Vec<_> = (10..109).chain([1]).collect();
        let mut reports = [waiting(0, &others), waiting(1, &[0])];
        let peer = PeerReport {
            node: Some(id(1)),
            fabric: "shm".into(),
            count: TrafficCount::default(),
            round_trip: None,
        };
        reports.iter_mut().for_each(|report| report.peers = vec![peer.clone(); 40]);
        let cut = reports.map(NodeReport::cut);
        assert!(cut[0].waits.iter().all(|wait| wait.node != Some(id(1))));
        assert!(cut[0].to_bytes().len() <= BYTES_MAX);
        assert_eq!(wait_circle(&cut), [id(0), id(1)]);
    }
}
