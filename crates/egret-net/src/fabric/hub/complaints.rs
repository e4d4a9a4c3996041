//! What the log is told of callers that are sent away.

use std::fmt;

use tracing::warn;

use crate::rt::{Instant, Seldom};

/// Says it once in a while: who knocks for ever does not fill the log.
#[derive(Debug, Default)]
pub(in crate::fabric) struct Complaints(Seldom);

impl Complaints {
    pub(in crate::fabric) fn say(
        &mut self,
        fabric: &str,
        from: impl fmt::Display,
        why: impl fmt::Display,
        now: Instant,
    ) {
        if let Some(before) = self.0.say(now) {
            warn!("{fabric}: a caller at {from} was sent away: {why} ({before} others before it)");
        }
    }
}
