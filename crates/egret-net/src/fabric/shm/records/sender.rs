//! The end that writes records.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::super::fault::{self, Fault, planted};
use super::super::foreign::ForeignMemory;
use super::super::memory::{LINE, OwnMemory, Peek, Readable, WORD, Writable};
use super::{
    INLINE, INLINE_WORDS, LINES_MIN, RecordKind, RingError, RingLayoutError, RingLines,
    SendRecordError, TAG_WORD,
};
use super::{gather, head, lines_of, word_inside};
use crate::atomics::{Atomics, Word};

/// Writes records into a ring in memory of its own, and reads in memory of the
/// receiver how far that is.
#[derive(Debug)]
pub(in super::super) struct RingSender<M = OwnMemory, F = ForeignMemory> {
    memory: M,
    lines: RingLines,
    /// Lines written, ever.
    position: u64,
    /// Lines up to here may be written: the receiver has consumed what they held.
    limit: u64,
    /// The position behind the last ask.
    asked: u64,
    stale: StaleLines,
    peer: F,
    /// Which word of the peer's says how far it is, and what it said last.
    consumed_word: usize,
    consumed: u64,
}

impl<M: Writable, F: Readable> RingSender<M, F> {
    /// A ring of `lines` lines at byte `first`, where the memory is still zero, for a
    /// receiver that says at byte `consumed` of its memory how far it is.
    pub(in super::super) fn new(
        memory: M,
        first: usize,
        lines: usize,
        peer: F,
        consumed: u64,
    ) -> Result<Self, RingLayoutError> {
        Self::from_lines(LINES_MIN, memory, first, lines, peer, consumed)
    }

    /// The same with another least number of lines. Records may be shorter then.
    pub(in super::super) fn from_lines(
        least: u64,
        memory: M,
        first: usize,
        lines: usize,
        peer: F,
        consumed: u64,
    ) -> Result<Self, RingLayoutError> {
        let lines = RingLines::inside(memory.lines().len(), first as u64, lines as u64, least)?;
        let consumed_word = word_inside(peer.lines().len(), consumed)?;
        let (limit, stale) = (lines.count, StaleLines::new(lines));
        let (position, asked, consumed) = (0, 0, 0);
        Ok(Self { memory, lines, position, limit, asked, stale, peer, consumed_word, consumed })
    }

    /// Writes a record of one part and one line, if there is room as far as is known and nothing
    /// to clear: then it takes nothing but the stores, and no call. The position behind it.
    #[inline(always)]
    pub(in super::super) fn try_short(&mut self, tag: u64, parts: &[&[u8]]) -> Option<u64> {
        let &[part] = parts else { return None };
        let next = self.position + 1;
        if part.len() > INLINE || !self.takes_only_stores(next) {
            return None;
        }
        if part.len() <= 2 * WORD {
            let [first, second] = gather::pair(part);
            self.store(RecordKind::Record, part.len(), 1, tag, &[first, second, 0, 0, 0, 0]);
        } else {
            self.store(RecordKind::Record, part.len(), 1, tag, &gather::words(part));
        }
        Some(next)
    }

    /// Whether a record of one line up to here takes nothing but its stores: there is room as far
    /// as is known, and nothing to clear.
    #[inline(always)]
    fn takes_only_stores(&self, next: u64) -> bool {
        let has_room = next <= self.limit || planted(Fault::RoomUnchecked);
        let is_clear = next >= self.stale.until || planted(Fault::ShortUncleared);
        has_room && is_clear
    }

