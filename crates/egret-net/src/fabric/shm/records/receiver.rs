//! The end that reads records.

use std::sync::atomic::Ordering::{Acquire, Release};

use super::super::fault::{Fault, planted};
use super::super::foreign::ForeignMemory;
use super::super::memory::{LINE, LINE_WORDS, OwnMemory, Peek, Readable, WORD, Writable};
use super::{
    INLINE, INLINE_WORDS, KIND_SHIFT, LINES_MIN, PAYLOAD, POSTED_MAX, RECORD_MAX, RecordKind,
    RingError, RingLayoutError, RingLines, TAG_WORD,
};
use super::{head, is_at, is_like, length, lines_of, only_length, without_length, word_inside};
use crate::atomics::{Atomics, Word};

/// Reads records out of a ring in memory of the sender, and says in memory of its
/// own how far it is.
#[derive(Debug)]
pub(in super::super) struct RingReceiver<F = ForeignMemory, M = OwnMemory> {
    peer: F,
    lines: RingLines,
    /// Lines consumed, ever.
    position: u64,
    /// The line where the next head will be, and what that is if its record is empty.
    next: usize,
    empty: u64,
    /// What the sender can know of that.
    published: u64,
    memory: M,
    /// Which word of ours says it.
    consumed_word: usize,
    /// Whether the sender is told nothing any more.
    is_silent: bool,
    /// Lines after which this end publishes how far it is, though the sender does not ask, and the position
    /// where that will be.
    publish_after: u64,
    publish_at: u64,
}

/// Private memory that one record is copied to. It is good for any number of
/// receivers, one after the other.
#[derive(Debug, Clone)]
pub(in super::super) struct Scratch<const WORDS: usize = SCRATCH_WORDS>(Box<[u64; WORDS]>);

/// A record of the ring of posted messages, in scratch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct TakenRecord<'s> {
    pub is_item: bool,
    pub tag: u64,
    pub payload: &'s [u8],
    /// The payload of the first line once more. What was stored word by word and is then loaded
    /// in larger parts waits until all stores before it are done.
    pub words: [u64; INLINE_WORDS],
}

impl<F: Readable, M: Writable> RingReceiver<F, M> {
    /// The ring of `lines` lines at byte `first`, as the peer says. How far this end is
    /// will stand at byte `consumed` of its own memory, where there is still zero.
    pub(in super::super) fn new(
        peer: F,
        first: u64,
        lines: u64,
        memory: M,
        consumed: usize,
    ) -> Result<Self, RingLayoutError> {
        Self::from_lines(LINES_MIN, peer, first, lines, memory, consumed)
    }

    /// The same with another least number of lines. Records may be shorter then.
    pub(in super::super) fn from_lines(
        least: u64,
        peer: F,
        first: u64,
        lines: u64,
        memory: M,
        consumed: usize,
    ) -> Result<Self, RingLayoutError> {
        let lines = RingLines::inside(peer.lines().len(), first, lines, least)?;
        let consumed_word = word_inside(memory.lines().len(), consumed as u64)?;
        let (position, published, is_silent) = (0, 0, false);
        let publish_after = lines.quarter();
        let (next, empty) = (lines.line(position), head(position, RecordKind::Record, 0));
        Ok(Self {
            peer,
            lines,
            position,
            next,
            empty,
            published,
            memory,
            consumed_word,
            is_silent,
            publish_after,
            publish_at: publish_after,
        })
    }

    /// The same ring, of posted messages: its owner publishes what it is done with.
    pub(in super::super) fn of_posted(self) -> Self {
        Self { publish_after: u64::MAX, publish_at: u64::MAX, ..self }
    }

    /// Whether [`take`](Self::take) would find something, be it only an ask.
    #[inline(always)]
    pub(in super::super) fn is_ready(&self) -> bool {
        is_like(self.peer.lines()[self.next][0].peek(), self.empty)
    }

