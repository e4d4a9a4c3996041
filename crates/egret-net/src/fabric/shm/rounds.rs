//! Which connections of a nic to look at.
//!
//! A look at a connection that is idle costs a few loads, which is much for a thousand of them. So
//! each look goes to all if they are few, and else to those that had something lately and to some
//! of the others in turn: by their [heads](Heads), which lie side by side, one line for each
//! connection, and of the peer's memory three. Before a nic sleeps it looks at all.
//!
//! Connections with eager messages that nobody has drained are remembered: to drain is to go to
//! them alone.

use std::collections::{BTreeMap, VecDeque};

use super::eager::Draining;
use super::link::{Link, Polled};
use super::quiet::Heads;
use crate::vi::DrainId;

#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// By number.
    all: Vec<Link>,
    /// The heads of each, if there are many. Whatever else is done with a link disturbs them.
    heads: Vec<Option<Heads>>,
    /// Those that have ended, as long as somebody has a handle to them.
    ended: BTreeMap<u64, Link>,
    /// Places of those that had something lately, the last one first.
    hot: Vec<usize>,
    /// The place that the next round begins with.
    next: usize,
    /// The place of the one that was asked for last.
    last: usize,
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
        if self.all.len() > FEW {
            self.heads.push(link.heads());
        }
        self.all.push(link);
        if self.all.len() == FEW + 1 {
            self.begin_again();
        }
    }

    /// Places have changed: none is hot, and all heads are renewed at the next looks.
    fn begin_again(&mut self) {
        (self.hot, self.next) = (Vec::new(), 0);
        self.heads.clear();
        if self.all.len() > FEW {
            self.heads.extend(self.all.iter().map(Link::heads));
        }
    }

    /// The same as last time, if it is this one.
    #[inline(always)]
    pub(super) fn last(&mut self, id: u64) -> Option<&mut Link> {
        self.all.get_mut(self.last).filter(|link| link.id == id)
    }

    #[inline]
    pub(super) fn get(&mut self, id: u64) -> Option<&mut Link> {
        match self.all.binary_search_by_key(&id, |link| link.id) {
            Ok(at) => {
                self.last = at;
                self.disturb(at);
                self.all.get_mut(at)
            }
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
                if at < self.heads.len() {
                    self.heads.remove(at);
                }
                (self.hot, self.next) = (Vec::new(), 0);
                Some(self.all.remove(at))
            }
            Err(_) => self.ended.remove(&id),
        }
    }

    /// Puts those aside that have ended.
    pub(super) fn sort_out(&mut self) {
        if !self.all.iter().any(Link::has_ended) {
            return;
        }
        let ended = self.all.extract_if(.., |link| link.has_ended());
        self.ended.extend(ended.map(|link| (link.id, link)));
        self.begin_again();
    }

    /// Something else than a look may change a link of many.
    #[inline]
    fn disturb(&mut self, at: usize) {
        if let Some(Some(heads)) = self.heads.get_mut(at) {
            heads.disturb();
        }
    }

    /// Whether one of many may have something to do.
    #[inline(always)]
    fn is_due(&mut self, at: usize) -> bool {
        self.heads[at].as_ref().is_none_or(Heads::may_have_work) && self.is_due_itself(at)
    }

    #[inline(never)]
    fn is_due_itself(&mut self, at: usize) -> bool {
        let is_due = self.all[at].may_have_work();
        if !is_due {
            self.renew(at);
        }
        is_due
    }

    /// From now on the heads of one of many are looked at, if that is enough.
    fn renew(&mut self, at: usize) {
        let (link, Some(place)) = (&self.all[at], self.heads.get_mut(at)) else { return };
        if link.has_ended() {
            // With the heads goes the last handle to the peer's memory.
            *place = None;
        } else if let Some(heads) = place {
            link.renew(heads);
        }
    }

    /// Whether a poll could find something to do. A few loads, and no call, for few that have
    /// nothing.
    #[inline(always)]
    pub(super) fn may_have_work(&self) -> bool {
        self.all.len() > FEW || self.all.iter().any(Link::may_have_work)
    }

    /// Polls those whose turn it is.
    #[inline]
    pub(super) fn poll_some(&mut self, mut poll: impl FnMut(&mut Link) -> Polled) {
        if self.all.len() <= FEW {
            return self.poll_all(poll);
        }
        for at in 0..self.hot.len() {
            if !self.is_due(self.hot[at]) {
                continue;
            }
            let polled = self.poll_at(self.hot[at], &mut poll);
            if polled != Polled::Nothing && at > 0 {
                self.hot.swap(at, at - 1);
            }
        }
        for _ in 0..SWEEP {
            let at = self.next;
            self.next = if at + 1 < self.all.len() { at + 1 } else { 0 };
            if self.is_due(at) && self.poll_at(at, &mut poll) != Polled::Nothing {
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

    #[inline(never)]
    fn poll_at(&mut self, at: usize, poll: &mut impl FnMut(&mut Link) -> Polled) -> Polled {
        let link = &mut self.all[at];
        let (polled, id) = (poll(link), link.id);
        self.renew(at);
        if matches!(polled, Polled::Eager | Polled::Gone) {
            self.is_ready(id);
        }
        polled
    }

    /// This one has eager messages, or has ended and may have some.
    pub(super) fn is_ready(&mut self, id: u64) {
        add(&mut self.ready, id);
    }

    fn heat(&mut self, at: usize) {
        if !self.hot.contains(&at) {
            self.hot.truncate(HOT - 1);
            self.hot.insert(0, at);
        }
    }

    /// Whether a drain could find something. A few loads, and no call, for few that have nothing.
    #[inline(always)]
    pub(super) fn may_have_eager(&self, drain: DrainId) -> bool {
        !self.ready.is_empty()
            || self.all.len() > FEW
            || self.all.iter().any(|link| link.drain == drain && link.has_eager())
    }

    /// Drains the connections of a drain that have something.
    #[inline]
    pub(super) fn drain(&mut self, drain: DrainId, draining: &mut Draining<'_, '_>) {
        if !self.ready.is_empty() {
            self.drain_ready(drain, draining);
        }
        // What has come since the last poll: who waits drains again and again.
        if self.all.len() > FEW {
            return self.drain_hot(drain, draining);
        }
        let Self { all, ready, .. } = self;
        for link in all {
            if link.drain == drain && link.drain(draining) {
                add(ready, link.id);
            }
        }
    }

    #[inline(never)]
    fn drain_ready(&mut self, drain: DrainId, draining: &mut Draining<'_, '_>) {
        for _ in 0..self.ready.len() {
            let Some(id) = self.ready.pop_front() else { break };
            let Some(link) = self.get(id) else { continue };
            if link.drain != drain || drain_one(link, draining) {
                self.ready.push_back(id);
            }
        }
    }

    #[inline(never)]
    fn drain_hot(&mut self, drain: DrainId, draining: &mut Draining<'_, '_>) {
        for at in 0..self.hot.len() {
            let at = self.hot[at];
            if self.heads[at].as_ref().is_some_and(|heads| !heads.may_have_work()) {
                continue;
            }
            self.disturb(at);
            let link = &mut self.all[at];
            if link.drain == drain && link.has_eager() && drain_one(link, draining) {
                add(&mut self.ready, link.id);
            }
        }
    }
}

#[inline(never)]
fn drain_one(link: &mut Link, draining: &mut Draining<'_, '_>) -> bool {
    link.drain(draining)
}

#[cold]
fn add(ready: &mut VecDeque<u64>, id: u64) {
    if !ready.contains(&id) {
        ready.push_back(id);
    }
}
