//! A nic of shared memory as the state machine that its handles share.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::bell::Habit;
use super::datapath::Conn;
use super::driver::{Driver, Fixed};
use super::knocking::{Ground, Knocking, Met, terms};
use super::link::Polled;
use super::rendezvous::{Door, Visitor};
use crate::fabric::{
    After, ConnId, ConnectRequest, Drained, ListenerName, Machine, MachineFd, Made, Unposted,
    ViSpec, Woken,
};
use crate::rt::Instant;
use crate::vi::{
    ConnectError, Counters, DrainId, Keys, Lane, Limits, ListenError, Position, Posted,
    Reliability, SendError, Sink, Ticket, ViError,
};

/// How long to sleep when a peer might not ring.
const NAP: Duration = Duration::from_millis(1);

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
            let (peer, agreed) = (visitor.greeting.host.clone(), visitor.agreed);
            let conn = admit(visitor, spec, &self.fixed);
            let made = conn.and_then(|conn| self.add((&peer, spec, agreed), conn));
            if made.is_some() {
                return Ok(made);
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
        self.tick(now, after);
    }

    #[inline]
    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        let Self { links, fixed, .. } = self;
        let link = links.get(conn.0).expect("a handle keeps it");
        if link.post(posted, &fixed.keys)? {
            // Of slots that waited for it not all were taken, if they are many: a thread that
            // sleeps has more to poll for.
            after.happened |= link.resume(&fixed.keys, &mut after.notices) != Polled::Nothing;
        }
        Ok(())
    }

    fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool {
        self.link(conn).cancel(ticket, &mut after.notices)
    }

    fn close(&mut self, conn: ConnId, after: &mut After) {
        self.link(conn).close(ViError::Closed, &mut after.notices);
    }

    fn release(&mut self, conn: ConnId, after: &mut After) {
        self.close(conn, after);
        self.links.remove(conn.0);
    }

    fn error(&self, conn: ConnId) -> Option<ViError> {
        self.links.find(conn.0)?.error()
    }

    fn counters(&self, conn: ConnId) -> Counters {
        self.links.find(conn.0).map(|link| link.counters()).unwrap_or_default()
    }

    /// Moves messages; now and then looks at the sockets. With one connection
    /// and nothing to do it costs about 25 ns, and one load of a line that is
    /// in the cache until the peer writes it.
    #[inline]
    fn poll(&mut self, after: &mut After) {
        if self.links.may_have_work() {
            return self.poll_now(after);
        }
        if self.pace.is_due() {
            self.look_if_time(after);
        }
    }

    /// When to tick again at the latest.
    fn next_event(&self) -> Option<Instant> {
        let door = self.door.as_ref().and_then(Door::next_deadline);
        let knocks = self.knocks.values().filter_map(Knocking::deadline);
        knocks.chain(door).chain(self.nap_until).min()
    }

    fn descriptor(&self) -> Option<MachineFd> {
        Some(MachineFd::Set(Arc::clone(&self.fixed.bells)))
    }

    /// From now on peers ring. Moves messages once more. Whether there were any.
    fn arm(&mut self, after: &mut After) -> bool {
        let is_sure = self.links.doze();
        self.nap_until = (!is_sure).then(|| after.now() + NAP);
        if !is_sure {
            self.fixed.habit = Habit::SleepsUnfenced;
        }
        let mut busy = false;
        self.links.look_last(is_sure, |link| {
            let polled = link.poll(&self.fixed.keys, &mut after.notices, true);
            busy |= polled != Polled::Nothing;
            after.happened |= polled.is_news();
            polled
        });
        busy
    }

    /// Peers need not ring any more. Deals with what ended a sleep.
    fn disarm(&mut self, woken: Woken<'_>, after: &mut After) {
        self.links.disarm();
        self.poll_quickly(after);
        let mut look = woken.has_slept() && woken.said().is_empty();
        for event in woken.said() {
            match self.rung(event.token) {
                Some(id) => self.poll_one(id, after),
                None => look = true,
            }
        }
        let is_time = self.pace.is_time(after);
        if is_time {
            self.links.time_passes();
        }
        if look || is_time {
            self.look(after);
        }
    }

    fn shut(&mut self, after: &mut After) {
        self.door = None;
        self.links.end_all(|link| link.close(ViError::NicDown, &mut after.notices));
        for Knocking { patience, .. } in std::mem::take(&mut self.knocks).into_values() {
            after.settle(patience.request.promise, Err(ConnectError::NicDown));
        }
        self.listeners.shut(after);
        after.happened = true;
    }

    fn has_eager(&self) -> bool {
        true
    }

    /// Sends an eager message, if nothing is against it.
    #[inline]
    fn try_send(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Option<NonZeroU64> {
        self.links.get(conn.0)?.try_send(lane, tag, parts)
    }

    fn send(
        &mut self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        after: &mut After,
    ) -> Result<Position, SendError> {
        let link = self.link(conn);
        let sent = link.send(lane, tag, parts, &mut after.notices);
        after.happened |= link.error().is_some();
        sent
    }

    fn arrived(&mut self, conn: ConnId, lane: Lane, asked: bool, after: &mut After) -> Position {
        let link = self.link(conn);
        let arrived = link.arrived(lane, asked, &mut after.notices);
        after.happened |= link.error().is_some();
        arrived
    }

    #[inline]
    fn drain(
        &mut self,
        drain: DrainId,
        budget: usize,
        sink: &mut Sink<'_>,
        after: &mut After,
    ) -> Drained {
        if !self.links.may_have_eager(drain) {
            return Drained::default();
        }
        self.drain_now(drain, budget, sink, after)
    }
}

/// Makes a connection with a visitor, if what it brings can be used.
fn admit(visitor: Visitor, spec: ViSpec, fixed: &Fixed) -> Option<Conn> {
    let ground = Ground::new(fixed.habit)?;
    let (theirs, trust) = (visitor.greeting.terms, visitor.agreed.trust());
    let (control, handles) = visitor.accept(&terms(spec.depth), ground.handles()).ok()?;
    // One whose part is unfit sees the connection end.
    ground.join(spec, trust, control, Met::new(&theirs, handles).ok()?)
}
