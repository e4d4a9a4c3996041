//! The log of callers that are refused.

use std::fmt;

use tracing::warn;

use crate::rt::{Instant, LogLimit};

/// Says it once in a while: who attempts to connect for ever does not fill the log.
#[derive(Debug, Default)]
pub(in crate::fabric) struct RejectionLog(LogLimit);

impl RejectionLog {
    pub(in crate::fabric) fn say(
        &mut self,
        fabric: &str,
        from: impl fmt::Display,
        why: impl fmt::Display,
        now: Instant,
    ) {
        if let Some(before) = self.0.permit(now) {
            warn!("{fabric}: a caller at {from} was sent away: {why} ({before} others before it)");
        }
    }
}
