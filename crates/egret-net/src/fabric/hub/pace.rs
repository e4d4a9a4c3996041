//! How often to look at what is slow to look at.

use std::time::Duration;

use crate::fabric::After;
use crate::rt::Instant;

/// Says now and then that it is time. The clock costs more than a call that finds
/// nothing, so it is asked now and then: the more often the rarer the calls.
#[derive(Debug)]
pub(in crate::fabric) struct Pace {
    /// Calls until the clock is asked, and how many that were.
    calls_left: u32,
    calls: u32,
    looked: Instant,
}

/// It is time after this long.
const LOOK_AFTER: Duration = Duration::from_micros(100);
/// The clock is asked once in so many calls at most.
const CLOCK_EVERY_MAX: u32 = 128;

impl Pace {
    /// Whether this call is the one to look.
    #[inline]
    pub(in crate::fabric) fn is_time(&mut self, after: &mut After) -> bool {
        self.is_due() && self.ask_clock(after.now())
    }

    /// Whether this call is one to [ask the clock](Self::ask_clock).
    #[inline]
    pub(in crate::fabric) const fn is_due(&mut self) -> bool {
        self.calls_left -= 1;
        self.calls_left == 0
    }

    /// Whether it is time, by the clock.
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

    /// There was a look.
    pub(in crate::fabric) const fn looked(&mut self, now: Instant) {
        self.looked = now;
    }
}

impl Default for Pace {
    fn default() -> Self {
        Self { calls_left: 1, calls: 1, looked: Instant::from_nanos(0) }
    }
}
