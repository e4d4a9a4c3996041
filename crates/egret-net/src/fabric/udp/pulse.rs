//! Whether the peer lives, as far as that can be known.
//!
//! Time is counted in beats of the nic. A peer that was not heard for [`QUIET`] of them
//! is asked at each, and after [`DEAD`] it is dead: its machine or the way to it, or its
//! program has not driven its nic for so long. A process that ended is found sooner: the
//! system of its machine says that nobody receives there.

use std::time::Duration;

use super::fault::{Fault, planted};

#[derive(Debug)]
pub(super) struct Pulse {
    heard: bool,
    /// Beats without a word of the peer.
    quiet: u32,
}

/// What to do at a beat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beat {
    Nothing,
    Ask,
    Dead,
}

/// How long a beat is.
pub(super) const BEAT: Duration = Duration::from_millis(500);
/// Four seconds.
pub(super) const QUIET: u32 = 8;
/// Ten seconds: twelve questions without an answer.
pub(super) const DEAD: u32 = 20;

impl Pulse {
    /// One of many connections, which are not all to ask at the same beat.
    #[expect(clippy::cast_possible_truncation, reason = "any of its bits will do")]
    pub(super) const fn new(number: u64) -> Self {
        Self { heard: false, quiet: number as u32 % (QUIET / 2) }
    }

    #[inline]
    pub(super) const fn hear(&mut self) {
        self.heard = true;
    }

    pub(super) fn beat(&mut self) -> Beat {
        if std::mem::take(&mut self.heard) {
            self.quiet = 0;
            return Beat::Nothing;
        }
        self.quiet += 1;
        match self.quiet {
            ..QUIET => Beat::Nothing,
            DEAD.. if !planted(Fault::SilenceIgnored) => Beat::Dead,
            _ => Beat::Ask,
        }
    }
}
