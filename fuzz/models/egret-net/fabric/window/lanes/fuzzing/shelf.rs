//! A window whose messages arrive on a shelf, for tests: short ones in memory of their own, long ones
//! where a landing says.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

#[cfg(test)]
use super::super::counters::WindowCounters;
use super::super::lane::{LANES, WindowLane};
use super::super::terms::WindowTerms;
use super::super::violation::WindowViolation;
use super::super::window::Window;
use super::super::{MessageSink, MessageSource, MessageStart, WindowError};
use crate::buf::Buf;
use crate::rt::Instant;
use crate::vi::{Descriptor, DirectPlacement, ViError};

/// A message that is whole and whose turn it is.
#[derive(Debug)]
pub(in super::super) struct Arrived {
    /// How it came.
    pub(in super::super) lane: WindowLane,
    /// As its sender's descriptor had it.
    pub(in super::super) tag: u64,
    /// Where it is.
    pub(in super::super) memory: Memory,
}

/// Where the bytes of a message are: as of a receive with a landing, the first ones in
/// the buffer that was supplied, if any, and the rest in memory of its own.
#[derive(Debug, Default)]
pub(in super::super) struct Memory {
    /// The first bytes of a message of more than [`Self::OWN`].
    pub(in super::super) landed: Option<Buf>,
    /// The bytes behind, or all of a shorter message.
    pub(in super::super) rest: Vec<u8>,
}

/// Messages that arrive.
pub(in super::super) struct Shelf {
    landing: Arc<dyn DirectPlacement>,
    current: [Option<Arrived>; LANES],
    arrived: VecDeque<Arrived>,
    refused: Option<WindowViolation>,
    /// How many more messages have a place; others have to wait.
    pub(in super::super) places: usize,
}

/// A window and its shelf.
#[derive(Debug)]
pub(in super::super) struct Shelved {
    pub(in super::super) window: Window<Descriptor>,
    pub(in super::super) shelf: Shelf,
}

impl Shelved {
    pub(in super::super) fn new(terms: WindowTerms, landing: Arc<dyn DirectPlacement>) -> Self {
        let (current, arrived) = ([const { None }; LANES], VecDeque::new());
        let shelf = Shelf { landing, current, arrived, refused: None, places: usize::MAX };
        Self { window: Window::new(terms), shelf }
    }

    pub(in super::super) fn send(&mut self, lane: WindowLane, descriptor: Descriptor) {
        self.window.send(lane, descriptor);
    }

    pub(in super::super) fn poll_datagram(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.window.poll_datagram(now, out)
    }

    pub(in super::super) fn hear(
        &mut self,
        now: Instant,
        datagram: &[u8],
    ) -> Result<(), WindowViolation> {
        let heard = self.window.hear(now, datagram, &mut self.shelf);
        heard.map_err(|broken| self.shelf.lie(&broken))
    }

    /// From now on so many messages have a place.
    pub(in super::super) fn admit(
        &mut self,
        places: usize,
        now: Instant,
    ) -> Result<(), WindowViolation> {
        self.shelf.places = places;
        let resumed = self.window.resume(now, &mut self.shelf);
        resumed.map_err(|broken| self.shelf.lie(&broken))
    }

    /// The next message that has come: whole, in the order of its lane, once.
    pub(in super::super) fn poll_arrived(&mut self) -> Option<Arrived> {
        self.shelf.arrived.pop_front()
    }

    pub(in super::super) fn poll_sent(&mut self) -> Option<Descriptor> {
        self.window.poll_sent()
    }

    pub(in super::super) fn next_event(&self) -> Option<Instant> {
        self.window.next_event()
    }

    #[cfg(test)]
    pub(in super::super) fn is_silent(&self, now: Instant) -> bool {
        self.window.is_silent(now)
    }

    /// All that is not acknowledged, lane by lane.
    pub(in super::super) fn end(&mut self) -> Vec<Descriptor> {
        WindowLane::ALL
            .into_iter()
            .flat_map(|lane| self.window.end(lane).collect::<Vec<_>>())
            .collect()
    }

