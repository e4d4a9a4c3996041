//! Progress of a nic with windows: it receives datagrams and sends them, and looks after connections.
//!
//! Repeated names: `Driver`, one in each fabric.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError};

use super::closing::LINGERING_MAX;
use super::connection::Connection;
use super::fault::{Fault, planted};
use super::lanes::WindowLane;
use super::train::Train;
use crate::fabric::common::PollTimer;
use crate::fabric::{After, ConnId, DatagramEvent, Machine, NewConnection, ViSpec, VirtualTime};
use crate::rt::Instant;
use crate::vi::{Keys, Settled, ViError};

/// A nic with windows. Connections of the unreliable level have none, and are those of
/// the machine below: what is not among the `links` is one of them.
#[derive(Debug)]
pub(super) struct Driver {
    pub below: Box<dyn Machine>,
    pub keys: Arc<Keys>,
    pub world: Option<Arc<dyn VirtualTime>>,
    pub links: BTreeMap<ConnId, Connection>,
    /// Connections with something to send, and some that are gone.
    pub dirty: VecDeque<ConnId>,
    /// Connections with datagrams that the machine below had no room for.
    full: BTreeSet<ConnId>,
    /// When to poll each connection though nothing arrives. An entry that is put off stays, so that most messages leave
    /// the set alone: a connection polled too soon is polled again.
    pub timers: BTreeSet<(Instant, ConnId)>,
    /// Connections whose peer has not been sent the latest counts, and some that have sent them since.
    pub owing: Vec<ConnId>,
    /// Connections that have ended on this side, and until when they are waited for at most.
    lingering: BTreeSet<(Instant, ConnId)>,
    /// Connections with eager messages to be drained, in the order in which they are.
    pub heard: VecDeque<ConnId>,
    /// Datagrams that are about to leave.
    train: Train,
    /// Polls in a row that found nothing, and that found something.
    pub idle: u32,
    pub streak: u32,
    /// How often to look at the clock though nothing comes.
    pub pace: PollTimer,
    /// What was settled below.
    pub settled: Settled,
    /// Until when a thread sleeps, if one does.
    pub slept: Option<Option<Instant>>,
}

/// Polls that found nothing, after which peers are told how far this side is.
pub(super) const IDLE_MAX: u32 = 8;
/// Datagrams taken at one poll, if they come in a row.
pub(super) const BATCH: u32 = 64;
/// Connections that are gone, and may still be among those that owe.
const GONE_MAX: usize = 64;
/// How many eager messages wait to leave together.
const COMPANY: usize = 16;

