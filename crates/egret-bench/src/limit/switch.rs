//! `switch-pairs`: two processes that leave their core to each other.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};
use rustix::thread::sched_yield;

use super::end::{LimitLink, LimitTime};
use super::event::timespec;
use super::shared::SharedMapping;
use super::ticks::Stopwatch;
use super::wait::WaitLimit;
use super::{LimitError, system};

/// A line each way with a number and four bytes of payload. One pair of processes that has
/// a core for each would spin; this is what many do that have to share them.
#[derive(Debug)]
pub(super) struct Switch {
    shared: SharedMapping,
    rest: SwitchWait,
    next: u32,
}

/// What a side does while its line is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SwitchWait {
    /// Lets others run, and looks again.
    Yield,
    /// Sleeps until the other side wakes it.
    Futex,
}

impl Switch {
    pub(super) fn prepare(rest: SwitchWait) -> Result<(Self, [OwnedFd; 1]), LimitError> {
        let (shared, fd) = SharedMapping::create(LEN)?;
        Ok((Self { shared, rest, next: 1 }, [fd]))
    }

    pub(super) fn join(rest: SwitchWait, fd: &OwnedFd) -> Result<Self, LimitError> {
        Ok(Self { shared: SharedMapping::open(fd, LEN)?, rest, next: 1 })
    }

    #[inline]
    fn line(&self, way: usize) -> &[AtomicU32] {
        &self.shared.halves()[way..way + 2]
    }

    fn put(&self, way: usize, sequence: u32) -> Result<(), LimitError> {
        let line = self.line(way);
        line[1].store(!sequence, Relaxed);
        line[0].store(sequence, Release);
        match self.rest {
            SwitchWait::Yield => Ok(()),
            SwitchWait::Futex => {
                futex::wake(&line[0], Flags::empty(), 1).map(drop).map_err(system("futex wake"))
            }
        }
    }

    fn take(&self, way: usize, sequence: u32, patience: &BoundedWait) -> Result<(), LimitError> {
        let line = self.line(way);
        match self.rest {
            SwitchWait::Yield => patience.yields(&line[0], sequence)?,
            SwitchWait::Futex => patience.sleeps(&line[0], sequence)?,
        }
        let is_right = line[1].load(Relaxed) == !sequence;
        if is_right { Ok(()) } else { Err(LimitError::Corrupt(sequence.into())) }
    }
}

impl LimitLink for Switch {
    fn lead(&mut self, rounds: u64, patience: WaitLimit) -> Result<LimitTime, LimitError> {
        let waits = BoundedWait::new(patience)?;
        let mut times = Vec::with_capacity(rounds.try_into().unwrap_or(0));
        for _ in 0..rounds {
            let start = Stopwatch::start();
            self.put(THERE, self.next)?;
            self.take(BACK, self.next, &waits)?;
            times.push(start.nanos());
            self.next = self.next.wrapping_add(1);
        }
        Ok(LimitTime::RoundTrips(times))
    }

    fn follow(&mut self, rounds: u64, patience: WaitLimit) -> Result<(), LimitError> {
        let waits = BoundedWait::new(patience)?;
        for _ in 0..rounds {
            self.take(THERE, self.next, &waits)?;
            self.put(BACK, self.next)?;
            self.next = self.next.wrapping_add(1);
        }
        Ok(())
    }
}

/// Waiting that ends.
struct BoundedWait {
    patience: WaitLimit,
    timeout: Timespec,
}

impl BoundedWait {
    fn new(patience: WaitLimit) -> Result<Self, LimitError> {
        Ok(Self { timeout: timespec(&patience)?, patience })
    }

    fn yields(&self, word: &AtomicU32, sequence: u32) -> Result<(), LimitError> {
        loop {
            for _ in 0..YIELDS_BETWEEN_CHECKS {
                if word.load(Acquire) == sequence {
                    return Ok(());
                }
                sched_yield();
            }
            self.patience.check()?;
        }
    }

    fn sleeps(&self, word: &AtomicU32, sequence: u32) -> Result<(), LimitError> {
        loop {
            let seen = word.load(Acquire);
            if seen == sequence {
                return Ok(());
            }
            match futex::wait(word, Flags::empty(), seen, Some(&self.timeout)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::TIMEDOUT) => self.patience.check()?,
                Err(errno) => return Err(system("futex wait")(errno)),
            }
        }
    }
}

/// Where the two lines are, in halves of words: two cache lines apart, which processors
/// fetch in pairs.
const THERE: usize = 0;
const BACK: usize = 32;
const LEN: usize = 2 * BACK * size_of::<u32>();
/// A few milliseconds where no other thread wants the core.
const YIELDS_BETWEEN_CHECKS: u32 = 1 << 12;
