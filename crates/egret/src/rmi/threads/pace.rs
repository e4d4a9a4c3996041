//! How long a method takes, as far as that tells who is to run it.
//!
//! Methods that take little time run on the thread that receives their calls: to have another
//! thread do so takes more. One whose runs take [long](LONG) in the average is left to a worker if
//! [something else](crate::rmi::threads::cores) is to be done meanwhile. One of which [several](EXILED) of the last 16
//! runs that were timed [overran](OVERRUN), or were long and waited, always runs on workers, where every run is timed: so it comes
//! back when it has become short. What a method waits for calls of its own does not count, nor
//! time in which its thread did not run because it lost its core to another.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use crate::rmi::context::{MethodTime, MethodTimer};
use crate::rmi::fault::{Fault, planted};

/// How long a method takes.
#[derive(Debug, Default)]
pub(crate) struct MethodPace {
    /// A bit for each of the last 16 runs that were timed, set if it overran.
    history: AtomicU32,
    /// What the runs that were timed took, in nanoseconds: each counts for an eighth of it, and for no
    /// more than [`COUNTED`], so that one run alone does not make a method long.
    average: AtomicU32,
    /// Runs on receiving threads so far.
    runs: AtomicU32,
    /// Runs among them that have not ended.
    running: AtomicU32,
}

impl MethodPace {
    /// Whether no thread that receives is to run the next one.
    #[inline]
    pub(crate) fn overruns(&self) -> bool {
        let overran = (self.history.load(Relaxed) & HISTORY).count_ones();
        overran >= EXILED && !planted(Fault::NeverExiled)
    }

    /// Whether runs take long in the average.
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        self.average.load(Relaxed) > LONG_NANOS
    }

    /// Whether no receiving thread runs one. If one does, and a call is received all the same,
    /// another thread has taken over.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.running.load(Relaxed) == 0
    }

    /// A receiving thread runs one, until this is dropped.
    #[inline]
    pub(crate) fn running(&self) -> RunningMethod<'_> {
        self.running.fetch_add(1, Relaxed);
        RunningMethod(self)
    }

    /// Whether the run that begins is to be timed: the first ones, and some of the others; all if they
    /// take long.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let runs = self.runs.load(Relaxed);
        self.runs.store(runs.wrapping_add(1), Relaxed);
        runs < TIMED_FIRST || runs.is_multiple_of(TIMED_EVERY) || self.is_long()
    }

    /// A run that is timed begins. If runs take long, and after one that overran, it is asked whether
    /// the thread lost its core: to ask takes longer than most methods.
    pub(crate) fn time(&self) -> MethodTimer {
        MethodTimer::begin(self.history.load(Relaxed) & HISTORY != 0 || self.is_long())
    }

    /// The run has ended. Time in which its thread did not run, because it lost its core, does not count.
    pub(crate) fn timed(&self, timed: MethodTimer) {
        self.ran(timed.end(LONG));
    }

    /// A run has taken so long. One that waits needs no core, and others can run beside it.
    fn ran(&self, took: MethodTime) {
        let MethodTime { time, has_waited } = took;
        let history = self.history.load(Relaxed);
        let overran = time > if has_waited { LONG } else { OVERRUN };
        self.history.store(history << 1 | u32::from(overran), Relaxed);
        let took = u32::try_from(time.min(COUNTED).as_nanos()).unwrap_or(u32::MAX);
        let average = self.average.load(Relaxed);
        self.average.store(average - average / WEIGHT + took / WEIGHT, Relaxed);
    }
}

/// A receiving thread runs a call.
#[derive(Debug)]
pub(crate) struct RunningMethod<'a>(&'a MethodPace);

impl Drop for RunningMethod<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
    }
}

