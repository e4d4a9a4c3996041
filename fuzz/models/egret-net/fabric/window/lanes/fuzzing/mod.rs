//! What a fuzzer calls: bytes that become datagrams. Not for use.

pub(super) mod shelf;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::buf::{Buf, Pool};
use crate::rt::Instant;
use crate::vi::{Descriptor, DirectPlacement};

use self::shelf::Shelved as Window;
use super::lane::LANES;
use super::lane::WindowLane;
use super::{WindowTerms, WindowTiming, wire};

/// A peer sends these in the middle of a conversation. They must neither panic nor take
/// memory.
///
/// The input is a row of datagrams, each after two bytes: what is done with it (1: it is
/// as it is, without the right sum; 2: time passes before; 4: what is due is
/// sent before; 8: a message is sent before; 16: it is only pieces, and gets a head) and
/// its length.
pub(in crate::fabric) fn datagrams(input: &[u8]) {
    with_ground(|ground| {
        let (mut victim, genuine) = amid(ground);
        let mut now = Instant::from_nanos(1_000_000);
        let mut left = input;
        while let Some(([what, len], rest)) = left.split_first_chunk() {
            let (bytes, rest) = rest.split_at(usize::from(*len).min(rest.len()));
            left = rest;
            now = live(&mut victim, *what, now);
            if victim.hear(now, &dress(*what, bytes, &genuine)).is_err() {
                victim.end();
                return;
            }
            victim.check();
            while victim.poll_arrived().is_some() {}
        }
    });
}

/// Two windows talk, and the input says what the network does to each datagram; what it
/// changes bears the old sum, so everything must come once and in order. If the first
/// byte is odd it bears the right one: then a lie may be found, and nothing else. If its second bit
/// is set the input also says when how many messages have a place.
pub(in crate::fabric) fn conversation(input: &[u8]) {
    with_ground(|ground| {
        let mut script = input.iter().copied();
        let mut next = || script.next();
        let mode = next().unwrap_or(0);
        let lies = mode & 1 != 0;
        let mut talk = Talk::new(ground, &mut next);
        talk.waits = mode & 2 != 0;
        for _ in 0..10_000 {
            match talk.turn(lies, &mut next) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) if lies => return,
                Err(lie) => panic!("an honest peer lied: {lie}"),
            }
        }
        assert!(lies, "it comes to no end");
    });
}

const BUFFER: usize = 2048;
const BUFFERS: usize = 16;

#[derive(Debug)]
struct Ground(Pool);

impl DirectPlacement for Ground {
    fn land(&self, len: u64, _tag: u64) -> Result<Buf, &'static str> {
        let len = usize::try_from(len).map_err(|_| "more than there is memory")?;
        self.0.take(len.min(BUFFER)).map_err(|_| "no buffer is left")
    }
}

/// Runs with memory that must be back afterwards.
fn with_ground(run: impl FnOnce(&Arc<Ground>)) {
    thread_local! {
        static GROUND: Arc<Ground> = Arc::new(Ground(Pool::new(BUFFER, BUFFERS).expect("memory")));
    }
    GROUND.with(|ground| {
        run(ground);
        assert_eq!(ground.0.available(BUFFER), BUFFERS, "a buffer is missing");
    });
}

fn terms(messages: u32) -> WindowTerms {
    let pace = WindowTiming { repeats_max: 1000, ..WindowTiming::default() };
    WindowTerms { messages, bytes: 4096, datagram: 256, pace }
}

fn message(tag: u64, len: usize) -> Descriptor {
    Descriptor::new(bytes(tag, len).to_vec()).with_tag(tag)
}

/// The bytes of a message: they count up from its tag.
fn bytes(tag: u64, len: usize) -> &'static [u8] {
    const TAGS: usize = 16;
    const LEN_MAX: usize = 70 * 31;
    static COUNT: [u8; TAGS + LEN_MAX] = {
        let mut count = [0_u8; TAGS + LEN_MAX];
        let mut at = 1;
        while at < count.len() {
            count[at] = count[at - 1].wrapping_add(1);
            at += 1;
        }
        count
    };
    &COUNT[usize::try_from(tag).expect("a small one")..][..len]
}

/// A window of which something is under way each way, with gaps, and a datagram of its
/// peer.
fn amid(ground: &Arc<Ground>) -> (Window, Vec<u8>) {
    let now = Instant::from_nanos(0);
    let [mut victim, mut peer] = [0, 1].map(|_| Window::new(terms(16), Arc::clone(ground) as _));
    for lane in WindowLane::ALL {
        for (tag, len) in [(1, 0), (2, 700), (3, 20), (4, 1000)] {
            victim.send(lane, message(tag, len));
            peer.send(lane, message(tag, len));
        }
    }
    let mut out = Vec::new();
    for (from, to) in [(true, 3), (false, 4), (true, 5)] {
        let (speaks, hears) =
            if from { (&mut victim, &mut peer) } else { (&mut peer, &mut victim) };
        for count in 0..6 {
            if speaks.poll_datagram(now, &mut out) && count % to != 1 {
                hears.hear(now, &out).expect("it is genuine");
            }
        }
    }
    peer.poll_datagram(now + Duration::from_millis(100), &mut out);
    victim.check();
    (victim, out)
}

