//! Which connections of a nic to look at.
//!
//! A look at a connection that is idle costs a few loads, which is much for a thousand of them. So
//! each look goes to all if they are few, and else to those that had something lately and to some
//! of the others in turn. Before a nic sleeps it looks at all.
//!
//! Connections with eager messages that nobody has drained are remembered: to drain is to go to
//! them alone.

use std::collections::{BTreeMap, VecDeque};

use super::link::{Link, Polled};
use crate::vi::DrainId;

#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// By number.
    all: Vec<Link>,
    /// Those that have ended, as long as somebody has a handle to them.
    ended: BTreeMap<u64, Link>,
    /// Places of those that had something lately, the last one first.
    hot: Vec<usize>,
    /// The place that the next round begins with.
    next: usize,
    /// The numbers of those with eager messages, in the order in which they were found.
    ready: VecDeque<u64>,
}

/// How many are few.
const FEW: usize = 8;
/// Connections that are looked at each time.
const HOT: usize = 4;
/// And of the others.
const SWEEP: usize = 8;

impl Rounds {
    pub(super) fn add(&mut self, link: Link) {
        self.all.push(link);
    }

    #[inline]
    pub(super) fn get(&mut self, id: u64) -> Option<&mut Link> {
        match self.all.binary_search_by_key(&id, |link| link.id) {
            Ok(at) => self.all.get_mut(at),
            Err(_) => self.ended.get_mut(&id),
        }
    }

    pub(super) fn find(&self, id: u64) -> Option<&Link> {
        match self.all.binary_search_by_key(&id, |link| link.id) {
            Ok(at) => self.all.get(at),
            Err(_) => self.ended.get(&id),
        }
    }

    /// Ends all, each by `end`.
    pub(super) fn end_all(&mut self, end: impl FnMut(&mut Link)) {
        self.all.iter_mut().for_each(end);
        self.sort_out();
    }

    /// The last handle to it is gone: it is taken out, to be dropped.
    pub(super) fn remove(&mut self, id: u64) -> Option<Link> {
        let at = self.all.binary_search_by_key(&id, |link| link.id);
        self.ready.retain(|ready| *ready != id);
        match at {
            Ok(at) => {
                (self.hot, self.next) = (Vec::new(), 0);
                Some(self.all.remove(at))
            }
            Err(_) => self.ended.remove(&id),
        }
    }

    /// Puts those aside that have ended.
    pub(super) fn sort_out(&mut self) {
        if self.all.iter().all(|link| link.error().is_none()) {
            return;
        }
        let ended = self.all.extract_if(.., |link| link.error().is_some());
        self.ended.extend(ended.map(|link| (link.id, link)));
        (self.hot, self.next) = (Vec::new(), 0);
    }

    /// Polls those whose turn it is.
    #[inline]
    pub(super) fn poll_some(&mut self, mut poll: impl FnMut(&mut Link) -> Polled) {
        if self.all.len() <= FEW {
            return self.poll_all(poll);
        }
        for at in 0..self.hot.len() {
            let polled = self.poll_at(self.hot[at], &mut poll);
            if polled != Polled::Nothing && at > 0 {
                self.hot.swap(at, at - 1);
            }
        }
        for _ in 0..SWEEP {
            let at = self.next;
            self.next = if at + 1 < self.all.len() { at + 1 } else { 0 };
            if self.poll_at(at, &mut poll) != Polled::Nothing {
                self.heat(at);
            }
        }
    }

    /// Polls one, which has rung.
    pub(super) fn poll_one(&mut self, id: u64, mut poll: impl FnMut(&mut Link) -> Polled) {
        if self.all.len() <= FEW {
            return;
        }
        if let Ok(at) = self.all.binary_search_by_key(&id, |link| link.id)
            && self.poll_at(at, &mut poll) != Polled::Nothing
        {
            self.heat(at);
        }
    }

    /// Polls all.
    #[inline]
    pub(super) fn poll_all(&mut self, mut poll: impl FnMut(&mut Link) -> Polled) {
        for at in 0..self.all.len() {
            self.poll_at(at, &mut poll);
        }
    }

    #[inline]
    fn poll_at(&mut self, at: usize, poll: &mut impl FnMut(&mut Link) -> Polled) -> Polled {
        let link = &mut self.all[at];
        let polled = poll(link);
        if matches!(polled, Polled::Eager | Polled::Gone) {
            let id = link.id;
            self.is_ready(id);
        }
        polled
    }

    /// This one has eager messages, or has ended and may have some.
    #[inline]
    pub(super) fn is_ready(&mut self, id: u64) {
        if !self.ready.contains(&id) {
            self.ready.push_back(id);
        }
    }

    fn heat(&mut self, at: usize) {
        if !self.hot.contains(&at) {
            self.hot.truncate(HOT - 1);
            self.hot.insert(0, at);
        }
    }

    /// Drains the connections of a drain that have something, each by `take`, which is told how
    /// much it may take and says how much there was. At most `budget` in all.
    #[inline]
    pub(super) fn drain(
        &mut self,
        drain: DrainId,
        budget: usize,
        mut take: impl FnMut(&mut Link, usize) -> usize,
    ) -> usize {
        let mut drained = 0;
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.pop_front() else { break };
            let Some(link) = self.get(id) else { continue };
            if link.drain != drain {
                self.ready.push_back(id);
                continue;
            }
            let left = budget - drained;
            let took = take(link, left);
            drained += took;
            // There may be more, also of one that has just ended.
            if took == left || took > 0 && link.error().is_some() {
                self.ready.push_back(id);
            }
            if took == left {
                return drained;
            }
        }
        // What has come since the last poll: who waits drains again and again.
        let few = self.all.len() <= FEW;
        let count = if few { self.all.len() } else { self.hot.len() };
        for at in 0..count {
            let link = &mut self.all[if few { at } else { self.hot[at] }];
            if link.drain == drain && drained < budget {
                let left = budget - drained;
                let took = take(link, left);
                drained += took;
                if took == left || link.error().is_some() {
                    let id = link.id;
                    self.is_ready(id);
                }
            }
        }
        drained
    }
}
