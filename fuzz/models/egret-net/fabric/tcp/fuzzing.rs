//! What a fuzzer calls: bytes that become what a peer writes. Not for use.
//!
//! The input of [`frames`] is a program of one-byte instructions. The connection lies in
//! [memory](super::scripted_peer) and the clock stands: what is left of system calls are a look or two of
//! the nic at its set.

use std::sync::Arc;
use std::time::Duration;

use super::TcpFabric;
use super::acceptor::TcpRequest;
use super::driver::Driver;
use super::scripted_peer::{MemoryStream, ScriptedPeer};
use super::stream::ByteStream;
use super::wire::{CHUNK, COUNTS, EAGER, HEAD};
use crate::buf::{Pinned, Pool};
use crate::fabric::Fabric;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::fuzzed::{self, BUFFER, Input, Still, Victim};
use crate::fabric::handshake::{Callee, Caller, CallerRequest, Credentials, HandshakeEvent};
use crate::vi::{Hello, Listener, Nic, Reliability, Secret, Vi, ViOptions};

/// A peer writes these to its connection. The other end must neither panic nor keep
/// a buffer.
pub fn frames(input: &[u8]) {
    STAGE.with(|stage| stage.play(&mut Input(input)));
}

thread_local! {
    static STAGE: Stage = Stage::new();
}

/// What plays one input after the other.
struct Stage {
    still: Arc<Still>,
    nic: Nic,
    pool: Pool,
    /// So that memory which is exposed is locked already.
    _pinned: Pinned,
    /// That of the nic, and that of the peer.
    credentials: [Credentials; 2],
}

/// One input being played.
struct Play<'a> {
    victim: Victim<'a>,
    peer: MemoryStream,
    /// What the peer seals by, if the stream is sealed.
    records: Option<ScriptedPeer>,
    /// The peer writes so many bytes at a time.
    piece: usize,
}

impl Stage {
    fn new() -> Self {
        let nic = TcpFabric.open(&"".into()).expect("loopback");
        let pool = fuzzed::pool();
        let pinned = pool.region().pin().expect("it is small");
        let credentials = [1, 2].map(|byte| Credentials::of_byte("tcp", Secret::none(), byte));
        Self { still: Arc::default(), nic, pool, _pinned: pinned, credentials }
    }

    fn play(&self, input: &mut Input<'_>) {
        let _entered = self.still.begin();
        let first = input.byte();
        let reliability = Reliability::from_wire(first % 3).expect("there are three");
        // The records of a stream that is sealed.
        let records = (first >= 192).then(|| ScriptedPeer::caller(usize::from(first) * 3 - 575));
        let piece = usize::from(input.byte()).max(1);
        let options = ViOptions::of(reliability);
        let listener = self.nic.listen("fuzz", 0, &options).expect("nobody else listens");
        let (vi, peer) = self.meet(&listener, reliability, records.is_some());
        let victim = Victim::new(&self.nic, &self.pool, vi, input);
        let mut play = Play { victim, peer, records, piece };
        while !input.0.is_empty() {
            play.step(input);
        }
        play.peer.make_room(usize::MAX);
        play.victim.end();
        // What was left is not waited for.
        self.still.pass(LONG);
        self.nic.inside(|driver: &mut Driver, after| driver.tick(after.now(), after));
    }

    /// A connection, and its other end without a nic. Both sides of the handshake are here.
    fn meet(
        &self,
        listener: &Listener,
        reliability: Reliability,
        is_sealed: bool,
    ) -> (Vi, MemoryStream) {
        let hello = Hello { reliability, service: "fuzz".to_owned(), tag: 0 };
        let wanted = CallerRequest { hello, terms: b"fuzz".to_vec(), key: None, is_plain: true };
        let [own, peers] = self.credentials.clone();
        let mut caller = Caller::new(peers, wanted);
        // Its openings are all the same.
        let mut callee = Callee::new(own.unanswered(), true);
        let hello = loop {
            let step = caller.outgoing().to_vec();
            caller.sent(step.len());
            let news = callee.feed(&step).expect("an honest handshake").news;
            if let HandshakeEvent::Hello { hello, .. } = news {
                break hello;
            }
            let step = callee.outgoing().to_vec();
            callee.sent(step.len());
            caller.feed(&step).expect("an honest handshake");
        };
        let peer = MemoryStream::default();
        peer.make_room(ROOM);
        let (stream, host) = (ByteStream::Memory(peer.clone()), "fuzz".to_owned());
        let visitor = TcpRequest { stream, callee, hello, host };
        self.nic.inside(|driver: &mut Driver, after| {
            driver.fixed.seal.is_fixed = is_sealed;
            driver.listeners.arrived(visitor, after);
        });
        (listener.poll_accept().expect("the nic is up").expect("it is let in"), peer)
    }
}

