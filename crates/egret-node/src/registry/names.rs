//! Names that are bound, and waits for names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};

use egret_net::rt::Instant;
use egret_stream::Wire;

use super::fault::{Fault, planted};
use super::limits::{BOUND_MAX, FORMER_NAMES_MAX, NAMES_MAX, WAITS_MAX};
use super::state::Ticket;
use crate::pool::wire::{NAME_MAX, RegistryAnswer};
use crate::pool::{NodeId, RegistryRefusal};

/// Names and their owners: what lasts of names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Wire)]
pub(super) struct KeptNames {
    pub(super) bound: BTreeMap<String, (NodeId, Vec<u8>)>,
    /// The last owner of each name that is not bound now.
    pub(super) last: BTreeMap<String, NodeId>,
    /// The order in which they lost it.
    lost: VecDeque<String>,
}

/// Waits for names.
#[derive(Debug)]
pub(super) struct NameWaits<P>(BTreeMap<Ticket, NameWait<P>>);

#[derive(Debug)]
struct NameWait<P> {
    from: P,
    name: String,
    until: Instant,
}

impl KeptNames {
    /// The owner of a name, if it is bound.
    pub(super) fn owner(&self, name: &str) -> Option<NodeId> {
        self.bound.get(name).map(|(owner, _)| *owner)
    }

    /// Binds a name.
    pub(super) fn bind(&mut self, owner: NodeId, name: String, bytes: Vec<u8>) {
        self.last.remove(&name);
        self.bound.insert(name, (owner, bytes));
    }

    /// Whether a node may bind a name to these bytes.
    pub(super) fn may_bind(
        &self,
        owner: NodeId,
        name: &str,
        bytes: &[u8],
        replace: bool,
    ) -> Result<(), RegistryRefusal> {
        let large = |what, most: usize| Err(RegistryRefusal::TooLarge { what, most: most as u64 });
        if name.len() > NAME_MAX {
            return large(format!("a name has {} bytes", name.len()), NAME_MAX);
        }
        if bytes.len() > BOUND_MAX {
            return large(format!("{name:?} stands for {} bytes", bytes.len()), BOUND_MAX);
        }
        match self.bound.get(name) {
            Some((other, _)) if !replace => Err(RegistryRefusal::NameTaken { owner: *other }),
            Some((other, _)) if *other == owner => Ok(()),
            _ => {
                let own = self.bound.values().filter(|(of, _)| *of == owner).count();
                if own < NAMES_MAX {
                    return Ok(());
                }
                large(format!("{owner} has bound {own} names"), NAMES_MAX)
            }
        }
    }

    /// Whether a node may take a name back now: the name is bound, and to these bytes if there are some.
    pub(super) fn may_unbind(
        &self,
        owner: NodeId,
        name: &str,
        bytes: Option<&[u8]>,
    ) -> Result<bool, RegistryRefusal> {
        match self.bound.get(name) {
            Some((of, _)) if *of != owner => Err(RegistryRefusal::NameTaken { owner: *of }),
            Some((_, bound)) => Ok(bytes.is_none_or(|bytes| is_bound_to(bound, bytes))),
            None => Ok(false),
        }
    }

    /// The owner of a name takes it back.
    pub(super) fn release(&mut self, owner: NodeId, name: &str) {
        self.bound.remove(name);
        let own = self.last.values().filter(|of| **of == owner).count();
        if own < NAMES_MAX {
            self.remember(name.to_owned(), owner);
        }
    }

    /// Notes the last owner of a name.
    fn remember(&mut self, name: String, owner: NodeId) {
        self.last.insert(name.clone(), owner);
        self.lost.push_back(name);
        if self.lost.len() > FORMER_NAMES_MAX
            && let Some(oldest) = self.lost.pop_front()
        {
            self.last.remove(&oldest);
        }
    }

