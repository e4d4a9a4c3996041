//! Progress of a nic: it receives datagrams, runs handshakes, and keeps its connections alive.
//!
//! Repeated names: `Driver`, one in each fabric.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::SocketAddrAny;

use super::acceptor::{Acceptor, UdpRequest};
use super::arrival::DroppedDatagrams;
use super::closing::UdpClosings;
use super::connection::Connection;
use super::connector::{Connector, UdpConnected};
use super::datapath::DataPath;
use super::group::GroupSeal;
use super::keep_alive::KEEP_ALIVE_TICK;
use super::nic_context::UdpNicContext;
use super::socket::DatagramSocket;
use super::wire::ConnectionNumber;
use crate::fabric::common::{
    ConnectOutcome, ConnectionTable, Listeners, PollTimer, connectors, epoll,
};
use crate::fabric::handshake::Session;
use crate::fabric::place::PeerAddress;
use crate::fabric::{After, ConnId, ConnectRequest, DatagramEvent, NewConnection, ViSpec};
use crate::rt::{self, Instant};
use crate::vi::{ConnectError, KeyError, Reliability, ViError};

/// A nic.
#[derive(Debug)]
pub(super) struct Driver {
    pub fixed: UdpNicContext,
    pub acceptor: Acceptor,
    /// The connections, memberships in groups among them.
    pub links: ConnectionTable<ConnectionNumber, Connection>,
    /// The number of a connection, by the address and number of its peer.
    pub by_peer: BTreeMap<(SocketAddr, ConnectionNumber), ConnectionNumber>,
    /// The connection that a datagram was for last, and the address of its peer.
    pub last: Option<(ConnectionNumber, SocketAddrAny)>,
    pub groups: Vec<GroupMembership>,
    pub connectors: BTreeMap<ConnectionNumber, Connector>,
    pub listeners: Listeners<UdpRequest>,
    pub closings: UdpClosings,
    pub stuck: Vec<ConnectionNumber>,
    /// What epoll watches the socket for, if anything.
    watched: Option<EventFlags>,
    /// Whether a thread sleeps on epoll, or is about to.
    pub is_asleep: bool,
    /// Polls since a thread slept.
    pub awake: u32,
    /// Whether a window takes the datagrams.
    pub is_below: bool,
    /// Buffer into which datagrams are received.
    pub space: Box<[u8]>,
    /// The datagrams in the buffer that a window has not taken.
    joined: Option<JoinedDatagrams>,
    /// Closed connections of which the window does not know yet.
    pub over: VecDeque<ConnId>,
    /// Polls in a row that have found something.
    pub streak: u32,
    pub next_keep_alive: Instant,
    pub pace: PollTimer,
    pub tally: DroppedDatagrams,
}

/// Datagrams that were received in one call, and how many bytes of them were processed.
#[derive(Debug)]
struct JoinedDatagrams {
    len: usize,
    heard: usize,
    from: SocketAddrAny,
}

/// This nic as a member of a group.
#[derive(Debug)]
pub(super) struct GroupMembership {
    /// The number of its connection.
    pub number: ConnectionNumber,
    pub socket: Arc<DatagramSocket>,
    pub seal: GroupSeal,
    /// What epoll watches its socket for, if anything.
    pub watched: Option<EventFlags>,
}

/// Datagrams that one poll takes, if they arrive in a row.
pub(super) const BATCH: u32 = 32;
/// Datagrams without effect that one poll takes.
const IN_VAIN_MAX: u32 = 64;
pub(super) const SPACE: usize = 1 << 16;
/// Epoll data of the nic's socket, and of a group's.
const SOCKET: u64 = 0;
const GROUP: u64 = 1;

impl Driver {
    pub(super) fn new(fixed: UdpNicContext, now: Instant) -> Self {
        Self::with_space(fixed, now, vec![0; SPACE].into())
    }

