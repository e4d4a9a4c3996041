//! `shm-slot`: one slot each way in shared memory.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::end::{LimitLink, LimitTime};
use super::shared::SharedMapping;
use super::ticks::Stopwatch;
use super::wait::WaitLimit;
use super::{LimitError, payload};

/// A slot from the leader to the follower, and one back.
#[derive(Debug)]
pub(super) struct SlotExchange {
    slots: SlotArray,
    private: Vec<u8>,
    next: u64,
}

impl SlotExchange {
    pub(super) fn prepare(bytes: usize) -> Result<(Self, [OwnedFd; 1]), LimitError> {
        let (shared, fd) = SharedMapping::create(SlotArray::len(2, bytes))?;
        Ok((Self::over(shared, bytes), [fd]))
    }

    pub(super) fn join(bytes: usize, fd: &OwnedFd) -> Result<Self, LimitError> {
        Ok(Self::over(SharedMapping::open(fd, SlotArray::len(2, bytes))?, bytes))
    }

    fn over(shared: SharedMapping, bytes: usize) -> Self {
        Self { slots: SlotArray { shared, bytes }, private: vec![0; bytes], next: 1 }
    }

    #[inline]
    fn round_trip(&mut self, sequence: u64, patience: &WaitLimit) -> Result<f64, LimitError> {
        let start = Stopwatch::start();
        // SAFETY: the answer to the message before says that the follower has copied it out.
        unsafe { self.slots.put(THERE, sequence, &self.private) };
        // SAFETY: the follower writes its slot again only for the next message of `lead`.
        unsafe { self.slots.take(BACK, sequence, &mut self.private, patience) }?;
        Ok(start.nanos())
    }
}

impl LimitLink for SlotExchange {
    fn lead(&mut self, rounds: u64, patience: WaitLimit) -> Result<LimitTime, LimitError> {
        let mut times = Vec::with_capacity(rounds.try_into().unwrap_or(0));
        for sequence in self.next..self.next + rounds {
            payload::rewrite(&mut self.private, sequence);
            times.push(self.round_trip(sequence, &patience)?);
            if !payload::is_whole(&self.private, sequence) {
                return Err(LimitError::Corrupt(sequence));
            }
        }
        self.next += rounds;
        Ok(LimitTime::RoundTrips(times))
    }

    fn follow(&mut self, rounds: u64, patience: WaitLimit) -> Result<(), LimitError> {
        for sequence in self.next..self.next + rounds {
            // SAFETY: the leader writes its slot again only after the answer below.
            unsafe { self.slots.take(THERE, sequence, &mut self.private, &patience) }?;
            // SAFETY: the leader sent this message after it had copied out the last answer.
            unsafe { self.slots.put(BACK, sequence, &self.private) };
        }
        self.next += rounds;
        Ok(())
    }
}

/// Slots side by side: each a sequence word followed by the payload, so that
/// the first 56 bytes share its cache line. Before them there is room for one
/// counter in a line of its own.
#[derive(Debug)]
pub(super) struct SlotArray {
    pub(super) shared: SharedMapping,
    pub(super) bytes: usize,
}

impl SlotArray {
    /// Bytes that `count` slots and the counter take.
    pub(super) const fn len(count: usize, bytes: usize) -> usize {
        LINES + count * Self::stride(bytes)
    }

    /// Copies `payload` into slot `index` and says so by its sequence word.
    ///
    /// # Safety
    ///
    /// The receiver has given the slot back since the last `put`.
    #[inline]
    pub(super) unsafe fn put(&self, index: usize, sequence: u64, payload: &[u8]) {
        let at = self.at(index);
        // SAFETY: the caller says that the receiver is done with these bytes, and it will not
        // read them before it sees the new sequence number.
        unsafe { self.shared.write(at + WORD, payload) };
        self.shared.words()[at / WORD].store(sequence, Release);
    }

    /// Waits for message `sequence` in slot `index` and copies it out.
    ///
    /// # Safety
    ///
    /// The sender puts nothing into the slot after `sequence` until the caller
    /// has given it back.
    #[inline]
    pub(super) unsafe fn take(
        &self,
        index: usize,
        sequence: u64,
        into: &mut [u8],
        patience: &WaitLimit,
    ) -> Result<(), LimitError> {
        let at = self.at(index);
        let word = &self.shared.words()[at / WORD];
        patience.spin(|| word.load(Acquire) == sequence)?;
        // SAFETY: the sender wrote these bytes before the number just acquired, and the caller
        // says that it does not touch them until told.
        unsafe { self.shared.read(at + WORD, into) };
        Ok(())
    }

    #[inline]
    fn at(&self, index: usize) -> usize {
        LINES + index * Self::stride(self.bytes)
    }

    const fn stride(bytes: usize) -> usize {
        (WORD + bytes).next_multiple_of(LINES)
    }
}

const THERE: usize = 0;
const BACK: usize = 1;
const WORD: usize = size_of::<u64>();
/// Two cache lines: processors fetch them in pairs.
const LINES: usize = 128;
