//! The clock of waits with a deadline.

use egret_net::rt::{Deadline, Instant};
use egret_net::vi::Nic;

use super::core::WaitStopped;

/// How long a wait, or several waits one after the other, may last. Reads the time only when it must.
pub(crate) struct DeadlineClock {
    deadline: Deadline,
    started: Option<Instant>,
}

impl DeadlineClock {
    #[inline]
    pub(crate) const fn of(deadline: Deadline) -> Self {
        Self { deadline, started: None }
    }

    /// The time begins now, if it has not begun.
    pub(crate) fn start(&mut self, nic: &Nic) {
        if self.started.is_none() && self.deadline != Deadline::UntilDead {
            self.started = Some(nic.now());
        }
    }

    /// Until when it lasts.
    ///
    /// # Errors
    ///
    /// If that has passed.
    pub(crate) fn until(&mut self, nic: &Nic) -> Result<Option<Instant>, WaitStopped> {
        if self.deadline == Deadline::UntilDead {
            return Ok(None);
        }
        let now = nic.now();
        let started = *self.started.get_or_insert(now);
        let until = self.deadline.until_from(started);
        if until.is_some_and(|until| now >= until) {
            return Err(WaitStopped::TimedOut { waited: now - started });
        }
        Ok(until)
    }
}
