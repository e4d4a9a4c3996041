//! What a fuzzer calls: bytes that become what a peer says. Not for use.
//!
//! The input of [`slots`] is a program of one-byte instructions. Where it wants
//! a word, a byte below 128 is the word itself, one below 192 picks a word that
//! something depends on, and any other is followed by the eight bytes.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use super::ShmFabric;
use super::layout::{BOUNCE, BYTES, CHUNK, DEPTH, LEFT, PLACED, RECEIVES, RING, SLOTS, TAKEN};
use super::puppet::{Greeted, Puppet};
use super::rendezvous::fuzz_packet;
use crate::buf::Pool;
use crate::fabric::Fabric;
use crate::rt::{self, Deadline};
use crate::vi::{Access, Descriptor, Exposed, Hello, Nic, Reliability, Ticket, Vi, ViOptions};

/// A peer writes these into its memory and its socket. The other end must
/// neither panic nor keep a buffer.
pub fn slots(input: &[u8]) {
    STAGE.with(|stage| stage.play(&mut Input(input)));
}

/// A stranger sends these as a greeting, an answer or a message.
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
    vi: Vi,
    puppet: Puppet,
    exposed: [Exposed; 2],
    tickets: Vec<Ticket>,
}

struct Input<'a>(&'a [u8]);

const BUFFER: usize = 64;
const BUFFERS: usize = 32;
/// As often as it takes the nic to look at its sockets.
const POLLS: usize = 257;

impl Stage {
    fn new() -> Self {
        let name = format!("fuzzed-{}-{}", std::process::id(), rt::random());
        let region = Pool::builder().class(4096, 4).shareable().build();
        Self {
            nic: ShmFabric.open(&name.as_str().into()).expect("an unused name"),
            pool: Pool::new(BUFFER, BUFFERS).expect("memory"),
            region: region.expect("memory"),
        }
    }

    fn play(&self, input: &mut Input<'_>) {
        let reliability = Reliability::from_wire(input.byte() % 3).expect("there are three");
        let options = ViOptions::of(reliability);
        let listener = self.nic.listen("fuzz", 0, &options).expect("nobody else listens");
        let hello = Hello { reliability, service: "fuzz".to_owned(), tag: 0 };
        let greeted = Greeted::new(self.nic.host(), hello).expect("the door is open");
        let vi = listener.wait_accept(Deadline::In(LONG)).expect("it was greeted");
        let puppet = greeted.wait(rt::now() + LONG).expect("it was accepted");
        let exposed = [Access::READ, Access::READ_WRITE].map(|access| {
            let buf = self.pool.take(BUFFER).expect("all are back");
            self.nic.expose(buf, access).expect("it is small")
        });
        let mut play = Play { stage: self, vi, puppet, exposed, tickets: Vec::new() };
        for _ in 0..4 {
            play.post(0, input);
        }
        while !input.0.is_empty() {
            play.step(input);
        }
        self.nic.poll();
        play.end();
        assert_eq!(self.pool.available(BUFFER), BUFFERS, "all buffers are back");
    }
}

impl Play<'_> {
    fn step(&mut self, input: &mut Input<'_>) {
        let own = &self.puppet.strings.own;
        match input.byte() % 16 {
            0..=5 => self.put(input),
            6 => {
                let head = u32::from_le_bytes(input.array());
                let words = std::array::from_fn(|_| u64::from_le_bytes(input.array()));
                self.puppet.ring.put(head, &words);
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
            12 => (0..POLLS).for_each(|_| _ = self.stage.nic.poll()),
            13 => self.post(0, input),
            14 => self.post(input.byte() % 5, input),
            _ => {
                let index = usize::from(input.byte());
                self.tickets.get(index).map(|ticket| self.vi.cancel(*ticket));
            }
        }
        self.stage.nic.poll();
    }

    /// A slot of which more than a few make sense.
    fn put(&mut self, input: &mut Input<'_>) {
        let [op, place, len, flags] = input.array().map(u32::from);
        let head = (op % 11) | (place % 5) << 8 | (len % 40) << 16 | (flags % 8) << 24;
        let words = std::array::from_fn(|_| self.word(input));
        self.puppet.ring.put(head, &words);
    }

    fn word(&self, input: &mut Input<'_>) -> u64 {
        let small = input.byte();
        match small {
            0..128 => small.into(),
            128..192 => {
                let [read, both] = self.exposed.each_ref().map(|exposed| exposed.key().secret());
                let counts = |n: u64| n << 32 | n;
                let known = [
                    read,
                    both,
                    RING as u64,
                    BOUNCE as u64,
                    CHUNK as u64,
                    BYTES as u64,
                    SLOTS as u64,
                    DEPTH.into(),
                    4 * 4096,
                    u64::MAX,
                    u64::MAX - 7,
                    1 << 31,
                    u32::MAX.into(),
                    counts(1),
                    counts(4),
                    counts(u32::MAX.into()),
                ];
                known[usize::from(small) % known.len()]
            }
            _ => u64::from_le_bytes(input.array()),
        }
    }

    fn say(&self, bytes: &[u8], fds: usize) {
        let region = self.stage.region.region().fd().expect("it is shareable");
        let other = self.puppet.strings.handle.as_fd();
        // One that says more than the socket holds is not heard.
        let _ = self.puppet.say(bytes, &[region, other][..fds]);
        (0..POLLS).for_each(|_| _ = self.stage.nic.poll());
    }

    /// Posts what may be posted; the connection may be over.
    fn post(&mut self, what: u8, input: &mut Input<'_>) {
        while self.vi.recv_queue().poll().is_some() || self.vi.send_queue().poll().is_some() {}
        let Ok(buf) = self.stage.pool.take(BUFFER) else { return };
        let descriptor = Descriptor::new(buf);
        let theirs = self.exposed[1].key().at(u64::from(input.byte()));
        let posted = match what {
            0 => self.vi.post_recv(descriptor),
            1 => self.vi.post_send(descriptor),
            2 => self.vi.post_read(descriptor, theirs),
            3 => self.vi.post_write(descriptor, theirs),
            _ => self.vi.post_write_notify(descriptor, theirs),
        };
        self.tickets.extend(posted);
    }

    fn end(self) {
        let queues = [self.vi.recv_queue().clone(), self.vi.send_queue().clone()];
        drop(self);
        for queue in queues {
            while queue.poll().is_some() {}
            assert_eq!(queue.outstanding(), 0, "everything has completed");
        }
    }
}

impl<'a> Input<'a> {
    /// The next byte; zero at the end.
    fn byte(&mut self) -> u8 {
        let [byte] = self.array();
        byte
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

const LONG: Duration = Duration::from_secs(10);
