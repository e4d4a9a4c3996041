//! A limit on how often one thing is logged.

use std::time::Duration;

use super::Instant;

/// Permits one log line in a second, and counts those that it suppresses: an event that repeats for
/// ever does not fill a log.
///
/// ```
/// use egret_net::rt::{self, LogLimit};
///
/// let (mut limit, now) = (LogLimit::default(), rt::now());
/// assert_eq!(limit.permit(now), Some(0));
/// assert_eq!(limit.permit(now), None);
/// ```
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct LogLimit {
    /// When the next line is permitted.
    next: Option<Instant>,
    /// How many lines were suppressed since the last permitted one.
    suppressed: u64,
}

const EVERY: Duration = Duration::from_secs(1);

impl LogLimit {
    /// Permits a line at `now`, with the number of lines suppressed since the last one. `None`
    /// suppresses and counts the line.
    pub fn permit(&mut self, now: Instant) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.suppressed += 1;
            return None;
        }
        self.next = Some(now + EVERY);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_a_second_is_permitted_and_the_others_are_counted() {
        let (mut limit, start) = (LogLimit::default(), Instant::from_nanos(5));
        assert_eq!(limit.permit(start), Some(0));
        assert_eq!([limit.permit(start), limit.permit(start)], [None, None]);
        assert_eq!(limit.permit(start + EVERY), Some(2));
        assert_eq!(limit.permit(start + 2 * EVERY), Some(0));
    }
}