const HISTORY: u32 = 0xFFFF;
/// So many runs that overran send a method to the workers.
const EXILED: u32 = 3;
/// A run that takes longer has overrun: another thread has had to take over from a receiving one.
const OVERRUN: Duration = Duration::from_micros(100);
/// What takes longer is long: to have a worker woken takes about half as long.
const LONG: Duration = Duration::from_micros(10);
const LONG_NANOS: u32 = 10_000;
/// What a run counts for at most in the average.
const COUNTED: Duration = Duration::from_micros(40);
/// The part of the average that one run is.
const WEIGHT: u32 = 8;
/// Runs that are timed at first; and of how many one is, then.
const TIMED_FIRST: u32 = 16;
const TIMED_EVERY: u32 = 16;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use egret_net::rt;

    use super::*;
    use crate::rmi::fault::caught;

    fn ran(pace: &MethodPace, time: Duration) {
        pace.ran(MethodTime { time, has_waited: false });
    }

    #[test]
    fn a_method_that_takes_long_goes_to_the_workers_and_comes_back() {
        goes_and_comes_back();
        assert!(caught(Fault::NeverExiled, goes_and_comes_back));
    }

    fn goes_and_comes_back() {
        let pace = MethodPace::default();
        assert!(!pace.overruns(), "nothing is known of it");
        (0..2).for_each(|_| ran(&pace, OVERRUN * 2));
        assert!(!pace.overruns(), "its thread may have lost its core");
        (0..14).for_each(|_| ran(&pace, LONG / 2));
        ran(&pace, OVERRUN * 2);
        assert!(!pace.overruns(), "that was long ago");
        (0..2).for_each(|_| ran(&pace, OVERRUN * 2));
        assert!(pace.overruns());
        (0..13).for_each(|_| ran(&pace, LONG / 2));
        assert!(pace.overruns());
        (0..3).for_each(|_| ran(&pace, LONG / 2));
        assert!(!pace.overruns(), "it has become short");
    }

    #[test]
    fn runs_are_long_if_they_are_so_in_the_average() {
        let pace = MethodPace::default();
        assert!(!pace.is_long(), "nothing is known of it");
        (0..100).for_each(|_| ran(&pace, LONG * 9 / 10));
        assert!(!pace.is_long());
        (0..100).for_each(|_| ran(&pace, LONG * 11 / 10));
        assert!(pace.is_long() && !pace.overruns());
        (0..100).for_each(|_| ran(&pace, Duration::from_nanos(100)));
        assert!(!pace.is_long(), "it has become short");
        ran(&pace, Duration::from_secs(1));
        assert!(!pace.is_long(), "once is never");
        (0..2).for_each(|_| ran(&pace, OVERRUN / 2));
        assert!(pace.is_long(), "from the second on it is no accident");
        assert!(!pace.overruns(), "nobody has had to take over but once");
        (0..16).for_each(|_| pace.ran(MethodTime { time: OVERRUN / 2, has_waited: true }));
        assert!(pace.overruns(), "others can run beside it");
    }

    #[test]
    fn time_in_which_its_thread_does_not_run_does_not_count() {
        let pace = MethodPace::default();
        ran(&pace, OVERRUN * 2);
        // More threads that compute than there are cores.
        let over = Arc::new(AtomicBool::new(false));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..2 * cores {
            let over = Arc::clone(&over);
            let computes = move || {
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            };
            rt::spawn("computes", computes).expect("a thread");
        }
        // Short runs, in which it loses its core for long.
        for _ in 0..3 {
            let (took, whole) = loop {
                let (before, started, timed) =
                    (rt::context_switches(), rt::now(), MethodTimer::begin(true));
                std::hint::spin_loop();
                let (took, whole) = (timed.end(LONG).time, rt::now() - started);
                let now = rt::context_switches();
                if now.lost > before.lost && now.waited == before.waited && whole > LONG * 20 {
                    break (took, whole);
                }
            };
            assert!(took < whole / 2, "{took:?} of {whole:?}");
        }
        over.store(true, Relaxed);
        for _ in 0..16 {
            let timed = pace.time();
            let until = rt::ran_for() + OVERRUN * 2;
            while rt::ran_for() < until {}
            pace.timed(timed);
        }
        assert!(
            pace.overruns() && pace.is_long(),
            "it runs for long, whether it loses its core or not"
        );
    }

    #[test]
    fn most_runs_are_not_timed() {
        let pace = MethodPace::default();
        let timed = (0..1600).filter(|_| pace.is_due()).count();
        assert_eq!(timed, 16 + 99);
    }

    #[test]
    fn a_run_is_known_while_it_lasts() {
        let pace = MethodPace::default();
        let one = pace.running();
        let two = pace.running();
        drop(one);
        assert!(!pace.is_free());
        drop(two);
        assert!(pace.is_free());
    }
}
