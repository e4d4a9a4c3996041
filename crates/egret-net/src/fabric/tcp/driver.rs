//! What a nic does: it moves messages, lets callers in, connects,
//! and takes leave.
//!
//! A few connections that were busy lately are read directly, which costs one
//! system call each; the set tells of all others, and is asked now and then, or
//! slept on. So a thousand that are idle cost nothing.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;

use super::acceptor::{Acceptor, Visitor};
use super::connector::Connector;
use super::datapath::Conn;
use super::leaving::Leavings;
use super::link::{Link, Polled};
use super::rounds::Active;
use super::send::Flushed;
use super::token::{ACCEPTOR, KNOCK, LINK, VISITOR};
use crate::fabric::greet::Stance;
use crate::fabric::hub::set::{self, SPACE, ready};
use crate::fabric::hub::{Links, Listeners, Outcome, Pace, connectors};
use crate::fabric::seal;
use crate::fabric::{After, ConnId, ConnectRequest, Made, ViSpec};
use crate::rt::Instant;
use crate::vi::{ConnectError, Keys, ViError, Wait};

/// A nic.
#[derive(Debug)]
pub(super) struct Driver {
    pub fixed: Fixed,
    /// `None` when the nic is down.
    pub acceptor: Option<Acceptor>,
    pub links: Links<u64, Link>,
    /// Those that are read directly.
    pub active: Vec<Active>,
    /// Those with something to write or to tell.
    pub dirty: Vec<u64>,
    /// Those whose eager messages are to be drained, which take turns.
    pub heard: VecDeque<u64>,
    pub connectors: BTreeMap<u64, Connector>,
    pub listeners: Listeners<Visitor>,
    pub leavings: Leavings,
    next_id: u64,
    /// When to look at what is slow.
    pub pace: Pace,
    /// Calls until the set is asked about the other connections.
    pub calls_left: u32,
    pub wait: Wait,
    /// Whether somebody sleeps: nobody comes by meanwhile.
    pub is_armed: bool,
    /// Calls that need not read after a frugal sleep.
    pub skips: u32,
    /// Where bytes land whose place is not known.
    staging: Box<[u8]>,
    /// An empty list.
    spare: Vec<u64>,
}

/// The part of a nic that stays as it is.
#[derive(Debug)]
pub(super) struct Fixed {
    pub host: String,
    pub keys: Arc<Keys>,
    /// The set of all sockets.
    pub set: Arc<OwnedFd>,
    pub stance: Stance,
    /// What connections are sealed by.
    pub seal: Seal,
}

/// What the connections of a nic are sealed by, if not by what their greeting left.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Seal {
    /// Whether fixed keys seal them, for tests.
    #[cfg(any(test, feature = "fuzzing"))]
    pub is_fixed: bool,
}

impl Seal {
    /// Of a connection that this side has asked for.
    pub(super) fn keys_of_caller(self) -> Option<seal::Keys> {
        #[cfg(any(test, feature = "fuzzing"))]
        if self.is_fixed {
            return Some(super::puppet::keys_of_caller());
        }
        None
    }

    /// Of a connection that the other side has asked for.
    pub(super) fn keys_of_callee(self) -> Option<seal::Keys> {
        #[cfg(any(test, feature = "fuzzing"))]
        if self.is_fixed {
            return Some(super::puppet::keys_of_callee());
        }
        None
    }
}

/// Calls between looks at the set, if there are connections that it alone tells of.
const SET_EVERY: u32 = 16;
/// Bytes that are read at once if their place is not known: many small messages, and
/// not much of a large one.
const STAGING: usize = 16 << 10;

impl Driver {
    pub(super) fn new(fixed: Fixed, acceptor: Acceptor, wait: Wait) -> Self {
        Self {
            fixed,
            acceptor: Some(acceptor),
            links: Links::default(),
            active: Vec::new(),
            dirty: Vec::new(),
            heard: VecDeque::new(),
            connectors: BTreeMap::new(),
            listeners: Listeners::default(),
            leavings: Leavings::default(),
            next_id: 1,
            pace: Pace::default(),
            calls_left: SET_EVERY,
            wait,
            is_armed: false,
            skips: 0,
            staging: vec![0; STAGING].into(),
            spare: Vec::new(),
        }
    }

    /// A connection has something to write.
    #[inline]
    pub(super) fn write_soon(&mut self, id: u64, after: &mut After) {
        self.come_by(id);
        if self.is_armed {
            self.push_now(id, after);
        }
    }

    /// Nobody comes by while somebody sleeps, so what there is to write is written at once.
    #[cold]
    pub(super) fn push_now(&mut self, id: u64, after: &mut After) {
        match self.push(id, after, false) {
            Some(Flushed::All) | None => {}
            Some(Flushed::Full) => self.watch(id),
            Some(Flushed::More) => after.happened = true,
        }
    }

