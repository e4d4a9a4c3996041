//! A clock cheap enough to time a few hundred nanoseconds.

use std::sync::OnceLock;

use egret::rt;

/// Started, and later read.
///
/// On x86-64 it reads the processor's time-stamp counter, at half the price of
/// the operating system's clock, which is a tenth of a round trip through
/// shared memory. Elsewhere it is the machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    ticks: u64,
}

impl Stopwatch {
    /// Starts now. The first one of the process takes a few milliseconds to
    /// find out how long a tick is.
    #[inline]
    #[must_use]
    pub fn start() -> Self {
        nanos_per_tick();
        Self { ticks: ticks() }
    }

    /// Nanoseconds since the start.
    #[inline]
    #[must_use]
    pub fn nanos(self) -> f64 {
        // Or the counter is read before the load that a round trip ends with, and the time is
        // a third too short. At the start no fence is needed: there early means longer.
        fence();
        let ticks = ticks().saturating_sub(self.ticks);
        ticks as f64 * nanos_per_tick()
    }
}

#[inline]
fn nanos_per_tick() -> f64 {
    static NANOS: OnceLock<f64> = OnceLock::new();
    *NANOS.get_or_init(calibrate)
}

fn calibrate() -> f64 {
    let (start, first) = (rt::machine_now(), ticks());
    while (rt::machine_now() - start).as_micros() < CALIBRATION_US {}
    let (end, last) = (rt::machine_now(), ticks());
    (end - start).as_nanos() as f64 / last.saturating_sub(first) as f64
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the counter, and reading it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Lets nothing after it begin before the loads ahead of it are done.
#[cfg(target_arch = "x86_64")]
#[inline]
fn fence() {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
    unsafe { core::arch::x86_64::_mm_lfence() };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    rt::machine_now().as_nanos()
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn fence() {}

const CALIBRATION_US: u128 = 5_000;
