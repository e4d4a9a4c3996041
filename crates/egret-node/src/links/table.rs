//! The table of all links of a nic, and the table that says what each connection of it is for.

use std::collections::{BTreeMap, BTreeSet};

use egret_net::vi::{ViError, ViId};

use super::link_side::LinkSide;
use crate::am::MessageError;
use crate::link::LinkError;
use crate::slots::{SlotKey, SlotTable};

/// All links of a nic, those that have ended and are not forgotten included.
#[derive(Debug, Default)]
pub(crate) struct LinkTable {
    ends: SlotTable<LinkSide>,
    /// The link to use for each host; at most one.
    by_host: BTreeMap<String, SlotKey>,
    /// Links whose short frames wait for room.
    blocked: BTreeSet<SlotKey>,
    /// Links that are known to be broken, until all short frames that came before are handled.
    broken: BTreeSet<SlotKey>,
}

impl LinkTable {
    #[inline]
    pub(crate) fn get(&mut self, link: SlotKey) -> Option<&mut LinkSide> {
        self.ends.get(link)
    }

    /// A link that has not ended.
    ///
    /// # Errors
    ///
    /// Why the link ended.
    #[inline]
    pub(crate) fn live(&mut self, link: SlotKey) -> Result<&mut LinkSide, LinkError> {
        let Some(end) = self.ends.get(link) else { return Err(LinkError::Closed) };
        match &end.ended {
            None => Ok(end),
            Some(why) => Err(why.clone()),
        }
    }

    /// A link that has not ended, and has this mapping.
    ///
    /// # Errors
    ///
    /// Why the link ended, or that the mapping is given up.
    #[inline]
    pub(crate) fn live_mapping(
        &mut self,
        link: SlotKey,
        number: SlotKey,
    ) -> Result<&mut LinkSide, MessageError> {
        let end = self.live(link)?;
        match end.am.outgoing.get(number) {
            Some(_) => Ok(end),
            None => Err(MessageError::Unmapped),
        }
    }

    pub(super) fn insert(&mut self, end: LinkSide) -> SlotKey {
        self.ends.insert(end)
    }

    pub(super) fn remove(&mut self, link: SlotKey) -> Option<LinkSide> {
        self.ends.remove(link)
    }

    pub(crate) fn keys(&self) -> Vec<SlotKey> {
        self.ends.keys()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &LinkSide> {
        self.ends.values()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (SlotKey, &mut LinkSide)> {
        self.ends.iter_mut()
    }

    /// The link to use for a host.
    pub(crate) fn to_host(&self, host: &str) -> Option<SlotKey> {
        self.by_host.get(host).copied()
    }

    /// Uses a link for a host from now on.
    pub(super) fn use_for_host(&mut self, host: String, link: SlotKey) {
        self.by_host.insert(host, link);
    }

    /// Uses a link for its host no longer, if that is the one in use.
    pub(super) fn leave_host(&mut self, host: &str, link: SlotKey) {
        if self.to_host(host) == Some(link) {
            self.by_host.remove(host);
        }
    }

    /// How many hosts have a link.
    pub(super) fn hosts(&self) -> usize {
        self.by_host.len()
    }

    /// Sends what a link has room for. Whether more waits than an honest peer lets wait.
    #[inline]
    pub(super) fn pump(&mut self, link: SlotKey) -> bool {
        self.ends.get(link).is_some_and(|end| end.has_more()) && self.pump_more(link)
    }

    fn pump_more(&mut self, link: SlotKey) -> bool {
        let Some(end) = self.ends.get(link) else { return false };
        if end.pump() {
            self.blocked.insert(link);
        }
        let is_flooded = end.is_flooded();
        if !is_flooded && end.carrier.broken().is_some() {
            self.broken.insert(link);
        }
        is_flooded
    }

    /// Takes out the links whose short frames waited for room.
    #[inline]
    pub(super) fn take_blocked(&mut self) -> BTreeSet<SlotKey> {
        if self.blocked.is_empty() { BTreeSet::new() } else { std::mem::take(&mut self.blocked) }
    }

    /// Takes out the links that are known to be broken, with the reasons.
    #[inline]
    pub(super) fn take_broken(&mut self) -> Vec<(SlotKey, ViError)> {
        if self.broken.is_empty() {
            return Vec::new();
        }
        let broken = std::mem::take(&mut self.broken).into_iter();
        broken.filter_map(|link| Some((link, self.ends.get(link)?.carrier.broken()?))).collect()
    }
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionOwner {
    Link(SlotKey),
    Stranger(SlotKey),
    Path(SlotKey),
}

/// What each connection of a nic is for.
#[derive(Debug, Default)]
pub(crate) struct ConnectionOwners {
    owners: BTreeMap<ViId, ConnectionOwner>,
    /// The connection that was looked up last.
    last: Option<(ViId, ConnectionOwner)>,
}

impl ConnectionOwners {
    #[inline]
    pub(super) fn owner(&mut self, vi: ViId) -> Option<ConnectionOwner> {
        if let Some((last, owner)) = self.last
            && last == vi
        {
            return Some(owner);
        }
        let owner = self.owners.get(&vi).copied()?;
        self.last = Some((vi, owner));
        Some(owner)
    }

    pub(super) fn insert(&mut self, vi: ViId, owner: ConnectionOwner) {
        self.last = None;
        self.owners.insert(vi, owner);
    }

    pub(super) fn remove(&mut self, vi: ViId) {
        self.last = None;
        self.owners.remove(&vi);
    }
}
