//! `line-ring`: small messages, one cache line each.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::LimitError;
use super::end::{LimitLink, LimitTime};
use super::shared::SharedMapping;
use super::wait::WaitLimit;
use egret::rt;

/// Lines from the leader to the follower, each a sequence word and a payload
/// word; behind them the consumed counter, written once a batch.
#[derive(Debug)]
pub(super) struct LineArray {
    shared: SharedMapping,
    next: u64,
}

impl LineArray {
    pub(super) fn prepare() -> Result<(Self, [OwnedFd; 1]), LimitError> {
        let (shared, fd) = SharedMapping::create(LEN)?;
        Ok((Self { shared, next: 1 }, [fd]))
    }

    pub(super) fn join(fd: &OwnedFd) -> Result<Self, LimitError> {
        Ok(Self { shared: SharedMapping::open(fd, LEN)?, next: 1 })
    }

    fn consumed(&self) -> &AtomicU64 {
        &self.shared.words()[LINES * LINE_WORDS]
    }

    #[inline]
    fn line(&self, sequence: u64) -> &[AtomicU64] {
        line(self.shared.words(), sequence)
    }
}

impl LimitLink for LineArray {
    fn lead(&mut self, rounds: u64, patience: WaitLimit) -> Result<LimitTime, LimitError> {
        let start = rt::machine_now();
        let end = self.next + rounds;
        let mut consumed = self.next - 1;
        for sequence in self.next..end {
            if sequence - consumed > LINES as u64 {
                patience.spin(|| {
                    consumed = self.consumed().load(Acquire);
                    sequence - consumed <= LINES as u64
                })?;
            }
            put(self.line(sequence), sequence);
        }
        patience.spin(|| self.consumed().load(Acquire) == end - 1)?;
        self.next = end;
        Ok(LimitTime::OneWay(rt::machine_now() - start))
    }

    fn follow(&mut self, rounds: u64, patience: WaitLimit) -> Result<(), LimitError> {
        let end = self.next + rounds;
        for sequence in self.next..end {
            let line = self.line(sequence);
            patience.spin(|| is_there(line, sequence))?;
            check(line, sequence)?;
            if sequence % BATCH == 0 || sequence == end - 1 {
                self.consumed().store(sequence, Release);
            }
        }
        self.next = end;
        Ok(())
    }
}

/// The two words of message `sequence`, of lines that are used in turn.
#[inline]
pub(super) fn line(lines: &[AtomicU64], sequence: u64) -> &[AtomicU64] {
    #[expect(clippy::cast_possible_truncation, reason = "below LINES")]
    let at = (sequence % LINES as u64) as usize * LINE_WORDS;
    &lines[at..at + 2]
}

/// Writes message `sequence` to its line.
#[inline]
pub(super) fn put(line: &[AtomicU64], sequence: u64) {
    line[1].store(content(sequence), Relaxed);
    line[0].store(sequence, Release);
}

#[inline]
pub(super) fn is_there(line: &[AtomicU64], sequence: u64) -> bool {
    line[0].load(Acquire) == sequence
}

/// An error if the message that is there is not `sequence`.
#[inline]
pub(super) fn check(line: &[AtomicU64], sequence: u64) -> Result<(), LimitError> {
    let is_right = line[1].load(Relaxed) == content(sequence);
    if is_right { Ok(()) } else { Err(LimitError::Corrupt(sequence)) }
}

/// The payload of message `sequence`.
#[inline]
fn content(sequence: u64) -> u64 {
    !sequence
}

pub(super) const LINES: usize = 1024;
pub(super) const LINE_WORDS: usize = 8;
const BATCH: u64 = 128;
const LEN: usize = (LINES + 1) * LINE_WORDS * size_of::<u64>();
