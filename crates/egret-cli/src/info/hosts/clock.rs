//! How far the clock of another machine is from the one here.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::fault::{Fault, planted};

/// One question for the time, and its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockSample {
    /// When it was asked, by the clock here, in nanoseconds since 1970.
    pub(super) sent: u64,
    /// The answer.
    pub(super) theirs: u64,
    /// From the question to the answer.
    pub(super) round_trip: Duration,
}

/// How far a clock is ahead of the one here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct ClockOffset {
    /// Below zero if it is behind.
    pub(super) ahead_us: i64,
    /// It may be as much more or less: the question may have taken all of the round trip, or the answer.
    pub(super) uncertain_us: u64,
}

/// By the sample with the shortest round trip, which says most.
pub(super) fn offset(samples: &[ClockSample]) -> Option<ClockOffset> {
    let sample = match planted(Fault::LastAnswer) {
        true => samples.last(),
        false => samples.iter().min_by_key(|sample| sample.round_trip),
    }?;
    let half = sample.round_trip / 2;
    let middle = i128::from(sample.sent) + i128::try_from(half.as_nanos()).ok()?;
    let ahead_us = i64::try_from((i128::from(sample.theirs) - middle) / 1000).ok()?;
    Some(ClockOffset { ahead_us, uncertain_us: u64::try_from(half.as_micros()).ok()? })
}

/// The time of this machine in nanoseconds since 1970, as people count it: for comparison alone.
pub(super) fn time_ns() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::super::fault::caught;
    use super::*;

    fn sample(sent_ms: u64, theirs_ms: u64, round_trip_ms: u64) -> ClockSample {
        let ns = 1_000_000;
        let round_trip = Duration::from_millis(round_trip_ms);
        ClockSample { sent: sent_ms * ns, theirs: theirs_ms * ns, round_trip }
    }

    /// A clock that is 5 s ahead; the second answer was the soonest, and the third was slow on its way back.
    fn the_soonest_answer_counts() {
        let samples = [sample(1000, 6010, 20), sample(2000, 7001, 2), sample(3000, 8001, 900)];
        let offset = offset(&samples).unwrap();
        assert_eq!(offset, ClockOffset { ahead_us: 5_000_000, uncertain_us: 1000 });
    }

    #[test]
    fn clocks_are_compared_by_the_soonest_answer() {
        the_soonest_answer_counts();
        assert!(caught(Fault::LastAnswer, the_soonest_answer_counts));
        let behind = offset(&[sample(10_000, 4_000, 0)]).unwrap();
        assert_eq!((behind.ahead_us, behind.uncertain_us), (-6_000_000, 0));
        assert_eq!(offset(&[]), None);
    }
}