    pub(in super::super) fn check(&self) {
        self.window.check();
    }

    #[cfg(test)]
    pub(in super::super) fn counters(&self) -> WindowCounters {
        self.window.counters()
    }

    #[cfg(test)]
    pub(in super::super) fn skip(&mut self, pieces: u64) {
        self.window.skip(pieces);
    }
}

impl Shelf {
    fn lie(&mut self, broken: &WindowError) -> WindowViolation {
        match broken {
            WindowError::Violation(lie) => *lie,
            WindowError::Refused(_) => self.refused.take().expect("it was said why"),
        }
    }
}

impl MessageSink for Shelf {
    fn begin(
        &mut self,
        lane: WindowLane,
        begins: MessageStart,
        first: &[u8],
    ) -> Result<bool, Box<ViError>> {
        let Some(places) = self.places.checked_sub(1) else { return Ok(false) };
        self.places = places;
        let mut memory = Memory::begin(lane, begins, &*self.landing).map_err(|lie| {
            self.refused = Some(lie);
            Box::new(ViError::Closed)
        })?;
        memory.place(0, first);
        self.current[lane as usize] = Some(Arrived { lane, tag: begins.tag, memory });
        Ok(true)
    }

    fn place(&mut self, lane: WindowLane, at: u64, bytes: &[u8]) -> Result<(), Box<ViError>> {
        self.current[lane as usize].as_mut().expect("it has begun").memory.place(at, bytes);
        Ok(())
    }

    fn end(&mut self, lane: WindowLane) -> Result<(), Box<ViError>> {
        self.arrived.extend(self.current[lane as usize].take());
        Ok(())
    }
}

impl Memory {
    /// Bytes of a message that lands nowhere else, and of what a landing leaves over.
    pub(in super::super) const OWN: usize = 256;

    /// Memory for a message that begins.
    fn begin(
        lane: WindowLane,
        begins: MessageStart,
        landing: &dyn DirectPlacement,
    ) -> Result<Self, WindowViolation> {
        let MessageStart { len, tag } = begins;
        let refused = |why| WindowViolation::Refused { lane, len, why };
        let whole = usize::try_from(len).map_err(|_| refused("there is no such memory"))?;
        if whole <= Self::OWN {
            return Ok(Self { landed: None, rest: vec![0; whole] });
        }
        let buf = landing.land(len, tag).map_err(refused)?;
        let rest = whole.checked_sub(buf.len()).ok_or_else(|| refused("it landed in more"))?;
        if rest > Self::OWN {
            return Err(refused("it landed in less"));
        }
        Ok(Self { landed: Some(buf), rest: vec![0; rest] })
    }

    /// Bytes of the message.
    pub(in super::super) fn len(&self) -> usize {
        self.landed.as_ref().map_or(0, Buf::len) + self.rest.len()
    }

    /// Writes bytes that belong at `at`, inside.
    fn place(&mut self, at: u64, bytes: &[u8]) {
        let at = usize::try_from(at).expect("inside of memory");
        let landed = self.landed.as_mut().map_or(&mut [][..], Buf::bytes_mut);
        let split = landed.len().saturating_sub(at).min(bytes.len());
        let (first, rest) = bytes.split_at(split);
        if !first.is_empty() {
            landed[at..at + split].copy_from_slice(first);
        }
        if !rest.is_empty() {
            let at = at + split - landed.len();
            self.rest[at..at + rest.len()].copy_from_slice(rest);
        }
    }
}

impl MessageSource for Descriptor {
    fn len(&self) -> u64 {
        Self::len(self)
    }

    fn tag(&self) -> u64 {
        Self::tag(self)
    }

    fn append(&self, offset: u64, len: usize, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + len, 0);
        self.gather(offset, &mut out[at..]);
    }
}

impl fmt::Debug for Shelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("current", &self.current).finish_non_exhaustive()
    }
}
