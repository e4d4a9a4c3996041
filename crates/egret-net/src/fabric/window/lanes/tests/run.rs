//! A conversation: both ends send, and everything must come once, in order, as sent.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::buf::{Buf, Pool};
use crate::rt::Instant;
use crate::vi::{Descriptor, DirectPlacement};

use super::super::WindowLane;
use super::super::fuzzing::shelf::{Arrived, Memory, Shelved};
use super::super::lane::LANES;
use super::super::wire;
use super::super::{WindowTerms, WindowTiming};
use super::network::{Network, Random};

/// Messages land in buffers of this size, and are no longer than that and a bit.
pub(super) const BUFFER: usize = 8192;
pub(super) const LEN_MAX: usize = BUFFER + Memory::OWN;

pub(super) fn terms(messages: u32) -> WindowTerms {
    let pace = WindowTiming { repeats_max: 1000, ..WindowTiming::default() };
    WindowTerms { messages, bytes: 64 << 10, datagram: 500, pace }
}

/// Gives buffers of a pool, of a length that leaves something over.
#[derive(Debug)]
pub(super) struct Ground(pub(super) Pool);

impl Ground {
    pub(super) const BUFFERS: usize = 32;

    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(Pool::new(BUFFER, Self::BUFFERS).unwrap()))
    }

    pub(super) fn is_whole(&self) -> bool {
        self.0.available(BUFFER) == Self::BUFFERS
    }
}

impl DirectPlacement for Ground {
    fn land(&self, len: u64, tag: u64) -> Result<Buf, &'static str> {
        let len = usize::try_from(len).unwrap();
        if len > LEN_MAX {
            return Err("nobody expects so much");
        }
        let over = usize::try_from(tag % 200).unwrap();
        self.0.take((len - over).min(BUFFER)).map_err(|_| "there is no buffer")
    }
}

/// What is sent: its bytes follow from its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueuedMessage {
    pub(super) tag: u64,
    pub(super) len: usize,
}

impl QueuedMessage {
    /// A part of bytes that look random.
    pub(super) fn bytes(self) -> Vec<u8> {
        static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let mut random = Random::new(0);
            std::iter::repeat_with(|| random.next().to_le_bytes()).take(4096).flatten().collect()
        });
        let at = usize::try_from(self.tag % 20_000).unwrap();
        BYTES[at..at + self.len].to_vec()
    }

    /// In up to three segments.
    pub(super) fn descriptor(self) -> Descriptor {
        let mut bytes = self.bytes();
        let parts = self.tag % 3;
        let mut descriptor = Descriptor::empty();
        for _ in 0..parts {
            let rest = bytes.split_off(bytes.len() / 2);
            descriptor = descriptor.and(std::mem::replace(&mut bytes, rest));
        }
        descriptor.and(bytes).with_tag(self.tag)
    }

    pub(super) fn check(self, arrived: &Arrived) {
        assert_eq!((arrived.tag, arrived.memory.len()), (self.tag, self.len), "another message");
        let mut bytes = arrived.memory.landed.as_ref().map_or(vec![], |buf| buf.bytes().to_vec());
        assert_eq!(bytes.is_empty(), self.len <= Memory::OWN, "where it landed");
        bytes.extend_from_slice(&arrived.memory.rest);
        assert!(bytes == self.bytes(), "other bytes");
    }
}

/// One end, what it has to say and what it expects.
#[derive(Debug)]
pub(super) struct End {
    pub(super) window: Shelved,
    pub(super) ground: Arc<Ground>,
    to_send: VecDeque<(WindowLane, QueuedMessage)>,
    under_way: usize,
    expected: [VecDeque<QueuedMessage>; LANES],
    /// The number of the last datagram.
    last: Option<u64>,
}

impl End {
    fn is_done(&self) -> bool {
        self.to_send.is_empty()
            && self.under_way == 0
            && self.expected.iter().all(VecDeque::is_empty)
    }

    fn take(&mut self) {
        while let Some(arrived) = self.window.poll_arrived() {
            let expected = self.expected[arrived.lane as usize].pop_front();
            expected.expect("nothing more was sent").check(&arrived);
        }
        while self.window.poll_sent().is_some() {
            self.under_way -= 1;
        }
    }
}

/// Two ends and what is between them.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) ends: [End; 2],
    pub(super) network: Network,
    pub(super) now: Instant,
    began: Instant,
    limit: usize,
    turns: u64,
    /// Says when how many messages have a place. Without it all have.
    places: Option<Random>,
}

impl Run {
    /// Each end keeps up to `limit` messages under way.
    pub(super) fn new(terms: WindowTerms, network: Network, limit: usize) -> Self {
        let end = |_| {
            let ground = Ground::new();
            End {
                window: Shelved::new(terms, Arc::clone(&ground) as Arc<dyn DirectPlacement>),
                ground,
                to_send: VecDeque::new(),
                under_way: 0,
                expected: [const { VecDeque::new() }; LANES],
                last: None,
            }
        };
        let now = Instant::from_nanos(0);
        Self { ends: [0, 1].map(end), network, now, began: now, limit, turns: 0, places: None }
    }

    /// Messages have to wait, a few at a time.
    pub(super) fn hold(&mut self, places: Random) {
        self.places = Some(places);
    }

    /// This message will go from this end to the other.
    pub(super) fn say(&mut self, from: usize, lane: WindowLane, message: QueuedMessage) {
        self.ends[from].to_send.push_back((lane, message));
        self.ends[1 - from].expected[lane as usize].push_back(message);
    }

    /// One moment: everything that can happen now.
    pub(super) fn turn(&mut self) {
        self.turns += 1;
        assert!(self.turns < 2_000_000, "it comes to no end");
        let now = self.now;
        while let Some((to, datagram)) = self.network.poll(now) {
            self.ends[to].window.hear(now, &datagram).expect("the peer is honest");
            self.ends[to].window.check();
            self.ends[to].take();
        }
        let mut out = Vec::new();
        for from in 0..2 {
            let end = &mut self.ends[from];
            if let Some(random) = &mut self.places
                && random.is(50)
            {
                end.window.admit(random.index(4), now).expect("the peer is honest");
                end.window.check();
                end.take();
            }
            while end.under_way < self.limit
                && let Some((lane, message)) = end.to_send.pop_front()
            {
                end.window.send(lane, message.descriptor());
                end.under_way += 1;
            }
            while end.window.poll_datagram(now, &mut out) {
                assert!(out.len() <= terms(1).datagram, "too long");
                let number = Some(wire::DatagramHead::read(&mut &out[..]).unwrap().number);
                assert!(number > std::mem::replace(&mut end.last, number), "a number again");
                self.network.send(now, 1 - from, &out);
            }
        }
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        let windows = self.ends.iter().filter_map(|end| end.window.next_event());
        windows.chain(self.network.next_event()).min()
    }

    /// Until all is said, and then until all is quiet.
    pub(super) fn finish(&mut self) {
        loop {
            self.turn();
            let Some(next) = self.next_event() else { break };
            assert!(next > self.now, "a moment that does not pass");
            self.now = next;
            let elapsed = self.now - self.began;
            assert!(elapsed < Duration::from_secs(3600), "it takes for ever");
        }
        for end in &self.ends {
            assert!(end.is_done(), "quiet, but not done: {end:?}");
            assert!(end.ground.is_whole(), "a buffer is missing");
        }
    }
}