    /// The next record, its tag and its payload, if it is there.
    #[inline(always)]
    pub(in super::super) fn take<'s>(
        &mut self,
        scratch: &'s mut Scratch,
    ) -> Result<Option<(u64, &'s [u8])>, RingError> {
        let taken = self.take_len(scratch)?;
        Ok(taken.map(|(tag, len)| (tag, scratch.payload_of(len))))
    }

    /// The same; of the payload the length, and the bytes are in scratch.
    #[inline(always)]
    pub(in super::super) fn take_len(
        &mut self,
        scratch: &mut Scratch,
    ) -> Result<Option<(u64, usize)>, RingError> {
        Ok(self.take_any::<_, false>(scratch)?.map(|taken| (taken.tag, taken.payload.len())))
    }

    /// The next record of posted messages, or item, if it is there. Nothing is published.
    #[inline(always)]
    pub(in super::super) fn take_posted<'s>(
        &mut self,
        scratch: &'s mut Scratch<POSTED_WORDS>,
    ) -> Result<Option<TakenRecord<'s>>, RingError> {
        self.take_any::<_, true>(scratch)
    }

    #[inline(always)]
    fn take_any<'s, const WORDS: usize, const POSTED: bool>(
        &mut self,
        scratch: &'s mut Scratch<WORDS>,
    ) -> Result<Option<TakenRecord<'s>>, RingError> {
        let line = &self.peer.lines()[self.next];
        let first = line[0].peek();
        let item = only_length(first, self.empty | (RecordKind::Item as u64) << KIND_SHIFT);
        let is_item = POSTED && item <= RECORD_MAX as u64;
        let len = if is_item { item } else { only_length(first, self.empty) };
        if len > RECORD_MAX as u64 {
            return if is_like(first, self.empty) {
                self.take_other::<_, POSTED>(first, scratch)
            } else {
                Ok(None)
            };
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most RECORD_MAX")]
        let len = len as usize;
        if len > INLINE {
            if !self.copy(len, scratch) {
                return Err(self.bad_head(first));
            }
            return Ok(Some(scratch.record(is_item, len)));
        }
        self.acquire(1);
        let tag = line[TAG_WORD].peek();
        let words = std::array::from_fn(|word| line[TAG_WORD + 1 + word].peek());
        scratch.0[TAG_WORD + 1..LINE_WORDS].copy_from_slice(&words);
        // By a constant: where the next head is does not depend on what this one says.
        self.consume(1);
        Ok(Some(TakenRecord { is_item, tag, payload: scratch.payload_of(len), words }))
    }

    /// Lines consumed so far, ever.
    pub(in super::super) fn position(&self) -> u64 {
        self.position
    }

    /// What the sender can know of how far this end is.
    #[inline]
    pub(in super::super) fn published(&self) -> u64 {
        self.published
    }

    /// Publishes how far this end is.
    #[cold]
    #[inline(never)]
    pub(in super::super) fn publish(&mut self) {
        if self.published != self.position {
            self.published = self.position;
            self.publish_at = self.position.saturating_add(self.publish_after);
            if !self.is_silent {
                self.say(self.position);
            }
        }
    }

    /// Publishes that the owner is done with what was written up to this position.
    #[inline]
    pub(in super::super) fn release(&mut self, position: u64) {
        self.published = position;
        self.say(position);
    }

    /// From now on nothing is published: what is taken is not said to have arrived.
    pub(in super::super) fn silence(&mut self) {
        self.is_silent = !planted(Fault::KeptArrived);
    }

    fn say(&self, position: u64) {
        self.memory.lines().as_flattened()[self.consumed_word].store(position, Release);
    }

    /// Takes what is not a record of one line: this head, and what follows if that was
    /// not for delivery.
    #[cold]
    #[inline(never)]
    fn take_other<'s, const WORDS: usize, const POSTED: bool>(
        &mut self,
        mut first: u64,
        scratch: &'s mut Scratch<WORDS>,
    ) -> Result<Option<TakenRecord<'s>>, RingError> {
        for undelivered in 0..=UNDELIVERED_MAX {
            let (len, other) = (length(first), without_length(first));
            let is_item =
                may_be_item::<POSTED>() && other == head(self.position, RecordKind::Item, 0);
            if is_item || other == head(self.position, RecordKind::Record, 0) {
                if !self.copy(len, scratch) {
                    break;
                }
                return Ok(Some(scratch.record(is_item, len)));
            }
            if undelivered == UNDELIVERED_MAX {
                break;
            }
            self.pass(first, !POSTED)?;
            first = self.peer.lines()[self.lines.line(self.position)][0].peek();
            if !is_at(first, self.position) {
                return Ok(None);
            }
        }
        Err(self.bad_head(first))
    }

    /// Copies the next record to scratch, of whatever length. `false` if no record has that.
    #[inline(never)]
    fn copy<const WORDS: usize>(&mut self, len: usize, scratch: &mut Scratch<WORDS>) -> bool {
        let lines = lines_of(len);
        if !self.can_be::<WORDS>(len) {
            return false;
        }
        self.acquire(lines);
        let at = self.next * LINE;
        // Whole lines, which copy faster than what is in them.
        let words = usize::try_from(lines).map_or(usize::MAX, |lines| lines * LINE_WORDS);
        let is_inside = self.peer.copy_out(at, &mut scratch.0[..words]).is_ok();
        if is_inside {
            self.consume(lines);
        }
        is_inside
    }

    /// Whether the next record can have so many bytes, and scratch can hold them.
    fn can_be<const WORDS: usize>(&self, len: usize) -> bool {
        let lines = lines_of(len);
        len <= WORDS * WORD - PAYLOAD
            && len <= RECORD_MAX
            && lines <= self.lines.record_max()
            && lines <= self.lines.to_end(self.position)
            || planted(Fault::LengthUnchecked)
    }

    /// Acquires what the next head stands for, a record of so many lines.
    #[inline(always)]
    fn acquire(&self, lines: u64) {
        if !planted(Fault::TakeUnfenced) {
            F::Atomics::fence(Acquire);
        }
        if planted(Fault::ConsumedEarly) {
            self.say(self.position + lines);
        }
    }

    /// Passes what is not delivered.
    fn pass(&mut self, first: u64, may_ask: bool) -> Result<(), RingError> {
        let to_end = self.lines.to_end(self.position);
        if first == head(self.position, RecordKind::Ask, 0) && may_ask {
            self.answer_ask();
            return Ok(());
        }
        // A skip is for a record that is too long for what is left.
        if first == head(self.position, RecordKind::Skip, 0) && to_end < self.lines.record_max() {
            self.consume(to_end);
            return Ok(());
        }
        Err(self.bad_head(first))
    }

    fn answer_ask(&mut self) {
        self.advance(1);
        if !planted(Fault::AskIgnored) {
            self.publish();
        }
    }

    #[inline(always)]
    fn consume(&mut self, lines: u64) {
        self.advance(lines);
        if self.position >= self.publish_at {
            self.publish();
        }
    }

    #[inline(always)]
    fn advance(&mut self, lines: u64) {
        self.position += lines;
        self.next = self.lines.line(self.position);
        self.empty = head(self.position, RecordKind::Record, 0);
    }

    #[cold]
    fn bad_head(&self, head: u64) -> RingError {
        RingError::Head { head, position: self.position }
    }
}

