//! A nic of TCP as the state machine that its handles share.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::Waker;

use super::active::Active;
use super::datapath::Conn;
use super::door::{Door, Visitor};
use super::driver::Driver;
use super::fault::{Fault, planted};
use super::knocking::Knocking;
use super::link::Pulled;
use super::send::Flushed;
use crate::fabric::{
    After, ConnId, ConnectRequest, Drained, ListenerName, Machine, MachineFd, Made, Unposted,
    ViSpec, Woken,
};
use crate::rt::Instant;
use crate::vi::{
    ConnectError, Counters, DrainId, Keys, Lane, Limits, ListenError, Position, Posted,
    Reliability, SendError, Sink, Ticket, ViError, Wait,
};

/// A frugal program looks twice before it sleeps again: it is told by the set then.
const SKIPS: u32 = 2;

impl Machine for Driver {
    fn host(&self) -> &str {
        &self.fixed.host
    }

    fn limits(&self) -> Limits {
        super::nic::limits()
    }

    fn keys(&self) -> &Arc<Keys> {
        &self.fixed.keys
    }

    fn listen(&mut self, name: &ListenerName, reliability: Reliability) -> Result<(), ListenError> {
        self.listeners.open(name, reliability)
    }

    fn unlisten(&mut self, name: &ListenerName, after: &mut After) {
        self.listeners.close(name, after);
    }

    fn wake_on_arrival(&mut self, name: &ListenerName, waker: Waker) -> Option<Waker> {
        self.listeners.wake_on_arrival(name, waker)
    }

    fn accept(
        &mut self,
        name: &ListenerName,
        spec: ViSpec,
        _after: &mut After,
    ) -> Result<Option<Made>, ListenError> {
        while let Some(visitor) = self.listeners.next(name)? {
            let Visitor { mut stream, mut callee, host, .. } = visitor;
            callee.welcome(&[]);
            let Ok(sent) = stream.write(callee.outgoing()) else { continue };
            callee.sent(sent);
            let conn = Conn::new(spec, stream, callee.outgoing());
            if let Some(id) = self.add(conn) {
                // Of the welcome some may be left.
                self.come_by(id);
                return Ok(Some(Made::new(ConnId(id), &host)));
            }
        }
        Ok(None)
    }

    fn connect(&mut self, request: ConnectRequest, after: &mut After) {
        if self.door.is_none() {
            return after.settle(request.promise, Err(ConnectError::NicDown));
        }
        let (id, now) = (self.unused(), after.now());
        self.knocks.insert(id, Knocking::new(request, now));
        self.knock(id, now, after);
    }

    #[inline]
    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        let (link, fixed) = self.link(conn);
        if link.post(posted, fixed, &mut after.notices)? {
            self.write_soon(conn.0, after);
        }
        Ok(())
    }

    fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool {
        self.link(conn).0.cancel(ticket, &mut after.notices)
    }

    fn close(&mut self, conn: ConnId, after: &mut After) {
        let (link, fixed) = self.link(conn);
        link.write_eager(fixed);
        link.close(ViError::Closed, &mut after.notices);
        self.forget(conn.0, after);
    }

    fn release(&mut self, conn: ConnId, after: &mut After) {
        self.close(conn, after);
        self.ended.remove(&conn.0);
        self.heard.retain(|id| *id != conn.0);
    }

    fn error(&self, conn: ConnId) -> Option<ViError> {
        self.find(conn).error()
    }

    fn counters(&self, conn: ConnId) -> Counters {
        self.find(conn).counters()
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
        let is_blind = self.calls_left == 0 && self.active.len() < self.links.len();
        if self.pace.is_time(after) || is_blind {
            self.look(after);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let door = self.door.as_ref().and_then(Door::deadline);
        let knocks = self.knocks.values().filter_map(Knocking::deadline);
        knocks.chain(door).chain(self.leavings.deadline()).min()
    }

    fn descriptor(&self) -> Option<MachineFd> {
        Some(MachineFd::Set(Arc::clone(&self.fixed.set)))
    }

    /// What was posted is written, and what is owed is told. Whatever has come, the
    /// set says.
    fn arm(&mut self, after: &mut After) -> bool {
        self.is_armed = true;
        let mut at = 0;
        while let Some(&Active { id, .. }) = self.active.get(at) {
            match self.push(id, after, true) {
                // It is no longer among them.
                None => continue,
                Some(Flushed::All) => {}
                // The rest of this looks after it.
                Some(Flushed::More | Flushed::Full) => self.come_by(id),
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
        for event in woken.said() {
            self.ready(event.token, event.has_room, after);
        }
        if woken.said().is_empty() || self.pace.is_time(after) {
            self.tick(after.now(), after);
        }
        self.skips = if self.wait == Wait::Frugal { SKIPS } else { 0 };
    }

    fn has_eager(&self) -> bool {
        true
    }

    fn is_at_once(&self) -> bool {
        false
    }

    /// The lock of the nic is entered once for each message, and a lone message costs one system
    /// call. While somebody sleeps, what is left to do may have to end that sleep, which
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
        let link = self.links.get_mut(&conn.0)?;
        let (position, is_dirty) = link.try_send(lane, tag, parts, &self.fixed)?;
        if is_dirty && !planted(Fault::SentUnmarked) {
            self.come_by(conn.0);
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
    ) -> Result<Position, SendError> {
        let (link, fixed) = self.link(conn);
        let (sent, is_dirty) = link.send(lane, tag, parts, fixed, &mut after.notices);
        if is_dirty {
            self.write_soon(conn.0, after);
        }
        sent
    }

    fn arrived(&mut self, conn: ConnId, lane: Lane, asked: bool, after: &mut After) -> Position {
        let (link, fixed) = self.link(conn);
        let (position, is_dirty) = link.arrived(lane, asked, fixed);
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
            let link = self.links.get_mut(&id).or_else(|| self.ended.get_mut(&id));
            let Some(link) = link else {
                self.heard.remove(at);
                continue;
            };
            let pulled = link.drain(drain, &mut left, sink, &self.fixed, &mut after.notices);
            let Some(Pulled { answers, is_dirty, owes, has_more }) = pulled else {
                at += 1;
                continue;
            };
            // Only now: the sink may have panicked.
            self.heard.remove(at);
            drained.answers |= answers;
            if has_more {
                self.heard.push_back(id);
            }
            // Nobody looks again soon at one that is left to the set.
            if is_dirty || owes && !self.is_active(id) {
                self.write_soon(id, after);
            }
        }
        drained.count = budget - left;
        drained
    }

    fn shut(&mut self, after: &mut After) {
        self.door = None;
        self.active.clear();
        for (id, mut link) in std::mem::take(&mut self.links) {
            link.close(ViError::NicDown, &mut after.notices);
            if let Some(mut leaving) = link.take_leaving() {
                // The only chance.
                leaving.push();
            }
            self.ended.insert(id, link);
        }
        for Knocking { patience, .. } in std::mem::take(&mut self.knocks).into_values() {
            after.settle(patience.request.promise, Err(ConnectError::NicDown));
        }
        self.listeners.shut(after);
        self.leavings.clear();
        after.happened = true;
    }
}
