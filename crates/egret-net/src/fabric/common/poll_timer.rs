//! How often a poll looks at what is slow to look at: timers, and sockets that are idle.

use std::time::Duration;

use crate::fabric::After;
use crate::rt::Instant;

/// Tells a poll when to look at slow things. Reading the clock costs more than a poll that finds
/// nothing, so only some polls read it: a larger share of them if polls are rare.
#[derive(Debug)]
pub(in crate::fabric) struct PollTimer {
    /// Polls until the clock is read, and the number that this count started from.
    calls_left: u32,
    calls: u32,
    looked: Instant,
}

/// The time between two looks.
const LOOK_AFTER: Duration = Duration::from_micros(100);
/// The clock is read at least once in so many polls.
const CLOCK_EVERY_MAX: u32 = 128;

impl PollTimer {
    /// Whether this poll is one to look.
    #[inline]
    pub(in crate::fabric) fn is_time(&mut self, after: &mut After) -> bool {
        self.is_due() && self.ask_clock(after.now())
    }

    /// Whether this poll is one to [read the clock](Self::ask_clock).
    #[inline]
    pub(in crate::fabric) const fn is_due(&mut self) -> bool {
        self.calls_left -= 1;
        self.calls_left == 0
    }

    /// Whether it is time to look, by the clock.
    #[cold]
    pub(in crate::fabric) fn ask_clock(&mut self, now: Instant) -> bool {
        let before = self.calls;
        let is_time = now >= self.looked + LOOK_AFTER;
        self.calls = if now >= self.looked + 2 * LOOK_AFTER {
            (before / 2).max(1)
        } else {
            (before * 2).min(CLOCK_EVERY_MAX)
        };
        self.calls_left = self.calls;
        is_time
    }

    /// Notes that a poll has looked.
    pub(in crate::fabric) const fn looked(&mut self, now: Instant) {
        self.looked = now;
    }
}

impl Default for PollTimer {
    fn default() -> Self {
        Self { calls_left: 1, calls: 1, looked: Instant::from_nanos(0) }
    }
}
