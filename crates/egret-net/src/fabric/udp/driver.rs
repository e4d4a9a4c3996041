//! What a nic does: it takes what comes, greets and is greeted, and looks after its
//! connections.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::epoll::EventFlags;
use rustix::net::SocketAddrAny;

use super::arrival::Tally;
use super::datapath::Conn;
use super::door::{Door, Visitor};
use super::group::Seal;
use super::knocking::{Knocking, Outcome};
use super::link::Link;
use super::pulse::BEAT;
use super::socket::Socket;
use super::wire::{Farewell, Number};
use crate::fabric::greet::Stance;
use crate::fabric::hub::{Listeners, Pace, set};
use crate::fabric::place::Peer;
use crate::fabric::{After, ConnId, ConnectRequest, ListenerName, Made, Unposted, ViSpec, Woken};
use crate::rt::{self, Instant};
use crate::vi::{ConnectError, Keys, ListenError, Posted, Secret, ViError};

/// The part of a nic that stays as it is.
#[derive(Debug)]
pub(super) struct Fixed {
    pub host: String,
    pub keys: Arc<Keys>,
    pub socket: Arc<Socket>,
    pub set: Arc<OwnedFd>,
    pub stance: Stance,
    pub secret: Secret,
}

/// The changing part of a nic.
#[derive(Debug)]
pub(super) struct Driver {
    pub door: Door,
    pub links: BTreeMap<Number, Link>,
    /// Connections that are over, as long as somebody has a handle to them.
    pub ended: BTreeMap<Number, Link>,
    /// The number of the link to a peer's number.
    pub by_peer: BTreeMap<(SocketAddr, Number), Number>,
    /// The link that was written to last, and where it is.
    pub last: Option<(Number, SocketAddrAny)>,
    pub groups: Vec<Member>,
    pub knocks: BTreeMap<Number, Knocking>,
    pub listeners: Listeners<Visitor>,
    /// Connections that are over, and whose peer may not know.
    pub tombs: Tombs,
    stuck: Vec<Number>,
    /// What the set says of the socket, if anything.
    watched: Option<EventFlags>,
    /// Whether a thread sleeps on the set, or is about to.
    is_asleep: bool,
    /// Calls of `progress` since somebody slept.
    awake: u32,
    /// Where datagrams are received.
    space: Box<[u8]>,
    /// Calls of `progress` in a row that have found something.
    streak: u32,
    next_beat: Instant,
    pace: Pace,
    pub tally: Tally,
}

/// This nic as a member of a group.
#[derive(Debug)]
pub(super) struct Member {
    pub link: Link,
    pub seal: Seal,
    /// What the set says of its socket, if anything.
    pub watched: Option<EventFlags>,
}

/// What was said last on connections that are over.
#[derive(Debug, Default)]
pub(super) struct Tombs {
    by_number: BTreeMap<Number, (SocketAddr, Number, Farewell)>,
    order: VecDeque<Number>,
}

/// How many are remembered.
const TOMBS_MAX: usize = 256;
/// Datagrams taken at one call, if they come in a row.
const BATCH: u32 = 32;
/// Datagrams taken in one call of which nothing came.
const IN_VAIN_MAX: u32 = 64;
const SPACE: usize = 1 << 16;
/// Calls of `progress` without a sleep after which none is expected.
const AWAKE_MAX: u32 = 1 << 12;
/// What the set says of the nic's socket, and of a group.
const SOCKET: u64 = 0;
const GROUP: u64 = 1;

impl Tombs {
    fn add(&mut self, link: &Link) {
        let why = match link.error() {
            Some(ViError::Closed) => Farewell::Closed,
            Some(ViError::NicDown) => Farewell::NicDown,
            _ => return,
        };
        if self.order.len() >= TOMBS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_number.remove(&oldest);
        }
        self.by_number.insert(link.number, (link.at, link.to, why));
        self.order.push_back(link.number);
    }

    /// What to answer to whoever writes there: to which number, and why.
    pub(super) fn answer(&self, number: Number, from: SocketAddr) -> Option<(Number, Farewell)> {
        let (at, to, why) = self.by_number.get(&number)?;
        (*at == from).then_some((*to, *why))
    }
}

