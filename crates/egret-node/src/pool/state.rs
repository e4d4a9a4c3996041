//! The state of a pool after some entries of its log: the same at the registry and at all members.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use egret_stream::{Reader, Wire};

use super::wire::{LogEntry, SIZE_MAX, bytes_of};
use super::{Departure, Event, Member, NodeId, View};

/// Members, ended lives, and views, after all entries of the log below [`next`](Self::next).
#[derive(Debug, Clone, Default, PartialEq, Eq, Wire)]
pub(crate) struct PoolState {
    /// The size of a closed pool; `None` for an open one.
    size: Option<u32>,
    next: u64,
    /// By rank: in an open pool that is the order in which they have joined.
    members: BTreeMap<u32, Member>,
    /// How nodes ended, of as many as [`ended_max`](Self::ended_max) says.
    ended: BTreeMap<NodeId, Departure>,
    /// Their order.
    ended_in_order: VecDeque<NodeId>,
    /// How many ranks of a closed pool have had a life, or a process that ended before it joined.
    seen: u32,
    /// The incarnation of the life that began last.
    incarnation: u64,
    views: BTreeMap<String, View>,
    /// The node that has closed the pool.
    closed_by: Option<NodeId>,
    /// The node that has terminated it.
    terminated_by: Option<NodeId>,
}