fn live(victim: &mut Window, what: u8, mut now: Instant) -> Instant {
    if what & 2 != 0 {
        now = now + Duration::from_millis(20);
    }
    if what & 8 != 0 {
        victim.send(
            WindowLane::ALL[usize::from(what >> 6) % LANES],
            message(9, usize::from(what) * 3),
        );
    }
    if what & 4 != 0 {
        let mut out = Vec::new();
        while victim.poll_datagram(now, &mut out) {}
        while victim.poll_sent().is_some() {}
    }
    now
}

/// Makes of bytes a datagram that is looked at.
fn dress(what: u8, bytes: &[u8], genuine: &[u8]) -> Vec<u8> {
    if what & 1 != 0 {
        return bytes.to_vec();
    }
    let mut datagram = genuine[..wire::HEAD].to_vec();
    datagram[5] &= 33;
    if what & 16 != 0 {
        datagram.extend_from_slice(bytes);
    } else {
        datagram[4] = 1;
        for (at, byte) in bytes.iter().enumerate() {
            match at {
                0 => datagram[5] = byte & 63,
                1..=16 => datagram[15 + at] = *byte,
                _ => datagram.push(*byte),
            }
        }
    }
    wire::seal(&mut datagram);
    datagram
}

/// Two windows, and what is between them.
struct Talk {
    windows: [Window; 2],
    /// What each has to hear yet: lane, tag and length.
    expected: [[VecDeque<(u64, usize)>; LANES]; 2],
    late: Vec<(usize, Vec<u8>)>,
    now: Instant,
    /// Whether messages have to wait for places.
    waits: bool,
}

impl Talk {
    fn new(ground: &Arc<Ground>, next: &mut impl FnMut() -> Option<u8>) -> Self {
        let messages = u32::from(next().unwrap_or(3) % 64) + 1;
        let mut windows = [0, 1].map(|_| Window::new(terms(messages), Arc::clone(ground) as _));
        let mut expected = [const { [const { VecDeque::new() }; LANES] }; 2];
        for tag in 0..u64::from(next().unwrap_or(0) % 16) {
            let what = next().unwrap_or(0);
            let (from, lane) = (usize::from(what & 1), usize::from(what >> 1) % LANES);
            let len = usize::from(what >> 3) * 70;
            windows[from].send(WindowLane::ALL[lane], message(tag, len));
            expected[1 - from][lane].push_back((tag, len));
        }
        Self { windows, expected, late: Vec::new(), now: Instant::from_nanos(0), waits: false }
    }

    /// All that happens now. Whether there is more to come.
    fn turn(
        &mut self,
        lies: bool,
        next: &mut impl FnMut() -> Option<u8>,
    ) -> Result<bool, super::WindowViolation> {
        let mut out = Vec::new();
        for from in 0..2 {
            self.admit(from, lies, next)?;
            while self.windows[from].poll_datagram(self.now, &mut out) {
                self.carry(1 - from, &mut out, lies, next)?;
            }
        }
        for (to, datagram) in std::mem::take(&mut self.late) {
            self.arrive(to, &datagram, lies)?;
        }
        self.now = self.now + Duration::from_micros(50);
        let Some(event) = self.windows.iter().filter_map(Window::next_event).min() else {
            assert!(lies || self.expected.iter().flatten().all(VecDeque::is_empty), "quiet");
            return Ok(false);
        };
        self.now = self.now.max(event);
        Ok(true)
    }

    /// Messages that had no place may have one now.
    fn admit(
        &mut self,
        to: usize,
        lies: bool,
        next: &mut impl FnMut() -> Option<u8>,
    ) -> Result<(), super::WindowViolation> {
        if self.waits {
            let places = next().map_or(usize::MAX, |places| usize::from(places % 4));
            self.windows[to].admit(places, self.now)?;
            self.taken(to, lies);
        }
        Ok(())
    }

    fn carry(
        &mut self,
        to: usize,
        out: &mut Vec<u8>,
        lies: bool,
        next: &mut impl FnMut() -> Option<u8>,
    ) -> Result<(), super::WindowViolation> {
        match next().unwrap_or(0) % 8 {
            4 => return Ok(()),
            5 => self.arrive(to, out, lies)?,
            6 => {
                self.late.push((to, std::mem::take(out)));
                return Ok(());
            }
            7 => {
                let at = usize::from(next().unwrap_or(0)) % out.len();
                out[at] ^= next().unwrap_or(0);
                if lies {
                    wire::seal(out);
                }
            }
            _ => {}
        }
        self.arrive(to, out, lies)
    }

    fn arrive(
        &mut self,
        to: usize,
        datagram: &[u8],
        lies: bool,
    ) -> Result<(), super::WindowViolation> {
        self.windows[to].hear(self.now, datagram)?;
        self.taken(to, lies);
        Ok(())
    }

    /// Looks at what has come.
    fn taken(&mut self, to: usize, lies: bool) {
        let window = &mut self.windows[to];
        window.check();
        while window.poll_sent().is_some() {}
        while let Some(arrived) = window.poll_arrived() {
            let expected = self.expected[to][arrived.lane as usize].pop_front();
            if lies {
                continue;
            }
            let (tag, len) = expected.expect("nothing more was sent");
            assert_eq!((arrived.tag, arrived.memory.len()), (tag, len));
            let landed = arrived.memory.landed.as_ref().map_or(&[][..], Buf::bytes);
            let (first, rest) = bytes(tag, len).split_at(landed.len());
            assert!(landed == first && arrived.memory.rest == rest, "other bytes");
        }
    }
}
