//! How long a round trip takes, and what follows for repeats.

use std::time::Duration;

use super::terms::WindowTiming;

/// The round trip as measured, in the manner of Jacobson: a moving average, and one of
/// how far the measurements are from it.
#[derive(Debug, Default)]
pub(super) struct Rtt {
    measured: Option<RttEstimate>,
}

#[derive(Debug, Clone, Copy)]
struct RttEstimate {
    mean_ns: u64,
    spread_ns: u64,
    least_ns: u64,
}

impl Rtt {
    /// A piece that was sent once was acknowledged after this long.
    pub(super) fn measure(&mut self, sample_ns: u64) {
        let sample = sample_ns.min(TOP_NS);
        let new = match self.measured {
            None => RttEstimate { mean_ns: sample, spread_ns: sample / 2, least_ns: sample },
            Some(old) => RttEstimate {
                mean_ns: (old.mean_ns * 7 + sample) / 8,
                spread_ns: (old.spread_ns * 3 + old.mean_ns.abs_diff(sample)) / 4,
                least_ns: old.least_ns.min(sample),
            },
        };
        self.measured = Some(new);
    }

    /// Whether an acknowledgement that comes after this long can be one of it.
    pub(super) fn is_possible(&self, after_ns: u64) -> bool {
        self.measured.is_none_or(|measured| after_ns >= measured.least_ns)
    }

    /// Whether a round trip of this length is nothing new.
    pub(super) fn is_usual(&self, pace: &WindowTiming, after_ns: u64) -> bool {
        self.measured.is_some_and(|measured| after_ns >= measured.least_ns)
            && Duration::from_nanos(after_ns) <= self.patience(pace, 0)
    }

    /// How long to wait for an acknowledgement before the first piece is sent again, to learn what has
    /// come; `None` if no round trip was measured, or that is no sooner than all counts as lost.
    pub(super) fn probe(&self, pace: &WindowTiming) -> Option<Duration> {
        let RttEstimate { mean_ns, spread_ns, .. } = self.measured?;
        let probe = Duration::from_nanos(mean_ns + spread_ns * 4) + pace.ack_delay * 2;
        (probe < self.patience(pace, 0)).then_some(probe)
    }

    /// How long to wait for an acknowledgement after so many times in vain.
    pub(super) fn patience(&self, pace: &WindowTiming, doublings: u32) -> Duration {
        let once = match self.measured {
            None => pace.repeat_min * 5,
            Some(measured) => Duration::from_nanos(measured.mean_ns + measured.spread_ns * 4),
        };
        let doubled = once.max(pace.repeat_min).saturating_mul(1 << doublings.min(16));
        doubled.min(pace.repeat_max)
    }
}

/// No round trip takes longer: a minute.
const TOP_NS: u64 = 60_000_000_000;
