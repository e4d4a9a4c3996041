//! What links hold.

use super::Links;
use super::state::LinksState;
use crate::am::BundleState;

/// What the links of a nic hold. Not for use but in tests.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinksAccount {
    /// Free bytes of the budget.
    pub free: u64,
    /// All bytes of the budget.
    pub budget: u64,
    /// Flows that hold bytes.
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
