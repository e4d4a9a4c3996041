//! What follows from the members and the views of now, kept so that no question walks all of them.

use std::collections::BTreeMap;

use super::limits;
use crate::pool::state::PoolState;
use crate::pool::wire::LogEntry;
use crate::pool::{Member, NodeId};

/// Hosts, bytes and views of the members.
#[derive(Debug, Default)]
pub(super) struct MemberIndex {
    /// The member at each host of a fabric: there is one.
    hosts: BTreeMap<(String, String), NodeId>,
    /// Bytes of what all members say of themselves.
    described: usize,
    /// How many views each member is in that is in one.
    views: BTreeMap<NodeId, usize>,
    /// How many members all views have together.
    entered: usize,
}

impl MemberIndex {
    /// Of a pool.
    pub(super) fn of(pool: &PoolState) -> Self {
        let mut index = Self::default();
        pool.members().values().for_each(|member| index.join(member));
        pool.views().flat_map(|view| &view.members).for_each(|node| index.enter(*node));
        index
    }

    /// Takes note of the entry that comes next in the log of the pool.
    pub(super) fn note(&mut self, entry: &LogEntry, pool: &PoolState) {
        match entry {
            LogEntry::Joined(member) => self.join(member),
            LogEntry::Left(node) | LogEntry::Died { node, .. } => {
                if let Some(member) = pool.member(*node) {
                    self.end(member);
                }
            }
            LogEntry::Entered { node, .. } => self.enter(*node),
            LogEntry::Exited { node, .. } => self.exit(*node),
            LogEntry::Signal { .. } | LogEntry::Closed { .. } | LogEntry::Terminated { .. } => {}
        }
    }

    /// The member at a host of a fabric.
    pub(super) fn node_at(&self, fabric: &str, host: &str) -> Option<NodeId> {
        self.hosts.get(&(fabric.to_owned(), host.to_owned())).copied()
    }

    /// Bytes of what all members say of themselves.
    pub(super) const fn described(&self) -> usize {
        self.described
    }

    /// How many views a member is in.
    pub(super) fn views_of(&self, node: NodeId) -> usize {
        self.views.get(&node).copied().unwrap_or_default()
    }

    /// How many members all views have together.
    pub(super) const fn entered(&self) -> usize {
        self.entered
    }

    fn join(&mut self, member: &Member) {
        self.hosts.extend(hosts_of(member).map(|host| (host, member.id)));
        self.described += described(member);
    }

    fn end(&mut self, member: &Member) {
        self.described -= described(member);
        for host in hosts_of(member) {
            if self.hosts.get(&host) == Some(&member.id) {
                self.hosts.remove(&host);
            }
        }
        self.entered -= self.views.remove(&member.id).unwrap_or_default();
    }

    fn enter(&mut self, node: NodeId) {
        *self.views.entry(node).or_default() += 1;
        self.entered += 1;
    }

    fn exit(&mut self, node: NodeId) {
        let Some(views) = self.views.get_mut(&node) else { return };
        *views -= 1;
        if *views == 0 {
            self.views.remove(&node);
        }
        self.entered -= 1;
    }
}

fn hosts_of(member: &Member) -> impl Iterator<Item = (String, String)> {
    member.fabrics.iter().map(|offer| (offer.fabric.clone(), offer.host.clone()))
}

fn described(member: &Member) -> usize {
    limits::description(&member.machine, &member.location, &member.fabrics)
}
