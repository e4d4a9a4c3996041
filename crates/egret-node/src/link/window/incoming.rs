//! One lane of what arrives: pieces in any order become messages in theirs.

use std::collections::{BTreeMap, VecDeque};

use egret_net::vi::Landing;

use super::fault::{Fault, planted};
use super::lie::Lie;
use super::memory::Memory;
use super::terms::Terms;
use super::wire::{Ack, Begins, Piece, low, whole};
use crate::link::Lane;

/// A message that is whole and whose turn it is.
#[derive(Debug)]
pub(crate) struct Arrived {
    /// How it came.
    pub(crate) lane: Lane,
    /// As its sender's descriptor had it.
    pub(crate) tag: u64,
    /// Where they are.
    pub(crate) memory: Memory,
}

/// What a piece was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    /// The next one.
    Next,
    /// One is missing before it.
    Early,
    /// It had come before.
    Double,
}

/// The pieces of a lane that have come.
///
/// A message is put together where it will stay, and its memory is asked for when all
/// before it are whole. Pieces of later messages wait: fewer than the window has, of no
/// more bytes than may be under way.
#[derive(Debug)]
pub(super) struct Incoming {
    lane: Lane,
    window: u64,
    bytes_max: u64,
    /// The first piece that has not come.
    next: u64,
    /// What the peer can know of that.
    told: u64,
    /// Bit `i`: piece `next + i` has come.
    seen: u64,
    current: Option<Assembly>,
    early: BTreeMap<u64, Early>,
    early_bytes: u64,
}

/// A message that is put together.
#[derive(Debug)]
struct Assembly {
    lane: Lane,
    begins: Begins,
    first: u64,
    /// The number of the piece behind its last.
    end: u64,
    /// Bytes of every piece but the last.
    unit: u64,
    memory: Memory,
}

/// A piece of a message whose turn it is not.
#[derive(Debug)]
struct Early {
    begins: Option<Begins>,
    bytes: Vec<u8>,
}

impl Incoming {
    pub(super) fn new(lane: Lane, terms: &Terms) -> Self {
        Self {
            lane,
            window: u64::from(terms.messages),
            bytes_max: terms.bytes,
            next: 0,
            told: 0,
            seen: 0,
            current: None,
            early: BTreeMap::new(),
            early_bytes: 0,
        }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check(&self) {
        assert_eq!(self.seen & 1, 0, "the next one has come");
        let early: u64 = self.early.values().map(|early| early.bytes.len() as u64).sum();
        assert_eq!(early, self.early_bytes);
        assert!(early <= self.bytes_max, "too many bytes wait");
        let behind = self.current.as_ref().map_or(self.next, |current| current.end);
        let waiting = behind..self.told + self.window;
        assert!(self.early.keys().all(|number| waiting.contains(number)), "it should not wait");
        assert!(self.current.as_ref().is_none_or(|it| (it.first..it.end).contains(&self.next)));
    }

    /// As if so many pieces had come and been told.
    #[cfg(test)]
    pub(super) fn skip(&mut self, pieces: u64) {
        self.next += pieces;
        self.told = self.next;
    }

    /// What has come, to be told now.
    pub(super) fn tell(&mut self) -> Ack {
        self.told = self.next;
        Ack { next: low(self.next), bits: self.seen }
    }

    /// Takes a piece, and with it the messages that are whole now.
    pub(super) fn hear(
        &mut self,
        piece: &Piece<'_>,
        landing: &dyn Landing,
        arrived: &mut VecDeque<Arrived>,
    ) -> Result<Heard, Lie> {
        let outside = Lie::Outside { lane: self.lane, number: piece.number };
        let number = whole(piece.number, self.next).ok_or(outside)?;
        if number < self.next {
            if planted(Fault::Twice) {
                self.deliver(number, piece, landing, arrived);
            }
            return Ok(Heard::Double);
        }
        if number >= self.told + self.window && !planted(Fault::Boundless) {
            return Err(outside);
        }
        let bit = 1_u64.checked_shl(low(number - self.next)).unwrap_or(0);
        if self.seen & bit != 0 {
            return Ok(Heard::Double);
        }
        let heard = if number == self.next { Heard::Next } else { Heard::Early };
        if heard == Heard::Early && planted(Fault::Overtaken) {
            self.deliver(number, piece, landing, arrived);
            return Ok(heard);
        }
        self.take(number, piece, landing)?;
        self.seen |= bit;
        self.settle(landing, arrived)?;
        Ok(heard)
    }

    /// Delivers a message of one piece, whether it is its turn or not: what faults do.
    #[cold]
    fn deliver(
        &self,
        number: u64,
        piece: &Piece<'_>,
        landing: &dyn Landing,
        arrived: &mut VecDeque<Arrived>,
    ) {
        let Some(begins) = piece.begins.filter(|it| it.len == piece.bytes.len() as u64) else {
            return;
        };
        let whole = Assembly::begin(self.lane, number, begins, piece.bytes, landing);
        arrived.extend(whole.map(Assembly::finish));
    }

    /// Puts a piece where it belongs: in its message, or aside.
    fn take(&mut self, number: u64, piece: &Piece<'_>, landing: &dyn Landing) -> Result<(), Lie> {
        if let Some(current) = self.current.as_mut().filter(|current| number < current.end) {
            return current.place(number, piece.begins, piece.bytes);
        }
        if self.current.is_none() && number == self.next {
            return self.begin(number, piece.begins, piece.bytes, landing);
        }
        let bytes = self.early_bytes + piece.bytes.len() as u64;
        if bytes > self.bytes_max && !planted(Fault::Boundless) {
            return Err(Lie::TooMuch { lane: self.lane, max: self.bytes_max });
        }
        self.early_bytes = bytes;
        let early = Early { begins: piece.begins, bytes: piece.bytes.to_vec() };
        self.early.insert(number, early);
        Ok(())
    }

    /// Begins the message whose turn it is, with its first piece, and puts in what has
    /// come of it already.
    fn begin(
        &mut self,
        number: u64,
        begins: Option<Begins>,
        bytes: &[u8],
        landing: &dyn Landing,
    ) -> Result<(), Lie> {
        let begins = begins.ok_or(Lie::Headless(self.lane))?;
        let mut new = Assembly::begin(self.lane, number, begins, bytes, landing)?;
        while let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() < new.end) {
            let (number, early) = entry.remove_entry();
            self.early_bytes -= early.bytes.len() as u64;
            new.place(number, early.begins, &early.bytes)?;
        }
        self.current = Some(new);
        Ok(())
    }

