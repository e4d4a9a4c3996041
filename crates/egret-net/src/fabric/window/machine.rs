//! A nic that loses nothing, above one that does, as the state machine that its handles share.

use std::sync::Arc;
use std::task::Waker;

use super::connection::Connection;
use super::driver::{BATCH, Driver, IDLE_MAX};
use super::fault;
use super::{DEPTH, TRANSFER_MAX};
use crate::fabric::{
    After, ConnId, ConnectRequest, Drained, ListenerName, Machine, MachineFd, NewConnection,
    Unposted, ViSpec, VirtualTime, Woken,
};
use crate::rt::Instant;
use crate::vi::{
    Counters, DrainId, Keys, Lane, Limits, OpenError, Position, PostError, Posted, PublicKey,
    Reliability, Sink, Ticket, ViError,
};

impl Machine for Driver {
    fn host(&self) -> &str {
        self.below.host()
    }

    fn key(&self) -> Option<PublicKey> {
        self.below.key()
    }

    fn limits(&self) -> Limits {
        let mut limits = self.below.limits();
        limits.queue_depth = DEPTH;
        limits.transfer_max = TRANSFER_MAX;
        limits.reliability = [true, true, false];
        limits
    }

    fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    fn listen(&mut self, name: &ListenerName, reliability: Reliability) -> Result<(), OpenError> {
        self.below.listen(name, reliability)
    }

    fn unlisten(&mut self, name: &ListenerName, after: &mut After) {
        self.below.unlisten(name, after);
    }

    fn wake_on_arrival(&mut self, name: &ListenerName, waker: Waker) -> Option<Waker> {
        self.below.wake_on_arrival(name, waker)
    }

    fn accept(
        &mut self,
        name: &ListenerName,
        spec: ViSpec,
        after: &mut After,
    ) -> Result<Option<NewConnection>, OpenError> {
        let spec = ViSpec { carries: Reliability::Unreliable, ..spec };
        let made = self.below.accept(name, spec, after)?;
        if let Some(made) = &made {
            Self::made(&mut self.links, made, &spec);
        }
        Ok(made)
    }