    /// Makes a connection with a visitor. Of the welcome some may be left to write.
    pub(super) fn admit(&mut self, visitor: Visitor, spec: ViSpec) -> Option<Made> {
        let Visitor { mut stream, mut callee, host, .. } = visitor;
        let session = callee.welcome(&[]);
        let sent = stream.write(callee.outgoing()).ok()?;
        callee.sent(sent);
        let keys = self.fixed.seal.keys_of_callee().or(session.keys);
        let id = self.add(Conn::new(spec, stream, callee.outgoing(), keys))?;
        self.come_by(id);
        Some(session.known.made(ConnId(id), &host))
    }

    /// Begins to connect.
    pub(super) fn begin(&mut self, request: ConnectRequest, after: &mut After) {
        if let Err(why) = self.fixed.stance.check_callee(request.to.key) {
            return after.settle(request.promise, Err(why.into()));
        }
        let (id, now) = (self.unused(), after.now());
        self.connectors.insert(id, Connector::new(request, now));
        self.knock(id, now, after);
    }

    /// Ends a connection, if it is open. Eager messages that wait for company leave before.
    pub(super) fn end(&mut self, id: u64, why: &ViError, after: &mut After) {
        let Some(link) = self.links.open.get_mut(&id) else { return };
        link.write_eager(&self.fixed);
        link.close(why, &mut after.notices);
        self.over(id, after);
    }

    /// Nobody has a handle to one that is over any more.
    pub(super) fn forget(&mut self, id: u64) {
        self.links.release(id);
        self.heard.retain(|heard| *heard != id);
    }

    /// A connection that is open.
    fn conn(&mut self, id: u64) -> Option<&mut Conn> {
        self.links.open.get_mut(&id)?.end.open()
    }

    /// Takes what came of a connection, and forgets one that is over.
    #[inline]
    pub(super) fn poll_link(&mut self, id: u64, after: &mut After) -> Polled {
        let Some(link) = self.links.open.get_mut(&id) else { return Polled::Gone };
        let polled = link.poll(&self.fixed, &mut after.notices, &mut self.staging);
        if link.is_newly_dirty() {
            self.dirty.push(id);
            if self.is_armed {
                self.push_now(id, after);
            }
        }
        self.hear(id, after);
        if polled == Polled::Gone {
            self.over(id, after);
        }
        polled
    }

    /// Tells of eager messages that have come, and of room for them.
    #[inline]
    pub(super) fn hear(&mut self, id: u64, after: &mut After) {
        let Some(link) = self.links.open.get_mut(&id) else { return };
        let (has_news, is_heard) = link.take_news();
        after.happened |= has_news;
        if is_heard {
            self.heard.push_back(id);
        }
    }

    /// Writes what a connection has to say, and forgets one that is over.
    pub(super) fn push(&mut self, id: u64, after: &mut After, thorough: bool) -> Option<Flushed> {
        let flushed = self.links.open.get_mut(&id)?.push(&self.fixed, &mut after.notices, thorough);
        self.hear(id, after);
        if flushed.is_none() {
            self.over(id, after);
        }
        flushed
    }

    /// Writes what was posted. Whether there is more that could go.
    pub(super) fn push_all(&mut self, after: &mut After, thorough: bool) -> bool {
        let spare = std::mem::take(&mut self.spare);
        let (mut dirty, mut busy) = (std::mem::replace(&mut self.dirty, spare), false);
        for id in dirty.drain(..) {
            let Some(conn) = self.conn(id) else { continue };
            conn.is_dirty = false;
            // Nobody will look again soon at one that is left to the set.
            let thorough = thorough || !self.is_active(id);
            match self.push(id, after, thorough) {
                Some(Flushed::All) | None => {}
                Some(Flushed::More) => {
                    busy = true;
                    self.come_by(id);
                }
                Some(Flushed::Full) => self.await_room(id),
            }
        }
        self.spare = dirty;
        busy
    }

    /// Asks the set without waiting.
    #[cold]
    pub(super) fn look(&mut self, after: &mut After) {
        self.calls_left = SET_EVERY;
        self.acceptor.iter_mut().for_each(Acceptor::turn);
        for event in ready(&self.fixed.set, &mut { SPACE }, Some(Duration::ZERO)) {
            let has_room = { event.flags }.contains(EventFlags::OUT);
            self.ready(event.data.u64(), has_room, after);
        }
        self.tick(after.now(), after);
    }

    /// Deals with what the set said.
    pub(super) fn ready(&mut self, token: u64, has_room: bool, after: &mut After) {
        match set::read(token) {
            (LINK, id) => self.ready_link(id, has_room, after),
            (ACCEPTOR, _) => {
                let (now, mut next) = (after.now(), self.next_id);
                let visitors = self.acceptor.as_mut().map(|acceptor| {
                    acceptor.knocked(&self.fixed.set, now, || {
                        next += 1;
                        next - 1
                    })
                });
                self.next_id = next;
                for visitor in visitors.into_iter().flatten() {
                    self.listeners.arrived(visitor, after);
                }
            }
            (VISITOR, id) => {
                let acceptor = self.acceptor.as_mut();
                if let Some(visitor) =
                    acceptor.and_then(|acceptor| acceptor.heard(id, &self.fixed.set, after.now()))
                {
                    self.listeners.arrived(visitor, after);
                }
            }
            (KNOCK, id) => self.knock(id, after.now(), after),
            (_, id) => self.leavings.ready(id, &self.fixed.set),
        }
    }

