//! The machine's monotonic clock, read from the processor's counter between two questions to the
//! kernel.
//!
//! A question to the kernel's clock takes 25 to 35 ns, as long as sending a short message, and a
//! thread that serves asks after every handler. So a thread remembers what clock and counter said
//! when it asked last, and how fast the clock went by the counter since the time before; until
//! [`TICKS_MAX`] ticks later the counter alone says how much time has passed, in 8 to 10 ns. The
//! clock never goes back on one thread. Two threads disagree by what the rate is wrong for half a
//! millisecond: tens of nanoseconds, and 1 µs if the worst comes together.
//!
//! The counter is used where the kernel keeps its own time by it: then the kernel has found it even
//! and the same on all processors, and watches it. Elsewhere every question goes to the kernel.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::Instant;

/// What a thread knows of the clock.
struct ThreadClock {
    /// Whether the kernel was asked.
    is_read: Cell<bool>,
    /// The counter and the clock when it was asked last.
    ticks: Cell<u64>,
    nanos: Cell<u64>,
    /// Nanoseconds for each tick, times 2³².
    rate: Cell<u64>,
    /// For how many ticks that is good; none at first, and where there is no counter.
    good_for: Cell<u64>,
    /// The last answer.
    last: Cell<u64>,
}

thread_local! {
    static CLOCK: ThreadClock = const {
        ThreadClock {
            is_read: Cell::new(false),
            ticks: Cell::new(0),
            nanos: Cell::new(0),
            rate: Cell::new(0),
            good_for: Cell::new(0),
            last: Cell::new(0),
        }
    };
}

/// The machine's monotonic clock, counted from the first time it was asked.
#[inline]
pub(super) fn monotonic() -> Instant {
    CLOCK.with(|clock| {
        let passed = counter().wrapping_sub(clock.ticks.get());
        if passed >= clock.good_for.get() {
            return clock.ask();
        }
        clock.tell(clock.nanos.get() + ((passed * clock.rate.get()) >> 32))
    })
}

/// The moment that [`monotonic`] answered on the calling thread last; the start of the process if it
/// never did.
#[inline]
pub(super) fn last() -> Instant {
    CLOCK.with(|clock| Instant::from_nanos(clock.last.get()))
}

impl ThreadClock {
    /// Asks the kernel, and remembers what the counter said meanwhile.
    #[cold]
    fn ask(&self) -> Instant {
        if !has_counter() {
            return self.tell(of_kernel());
        }
        let before = counter();
        let nanos = of_kernel();
        let took = counter().wrapping_sub(before);
        let ticks = before.wrapping_add(took / 2);
        let passed = ticks.wrapping_sub(self.ticks.get());
        self.good_for.set(0);
        if took > TOOK_MAX {
            // The thread was interrupted in between, and asks again.
            return self.tell(nanos);
        }
        let is_first = !self.is_read.replace(true);
        if is_first || passed > TICKS_APART {
            // The next question knows more.
            self.ticks.set(ticks);
            self.nanos.set(nanos);
        } else if passed >= TICKS_MIN {
            let since = nanos.saturating_sub(self.nanos.get());
            if let Some(rate) = rate(&RATE, passed, since) {
                self.rate.set(rate);
                self.good_for.set(TICKS_MAX);
            }
            self.ticks.set(ticks);
            self.nanos.set(nanos);
        }
        self.tell(nanos)
    }

    /// A moment, not before the one that was answered last.
    #[inline]
    fn tell(&self, nanos: u64) -> Instant {
        let nanos = nanos.max(self.last.get());
        self.last.set(nanos);
        Instant::from_nanos(nanos)
    }
}

