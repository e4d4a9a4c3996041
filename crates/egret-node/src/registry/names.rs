//! Bound names, and waits for names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Included, Unbounded};

use egret_net::rt::Instant;

use super::fault::{Fault, planted};
use super::limits::{BOUND_MAX, FORMER_NAMES_MAX, NAMES_MAX, WAITS_MAX};
use super::state::Ticket;
use crate::pool::wire::{NAME_MAX, RegistryAnswer};
use crate::pool::{NodeId, RegistryRefusal};

/// Bound names, and waits for names.
#[derive(Debug)]
pub(crate) struct BoundNames<P> {
    pub(super) bound: BTreeMap<String, (NodeId, Vec<u8>)>,
    /// The last owner of each name that is not bound now.
    pub(super) last: BTreeMap<String, NodeId>,
    /// The order in which they lost it.
    lost: VecDeque<String>,
    pub(super) waits: BTreeMap<Ticket, NameWait<P>>,
}

#[derive(Debug)]
pub(super) struct NameWait<P> {
    from: P,
    name: String,
    until: Instant,
}

impl<P: Ord + Clone> BoundNames<P> {
    pub(super) const fn new() -> Self {
        Self {
            bound: BTreeMap::new(),
            last: BTreeMap::new(),
            lost: VecDeque::new(),
            waits: BTreeMap::new(),
        }
    }

    /// Binds a name; returns the answer to the request, and those to the waits for the name.
    pub(super) fn bind(
        &mut self,
        owner: NodeId,
        name: String,
        bytes: Vec<u8>,
        replace: bool,
    ) -> (RegistryAnswer, Vec<(Ticket, RegistryAnswer)>) {
        if let Err(why) = self.may_bind(owner, &name, &bytes, replace) {
            return (RegistryAnswer::Refused(why), Vec::new());
        }
        let told = self.waits_for(&name).into_iter().map(|ticket| {
            self.waits.remove(&ticket);
            (ticket, RegistryAnswer::Bound { owner, bytes: bytes.clone() })
        });
        let told = told.collect();
        self.last.remove(&name);
        self.bound.insert(name, (owner, bytes));
        (RegistryAnswer::Done, told)
    }

    fn may_bind(
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

    fn waits_for(&self, name: &str) -> Vec<Ticket> {
        let waits = self.waits.iter().filter(|(_, wait)| wait.name == name);
        waits.filter(|_| !planted(Fault::WaitForgotten)).map(|(ticket, _)| *ticket).collect()
    }

    /// Takes a name back, if the node owns it and it is still bound to these bytes.
    pub(super) fn unbind(&mut self, owner: NodeId, name: &str, bytes: &[u8]) -> RegistryAnswer {
        match self.bound.get(name) {
            Some((of, _)) if *of != owner => {
                RegistryAnswer::Refused(RegistryRefusal::NameTaken { owner: *of })
            }
            Some((_, bound)) if is_bound_to(bound, bytes) => {
                self.release(owner, name);
                RegistryAnswer::Done
            }
            _ => RegistryAnswer::NotBound,
        }
    }

    /// Takes a name back, whatever it is bound to, if the node owns it.
    pub(super) fn free(&mut self, owner: NodeId, name: &str) -> RegistryAnswer {
        match self.bound.get(name) {
            Some((of, _)) if *of != owner => {
                RegistryAnswer::Refused(RegistryRefusal::NameTaken { owner: *of })
            }
            Some(_) => {
                self.release(owner, name);
                RegistryAnswer::Done
            }
            None => RegistryAnswer::NotBound,
        }
    }

    fn release(&mut self, owner: NodeId, name: &str) {
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

    /// Looks a name up; no answer yet if the request waits for the name.
    pub(super) fn lookup(
        &mut self,
        from: &P,
        ticket: Ticket,
        name: &str,
        until: Option<Instant>,
    ) -> Option<RegistryAnswer> {
        if let Some((owner, bytes)) = self.bound.get(name) {
            return Some(RegistryAnswer::Bound { owner: *owner, bytes: bytes.clone() });
        }
        let Some(until) = until.filter(|_| name.len() <= NAME_MAX) else {
            return Some(self.not_bound(name));
        };
        let waits = self.waits.values().filter(|wait| wait.from == *from).count();
        if waits >= WAITS_MAX {
            let what = format!("the node waits for {waits} names");
            return Some(RegistryAnswer::Refused(RegistryRefusal::TooLarge {
                what,
                most: WAITS_MAX as u64,
            }));
        }
        self.waits.insert(ticket, NameWait { from: from.clone(), name: name.to_owned(), until });
        None
    }

    /// The answer for a name that is not bound, after its wait has ended.
    pub(super) fn not_bound(&self, name: &str) -> RegistryAnswer {
        self.last
            .get(name)
            .map_or(RegistryAnswer::NotBound, |owner| RegistryAnswer::Withdrawn { owner: *owner })
    }

    /// Removes the names of a node that is gone; returns the waits for one of them, with the name, if waiting is
    /// in vain.
    pub(super) fn forget(&mut self, owner: NodeId, is_in_vain: bool) -> Vec<(Ticket, String)> {
        let own = self.bound.iter().filter(|(_, (of, _))| *of == owner);
        let own: Vec<_> = own.map(|(name, _)| name.clone()).collect();
        self.bound.retain(|_, (of, _)| *of != owner);
        own.into_iter().for_each(|name| self.remember(name, owner));
        if !is_in_vain {
            return Vec::new();
        }
        let had = self.last.iter().filter(|(_, of)| **of == owner);
        let had: BTreeSet<String> = had.map(|(name, _)| name.clone()).collect();
        self.take_waits(|wait| had.contains(&wait.name))
    }

    /// A rank has another life, which may bind the names of the one before.
    pub(super) fn begin_anew(&mut self, rank: u32) {
        self.last.retain(|_, of| of.rank != rank);
    }

    /// Ends the waits of a link; returns them, with the names.
    pub(super) fn stop_waiting(&mut self, from: &P) -> Vec<(Ticket, String)> {
        self.take_waits(|wait| wait.from == *from)
    }

    /// Ends the waits whose time is over; returns them, with the names.
    pub(super) fn late(&mut self, now: Instant) -> Vec<(Ticket, String)> {
        self.take_waits(|wait| wait.until <= now)
    }

    fn take_waits(&mut self, which: impl Fn(&NameWait<P>) -> bool) -> Vec<(Ticket, String)> {
        let found = self.waits.iter().filter(|(_, wait)| which(wait));
        let tickets: Vec<Ticket> = found.map(|(ticket, _)| *ticket).collect();
        let take = |ticket| self.waits.remove(&ticket).map(|wait| (ticket, wait.name));
        tickets.into_iter().filter_map(take).collect()
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.waits.values().map(|wait| wait.until).min()
    }
}

/// Whether a name is still bound to the bytes that it is taken back with.
fn is_bound_to(bound: &[u8], bytes: &[u8]) -> bool {
    bound == bytes || planted(Fault::AnyUnbound)
}
