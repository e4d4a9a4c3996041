//! What the links of a nic carry, link by link.

use std::time::Duration;

use super::Links;
use crate::link::LinkCounters;

/// The traffic of one link.
pub(crate) struct LinkTraffic {
    /// The number of the link, which waits for its peer have, too.
    pub(crate) key: u64,
    pub(crate) host: String,
    pub(crate) counters: LinkCounters,
    /// Requests whose answers have not come.
    pub(crate) calls: usize,
    /// Frames that wait to be sent.
    pub(crate) queued: usize,
    /// The time from a request to its answer, if there was one.
    pub(crate) round_trip: Option<Duration>,
}

impl Links {
    /// The traffic of all links that live, and of those that have ended all counters.
    pub(crate) fn traffic(&self) -> (Vec<LinkTraffic>, LinkCounters) {
        self.core.state.with(|state| {
            let ended = state.counters;
            let alive = state.links.iter_mut().filter(|(_, line)| line.ended.is_none());
            let traffic = alive.map(|(key, line)| {
                let mut counters = LinkCounters::default();
                line.carrier.count(&mut counters);
                LinkTraffic {
                    key: key.to_bits(),
                    host: line.peer.clone(),
                    counters,
                    calls: line.am.calls.len(),
                    queued: line.outbox.iter().map(std::collections::VecDeque::len).sum(),
                    round_trip: line.am.trips.look(),
                }
            });
            (traffic.collect(), ended)
        })
    }
}
