//! What a fuzzer calls: bytes that become datagrams. Not for use.
//!
//! The first byte of the input of [`datagrams`] says how the nic is: 1: it has a secret, 2: it is
//! below a window, 4: its connections are sealed. A program of instructions follows. One below 16 is followed by the length of
//! a datagram, in two bytes, and the datagram. Its bits say what is done with it: 1: it comes from a
//! stranger's address, 2: its number stays as it is, 4: half a second passes afterwards, and below
//! a window it comes twice in one piece, 8: it arrives at the socket of a group. If its number does not stay as it is, and the
//! connection with the new one is sealed, the peer seals it. Others post, begin handshakes, and so on. The nic has no socket but one in
//! [memory](super::scripted_peer), and a clock that stands: there are no system calls.

mod peer;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use self::peer::Peer;
use super::connection::Connection;
use super::datapath::DataPath;
use super::driver::{Driver, GroupMembership, SPACE};
use super::group::GroupSeal;
use super::nic;
use super::nic_context::UdpNicContext;
use super::sealed::DatagramSeal;
use super::socket::{DatagramSocket, UndeliveredDatagram};
use super::wire::{ConnectionNumber, MessageSplit, UdpDatagram, UdpHead, UdpKind, UdpPiece};
use crate::buf::Pool;
use crate::fabric::common::fuzzed::{Ground, Input, Still};
use crate::fabric::handshake::{Credentials, PeerProof, Session};
use crate::fabric::seal::{KEY, SealKey, SealKeys};
use crate::fabric::{After, ConnId, ConnectPromise, ConnectRequest, ListenerName, Machine, ViSpec};
use crate::vi::{
    Address, Below, Descriptor, DirectPlacement, NicOptions, Op, Reliability, Secret, Settled,
    Ticket, ViId,
};

/// Somebody sends these to a nic with connections and a group. It must neither panic nor keep a
/// buffer.
pub fn datagrams(input: &[u8]) {
    STAGE.with(|stage| stage.play(&mut Input(input)));
}

/// A datagram is read or refused.
pub fn decode(input: &[u8]) {
    let _ = UdpDatagram::decode(input);
}

thread_local! {
    static STAGE: Stage = Stage::new();
}

/// What plays one input after the other.
struct Stage {
    still: Arc<Still>,
    socket: Arc<DatagramSocket>,
    /// That of the group.
    group: Arc<DatagramSocket>,
    set: Arc<OwnedFd>,
    ground: Arc<Ground>,
    /// What its nics are called, and what they and their peer prove: no secret, or one.
    host: String,
    credentials: [[Credentials; 2]; 2],
    /// Where the next nic receives.
    space: Cell<Box<[u8]>>,
}

/// One input being played.
struct Play<'a> {
    stage: &'a Stage,
    driver: Driver,
    /// The connections, the one to the peer first and that to the group second.
    conns: Vec<ConnId>,
    posts: Below,
    outstanding: usize,
    tickets: Vec<(ConnId, Ticket)>,
    settled: Settled,
    /// Those who wait for connections.
    waiting: Vec<Box<dyn std::any::Any>>,
    seal: GroupSeal,
    peer: Peer,
    /// What the peer seals by, under the numbers of the connections that are sealed.
    seals: BTreeMap<ConnectionNumber, DatagramSeal>,
}

const BUFFER: usize = 700;
const BUFFERS: usize = 16;
const LEN_MAX: usize = 1500;
/// Bytes that the path carries.
const ROOM: usize = 600;
/// What is posted at once.
const POSTS_MAX: usize = 64;
/// Connections that are being made at once: each starts a handshake with every tick.
const CONNECTS_MAX: usize = 4;
/// Under which numbers both ends of the first connection receive.
const OWN: ConnectionNumber = ConnectionNumber(0x0101_0101_0101_0101);
/// That of a connection with a window.
const WINDOWED: ConnectionNumber = ConnectionNumber(0x0101_0101_0101_0102);
const THEIRS: ConnectionNumber = ConnectionNumber(0x0202_0202_0202_0202);
/// What another member of the group is called.
const MEMBER: u64 = 7;
/// What the keys of both directions are made of.
const SENT: u8 = 3;
const RECEIVED: u8 = 4;
const KEEP_ALIVE_TICK: Duration = Duration::from_millis(500);

