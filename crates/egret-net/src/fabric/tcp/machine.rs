//! A nic of TCP as the state machine that its handles share.

use std::sync::Arc;
use std::task::Waker;

use super::active::Active;
use super::datapath::Conn;
use super::door::{Door, Visitor};
use super::driver::Driver;
use super::knocking::Knocking;
use super::send::Flushed;
use crate::fabric::{
    After, ConnId, ConnectRequest, ListenerName, Machine, MachineFd, Made, Unposted, ViSpec, Woken,
};
use crate::rt::Instant;
use crate::vi::{
    ConnectError, Counters, Keys, Limits, ListenError, Posted, Reliability, Ticket, ViError, Wait,
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
            let Visitor { socket, mut callee, host, .. } = visitor;
            callee.welcome(&[]);
            let Ok(sent) = socket.send(callee.outgoing()) else { continue };
            callee.sent(sent);
            let conn = Conn::new(spec, socket, callee.outgoing());
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
            self.come_by(conn.0);
            if self.is_armed {
                self.push_now(conn.0, after);
            }
        }
        Ok(())
    }

    fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool {
        self.link(conn).0.cancel(ticket, &mut after.notices)
    }

    fn close(&mut self, conn: ConnId, after: &mut After) {
        self.link(conn).0.close(ViError::Closed, &mut after.notices);
        self.forget(conn.0, after);
    }

    fn release(&mut self, conn: ConnId, after: &mut After) {
        self.close(conn, after);
        self.ended.remove(&conn.0);
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

    fn shut(&mut self, after: &mut After) {
        self.door = None;
        self.active.clear();
        for (id, mut link) in std::mem::take(&mut self.links) {
            link.close(ViError::NicDown, &mut after.notices);
            if let Some(mut leaving) = link.leaving.take() {
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
