//! A nic that loses nothing, above one that does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use super::fault::{Fault, planted};
use super::leaving::LINGERING_MAX;
use super::link::{Ground, Link};
use super::{DEPTH, TRANSFER_MAX};
use crate::fabric::{
    After, ConnId, ConnectRequest, ListenerName, Machine, MachineFd, Made, Unposted, ViSpec, Woken,
    World,
};
use crate::rt::Instant;
use crate::vi::{
    Below, Completion, Counters, Keys, Limits, ListenError, Op, OpKind, Posted, Reliability,
    Settled, Ticket, ViError, ViId,
};

/// The machine of a nic with windows.
#[derive(Debug)]
pub(super) struct Windowed {
    pub below: Box<dyn Machine>,
    pub posts: Below,
    /// Where datagrams land.
    ground: Arc<Ground>,
    keys: Arc<Keys>,
    world: Option<Arc<dyn World>>,
    links: BTreeMap<ConnId, Link>,
    by_vi: BTreeMap<ViId, ConnId>,
    /// Those with something to send.
    dirty: BTreeSet<ConnId>,
    /// When they have something to do though nothing comes.
    timers: BTreeSet<(Instant, ConnId)>,
    /// Those whose peer does not know how far this side is.
    owing: BTreeSet<ConnId>,
    /// Those that are over here, and until when they are waited for at most.
    lingering: BTreeSet<(Instant, ConnId)>,
    /// Polls in a row that found nothing.
    idle: u32,
    /// What was settled below.
    settled: Settled,
    /// What a call of the machine below leaves to do.
    after: After,
    /// Until when somebody sleeps, if somebody does.
    slept: Option<Option<Instant>>,
}

/// Polls that found nothing, after which peers are told how far this side is.
const IDLE_MAX: u32 = 8;

impl Windowed {
    pub(super) fn new(below: Box<dyn Machine>) -> Self {
        Self {
            keys: Arc::clone(below.keys()),
            world: below.world(),
            below,
            posts: Below::new(),
            ground: Ground::new(),
            links: BTreeMap::new(),
            by_vi: BTreeMap::new(),
            dirty: BTreeSet::new(),
            timers: BTreeSet::new(),
            owing: BTreeSet::new(),
            lingering: BTreeSet::new(),
            idle: 0,
            settled: Settled::default(),
            after: After::default(),
            slept: None,
        }
    }