impl Driver {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            door: Door::new(),
            links: BTreeMap::new(),
            ended: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            last: None,
            groups: Vec::new(),
            knocks: BTreeMap::new(),
            listeners: Listeners::default(),
            tombs: Tombs::default(),
            stuck: Vec::new(),
            watched: None,
            is_asleep: false,
            awake: 0,
            space: vec![0; SPACE].into(),
            streak: 0,
            next_beat: now + BEAT,
            pace: Pace::default(),
            tally: Tally::default(),
        }
    }

    /// Takes one datagram, so that its answer can leave before the next is looked for;
    /// more if they come in a row.
    #[inline]
    pub(super) fn poll(&mut self, fixed: &Fixed, after: &mut After) {
        let most = if self.streak < 2 { 1 } else { BATCH };
        let found = self.receive(fixed, after, most);
        self.streak = if found { self.streak.saturating_add(1) } else { 0 };
        self.look_around(fixed, after);
        if self.pace.is_time(after) {
            self.tick(after.now(), fixed, after);
        }
        self.awake += 1;
        if self.awake >= AWAKE_MAX {
            self.stay_awake(fixed);
        }
    }

    pub(super) fn arm(&mut self, fixed: &Fixed, after: &mut After) -> bool {
        (self.is_asleep, self.awake) = (true, 0);
        self.watch(fixed);
        let found = self.receive(fixed, after, BATCH);
        self.look_around(fixed, after);
        // What it says of room, it says of what is stuck now.
        self.watch(fixed);
        found
    }

    pub(super) fn disarm(&mut self, woken: Woken<'_>, fixed: &Fixed, after: &mut After) {
        self.is_asleep = false;
        if woken.said().iter().any(|event| event.has_error) {
            self.hear_troubles(fixed, after);
        }
        self.receive(fixed, after, 1);
        self.look_around(fixed, after);
        if woken.said().is_empty() || self.pace.is_time(after) {
            self.tick(after.now(), fixed, after);
        }
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        let has_beat = self.is_busy().then_some(self.next_beat);
        self.knocks.values().map(Knocking::deadline).chain(has_beat).min()
    }

    /// The oldest caller of a listener is accepted.
    pub(super) fn accept(
        &mut self,
        name: &ListenerName,
        spec: ViSpec,
        fixed: &Fixed,
    ) -> Result<Option<Made>, ListenError> {
        let Some(visitor) = self.listeners.next(name)? else { return Ok(None) };
        let (at, guest) = (visitor.at(), visitor.guest);
        let made = self.connected([guest.own, guest.theirs], at, spec, fixed);
        guest.welcome(&fixed.socket);
        Ok(Some(made))
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, request: ConnectRequest, fixed: &Fixed, after: &mut After) {
        if !self.listeners.is_up() {
            return after.settle(request.promise, Err(ConnectError::NicDown));
        }
        if let Some(Peer::At(addresses)) = Peer::read(&request.to.host)
            && let Some(group) = addresses.iter().find(|at| at.ip().is_multicast())
        {
            let joined = self.join(*group, &request, fixed);
            return after.settle(request.promise, joined);
        }
        let now = after.now();
        let mut knocking = Knocking::new(request, now, &fixed.stance);
        let outcome = knocking.tick(now, &fixed.socket, &fixed.stance);
        let number = knocking.number();
        self.knocks.insert(number, knocking);
        self.knocked(number, outcome, fixed, after);
    }

    /// Takes a descriptor.
    #[inline]
    pub(super) fn post(
        &mut self,
        conn: ConnId,
        posted: Posted,
        after: &mut After,
    ) -> Result<(), Unposted> {
        if self.link(conn).post(posted, &mut after.notices)? {
            self.stuck.push(Number(conn.0));
            // A thread that sleeps is to wait for room as well.
            after.happened = true;
        }
        Ok(())
    }

    /// Closes a connection, if it is open.
    pub(super) fn close(&mut self, conn: ConnId, fixed: &Fixed, after: &mut After) {
        self.end(Number(conn.0), &ViError::Closed, fixed, after);
    }

    pub(super) fn shut(&mut self, fixed: &Fixed, after: &mut After) {
        self.unwatch(fixed);
        let groups = self.groups.iter().map(|member| &member.link);
        let all = self.links.values().chain(groups).map(|link| link.number);
        for number in all.collect::<Vec<_>>() {
            self.end(number, &ViError::NicDown, fixed, after);
        }
        for mut knocking in std::mem::take(&mut self.knocks).into_values() {
            knocking.give_up(&fixed.socket);
            after.settle(knocking.patience.request.promise, Err(ConnectError::NicDown));
        }
        self.listeners.shut(after);
        after.happened = true;
    }

    /// The connection of a handle, which has it until it is released.
    #[inline]
    pub(super) fn link(&mut self, conn: ConnId) -> &mut Link {
        let Self { links, groups, ended, .. } = self;
        let number = Number(conn.0);
        let mut members = groups.iter_mut().map(|member| &mut member.link);
        let link = links.get_mut(&number).or_else(|| members.find(|link| link.number == number));
        link.or_else(|| ended.get_mut(&number)).expect("a handle keeps it")
    }

    pub(super) fn find(&self, conn: ConnId) -> &Link {
        let number = Number(conn.0);
        let mut members = self.groups.iter().map(|member| &member.link);
        let link = self.links.get(&number).or_else(|| members.find(|link| link.number == number));
        link.or_else(|| self.ended.get(&number)).expect("a handle keeps it")
    }

    /// Whether anybody's time is counted.
    fn is_busy(&self) -> bool {
        !self.links.is_empty() || !self.groups.is_empty() || self.door.guests() > 0
    }

    /// Takes datagrams until so many have come to something. Whether any has.
    #[inline]
    fn receive(&mut self, fixed: &Fixed, after: &mut After, most: u32) -> bool {
        if !self.listeners.is_up() {
            return false;
        }
        let (mut found, mut in_vain) = (0, 0);
        let mut space = std::mem::take(&mut self.space);
        while found < most && in_vain < IN_VAIN_MAX {
            let Some((len, from)) = fixed.socket.recv(&mut space) else { break };
            self.arrived(&space[..len], &from, fixed, after);
            if after.is_news() { found += 1 } else { in_vain += 1 }
        }
        if !self.groups.is_empty() {
            found += u32::from(self.receive_groups(&mut space, after));
        }
        self.space = space;
        found + in_vain > 0
    }

    fn receive_groups(&mut self, space: &mut [u8], after: &mut After) -> bool {
        let mut found = false;
        for member in &mut self.groups {
            if member.link.socket().is_troubled() {
                member.hear_troubles();
            }
            for _ in 0..BATCH {
                let Some((len, _)) = member.link.socket().recv(space) else { break };
                found = true;
                member.hear(&space[..len], &mut self.tally, &mut after.notices);
            }
        }
        found
    }

    /// Goes on with what waits for room, and hears what the system says.
    #[inline]
    fn look_around(&mut self, fixed: &Fixed, after: &mut After) {
        if !self.stuck.is_empty() {
            let Self { links, groups, stuck, .. } = self;
            stuck.retain(|number| {
                let mut members = groups.iter_mut().map(|member| &mut member.link);
                let member = || members.find(|link| link.number == *number);
                let link = links.get_mut(number).or_else(member);
                link.is_some_and(|link| link.pump(&mut after.notices))
            });
        }
        if fixed.socket.is_troubled() {
            self.hear_troubles(fixed, after);
        }
    }

    /// Has a sleep end when something comes, and when there is room to send if somebody
    /// waits for it.
    fn watch(&mut self, fixed: &Fixed) {
        if !self.listeners.is_up() {
            return;
        }
        let waits = self.stuck.iter().any(|number| self.links.contains_key(number));
        watch_one(&mut self.watched, waits, &fixed.socket, SOCKET, fixed);
        for Member { link, watched, .. } in &mut self.groups {
            let waits = self.stuck.contains(&link.number);
            watch_one(watched, waits, link.socket(), GROUP, fixed);
        }
    }

    /// Takes all sockets out of the set.
    fn unwatch(&mut self, fixed: &Fixed) {
        self.watched = None;
        let _ = set::forget(&fixed.set, fixed.socket.fd());
        for member in &mut self.groups {
            member.watched = None;
            let _ = set::forget(&fixed.set, member.link.socket().fd());
        }
    }

    /// Nobody has slept for long: takes the socket out of the set, which whoever sends to
    /// it would otherwise write to each time. That is a fifth of a round trip.
    #[cold]
    fn stay_awake(&mut self, fixed: &Fixed) {
        self.awake = 0;
        if self.watched.is_some() && !self.is_asleep {
            self.unwatch(fixed);
        }
    }

    /// Ends a connection, if it is open.
    pub(super) fn end(&mut self, number: Number, why: &ViError, fixed: &Fixed, after: &mut After) {
        if let Some(mut link) = self.links.remove(&number) {
            link.close(why, &mut after.notices);
            self.by_peer.remove(&(link.at, link.to));
            self.tombs.add(&link);
            self.ended.insert(number, link);
        } else if let Some(at) = self.groups.iter().position(|it| it.link.number == number) {
            let Member { mut link, .. } = self.groups.remove(at);
            link.close(why, &mut after.notices);
            // Its handle may keep the socket, which nobody reads any more.
            let _ = set::forget(&fixed.set, link.socket().fd());
            self.ended.insert(number, link);
        } else {
            return;
        }
        after.happened = true;
        if self.last.as_ref().is_some_and(|(last, _)| *last == number) {
            self.last = None;
        }
    }

    /// Greets where it is time to, and counts the time.
    fn tick(&mut self, now: Instant, fixed: &Fixed, after: &mut After) {
        self.pace.looked(now);
        let numbers: Vec<Number> = self.knocks.keys().copied().collect();
        for number in numbers {
            let Some(mut knocking) = self.knocks.remove(&number) else { continue };
            let outcome = knocking.tick(now, &fixed.socket, &fixed.stance);
            // Another attempt has another number.
            let number = knocking.number();
            self.knocks.insert(number, knocking);
            self.knocked(number, outcome, fixed, after);
        }
        if now >= self.next_beat {
            self.next_beat = now + BEAT;
            self.beat(fixed, after);
        }
    }

    pub(super) fn beat(&mut self, fixed: &Fixed, after: &mut After) {
        self.door.beat();
        let groups = self.groups.iter_mut().map(|member| &mut member.link);
        let all = self.links.values_mut().chain(groups);
        let dead = all.filter_map(|link| link.beat().map(|why| (link.number, why)));
        for (number, why) in dead.collect::<Vec<_>>() {
            self.end(number, &why, fixed, after);
        }
    }

    /// What came of an attempt to connect.
    pub(super) fn knocked(
        &mut self,
        number: Number,
        outcome: Outcome,
        fixed: &Fixed,
        after: &mut After,
    ) {
        let made = match outcome {
            Outcome::Knocking => return,
            Outcome::Failed(why) => Err(why),
            Outcome::Made { own, theirs, at } => Ok(([own, theirs], at)),
        };
        let Some(mut knocking) = self.knocks.remove(&number) else { return };
        if made.is_err() {
            knocking.give_up(&fixed.socket);
        }
        let spec = knocking.patience.request.spec;
        let result = made.map(|(numbers, at)| self.connected(numbers, at, spec, fixed));
        after.settle(knocking.patience.request.promise, result);
    }

    fn connected(
        &mut self,
        numbers: [Number; 2],
        at: SocketAddr,
        spec: ViSpec,
        fixed: &Fixed,
    ) -> Made {
        let [number, to] = numbers;
        let conn = Conn::new(spec, to, fixed.socket.room_to(&at));
        self.links.insert(number, Link::new(numbers, at, &fixed.socket, conn));
        self.by_peer.insert((at, to), number);
        Made::new(ConnId(number.0), &at.to_string())
    }

    /// Becomes a member of a group.
    fn join(
        &mut self,
        group: SocketAddr,
        request: &ConnectRequest,
        fixed: &Fixed,
    ) -> Result<Made, ConnectError> {
        let unknown = |_| ConnectError::UnknownHost { host: request.to.host.clone() };
        let socket = Arc::new(Socket::join(group, &fixed.socket.local()).map_err(unknown)?);
        let seal = Seal::new(&request.to, &fixed.secret);
        let room = fixed.socket.room_to(&group);
        let conn = Conn::member(request.spec, seal.clone(), room);
        let numbers @ [number, _] = [Number(rt::random()), Number(seal.group)];
        let link = Link::new(numbers, group, &socket, conn);
        // The set hears of it with the next sleep.
        self.groups.push(Member { link, seal, watched: None });
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
