//! What a node reports of itself.

use std::collections::{BTreeMap, BTreeSet};

use egret_net::rt;
use egret_net::rt::waits::{self, WaitPeer, WaitRecord};

use super::NodeHandle;
use super::view::PoolWatch;
use crate::Links;
use crate::pool::report::short;
use crate::pool::{NodeId, NodeReport, PeerReport, WaitReport};

impl NodeHandle {
    /// What this node does, and what the threads of its process wait for on its links.
    #[must_use]
    pub fn report(&self) -> NodeReport {
        self.watch().report().unwrap_or_else(|| unreachable!("a node has joined"))
    }
}

impl PoolWatch {
    /// The report of this node, if it has joined.
    pub(super) fn report(&self) -> Option<NodeReport> {
        let all: Vec<_> = self.fabrics().cloned().collect();
        let (node, location, members, at) = {
            let view = self.view.lock();
            let node = view.own()?;
            let here = view.state.members();
            let at = here.values().flat_map(|member| {
                let offers = member.fabrics.iter();
                offers.map(|offer| ((offer.fabric.clone(), offer.host.clone()), member.id))
            });
            let at: BTreeMap<_, _> = at.collect();
            let location = view.state.member(node).map(|member| member.location.clone());
            (node, location.unwrap_or_default(), here.len(), at)
        };
        let (mut peers, mut of_link) = (Vec::new(), BTreeMap::new());
        let of_registry = (REGISTRY.to_owned(), self.links.clone());
        for (fabric, links) in all.iter().chain([&of_registry]) {
            for link in links.traffic() {
                let node = at.get(&(fabric.clone(), link.host)).copied();
                if let (Some(node), WaitPeer::Link(key)) = (node, link.peer) {
                    of_link.insert((links.core.number, key), node);
                }
                peers.push(PeerReport {
                    node,
                    fabric: fabric.clone(),
                    sent: link.counters.sent,
                    received: link.counters.received,
                    calls: short(link.calls),
                    queued: short(link.queued),
                });
            }
        }
        peers.sort_by_key(|peer| std::cmp::Reverse(peer.sent + peer.received));
        let own: BTreeSet<_> = self.links_of(&all).map(|links| links.core.number).collect();
        let waits = waits::all().into_iter().filter(|wait| own.contains(&wait.hint.links));
        let mut waits: Vec<_> = waits.map(|wait| shown(&wait, &of_link)).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.waited_ms));
        let process = std::process::id();
        let report = NodeReport {
            node,
            process,
            location,
            members: short(members),
            peers,
            waits,
            omitted: 0,
        };
        Some(report.cut())
    }

    fn links_of<'a>(&'a self, fabrics: &'a [(String, Links)]) -> impl Iterator<Item = &'a Links> {
        fabrics.iter().map(|(_, links)| links).chain([&self.links])
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

/// What stands for the fabric of a link with the registry.
const REGISTRY: &str = "registry";
/// Characters of a text in a report.
const TEXT_MAX: usize = 96;