impl PoolState {
    /// The state as it is sent.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        bytes_of(self)
    }

    /// A state that was sent, if it is [sound](Self::is_sound).
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let state: Self = Reader::new(bytes).read_last().ok()?;
        state.is_sound().then_some(state)
    }

    /// Before the first entry of a pool of this size, or of an open one.
    pub(crate) fn of_size(size: Option<u32>) -> Self {
        Self { size, ..Self::default() }
    }

    /// The number of the entry that comes next.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    pub(crate) const fn size(&self) -> Option<u32> {
        self.size
    }

    /// The members, by rank.
    pub(crate) const fn members(&self) -> &BTreeMap<u32, Member> {
        &self.members
    }

    /// The node as a member.
    pub(crate) fn member(&self, node: NodeId) -> Option<&Member> {
        self.members.get(&node.rank).filter(|member| member.id == node)
    }

    /// The incarnation of the life that began last.
    pub(crate) const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(crate) fn view(&self, name: &str) -> Option<&View> {
        self.views.get(name)
    }

    pub(crate) fn views(&self) -> impl Iterator<Item = &View> {
        self.views.values()
    }

    pub(crate) const fn closed_by(&self) -> Option<NodeId> {
        self.closed_by
    }

    pub(crate) const fn terminated_by(&self) -> Option<NodeId> {
        self.terminated_by
    }

    /// How a node came to be no member any more. Of those that ended long ago, that is not known.
    pub(crate) fn fate(&self, node: NodeId) -> Option<Departure> {
        if self.member(node).is_some() {
            return None;
        }
        let is_old = (1..=self.incarnation).contains(&node.incarnation);
        let forgotten = || Departure::Died { why: FORGOTTEN.to_owned() };
        self.ended.get(&node).cloned().or_else(|| is_old.then(forgotten))
    }

    /// The last life of a rank, and how it ended if it is over.
    pub(crate) fn last(&self, rank: u32) -> Option<(NodeId, Option<&Departure>)> {
        if let Some(member) = self.members.get(&rank) {
            return Some((member.id, None));
        }
        let all = NodeId { rank, incarnation: 0 }..=NodeId { rank, incarnation: u64::MAX };
        self.ended.range(all).next_back().map(|(node, fate)| (*node, Some(fate)))
    }

    /// How many ended lives are known.
    #[cfg(test)]
    pub(crate) fn ended(&self) -> usize {
        assert_eq!(self.ended.len(), self.ended_in_order.len());
        self.ended.len()
    }

    /// Whether all ranks of a closed pool have had a life, or a process that ended before it joined.
    pub(crate) fn is_complete(&self) -> bool {
        self.size == Some(self.seen)
    }

    /// What a node receives that is too far behind for the entries. How nodes have ended is in it for the
    /// latest, and for the last life of each rank of a closed pool.
    pub(crate) fn snapshot(&self) -> Self {
        let old = self.ended_in_order.len().saturating_sub(ENDED_SENT);
        let ended = self.ended_in_order.iter().enumerate();
        let ended = ended.filter(|(at, node)| *at >= old || self.is_last_of_rank(**node));
        let ended_in_order: VecDeque<NodeId> = ended.map(|(_, node)| *node).collect();
        let ended = ended_in_order.iter().map(|node| (*node, self.ended[node].clone())).collect();
        let (members, views) = (self.members.clone(), self.views.clone());
        Self { ended, ended_in_order, members, views, ..*self }
    }

    /// Whether a registry may send this: a node believes no other state.
    pub(crate) fn is_sound(&self) -> bool {
        let size = self.size.unwrap_or(u32::MAX);
        let is_member = |(rank, member): (&u32, &Member)| {
            let NodeId { rank: own, incarnation } = member.id;
            own == *rank && own < size && (1..=self.incarnation).contains(&incarnation)
        };
        let is_view = |view: &View| {
            view.first_since <= view.epoch
                && view.epoch <= self.next
                && view.members.iter().all(|node| self.member(*node).is_some())
        };
        self.next < u64::MAX / 2
            && self.incarnation < u64::MAX / 2
            && self.seen <= size
            && self.members.len() <= SIZE_MAX as usize
            && self.members.iter().all(is_member)
            && self.views.values().all(is_view)
            && self.ended.len() == self.ended_in_order.len()
            && self.ended_in_order.iter().collect::<BTreeSet<_>>().into_iter().eq(self.ended.keys())
            && self.ended.len() <= self.ended_max()
    }

    /// Whether this entry can come next.
    pub(crate) fn allows(&self, entry: &LogEntry) -> bool {
        match entry {
            LogEntry::Joined(member) => {
                let NodeId { rank, incarnation } = member.id;
                self.size.is_none_or(|size| rank < size)
                    && !self.members.contains_key(&rank)
                    && self.members.len() < SIZE_MAX as usize
                    && (self.incarnation + 1..u64::MAX / 2).contains(&incarnation)
            }
            LogEntry::Left(node) => self.member(*node).is_some(),
            LogEntry::Died { node, .. } => {
                let ended_before_it_joined = || {
                    let is_rank = self.size.is_some_and(|size| node.rank < size);
                    is_rank && node.incarnation == 0 && self.last(node.rank).is_none()
                };
                self.member(*node).is_some() || ended_before_it_joined()
            }
            LogEntry::Entered { view, node } => {
                let has = self.view(view).is_some_and(|view| view.has(*node));
                self.member(*node).is_some() && !has
            }
            LogEntry::Exited { view, node } => self.view(view).is_some_and(|view| view.has(*node)),
            LogEntry::Signal { .. } | LogEntry::Closed { .. } | LogEntry::Terminated { .. } => true,
        }
    }

    /// Whether this ended life is the last of a rank of a closed pool.
    fn is_last_of_rank(&self, node: NodeId) -> bool {
        self.size.is_some_and(|size| node.rank < size)
            && self.last(node.rank).is_some_and(|(last, _)| last == node)
    }

    /// Applies the entry that comes next, and says what it means to a program.
    pub(crate) fn apply(&mut self, entry: &LogEntry, mut say: impl FnMut(Event)) {
        let epoch = self.next + 1;
        self.next = epoch;
        match entry {
            LogEntry::Joined(member) => {
                self.see(member.id.rank);
                self.incarnation = self.incarnation.max(member.id.incarnation);
                self.members.insert(member.id.rank, member.clone());
                say(Event::Joined(member.clone()));
            }
            LogEntry::Left(node) => {
                self.end(*node, Departure::Left);
                say(Event::Left(*node));
                self.exit_all(*node, epoch, say);
            }
            LogEntry::Died { node, why } => {
                self.end(*node, Departure::Died { why: why.clone() });
                say(Event::Died { node: *node, why: why.clone() });
                self.exit_all(*node, epoch, say);
            }
            LogEntry::Entered { view: name, node } => {
                let view = self.views.entry(name.clone()).or_default();
                view.enter(*node, epoch);
                say(Event::Entered { view: name.clone(), node: *node, epoch });
                if view.members.len() == 1 {
                    say(Event::Elected { view: name.clone(), winner: Some(*node), epoch });
                }
            }
            LogEntry::Exited { view, node } => self.exit(view, *node, epoch, say),
            LogEntry::Signal { from, bytes, .. } => {
                say(Event::Signal { from: *from, bytes: bytes.clone() });
            }
            LogEntry::Closed { by } => {
                self.closed_by = Some(*by);
                say(Event::Closed { by: *by });
            }
            LogEntry::Terminated { by } => {
                (self.closed_by, self.terminated_by) = (self.closed_by.or(Some(*by)), Some(*by));
                say(Event::Terminated { by: *by });
            }
        }
    }

    /// Counts a rank of which nothing was known.
    fn see(&mut self, rank: u32) {
        if self.size.is_some_and(|size| rank < size) && self.last(rank).is_none() {
            self.seen += 1;
        }
    }

    /// A life has ended, or a process before it became one.
    fn end(&mut self, node: NodeId, fate: Departure) {
        self.see(node.rank);
        if self.member(node).is_some() {
            self.members.remove(&node.rank);
        }
        if self.ended.insert(node, fate).is_none() {
            self.ended_in_order.push_back(node);
        }
        // The last lives of all ranks of a closed pool are fewer than that, so one that is older is found.
        for _ in 0..self.ended_in_order.len() {
            if self.ended.len() <= self.ended_max() {
                break;
            }
            let Some(oldest) = self.ended_in_order.pop_front() else { break };
            if self.is_last_of_rank(oldest) {
                self.ended_in_order.push_back(oldest);
            } else {
                self.ended.remove(&oldest);
            }
        }
    }

    /// How many ended lives are kept.
    fn ended_max(&self) -> usize {
        self.size.map_or(ENDED_OPEN, |size| ENDED_LEAST.max(2 * size as usize))
    }

    fn exit_all(&mut self, node: NodeId, epoch: u64, mut say: impl FnMut(Event)) {
        let views = self.views.iter().filter(|(_, view)| view.has(node));
        let views: Vec<_> = views.map(|(name, _)| name.clone()).collect();
        views.iter().for_each(|view| self.exit(view, node, epoch, &mut say));
    }

    fn exit(&mut self, name: &str, node: NodeId, epoch: u64, mut say: impl FnMut(Event)) {
        let Some(view) = self.views.get_mut(name) else { return };
        let before = view.first();
        view.exit(node, epoch);
        let (winner, view) = (view.first(), name.to_owned());
        if winner.is_none() {
            self.views.remove(name);
        }
        say(Event::Exited { view: view.clone(), node, epoch });
        if winner != before {
            say(Event::Elected { view, winner, epoch });
        }
    }
}

/// Ended lives of an open pool of which it is known how they ended.
pub(crate) const ENDED_OPEN: usize = 16 << 10;
/// The same of a closed pool, at least: twice its size.
const ENDED_LEAST: usize = 4 << 10;
/// The latest of them that a snapshot has.
const ENDED_SENT: usize = 1 << 10;
/// How a life ended of which that is not known.
const FORGOTTEN: &str = "it is gone for long, and how it ended is not known any more";
