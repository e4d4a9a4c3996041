//! Names that are bound, and waits for names.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};

use egret_net::rt::Instant;
use egret_stream::Wire;

use super::fault::{Fault, planted};
use super::limits::{
    BOUND_MAX, FORMER_NAMES_MAX, NAME_BYTES_LEAST, NAME_BYTES_MAX, NAME_COST, NAMES_MAX, WAITS_MAX,
};
use super::state::Ticket;
use crate::pool::wire::{NAME_MAX, RegistryAnswer};
use crate::pool::{NodeId, RegistryRefusal};

/// Names and their owners: what lasts of names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Wire)]
pub(super) struct KeptNames {
    pub(super) bound: BTreeMap<String, (NodeId, Vec<u8>)>,
    /// The last owner of each name that is not bound now, and the number of its loss.
    pub(super) last: BTreeMap<String, (NodeId, u64)>,
    /// These names by that number.
    lost: BTreeMap<u64, String>,
    /// How often names were lost.
    losses: u64,
    /// What the names of each node take.
    of_nodes: BTreeMap<NodeId, NamesTaken>,
    /// What all names take.
    of_all: NamesTaken,
}

/// How many names are bound, the bytes that they take, and how many were bound before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Wire)]
struct NamesTaken {
    names: usize,
    bytes: usize,
    former: usize,
}

/// Waits for names.
#[derive(Debug)]
pub(super) struct NameWaits<P> {
    all: BTreeMap<Ticket, NameWait<P>>,
    /// When the time of each is over.
    ends: BTreeSet<(Instant, Ticket)>,
}

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
        self.drop_former(&name);
        self.drop_bound(&name);
        let takes = taken_by(&name, &bytes);
        for taken in [self.of_nodes.entry(owner).or_default(), &mut self.of_all] {
            (taken.names, taken.bytes) = (taken.names + 1, taken.bytes + takes);
        }
        self.bound.insert(name, (owner, bytes));
    }

    /// A name is not bound any more.
    fn drop_bound(&mut self, name: &str) {
        let Some((owner, bytes)) = self.bound.remove(name) else { return };
        let takes = taken_by(name, &bytes);
        for taken in self.of_nodes.get_mut(&owner).into_iter().chain([&mut self.of_all]) {
            (taken.names, taken.bytes) = (taken.names - 1, taken.bytes - takes);
        }
        self.drop_unused(owner);
    }

    /// The last owner of a name is not known any more.
    fn drop_former(&mut self, name: &str) {
        let Some((owner, number)) = self.last.remove(name) else { return };
        self.lost.remove(&number);
        if let Some(taken) = self.of_nodes.get_mut(&owner) {
            taken.former -= 1;
        }
        self.drop_unused(owner);
    }

    fn drop_unused(&mut self, owner: NodeId) {
        if self.of_nodes.get(&owner) == Some(&NamesTaken::default()) {
            self.of_nodes.remove(&owner);
        }
    }

    /// The last owner of a name that is not bound, if it is known.
    pub(super) fn last_owner(&self, name: &str) -> Option<NodeId> {
        self.last.get(name).map(|(owner, _)| *owner)
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
        let before = self.bound.get(name);
        if let Some((other, _)) = before.filter(|_| !replace) {
            return Err(RegistryRefusal::NameTaken { owner: *other });
        }
        // The bytes that the name is bound to now are given back.
        let freed = before.map_or(0, |(_, bytes)| taken_by(name, bytes));
        let is_own = before.is_some_and(|(other, _)| *other == owner);
        let own = self.of_nodes.get(&owner).copied().unwrap_or_default();
        if own.names >= NAMES_MAX && !is_own {
            return large(format!("{owner} has bound {} names", own.names), NAMES_MAX);
        }
        let takes = taken_by(name, bytes);
        let own_bytes = own.bytes + takes - if is_own { freed } else { 0 };
        let all_bytes = self.of_all.bytes + takes - freed;
        if own_bytes > NAME_BYTES_LEAST
            && all_bytes > NAME_BYTES_MAX
            && !planted(Fault::NamesUnlimited)
        {
            let what = format!(
                "the names of {owner} would take {own_bytes} bytes, of which {NAME_BYTES_LEAST} are free to each \
                 node, and those of all nodes {all_bytes}"
            );
            return large(what, NAME_BYTES_MAX);
        }
        Ok(())
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
        self.drop_bound(name);
        let own = self.of_nodes.get(&owner).map_or(0, |taken| taken.former);
        if own < NAMES_MAX {
            self.remember(name.to_owned(), owner);
        }
    }

    /// Notes the last owner of a name.
    fn remember(&mut self, name: String, owner: NodeId) {
        self.losses += 1;
        self.last.insert(name.clone(), (owner, self.losses));
        self.lost.insert(self.losses, name);
        self.of_nodes.entry(owner).or_default().former += 1;
        if self.lost.len() > FORMER_NAMES_MAX
            && let Some((_, oldest)) = self.lost.pop_first()
        {
            self.drop_former(&oldest);
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
        let owner = self.last_owner(name);
        owner.map_or(RegistryAnswer::NotBound, |owner| RegistryAnswer::Withdrawn { owner })
    }

    /// The names that a node has bound.
    pub(super) fn of(&self, owner: NodeId) -> impl Iterator<Item = &String> {
        self.bound.iter().filter(move |(_, (of, _))| *of == owner).map(|(name, _)| name)
    }

    /// Removes the names of a node that is gone.
    pub(super) fn forget(&mut self, owner: NodeId) {
        let own: Vec<_> = self.of(owner).cloned().collect();
        for name in own {
            self.drop_bound(&name);
            self.remember(name, owner);
        }
    }

    /// The names that are not bound, and were this node's before.
    pub(super) fn had(&self, owner: NodeId) -> BTreeSet<String> {
        let had = self.last.iter().filter(|(_, (of, _))| *of == owner);
        had.map(|(name, _)| name.clone()).collect()
    }

    /// A rank has another life, which may bind the names of the one before.
    pub(super) fn begin_anew(&mut self, rank: u32) {
        let of_rank = self.last.iter().filter(|(_, (of, _))| of.rank == rank);
        let names: Vec<_> = of_rank.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.drop_former(name));
    }
}