    /// One that receives datagrams in `space`.
    pub(super) fn with_space(fixed: UdpNicContext, now: Instant, space: Box<[u8]>) -> Self {
        Self {
            fixed,
            acceptor: Acceptor::new(),
            links: ConnectionTable::default(),
            by_peer: BTreeMap::new(),
            last: None,
            groups: Vec::new(),
            connectors: BTreeMap::new(),
            listeners: Listeners::default(),
            closings: UdpClosings::default(),
            stuck: Vec::new(),
            watched: None,
            is_asleep: false,
            awake: 0,
            is_below: false,
            space,
            joined: None,
            over: VecDeque::new(),
            streak: 0,
            next_keep_alive: now + KEEP_ALIVE_TICK,
            pace: PollTimer::default(),
            tally: DroppedDatagrams::default(),
        }
    }

    /// Accepts a connection request.
    pub(super) fn admit(&mut self, visitor: UdpRequest, spec: ViSpec) -> Option<NewConnection> {
        let (at, handshake) = (visitor.at(), visitor.handshake);
        let session = handshake.welcome(&self.fixed.socket);
        Some(self.connected([handshake.own, handshake.theirs], at, session, spec))
    }

    /// Begins to connect, or joins a group.
    pub(super) fn begin(&mut self, request: ConnectRequest, after: &mut After) {
        if let Some(PeerAddress::At(addresses)) = PeerAddress::read(&request.to.host)
            && let Some(group) = addresses.iter().find(|at| at.ip().is_multicast())
        {
            // A group loses messages, and has no peer that could repeat them.
            let joined = match request.spec.reliability {
                Reliability::Unreliable => self.join(*group, &request),
                level => Err(ConnectError::Unsupported(level)),
            };
            return after.settle(request.promise, joined);
        }
        if let Err(why) = self.fixed.credentials.check_callee(request.to.key) {
            return after.settle(request.promise, Err(why.into()));
        }
        let now = after.now();
        self.attempt(Connector::new(request, now), now, after);
    }

    /// Drops a closed connection whose handle is gone.
    pub(super) fn forget(&mut self, number: ConnectionNumber) {
        self.links.release(number);
    }