    /// Connections that are not gone, for tests.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.links.len()
    }

    /// A connection, for tests.
    #[cfg(test)]
    pub(super) fn first(&self) -> Option<ConnId> {
        self.links.keys().next().copied()
    }

    fn now(&self, after: &mut After) -> Instant {
        self.world.as_ref().map_or_else(|| after.now(), |world| world.now())
    }

    /// Calls the machine below. What comes to this one alone is no news to anybody else.
    fn call<R>(
        &mut self,
        after: &mut After,
        body: impl FnOnce(&mut dyn Machine, &mut After) -> R,
    ) -> R {
        self.after.begin();
        let result = body(&mut *self.below, &mut self.after);
        self.after.take_settled(&self.settled);
        self.after.notices.counted();
        self.after.move_to(after);
        result
    }

    /// A connection was made below.
    fn made(&mut self, made: &Made, after: &mut After) {
        let (conn, vi) = (made.conn, ViId::unused());
        let link = Link::new(vi, self.below.datagram_max(conn));
        for receive in self.ground.receives().collect::<Vec<_>>() {
            let posted = self.posts.post(vi, Op::Recv, receive);
            let _ = self.call(after, |below, after| below.post(conn, posted, after));
        }
        self.links.insert(conn, link);
        self.by_vi.insert(vi, conn);
    }

    /// Takes what has come from below, and sends what there is to send, until there is no more.
    /// Whether something came.
    fn work(&mut self, after: &mut After) -> bool {
        let mut came = false;
        loop {
            let more = self.take_settled(after) | self.take_completed(after);
            came |= more;
            if !more && self.dirty.is_empty() {
                return came;
            }
            while let Some(conn) = self.dirty.pop_first() {
                self.flush(conn, false, after);
            }
        }
    }

    fn take_settled(&mut self, after: &mut After) -> bool {
        let mut any = false;
        loop {
            let next = self.settled.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((promise, result)) = next else { return any };
            any = true;
            if let Ok(made) = &result {
                self.made(made, after);
            }
            after.settle(promise, result);
        }
    }

    fn take_completed(&mut self, after: &mut After) -> bool {
        let mut came = false;
        while let Some(completion) = self.posts.take() {
            let Some(&conn) = self.by_vi.get(&completion.vi) else { continue };
            came |= completion.op == OpKind::Recv;
            self.completed(conn, completion, after);
        }
        came
    }

    /// Something posted below came back.
    fn completed(&mut self, conn: ConnId, completion: Completion, after: &mut After) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        if completion.op == OpKind::Send {
            link.sent(completion);
            if link.has_more() {
                self.dirty.insert(conn);
            }
            return;
        }
        if completion.status.is_err() {
            // A message that did not fit is none of the peer's; the end is found by its error.
            return match self.below.error(conn) {
                Some(why) => self.ended_below(conn, &why, after),
                None => self.receive_again(conn, completion, after),
            };
        }
        let now = self.now(after);
        let Some(link) = self.links.get_mut(&conn) else { return };
        let heard = link.hear(now, completion.bytes(), &self.keys, &mut after.notices);
        self.receive_again(conn, completion, after);
        self.dirty.insert(conn);
        if let Err(why) = heard {
            self.end(conn, &why, after);
        }
    }

    fn receive_again(&mut self, conn: ConnId, completion: Completion, after: &mut After) {
        let vi = completion.vi;
        let posted = self.posts.post(vi, Op::Recv, completion.into_descriptor());
        let _ = self.call(after, |below, after| below.post(conn, posted, after));
    }

    /// Ends a connection, if it is open, for a reason that this side has found.
    fn end(&mut self, conn: ConnId, why: &ViError, after: &mut After) {
        let now = self.now(after);
        let Some(link) = self.links.get_mut(&conn) else { return };
        if !link.end(now, why, &mut after.notices) {
            return;
        }
        after.happened = true;
        self.dirty.insert(conn);
        self.lingering.extend(link.leaving_until.map(|until| (until, conn)));
        if self.lingering.len() > LINGERING_MAX
            && !planted(Fault::LingerAll)
            && let Some((_, oldest)) = self.lingering.pop_first()
            && let Some(link) = self.links.get_mut(&oldest)
        {
            link.leaving = None;
            self.dirty.insert(oldest);
        }
    }

    /// The connection below is no more.
    fn ended_below(&mut self, conn: ConnId, why: &ViError, after: &mut After) {
        let now = self.now(after);
        let Some(link) = self.links.get_mut(&conn) else { return };
        after.happened |= link.end(now, why, &mut after.notices);
        link.leaving = None;
        self.left(conn, after);
    }

    /// Sends what is due, and finds who is silent, or has left.
    fn flush(&mut self, conn: ConnId, thorough: bool, after: &mut After) {
        let now = self.now(after);
        let Some(link) = self.links.get_mut(&conn) else { return };
        if let Err(why) = link.resume(now, &self.keys, &mut after.notices) {
            self.end(conn, &why, after);
        }
        let Some(link) = self.links.get_mut(&conn) else { return };
        link.feed(now, (&self.keys, thorough), self.below.datagram_max(conn));
        while let Some(link) = self.links.get_mut(&conn)
            && let Some(datagram) = link.poll_datagram(now)
        {
            let posted = self.posts.post(link.vi, Op::Send, datagram);
            let _ = self.call(after, |below, after| below.post(conn, posted, after));
        }
        self.look_after(conn, now, after);
    }

    /// Notes when a connection has something to do next, if it has not left.
    fn look_after(&mut self, conn: ConnId, now: Instant, after: &mut After) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        if let Some(why) = link.is_silent(now) {
            after.happened |= link.end(now, &why, &mut after.notices);
            link.leaving = None;
        }
        if link.has_left(now) {
            self.call(after, |below, after| below.close(conn, after));
            return self.left(conn, after);
        }
        if link.owes() {
            self.owing.insert(conn);
        } else {
            self.owing.remove(&conn);
        }
        let next = link.next_event();
        let before = std::mem::replace(&mut link.timer, next);
        if before != next {
            before.map(|at| self.timers.remove(&(at, conn)));
            next.map(|at| self.timers.insert((at, conn)));
        }
        let is_sooner = |until: Option<Instant>| {
            next.is_some_and(|next| until.is_none_or(|until| next < until))
        };
        if self.slept.is_some_and(is_sooner) && !planted(Fault::SleepsOn) {
            after.happened = true;
        }
    }

    /// A connection needs nothing more from below.
    fn left(&mut self, conn: ConnId, after: &mut After) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        if let Some(at) = link.timer.take() {
            self.timers.remove(&(at, conn));
        }
        if let Some(until) = link.leaving_until.take() {
            self.lingering.remove(&(until, conn));
        }
        self.owing.remove(&conn);
        self.dirty.remove(&conn);
        if link.is_released {
            let vi = link.vi;
            self.links.remove(&conn);
            self.by_vi.remove(&vi);
            self.call(after, |below, after| below.release(conn, after));
        }
    }

    /// Looks at those whose time has come.
    fn tick(&mut self, after: &mut After) {
        if self.timers.is_empty() {
            return;
        }
        let now = self.now(after);
        while let Some(&(at, conn)) = self.timers.first().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, conn));
            if let Some(link) = self.links.get_mut(&conn) {
                link.timer = None;
            }
            self.flush(conn, false, after);
        }
        self.work(after);
    }

    /// Tells peers how far this side is.
    fn tell(&mut self, after: &mut After) {
        for conn in std::mem::take(&mut self.owing) {
            self.flush(conn, true, after);
        }
        self.work(after);
    }
}