impl Driver {
    pub(super) fn new(below: Box<dyn Machine>) -> Self {
        assert!(below.has_datagrams(), "a machine without datagrams has nothing for a window");
        Self {
            keys: Arc::clone(below.keys()),
            world: below.world(),
            below,
            links: BTreeMap::new(),
            dirty: VecDeque::new(),
            full: BTreeSet::new(),
            timers: BTreeSet::new(),
            owing: Vec::new(),
            lingering: BTreeSet::new(),
            heard: VecDeque::new(),
            train: Train::default(),
            idle: 0,
            streak: 0,
            pace: PollTimer::default(),
            settled: Settled::default(),
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

    pub(super) fn now(&self, after: &mut After) -> Instant {
        self.world.as_ref().map_or_else(|| after.now(), |world| world.now())
    }

    /// A connection was made below. One that is to lose nothing has a window.
    pub(super) fn made(
        links: &mut BTreeMap<ConnId, Connection>,
        made: &NewConnection,
        spec: &ViSpec,
    ) {
        if spec.reliability.is_reliable() {
            // How much its path carries, and what goes around a datagram, is asked when something is sent.
            links.insert(made.conn, Connection::new(spec));
        }
    }

    /// Hears of connections that were made below, or were not, also by another call or thread.
    pub(super) fn take_settled(&mut self, after: &mut After) {
        Self::settle(&self.settled, &mut self.links, after);
    }

    fn settle(settled: &Settled, links: &mut BTreeMap<ConnId, Connection>, after: &mut After) {
        after.take_settled(settled);
        loop {
            let next = settled.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some((promise, spec, result)) = next else { return };
            if let Ok(made) = &result {
                Self::made(links, made, &spec);
            }
            after.settle(promise, result);
        }
    }

    /// Takes what has come, at most so many datagrams. How many there were.
    pub(super) fn receive(&mut self, most: u32, after: &mut After) -> u32 {
        let mut count = 0;
        while count < most
            && let Some((conn, heard)) = self.hear(after)
        {
            count += 1;
            if let Err(why) = heard {
                self.end(conn, &why, after);
            }
        }
        self.take_settled(after);
        count
    }

    /// Processes the next datagram of a sender, which may have lied.
    fn hear(&mut self, after: &mut After) -> Option<(ConnId, Result<(), ViError>)> {
        loop {
            let ended = match self.below.next_datagram(after)? {
                DatagramEvent::Ended(conn) => conn,
                DatagramEvent::Datagram(conn, bytes) => {
                    let now = match &self.world {
                        Some(world) => world.now(),
                        None => after.now(),
                    };
                    if !self.links.contains_key(&conn) {
                        // Its welcome may have come just before.
                        Self::settle(&self.settled, &mut self.links, after);
                    }
                    // One that is not known is heard when its sender repeats itself.
                    let Some(link) = self.links.get_mut(&conn) else { continue };
                    mark(&mut self.dirty, conn, link);
                    return Some((conn, link.hear(now, bytes, &self.keys, &mut after.notices)));
                }
            };
            if !self.links.contains_key(&ended) {
                // It may have been made just before.
                self.take_settled(after);
            }
            // A released connection has no handle.
            if self.links.contains_key(&ended) {
                let why = self.below.error(ended).unwrap_or(ViError::Closed);
                self.ended_below(ended, &why, after);
            }
        }
    }

    /// Sends what there is to send.
    pub(super) fn flush_dirty(&mut self, after: &mut After) {
        while let Some(conn) = self.dirty.pop_front() {
            self.flush(conn, false, after);
        }
    }

    /// Takes what has come, and sends what there is to send. Whether something came.
    pub(super) fn work(&mut self, most: u32, after: &mut After) -> bool {
        let count = self.receive(most, after);
        for conn in std::mem::take(&mut self.full) {
            self.mark(conn);
        }
        self.flush_dirty(after);
        count > 0
    }

    /// Ends a connection, if it is open, for a reason that this side has found.
    pub(super) fn end(&mut self, conn: ConnId, why: &ViError, after: &mut After) {
        let now = self.now(after);
        let Some(link) = self.links.get_mut(&conn) else { return };
        if !link.end(now, why, &mut after.notices) {
            return;
        }
        after.happened = true;
        mark(&mut self.dirty, conn, link);
        self.lingering.extend(link.leaving_until.map(|until| (until, conn)));
        if self.has_too_many_lingering()
            && let Some((_, oldest)) = self.lingering.pop_first()
            && let Some(link) = self.links.get_mut(&oldest)
        {
            link.leaving = None;
            mark(&mut self.dirty, oldest, link);
        }
    }

    fn has_too_many_lingering(&self) -> bool {
        self.lingering.len() > LINGERING_MAX && !planted(Fault::LingerAll)
    }

    /// The connection below is no more.
    pub(super) fn ended_below(&mut self, conn: ConnId, why: &ViError, after: &mut After) {
        let now = self.now(after);
        let Some(link) = self.links.get_mut(&conn) else { return };
        after.happened |= link.end(now, why, &mut after.notices);
        link.leaving = None;
        tell_news(&mut self.heard, conn, link, after);
        self.left(conn, after);
    }

    /// A connection has something to send, or may have.
    pub(super) fn mark(&mut self, conn: ConnId) {
        if let Some(link) = self.links.get_mut(&conn) {
            mark(&mut self.dirty, conn, link);
        }
    }

    /// Sends what is due, and finds who is silent, or has left.
    pub(super) fn flush(&mut self, conn: ConnId, thorough: bool, after: &mut After) {
        let now = self.now(after);
        let Self { links, below, keys, train, full, .. } = self;
        let Some(link) = links.get_mut(&conn) else { return };
        link.is_dirty = false;
        if thorough || link.has_work(now) {
            if let Err(why) = link.feed(now, thorough, keys, &mut after.notices) {
                self.end(conn, &why, after);
                return self.flush(conn, thorough, after);
            }
            if !link.send_due(now, (conn, &mut **below), train, after) {
                full.insert(conn);
            }
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
        tell_news(&mut self.heard, conn, link, after);
        if link.has_left(now) {
            self.below.close(conn, after);
            return self.left(conn, after);
        }
        if link.note(now) && !std::mem::replace(&mut link.is_owing, true) {
            self.owing.push(conn);
        }
        let Some(next) = link.next_event() else { return };
        if link.timer.is_none_or(|timer| next < timer) {
            let before = link.timer.replace(next);
            before.map(|at| self.timers.remove(&(at, conn)));
            self.timers.insert((next, conn));
        }
        after.happened |= self.sleeps_beyond(next);
    }

    /// Whether a thread sleeps, and not only until then.
    fn sleeps_beyond(&self, next: Instant) -> bool {
        let is_sooner = |until: Option<Instant>| until.is_none_or(|until| next < until);
        self.slept.is_some_and(is_sooner) && !planted(Fault::SleepsOn)
    }

    /// A connection needs nothing more from below.
    pub(super) fn left(&mut self, conn: ConnId, after: &mut After) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        if let Some(at) = link.timer.take() {
            self.timers.remove(&(at, conn));
        }
        if let Some(until) = link.leaving_until.take() {
            self.lingering.remove(&(until, conn));
        }
        link.unsent = None;
        self.full.remove(&conn);
        if link.is_released {
            self.links.remove(&conn);
            self.below.release(conn, after);
            if self.owing.len() > 2 * self.links.len() + GONE_MAX {
                // Each that is not gone is there once.
                self.owing.retain(|conn| self.links.contains_key(conn));
            }
        }
    }

    /// Looks at those whose time has come.
    pub(super) fn tick(&mut self, after: &mut After) {
        let Some(&(first, _)) = self.timers.first() else { return };
        let now = self.now(after);
        if first > now {
            return;
        }
        let due: Vec<(Instant, ConnId)> =
            self.timers.iter().take_while(|(at, _)| *at <= now).copied().collect();
        for (at, conn) in due {
            self.timers.remove(&(at, conn));
            if let Some(link) = self.links.get_mut(&conn) {
                link.timer = None;
                if link.window().is_some_and(|window| window.loses_long()) {
                    self.below.doubt_path(conn);
                }
            }
            self.flush(conn, false, after);
        }
        self.flush_dirty(after);
    }

    /// Tells peers how far this side is.
    pub(super) fn tell(&mut self, after: &mut After) {
        let now = self.now(after);
        for conn in std::mem::take(&mut self.owing) {
            let Some(link) = self.links.get_mut(&conn) else { continue };
            link.is_owing = false;
            if link.note(now) {
                self.flush(conn, true, after);
            }
        }
        self.flush_dirty(after);
    }

    /// Whether as many eager messages wait as go together.
    pub(super) fn has_company(&mut self, conn: ConnId) -> bool {
        let window = self.links.get_mut(&conn).and_then(Connection::window);
        window.is_some_and(|window| window.waiting(WindowLane::Eager) >= COMPANY)
    }
}

/// Notes that a connection has something to send, or may have.
#[inline]
fn mark(dirty: &mut VecDeque<ConnId>, conn: ConnId, link: &mut Connection) {
    if !std::mem::replace(&mut link.is_dirty, true) {
        dirty.push_back(conn);
    }
}

/// Says that eager messages have come, or that there is room for them.
#[inline]
fn tell_news(heard: &mut VecDeque<ConnId>, conn: ConnId, link: &mut Connection, after: &mut After) {
    let (has_news, is_heard) = link.take_news();
    after.happened |= has_news;
    if is_heard {
        heard.push_back(conn);
    }
}