    /// Whether connections are open or handshakes under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.links.open.is_empty() || self.acceptor.handshakes() > 0
    }

    /// Takes datagrams until so many have come to something. Whether any has.
    #[inline]
    pub(super) fn receive(&mut self, after: &mut After, most: u32) -> bool {
        if !self.listeners.is_up() {
            return false;
        }
        if self.is_below {
            return self.receive_beside_window(after);
        }
        let (mut found, mut in_vain) = (0, 0);
        let mut space = std::mem::take(&mut self.space);
        while found < most && in_vain < IN_VAIN_MAX {
            let Some((len, from)) = self.fixed.socket.recv(&mut space) else { break };
            self.hear(&mut space[..len], &from, after);
            if after.is_news() { found += 1 } else { in_vain += 1 }
        }
        if !self.groups.is_empty() {
            found += u32::from(self.receive_groups(&mut space, after));
        }
        self.space = space;
        found + in_vain > 0
    }

    /// Takes what has come to groups, if the space is free.
    fn receive_beside_window(&mut self, after: &mut After) -> bool {
        if self.groups.is_empty() || self.joined.is_some() {
            return false;
        }
        let mut space = std::mem::take(&mut self.space);
        let found = self.receive_groups(&mut space, after);
        self.space = space;
        found
    }

    /// Takes datagrams until one is a window's, or a connection of a window is over.
    pub(super) fn receive_for_window(&mut self, after: &mut After) -> Option<DatagramEvent<'_>> {
        let mut space = std::mem::take(&mut self.space);
        let (mut came, mut in_vain) = (None, 0);
        // What was received is nowhere else: all of it is heard.
        while in_vain < IN_VAIN_MAX || self.joined.is_some() {
            in_vain += 1;
            if let Some(conn) = self.over.pop_front() {
                self.space = space;
                return Some(DatagramEvent::Ended(conn));
            }
            let Some(mut joined) = self.next_joined(&mut space) else { break };
            let start = joined.heard;
            let bytes = &mut space[start..joined.len];
            let (len, given) = self.hear_first(bytes, &joined.from, after);
            joined.heard += len;
            self.joined = (joined.heard < joined.len).then_some(joined);
            if let Some((conn, range)) = given {
                came = Some((conn, start + range.start..start + range.end));
                break;
            }
        }
        self.space = space;
        came.map(|(conn, range)| DatagramEvent::Datagram(conn, &self.space[range]))
    }

    /// Datagrams that were received and not heard, if need be from the socket.
    #[inline]
    fn next_joined(&mut self, space: &mut [u8]) -> Option<JoinedDatagrams> {
        if self.joined.is_some() {
            return self.joined.take();
        }
        if !self.listeners.is_up() {
            return None;
        }
        let (len, from) = self.fixed.socket.recv(space)?;
        Some(JoinedDatagrams { len, heard: 0, from })
    }

    fn receive_groups(&mut self, space: &mut [u8], after: &mut After) -> bool {
        let mut found = false;
        for member in &self.groups {
            if member.socket.may_have_undelivered() {
                member.handle_undelivered_datagrams();
            }
            for _ in 0..BATCH {
                let Some((len, _)) = member.socket.recv(space) else { break };
                found = true;
                if let Some((from, piece)) = member.hear(&space[..len], &mut self.tally)
                    && let Some(link) = self.links.open.get_mut(&member.number)
                {
                    link.arrive(from, &piece, &mut after.notices);
                }
            }
        }
        found
    }

    /// Goes on with what waits for room, and hears what the system says.
    #[inline]
    pub(super) fn look_around(&mut self, after: &mut After) {
        if !self.stuck.is_empty() {
            let (links, stuck) = (&mut self.links.open, &mut self.stuck);
            stuck.retain(|number| {
                links.get_mut(number).is_some_and(|link| link.pump(&mut after.notices))
            });
        }
        if self.fixed.socket.may_have_undelivered() {
            self.handle_undelivered_datagrams(after);
        }
    }

    /// Has a sleep end when something comes, and when there is room to send if somebody
    /// waits for it.
    pub(super) fn watch(&mut self) {
        if !self.listeners.is_up() {
            return;
        }
        let is_members = |number| self.links.open.get(number).is_none_or(Connection::is_member);
        let waits = !self.stuck.iter().all(is_members);
        watch_one(&mut self.watched, waits, &self.fixed.socket, SOCKET, &self.fixed);
        for GroupMembership { number, socket, watched, .. } in &mut self.groups {
            let waits = self.stuck.contains(number);
            watch_one(watched, waits, socket, GROUP, &self.fixed);
        }
    }

    /// Takes all sockets out of the set.
    pub(super) fn unwatch(&mut self) {
        self.watched = None;
        self.fixed.socket.forget(&self.fixed.set);
        for member in &mut self.groups {
            member.watched = None;
            member.socket.forget(&self.fixed.set);
        }
    }

    /// Takes the socket out of the set when no thread has slept for long: each datagram that arrives would
    /// otherwise make the kernel write to the set. That is a fifth of a round trip.
    #[cold]
    pub(super) fn stay_awake(&mut self) {
        self.awake = 0;
        if self.watched.is_some() && !self.is_asleep {
            self.unwatch();
        }
    }

    /// Ends a connection, if it is open.
    pub(super) fn end(&mut self, number: ConnectionNumber, why: &ViError, after: &mut After) {
        let Some(link) = self.links.end(number) else { return };
        if link.is_windowed() {
            self.over.push_back(ConnId(number.0));
        }
        link.close(why, &mut after.notices);
        after.happened = true;
        self.by_peer.remove(&(link.at, link.to));
        if link.is_member() {
            self.groups.retain(|member| member.number != number);
            // Its handle may keep the socket, which is not read any more.
            link.socket().forget(&self.fixed.set);
        } else {
            self.closings.add(link);
        }
        if self.last.as_ref().is_some_and(|(last, _)| *last == number) {
            self.last = None;
        }
    }

    /// Makes an attempt where it is time to, and counts the time.
    pub(super) fn tick(&mut self, now: Instant, after: &mut After) {
        self.pace.looked(now);
        for number in self.connectors.keys().copied().collect::<Vec<_>>() {
            if let Some(connector) = self.connectors.remove(&number) {
                self.attempt(connector, now, after);
            }
        }
        if now >= self.next_keep_alive {
            self.next_keep_alive = now + KEEP_ALIVE_TICK;
            self.keep_alive_tick(after);
        }
    }

    pub(super) fn keep_alive_tick(&mut self, after: &mut After) {
        self.acceptor.keep_alive_tick();
        let all = self.links.open.values_mut();
        let dead = all.filter_map(|link| link.keep_alive_tick().map(|why| (link.number, why)));
        for (number, why) in dead.collect::<Vec<_>>() {
            self.end(number, &why, after);
        }
    }

    /// Looks at a connection that is being made. Another attempt has another number.
    fn attempt(&mut self, mut connector: Connector, now: Instant, after: &mut After) {
        let outcome = connector.tick(now, &self.fixed.socket, &self.fixed.credentials);
        let number = connector.number();
        self.connectors.insert(number, connector);
        self.settle_attempt(number, outcome, after);
    }

    /// What came of an attempt to connect.
    pub(super) fn settle_attempt(
        &mut self,
        number: ConnectionNumber,
        outcome: ConnectOutcome<UdpConnected>,
        after: &mut After,
    ) {
        let Some((mut connector, result)) =
            connectors::over(&mut self.connectors, &number, outcome)
        else {
            return;
        };
        if result.is_err() {
            connector.give_up(&self.fixed.socket);
        }
        let spec = connector.retry.request.spec;
        let result =
            result.map(|(numbers, at, session)| self.connected(numbers, at, session, spec));
        connectors::settle(connector, result, after);
    }

    pub(super) fn connected(
        &mut self,
        numbers: [ConnectionNumber; 2],
        at: SocketAddr,
        Session { known, keys }: Session,
        spec: ViSpec,
    ) -> NewConnection {
        let [number, to] = numbers;
        let conn = DataPath::new(spec, to, self.fixed.socket.room_to(&at));
        let link = Connection::new(numbers, at, &self.fixed.socket, conn).sealed(keys);
        self.links.open.insert(number, link);
        self.by_peer.insert((at, to), number);
        known.made(ConnId(number.0), &at.to_string())
    }

    /// Becomes a member of a group.
    pub(super) fn join(
        &mut self,
        group: SocketAddr,
        request: &ConnectRequest,
    ) -> Result<NewConnection, ConnectError> {
        // Every receiver of the group gets what is signed, and the signature.
        self.fixed.credentials.check_callee(None).map_err(|_| KeyError::Group)?;
        let unknown = |why: Errno| ConnectError::UnknownHost {
            host: request.to.host.clone(),
            waited: Duration::ZERO,
            why: io::Error::from(why).to_string(),
        };
        let socket =
            Arc::new(DatagramSocket::join(group, &self.fixed.socket.local()).map_err(unknown)?);
        let seal = GroupSeal::new(&request.to, self.fixed.credentials.secret());
        let room = self.fixed.socket.room_to(&group);
        let conn = DataPath::member(request.spec, seal.clone(), room);
        let numbers @ [number, _] = [ConnectionNumber(rt::random()), ConnectionNumber(seal.group)];
        self.links.open.insert(number, Connection::new(numbers, group, &socket, conn));
        // Epoll watches the socket from the next sleep on.
        self.groups.push(GroupMembership { number, socket, seal, watched: None });
        Ok(NewConnection::new(ConnId(number.0), &group.to_string()))
    }
}

/// Has epoll watch a socket for datagrams, and for room if something `waits` for it.
fn watch_one(
    watched: &mut Option<EventFlags>,
    waits: bool,
    socket: &DatagramSocket,
    data: u64,
    fixed: &UdpNicContext,
) {
    let room = if waits { EventFlags::OUT } else { EventFlags::empty() };
    let flags = EventFlags::IN | room;
    if *watched != Some(flags) {
        *watched = Some(flags);
        // Without epoll, the sleep ends with the next tick.
        let _ = epoll::watch(&fixed.set, socket.fd(), data, flags);
    }
}