/// Nanoseconds for each tick, times 2³², if that is what others of the process have `found`, or the
/// first of them: the counter goes as fast as ever, unless something happened to it.
fn rate(found: &AtomicU64, ticks: u64, nanos: u64) -> Option<u64> {
    let rate = u64::try_from((u128::from(nanos) << 32) / u128::from(ticks).max(1)).ok()?;
    let rate = Some(rate).filter(|rate| (RATE_MIN..=RATE_MAX).contains(rate))?;
    let first = found.compare_exchange(0, rate, Relaxed, Relaxed).err().unwrap_or(rate);
    (rate.abs_diff(first) <= first / 100).then_some(rate)
}

/// What threads of the process have found the rate to be.
static RATE: AtomicU64 = AtomicU64::new(0);

/// The kernel's clock, in nanoseconds since the first question of the process.
fn of_kernel() -> u64 {
    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    let present = std::time::Instant::now();
    let since = present.saturating_duration_since(*ORIGIN.get_or_init(|| present));
    u64::try_from(since.as_nanos()).expect("an uptime within 584 years")
}

/// Whether the kernel keeps its time by the processor's counter.
fn has_counter() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    let says = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    *HAS.get_or_init(|| {
        cfg!(all(target_arch = "x86_64", not(miri)))
            && std::fs::read(says).is_ok_and(|source| source.trim_ascii() == b"tsc")
    })
}

/// The processor's counter.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn counter() -> u64 {
    // SAFETY: every processor of this architecture has the instruction, which touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// There is none that is used.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
fn counter() -> u64 {
    0
}

/// Ticks before the kernel is asked again: a third to a half of a millisecond.
const TICKS_MAX: u64 = 1 << 20;
/// Ticks between two questions that give a rate: fewer give a wrong one, and of more the machine may
/// have slept some.
const TICKS_MIN: u64 = 1 << 19;
const TICKS_APART: u64 = 1 << 32;
/// Ticks that a question takes at most, unless its thread was interrupted.
const TOOK_MAX: u64 = 512;
/// Rates of counters of 16 GHz and of 0.5 GHz.
const RATE_MIN: u64 = 1 << 28;
const RATE_MAX: u64 = 1 << 33;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt;

    #[test]
    fn a_rate_is_that_of_the_process() {
        let found = AtomicU64::new(0);
        let rate = |ticks, nanos| rate(&found, ticks, nanos);
        assert_eq!(rate(1 << 20, 1 << 30), None, "the counter stood still");
        assert_eq!(rate(u64::MAX, 0), None, "the counter went back");
        assert_eq!(rate(1 << 20, 1 << 19), Some(1 << 31), "2 GHz, which is the first");
        assert!(rate(1 << 20, (1 << 19) + (1 << 12)).is_some(), "nearly the same");
        assert_eq!(rate(1 << 20, 1 << 18), None, "the counter went faster");
    }

    /// Each thread begins anew, and none is far from the kernel's clock.
    #[test]
    fn threads_that_are_new_have_the_right_time() {
        for _ in 0..20 {
            let thread = rt::spawn("new", || {
                for _ in 0..2_000 {
                    let (least, now, most) = (of_kernel(), monotonic(), of_kernel());
                    assert!(now.as_nanos() + SLACK >= least && now.as_nanos() <= most + SLACK);
                }
            });
            thread.unwrap().join().unwrap();
        }
    }

    #[test]
    fn the_clock_goes_with_the_kernels_and_never_back() {
        let (mut before, mut by_counter) = (monotonic(), 0);
        let end = of_kernel() + 20_000_000;
        while of_kernel() < end {
            let (least, now, most) = (of_kernel(), monotonic(), of_kernel());
            assert!(now >= before);
            // What an interrupted thread sees is between the two, or nearly so.
            assert!(now.as_nanos() + SLACK >= least, "{now:?} is before {least} ns");
            assert!(now.as_nanos() <= most + SLACK, "{now:?} is behind {most} ns");
            before = now;
            by_counter += u32::from(CLOCK.with(|clock| clock.good_for.get() > 0));
        }
        assert!(by_counter == 0 || has_counter());
    }

    /// A hundredth of 2²⁰ ticks of 1 GHz, in nanoseconds.
    const SLACK: u64 = 10_000;
}
