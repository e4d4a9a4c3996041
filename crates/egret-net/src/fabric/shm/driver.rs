//! Progress of a nic: it moves messages, accepts and makes connections, and notices peers that have
//! left.
//!
//! Repeated names: `Driver`, one in each fabric.

use std::collections::BTreeMap;
use std::time::Duration;

use super::acceptor::{Acceptor, ShmProvenPeer};
use super::connection::{Connection, ShmPollOutcome};
use super::connector::Connector;
use super::datapath::DataPath;
use super::doorbell::NAP;
use super::eager::ShmDrain;
use super::nic_context::{CONTROL, DOORBELL, ENDED, ShmNicContext};
use super::parts::{LocalEnd, PeerEnd, terms};
use super::records::Scratch;
use super::rounds::ConnectionRounds;
use crate::fabric::common::epoll::{self, SPACE, ready};
use crate::fabric::common::{
    self, ConnectOutcome, ConnectRefusal, Listeners, PollTimer, connectors,
};
use crate::fabric::{After, ConnId, ConnectRequest, Drained, NewConnection, ViSpec};
use crate::rt::Instant;
use crate::vi::{AgreedTrust, ConnectError, DrainId, Hello, PublicKey, Sink, ViError};

/// A nic.
#[derive(Debug)]
pub(super) struct Driver {
    pub fixed: ShmNicContext,
    /// `None` when the nic is down.
    pub acceptor: Option<Acceptor>,
    pub links: ConnectionRounds,
    pub connectors: BTreeMap<u64, Connector>,
    pub listeners: Listeners<ShmProvenPeer>,
    next_id: u64,
    /// When to poll the sockets.
    pub pace: PollTimer,
    scratch: Scratch,
    /// Polls, connections that they looked at, and messages that were drained, since the nic last
    /// [checked its doorbells](Self::check_doorbells).
    unchecked: usize,
    /// When to look again though no bell was rung, and how long the next such sleep is to be.
    pub nap_until: Option<Instant>,
    pub nap: Duration,
}

/// Proven peers dealt with at one tick, so that peers which connect without end do not stop
/// the connections; the acceptor stays readable.
const PROVEN_PEERS_AT_ONCE: usize = 16;
/// Polls, looks and drained messages after which the nic checks its doorbells, which is a system call.
const CHECK_DOORBELLS_EVERY: usize = 64;
/// How long the handshake of an inbound connection may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(1);

impl Driver {
    pub(super) fn new(fixed: ShmNicContext, acceptor: Acceptor) -> Self {
        Self {
            acceptor: Some(acceptor),
            links: ConnectionRounds::new(fixed.sleep_policy),
            connectors: BTreeMap::new(),
            listeners: Listeners::default(),
            next_id: 1,
            pace: PollTimer::default(),
            scratch: Scratch::new(),
            unchecked: 0,
            nap_until: None,
            nap: NAP,
            fixed,
        }
    }

    #[inline(never)]
    pub(super) fn poll_now(&mut self, after: &mut After) {
        if self.links.has_resting() {
            self.unchecked += 1 + self.links.looks_at();
            if self.unchecked >= CHECK_DOORBELLS_EVERY {
                self.check_doorbells(after);
            }
        }
        self.poll_quickly(after);
        if self.pace.is_due() {
            self.look_if_time(after);
        }
    }

    /// Checks which doorbells of resting ends were rung: from now on their connections are polled.
    /// Other events of the set are reported again. A thread that sleeps on the set is woken, because
    /// the set does not report to it what was read here.
    #[cold]
    #[inline(never)]
    fn check_doorbells(&mut self, after: &mut After) {
        self.unchecked = 0;
        for event in ready(&self.fixed.set, &mut { SPACE }, Some(Duration::ZERO)) {
            if self.rung(event.data.u64()).is_some() {
                after.happened |= self.links.is_armed();
            }
        }
        self.links.look_at_resting();
    }