    fn connect(&mut self, mut request: ConnectRequest, after: &mut After) {
        request.spec.carries = Reliability::Unreliable;
        request.promise = request.promise.by_way_of(&self.settled, request.spec);
        self.below.connect(request, after);
        self.take_settled(after);
    }

    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        let Some(link) = self.links.get_mut(&conn) else {
            let (len, max) = (posted.descriptor().len(), self.below.limits().transfer_max);
            if len > max {
                return Err(Unposted::new(PostError::TooLarge { len, max }, posted));
            }
            return self.below.post(conn, posted, after);
        };
        link.post(posted)?;
        self.flush(conn, false, after);
        Ok(())
    }

    fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool {
        let Some(link) = self.links.get_mut(&conn) else {
            return self.below.cancel(conn, ticket, after);
        };
        let is_cancelled = link.cancel(ticket, &mut after.notices);
        if fault::lets_others_go(is_cancelled) {
            // What stood behind it may go.
            self.flush(conn, false, after);
        }
        is_cancelled
    }

    fn close(&mut self, conn: ConnId, after: &mut After) {
        if !self.links.contains_key(&conn) {
            return self.below.close(conn, after);
        }
        self.end(conn, &ViError::Closed, after);
        self.flush_dirty(after);
    }

    fn release(&mut self, conn: ConnId, after: &mut After) {
        if !self.links.contains_key(&conn) {
            return self.below.release(conn, after);
        }
        self.close(conn, after);
        let Some(link) = self.links.get_mut(&conn) else { return };
        link.is_released = true;
        if link.leaving.is_none() {
            self.left(conn, after);
        }
    }

    fn error(&self, conn: ConnId) -> Option<ViError> {
        self.links.get(&conn).map_or_else(|| self.below.error(conn), Connection::error)
    }

    fn counters(&self, conn: ConnId) -> Counters {
        self.links.get(&conn).map_or_else(|| self.below.counters(conn), Connection::counters)
    }

    /// Takes one datagram, so that its answer can leave before the next is looked for; more if they
    /// come in a row.
    fn poll(&mut self, after: &mut After) {
        if self.world.is_none() {
            self.below.poll(after);
        }
        let came = self.work(if self.streak < 2 { 1 } else { BATCH }, after);
        // The time of a world passes while its threads wait, and not here.
        if came || self.world.is_some() {
            self.tick(after);
        } else if self.pace.is_time(after) {
            self.pace.looked(after.now());
            self.tick(after);
        }
        self.streak = if came { self.streak.saturating_add(1) } else { 0 };
        self.idle = if came { 0 } else { self.idle.saturating_add(1) };
        if self.idle >= IDLE_MAX && !self.owing.is_empty() {
            self.idle = 0;
            self.tell(after);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        // Messages that wait to leave together leave now.
        let own = match self.dirty.is_empty() {
            true => self.timers.first().map(|(at, _)| *at),
            false => Some(Instant::default()),
        };
        own.into_iter().chain(self.below.next_event()).min()
    }

    fn descriptor(&self) -> Option<MachineFd> {
        self.below.descriptor()
    }

    fn arm(&mut self, after: &mut After) -> bool {
        let before = self.work(BATCH, after);
        let is_busy = self.below.arm(after);
        let came = self.work(BATCH, after) || before;
        self.tick(after);
        self.tell(after);
        self.slept = Some(self.next_event());
        is_busy || came
    }

    fn disarm(&mut self, woken: Woken<'_>, after: &mut After) {
        self.slept = None;
        self.below.disarm(woken, after);
        self.take_settled(after);
        if woken.has_slept() {
            self.work(1, after);
            self.tick(after);
        }
    }

    /// Sends the goodbye of all connections once, whether or not the network delivers it.
    fn shut(&mut self, after: &mut After) {
        let all: Vec<ConnId> = self.links.keys().copied().collect();
        for conn in all {
            self.end(conn, &ViError::NicDown, after);
            if let Some(link) = self.links.get_mut(&conn) {
                link.burst();
            }
            self.flush(conn, false, after);
        }
        self.flush_dirty(after);
        self.below.shut(after);
        self.take_settled(after);
    }

    fn has_eager(&self, level: Reliability) -> bool {
        level.is_reliable() || self.below.has_eager(level)
    }

    fn is_at_once(&self) -> bool {
        false
    }

    /// A message that the peer waits for leaves at once; one with others before it that were not drained
    /// waits for company, until the nic is driven next.
    fn send(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        after: &mut After,
    ) -> Result<Position, PostError> {
        let Some(link) = self.links.get_mut(&conn) else {
            return self.below.send(conn, lane, tag, parts, after);
        };
        let is_alone = link.is_alone();
        let position = link.send(lane, tag, parts)?;
        if is_alone || self.slept.is_some() || self.has_company(conn) {
            self.flush(conn, false, after);
        } else {
            self.mark(conn);
        }
        Ok(position)
    }

    fn arrived(&mut self, conn: ConnId, lane: Lane, asked: bool, after: &mut After) -> Position {
        let Some(link) = self.links.get_mut(&conn) else {
            return self.below.arrived(conn, lane, asked, after);
        };
        let position = link.arrived(lane, asked);
        if asked {
            self.flush(conn, false, after);
        }
        position
    }

    /// The connections take turns, and each has a turn at most.
    fn drain(
        &mut self,
        drain: DrainId,
        budget: usize,
        sink: &mut Sink<'_>,
        after: &mut After,
    ) -> Drained {
        let (mut drained, mut left, mut at) = (Drained::default(), budget, 0);
        for _ in 0..self.heard.len() {
            let Some(&conn) = self.heard.get(at).filter(|_| left > 0) else { break };
            let Some(link) = self.links.get_mut(&conn) else {
                self.heard.remove(at);
                continue;
            };
            let Some((answers, has_more)) = link.drain(drain, &mut left, sink) else {
                at += 1;
                continue;
            };
            // Only now: the sink may have panicked.
            self.heard.remove(at);
            drained.answers |= answers;
            if has_more {
                self.heard.push_back(conn);
            }
            self.flush(conn, false, after);
        }
        drained.count = budget - left;
        if left > 0 && self.below.has_eager(Reliability::Unreliable) {
            let Drained { count, answers } = self.below.drain(drain, left, sink, after);
            drained.count += count;
            drained.answers |= answers;
        }
        drained
    }

    fn world(&self) -> Option<Arc<dyn VirtualTime>> {
        self.world.clone()
    }

    fn is_driven(&self) -> bool {
        true
    }
}
