//! What a nic does: it takes what comes, greets and is greeted, and looks after its
//! connections.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::net::SocketAddrAny;

use super::acceptor::{Acceptor, Visitor};
use super::arrival::Tally;
use super::connector::{Connector, Met};
use super::datapath::Conn;
use super::group::Seal;
use super::leaving::Leavings;
use super::link::Link;
use super::pulse::BEAT;
use super::socket::Socket;
use super::wire::Number;
use crate::fabric::greet::{Session, Stance};
use crate::fabric::hub::{Links, Listeners, Outcome, Pace, connectors, set};
use crate::fabric::place::Peer;
use crate::fabric::{After, Came, ConnId, ConnectRequest, Made, ViSpec};
use crate::rt::{self, Instant};
use crate::vi::{ConnectError, KeyError, Keys, Reliability, ViError};

/// The part of a nic that stays as it is.
#[derive(Debug)]
pub(super) struct Fixed {
    pub host: String,
    pub keys: Arc<Keys>,
    pub socket: Arc<Socket>,
    pub set: Arc<OwnedFd>,
    pub stance: Stance,
}

/// A nic.
#[derive(Debug)]
pub(super) struct Driver {
    pub fixed: Fixed,
    pub acceptor: Acceptor,
    /// Those of groups too.
    pub links: Links<Number, Link>,
    /// The number of the link to a peer's number.
    pub by_peer: BTreeMap<(SocketAddr, Number), Number>,
    /// The link that was written to last, and where it is.
    pub last: Option<(Number, SocketAddrAny)>,
    pub groups: Vec<Member>,
    pub connectors: BTreeMap<Number, Connector>,
    pub listeners: Listeners<Visitor>,
    pub leavings: Leavings,
    pub stuck: Vec<Number>,
    /// What the set says of the socket, if anything.
    watched: Option<EventFlags>,
    /// Whether a thread sleeps on the set, or is about to.
    pub is_asleep: bool,
    /// Calls of `progress` since somebody slept.
    pub awake: u32,
    /// Whether a window takes the datagrams.
    pub is_below: bool,
    /// Where datagrams are received.
    pub space: Box<[u8]>,
    /// Those of the space that a window has not taken.
    joined: Option<Joined>,
    /// Connections of windows that are over, and the window does not know.
    pub over: VecDeque<ConnId>,
    /// Calls of `progress` in a row that have found something.
    pub streak: u32,
    pub next_beat: Instant,
    pub pace: Pace,
    pub tally: Tally,
}

/// Datagrams that were received together, and how many bytes of them were heard.
#[derive(Debug)]
struct Joined {
    len: usize,
    heard: usize,
    from: SocketAddrAny,
}

/// This nic as a member of a group.
#[derive(Debug)]
pub(super) struct Member {
    /// The number of its link.
    pub number: Number,
    pub socket: Arc<Socket>,
    pub seal: Seal,
    /// What the set says of its socket, if anything.
    pub watched: Option<EventFlags>,
}

/// Datagrams taken at one call, if they come in a row.
pub(super) const BATCH: u32 = 32;
/// Datagrams taken in one call of which nothing came.
const IN_VAIN_MAX: u32 = 64;
pub(super) const SPACE: usize = 1 << 16;
/// What the set says of the nic's socket, and of a group.
const SOCKET: u64 = 0;
const GROUP: u64 = 1;

impl Driver {
    pub(super) fn new(fixed: Fixed, now: Instant) -> Self {
        Self::with_space(fixed, now, vec![0; SPACE].into())
    }

    /// One that receives datagrams in `space`.
    pub(super) fn with_space(fixed: Fixed, now: Instant, space: Box<[u8]>) -> Self {
        Self {
            fixed,
            acceptor: Acceptor::new(),
            links: Links::default(),
            by_peer: BTreeMap::new(),
            last: None,
            groups: Vec::new(),
            connectors: BTreeMap::new(),
            listeners: Listeners::default(),
            leavings: Leavings::default(),
            stuck: Vec::new(),
            watched: None,
            is_asleep: false,
            awake: 0,
            is_below: false,
            space,
            joined: None,
            over: VecDeque::new(),
            streak: 0,
            next_beat: now + BEAT,
            pace: Pace::default(),
            tally: Tally::default(),
        }
    }

