//! Records of up to 4 KiB from one process to another, in one order.
//!
//! The sender owns the ring, the receiver maps it to be read. A ring is a power
//! of two of lines, a record some lines of it in a row:
//!
//! ```text
//!            word 0: head     word 1   words 2 to 7
//!            ┌──────────────┐ ┌─────┐ ┌────────────────────────────────────────┐
//!   line 0   │ see below    │ │ tag │ │ payload, bytes 0 to 47                 │
//!            └──────────────┘ └─────┘ └────────────────────────────────────────┘
//!            ┌─────────────────────────────────────────────────────────────────┐
//!   line 1…  │ payload, 64 bytes more each; at most 64 such lines              │
//!            └─────────────────────────────────────────────────────────────────┘
//!
//!            63          32 31        16 15        8 7          1   0
//!            ┌─────────────┬────────────┬───────────┬────────────┬───────┐
//!   head     │ position    │ length     │ kind      │ zero       │ valid │
//!            └─────────────┴────────────┴───────────┴────────────┴───────┘
//! ```
//!
//! The position of a record is how many lines were written before it, ever, and
//! its line is the position modulo the lines of the ring. The head says it in 32
//! bits, and by that the receiver knows the record that it waits for: no other word
//! has to be read. Zeroed memory is not valid, so it holds no record.
//!
//! | kind | | lines |
//! |---|---|---|
//! | record | is delivered | as its length says |
//! | ask | has the receiver publish how far it is, and is not delivered | one |
//! | skip | the next record is at the start of the ring; not delivered | up to the end |
//! | item | is delivered, as what its words say ([`wire`](super::wire)) | as its length says |
//!
//! Rings of eager messages have no items. The ring of posted messages has no asks: what it
//! carries is [consumed](RingReceiver::release) when its owner is done with it, which may be
//! later than it was copied, and is published by the owner.
//!
//! A record never runs over the end of the ring: if it would, a skip precedes it. A
//! record takes at most a quarter of the ring and one line. So whatever its place,
//! it and its skip fit into what is free when the receiver has taken all and has not
//! published the last quarter yet, and 256 lines are the least ring for 4 KiB.
//!
//! # What a head line holds before its turn
//!
//! A receiver looks at one line, that of its position, and finds there what the line
//! held last. A head of the last time round has another position and is no record.
//! Payload could be anything, also a head that is valid now; so could a head which a
//! skip has left in its line for 2^32 lines. The sender remembers which lines are of
//! these two sorts (*stale*), and clears a line that is before it publishes the record
//! in front of it. In a ring that is full that line is the head of the oldest record,
//! which is not stale, so that nothing is cleared that was not consumed.
//!
//! # Order
//!
//! The sender stores the payload and the tag, and then the head with release. The
//! receiver loads the head, fences, checks it, and copies the record to its scratch,
//! once. What it takes from then on is private. How far it is, `consumed`, is a word
//! in memory of its own, which it stores with release after the copy: every quarter of
//! a ring, for an ask, and by [`publish`](RingReceiver::publish). The sender loads that
//! word when the ring seems full and for [`arrived`](RingSender::arrived).
//!
//! # A hostile peer
//!
//! A sender can make the receiver see any words at any time. Every head is an answer:
//! nothing, a record whose length was checked before the copy and whose bytes are
//! whatever was there meanwhile, or a [`RingError`]. A receiver can say that it has consumed
//! anything; if that is less than before, or more than was written, it is a [`RingError`].

mod gather;
mod receiver;
mod sender;

pub(super) use receiver::{POSTED_WORDS, RingReceiver, Scratch, TakenRecord};
pub(super) use sender::RingSender;
use thiserror::Error;

use super::fault::{Fault, planted};
use super::memory::{LINE, WORD};

/// Payload bytes of the longest record.
pub(super) const RECORD_MAX: usize = 4096;
/// Payload bytes of the longest record of the ring of posted messages: longer messages stay
/// where they are, and the receiver copies them from there.
pub(super) const POSTED_MAX: usize = 1024 + 3 * WORD;
/// Payload bytes of the longest record of one line.
pub(super) const INLINE: usize = LINE - PAYLOAD;
/// The same in words.
pub(super) const INLINE_WORDS: usize = INLINE / WORD;
/// Lines of the smallest ring that takes records of every length.
pub(super) const LINES_MIN: u64 = 4 * (lines_of(RECORD_MAX) - 1);

/// A protocol error of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(super) enum RingError {
    /// A head that no sender writes.
    #[error("the peer wrote the head {head:#018x} at position {position}")]
    Head { head: u64, position: u64 },
    /// A position that the receiver cannot have consumed, or took back.
    #[error("the peer says that it consumed {said} lines, after {before}, of {position}")]
    Consumed { said: u64, before: u64, position: u64 },
}

/// Why a record is not in the ring. None of it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(super) enum SendRecordError {
    /// The receiver has not consumed enough yet.
    #[error("the ring is full")]
    Full,
    /// Longer than a record can be.
    #[error("a record of {len} bytes: at most {RECORD_MAX} fit")]
    TooLarge { len: usize },
    /// A protocol error of the receiver.
    #[error(transparent)]
    Ring(#[from] RingError),
}

