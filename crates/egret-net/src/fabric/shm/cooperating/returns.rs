//! How a receiver of buffers returns those that it drops, and says which it still holds when
//! it leaves.
//!
//! The receiver writes the memory, the owner of the buffers reads it:
//!
//! ```text
//!   line 0                          then                 then
//!   ┌───────┬──────┬──────────────┐ ┌──────────────────┐ ┌──────────────────┐
//!   │ count │ left │ 6 words of 0 │ │ returned places  │ │ held places      │
//!   └───────┴──────┴──────────────┘ └──────────────────┘ └──────────────────┘
//! ```
//!
//! Return number *n* is stored in word *n* modulo the capacity, then the count
//! *n* + 1 with release. Each place in the ring is of a buffer that the owner
//! still counts as lent, and no more are lent at once than the ring has words:
//! no word is overwritten before the owner has read it. A receiver that leaves stores
//! the places of the buffers that it holds, then *left*, their number + 1, with
//! release. These buffers return by the ring when they are dropped, which is after
//! *left* was stored: an owner that has one of them back sees that the receiver has left,
//! and lends nothing to it again.
//!
//! If a receiver writes nonsense, the buffers lent to it return too early or
//! too late. A read of the owner is never outside of the area, and never of more than the capacity at once.

use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use thiserror::Error;

use super::super::fault::{self, step};
use super::super::foreign::ForeignMemory;
use super::super::memory::{LINE, LINE_WORDS, OwnMemory, Peek, Readable, WORD, Writable};
use crate::atomics::{Atomics, Lock, Word};

/// A slot of the owner's pool, as both sides name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct SlotPlace {
    /// As the owner announced it; below 2^15.
    pub(in super::super) region: u16,
    pub(in super::super) class: u16,
    pub(in super::super) number: u32,
}

/// The receiver's end.
pub(in super::super) struct ReturnsWriter<M: Writable = OwnMemory> {
    memory: M,
    area: ReturnsArea,
    /// How many were returned.
    returned: <M::Atomics as Atomics>::Lock<u64>,
}

/// The owner's end.
#[derive(Debug)]
pub(in super::super) struct ReturnsReader<M = ForeignMemory> {
    memory: M,
    area: ReturnsArea,
    /// How many were seen.
    seen: u64,
}

/// There is no such area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("returns of {capacity} places at {offset} of {len} bytes")]
pub(in super::super) struct ReturnsAreaError {
    offset: u64,
    capacity: usize,
    len: usize,
}

impl SlotPlace {
    /// For the wire. Never zero.
    pub(in super::super) fn encode(self) -> u64 {
        IS_PLACE
            | u64::from(self.region) << 48
            | u64::from(self.class) << 32
            | u64::from(self.number)
    }

    /// `None` if it is no place.
    #[expect(clippy::cast_possible_truncation, reason = "the fields one by one")]
    pub(in super::super) fn decode(word: u64) -> Option<Self> {
        let region = (word >> 48) as u16 & REGION_MASK;
        let place = Self { region, class: (word >> 32) as u16, number: word as u32 };
        (word & IS_PLACE != 0).then_some(place)
    }
}

impl<M: Writable> ReturnsWriter<M> {
    /// Returns of up to `capacity` places at once, a power of two, at byte
    /// `offset`, where the memory is still zero.
    ///
    /// # Panics
    ///
    /// If they cannot be there.
    pub(in super::super) fn new(memory: M, offset: usize, capacity: usize) -> Self {
        let area = match ReturnsArea::inside(memory.lines().len(), offset as u64, capacity) {
            Ok(area) => area,
            Err(error) => panic!("{error}"),
        };
        Self { memory, area, returned: Lock::new(0) }
    }

    /// The buffer at this place is the owner's again.
    pub(in super::super) fn put(&self, place: SlotPlace) {
        let word = |at| self.word(at);
        self.returned.with(|returned| {
            let (place, count) = (place.encode(), *returned + 1);
            word(self.area.returned(*returned)).store(place, Relaxed);
            step();
            word(self.area.count()).store(count, fault::return_order(Release));
            *returned = count;
        });
        step();
    }

    /// How many were returned by now.
    pub(in super::super) fn count(&self) -> u64 {
        self.word(self.area.count()).load(Relaxed)
    }

    /// The receiver leaves, and holds these; of more than the capacity, the owner
    /// has lent none. Nothing returns while the receiver lists what it holds: so the
    /// owner sees that the receiver has left before one of these returns, and does not
    /// lend it again.
    pub(in super::super) fn leave(&self, held: impl Iterator<Item = SlotPlace>) {
        let held = fault::held_at_lock(held);
        self.returned.with(|_| self.write_held(held));
    }