    /// The same with more lines: before the end of the ring there is room for them.
    #[inline]
    pub(in super::super) fn try_long(&mut self, tag: u64, parts: &[&[u8]]) -> Option<u64> {
        let &[part] = parts else { return None };
        let (first, rest) = part.split_first_chunk::<INLINE>()?;
        let (len, lines) = (part.len(), 1 + rest.len().div_ceil(LINE) as u64);
        let most = self.lines.record_max().min(self.lines.to_end(self.position));
        if len > super::RECORD_MAX || lines > most || !self.has_room(lines) {
            return None;
        }
        // All at once: a receiver that copies fetches some lines more than it needs, and has taken
        // away what was claimed ahead.
        self.claim(self.position, lines);
        self.copy_lines(self.lines.line(self.position) + 1, rest);
        self.publish(RecordKind::Record, len, lines, tag, &gather::words(first));
        Some(self.position)
    }

    /// Copies to the start of this line and those behind it. What is not a whole line goes by
    /// words, the last of them filled up, which is quicker than byte for byte.
    #[inline(always)]
    fn copy_lines(&self, line: usize, bytes: &[u8]) {
        let (whole, rest) = bytes.as_chunks::<LINE>();
        if !whole.is_empty() {
            self.memory.copy_in(line * LINE, whole.as_flattened());
        }
        if rest.is_empty() {
            return;
        }
        let line = &self.memory.lines()[line + whole.len()];
        let (words, tail) = rest.as_chunks();
        for (shared, word) in line.iter().zip(words) {
            shared.store(u64::from_ne_bytes(*word), Relaxed);
        }
        if !tail.is_empty() {
            line[words.len()].store(gather::end(rest, tail.len()), Relaxed);
        }
    }

