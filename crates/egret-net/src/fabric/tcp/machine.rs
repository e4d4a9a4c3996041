//! A nic of TCP as the state machine that its handles share.

use std::num::NonZeroU64;

use super::acceptor::Acceptor;
use super::connection::DrainOutcome;
use super::driver::Driver;
use super::fault;
use super::rounds::ActiveConnection;
use super::send::Flushed;
use crate::fabric::common::connectors;
use crate::fabric::common::machine::prelude::*;
use crate::vi::Wait;

/// A frugal program looks twice before it sleeps again: it is told by the set then.
const SKIPS: u32 = 2;

impl Machine for Driver {
    same_methods!(u64::from);

    #[inline]
    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        if self.links.of_handle(conn.0).post(posted, &self.fixed, &mut after.notices)? {
            self.write_soon(conn.0, after);
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self, after: &mut After) {
        if !self.dirty.is_empty() {
            self.push_all(after, false);
        }
        if self.skips > 0 {
            self.skips -= 1;
            return;
        }
        self.poll_active(after);
        self.calls_left = self.calls_left.saturating_sub(1);
        let is_blind = self.calls_left == 0 && self.active.len() < self.links.open.len();
        if self.pace.is_time(after) || is_blind {
            self.look(after);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let acceptor = self.acceptor.as_ref().and_then(Acceptor::deadline);
        [acceptor, connectors::deadline(&self.connectors), self.closings.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Writes posted frames and sends owed counts. The set reports what has arrived.
    fn arm(&mut self, after: &mut After) -> bool {
        self.is_armed = true;
        let mut at = 0;
        while let Some(&ActiveConnection { id, .. }) = self.active.get(at) {
            match self.push(id, after, true) {
                // It is no longer among them.
                None => continue,
                Some(Flushed::All) => {}
                // The rest of this looks after it.
                Some(Flushed::More | Flushed::Full) => self.mark_dirty(id),
            }
            at += 1;
        }
        self.push_all(after, true)
    }

    fn disarm(&mut self, woken: Woken<'_>, after: &mut After) {
        self.is_armed = false;
        if !woken.has_slept() {
            return;
        }
        self.acceptor.iter_mut().for_each(Acceptor::turn);
        for event in woken.said() {
            self.ready(event.token, event.has_room, after);
        }
        if woken.said().is_empty() || self.pace.is_time(after) {
            self.tick(after.now(), after);
        }
        self.skips = if self.wait == Wait::Frugal { SKIPS } else { 0 };
    }

    fn has_eager(&self, _level: Reliability) -> bool {
        true
    }

    fn is_at_once(&self) -> bool {
        false
    }

    /// The lock of the nic is entered once for each message, and a lone message costs one system
    /// call. While a thread sleeps, what is left to do may have to end that sleep, which
    /// [`send`](Self::send) can tell.
    #[inline]
    fn try_send(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Option<NonZeroU64> {
        if self.is_armed {
            return None;
        }
        let link = self.links.open.get_mut(&conn.0)?;
        let (position, is_dirty) = link.try_send(lane, tag, parts, &self.fixed)?;
        if fault::must_mark(is_dirty) {
            self.mark_dirty(conn.0);
        }
        NonZeroU64::new(position.number())
    }

    #[inline]
    fn send(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        after: &mut After,
    ) -> Result<Position, PostError> {
        let link = self.links.of_handle(conn.0);
        let (sent, is_dirty) = link.send(lane, tag, parts, &self.fixed, &mut after.notices);
        if is_dirty {
            self.write_soon(conn.0, after);
        }
        sent
    }

    fn arrived(&mut self, conn: ConnId, lane: Lane, asked: bool, after: &mut After) -> Position {
        let link = self.links.of_handle(conn.0);
        let (position, is_dirty) = link.arrived(lane, asked, &self.fixed);
        if is_dirty {
            self.write_soon(conn.0, after);
        }
        position
    }

    /// The connections take turns, and each has a turn at most.
    #[inline]
    fn drain(
        &mut self,
        drain: DrainId,
        budget: usize,
        sink: &mut Sink<'_>,
        after: &mut After,
    ) -> Drained {
        let (mut drained, mut left) = (Drained::default(), budget);
        let mut at = 0;
        for _ in 0..self.heard.len() {
            let Some(&id) = self.heard.get(at).filter(|_| left > 0) else { break };
            let Some(link) = self.links.any(&id) else {
                self.heard.remove(at);
                continue;
            };
            let pulled = link.drain(drain, &mut left, sink, &self.fixed, &mut after.notices);
            let Some(DrainOutcome { answers, is_dirty, owes, has_more }) = pulled else {
                at += 1;
                continue;
            };
            // Only now: the sink may have panicked.
            self.heard.remove(at);
            drained.answers |= answers;
            if has_more {
                self.heard.push_back(id);
            }
            // A connection that is left to the set is not polled again soon.
            if is_dirty || owes && !self.is_active(id) {
                self.write_soon(id, after);
            }
        }
        drained.count = budget - left;
        drained
    }

    fn shut(&mut self, after: &mut After) {
        self.acceptor = None;
        for id in self.links.open.keys().copied().collect::<Vec<_>>() {
            self.end(id, &ViError::NicDown, after);
        }
        connectors::shut(std::mem::take(&mut self.connectors), after);
        self.listeners.shut(after);
        self.closings.clear();
        after.happened = true;
    }
}