impl<P: Ord + Clone> NameWaits<P> {
    pub(super) const fn new() -> Self {
        Self { all: BTreeMap::new(), ends: BTreeSet::new() }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn len(&self) -> usize {
        self.all.len()
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
        let waits = self.all.values().filter(|wait| wait.from == *from).count();
        if waits >= WAITS_MAX {
            let what = format!("the node waits for {waits} names");
            return Err(RegistryRefusal::TooLarge { what, most: WAITS_MAX as u64 });
        }
        self.all.insert(ticket, NameWait { from: from.clone(), name: name.to_owned(), until });
        self.ends.insert((until, ticket));
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
        let late = self.ends.iter().take_while(|(until, _)| *until <= now);
        let tickets: Vec<Ticket> = late.map(|(_, ticket)| *ticket).collect();
        tickets.into_iter().filter_map(|ticket| self.remove(ticket)).collect()
    }

    fn take(&mut self, which: impl Fn(&NameWait<P>) -> bool) -> Vec<(Ticket, String)> {
        let found = self.all.iter().filter(|(_, wait)| which(wait));
        let tickets: Vec<Ticket> = found.map(|(ticket, _)| *ticket).collect();
        tickets.into_iter().filter_map(|ticket| self.remove(ticket)).collect()
    }

    fn remove(&mut self, ticket: Ticket) -> Option<(Ticket, String)> {
        let wait = self.all.remove(&ticket)?;
        self.ends.remove(&(wait.until, ticket));
        Some((ticket, wait.name))
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.ends.first().map(|(until, _)| *until)
    }
}

/// The bytes that a bound name takes.
const fn taken_by(name: &str, bytes: &[u8]) -> usize {
    name.len() + bytes.len() + NAME_COST
}

/// Whether a name is still bound to the bytes that it is taken back with.
fn is_bound_to(bound: &[u8], bytes: &[u8]) -> bool {
    bound == bytes || planted(Fault::AnyUnbound)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    pub(in crate::registry) fn names_of_all_have_a_limit_and_each_node_has_its_share() {
        let (mut names, bytes) = (KeptNames::default(), vec![0; BOUND_MAX]);
        let node = |rank| NodeId { rank, incarnation: 1 };
        let is_full = |names: &KeptNames, owner, name: &str| {
            let bound = names.may_bind(owner, name, &bytes, false);
            matches!(bound, Err(RegistryRefusal::TooLarge { most, .. }) if most == NAME_BYTES_MAX as u64)
        };
        for rank in 0..20 {
            for at in 0..NAMES_MAX {
                let name = format!("{rank} {at}");
                if is_full(&names, node(rank), &name) {
                    break;
                }
                names.bind(node(rank), name, bytes.clone());
            }
        }
        assert!(names.of_all.bytes > NAME_BYTES_MAX - (8 << 10));
        assert!(names.of_all.bytes < NAME_BYTES_MAX + 20 * NAME_BYTES_LEAST);
        // A node that has bound nothing has room all the same, and a name may have other bytes.
        let own: Vec<_> = (0..5).map(|at| format!("last {at}")).collect();
        for name in &own {
            assert!(!is_full(&names, node(30), name));
            names.bind(node(30), name.clone(), bytes.clone());
        }
        assert!(is_full(&names, node(30), "one more"));
        assert_eq!(names.may_bind(node(30), &own[0], &bytes, true), Ok(()));
        // What is given back can be had again.
        (0..20).for_each(|rank| names.forget(node(rank)));
        assert!(!is_full(&names, node(30), "one more"));
        own.iter().for_each(|name| names.release(node(30), name));
        assert_eq!(names.of_all, NamesTaken::default());
        for name in own {
            names.bind(node(31), name.clone(), Vec::new());
            names.drop_bound(&name);
        }
        assert!(!names.of_nodes.contains_key(&node(30)) && !names.of_nodes.contains_key(&node(31)));
    }

    /// A node that binds and frees one name for ever has the others' former names forgotten no sooner.
    #[test]
    fn names_that_are_bound_again_take_no_place_among_the_former_ones() {
        let mut names = KeptNames::default();
        let node = |rank| NodeId { rank, incarnation: 1 };
        names.bind(node(1), "first".into(), Vec::new());
        names.forget(node(1));
        for _ in 0..=FORMER_NAMES_MAX {
            names.bind(node(2), "again".into(), Vec::new());
            names.release(node(2), "again");
        }
        assert_eq!(names.last_owner("first"), Some(node(1)));
        assert_eq!((names.lost.len(), names.last.len()), (2, 2));
        for (at, rank) in (0..FORMER_NAMES_MAX).zip(3..) {
            let name = format!("name {at}");
            names.bind(node(rank), name.clone(), Vec::new());
            names.release(node(rank), &name);
        }
        assert_eq!((names.last_owner("first"), names.last.len()), (None, FORMER_NAMES_MAX));
        assert_eq!(names.of_nodes.len(), FORMER_NAMES_MAX);
    }
}
