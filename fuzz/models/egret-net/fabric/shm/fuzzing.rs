//! What a fuzzer calls: bytes that become what a peer says. Not for use.
//!
//! The input of [`posted`] is a program of one-byte instructions.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use super::ShmFabric;
use super::foreign::ForeignMemory;
use super::layout::{BOUNCE, BYTES, CHUNK, DEPTH, LEFT, PLACED, RECEIVES, RING, RING_LINES, TAKEN};
use super::memory::{LINE, OwnMemory};
use super::records::{RECORD_MAX, RingReceiver, RingSender, Scratch};
use super::rendezvous::fuzz_packet;
use super::scripted_peer::{ScriptedHandshake, ShmScriptedPeer};
use crate::buf::Pool;
use crate::fabric::Fabric;
use crate::fabric::common::fuzzed::{self, Input, Victim};
use crate::rt;
use crate::vi::{Hello, Nic, Reliability, ViOptions};

/// A peer writes these into its memory and its socket. The other end must
/// neither panic nor keep a buffer.
pub fn posted(input: &[u8]) {
    STAGE.with(|stage| stage.play(&mut Input(input)));
}

/// A peer writes these into its ring, and says that it consumed so much. Every head is
/// an answer, and a payload has a length that was checked.
pub fn records(input: &[u8]) {
    let mut input = Input(input);
    let own = OwnMemory::new(2 * RING_BYTES).expect("memory");
    let fd = own.fd().try_clone_to_owned().expect("a descriptor");
    let foreign = ForeignMemory::map(fd, own.len() as u64).expect("it is sealed");
    let mut scratch = Scratch::new();
    let lines = RING_BYTES / LINE;
    let receiver = RingReceiver::new(
        foreign.clone(),
        0,
        lines as u64,
        OwnMemory::new(LINE).expect("memory"),
        0,
    );
    let mut receiver = receiver.expect("it is inside");
    // What it consumed is said where nobody writes records.
    let sender = OwnMemory::new(RING_BYTES).expect("memory");
    let sender = RingSender::new(sender, 0, lines, foreign, RING_BYTES as u64);
    let mut sender = sender.expect("it is inside");
    while !input.0.is_empty() {
        match input.byte() % 5 {
            0 => {
                let at = usize::from(u16::from_le_bytes(input.array())) % (RING_BYTES / 8) * 8;
                own.word(at).store(u64::from_le_bytes(input.array()), Relaxed);
            }
            1 | 2 => {
                let position = receiver.position();
                let [low, high, kind, rest] = input.array();
                let rest = if rest == u8::MAX { rest } else { 1 };
                let head = u32::from_le_bytes([rest, kind % 4, low, high]);
                let line = usize::try_from(position % lines as u64).expect("it is less");
                own.word(line * LINE).store(position << 32 | u64::from(head), Release);
            }
            3 => {
                let said = u64::from(input.byte()) | u64::from(input.byte()) << 56;
                own.word(RING_BYTES).store(said, Release);
                let _ = sender.arrived();
            }
            _ => {
                let payload = vec![0; usize::from(u16::from_le_bytes(input.array())) % 5000];
                let _ = sender.send(0, &[&payload]);
                sender.ask();
            }
        }
        let is_ready = receiver.is_ready();
        match receiver.take(&mut scratch) {
            Ok(Some((_, payload))) => {
                assert!(is_ready && payload.len() <= RECORD_MAX, "{} bytes", payload.len());
                receiver.publish();
            }
            Ok(None) => {}
            Err(_) => assert!(is_ready, "nothing is no lie"),
        }
    }
    assert!(sender.position() >= sender.arrived().unwrap_or(0));
}

/// A stranger sends these as a handshake, an answer or a message.
pub fn rendezvous(input: &[u8]) {
    fuzz_packet(input);
}

thread_local! {
    static STAGE: Stage = Stage::new();
}

/// What plays one input after the other.
struct Stage {
    nic: Nic,
    pool: Pool,
    /// Of the peer.
    region: Pool,
}

/// One input being played.
struct Play<'a> {
    stage: &'a Stage,
    victim: Victim<'a>,
    puppet: ShmScriptedPeer,
}

