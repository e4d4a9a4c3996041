//! One lane of what arrives: pieces in any order become messages in theirs.

use std::collections::BTreeMap;

use super::fault::{Fault, planted};
use super::lane::WindowLane;
use super::terms::WindowTerms;
use super::violation::WindowViolation;
use super::wire::{Ack, MessageStart, WindowPiece, low, whole};
use super::{MessageSink, WindowError};

/// What a piece was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceArrival {
    /// The next one.
    Next,
    /// One is missing before it, or its message has to wait.
    Early,
    /// The piece was received before.
    Double,
}

/// The pieces of a lane that have come.
///
/// A message is put together where it will stay, and its memory is asked for when all
/// before it are whole. Pieces of later messages wait: fewer than the window has, of no
/// more bytes than may be under way.
///
/// A message whose turn it is and that [has to wait](MessageSink::begin) is *held*: its first piece
/// is among the early ones, and counts as missing. The peer goes on up to the end of the window,
/// and then repeats that piece now and then.
#[derive(Debug)]
pub(super) struct IncomingLane {
    lane: WindowLane,
    window: u64,
    bytes_max: u64,
    /// The first piece that has not come, or is held.
    next: u64,
    /// What the peer can know of that.
    told: u64,
    /// Bit `i`: piece `next + i` has come. Bit 0 only if it is held.
    seen: u64,
    current: Option<MessageAssembly>,
    early: BTreeMap<u64, EarlyPiece>,
    early_bytes: u64,
}

/// A message that is put together.
#[derive(Debug)]
struct MessageAssembly {
    lane: WindowLane,
    len: u64,
    first: u64,
    /// The number of the piece behind its last.
    end: u64,
    /// Bytes of every piece but the last.
    unit: u64,
}

/// A piece of a message whose turn it is not.
#[derive(Debug)]
struct EarlyPiece {
    begins: Option<MessageStart>,
    bytes: Vec<u8>,
}

impl IncomingLane {
    pub(super) fn new(lane: WindowLane, terms: &WindowTerms) -> Self {
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
        assert_eq!(self.seen & 1 != 0, self.is_held(), "the next one has come");
        let early: u64 = self.early.values().map(|early| early.bytes.len() as u64).sum();
        assert_eq!(early, self.early_bytes);
        assert!(early <= self.bytes_max || self.is_held(), "too many bytes wait");
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
        Ack { next: low(self.next), bits: self.seen & !1 }
    }

    /// Whether a message waits whose turn it is.
    pub(super) fn is_held(&self) -> bool {
        self.current.is_none() && self.early.contains_key(&self.next)
    }

    /// Takes a piece, and with it the messages that are whole now.
    pub(super) fn hear(
        &mut self,
        piece: &WindowPiece<'_>,
        into: &mut impl MessageSink,
    ) -> Result<PieceArrival, WindowError> {
        let outside = WindowViolation::Outside { lane: self.lane, number: piece.number };
        let number = whole(piece.number, self.next).ok_or(outside)?;
        if number < self.next {
            return Ok(PieceArrival::Double);
        }
        if self.is_outside(number) {
            return Err(outside.into());
        }
        let bit = 1_u64.checked_shl(low(number - self.next)).unwrap_or(0);
        if self.seen & bit != 0 {
            return Ok(PieceArrival::Double);
        }
        let next = self.next;
        self.take(number, piece, into)?;
        self.seen |= bit;
        self.settle(into)?;
        Ok(if number == next && !self.is_held() { PieceArrival::Next } else { PieceArrival::Early })
    }

    /// Whether a number is more than the peer was told that it may send.
    fn is_outside(&self, number: u64) -> bool {
        number >= self.told + self.window && !planted(Fault::Boundless)
    }

    /// Whether early pieces may not have so many bytes.
    fn is_too_much(&self, bytes: u64) -> bool {
        bytes > self.bytes_max && !planted(Fault::Boundless)
    }

    /// Puts a piece where it belongs: in its message, or aside.
    fn take(
        &mut self,
        number: u64,
        piece: &WindowPiece<'_>,
        into: &mut impl MessageSink,
    ) -> Result<(), WindowError> {
        if let Some(current) = self.current.as_mut().filter(|current| number < current.end) {
            return current.place(number, piece.begins, piece.bytes, into);
        }
        let is_turn = self.current.is_none() && number == self.next;
        if is_turn && self.begin(number, piece.begins, piece.bytes, into)? {
            return Ok(());
        }
        let bytes = self.early_bytes + piece.bytes.len() as u64;
        if self.is_too_much(bytes) && !is_turn {
            return Err(WindowViolation::TooMuch { lane: self.lane, max: self.bytes_max }.into());
        }
        self.early_bytes = bytes;
        let early = EarlyPiece { begins: piece.begins, bytes: piece.bytes.to_vec() };
        self.early.insert(number, early);
        Ok(())
    }