    fn ready_link(&mut self, id: u64, has_room: bool, after: &mut After) {
        if has_room && let Some(conn) = self.conn(id) {
            conn.is_full = false;
            // What was owed meanwhile goes too: nobody else would tell it.
            match self.push(id, after, true) {
                Some(Flushed::All) => self.watch(id),
                Some(Flushed::More) => {
                    self.watch(id);
                    self.come_by(id);
                }
                // The set goes on telling.
                Some(Flushed::Full) => {}
                None => return,
            }
        }
        if self.poll_link(id, after) == Polled::Something {
            if !self.conn(id).is_some_and(|conn| conn.is_full) {
                self.activate(id);
            }
            if !self.is_active(id) {
                self.come_by(id);
            }
        }
    }

    fn watch(&mut self, id: u64) {
        if let Some(link) = self.links.open.get_mut(&id) {
            let _ = link.watch(&self.fixed);
        }
    }

    /// The set says when a connection whose socket is full can go on; to try again and
    /// again would keep the kernel from emptying it.
    fn await_room(&mut self, id: u64) {
        self.active.retain(|active| active.id != id);
        let Some(link) = self.links.open.get_mut(&id) else { return };
        if link.watch(&self.fixed).is_err() {
            // Then it is tried again.
            if let Some(conn) = self.conn(id) {
                conn.is_full = false;
            }
            self.come_by(id);
        }
    }

    /// A connection is over.
    pub(super) fn over(&mut self, id: u64, after: &mut After) {
        self.active.retain(|active| active.id != id);
        let Some(link) = self.links.end(id) else { return };
        after.happened = true;
        if let Some(mut leaving) = link.take_leaving()
            // At once: who leaves may never drive its nic again.
            && !leaving.push()
        {
            let (id, now) = (self.unused(), after.now());
            self.leavings.add(id, leaving, &self.fixed.set, now);
        }
    }

    /// Knocks where it is time to, sends the slow away, forgets what is over.
    pub(super) fn tick(&mut self, now: Instant, after: &mut After) {
        self.pace.looked(now);
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.tick(&self.fixed.set, now);
        }
        self.leavings.tick(now);
        for id in self.connectors.keys().copied().collect::<Vec<_>>() {
            self.knock(id, now, after);
        }
    }

    /// Looks at a connection that is being made.
    pub(super) fn knock(&mut self, id: u64, now: Instant, after: &mut After) {
        let Some(connector) = self.connectors.get_mut(&id) else { return };
        let outcome = match connector.poll(&self.fixed, id, now) {
            Outcome::Pending => connector.tick(&self.fixed, id, now),
            outcome => outcome,
        };
        let Some((connector, result)) = connectors::over(&mut self.connectors, &id, outcome) else {
            return;
        };
        let result = result.and_then(|(conn, known, behind)| {
            let id = self.add(*conn).ok_or(ConnectError::NicDown)?;
            let link = self.links.of_handle(id);
            link.take_first(&behind, &self.fixed, &mut after.notices, &mut self.staging);
            let is_over = link.end.error().is_some();
            self.hear(id, after);
            if is_over {
                self.over(id, after);
            } else {
                self.come_by(id);
            }
            Ok(known.made(ConnId(id), &connector.patience.request.to.host))
        });
        connectors::settle(connector, result, after);
    }

    /// A link that the set cannot watch would not notice its peer's death.
    pub(super) fn add(&mut self, conn: Conn) -> Option<u64> {
        let id = self.unused();
        let mut link = Link::new(id, conn);
        link.watch(&self.fixed).ok()?;
        self.links.open.insert(id, link);
        self.activate(id);
        Some(id)
    }

    /// Has this nic write what a connection has to say, soon.
    pub(super) fn come_by(&mut self, id: u64) {
        if self.conn(id).is_some_and(|conn| !std::mem::replace(&mut conn.is_dirty, true)) {
            self.dirty.push(id);
        }
    }

    pub(super) fn unused(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }
}

#[cfg(test)]
impl Driver {
    /// Bytes that its connections have written, ever.
    pub(super) fn written(&mut self) -> u64 {
        self.links.open.values_mut().map(Link::written).sum()
    }

    /// The streams of those that are open.
    pub(super) fn streams(&mut self) -> impl Iterator<Item = &mut super::stream::Stream> {
        let ends = self.links.open.values_mut().filter_map(|link| link.end.open());
        ends.map(|conn| &mut conn.stream)
    }
}
