//! Messages of one cache line from one process to another.
//!
//! The producer owns the memory, the consumer maps it to be read. A slot is a
//! cache line, that is eight words:
//!
//! ```text
//!   word 0                                      words 1 to 7
//!   ┌──────────────────┬──────────────────────┐ ┌──────────────────────────────┐
//!   │ head, 32 bits    │ sequence, 32 bits    │ │ payload                      │
//!   └──────────────────┴──────────────────────┘ └──────────────────────────────┘
//! ```
//!
//! Message number *n* goes to slot *n* modulo the number of slots, with the
//! sequence *n* + 1 in 32 bits, so that zeroed memory holds no message. The
//! payload is stored first, then word 0 with release: one line moves between
//! the processors, and there is neither a read-modify-write nor a fence. The
//! consumer has no memory here to say what it has taken; it tells the producer
//! in memory of its own, and the producer [puts](Producer::put) only where there
//! is room.
//!
//! A hostile producer can make the consumer see any words, in any order, torn
//! or twice, but never more than one message per poll, and never a word outside
//! the ring.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use thiserror::Error;

use super::fault::{Fault, planted};
use super::foreign::Foreign;
use super::memory::{LINE, LINE_WORDS, Own, Peek, Readable, Writable};
use crate::atomics::{Atomics, Word};

/// The writing end.
#[derive(Debug)]
pub(super) struct Producer<M = Own> {
    memory: M,
    slots: Slots,
    next: u64,
}

/// The reading end.
#[derive(Debug)]
pub(super) struct Consumer<M = Foreign> {
    memory: M,
    slots: Slots,
    next: u64,
}

/// The words of a message.
pub(super) type Payload = [u64; LINE_WORDS - 1];

/// Why a ring cannot be where the peer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(super) enum RingError {
    /// Not a number of slots.
    #[error("a ring of {slots} slots: it takes a power of two, at most {SLOTS_MAX}")]
    Slots { slots: u64 },
    /// Across cache lines.
    #[error("a ring at {offset}: it takes a multiple of {LINE}")]
    Unaligned { offset: u64 },
    /// Beyond the memory.
    #[error("a ring of {slots} slots at {offset} of {len} bytes")]
    Outside { offset: u64, slots: u64, len: usize },
}

impl<M: Writable> Producer<M> {
    /// A ring of `slots` slots at byte `offset`, where the memory is still zero.
    ///
    /// # Panics
    ///
    /// If it cannot be there; see [`RingError`].
    pub(super) fn new(memory: M, offset: usize, slots: usize) -> Self {
        let slots = match Slots::inside(memory.lines().len(), offset as u64, slots as u64) {
            Ok(slots) => slots,
            Err(error) => panic!("{error}"),
        };
        Self { memory, slots, next: 0 }
    }

    /// Sends a message. The caller knows that there is room: of the messages
    /// put before, the consumer has taken all but less than the number of slots.
    #[inline]
    pub(super) fn put(&mut self, head: u32, words: &Payload) {
        let line = &self.memory.lines()[self.slots.line(self.next)];
        let first = u64::from(head) << 32 | u64::from(sequence(self.next));
        if planted(Fault::PutEarly) {
            line[0].store(first, Release);
        }
        for (shared, word) in line[1..].iter().zip(words) {
            shared.store(*word, Relaxed);
        }
        line[0].store(first, if planted(Fault::PutRelaxed) { Relaxed } else { Release });
        self.memory.claim(self.slots.line(self.next + AHEAD));
        self.next += 1;
    }

    /// How many messages were put.
    #[cfg(test)]
    pub(super) fn put_count(&self) -> u64 {
        self.next
    }
}

impl<M: Readable> Consumer<M> {
    /// The ring of `slots` slots at byte `offset`, as the peer says.
    pub(super) fn new(memory: M, offset: u64, slots: u64) -> Result<Self, RingError> {
        let slots = Slots::inside(memory.lines().len(), offset, slots)?;
        Ok(Self { memory, slots, next: 0 })
    }

    /// The next message, its head and its words, if it is there.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<(u32, Payload)> {
        let line = &self.memory.lines()[self.slots.line(self.next)];
        let first = line[0].peek();
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        if first as u32 != sequence(self.next) {
            return None;
        }
        if !planted(Fault::PollRelaxed) {
            M::Atomics::fence(Acquire);
        }
        self.next += 1;
        let head = (first >> 32) as u32;
        Some((head, std::array::from_fn(|index| line[index + 1].peek())))
    }

    /// How many messages were taken.
    #[cfg(test)]
    pub(super) fn taken_count(&self) -> u64 {
        self.next
    }
}

/// The lines of a ring.
#[derive(Debug, Clone, Copy)]
struct Slots {
    first: usize,
    mask: usize,
}

impl Slots {
    /// Checks that there are such slots in a memory of so many `lines`.
    fn inside(lines: usize, offset: u64, slots: u64) -> Result<Self, RingError> {
        if !slots.is_power_of_two() || slots > SLOTS_MAX {
            return Err(RingError::Slots { slots });
        }
        if !offset.is_multiple_of(LINE as u64) {
            return Err(RingError::Unaligned { offset });
        }
        let outside = RingError::Outside { offset, slots, len: lines * LINE };
        let first = usize::try_from(offset / LINE as u64).map_err(|_| outside)?;
        let count = usize::try_from(slots).map_err(|_| outside)?;
        let is_inside = first <= lines && count <= lines - first;
        is_inside.then_some(Self { first, mask: count - 1 }).ok_or(outside)
    }

    /// The line of message `number`.
    #[inline]
    fn line(self, number: u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "only the lowest bits count")]
        let number = number as usize;
        self.first + (number & self.mask)
    }
}

/// The sequence of message `number`. It comes again after 2^32 messages, when
/// every slot has been another's in between.
#[inline]
fn sequence(number: u64) -> u32 {
    if planted(Fault::SequenceStops) {
        return u32::try_from(number + 1).unwrap_or(u32::MAX);
    }
    #[expect(clippy::cast_possible_truncation, reason = "it wraps")]
    let sequence = (number + 1) as u32;
    sequence
}

/// How many slots before its turn a line is asked for. The consumer has it since
/// the last time round, and to get it back takes as long as some messages: in a
/// row of messages that was most of their time.
const AHEAD: u64 = 8;
const SLOTS_MAX: u64 = 1 << 31;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn numbers_may_wrap() {
        around_the_numbers();
    }

    pub(in super::super) fn around_the_numbers() {
        let own = Own::new(4 * LINE).unwrap();
        let fd = own.fd().try_clone_to_owned().unwrap();
        let foreign = Foreign::map(fd, own.len() as u64).unwrap();
        let mut producer = Producer::new(own, 0, 4);
        let mut consumer = Consumer::new(foreign, 0, 4).unwrap();
        let start = u64::from(u32::MAX) - 6;
        (producer.next, consumer.next) = (start, start);
        for number in start..start + 16 {
            producer.put(0, &[number; 7]);
            assert_eq!(consumer.poll(), Some((0, [number; 7])));
            assert_eq!(consumer.poll(), None, "only one was put");
        }
    }
}
