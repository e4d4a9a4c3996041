//! Spinning that ends.

use std::time::Duration;

use super::LimitError;
use egret::rt::{self, Instant};

/// How long a run may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct WaitLimit {
    timeout: Duration,
    until: Instant,
}

impl WaitLimit {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, until: rt::machine_now() + timeout }
    }

    /// Spins with pause until `ready`.
    #[inline]
    pub(super) fn spin(&self, mut ready: impl FnMut() -> bool) -> Result<(), LimitError> {
        loop {
            for _ in 0..SPINS_BETWEEN_CHECKS {
                if ready() {
                    return Ok(());
                }
                std::hint::spin_loop();
            }
            self.check()?;
        }
    }

    /// An error if the time is over.
    #[cold]
    pub(super) fn check(&self) -> Result<(), LimitError> {
        if rt::machine_now() < self.until { Ok(()) } else { Err(LimitError::Stalled(self.timeout)) }
    }

    /// What is left, or the error if that is nothing.
    pub(super) fn left(&self) -> Result<Duration, LimitError> {
        self.check()?;
        Ok((self.until - rt::machine_now()).max(Duration::from_millis(1)))
    }
}

/// About a millisecond of pauses: rare enough to cost nothing.
const SPINS_BETWEEN_CHECKS: u32 = 1 << 14;
