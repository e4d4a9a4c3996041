//! What a fuzzer calls: bytes that become what a peer says over a window. Not for use.
//!
//! The input of [`ends`] is a program of one-byte instructions. Nothing in it makes a system call.

use std::sync::Arc;
use std::time::Duration;

use super::connection::Connection;
use super::driver::Driver;
use super::lanes::{
    MessageSink, MessageSource, MessageStart, Window, WindowLane, WindowTerms, WindowTiming, seal,
};
use super::send::Parcel;
use super::wire::{NamedKind, WindowFrame};
use crate::buf::Pool;
use crate::fabric::common::close_reason::CloseReason;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::DrainedUnits;
use crate::fabric::common::fuzzed::{self, BUFFER, BUFFERS, Ground, Input};
use crate::fabric::sim::SimFabric;
use crate::fabric::{Machine, ViSpec};
use crate::rt::Instant;
use crate::vi::{
    self, Access, AccessError, Below, Descriptor, DirectPlacement, DrainId, Exposed, Keys, Nic,
    Notices, Op, Reliability, RemoteKey, Ticket, ViError, ViId,
};

/// A peer sends any datagrams.
pub fn datagrams(input: &[u8]) {
    super::lanes::fuzzing::datagrams(input);
}

/// Two windows talk over a network that does anything.
pub fn conversation(input: &[u8]) {
    super::lanes::fuzzing::conversation(input);
}

/// A peer says these to an end that receives, sends, reads and writes. The end must neither panic
/// nor keep a buffer.
pub fn ends(input: &[u8]) {
    STAGE.with(|stage| stage.play(&mut Input(input)));
}

thread_local! {
    static STAGE: Stage = Stage::new();
}

/// What plays one input after the other.
struct Stage {
    /// Of no use but that memory is exposed by it.
    _nic: Nic,
    keys: Arc<Keys>,
    exposed: [Exposed; 2],
    ground: Arc<Ground>,
}

/// One input being played.
struct Play<'a> {
    stage: &'a Stage,
    link: Connection,
    vi: ViId,
    drain: DrainId,
    /// What the program has posted.
    posts: Below,
    outstanding: usize,
    tickets: Vec<Ticket>,
    notices: Notices,
    now: Instant,
    peer: Peer,
}

/// The other end: its window is an honest one, what it says need not be.
struct Peer {
    window: Window<Said>,
    /// Whether it does not listen, and so acknowledges nothing.
    is_deaf: bool,
    /// The last datagram, to be repeated or changed.
    last: Vec<u8>,
}

/// A message of the peer.
#[derive(Debug)]
struct Said {
    tag: u64,
    bytes: Vec<u8>,
}

impl MessageSource for Said {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn tag(&self) -> u64 {
        self.tag
    }

    fn append(&self, offset: u64, len: usize, out: &mut Vec<u8>) {
        let from = usize::try_from(offset).expect("it lies in memory");
        out.extend_from_slice(&self.bytes[from..from + len]);
    }
}

/// Where the peer has what it hears.
struct Nowhere;

impl MessageSink for Nowhere {
    fn begin(&mut self, _: WindowLane, _: MessageStart, _: &[u8]) -> Result<bool, Box<ViError>> {
        Ok(true)
    }

    fn place(&mut self, _: WindowLane, _: u64, _: &[u8]) -> Result<(), Box<ViError>> {
        Ok(())
    }

    fn end(&mut self, _: WindowLane) -> Result<(), Box<ViError>> {
        Ok(())
    }
}

/// Bytes of the peer's datagrams, so that messages come in pieces; those of the end are the least.
const DATAGRAM: usize = 200;
/// What the program posts at once.
const POSTS_MAX: usize = 64;
/// Messages of a lane that the peer has under way.
const SAID_MAX: usize = 64;

impl Stage {
    fn new() -> Self {
        let nic = SimFabric::default().windowed_nic("fuzz");
        let ground = Arc::new(Ground { pool: fuzzed::pool(), most: BUFFER });
        // Of a pool of its own: these are never back.
        let memory = Pool::new(4 * BUFFER, 2).expect("memory");
        let exposed = [Access::READ, Access::READ_WRITE].map(|access| {
            let buf = memory.take(4 * BUFFER).expect("there are two");
            nic.expose(buf, access).expect("it is small")
        });
        let keys = nic.inside(|machine: &mut Driver, _| Arc::clone(machine.keys()));
        Self { _nic: nic, keys, exposed, ground }
    }

