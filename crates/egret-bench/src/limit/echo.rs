//! `line-echo`: small messages, one cache line each way.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;

use super::LimitError;
use super::end::{LimitLink, LimitTime};
use super::line::{LINE_WORDS, LINES, check, is_there, line, put};
use super::shared::SharedMapping;
use super::wait::WaitLimit;
use egret::rt;

/// Lines from the leader to the follower, and as many back. The leader has so few under way
/// that no line is used again before its answer is there: no side counts what is consumed.
#[derive(Debug)]
pub(super) struct Echo {
    shared: SharedMapping,
    next: u64,
}

impl Echo {
    pub(super) fn prepare() -> Result<(Self, [OwnedFd; 1]), LimitError> {
        let (shared, fd) = SharedMapping::create(LEN)?;
        Ok((Self { shared, next: 1 }, [fd]))
    }

    pub(super) fn join(fd: &OwnedFd) -> Result<Self, LimitError> {
        Ok(Self { shared: SharedMapping::open(fd, LEN)?, next: 1 })
    }

    #[inline]
    fn there(&self, sequence: u64) -> &[AtomicU64] {
        line(&self.shared.words()[..WORDS], sequence)
    }

    #[inline]
    fn back(&self, sequence: u64) -> &[AtomicU64] {
        line(&self.shared.words()[WORDS..], sequence)
    }
}

impl LimitLink for Echo {
    fn lead(&mut self, rounds: u64, patience: WaitLimit) -> Result<LimitTime, LimitError> {
        let start = rt::machine_now();
        let end = self.next + rounds;
        let (mut sent, mut came) = (self.next, self.next);
        while came < end {
            while sent < end && sent - came < UNDER_WAY {
                put(self.there(sent), sent);
                sent += 1;
            }
            patience.spin(|| is_there(self.back(came), came))?;
            while came < sent && is_there(self.back(came), came) {
                check(self.back(came), came)?;
                came += 1;
            }
        }
        self.next = end;
        Ok(LimitTime::OneWay(rt::machine_now() - start))
    }

    fn follow(&mut self, rounds: u64, patience: WaitLimit) -> Result<(), LimitError> {
        for sequence in self.next..self.next + rounds {
            let there = self.there(sequence);
            patience.spin(|| is_there(there, sequence))?;
            check(there, sequence)?;
            put(self.back(sequence), sequence);
        }
        self.next += rounds;
        Ok(())
    }
}

/// Lines that the leader has sent and not got back.
const UNDER_WAY: u64 = 64;
/// Of the lines of one way.
const WORDS: usize = LINES * LINE_WORDS;
const LEN: usize = 2 * WORDS * size_of::<u64>();