    /// Writes a record with this tag and these parts in a row as its payload. The
    /// position behind it: it has arrived when [`arrived`](Self::arrived) says as much.
    #[inline(always)]
    pub(in super::super) fn send(
        &mut self,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<u64, SendRecordError> {
        self.write(RecordKind::Record, tag, parts)
    }

    /// The same for an item of one line, which has these words.
    #[inline]
    pub(in super::super) fn send_words(
        &mut self,
        what: u64,
        words: &[u64; INLINE_WORDS],
    ) -> Result<u64, SendRecordError> {
        self.reserve(1)?;
        self.publish(RecordKind::Item, INLINE, 1, what, words);
        Ok(self.position)
    }

    /// The same for any item.
    #[inline]
    pub(in super::super) fn send_item(
        &mut self,
        what: u64,
        parts: &[&[u8]],
    ) -> Result<u64, SendRecordError> {
        self.write(RecordKind::Item, what, parts)
    }

    #[inline(always)]
    fn write(
        &mut self,
        kind: RecordKind,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<u64, SendRecordError> {
        // A word and a few bytes, as a posted message is.
        let &[first, part] = parts else { return self.write_any(kind, tag, parts) };
        let (Ok(first), ..=BEHIND_WORD) = (first.try_into(), part.len()) else {
            return self.write_any(kind, tag, parts);
        };
        self.reserve(1)?;
        let (first, len) = (u64::from_ne_bytes(first), WORD + part.len());
        if part.len() <= 2 * WORD {
            let [second, third] = gather::pair(part);
            self.publish(kind, len, 1, tag, &[first, second, third, 0, 0, 0]);
        } else {
            let [second, third, fourth, fifth, sixth] = gather::words(part);
            self.publish(kind, len, 1, tag, &[first, second, third, fourth, fifth, sixth]);
        }
        Ok(self.position)
    }

    #[inline(never)]
    fn write_any(
        &mut self,
        kind: RecordKind,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<u64, SendRecordError> {
        let len = parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
        if len > INLINE {
            return self.write_long(kind, tag, len, parts);
        }
        self.reserve(1)?;
        self.publish(kind, len, 1, tag, &gather::payload(parts));
        Ok(self.position)
    }

    /// Whether so many lines are free, as far as the receiver was heard.
    #[inline]
    pub(in super::super) fn has_room(&self, lines: u64) -> bool {
        self.position + lines <= self.limit
    }

    /// Lines written so far, ever.
    #[inline]
    pub(in super::super) fn position(&self) -> u64 {
        self.position
    }

    /// The position up to which all has arrived, as it was known last.
    #[inline]
    pub(in super::super) fn consumed(&self) -> u64 {
        if planted(Fault::ArrivedAhead) { self.position } else { self.consumed }
    }

    /// The same, as the receiver has published it by now.
    pub(in super::super) fn arrived(&mut self) -> Result<u64, RingError> {
        let said = self.peer.lines().as_flattened()[self.consumed_word].peek();
        // What is written over from now on was read before the receiver said so.
        F::Atomics::fence(Acquire);
        self.hear(said)?;
        Ok(self.consumed())
    }

    /// The receiver says by other means how far it is, and this side has acquired it.
    #[inline]
    pub(in super::super) fn hear(&mut self, said: u64) -> Result<(), RingError> {
        if !self.is_possible(said) {
            let (before, position) = (self.consumed, self.position);
            return Err(RingError::Consumed { said, before, position });
        }
        self.consumed = said;
        self.limit = said + self.lines.count;
        Ok(())
    }

    /// Whether the receiver can have consumed so much: no less than before, no more than is written.
    #[inline(always)]
    fn is_possible(&self, said: u64) -> bool {
        (self.consumed..=self.position).contains(&said) || planted(Fault::ConsumedUnchecked)
    }

    /// Has the receiver publish its position when it comes to this one, unless it was
    /// asked already. `false` if the ring is full: the receiver will publish some
    /// position, and may be asked then.
    pub(in super::super) fn ask(&mut self) -> bool {
        if self.asked == self.position || self.consumed == self.position {
            return true;
        }
        if self.reserve(1).is_err() {
            return false;
        }
        self.publish(RecordKind::Ask, 0, 1, 0, &[0; INLINE_WORDS]);
        self.asked = self.position;
        true
    }

    fn write_long(
        &mut self,
        kind: RecordKind,
        tag: u64,
        len: usize,
        parts: &[&[u8]],
    ) -> Result<u64, SendRecordError> {
        let lines = lines_of(len.min(usize::MAX / 2));
        if lines > self.lines.record_max() || len > super::RECORD_MAX {
            return Err(SendRecordError::TooLarge { len });
        }
        if self.must_skip(lines) {
            let to_end = self.lines.to_end(self.position);
            // Both or neither: a skip is always followed by what it is for.
            self.reserve(to_end + lines)?;
            self.publish(RecordKind::Skip, 0, to_end, 0, &[0; INLINE_WORDS]);
        }
        self.reserve(lines)?;
        let payload = self.copy_parts(parts);
        self.publish(kind, len, lines, tag, &payload);
        Ok(self.position)
    }

    /// Whether so many lines do not fit before the end of the ring.
    fn must_skip(&self, lines: u64) -> bool {
        self.lines.to_end(self.position) < lines && !planted(Fault::SkipForgotten)
    }

    /// Writes what comes after the first line, and answers what goes into that.
    fn copy_parts(&self, parts: &[&[u8]]) -> [u64; INLINE_WORDS] {
        let mut payload = [0; INLINE_WORDS];
        let bytes = bytemuck::bytes_of_mut(&mut payload);
        let mut at = 0;
        let mut next = (self.lines.line(self.position) + 1) * LINE;
        for part in parts {
            let (first, rest) = part.split_at(part.len().min(INLINE - at));
            bytes[at..at + first.len()].copy_from_slice(first);
            at += first.len();
            self.memory.copy_in(next, rest);
            next += rest.len();
        }
        payload
    }

    /// Makes sure that there is room for so many lines.
    #[inline(always)]
    fn reserve(&mut self, lines: u64) -> Result<(), SendRecordError> {
        if self.has_room(lines) { Ok(()) } else { self.look_for_room(lines) }
    }

    #[cold]
    #[inline(never)]
    fn look_for_room(&mut self, lines: u64) -> Result<(), SendRecordError> {
        self.arrived()?;
        self.has_room(lines).then_some(()).ok_or(SendRecordError::Full)
    }

    /// Writes the first of a record's `lines` and with it publishes them all.
    #[inline(always)]
    fn publish(
        &mut self,
        kind: RecordKind,
        len: usize,
        lines: u64,
        tag: u64,
        payload: &[u64; INLINE_WORDS],
    ) {
        let next = self.position + lines;
        if next < self.stale.until {
            self.clear(next);
        }
        let behind = self.position + 1;
        self.store(kind, len, lines, tag, payload);
        if lines > 1 {
            self.stale.insert(self.lines, behind, lines - 1);
        }
    }

    #[inline(always)]
    fn store(
        &mut self,
        kind: RecordKind,
        len: usize,
        lines: u64,
        tag: u64,
        payload: &[u64; INLINE_WORDS],
    ) {
        let next = self.position + lines;
        let line = &self.memory.lines()[self.lines.line(self.position)];
        let first = head(self.position, kind, len);
        // Back to back: a receiver that polls takes the line away between two stores.
        line[TAG_WORD].store(tag, Relaxed);
        for (shared, word) in line[TAG_WORD + 1..].iter().zip(payload) {
            shared.store(*word, Relaxed);
        }
        line[0].store(first, fault::publish_order(Release));
        self.claim(next + AHEAD, lines);
        self.position = next;
    }

    /// Says that so many lines from this position on will be stored to soon.
    #[inline(always)]
    fn claim(&self, position: u64, lines: u64) {
        let all = self.memory.lines();
        for position in position..position + lines {
            M::claim(&all[self.lines.line(position)]);
        }
    }

    /// Clears the head line at this position if it is stale.
    #[cold]
    #[inline(never)]
    fn clear(&mut self, next: u64) {
        let next = if planted(Fault::ClearLate) { self.position } else { next };
        if self.stale.remove(self.lines, next) {
            self.memory.lines()[self.lines.line(next)][0].store(0, Relaxed);
        }
    }
}

#[cfg(test)]
impl<M, F> RingSender<M, F> {
    /// As if so many lines more had been written and consumed, in the same way as the
    /// last ones.
    pub(in super::super) fn jump(&mut self, lines: u64) {
        for position in [&mut self.position, &mut self.limit, &mut self.consumed] {
            *position += lines;
        }
        self.stale.until += lines;
    }
}

/// The lines whose first word is not a head of the last time round.
#[derive(Debug)]
struct StaleLines {
    /// A bit for each line of the ring.
    bits: Box<[u64]>,
    /// No line is stale from this position on.
    until: u64,
}

impl StaleLines {
    fn new(lines: RingLines) -> Self {
        let words = usize::try_from(lines.count.div_ceil(64)).expect("at most LINES_MAX");
        Self { bits: vec![0; words].into(), until: 0 }
    }

    /// So many lines from this position on, which do not run over the end.
    fn insert(&mut self, lines: RingLines, position: u64, count: u64) {
        if planted(Fault::StaleForgotten) {
            return;
        }
        self.until = position + count + lines.count;
        let (mut at, mut left) = (lines.index(position), count);
        while left > 0 {
            let now = left.min(64 - at as u64 % 64);
            self.bits[at / 64] |= (u64::MAX >> (64 - now)) << (at % 64);
            (at, left) = ((at / 64 + 1) * 64, left - now);
        }
    }

    /// Whether it was.
    fn remove(&mut self, lines: RingLines, position: u64) -> bool {
        let index = lines.index(position);
        let (word, bit) = (&mut self.bits[index / 64], 1 << (index % 64));
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }
}

/// Bytes of a record of one line behind its first word.
const BEHIND_WORD: usize = INLINE - WORD;
/// How many lines before its turn a line is asked for. The receiver has it since the
/// last time round, and in a row of records of one line most of their time was spent
/// waiting for it. A round trip takes as long without.
const AHEAD: u64 = 8;
