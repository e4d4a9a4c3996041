//! What is said once in a while.

use std::time::Duration;

use super::Instant;

/// Says something once in a second at most, and counts what it does not say: who does the same
/// thing for ever does not fill a log.
///
/// ```
/// use egret_net::rt::{self, Seldom};
///
/// let (mut seldom, now) = (Seldom::default(), rt::now());
/// assert_eq!(seldom.say(now), Some(0));
/// assert_eq!(seldom.say(now), None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Seldom {
    /// When it may be said again.
    next: Option<Instant>,
    /// How often it was not said.
    unsaid: u64,
}

const EVERY: Duration = Duration::from_secs(1);

impl Seldom {
    /// Whether to say it now: how often it was not said since the last time. `None`: it is counted.
    pub fn say(&mut self, now: Instant) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            self.unsaid += 1;
            return None;
        }
        self.next = Some(now + EVERY);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_second_is_said_and_the_others_are_counted() {
        let (mut seldom, start) = (Seldom::default(), Instant::from_nanos(5));
        assert_eq!(seldom.say(start), Some(0));
        assert_eq!([seldom.say(start), seldom.say(start)], [None, None]);
        assert_eq!(seldom.say(start + EVERY), Some(2));
        assert_eq!(seldom.say(start + 2 * EVERY), Some(0));
    }
}