    /// Begins the message whose turn it is, with its first piece, and puts in what has
    /// come of it already. `false` if it has to wait.
    fn begin(
        &mut self,
        number: u64,
        begins: Option<MessageStart>,
        bytes: &[u8],
        into: &mut impl MessageSink,
    ) -> Result<bool, WindowError> {
        let begins = begins.ok_or(WindowViolation::Headless(self.lane))?;
        let new = MessageAssembly::begin(self.lane, number, begins, bytes, into)?;
        let Some(new) = new else { return Ok(false) };
        while let Some(entry) = self.early.first_entry().filter(|entry| *entry.key() < new.end) {
            let (number, early) = entry.remove_entry();
            self.early_bytes -= early.bytes.len() as u64;
            if number > new.first {
                new.place(number, early.begins, &early.bytes, into)?;
            }
        }
        self.current = Some(new);
        Ok(true)
    }

    /// Drops what came before its turn: it is not needed. A piece that is held stays, for the peer has
    /// heard of it.
    pub(super) fn forget_early(&mut self) {
        self.early.retain(|number, _| *number == self.next);
        self.early_bytes = self.early.values().map(|early| early.bytes.len() as u64).sum();
    }

    /// Goes on with a message that had to wait. Whether it does not any more.
    pub(super) fn resume(&mut self, into: &mut impl MessageSink) -> Result<bool, WindowError> {
        let before = self.next;
        self.settle(into)?;
        Ok(self.next > before)
    }

    /// Goes on to the first piece that is missing, or to a message that has to wait.
    fn settle(&mut self, into: &mut impl MessageSink) -> Result<(), WindowError> {
        loop {
            let Some(current) = &self.current else {
                let Some(early) = self.early.remove(&self.next) else { return Ok(()) };
                let (len, number) = (early.bytes.len() as u64, self.next);
                if self.begin(number, early.begins, &early.bytes, into)? {
                    self.early_bytes -= len;
                    continue;
                }
                self.early.insert(number, early);
                return Ok(());
            };
            let run = u64::from(self.seen.trailing_ones()).min(current.end - self.next);
            self.seen = self.seen.checked_shr(low(run)).unwrap_or(0);
            self.next += run;
            if self.current.take_if(|current| current.end == self.next).is_none() {
                return Ok(());
            }
            into.end(self.lane)?;
        }
    }
}

impl MessageAssembly {
    /// `None` if the message has to wait.
    fn begin(
        lane: WindowLane,
        first: u64,
        begins: MessageStart,
        bytes: &[u8],
        into: &mut impl MessageSink,
    ) -> Result<Option<Self>, WindowError> {
        let (len, unit) = (begins.len, bytes.len() as u64);
        if unit > len || unit == 0 && len > 0 {
            return Err(WindowViolation::Size { lane, len: unit, due: len }.into());
        }
        let pieces = if len == 0 { 1 } else { len.div_ceil(unit) };
        if !into.begin(lane, begins, bytes)? {
            return Ok(None);
        }
        Ok(Some(Self { lane, len, first, end: first.saturating_add(pieces), unit }))
    }

    /// Takes one of the pieces behind the first.
    fn place(
        &self,
        number: u64,
        begins: Option<MessageStart>,
        bytes: &[u8],
        into: &mut impl MessageSink,
    ) -> Result<(), WindowError> {
        if begins.is_some() {
            return Err(WindowViolation::Interrupts(self.lane).into());
        }
        let at = (number - self.first) * self.unit;
        let (len, due) = (bytes.len() as u64, self.unit.min(self.len - at));
        if is_other_size(len, due) {
            return Err(WindowViolation::Size { lane: self.lane, len, due }.into());
        }
        Ok(into.place(self.lane, at, bytes)?)
    }
}

fn is_other_size(len: u64, due: u64) -> bool {
    len != due && !planted(Fault::AnySize)
}

#[cfg(any(test, feature = "fuzzing"))]
impl IncomingLane {
    /// Delivers a message of one piece that has come before, or whose turn it is not: what faults do.
    pub(super) fn deliver(&self, piece: &WindowPiece<'_>, into: &mut impl MessageSink) {
        let Some(number) = whole(piece.number, self.next) else { return };
        let is_wrong = number < self.next && planted(Fault::Twice)
            || number > self.next && planted(Fault::Overtaken);
        let is_whole = |it: &MessageStart| is_wrong && it.len == piece.bytes.len() as u64;
        let Some(begins) = piece.begins.filter(is_whole) else { return };
        if let Ok(Some(_)) = MessageAssembly::begin(self.lane, number, begins, piece.bytes, into) {
            let _ = into.end(self.lane);
        }
    }
}