impl Machine for Windowed {
    fn host(&self) -> &str {
        self.below.host()
    }

    fn limits(&self) -> Limits {
        let mut limits = self.below.limits();
        limits.queue_depth = DEPTH;
        limits.transfer_max = TRANSFER_MAX;
        limits.reliability = [false, true, false];
        limits
    }

    fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    fn listen(&mut self, name: &ListenerName, reliability: Reliability) -> Result<(), ListenError> {
        self.below.listen(name, reliability)
    }

    fn unlisten(&mut self, name: &ListenerName, after: &mut After) {
        self.call(after, |below, after| below.unlisten(name, after));
    }

    fn wake_on_arrival(&mut self, name: &ListenerName, waker: Waker) -> Option<Waker> {
        self.below.wake_on_arrival(name, waker)
    }

    fn accept(
        &mut self,
        name: &ListenerName,
        spec: ViSpec,
        after: &mut After,
    ) -> Result<Option<Made>, ListenError> {
        let spec = ViSpec { carries: Reliability::Unreliable, ..spec };
        let made = self.call(after, |below, after| below.accept(name, spec, after))?;
        if let Some(made) = &made {
            self.made(made, after);
        }
        Ok(made)
    }

    fn connect(&mut self, mut request: ConnectRequest, after: &mut After) {
        request.spec.carries = Reliability::Unreliable;
        request.promise = request.promise.by_way_of(&self.settled);
        self.call(after, |below, after| below.connect(request, after));
        self.work(after);
    }

    fn post(&mut self, conn: ConnId, posted: Posted, after: &mut After) -> Result<(), Unposted> {
        let link = self.links.get_mut(&conn).expect("a handle keeps it");
        link.post(posted, &mut after.notices)?;
        if let Some(why) = link.is_flooded() {
            self.end(conn, &why, after);
        }
        self.flush(conn, false, after);
        self.take_completed(after);
        Ok(())
    }

    fn cancel(&mut self, conn: ConnId, ticket: Ticket, after: &mut After) -> bool {
        let link = self.links.get_mut(&conn).expect("a handle keeps it");
        link.cancel(ticket, &mut after.notices)
    }

    fn close(&mut self, conn: ConnId, after: &mut After) {
        self.end(conn, &ViError::Closed, after);
        self.work(after);
    }

    fn release(&mut self, conn: ConnId, after: &mut After) {
        self.close(conn, after);
        let Some(link) = self.links.get_mut(&conn) else { return };
        link.is_released = true;
        if link.leaving.is_none() {
            self.left(conn, after);
        }
    }

    fn error(&self, conn: ConnId) -> Option<ViError> {
        self.links.get(&conn).expect("a handle keeps it").error()
    }

    fn counters(&self, conn: ConnId) -> Counters {
        self.links.get(&conn).expect("a handle keeps it").counters()
    }

    fn poll(&mut self, after: &mut After) {
        if self.world.is_none() {
            self.call(after, |below, after| below.poll(after));
        }
        let came = self.work(after);
        self.tick(after);
        self.idle = if came { 0 } else { self.idle.saturating_add(1) };
        if self.idle >= IDLE_MAX && !self.owing.is_empty() {
            self.idle = 0;
            self.tell(after);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let own = self.timers.first().map(|(at, _)| *at);
        own.into_iter().chain(self.below.next_event()).min()
    }

    fn descriptor(&self) -> Option<MachineFd> {
        self.below.descriptor()
    }

    fn arm(&mut self, after: &mut After) -> bool {
        let is_busy = self.call(after, |below, after| below.arm(after));
        let came = self.work(after);
        self.tick(after);
        self.tell(after);
        self.slept = Some(self.next_event());
        is_busy || came
    }

    fn disarm(&mut self, woken: Woken<'_>, after: &mut After) {
        self.slept = None;
        self.call(after, |below, after| below.disarm(woken, after));
        self.work(after);
        self.tick(after);
    }

    fn shut(&mut self, after: &mut After) {
        let all: Vec<ConnId> = self.links.keys().copied().collect();
        for conn in all {
            self.end(conn, &ViError::NicDown, after);
        }
        self.work(after);
        self.call(after, |below, after| below.shut(after));
    }

    fn world(&self) -> Option<Arc<dyn World>> {
        self.world.clone()
    }

    fn is_driven(&self) -> bool {
        true
    }
}
