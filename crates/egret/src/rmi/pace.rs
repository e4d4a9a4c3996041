//! How long a method takes, as far as that tells who is to run it.
//!
//! Methods that take little time run on the thread that receives their calls: to have another
//! thread do so takes more. One of which [several](EXILED) of the last 16 runs that were timed
//! took [long](LONG) runs on workers, where every run is timed: so it comes back when it has
//! become short. What a method waits for calls of its own does not count, nor
//! time in which its thread did not run because it lost its core to another.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use super::context::Timed;
use super::fault::{Fault, planted};

/// How long a method takes.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// A bit for each of the last 16 runs that were timed, set if it was long.
    history: AtomicU32,
    /// Runs on receiving threads so far.
    runs: AtomicU32,
    /// Those of them that have not ended.
    running: AtomicU32,
}

impl Pace {
    /// Whether a thread that receives is to run the next one itself.
    #[inline]
    pub(crate) fn is_short(&self) -> bool {
        let long = (self.history.load(Relaxed) & HISTORY).count_ones();
        long < EXILED || planted(Fault::NeverExiled)
    }

    /// Whether no receiving thread runs one. If one does, and a call is received all the same,
    /// another thread has taken over.
    #[inline]
    pub(crate) fn is_free(&self) -> bool {
        self.running.load(Relaxed) == 0
    }

    /// A receiving thread runs one, until this is dropped.
    #[inline]
    pub(crate) fn running(&self) -> Running<'_> {
        self.running.fetch_add(1, Relaxed);
        Running(self)
    }

    /// Whether the run that begins is to be timed: the first ones, and some of the others.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        let runs = self.runs.load(Relaxed);
        self.runs.store(runs.wrapping_add(1), Relaxed);
        runs < TIMED_FIRST || runs.is_multiple_of(TIMED_EVERY)
    }

    /// A run that is timed begins. From the second long one on it is asked whether the thread lost its
    /// core: to ask takes longer than most methods.
    pub(crate) fn time(&self) -> Timed {
        Timed::begin(self.history.load(Relaxed) & HISTORY != 0)
    }

    /// The run has ended. Time in which its thread did not run, because it lost its core, does not count.
    pub(crate) fn timed(&self, timed: Timed) {
        self.ran(timed.end(LONG));
    }

    /// A run has taken so long.
    fn ran(&self, took: Duration) {
        let history = self.history.load(Relaxed);
        self.history.store(history << 1 | u32::from(took > LONG), Relaxed);
    }
}

/// A receiving thread runs a call.
#[derive(Debug)]
pub(crate) struct Running<'a>(&'a Pace);

impl Drop for Running<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Relaxed);
    }
}

const HISTORY: u32 = 0xFFFF;
/// So many long runs send a method to the workers.
const EXILED: u32 = 3;
/// What takes longer is long: to have a worker woken takes about half as long.
const LONG: Duration = Duration::from_micros(10);
/// Runs that are timed at first; and of how many one is, then.
const TIMED_FIRST: u32 = 16;
const TIMED_EVERY: u32 = 16;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use egret_net::rt;

    use super::super::fault::caught;
    use super::*;

    #[test]
    fn a_method_that_takes_long_goes_to_the_workers_and_comes_back() {
        goes_and_comes_back();
        assert!(caught(Fault::NeverExiled, goes_and_comes_back));
    }

    fn goes_and_comes_back() {
        let pace = Pace::default();
        assert!(pace.is_short(), "nothing is known of it");
        (0..2).for_each(|_| pace.ran(LONG * 2));
        assert!(pace.is_short(), "its thread may have lost its core");
        (0..14).for_each(|_| pace.ran(LONG / 2));
        pace.ran(LONG * 2);
        assert!(pace.is_short(), "that was long ago");
        (0..2).for_each(|_| pace.ran(LONG * 2));
        assert!(!pace.is_short());
        (0..13).for_each(|_| pace.ran(LONG / 2));
        assert!(!pace.is_short());
        (0..3).for_each(|_| pace.ran(LONG / 2));
        assert!(pace.is_short(), "it has become short");
    }

    #[test]
    fn time_in_which_its_thread_does_not_run_does_not_count() {
        let pace = Pace::default();
        pace.ran(LONG * 2);
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
                let (before, started, timed) = (rt::switches(), rt::now(), Timed::begin(true));
                std::hint::spin_loop();
                let (took, whole) = (timed.end(LONG), rt::now() - started);
                let now = rt::switches();
                if now.lost > before.lost && now.waited == before.waited && whole > LONG * 20 {
                    break (took, whole);
                }
            };
            assert!(took < whole / 2, "{took:?} of {whole:?}");
        }
        over.store(true, Relaxed);
        for _ in 0..16 {
            let timed = pace.time();
            let until = rt::ran_for() + LONG * 2;
            while rt::ran_for() < until {}
            pace.timed(timed);
        }
        assert!(!pace.is_short(), "it runs for long, whether it loses its core or not");
    }

    #[test]
    fn most_runs_are_not_timed() {
        let pace = Pace::default();
        let timed = (0..1600).filter(|_| pace.is_due()).count();
        assert_eq!(timed, 16 + 99);
    }

    #[test]
    fn a_run_is_known_while_it_lasts() {
        let pace = Pace::default();
        let one = pace.running();
        let two = pace.running();
        drop(one);
        assert!(!pace.is_free());
        drop(two);
        assert!(pace.is_free());
    }
}
