//! What the log is told of callers that are sent away.

use std::fmt;
use std::time::Duration;

use tracing::warn;

use crate::rt::Instant;

/// Says it once in a while: who knocks for ever does not fill the log.
#[derive(Debug, Default)]
pub(in crate::fabric) struct Complaints {
    /// When the next may be said.
    next: Option<Instant>,
    /// How many were not said.
    unsaid: u64,
}

const EVERY: Duration = Duration::from_secs(1);

impl Complaints {
    pub(in crate::fabric) fn say(
        &mut self,
        fabric: &str,
        from: impl fmt::Display,
        why: impl fmt::Display,
        now: Instant,
    ) {
        if self.next.is_some_and(|next| now < next) {
            self.unsaid += 1;
            return;
        }
        let before = std::mem::take(&mut self.unsaid);
        warn!("{fabric}: a caller at {from} was sent away: {why} ({before} others before it)");
        self.next = Some(now + EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_second_is_said_and_the_others_are_counted() {
        let (mut complaints, start) = (Complaints::default(), Instant::from_nanos(5));
        for _ in 0..3 {
            complaints.say("tcp", "here", "it says nothing", start);
        }
        assert_eq!(complaints.unsaid, 2);
        complaints.say("tcp", "here", "it says nothing", start + EVERY);
        assert_eq!(complaints.unsaid, 0);
    }
}