const fn at(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

fn spec() -> ViSpec {
    ViSpec::new(Reliability::Unreliable, 256)
}

/// Those of a connection.
fn keys(own: ConnectionNumber, of: [u8; 2]) -> SealKeys {
    let [outgoing, incoming] = of.map(|byte| SealKey::new([byte ^ own.0.to_le_bytes()[0]; KEY]));
    SealKeys { outgoing, incoming }
}

fn name() -> ListenerName {
    ("fuzz".to_owned(), 0)
}

impl Stage {
    fn new() -> Self {
        let socket = || DatagramSocket::open(at(0)).expect("loopback").in_memory();
        let driver = nic::open(&NicOptions::new(""), false).expect("loopback");
        let (socket, group) = (Arc::new(socket()), Arc::new(socket()));
        let secrets = [Secret::none(), Secret::new(*b"fuzz")];
        Self {
            still: Arc::default(),
            host: socket.local().to_string(),
            socket,
            group,
            credentials: secrets
                .map(|secret| [1, 2].map(|byte| Credentials::of_byte("udp", secret.clone(), byte))),
            space: Cell::new(vec![0; SPACE].into()),
            set: Arc::clone(&driver.fixed.set),
            ground: Arc::new(Ground {
                pool: Pool::new(BUFFER, BUFFERS).expect("memory"),
                most: BUFFER,
            }),
        }
    }

    fn play(&self, input: &mut Input<'_>) {
        let _entered = self.still.begin();
        self.socket.memory().reset(ROOM);
        self.group.memory().reset(ROOM);
        let how = input.byte();
        let [own, peers] = &self.credentials[usize::from(how % 2)];
        let mut play = Play::new(self, [own, peers], [how & 2 != 0, how & 4 != 0]);
        for which in 0..2 {
            (0..3).for_each(|_| play.post(which, 0, input));
            play.post(which, 128, input);
        }
        while !input.0.is_empty() {
            play.step(input);
        }
        play.end();
        assert_eq!(self.ground.pool.available(BUFFER), BUFFERS, "all buffers are back");
    }
}

impl<'a> Play<'a> {
    fn new(
        stage: &'a Stage,
        [credentials, peers]: [&Credentials; 2],
        [is_below, is_sealed]: [bool; 2],
    ) -> Self {
        let fixed = UdpNicContext {
            host: stage.host.clone(),
            keys: Arc::default(),
            socket: Arc::clone(&stage.socket),
            set: Arc::clone(&stage.set),
            credentials: credentials.clone().unanswered(),
        };
        let mut driver = Driver::with_space(fixed, crate::rt::now(), stage.space.take());
        driver.listen(&name(), Reliability::Unreliable).expect("nobody else listens");
        driver.is_below = is_below;
        let known = PeerProof { key: peers.key(), is_sealed };
        let session = |own| Session { known, keys: is_sealed.then(|| keys(own, [SENT, RECEIVED])) };
        if is_below {
            let spec = ViSpec::new(Reliability::Delivery, 256);
            let spec = ViSpec { carries: Reliability::Unreliable, ..spec };
            driver.connected([WINDOWED, THEIRS], Peer::AT, session(WINDOWED), spec);
        }
        let made = driver.connected([OWN, THEIRS], Peer::AT, session(OWN), spec());
        let seal = GroupSeal::new(&Address::new("", "fuzz", 0), credentials.secret());
        let (number, conn) =
            (ConnectionNumber(crate::rt::random()), DataPath::member(spec(), seal.clone(), ROOM));
        let group = SocketAddr::new(Ipv4Addr::new(239, 1, 2, 3).into(), 9);
        let link =
            Connection::new([number, ConnectionNumber(seal.group)], group, &stage.group, conn);
        driver.links.open.insert(number, link);
        let socket = Arc::clone(&stage.group);
        driver.groups.push(GroupMembership { number, socket, seal: seal.clone(), watched: None });
        Self {
            stage,
            driver,
            conns: vec![made.conn, ConnId(number.0)],
            posts: Below::new(),
            outstanding: 0,
            tickets: Vec::new(),
            settled: Settled::default(),
            waiting: Vec::new(),
            seal,
            peer: Peer::new(peers.clone().unanswered(), credentials.key()),
            seals: [OWN, WINDOWED]
                .into_iter()
                .filter(|_| is_sealed)
                .map(|own| (own, DatagramSeal::new(keys(own, [RECEIVED, SENT]))))
                .collect(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let what = input.byte();
        match what {
            // These look at what arrives by themselves.
            0..16 => {
                let len = usize::from(u16::from_le_bytes(input.array())) % LEN_MAX;
                return self.arrive(what, input.take(len).to_vec());
            }
            16..80 => return self.piece(what, input),
            176..208 => return self.start_handshake(what, input),
            208.. => return self.answer(what, input),
            80..112 => self.post(what.into(), input.byte(), input),
            112..120 => self.cancel(input.byte()),
            120..128 => {
                let capacity = usize::from(input.byte() % 4);
                self.stage.socket.memory().make_room(capacity, ROOM - usize::from(what % 4) * 20);
            }
            128..132 => self.stage.socket.memory().make_room(usize::MAX, ROOM),
            132..144 => self.pass(what),
            144..160 => self.accept(),
            160..168 => self.connect(),
            168..172 => self.close(what),
            172..176 => self.undelivered(what),
        }
        self.poll();
    }

    fn work<R>(&mut self, body: impl FnOnce(&mut Driver, &mut After) -> R) -> R {
        let mut after = After::default();
        let result = body(&mut self.driver, &mut after);
        after.take_settled(&self.settled);
        after.tell();
        result
    }

    fn poll(&mut self) {
        self.work(|driver, after| {
            driver.poll(after);
            // What a window above would take.
            while driver.is_below && driver.next_datagram(after).is_some() {}
        });
        while self.posts.take().is_some() {
            self.outstanding -= 1;
        }
        let settled = std::mem::take(&mut *self.settled.lock().expect("nobody panicked"));
        self.conns.extend(settled.into_iter().filter_map(|(.., made)| Some(made.ok()?.conn)));
    }

    /// A datagram arrives, for a connection of the nic unless the input says which.
    fn arrive(&mut self, what: u8, mut bytes: Vec<u8>) {
        let own = if what & 8 == 0 { self.own(what) } else { ConnectionNumber(self.seal.group) };
        if let (0, Some(number)) = (what & 2, bytes.get_mut(8..16)) {
            number.copy_from_slice(&own.0.to_le_bytes());
            bytes = self.sealed(own, bytes);
        }
        let socket = if what & 8 == 0 { &self.stage.socket } else { &self.stage.group };
        if what & 8 != 0 {
            self.sign(&mut bytes);
        }
        if self.driver.is_below && what & 4 != 0 {
            // Two that the system has joined.
            bytes.extend_from_within(..);
        }
        socket.memory().say(bytes, if what & 1 == 0 { Peer::AT } else { at(9) });
        self.poll();
        if what & 4 != 0 {
            self.pass(0);
        }
    }

    /// The number of a connection.
    fn own(&self, what: u8) -> ConnectionNumber {
        let count = self.driver.links.open.len().max(1);
        self.driver.links.open.keys().nth(usize::from(what) % count).map_or(OWN, |own| *own)
    }

    /// A datagram as the peer seals it, if the connection with this number is sealed.
    fn sealed(&mut self, own: ConnectionNumber, bytes: Vec<u8>) -> Vec<u8> {
        match self.seals.get_mut(&own) {
            Some(seals) => seals.outgoing.seal_small(&bytes).to_vec(),
            None => bytes,
        }
    }

    /// Signs what should be signed.
    fn sign(&self, bytes: &mut Vec<u8>) {
        if let Ok(UdpDatagram::Group { signature: Some(signature), .. }) =
            UdpDatagram::decode(bytes)
        {
            bytes.truncate(bytes.len() - signature.len());
            bytes.extend(self.seal.sign(&[IoSlice::new(bytes)]).into_iter().flatten());
        }
    }

    /// A piece of a message, of which more than a few make sense.
    fn piece(&mut self, what: u8, input: &mut Input<'_>) {
        let [number, how, len, index] = input.array();
        let len = u32::from(len) * u32::from(1 + how % 8);
        let unit = if how & 16 == 0 { len } else { 256.min(len.saturating_sub(1)).max(1) };
        let split = MessageSplit { len, unit };
        let index = if how & 16 == 0 { 0 } else { u32::from(index) % split.count() };
        let (number, tag) = (u64::from(number % 32), u64::from(what / 32));
        let names = ["u8", "f64"];
        let kind = (how & 96 == 0).then_some(UdpKind {
            fingerprint: u64::from(how % 3),
            name: names[usize::from(how % 2)],
        });
        let eager = how & 128 != 0;
        let piece = UdpPiece { number, tag, eager, split, index, kind, bytes: &[] };
        let signed = self.seal.is_signed();
        let head: UdpHead = if what & 8 == 0 {
            UdpHead::of_piece(self.own(what), &piece)
        } else {
            UdpHead::of_group(self.seal.group, MEMBER + u64::from(what % 4), signed, &piece)
        };
        let mut bytes = head.bytes().to_vec();
        bytes.resize(bytes.len() + split.range(index).1 as usize, how);
        if what & 8 != 0 && signed {
            bytes.extend(self.seal.sign(&[IoSlice::new(&bytes)]).into_iter().flatten());
        }
        if what & 8 == 0 {
            bytes = self.sealed(self.own(what), bytes);
        }
        self.arrive(what & 12 | 2, bytes);
    }

    /// Posts what may be posted; the connection may be over.
    fn post(&mut self, which: usize, how: u8, input: &mut Input<'_>) {
        let kind = input.byte();
        if self.outstanding >= POSTS_MAX {
            return;
        }
        let landing = || Arc::clone(&self.stage.ground) as Arc<dyn DirectPlacement>;
        let mut descriptor = match kind % 8 {
            0..=2 => match self.stage.ground.pool.take(BUFFER) {
                Ok(buf) => Descriptor::new(buf),
                Err(_) => Descriptor::empty(),
            },
            3 => Descriptor::new(vec![kind; 10]).and(vec![kind; 400]),
            4 => Descriptor::new(vec![kind; 2000]),
            5 | 6 => Descriptor::landing(vec![kind; 200], 900, landing()),
            _ => Descriptor::empty(),
        };
        if how >= 128 {
            descriptor.mark_eager();
        }
        let op = if how % 4 == 3 { Op::Send } else { Op::Recv };
        let conn = self.conns[which % self.conns.len()];
        let posted = self.posts.post(ViId::unused(), op, descriptor);
        let ticket = posted.ticket();
        // One that is not taken comes back as well.
        self.outstanding += 1;
        self.tickets.push((conn, ticket));
        let _ = self.work(|driver, after| driver.post(conn, posted, after));
    }

    fn cancel(&mut self, index: u8) {
        if let Some(&(conn, ticket)) = self.tickets.get(usize::from(index)) {
            self.work(|driver, after| driver.cancel(conn, ticket, after));
        }
    }

    /// Time passes, until the next tick at least.
    fn pass(&mut self, ticks: u8) {
        for _ in 0..=ticks % 4 {
            self.stage.still.pass(KEEP_ALIVE_TICK);
            self.work(|driver, after| driver.tick(after.now(), after));
        }
    }

    fn accept(&mut self) {
        let made = self.work(|driver, after| driver.accept(&name(), spec(), after));
        self.conns.extend(made.expect("the nic is up").map(|made| made.conn));
    }

    fn connect(&mut self) {
        if self.driver.connectors.len() >= CONNECTS_MAX {
            return;
        }
        let (promise, waiting) = ConnectPromise::alone();
        self.waiting.push(Box::new(waiting));
        let since = crate::rt::now();
        let until = Some(since + 20 * KEEP_ALIVE_TICK);
        let to = Address::new(&Peer::AT.to_string(), "fuzz", 0).key(self.peer.own_key());
        let promise = promise.by_way_of(&self.settled, spec());
        let request = ConnectRequest { to, spec: spec(), since, until, at_once: false, promise };
        self.work(|driver, after| driver.connect(request, after));
    }

    fn close(&mut self, which: u8) {
        let conn = self.conns[usize::from(which) % self.conns.len()];
        self.work(|driver, after| driver.close(conn, after));
    }

    /// The system says that nobody is at the peer's address.
    fn undelivered(&self, what: u8) {
        let to = if what.is_multiple_of(2) { Peer::AT } else { at(9) };
        let bytes = UdpHead::probe(if what % 4 < 2 { THEIRS } else { OWN }).bytes().to_vec();
        self.stage.socket.report_undelivered(UndeliveredDatagram { to, bytes });
    }

    /// The peer starts a handshake.
    fn start_handshake(&mut self, what: u8, input: &mut Input<'_>) {
        let acceptor = &self.driver.acceptor;
        let mut bytes =
            self.peer.start_handshake(|theirs| acceptor.token(&Peer::AT, theirs), input.byte());
        bend(&mut bytes, what, input);
        self.arrive(2, bytes);
        while let Some(sent) = self.stage.socket.memory().next_sent() {
            self.peer.answered(&sent);
        }
    }

    /// The peer answers who starts a handshake it.
    fn answer(&mut self, what: u8, input: &mut Input<'_>) {
        while let Some(sent) = self.stage.socket.memory().next_sent() {
            if let Some(mut bytes) = self.peer.answer(&sent) {
                bend(&mut bytes, what, input);
                self.stage.socket.memory().say(bytes, Peer::AT);
            }
        }
        self.poll();
    }

    /// Ends it: everything must be back.
    fn end(mut self) {
        for conn in std::mem::take(&mut self.conns) {
            self.work(|driver, after| driver.release(conn, after));
        }
        self.work(|driver, after| driver.shut(after));
        self.poll();
        assert_eq!(self.outstanding, 0, "everything has completed");
        self.stage.space.set(std::mem::take(&mut self.driver.space));
    }
}

/// Changes a byte now and then.
fn bend(bytes: &mut [u8], what: u8, input: &mut Input<'_>) {
    if what % 4 == 3 {
        let [at, xor] = input.array();
        bytes.iter_mut().skip(at.into()).take(1).for_each(|byte| *byte ^= xor);
    }
}