    /// Goes on to the first piece that is missing.
    fn settle(
        &mut self,
        landing: &dyn Landing,
        arrived: &mut VecDeque<Arrived>,
    ) -> Result<(), Lie> {
        loop {
            let Some(current) = &self.current else {
                let Some(early) = self.early.remove(&self.next) else { return Ok(()) };
                self.early_bytes -= early.bytes.len() as u64;
                self.begin(self.next, early.begins, &early.bytes, landing)?;
                continue;
            };
            let run = u64::from(self.seen.trailing_ones()).min(current.end - self.next);
            self.seen = self.seen.checked_shr(low(run)).unwrap_or(0);
            self.next += run;
            match self.current.take_if(|current| current.end == self.next) {
                Some(whole) => arrived.push_back(whole.finish()),
                None => return Ok(()),
            }
        }
    }
}

impl Assembly {
    fn begin(
        lane: Lane,
        first: u64,
        begins: Begins,
        bytes: &[u8],
        landing: &dyn Landing,
    ) -> Result<Self, Lie> {
        let (len, unit) = (begins.len, bytes.len() as u64);
        if unit > len || unit == 0 && len > 0 {
            return Err(Lie::Size { lane, len: unit, due: len });
        }
        let pieces = if len == 0 { 1 } else { len.div_ceil(unit) };
        let mut memory = Memory::begin(lane, begins, landing)?;
        memory.place(0, bytes);
        Ok(Self { lane, begins, first, end: first.saturating_add(pieces), unit, memory })
    }

    /// Takes one of the pieces behind the first.
    fn place(&mut self, number: u64, begins: Option<Begins>, bytes: &[u8]) -> Result<(), Lie> {
        if begins.is_some() {
            return Err(Lie::Interrupts(self.lane));
        }
        let at = (number - self.first) * self.unit;
        let (len, due) = (bytes.len() as u64, self.unit.min(self.begins.len - at));
        if len != due && !planted(Fault::AnySize) {
            return Err(Lie::Size { lane: self.lane, len, due });
        }
        self.memory.place(at, bytes);
        Ok(())
    }

    fn finish(self) -> Arrived {
        Arrived { lane: self.lane, tag: self.begins.tag, memory: self.memory }
    }
}
