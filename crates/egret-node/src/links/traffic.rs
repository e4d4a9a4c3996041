//! What the links of a nic carry, link by link.

use egret_net::rt::waits::WaitPeer;

use super::Links;
use crate::link::LinkCounters;

/// The traffic of one link.
pub(crate) struct LinkTraffic {
    /// The number that waits for this peer have.
    pub(crate) peer: WaitPeer,
    pub(crate) host: String,
    pub(crate) counters: LinkCounters,
    /// Requests whose answers have not come.
    pub(crate) calls: usize,
    /// Frames that wait to be sent.
    pub(crate) queued: usize,
}

impl Links {
    /// The traffic of all links that live.
    pub(crate) fn traffic(&self) -> Vec<LinkTraffic> {
        self.core.state.with(|state| {
            let alive = state.links.iter_mut().filter(|(_, line)| line.ended.is_none());
            let traffic = alive.map(|(key, line)| {
                let mut counters = LinkCounters::default();
                line.carrier.count(&mut counters);
                LinkTraffic {
                    peer: WaitPeer::Link(key.to_bits()),
                    host: line.peer.clone(),
                    counters,
                    calls: line.am.calls.len(),
                    queued: line.outbox.iter().map(std::collections::VecDeque::len).sum(),
                }
            });
            traffic.collect()
        })
    }
}