    fn write_held(&self, held: impl Iterator<Item = SlotPlace>) {
        let mut count = 0;
        for place in held.take(self.area.capacity) {
            self.word(self.area.held(count)).store(place.encode(), Relaxed);
            step();
            count += 1;
        }
        self.word(self.area.left()).store(count as u64 + 1, Release);
        step();
    }

    fn word(&self, at: usize) -> &<M::Atomics as Atomics>::Word {
        &self.memory.lines().as_flattened()[at]
    }
}

impl<M: Writable> fmt::Debug for ReturnsWriter<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReturnsWriter").field("count", &self.count()).finish_non_exhaustive()
    }
}

impl<M: Readable> ReturnsReader<M> {
    /// The returns of up to `capacity` places at byte `offset`.
    pub(in super::super) fn new(
        memory: M,
        offset: u64,
        capacity: usize,
    ) -> Result<Self, ReturnsAreaError> {
        let area = ReturnsArea::inside(memory.lines().len(), offset, capacity)?;
        Ok(Self { memory, area, seen: 0 })
    }

    /// Hands each place returned since the last time to `each`; `None` for a
    /// word that is no place. Whether there was one.
    #[inline]
    pub(in super::super) fn poll(&mut self, mut each: impl FnMut(Option<SlotPlace>)) -> bool {
        let count = self.peek(self.area.count());
        if count == self.seen {
            return false;
        }
        fault::returns_fence::<M::Atomics>(Acquire);
        let new = count.wrapping_sub(self.seen).min(self.area.capacity as u64);
        for number in (0..new).rev().map(|back| count.wrapping_sub(back + 1)) {
            each(SlotPlace::decode(self.peek(self.area.returned(number))));
        }
        self.seen = count;
        true
    }

    /// Whether the receiver has left: nothing is lent to it any more.
    #[inline]
    pub(in super::super) fn has_left(&self) -> bool {
        self.peek(self.area.left()) != 0
    }

    /// The places that the receiver held when it left; `None` before.
    pub(in super::super) fn held(&self) -> Option<Vec<SlotPlace>> {
        let count = self.peek(self.area.left()).checked_sub(1)?;
        M::Atomics::fence(Acquire);
        let count =
            usize::try_from(count).map_or(self.area.capacity, |n| n.min(self.area.capacity));
        let place = |at| SlotPlace::decode(self.peek(self.area.held(at)));
        Some((0..count).filter_map(place).collect())
    }

    pub(in super::super) fn capacity(&self) -> usize {
        self.area.capacity
    }

    fn peek(&self, at: usize) -> u64 {
        self.memory.lines().as_flattened()[at].peek()
    }
}

/// What returns of so many places need, in bytes.
pub(in super::super) const fn bytes(capacity: usize) -> usize {
    (LINE + 2 * capacity * WORD).next_multiple_of(LINE)
}

/// Where the words are, counted in words.
#[derive(Debug, Clone, Copy)]
struct ReturnsArea {
    first: usize,
    capacity: usize,
}

impl ReturnsArea {
    fn inside(lines: usize, offset: u64, capacity: usize) -> Result<Self, ReturnsAreaError> {
        let wrong = ReturnsAreaError { offset, capacity, len: lines * LINE };
        let first = usize::try_from(offset / LINE as u64).map_err(|_| wrong)?;
        let right = capacity.is_power_of_two()
            && capacity <= CAPACITY_MAX
            && offset.is_multiple_of(LINE as u64)
            && first <= lines
            && bytes(capacity) / LINE <= lines - first;
        right.then_some(Self { first: first * LINE_WORDS, capacity }).ok_or(wrong)
    }

    fn count(self) -> usize {
        self.first
    }

    fn left(self) -> usize {
        self.first + 1
    }

    fn returned(self, number: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits count")]
        let number = number as usize;
        self.first + LINE_WORDS + (number & (self.capacity - 1))
    }

    fn held(self, at: usize) -> usize {
        self.first + LINE_WORDS + self.capacity + at
    }
}

/// How many buffers of one owner may be lent over a connection at once.
pub(in super::super) const LENT_MAX: usize = 1024;
/// Regions that a place can name.
pub(in super::super) const REGION_MASK: u16 = (1 << 15) - 1;
const IS_PLACE: u64 = 1 << 63;
const CAPACITY_MAX: usize = 1 << 20;
