//! How long requests of a link take until their answers come, of one request in many.

use std::time::Duration;

use egret_net::rt::Instant;

use crate::slots::SlotKey;

/// The round trips of a link: the time from a request to its answer, measured on few requests. Requests and answers
/// that are not measured cost a count and a comparison; the clock is read twice for one that is.
#[derive(Debug)]
pub(crate) struct TripSamples {
    /// Requests until one is measured again.
    left: u32,
    /// The call that is measured, if there is one.
    call: Option<SlotKey>,
    begun: Instant,
    /// How many were measured.
    count: u32,
    /// The average of the last ones, in nanoseconds.
    average: u64,
}

impl Default for TripSamples {
    fn default() -> Self {
        Self { left: 1, call: None, begun: Instant::default(), count: 0, average: 0 }
    }
}

impl TripSamples {
    /// Counts a request. Whether it is to be measured.
    #[inline]
    pub(super) const fn is_due(&mut self) -> bool {
        self.left = self.left.wrapping_sub(1);
        self.left == 0
    }

    /// A request that is due is sent, as this call. If another one is measured still, this one is not.
    #[cold]
    pub(super) fn begin(&mut self, call: SlotKey, now: Instant) {
        if self.call.is_none() {
            (self.call, self.begun) = (Some(call), now);
        }
        self.left = self.pause();
    }

    /// Whether a call of this number is measured.
    #[inline]
    pub(super) fn is_of(&self, number: u32) -> bool {
        self.call.is_some_and(|call| call.index == number)
    }

    /// An answer has come to a call that has the number of the measured one. If it is another call, the measured one
    /// has ended without an answer.
    #[cold]
    pub(super) fn end(&mut self, call: Option<SlotKey>, now: Instant) {
        if self.call.take() != call {
            return;
        }
        let taken = u64::try_from((now - self.begun).as_nanos()).unwrap_or(u64::MAX);
        self.count = self.count.saturating_add(1);
        // Of the first ones the mean, later a mean that forgets.
        let weight = u64::from(self.count.min(WEIGHT));
        self.average = self.average - self.average / weight + taken / weight;
    }

    /// The average, and has the next request measured, so that it is as new as the looks are.
    pub(crate) fn look(&mut self) -> Option<Duration> {
        self.left = 1;
        (self.count > 0).then(|| Duration::from_nanos(self.average))
    }

    /// The first requests are measured closer to each other.
    fn pause(&self) -> u32 {
        PAUSE_MAX >> (PAUSE_MAX.ilog2() - self.count.min(PAUSE_MAX.ilog2()))
    }
}

/// The most requests from one that is measured to the next.
const PAUSE_MAX: u32 = 1 << 10;
/// The share of a new round trip in the average is at least one of so many.
const WEIGHT: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::SlotTable;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn few_requests_are_measured_and_each_look_has_another_one_measured() {
        let (mut trips, mut calls) = (TripSamples::default(), SlotTable::default());
        let mut measured = 0;
        for number in 0..1 << 16 {
            let call = calls.insert(());
            if trips.is_due() {
                trips.begin(call, at(number * 1000));
                assert!(trips.is_of(call.index) && !trips.is_of(call.index + 1));
                trips.end(Some(call), at(number * 1000 + 300));
                measured += 1;
            }
            calls.clear(call);
        }
        assert!((60..90).contains(&measured), "{measured}");
        let average = trips.look().expect("requests were measured");
        assert!(average.as_nanos().abs_diff(300) < 20, "{average:?}");
        assert!(trips.is_due());
    }

    #[test]
    fn a_request_that_takes_long_is_measured_to_its_end() {
        let (mut trips, mut calls) = (TripSamples::default(), SlotTable::default());
        let (slow, other) = (calls.insert(()), calls.insert(()));
        assert_eq!(trips.look(), None);
        assert!(trips.is_due());
        trips.begin(slow, at(100));
        trips.look();
        assert!(trips.is_due());
        trips.begin(other, at(200));
        assert!(trips.is_of(slow.index) && !trips.is_of(other.index), "one at a time");
        trips.end(Some(slow), at(1100));
        assert_eq!(trips.look(), Some(Duration::from_nanos(1000)));
        assert!(!trips.is_of(slow.index));
    }

    #[test]
    fn a_request_that_never_had_an_answer_is_not_measured_by_the_next_one_of_its_number() {
        let (mut trips, mut calls) = (TripSamples::default(), SlotTable::default());
        let lost = calls.insert(());
        trips.begin(lost, at(100));
        calls.clear(lost);
        let next = calls.insert(());
        assert!(trips.is_of(next.index), "the number is the same");
        trips.end(Some(next), at(1 << 40));
        assert_eq!(trips.look(), None);
        trips.begin(next, at(0));
        trips.end(Some(next), at(50));
        assert_eq!(trips.look(), Some(Duration::from_nanos(50)));
    }
}
