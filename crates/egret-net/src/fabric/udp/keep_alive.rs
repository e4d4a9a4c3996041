//! Keep-alive: whether the peer is alive.
//!
//! Time is counted in ticks of the nic. A peer of which nothing has arrived for [`QUIET`] ticks is sent a
//! probe at each, and after [`DEAD`] ticks it counts as dead: its machine or the path to it has failed, or its
//! program has not driven its nic for so long. A process that has ended is found sooner: the system of its
//! machine reports that its port is closed.

use std::time::Duration;

use super::fault;

#[derive(Debug)]
pub(super) struct KeepAlive {
    heard: bool,
    /// Ticks without a datagram of the peer.
    quiet: u32,
}

/// What to do at a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeepAliveAction {
    Nothing,
    Ask,
    Dead,
}

/// The length of a tick.
pub(super) const KEEP_ALIVE_TICK: Duration = Duration::from_millis(500);
/// Four seconds.
pub(super) const QUIET: u32 = 8;
/// Ten seconds: twelve questions without an answer.
pub(super) const DEAD: u32 = 20;

impl KeepAlive {
    /// Starts at a tick that depends on `number`, so that many connections do not all probe at the same tick.
    #[expect(clippy::cast_possible_truncation, reason = "any of its bits will do")]
    pub(super) const fn new(number: u64) -> Self {
        Self { heard: false, quiet: number as u32 % (QUIET / 2) }
    }

    #[inline]
    pub(super) const fn hear(&mut self) {
        self.heard = true;
    }

    pub(super) fn keep_alive_tick(&mut self) -> KeepAliveAction {
        if std::mem::take(&mut self.heard) {
            self.quiet = 0;
            return KeepAliveAction::Nothing;
        }
        self.quiet += 1;
        match fault::quiet(self.quiet) {
            ..QUIET => KeepAliveAction::Nothing,
            DEAD.. => KeepAliveAction::Dead,
            _ => KeepAliveAction::Ask,
        }
    }
}
