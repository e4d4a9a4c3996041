//! Progress of a nic: it moves messages, accepts, connects and closes.
//!
//! A few connections that were busy lately are read directly, which costs one system call each; epoll
//! reports all others, and is asked now and then, or slept on. So a thousand idle connections cost nothing.
//!
//! Repeated names: `Driver`, one in each fabric.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rustix::event::epoll::EventFlags;

use super::acceptor::{Acceptor, TcpRequest};
use super::closing::TcpClosings;
use super::connection::{Connection, ConnectionPoll};
use super::connector::Connector;
use super::datapath::DataPath;
use super::nic_context::{ACCEPTOR, CONNECTION, CONNECTOR, HANDSHAKE, TcpNicContext};
use super::rounds::ActiveConnection;
use super::send::Flushed;
use crate::fabric::common::epoll::{self, SPACE, ready};
use crate::fabric::common::{ConnectOutcome, ConnectionTable, Listeners, PollTimer, connectors};
use crate::fabric::{After, ConnId, ConnectRequest, NewConnection, ViSpec};
use crate::rt::Instant;
use crate::vi::{ConnectError, ViError, Wait};

/// A nic.
#[derive(Debug)]
pub(super) struct Driver {
    pub fixed: TcpNicContext,
    /// `None` when the nic is down.
    pub acceptor: Option<Acceptor>,
    pub links: ConnectionTable<u64, Connection>,
    /// The connections that are read directly.
    pub active: Vec<ActiveConnection>,
    /// The connections with something to write.
    pub dirty: Vec<u64>,
    /// The connections whose eager messages are to be drained, which take turns.
    pub heard: VecDeque<u64>,
    pub connectors: BTreeMap<u64, Connector>,
    pub listeners: Listeners<TcpRequest>,
    pub closings: TcpClosings,
    next_id: u64,
    /// When to look at what is slow.
    pub pace: PollTimer,
    /// Calls until the set is asked about the other connections.
    pub calls_left: u32,
    pub wait: Wait,
    /// Whether a thread sleeps on epoll: nothing is written by polls meanwhile.
    pub is_armed: bool,
    /// Calls that need not read after a frugal sleep.
    pub skips: u32,
    /// Buffer for bytes whose place is not known when they are read.
    staging: Box<[u8]>,
    /// An empty list.
    spare: Vec<u64>,
}

/// Polls between two looks at epoll, if there are connections that it alone reports.
const SET_EVERY: u32 = 16;
/// Bytes that are read at once if their place is not known: many small messages, and
/// not much of a large one.
const STAGING: usize = 16 << 10;

