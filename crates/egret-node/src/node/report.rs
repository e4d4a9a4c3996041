//! What a node reports of itself.

use std::collections::{BTreeMap, BTreeSet};

use egret_net::rt;
use egret_net::rt::waits::{self, WaitPeer, WaitRecord};

use super::NodeHandle;
use super::view::PoolWatch;
use crate::Links;
use crate::link::LinkCounters;
use crate::links::LinkTraffic;
use crate::pool::report::short;
use crate::pool::{JobProcess, NodeId, NodeReport, PeerReport, TrafficCount, WaitReport};

impl NodeHandle {
    /// What this node does, and what the threads of its process wait for on its links.
    #[must_use]
    pub fn report(&self) -> NodeReport {
        self.watch().report().unwrap_or_else(|| unreachable!("a node has joined"))
    }
}

/// What `egret run` has told this process.
fn job() -> Option<JobProcess> {
    let name = std::env::var(JOB).ok()?;
    Some(JobProcess { name, rank: std::env::var(JOB_RANK).ok()?.parse().ok()? })
}

/// The links of a node at one moment.
pub(super) struct LinksLook {
    /// Each link with the number of its nic's links and its own, by which it is known to the next look.
    pub(super) links: Vec<((u32, u64), PeerReport)>,
    /// The sums over the links with other nodes, ended ones included.
    pub(super) total: TrafficCount,
}

impl PoolWatch {
    /// The report of this node, if it has joined.
    pub(super) fn report(&self) -> Option<NodeReport> {
        let (node, location, members) = {
            let view = self.view.lock();
            let node = view.own()?;
            let location = view.state.member(node).map(|member| member.location.clone());
            (node, location.unwrap_or_default(), view.state.members().len())
        };
        let LinksLook { links, total } = self.look_at_links();
        let known = links.iter().filter_map(|(key, peer)| Some((*key, peer.node?)));
        let of_link: BTreeMap<_, _> = known.collect();
        let mut peers: Vec<_> = links.into_iter().map(|(_, peer)| peer).collect();
        peers.sort_by_key(|peer| std::cmp::Reverse(peer.count.messages()));
        let own: BTreeSet<_> = self.all_links().map(|(_, links)| links.core.number).collect();
        let waits = waits::all().into_iter().filter(|wait| own.contains(&wait.hint.links));
        let mut waits: Vec<_> = waits.map(|wait| shown(&wait, &of_link)).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.waited_ms));
        let awaited: BTreeSet<_> = waits.iter().filter_map(|wait| wait.node).collect();
        let report = NodeReport {
            node,
            process: std::process::id(),
            job: job(),
            location,
            members: short(members),
            made_ms: rt::now().as_nanos() / 1_000_000,
            total,
            peers,
            waits,
            awaited: awaited.into_iter().collect(),
            omitted_peers: 0,
            omitted_waits: 0,
        };
        Some(report.cut())
    }

    /// What the links of this node have carried.
    pub(super) fn look_at_links(&self) -> LinksLook {
        let at: BTreeMap<_, _> = {
            let view = self.view.lock();
            let members = view.state.members().values();
            let at = members.flat_map(|member| {
                let offers = member.fabrics.iter();
                offers.map(|offer| ((offer.fabric.clone(), offer.host.clone()), member.id))
            });
            at.collect()
        };
        let registry = self.registry_address();
        let (mut all, mut total) = (Vec::new(), TrafficCount::default());
        for (fabric, links) in self.all_links() {
            let (alive, ended) = links.traffic();
            if fabric != REGISTRY {
                total = total.with(count_of(&ended));
            }
            for link in alive {
                let LinkTraffic { key, host, counters, calls, queued, round_trip } = link;
                let waiting = |count| u64::try_from(count).unwrap_or(u64::MAX);
                let (calls, queued) = (waiting(calls), waiting(queued));
                let count = TrafficCount { calls, queued, ..count_of(&counters) };
                let is_registry = fabric == REGISTRY
                    || links.core.number == self.links.core.number && registry == Some(&*host);
                let fabric = if is_registry { REGISTRY } else { fabric };
                let node = at.get(&(fabric.to_owned(), host)).copied();
                if !is_registry {
                    total = total.with(count);
                }
                let fabric = fabric.to_owned();
                let peer = PeerReport { node, fabric, count, round_trip };
                all.push(((links.core.number, key), peer));
            }
        }
        LinksLook { links: all, total }
    }

    /// The links of each fabric by its name, and those to the registry, unless a fabric has them.
    fn all_links(&self) -> impl Iterator<Item = (&str, &Links)> {
        let own = self.links.core.number;
        let is_shared = self.fabrics().any(|(_, links)| links.core.number == own);
        let fabrics = self.fabrics().map(|(name, links)| (&**name, links));
        fabrics.chain((!is_shared).then_some((REGISTRY, &self.links)))
    }
}

fn count_of(counters: &LinkCounters) -> TrafficCount {
    TrafficCount {
        sent: counters.sent,
        received: counters.received,
        sent_bytes: counters.sent_bytes,
        received_bytes: counters.received_bytes,
        ..TrafficCount::default()
    }
}

/// A wait of a thread as people are shown it.
fn shown(wait: &WaitRecord, of_link: &BTreeMap<(u32, u64), NodeId>) -> WaitReport {
    let hint = &wait.hint;
    let node = match hint.peer {
        WaitPeer::Node(rank, incarnation) => Some(NodeId { rank, incarnation }),
        WaitPeer::Link(key) => of_link.get(&(hint.links, key)).copied(),
        WaitPeer::Any => None,
    };
    let text = |text: &str| text.chars().take(TEXT_MAX).collect();
    WaitReport {
        thread: text(&wait.thread),
        kind: hint.kind.to_owned(),
        object: text(&wait.object),
        node,
        at: text(&format!("{}:{}", hint.at.file(), hint.at.line())),
        waited_ms: u64::try_from((rt::now() - wait.since).as_millis()).unwrap_or(u64::MAX),
    }
}

/// Set by `egret run`.
const JOB: &str = "EGRET_JOB";
const JOB_RANK: &str = "EGRET_JOB_RANK";
/// What stands for the fabric of a link with the registry.
const REGISTRY: &str = "registry";
/// Characters of a text in a report.
const TEXT_MAX: usize = 96;