    /// Handles one event of the set of doorbells. The connection whose peer rang, if it was a doorbell.
    pub(super) fn rung(&mut self, token: u64) -> Option<u64> {
        let (DOORBELL, id) = epoll::read(token) else { return None };
        if let Some(link) = self.links.get(id) {
            link.rung();
            if link.has_eager() || link.has_ended() {
                self.links.is_ready(id);
            }
        }
        Some(id)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn look_if_time(&mut self, after: &mut After) {
        if self.pace.ask_clock(after.now()) {
            self.links.time_passes();
            self.look(after);
        }
    }

    /// Passes eager messages to `sink`, at most `budget`.
    #[inline(never)]
    pub(super) fn drain_now(
        &mut self,
        drain: DrainId,
        budget: usize,
        sink: &mut Sink<'_>,
        after: &mut After,
    ) -> Drained {
        let Self { links, scratch, .. } = self;
        let mut draining = ShmDrain { scratch, sink, left: budget, answers: false, after };
        links.drain(drain, &mut draining);
        let drained = Drained { count: budget - draining.left, answers: draining.answers };
        self.unchecked += drained.count;
        // A program that drains without end polls seldom.
        if self.unchecked >= CHECK_DOORBELLS_EVERY && self.links.has_resting() {
            self.check_doorbells(after);
        }
        drained
    }

    /// Moves messages.
    #[inline]
    pub(super) fn poll_quickly(&mut self, after: &mut After) {
        self.links.poll_some(|link| {
            let polled = link.poll(&self.fixed.keys, &mut after.notices, false);
            after.happened |= polled.is_news();
            polled
        });
    }

    /// Moves messages of one connection.
    pub(super) fn poll_one(&mut self, id: u64, after: &mut After) {
        self.links.poll_one(id, |link| {
            let polled = link.poll(&self.fixed.keys, &mut after.notices, false);
            after.happened |= polled.is_news();
            polled
        });
    }

    /// Looks at the sockets without waiting.
    #[cold]
    pub(super) fn look(&mut self, after: &mut After) {
        if self.links.has_resting() {
            self.check_doorbells(after);
        }
        for event in ready(&self.fixed.sockets, &mut { SPACE }, Some(Duration::ZERO)) {
            self.ready(event.data.u64(), after);
        }
        self.tick(after.now(), after);
    }

    /// Handles one event of the set of sockets.
    fn ready(&mut self, token: u64, after: &mut After) {
        match epoll::read(token) {
            (CONTROL, id) => {
                if let Some(link) = self.links.get(id) {
                    let polled = link.control_ready(&self.fixed.keys, &mut after.notices);
                    after.happened |= polled == ShmPollOutcome::Gone;
                    self.links.is_ready(id);
                }
            }
            (ENDED, id) => {
                if let Some(link) = self.links.get(id) {
                    link.process_ended(&self.fixed.keys, &mut after.notices);
                    after.happened = true;
                    self.links.is_ready(id);
                }
            }
            // A tick follows, and polls the acceptor and the connectors.
            _ => {}
        }
    }

    /// Accepts the connection of a proven peer, if the memory that it offers can be used.
    pub(super) fn admit(&mut self, visitor: ShmProvenPeer, spec: ViSpec) -> Option<NewConnection> {
        let local_end = LocalEnd::new(self.fixed.sleep_policy)?;
        let (peer, agreed, key) = (visitor.offer.host.clone(), visitor.agreed, visitor.key);
        let theirs = visitor.offer.terms;
        let (control, handles) = visitor.accept(&terms(spec.depth), local_end.handles()).ok()?;
        // A peer that offers unusable memory sees the connection end.
        let peer_end = PeerEnd::new(&theirs, handles).ok()?;
        let conn = DataPath::new(spec, agreed.trust(), local_end.join(control, peer_end))?;
        self.add((&peer, spec, agreed, key), conn)
    }

    /// Begins to connect.
    pub(super) fn begin(&mut self, request: ConnectRequest, after: &mut After) {
        let (id, now) = (self.unused(), after.now());
        self.connectors.insert(id, Connector::new(request, now));
        self.poll_connector(id, now, after);
    }

    /// Ends a connection, if it is open.
    pub(super) fn end(&mut self, id: u64, why: &ViError, after: &mut After) {
        self.links.of_handle(id).close(why, &mut after.notices);
    }

    /// Drops a connection that has ended and has no handle any more.
    pub(super) fn forget(&mut self, id: u64) {
        self.links.remove(id);
    }

    /// Runs inbound and outbound handshakes, and forgets connections that have ended.
    pub(super) fn tick(&mut self, now: Instant, after: &mut After) {
        self.pace.looked(now);
        self.links.sort_out();
        self.acceptor.iter_mut().for_each(Acceptor::turn);
        for _ in 0..PROVEN_PEERS_AT_ONCE {
            let Some(acceptor) = &mut self.acceptor else { break };
            match acceptor.poll_proven_peer(now, now + HANDSHAKE_MAX) {
                Ok(Some(visitor)) => {
                    self.listeners.arrived(visitor, after);
                }
                Ok(None) => break,
                // The peer was refused, and told why.
                Err(_) => {}
            }
        }
        for id in self.connectors.keys().copied().collect::<Vec<_>>() {
            self.poll_connector(id, now, after);
        }
    }

    /// Polls an outbound connection that is being made.
    fn poll_connector(&mut self, id: u64, now: Instant, after: &mut After) {
        let Some(connector) = self.connectors.get_mut(&id) else { return };
        let outcome = match connector.poll(now) {
            ConnectOutcome::Pending => connector.tick(&self.fixed, id, now),
            outcome => outcome,
        };
        let Some((connector, result)) = connectors::over(&mut self.connectors, &id, outcome) else {
            return;
        };
        let ConnectRequest { to, spec, .. } = &connector.retry.request;
        let result = result.and_then(|(conn, agreed, key)| {
            self.add((&to.host, *spec, agreed, key), *conn).ok_or(ConnectError::NicDown)
        });
        connectors::settle(connector, result, after);
    }

    /// Adds a connection. `None` if the set cannot watch it: it would not notice its peer's death.
    pub(super) fn add(
        &mut self,
        (peer, spec, agreed, key): (&str, ViSpec, AgreedTrust, PublicKey),
        conn: DataPath,
    ) -> Option<NewConnection> {
        let unique = self.unused();
        let mut link = Connection::new(self.links.number(unique)?, spec, conn);
        link.watch(&self.fixed).ok()?;
        let mut made = NewConnection::new(ConnId(link.id), peer);
        (made.trust, made.why_isolated) = (agreed.trust(), agreed.why_isolated());
        made.key = Some(key);
        self.links.add(link);
        Some(made)
    }

    pub(super) fn unused(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }
}

impl common::ConnectionRequest for ShmProvenPeer {
    fn hello(&self) -> &Hello {
        &self.hello
    }

    fn is_gone(&self) -> bool {
        Self::is_gone(self)
    }

    fn turn_away(self, why: &ConnectRefusal) {
        self.refuse(why);
    }
}