impl Stage {
    fn new() -> Self {
        let name = format!("fuzzed-{}-{}", std::process::id(), rt::random());
        let region = Pool::builder().class(4096, 4).shareable().build();
        Self {
            nic: ShmFabric.open(&name.as_str().into()).expect("an unused name"),
            pool: fuzzed::pool(),
            region: region.expect("memory"),
        }
    }

    fn play(&self, input: &mut Input<'_>) {
        let reliability = Reliability::from_wire(input.byte() % 3).expect("there are three");
        let options = ViOptions::of(reliability);
        let listener = self.nic.listen("fuzz", 0, &options).expect("nobody else listens");
        let hello = Hello { reliability, service: "fuzz".to_owned(), tag: 0 };
        let scripted =
            ScriptedHandshake::new(self.nic.host(), hello).expect("the acceptor is open");
        let met = scripted.meet(&listener, rt::now() + LONG);
        let (vi, puppet) = met.expect("its handshake was accepted");
        let victim = Victim::new(&self.nic, &self.pool, vi, input);
        let mut play = Play { stage: self, victim, puppet };
        while !input.0.is_empty() {
            play.step(input);
        }
        play.victim.end();
    }
}

impl Play<'_> {
    fn step(&mut self, input: &mut Input<'_>) {
        let own = &self.puppet.strings.own;
        match input.byte() % 16 {
            0..=5 => self.put(input),
            6 => {
                let (tag, len) = (u64::from_le_bytes(input.array()), input.byte());
                let payload = input.take(usize::from(len));
                self.puppet.put_any(true, tag, payload);
            }
            7 => {
                let at = usize::from(u16::from_le_bytes(input.array())) % (BYTES / 8) * 8;
                own.word(at).store(self.word(input), Relaxed);
            }
            8 | 9 => {
                let at = [TAKEN, RECEIVES, PLACED, LEFT][usize::from(input.byte() % 4)];
                own.word(at).store(self.word(input), Release);
            }
            10 => {
                let (fds, len) = (usize::from(input.byte() % 3), usize::from(input.byte()));
                let bytes = input.take(len.max(1));
                self.say(bytes, fds);
            }
            11 => {
                let number = u32::from(input.byte() % 4).to_le_bytes();
                self.say(&[[1, 1].as_slice(), &number].concat(), 1);
            }
            12 => self.victim.look(POLLS),
            13 => self.victim.post(0, input),
            14 => self.victim.post(input.byte(), input),
            _ => self.victim.cancel(input.byte()),
        }
        self.victim.poll();
    }

    /// A record of which more than a few make sense.
    fn put(&mut self, input: &mut Input<'_>) {
        let [op, place, len, flags] = input.array().map(u64::from);
        let tag = (op % 11) | (place % 5) << 8 | (flags % 8) << 24;
        let words: [u64; 6] = std::array::from_fn(|_| self.word(input));
        // Behind the words there may be more, also more than a record may have.
        let bytes = bytemuck::cast_slice(&words).iter().copied().cycle();
        let len = usize::try_from(if len < 250 { len % 60 } else { (len - 249) * 300 });
        let payload: Vec<u8> = bytes.take(len.expect("a few")).collect();
        self.puppet.put_any(op < 230, tag, &payload);
    }

    fn word(&self, input: &mut Input<'_>) -> u64 {
        const fn counts(n: u64) -> u64 {
            n << 32 | n
        }
        const KNOWN: [u64; 14] = [
            RING as u64,
            BOUNCE as u64,
            CHUNK as u64,
            BYTES as u64,
            RING_LINES as u64,
            DEPTH as u64,
            4 * 4096,
            u64::MAX,
            u64::MAX - 7,
            1 << 31,
            u32::MAX as u64,
            counts(1),
            counts(4),
            counts(u32::MAX as u64),
        ];
        self.victim.word(&KNOWN, input)
    }

    fn say(&self, bytes: &[u8], fds: usize) {
        let region = self.stage.region.region().fd().expect("it is shareable");
        let other = self.puppet.strings.handle.as_fd();
        // One that says more than the socket holds is not heard.
        let _ = self.puppet.say(bytes, &[region, other][..fds]);
        self.victim.look(POLLS);
    }
}

/// More than it takes a nic to look at everything.
const POLLS: usize = 257;
const RING_BYTES: usize = 256 * LINE;
const LONG: Duration = Duration::from_secs(10);
