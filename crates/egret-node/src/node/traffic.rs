//! What the links of a node carry, from one look to the next.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};

use super::NodeHandle;
use super::report::LinksLook;
use crate::pool::{NodeError, PeerReport, TrafficCount, drive};

impl NodeHandle {
    /// What the links of this node carry: after each `every`, what has changed since the look before.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// let mut traffic = pool[0].traffic(Duration::from_millis(50));
    /// pool[0].probe(pool[1].id(), pool[0].deadline())?;
    /// let change = traffic.wait_next(pool[0].deadline())?;
    /// for peer in &change.peers {
    ///     println!("{peer}; {:.0} bytes sent in a second", change.per_second(peer.count.sent_bytes));
    /// }
    /// let other = change.peers.iter().find(|peer| peer.node == Some(pool[1].id())).unwrap();
    /// assert!(other.count.sent > 0 && other.count.sent_bytes > 1 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn traffic(&self, every: Duration) -> TrafficChanges {
        let LinksLook { links, total } = self.watch().look_at_links();
        let before = links.into_iter().map(|(key, peer)| (key, peer.count)).collect();
        TrafficChanges { node: self.clone(), every, before, total, looked: rt::now() }
    }
}

/// Looks at the traffic of a node, from [`NodeHandle::traffic`], which has an example.
#[must_use = "it looks when it is asked"]
pub struct TrafficChanges {
    node: NodeHandle,
    every: Duration,
    /// What each link had carried at the look before.
    before: BTreeMap<(u32, u64), TrafficCount>,
    total: TrafficCount,
    looked: Instant,
}

/// What the links of a node have carried between two looks; [`NodeHandle::traffic`] has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrafficChange {
    /// The time between the looks.
    pub over: Duration,
    /// What all links with other nodes have carried since the first look, those included that have ended since.
    pub total: TrafficCount,
    /// Each link that there is at the second look, with the messages and bytes since the first one, and the requests
    /// and messages that wait now.
    pub peers: Vec<PeerReport>,
}

impl TrafficChange {
    /// So many within the time between the looks are so many in a second: of bytes, the bandwidth that was used.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate of more than 2^53 is shown to people")]
    pub fn per_second(&self, count: u64) -> f64 {
        let seconds = self.over.as_secs_f64();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }
}

impl TrafficChanges {
    /// The next change, if it is time for a look.
    pub fn try_next(&mut self) -> Option<TrafficChange> {
        let now = rt::now();
        (now >= self.due()).then(|| self.look(now))
    }

    /// Waits for the next look, and returns what has changed since the one before.
    ///
    /// # Errors
    ///
    /// [`NodeError::NoEvent`] if it is not time for a look before the deadline, and at once in a handler, which may not
    /// wait. [`NodeError::NotMember`] if the node is no member any more.
    #[track_caller]
    pub fn wait_next(&mut self, deadline: impl Into<Deadline>) -> Result<TrafficChange, NodeError> {
        let _waits = self.node.waits("traffic", None);
        let (started, due) = (rt::now(), self.due());
        let until = deadline.into().until_from(started).map_or(due, |until| until.min(due));
        let mut fate = None;
        drive(self.node.watch(), Deadline::In(until - started), &mut || {
            fate = self.node.own_fate();
            fate.is_some() || rt::now() >= due
        });
        if let Some(fate) = fate {
            return Err(NodeError::NotMember { node: self.node.id(), fate });
        }
        self.try_next().ok_or_else(|| NodeError::NoEvent { waited: rt::now() - started })
    }

    fn due(&self) -> Instant {
        self.looked.checked_add(self.every).unwrap_or(Instant::from_nanos(u64::MAX))
    }

    fn look(&mut self, now: Instant) -> TrafficChange {
        let LinksLook { links, total } = self.node.watch().look_at_links();
        let total = total.since(std::mem::replace(&mut self.total, total));
        let before = std::mem::take(&mut self.before);
        let over = now - std::mem::replace(&mut self.looked, now);
        let change = |(key, mut peer): (_, PeerReport)| {
            let now = peer.count;
            self.before.insert(key, now);
            peer.count = now.since(before.get(&key).copied().unwrap_or_default());
            peer
        };
        TrafficChange { over, total, peers: links.into_iter().map(change).collect() }
    }
}

impl fmt::Debug for TrafficChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, every, .. } = self;
        f.debug_struct("TrafficChanges").field("node", node).field("every", every).finish()
    }
}
