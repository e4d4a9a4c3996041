//! Which connections of a nic to look at.
//!
//! A look at a connection that is idle costs a few loads, which is much for a thousand of them. So
//! each look goes to all if they are few, and else to those that had something lately and to some
//! of the others in turn. Before a nic sleeps it looks at all.
//!
//! Connections with eager messages that nobody has drained are remembered: to drain is to go to
//! them alone.

use std::collections::VecDeque;
use std::sync::Arc;

use super::link::{Link, Polled};
use crate::vi::DrainId;

#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// By number.
    all: Vec<Arc<Link>>,
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
    pub(super) fn add(&mut self, link: Arc<Link>) {
        self.all.push(link);
    }

    pub(super) fn get(&self, id: u64) -> Option<&Arc<Link>> {
        let at = self.all.binary_search_by_key(&id, |link| link.id).ok()?;
        Some(&self.all[at])
    }

    /// Takes out all.
    pub(super) fn take_all(&mut self) -> Vec<Arc<Link>> {
        std::mem::take(self).all
    }

    /// Forgets those of which nothing can come any more.
    pub(super) fn forget_over(&mut self) {
        let before = self.all.len();
        self.all.retain(|link| !link.is_over());
        if self.all.len() != before {
            (self.hot, self.next) = (Vec::new(), 0);
        }
    }

    /// Polls those whose turn it is.
    #[inline]
    pub(super) fn poll_some(&mut self, mut poll: impl FnMut(&Link) -> Polled) {
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
    pub(super) fn poll_one(&mut self, id: u64, mut poll: impl FnMut(&Link) -> Polled) {
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
    pub(super) fn poll_all(&mut self, mut poll: impl FnMut(&Link) -> Polled) {
        for at in 0..self.all.len() {
            self.poll_at(at, &mut poll);
        }
    }

    #[inline]
    fn poll_at(&mut self, at: usize, poll: &mut impl FnMut(&Link) -> Polled) -> Polled {
        let link = &self.all[at];
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
        mut take: impl FnMut(&Link, usize) -> usize,
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
            if took == left {
                // There may be more.
                self.ready.push_back(id);
                return drained;
            }
        }
        // What has come since the last poll: who waits drains again and again.
        let few = self.all.len() <= FEW;
        let count = if few { self.all.len() } else { self.hot.len() };
        for at in 0..count {
            let link = &self.all[if few { at } else { self.hot[at] }];
            if link.drain == drain && drained < budget {
                let left = budget - drained;
                let took = take(link, left);
                drained += took;
                if took == left {
                    let id = link.id;
                    self.is_ready(id);
                }
            }
        }
        drained
    }
}