/// Why a ring cannot be where it is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(super) enum RingLayoutError {
    /// Not a number of lines.
    #[error("a ring of {lines} lines: it takes a power of two, {least} to {LINES_MAX}")]
    Lines { lines: u64, least: u64 },
    /// Across lines, or across words.
    #[error("a ring or a word at byte {offset}, which is not a multiple of {align}")]
    Unaligned { offset: u64, align: usize },
    /// Beyond the memory.
    #[error("{bytes} bytes at byte {offset} of a memory of {len} bytes")]
    Outside { offset: u64, bytes: u64, len: usize },
}

/// Where the lines of a ring are.
#[derive(Debug, Clone, Copy)]
struct RingLines {
    first: usize,
    count: u64,
    /// The bits of a position that say which line is its.
    mask: usize,
}

impl RingLines {
    /// Checks that a memory of so many lines (`all`) has a ring at byte `offset`.
    fn inside(all: usize, offset: u64, lines: u64, least: u64) -> Result<Self, RingLayoutError> {
        if !lines.is_power_of_two() || !(least..=LINES_MAX).contains(&lines) {
            return Err(RingLayoutError::Lines { lines, least });
        }
        let first = place(all * LINE, offset, LINE, lines * LINE as u64)?;
        #[expect(clippy::cast_possible_truncation, reason = "at most LINES_MAX")]
        let mask = lines as usize - 1;
        Ok(Self { first, count: lines, mask })
    }

    /// The line of a position, counted from the start of the memory.
    #[inline]
    fn line(self, position: u64) -> usize {
        self.first + self.index(position)
    }

    /// The same, counted from the start of the ring.
    #[inline]
    fn index(self, position: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits count")]
        let position = position as usize;
        position & self.mask
    }

    /// Lines from this position to the end of the ring.
    #[inline]
    fn to_end(self, position: u64) -> u64 {
        self.count - self.index(position) as u64
    }

    /// Lines of the longest record; one more than those of the longest skip.
    #[inline]
    fn record_max(self) -> u64 {
        (self.quarter_of_lines() + 1).min(lines_of(RECORD_MAX))
    }

    /// How many lines a receiver may consume without publishing it.
    #[inline]
    fn quarter(self) -> u64 {
        self.quarter_of_lines().max(1)
    }

    #[inline]
    fn quarter_of_lines(self) -> u64 {
        self.count / 4
    }
}

/// The unit of `align` bytes at byte `offset` of `len`, if there are so many bytes.
fn place(len: usize, offset: u64, align: usize, bytes: u64) -> Result<usize, RingLayoutError> {
    if !offset.is_multiple_of(align as u64) {
        return Err(RingLayoutError::Unaligned { offset, align });
    }
    let is_inside = offset <= len as u64 && bytes <= len as u64 - offset;
    let unit = usize::try_from(offset / align as u64).ok().filter(|_| is_inside);
    unit.ok_or(RingLayoutError::Outside { offset, bytes, len })
}

/// The word at byte `offset` of so many lines.
fn word_inside(lines: usize, offset: u64) -> Result<usize, RingLayoutError> {
    place(lines * LINE, offset, WORD, WORD as u64)
}

/// What a head says besides its position and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordKind {
    Record = 0,
    Ask = 1,
    Skip = 2,
    Item = 3,
}

/// A head as a sender writes it.
#[inline]
fn head(position: u64, kind: RecordKind, len: usize) -> u64 {
    low_half(position) << 32 | (len as u64) << LENGTH_SHIFT | (kind as u64) << KIND_SHIFT | VALID
}

/// Whether this is the head of the record at this position, of whatever kind.
#[inline]
fn is_at(head: u64, position: u64) -> bool {
    is_like(head, self::head(position, RecordKind::Record, 0))
}

/// Whether this head is of the same position as that of an empty record, of whatever kind.
#[inline(always)]
fn is_like(head: u64, empty: u64) -> bool {
    // Only the lower half may differ, and not in its last bit, which comes to the top.
    (head ^ empty).rotate_right(1) >> 31 == 0
}

/// The length of a record, if its head differs in that alone from that of an empty one; else
/// more than any length.
#[inline(always)]
fn only_length(head: u64, empty: u64) -> u64 {
    (head ^ empty).rotate_right(LENGTH_SHIFT)
}

/// The length that a head says.
#[inline]
fn length(head: u64) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the bits of the length")]
    let length = (head >> LENGTH_SHIFT) as u16;
    usize::from(length)
}

/// What a head says apart from the length.
#[inline]
fn without_length(head: u64) -> u64 {
    head & !(u64::from(u16::MAX) << LENGTH_SHIFT)
}

/// A position comes again after 2^32 lines, when its line has been another's, or
/// has been cleared, in between.
#[inline]
fn low_half(position: u64) -> u64 {
    if planted(Fault::PositionStops) {
        return position.min(u64::from(u32::MAX));
    }
    position & u64::from(u32::MAX)
}

/// Lines of a record with so many bytes of payload.
pub(super) const fn lines_of(len: usize) -> u64 {
    (len + PAYLOAD).div_ceil(LINE) as u64
}

/// Where the payload begins in a record.
const PAYLOAD: usize = 2 * WORD;
const TAG_WORD: usize = 1;
const VALID: u64 = 1;
const KIND_SHIFT: u32 = 8;
const LENGTH_SHIFT: u32 = 16;
const LINES_MAX: u64 = 1 << 31;