impl Play<'_> {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 20 {
            0..=7 => self.frame(input),
            8 => {
                let len = usize::from(input.byte());
                let bytes = input.take(len);
                // Not sealed: a process between the two may write, too.
                self.write_raw(bytes);
            }
            9 => self.victim.look(POLLS),
            10 => self.peer.end(),
            11 => self.peer.make_room(usize::from(input.byte()).pow(2)),
            12 => self.victim.post(0, input),
            13 | 14 => self.victim.post(input.byte(), input),
            15 => self.victim.cancel(input.byte()),
            16 => self.eager(input),
            17 => self.victim.send_eager(input.byte()),
            _ => self.victim.drain(input.byte()),
        }
        self.victim.poll();
    }

    /// A frame of which more than a few make sense.
    fn frame(&mut self, input: &mut Input<'_>) {
        let [kind, flags, words, len] = input.array();
        let (kind, flags) = (kind % 14, flags % 8);
        // As many words as there should be, mostly.
        let fit = match (kind, flags) {
            (1, 1) | (2, 0) | (8, 2) | (11 | 13, 0) => 1,
            (2, 1) => 2,
            (4 | 7, 0) => 3,
            (6 | 9, 4) => 4,
            _ => 0,
        };
        let words = if words < 240 { fit } else { words % 8 };
        let payload = match len {
            0..200 => u32::from(len % 80),
            200..250 => 0,
            _ => self.word(input).to_le_bytes().first_chunk().map_or(0, |b| u32::from_le_bytes(*b)),
        };
        let mut bytes = vec![kind, flags, words, 0];
        bytes.extend(payload.to_le_bytes());
        bytes.extend(self.word(input).to_le_bytes());
        bytes.extend(self.counts(input).to_le_bytes());
        assert_eq!(bytes.len(), HEAD);
        for _ in 0..words {
            bytes.extend(self.word(input).to_le_bytes());
        }
        let payload = usize::try_from(payload).unwrap_or(usize::MAX).min(2 * CHUNK);
        bytes.resize(bytes.len() + payload, kind);
        self.write(&bytes);
    }

    /// An eager message, or counts, that say a little has been drained, or anything.
    fn eager(&mut self, input: &mut Input<'_>) {
        let [how, what, talk, bulk] = input.array();
        let (kind, flags) = match how % 8 {
            0 => (COUNTS, 0),
            1 => (COUNTS, 8),
            2 => (EAGER, 16),
            _ => (EAGER, 0),
        };
        let len = if kind == COUNTS { 0 } else { usize::from(what) * usize::from(1 + how / 16) };
        let drained = match talk {
            0..200 => u64::from(talk % 4) | u64::from(bulk % 4) << 32,
            _ => self.word(input),
        };
        let mut bytes = vec![kind, flags, 1, 0];
        bytes.extend(u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(if kind == COUNTS { 0 } else { self.word(input) }.to_le_bytes());
        bytes.extend(self.counts(input).to_le_bytes());
        bytes.extend(drained.to_le_bytes());
        bytes.resize(bytes.len() + len, what);
        self.write(&bytes);
    }

    /// What the peer says of how far it is: a little, or anything.
    fn counts(&self, input: &mut Input<'_>) -> u64 {
        let [taken, receives, placed] = input.array().map(u64::from);
        match taken {
            255 => self.word(input),
            _ => ReceiveCounts { taken: taken % 16, receives: receives % 16, placed: placed % 8 }
                .pack(),
        }
    }

    fn word(&self, input: &mut Input<'_>) -> u64 {
        const KNOWN: [u64; 10] = [
            BUFFER as u64,
            BUFFER as u64 + 1,
            CHUNK as u64,
            CHUNK as u64 + 1,
            u64::MAX,
            u64::MAX - 7,
            1 << 31,
            u32::MAX as u64,
            1 << 40,
            (1 << 40) + 1,
        ];
        self.victim.word(&KNOWN, input)
    }

    fn write(&mut self, bytes: &[u8]) {
        match &mut self.records {
            None => self.write_raw(bytes),
            Some(records) => {
                let sealed = records.seal(bytes);
                self.write_raw(&sealed);
            }
        }
    }

    /// Who was sent away has written in vain.
    fn write_raw(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(self.piece.max(bytes.len() / 64)) {
            self.peer.say(piece);
            self.victim.poll();
        }
    }
}

/// Polls of one connection: it is read at each.
const POLLS: usize = 8;
/// Longer than a connection that was left is waited for.
const LONG: Duration = Duration::from_secs(5);
/// Bytes that the peer's kernel takes at first.
const ROOM: usize = 64 << 10;