    fn play(&self, input: &mut Input<'_>) {
        let terms = WindowTerms {
            messages: 64,
            bytes: 1 << 18,
            datagram: DATAGRAM,
            pace: WindowTiming::default(),
        };
        let peer = Peer { window: Window::new(terms), is_deaf: false, last: Vec::new() };
        let spec = ViSpec::new(Reliability::Delivery, 1);
        let mut play = Play {
            stage: self,
            link: Connection::new(&spec),
            vi: spec.vi,
            drain: spec.drain,
            posts: Below::new(),
            outstanding: 0,
            tickets: Vec::new(),
            notices: Notices::default(),
            now: Instant::from_nanos(1_000_000),
            peer,
        };
        let posts = input.byte();
        for what in 0..4 {
            play.post(posts.wrapping_shr(what), input);
        }
        play.flush(true);
        while !input.0.is_empty() {
            play.step(input);
        }
        play.end(&ViError::Closed);
        play.take();
        assert_eq!(play.outstanding, 0, "everything has completed");
        drop(play);
        assert_eq!(self.ground.pool.available(BUFFER), BUFFERS, "all buffers are back");
    }
}

impl Play<'_> {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 32 {
            0..=9 => self.say(input),
            10..=13 => self.carry(input),
            14 => self.change(input),
            15 => {
                let len = usize::from(input.byte());
                self.arrive(&mut input.take(len).to_vec());
            }
            16 => self.peer.is_deaf ^= true,
            17 => self.now = self.now + Duration::from_millis(1 << (input.byte() % 12)),
            18 => self.flush(true),
            19..=22 => self.flush(false),
            23 => self.cancel(input.byte()),
            24 => self.end(&ViError::Closed),
            25 => self.end(&ViError::NicDown),
            26 => {
                let last = self.peer.last.clone();
                self.hear(&last);
            }
            what => self.post(what, input),
        }
        self.take();
    }

    /// The program posts something.
    fn post(&mut self, what: u8, input: &mut Input<'_>) {
        let [how, at] = input.array();
        let descriptor = self.memory(how);
        if self.outstanding >= POSTS_MAX || self.link.error().is_some() {
            return;
        }
        if how >= 128 {
            return self.send_eager(what, at);
        }
        let theirs = RemoteKey::of(u64::from(at)).at(u64::from(at));
        let op = match what % 5 {
            0 | 1 => Op::Recv,
            2 => Op::Send,
            3 => Op::Read(theirs),
            _ => Op::Write { to: theirs, notify: at % 2 == 0 },
        };
        let posted = self.posts.post(self.vi, op, descriptor);
        self.tickets.push(posted.ticket());
        self.outstanding += 1;
        self.link.post(posted).expect("there is room");
        self.flush(false);
    }

    /// The program sends, drains, or asks what was drained.
    fn send_eager(&mut self, what: u8, len: u8) {
        let lane = vi::Lane::ALL[usize::from(what % 2)];
        match what % 5 {
            0..=2 => {
                // A lane may be full.
                let _ = self.link.send(lane, len.into(), &[&vec![what; len.into()]]);
            }
            3 => {
                let mut left = usize::from(len % 8);
                self.link.drain(self.drain, &mut left, &mut |reply, tag, bytes| {
                    let _ = reply.send(lane, tag, &[bytes]);
                });
            }
            _ => {
                self.link.arrived(lane, len.is_multiple_of(2));
            }
        }
        self.link.take_news();
        self.flush(false);
    }

    /// Memory of one kind or another.
    fn memory(&self, how: u8) -> Descriptor {
        let landing = || Arc::clone(&self.stage.ground) as Arc<dyn DirectPlacement>;
        let descriptor = match how % 8 {
            0..=2 => match self.stage.ground.pool.take(BUFFER) {
                Ok(buf) => Descriptor::new(buf),
                Err(_) => Descriptor::empty(),
            },
            3 => Descriptor::new(vec![how; 700]),
            4 => Descriptor::new(vec![how; 10]).and(vec![how; 400]),
            5 | 6 => Descriptor::landing(vec![how; 200], 250, landing()),
            _ => Descriptor::empty(),
        };
        descriptor.with_tag(how.into())
    }

    fn cancel(&mut self, index: u8) {
        if let Some(ticket) = self.tickets.get(usize::from(index)) {
            self.link.cancel(*ticket, &mut self.notices);
        }
    }

    /// Takes what came back.
    fn take(&mut self) {
        while self.posts.take().is_some() {
            self.outstanding -= 1;
        }
    }

    fn end(&mut self, why: &ViError) {
        self.link.end(self.now, why, &mut self.notices);
        assert!(self.link.error().is_some(), "it is over");
        self.flush(false);
    }

    /// What the nic does for an end: what has to wait goes on, and what is due goes to the peer.
    fn flush(&mut self, thorough: bool) {
        let (mut out, now, keys) = (Vec::new(), self.now, &self.stage.keys);
        if !thorough && !self.link.has_work(now) {
            let due = |window: &mut Window<Parcel>| window.poll_datagram(now, &mut out);
            assert!(!self.link.window().is_some_and(due), "there is something to send");
        }
        if let Err(why) = self.link.feed(self.now, thorough, keys, &mut self.notices) {
            self.link.end(self.now, &why, &mut self.notices);
        }
        while self.link.window().is_some_and(|window| window.poll_datagram(now, &mut out)) {
            self.peer.hear(now, &out);
        }
        if let Some(why) = self.link.is_silent(self.now) {
            self.link.end(self.now, &why, &mut self.notices);
            self.link.leaving = None;
        }
        self.link.has_left(self.now);
        self.link.note(self.now);
        self.link.next_event();
    }

    /// A datagram arrives.
    fn hear(&mut self, datagram: &[u8]) {
        let heard = self.link.hear(self.now, datagram, &self.stage.keys, &mut self.notices);
        if let Err(why) = heard {
            self.end(&why);
        }
    }

    /// The same, with the right sum.
    fn arrive(&mut self, datagram: &mut [u8]) {
        if datagram.len() >= 4 {
            seal(datagram);
        }
        self.hear(datagram);
    }

    /// The peer's datagrams arrive, or some of them.
    fn carry(&mut self, input: &mut Input<'_>) {
        let mut fate = input.byte();
        let mut out = Vec::new();
        while self.peer.window.poll_datagram(self.now, &mut out) {
            fate = fate.rotate_right(1);
            if fate < 224 {
                self.hear(&out);
            }
            std::mem::swap(&mut self.peer.last, &mut out);
        }
        self.flush(false);
    }

    /// A datagram of the peer arrives changed, cut or with more behind it.
    fn change(&mut self, input: &mut Input<'_>) {
        let mut datagram = self.peer.last.clone();
        let [how, at, xor] = input.array();
        let at = usize::from(at).min(datagram.len());
        match how % 4 {
            0 => datagram.truncate(at),
            1 => datagram.extend_from_slice(input.take(xor.into())),
            _ => datagram.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= xor),
        }
        self.arrive(&mut datagram);
    }

    /// The peer says something, of which more than a few make sense.
    fn say(&mut self, input: &mut Input<'_>) {
        let [what, tag, len, bent] = input.array();
        let name = ["f64", "", "u8"][usize::from(tag % 3)];
        let result = match tag % 4 {
            0 => Err(AccessError::Revoked),
            _ => Ok(()),
        };
        let mut word = || self.stage.word(input);
        let frame = match what % 16 {
            0 => WindowFrame::Counts(word(), DrainedUnits(word())),
            1 | 2 => WindowFrame::Counts(counts(input), DrainedUnits(0)),
            3 => WindowFrame::Ask,
            4 => WindowFrame::Read { secret: word(), offset: word(), len: word() },
            5 => WindowFrame::Written(result),
            6 => WindowFrame::Eager(vi::Lane::Talk, DrainedUnits((tag % 4).into())),
            7 => WindowFrame::Eager(vi::Lane::Bulk, DrainedUnits(0)),
            8 => WindowFrame::Goodbye(counts(input)),
            9 => WindowFrame::Message(None, None),
            10 => {
                let few = |word: u64| word % 8;
                let (taken, receives, placed) = (few(word()), word(), few(word()));
                WindowFrame::Message(None, Some(ReceiveCounts { taken, receives, placed }))
            }
            11 => WindowFrame::Message(Some(NamedKind { fingerprint: word(), name }), None),
            12 => WindowFrame::Write { secret: word(), offset: word(), notify: None },
            13 => WindowFrame::Write { secret: word(), offset: word(), notify: Some(tag.into()) },
            14 => WindowFrame::ReadPiece { offset: word() },
            _ => WindowFrame::ReadEnd(result),
        };
        let mut bytes = Vec::new();
        frame.push(&mut bytes);
        match frame {
            WindowFrame::Goodbye(_) if len < 128 => CloseReason::Closed.push(&mut bytes),
            _ if !frame.has_bytes() && len < 240 => {}
            _ => bytes.resize(bytes.len() + usize::from(len) * usize::from(1 + bent % 4), tag),
        }
        let mut lane = frame.lane();
        if bent >= 240 {
            lane = WindowLane::ALL[usize::from(bent % 4)];
        } else if bent >= 224 {
            let at = usize::from(input.byte()) % bytes.len();
            bytes[at] ^= 1 << (bent % 8);
        }
        if self.peer.window.kept(lane) < SAID_MAX {
            self.peer.window.send(lane, Said { tag: tag.into(), bytes });
        }
    }
}

impl Stage {
    /// A word: small, a key, or any.
    fn word(&self, input: &mut Input<'_>) -> u64 {
        let small = input.byte();
        match small {
            0..128 => small.into(),
            128..232 => self.exposed[usize::from(small % 2)].key().secret(),
            232..240 => u64::MAX - u64::from(small % 8),
            240..248 => 1 << (8 * u32::from(small % 8)),
            _ => u64::from_le_bytes(input.array()),
        }
    }
}

/// How far the peer is: a little.
fn counts(input: &mut Input<'_>) -> u64 {
    let [taken, receives, placed] = input.array().map(|count| u64::from(count % 8));
    ReceiveCounts { taken, receives, placed }.pack()
}

impl Peer {
    fn hear(&mut self, now: Instant, datagram: &[u8]) {
        if !self.is_deaf {
            // What the end says may answer what was changed on the way.
            self.is_deaf = self.window.hear(now, datagram, &mut Nowhere).is_err();
            while self.window.poll_sent().is_some() {}
        }
    }
}