#[cfg(test)]
impl<F: Readable, M: Writable> RingReceiver<F, M> {
    /// As if so many lines more had been consumed.
    pub(in super::super) fn jump(&mut self, lines: u64) {
        self.advance(lines);
        self.publish();
    }

    /// Begins again.
    pub(in super::super) fn restart(&mut self) {
        (self.position, self.published, self.publish_at) = (0, 0, self.publish_after);
        self.advance(0);
    }
}

/// Whether a record of this ring may be an item.
fn may_be_item<const POSTED: bool>() -> bool {
    POSTED || planted(Fault::ItemsAnywhere)
}

impl Scratch {
    pub(in super::super) fn new() -> Self {
        Self(Box::new([0; SCRATCH_WORDS]))
    }
}

impl Scratch<POSTED_WORDS> {
    /// For the ring of posted messages.
    pub(in super::super) fn of_posted() -> Self {
        Self(Box::new([0; POSTED_WORDS]))
    }

    /// What the last record had here, and perhaps some of those before it.
    #[inline]
    pub(in super::super) fn payload(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.0[..])[PAYLOAD..]
    }
}

impl<const WORDS: usize> Scratch<WORDS> {
    /// The record that was copied here, with a length that was checked.
    #[inline(always)]
    fn record(&self, is_item: bool, len: usize) -> TakenRecord<'_> {
        let words = std::array::from_fn(|word| self.0[TAG_WORD + 1 + word]);
        TakenRecord { is_item, tag: self.0[TAG_WORD], payload: self.payload_of(len), words }
    }

    /// So many bytes of the payload that was copied here last.
    #[inline(always)]
    pub(in super::super) fn payload_of(&self, len: usize) -> &[u8] {
        &bytemuck::cast_slice(&self.0[..])[PAYLOAD..PAYLOAD + len]
    }
}

/// How many records in a row may be for no delivery: an ask, and a skip. What a skip
/// is for follows it.
const UNDELIVERED_MAX: usize = 2;
const SCRATCH_WORDS: usize = (LINE + RECORD_MAX) / WORD;
/// Of the longest record of posted messages.
pub(in super::super) const POSTED_WORDS: usize = (POSTED_MAX + PAYLOAD).div_ceil(LINE) * LINE_WORDS;
