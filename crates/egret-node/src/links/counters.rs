//! Counters of links, and what links hold.

use super::Links;
use super::state::LinksState;
use crate::am::BundleState;

/// Counters of the links of a nic, from [`Links::counters`], since the links were opened.
///
/// [`Links`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LinkCounters {
    /// Links that were made, by this side or by peers.
    pub made: u64,
    /// Links that ended, for whatever reason.
    pub ended: u64,
    /// Links that ended because the peer broke the protocol.
    pub cut_off: u64,
    /// Connections that were refused a link: without a valid hello, without permission, or too many.
    pub turned_away: u64,
    /// Messages that the connections of links have sent.
    pub sent: u64,
    /// Messages that they have received.
    pub received: u64,
    /// Messages of [paths](crate::Path) whose handlers have run.
    pub path_received: u64,
    /// Messages of paths that arrived and were dropped: the port has no handler, too many wait, or they
    /// were duplicates, damaged or too late.
    pub path_dropped: u64,
}

/// What the links of a nic hold. Not for use but in tests.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinksAccount {
    /// Bytes of the budget that nobody holds.
    pub free: u64,
    /// All of them.
    pub budget: u64,
    /// Who holds some.
    pub flows: u64,
    /// Links that live.
    pub links: usize,
    /// Links that are dead and not forgotten.
    pub dead: usize,
    /// Mappings of endpoints here to remote ones.
    pub outgoing: usize,
    /// Mappings of remote ones to endpoints here.
    pub incoming: usize,
    /// Requests that are not done.
    pub calls: usize,
    /// Messages that wait for a handler.
    pub upcalls: usize,
    /// Messages that wait for an endpoint to be moved.
    pub parked: usize,
    /// Frames that wait to be sent.
    pub unsent: usize,
    /// Connections that have not said what they are for.
    pub strangers: usize,
    /// Bytes of buffers that are out.
    pub out_bytes: usize,
    /// Alarms that are set.
    pub alarms: usize,
    /// Paths, of either side.
    pub paths: usize,
}

impl LinksAccount {
    /// Whether nothing is under way, and nothing mapped.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let quiet = Self { budget: self.budget, free: self.budget, ..Self::default() };
        *self == Self { links: self.links, strangers: self.strangers, ..quiet }
    }
}

impl Links {
    /// What they hold.
    #[doc(hidden)]
    #[must_use]
    pub fn account(&self) -> LinksAccount {
        self.core.state.with(LinksState::account)
    }
}

impl LinksState {
    pub(crate) fn account(&mut self) -> LinksAccount {
        let mut account = LinksAccount {
            free: self.inflows.budget.free(),
            budget: self.inflows.budget.terms().bytes,
            flows: self.inflows.budget.flows(),
            upcalls: self.upcalls.len()
                + self.bundles.values().map(BundleState::waiting).sum::<usize>(),
            strangers: self.opening.strangers(),
            out_bytes: self.fixed.depot.stats().out_bytes,
            alarms: self.alarms.len(),
            paths: self.paths.len(),
            ..LinksAccount::default()
        };
        for endpoint in self.endpoints.values() {
            account.parked += endpoint.parked.as_ref().map_or(0, |parked| parked.len());
        }
        for (_, line) in self.links.iter_mut() {
            let am = &line.am;
            account.links += usize::from(line.ended.is_none());
            account.dead += usize::from(line.ended.is_some());
            account.outgoing += am.outgoing.len();
            account.incoming += am.incoming.len();
            account.calls += am.calls.len();
            account.unsent += usize::from(!line.is_idle());
            account.unsent += usize::from(!line.carrier.is_quiet());
        }
        account
    }
}