    /// Makes a connection with a visitor.
    pub(super) fn admit(&mut self, visitor: Visitor, spec: ViSpec) -> Option<Made> {
        let (at, guest) = (visitor.at(), visitor.guest);
        let session = guest.welcome(&self.fixed.socket);
        Some(self.connected([guest.own, guest.theirs], at, session, spec))
    }

    /// Begins to connect, or joins a group.
    pub(super) fn begin(&mut self, request: ConnectRequest, after: &mut After) {
        if let Some(Peer::At(addresses)) = Peer::read(&request.to.host)
            && let Some(group) = addresses.iter().find(|at| at.ip().is_multicast())
        {
            // A group loses, and has nobody who could be asked to repeat.
            let joined = match request.spec.reliability {
                Reliability::Unreliable => self.join(*group, &request),
                level => Err(ConnectError::Unsupported(level)),
            };
            return after.settle(request.promise, joined);
        }
        if let Err(why) = self.fixed.stance.check_callee(request.to.key) {
            return after.settle(request.promise, Err(why.into()));
        }
        let now = after.now();
        self.knock(Connector::new(request, now), now, after);
    }

    /// Nobody has a handle to one that is over any more.
    pub(super) fn forget(&mut self, number: Number) {
        self.links.release(number);
    }

    /// Whether anybody's time is counted.
    pub(super) fn is_busy(&self) -> bool {
        !self.links.open.is_empty() || self.acceptor.guests() > 0
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
    pub(super) fn receive_for_window(&mut self, after: &mut After) -> Option<Came<'_>> {
        let mut space = std::mem::take(&mut self.space);
        let (mut came, mut in_vain) = (None, 0);
        // What was received is nowhere else: all of it is heard.
        while in_vain < IN_VAIN_MAX || self.joined.is_some() {
            in_vain += 1;
            if let Some(conn) = self.over.pop_front() {
                self.space = space;
                return Some(Came::Ended(conn));
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
        came.map(|(conn, range)| Came::Datagram(conn, &self.space[range]))
    }

    /// Datagrams that were received and not heard, if need be from the socket.
    #[inline]
    fn next_joined(&mut self, space: &mut [u8]) -> Option<Joined> {
        if self.joined.is_some() {
            return self.joined.take();
        }
        if !self.listeners.is_up() {
            return None;
        }
        let (len, from) = self.fixed.socket.recv(space)?;
        Some(Joined { len, heard: 0, from })
    }

    fn receive_groups(&mut self, space: &mut [u8], after: &mut After) -> bool {
        let mut found = false;
        for member in &self.groups {
            if member.socket.is_troubled() {
                member.hear_troubles();
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
        if self.fixed.socket.is_troubled() {
            self.hear_troubles(after);
        }
    }

    /// Has a sleep end when something comes, and when there is room to send if somebody
    /// waits for it.
    pub(super) fn watch(&mut self) {
        if !self.listeners.is_up() {
            return;
        }
        let is_members = |number| self.links.open.get(number).is_none_or(Link::is_member);
        let waits = !self.stuck.iter().all(is_members);
        watch_one(&mut self.watched, waits, &self.fixed.socket, SOCKET, &self.fixed);
        for Member { number, socket, watched, .. } in &mut self.groups {
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

    /// Nobody has slept for long: takes the socket out of the set, which whoever sends to
    /// it would otherwise write to each time. That is a fifth of a round trip.
    #[cold]
    pub(super) fn stay_awake(&mut self) {
        self.awake = 0;
        if self.watched.is_some() && !self.is_asleep {
            self.unwatch();
        }
    }

    /// Ends a connection, if it is open.
    pub(super) fn end(&mut self, number: Number, why: &ViError, after: &mut After) {
        let Some(link) = self.links.end(number) else { return };
        if link.is_windowed() {
            self.over.push_back(ConnId(number.0));
        }
        link.close(why, &mut after.notices);
        after.happened = true;
        self.by_peer.remove(&(link.at, link.to));
        if link.is_member() {
            self.groups.retain(|member| member.number != number);
            // Its handle may keep the socket, which nobody reads any more.
            link.socket().forget(&self.fixed.set);
        } else {
            self.leavings.add(link);
        }
        if self.last.as_ref().is_some_and(|(last, _)| *last == number) {
            self.last = None;
        }
    }

    /// Greets where it is time to, and counts the time.
    pub(super) fn tick(&mut self, now: Instant, after: &mut After) {
        self.pace.looked(now);
        for number in self.connectors.keys().copied().collect::<Vec<_>>() {
            if let Some(connector) = self.connectors.remove(&number) {
                self.knock(connector, now, after);
            }
        }
        if now >= self.next_beat {
            self.next_beat = now + BEAT;
            self.beat(after);
        }
    }

    pub(super) fn beat(&mut self, after: &mut After) {
        self.acceptor.beat();
        let all = self.links.open.values_mut();
        let dead = all.filter_map(|link| link.beat().map(|why| (link.number, why)));
        for (number, why) in dead.collect::<Vec<_>>() {
            self.end(number, &why, after);
        }
    }

    /// Looks at a connection that is being made. Another attempt has another number.
    fn knock(&mut self, mut connector: Connector, now: Instant, after: &mut After) {
        let outcome = connector.tick(now, &self.fixed.socket, &self.fixed.stance);
        let number = connector.number();
        self.connectors.insert(number, connector);
        self.knocked(number, outcome, after);
    }

    /// What came of an attempt to connect.
    pub(super) fn knocked(&mut self, number: Number, outcome: Outcome<Met>, after: &mut After) {
        let Some((mut connector, result)) =
            connectors::over(&mut self.connectors, &number, outcome)
        else {
            return;
        };
        if result.is_err() {
            connector.give_up(&self.fixed.socket);
        }
        let spec = connector.patience.request.spec;
        let result =
            result.map(|(numbers, at, session)| self.connected(numbers, at, session, spec));
        connectors::settle(connector, result, after);
    }

    pub(super) fn connected(
        &mut self,
        numbers: [Number; 2],
        at: SocketAddr,
        Session { known, keys }: Session,
        spec: ViSpec,
    ) -> Made {
        let [number, to] = numbers;
        let conn = Conn::new(spec, to, self.fixed.socket.room_to(&at));
        let link = Link::new(numbers, at, &self.fixed.socket, conn).sealed(keys);
        self.links.open.insert(number, link);
        self.by_peer.insert((at, to), number);
        known.made(ConnId(number.0), &at.to_string())
    }

    /// Becomes a member of a group.
    pub(super) fn join(
        &mut self,
        group: SocketAddr,
        request: &ConnectRequest,
    ) -> Result<Made, ConnectError> {
        // Whoever hears a group has what is signed, and the signature.
        self.fixed.stance.check_callee(None).map_err(|_| KeyError::Group)?;
        let unknown = |_| ConnectError::UnknownHost { host: request.to.host.clone() };
        let socket = Arc::new(Socket::join(group, &self.fixed.socket.local()).map_err(unknown)?);
        let seal = Seal::new(&request.to, self.fixed.stance.secret());
        let room = self.fixed.socket.room_to(&group);
        let conn = Conn::member(request.spec, seal.clone(), room);
        let numbers @ [number, _] = [Number(rt::random()), Number(seal.group)];
        self.links.open.insert(number, Link::new(numbers, group, &socket, conn));
        // The set hears of it with the next sleep.
        self.groups.push(Member { number, socket, seal, watched: None });
        Ok(Made::new(ConnId(number.0), &group.to_string()))
    }
}

/// Has the set say when something comes to a socket, and when there is room if somebody
/// `waits` for it.
fn watch_one(
    watched: &mut Option<EventFlags>,
    waits: bool,
    socket: &Socket,
    data: u64,
    fixed: &Fixed,
) {
    let room = if waits { EventFlags::OUT } else { EventFlags::empty() };
    let flags = EventFlags::IN | room;
    if *watched != Some(flags) {
        *watched = Some(flags);
        // Without it, the sleep ends with the next beat.
        let _ = set::watch(&fixed.set, socket.fd(), data, flags);
    }
}