impl Driver {
    pub(super) fn new(fixed: TcpNicContext, acceptor: Acceptor, wait: Wait) -> Self {
        Self {
            fixed,
            acceptor: Some(acceptor),
            links: ConnectionTable::default(),
            active: Vec::new(),
            dirty: Vec::new(),
            heard: VecDeque::new(),
            connectors: BTreeMap::new(),
            listeners: Listeners::default(),
            closings: TcpClosings::default(),
            next_id: 1,
            pace: PollTimer::default(),
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
        self.mark_dirty(id);
        if self.is_armed {
            self.push_now(id, after);
        }
    }

    /// Writes at once: no poll visits the connection while a thread sleeps.
    #[cold]
    pub(super) fn push_now(&mut self, id: u64, after: &mut After) {
        match self.push(id, after, false) {
            Some(Flushed::All) | None => {}
            Some(Flushed::Full) => self.watch(id),
            Some(Flushed::More) => after.happened = true,
        }
    }

    /// Accepts a connection request. A part of the welcome may be left to write.
    pub(super) fn admit(&mut self, request: TcpRequest, spec: ViSpec) -> Option<NewConnection> {
        let TcpRequest { mut stream, mut callee, host, .. } = request;
        let session = callee.welcome(&[]);
        let sent = stream.write(callee.outgoing()).ok()?;
        callee.sent(sent);
        let keys = self.fixed.seal.keys_of_callee().or(session.keys);
        let id = self.add(DataPath::new(spec, stream, callee.outgoing(), keys))?;
        self.mark_dirty(id);
        Some(session.known.made(ConnId(id), &host))
    }

    /// Begins to connect.
    pub(super) fn begin(&mut self, request: ConnectRequest, after: &mut After) {
        if let Err(why) = self.fixed.credentials.check_callee(request.to.key) {
            return after.settle(request.promise, Err(why.into()));
        }
        let (id, now) = (self.unused(), after.now());
        self.connectors.insert(id, Connector::new(request, now));
        self.attempt(id, now, after);
    }

    /// Closes a connection, if it is open. Eager messages that wait for a batch leave before.
    pub(super) fn end(&mut self, id: u64, why: &ViError, after: &mut After) {
        let Some(link) = self.links.open.get_mut(&id) else { return };
        link.write_eager(&self.fixed);
        link.close(why, &mut after.notices);
        self.over(id, after);
    }

    /// Drops a closed connection whose handle is gone.
    pub(super) fn forget(&mut self, id: u64) {
        self.links.release(id);
        self.heard.retain(|heard| *heard != id);
    }

    /// A connection that is open.
    fn conn(&mut self, id: u64) -> Option<&mut DataPath> {
        self.links.open.get_mut(&id)?.end.open()
    }

    /// Reads and writes a connection, and closes one that has failed.
    #[inline]
    pub(super) fn poll_connection(&mut self, id: u64, after: &mut After) -> ConnectionPoll {
        let Some(link) = self.links.open.get_mut(&id) else { return ConnectionPoll::Gone };
        let polled = link.poll(&self.fixed, &mut after.notices, &mut self.staging);
        if link.is_newly_dirty() {
            self.dirty.push(id);
            if self.is_armed {
                self.push_now(id, after);
            }
        }
        self.hear(id, after);
        if polled == ConnectionPoll::Gone {
            self.over(id, after);
        }
        polled
    }

    /// Reports eager messages that have arrived, and room for them.
    #[inline]
    pub(super) fn hear(&mut self, id: u64, after: &mut After) {
        let Some(link) = self.links.open.get_mut(&id) else { return };
        let (has_news, is_queued_to_drain) = link.take_news();
        after.happened |= has_news;
        if is_queued_to_drain {
            self.heard.push_back(id);
        }
    }

    /// Writes what a connection has to write, and closes one that has failed.
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
            // A connection that is left to epoll is not visited again soon.
            let thorough = thorough || !self.is_active(id);
            match self.push(id, after, thorough) {
                Some(Flushed::All) | None => {}
                Some(Flushed::More) => {
                    busy = true;
                    self.mark_dirty(id);
                }
                Some(Flushed::Full) => self.await_room(id),
            }
        }
        self.spare = dirty;
        busy
    }

    /// Asks epoll without waiting.
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

    /// Handles one event of epoll.
    pub(super) fn ready(&mut self, token: u64, has_room: bool, after: &mut After) {
        match epoll::read(token) {
            (CONNECTION, id) => self.ready_connection(id, has_room, after),
            (ACCEPTOR, _) => {
                let (now, mut next) = (after.now(), self.next_id);
                let requests = self.acceptor.as_mut().map(|acceptor| {
                    acceptor.accept_callers(&self.fixed.set, now, || {
                        next += 1;
                        next - 1
                    })
                });
                self.next_id = next;
                for request in requests.into_iter().flatten() {
                    self.listeners.arrived(request, after);
                }
            }
            (HANDSHAKE, id) => {
                let acceptor = self.acceptor.as_mut();
                if let Some(request) =
                    acceptor.and_then(|acceptor| acceptor.heard(id, &self.fixed.set, after.now()))
                {
                    self.listeners.arrived(request, after);
                }
            }
            (CONNECTOR, id) => self.attempt(id, after.now(), after),
            (_, id) => self.closings.ready(id, &self.fixed.set),
        }
    }

    fn ready_connection(&mut self, id: u64, has_room: bool, after: &mut After) {
        if has_room && let Some(conn) = self.conn(id) {
            conn.is_full = false;
            // Acknowledgements that became due meanwhile go too: no other event would send them.
            match self.push(id, after, true) {
                Some(Flushed::All) => self.watch(id),
                Some(Flushed::More) => {
                    self.watch(id);
                    self.mark_dirty(id);
                }
                // Epoll goes on watching.
                Some(Flushed::Full) => {}
                None => return,
            }
        }
        if self.poll_connection(id, after) == ConnectionPoll::Something {
            if !self.conn(id).is_some_and(|conn| conn.is_full) {
                self.activate(id);
            }
            if !self.is_active(id) {
                self.mark_dirty(id);
            }
        }
    }

    fn watch(&mut self, id: u64) {
        if let Some(link) = self.links.open.get_mut(&id) {
            let _ = link.watch(&self.fixed);
        }
    }

    /// Has epoll report when a socket that is full has room; trying again and again would keep the kernel
    /// from emptying it.
    fn await_room(&mut self, id: u64) {
        self.active.retain(|active| active.id != id);
        let Some(link) = self.links.open.get_mut(&id) else { return };
        if link.watch(&self.fixed).is_err() {
            // Then the write is tried again.
            if let Some(conn) = self.conn(id) {
                conn.is_full = false;
            }
            self.mark_dirty(id);
        }
    }

    /// Moves a closed connection out of the way, and sends its goodbye.
    pub(super) fn over(&mut self, id: u64, after: &mut After) {
        self.active.retain(|active| active.id != id);
        let Some(link) = self.links.end(id) else { return };
        after.happened = true;
        if let Some(mut closing) = link.take_closing()
            // At once: the program may never drive its nic again.
            && !closing.push()
        {
            let (id, now) = (self.unused(), after.now());
            self.closings.add(id, closing, &self.fixed.set, now);
        }
    }

    /// Handles timers: attempts to connect, handshakes that take too long, connections that close.
    pub(super) fn tick(&mut self, now: Instant, after: &mut After) {
        self.pace.looked(now);
        if let Some(acceptor) = &mut self.acceptor {
            acceptor.tick(&self.fixed.set, now);
        }
        self.closings.tick(now);
        for id in self.connectors.keys().copied().collect::<Vec<_>>() {
            self.attempt(id, now, after);
        }
    }

    /// Goes on with a connection that is being made.
    pub(super) fn attempt(&mut self, id: u64, now: Instant, after: &mut After) {
        let Some(connector) = self.connectors.get_mut(&id) else { return };
        let outcome = match connector.poll(&self.fixed, id, now) {
            ConnectOutcome::Pending => connector.tick(&self.fixed, id, now),
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
                self.mark_dirty(id);
            }
            Ok(known.made(ConnId(id), &connector.retry.request.to.host))
        });
        connectors::settle(connector, result, after);
    }

    /// Adds a connection, unless epoll cannot watch it: it would not notice the death of its peer.
    pub(super) fn add(&mut self, conn: DataPath) -> Option<u64> {
        let id = self.unused();
        let mut link = Connection::new(id, conn);
        link.watch(&self.fixed).ok()?;
        self.links.open.insert(id, link);
        self.activate(id);
        Some(id)
    }

    /// Has the next poll write what a connection has to write.
    pub(super) fn mark_dirty(&mut self, id: u64) {
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
        self.links.open.values_mut().map(Connection::written).sum()
    }

    /// The streams of those that are open.
    pub(super) fn streams(&mut self) -> impl Iterator<Item = &mut super::stream::ByteStream> {
        let ends = self.links.open.values_mut().filter_map(|link| link.end.open());
        ends.map(|conn| &mut conn.stream)
    }
}
