//! `shm-ring`: sixteen slots one way, and a consumed counter.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::end::{LimitLink, LimitTime};
use super::shared::SharedMapping;
use super::slot::SlotArray;
use super::wait::WaitLimit;
use super::{LimitError, payload};
use egret::rt;

/// Slots from the leader to the follower, filled in turn.
#[derive(Debug)]
pub(super) struct SlotRing {
    slots: SlotArray,
    private: Vec<u8>,
    next: u64,
}

impl SlotRing {
    pub(super) fn prepare(bytes: usize) -> Result<(Self, [OwnedFd; 1]), LimitError> {
        let (shared, fd) = SharedMapping::create(SlotArray::len(SLOTS, bytes))?;
        Ok((Self::over(shared, bytes), [fd]))
    }

    pub(super) fn join(bytes: usize, fd: &OwnedFd) -> Result<Self, LimitError> {
        Ok(Self::over(SharedMapping::open(fd, SlotArray::len(SLOTS, bytes))?, bytes))
    }

    fn over(shared: SharedMapping, bytes: usize) -> Self {
        Self { slots: SlotArray { shared, bytes }, private: vec![0; bytes], next: 1 }
    }

    /// The last message the follower has copied out.
    fn consumed(&self) -> &AtomicU64 {
        &self.slots.shared.words()[0]
    }
}

impl LimitLink for SlotRing {
    fn lead(&mut self, rounds: u64, patience: WaitLimit) -> Result<LimitTime, LimitError> {
        let start = rt::machine_now();
        let end = self.next + rounds;
        for sequence in self.next..end {
            payload::rewrite(&mut self.private, sequence);
            patience.spin(|| sequence - self.consumed().load(Acquire) <= SLOTS as u64)?;
            // SAFETY: the message that was in this slot, `SLOTS` before, has been consumed.
            unsafe { self.slots.put(index(sequence), sequence, &self.private) };
        }
        patience.spin(|| self.consumed().load(Acquire) == end - 1)?;
        self.next = end;
        Ok(LimitTime::OneWay(rt::machine_now() - start))
    }

    fn follow(&mut self, rounds: u64, patience: WaitLimit) -> Result<(), LimitError> {
        for sequence in self.next..self.next + rounds {
            let (slots, into) = (&self.slots, &mut self.private);
            // SAFETY: the leader waits for the consumed counter below before it uses the slot
            // again.
            unsafe { slots.take(index(sequence), sequence, into, &patience) }?;
            self.consumed().store(sequence, Release);
            if !payload::has_ends(&self.private, sequence) {
                return Err(LimitError::Corrupt(sequence));
            }
        }
        self.next += rounds;
        match rounds == 0 || payload::is_whole(&self.private, self.next - 1) {
            true => Ok(()),
            false => Err(LimitError::Corrupt(self.next - 1)),
        }
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "below SLOTS")]
fn index(sequence: u64) -> usize {
    (sequence % SLOTS as u64) as usize
}

const SLOTS: usize = 16;