    /// The bound names that begin so, behind this one: as many as an answer has.
    pub(super) fn list(&self, prefix: &str, after: Option<&str>) -> RegistryAnswer {
        let from = after.filter(|after| *after >= prefix).map_or(Included(prefix), Excluded);
        let all = self.bound.range::<str, _>((from, Unbounded));
        let mut all = all.take_while(|(name, _)| name.starts_with(prefix)).peekable();
        let (mut names, mut bytes) = (Vec::new(), 0);
        while let Some((name, (owner, _))) = all.next_if(|_| bytes < BOUND_MAX) {
            bytes += name.len() + size_of::<NodeId>();
            names.push((name.clone(), *owner));
        }
        RegistryAnswer::Names { names, more: all.peek().is_some() }
    }

    /// The answer for a name that is not bound, after its wait has ended.
    pub(super) fn not_bound(&self, name: &str) -> RegistryAnswer {
        self.last
            .get(name)
            .map_or(RegistryAnswer::NotBound, |owner| RegistryAnswer::Withdrawn { owner: *owner })
    }

    /// The names that a node has bound.
    pub(super) fn of(&self, owner: NodeId) -> impl Iterator<Item = &String> {
        self.bound.iter().filter(move |(_, (of, _))| *of == owner).map(|(name, _)| name)
    }

    /// Removes the names of a node that is gone.
    pub(super) fn forget(&mut self, owner: NodeId) {
        let own: Vec<_> = self.of(owner).cloned().collect();
        self.bound.retain(|_, (of, _)| *of != owner);
        own.into_iter().for_each(|name| self.remember(name, owner));
    }

    /// The names that are not bound, and were this node's before.
    pub(super) fn had(&self, owner: NodeId) -> BTreeSet<String> {
        let had = self.last.iter().filter(|(_, of)| **of == owner);
        had.map(|(name, _)| name.clone()).collect()
    }

    /// A rank has another life, which may bind the names of the one before.
    pub(super) fn begin_anew(&mut self, rank: u32) {
        self.last.retain(|_, of| of.rank != rank);
    }
}

impl<P: Ord + Clone> NameWaits<P> {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Waits until a name is bound.
    ///
    /// # Errors
    ///
    /// If the node waits for as many names as it may.
    pub(super) fn wait(
        &mut self,
        from: &P,
        ticket: Ticket,
        name: &str,
        until: Instant,
    ) -> Result<(), RegistryRefusal> {
        let waits = self.0.values().filter(|wait| wait.from == *from).count();
        if waits >= WAITS_MAX {
            let what = format!("the node waits for {waits} names");
            return Err(RegistryRefusal::TooLarge { what, most: WAITS_MAX as u64 });
        }
        self.0.insert(ticket, NameWait { from: from.clone(), name: name.to_owned(), until });
        Ok(())
    }

    /// Ends the waits for a name that is bound; returns them.
    pub(super) fn take_for(&mut self, name: &str) -> Vec<(Ticket, String)> {
        self.take(|wait| wait.name == name && !planted(Fault::WaitForgotten))
    }

    /// Ends the waits for these names; returns them, with the names.
    pub(super) fn take_in_vain(&mut self, names: &BTreeSet<String>) -> Vec<(Ticket, String)> {
        self.take(|wait| names.contains(&wait.name))
    }

    /// Ends the waits of a link; returns them, with the names.
    pub(super) fn stop_waiting(&mut self, from: &P) -> Vec<(Ticket, String)> {
        self.take(|wait| wait.from == *from)
    }

    /// Ends the waits whose time is over; returns them, with the names.
    pub(super) fn late(&mut self, now: Instant) -> Vec<(Ticket, String)> {
        self.take(|wait| wait.until <= now)
    }

    fn take(&mut self, which: impl Fn(&NameWait<P>) -> bool) -> Vec<(Ticket, String)> {
        let found = self.0.iter().filter(|(_, wait)| which(wait));
        let tickets: Vec<Ticket> = found.map(|(ticket, _)| *ticket).collect();
        let take = |ticket| self.0.remove(&ticket).map(|wait| (ticket, wait.name));
        tickets.into_iter().filter_map(take).collect()
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.0.values().map(|wait| wait.until).min()
    }
}

/// Whether a name is still bound to the bytes that it is taken back with.
fn is_bound_to(bound: &[u8], bytes: &[u8]) -> bool {
    bound == bytes || planted(Fault::AnyUnbound)
}
