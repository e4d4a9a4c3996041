//! How long to look before a sleep.
//!
//! A look that finds something saves a sleep, which is a hundred times as dear.
//! But looking again and again pays only while the peer runs, on another core;
//! giving way pays only if the peer is the next to run on this one. With more
//! processes than cores neither may be so: then it takes the time of the very
//! peer that is waited for. And giving way to a process that has much to do is to
//! stand still for milliseconds, for the system takes it for a waiver: a sleeper
//! that is woken comes first.
//!
//! What the last waits came to is the best hint of what the next will. It is one
//! for all threads of a nic, who may spoil it for each other.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Luck {
    /// How often in a row looking found nothing.
    in_vain: AtomicU32,
    /// Waits to come in which nobody gives way.
    hurried: AtomicU32,
}

impl Luck {
    /// How often to look before giving way.
    #[inline]
    pub(super) fn looks(&self) -> u32 {
        let in_vain = self.in_vain.load(Relaxed);
        let is_hopeless = in_vain >= IN_VAIN_MAX && !in_vain.is_multiple_of(TRY_EVERY);
        if is_hopeless { LOOKS_MIN } else { LOOKS }
    }

    /// Looking has found something.
    #[inline]
    pub(super) fn found(&self) {
        // Seldom written: it lies beside what other threads read.
        if self.in_vain.load(Relaxed) != 0 {
            self.in_vain.store(0, Relaxed);
        }
    }

    /// Looking has found nothing. How often to give way then.
    pub(super) fn missed(&self) -> u32 {
        self.in_vain.fetch_add(1, Relaxed);
        match self.hurried.load(Relaxed) {
            0 => YIELDS,
            hurried => {
                self.hurried.store(hurried - 1, Relaxed);
                0
            }
        }
    }

    /// Giving way once took so long. Whether that is too long to do it again.
    pub(super) fn gave_way(&self, took: Duration) -> bool {
        let is_slow = took >= SLOW;
        if is_slow {
            self.hurried.store(HURRIED, Relaxed);
        }
        is_slow
    }
}

/// Some round trips.
pub(super) const LOOKS: u32 = 128;
/// Less than a system call takes.
const LOOKS_MIN: u32 = 8;
const IN_VAIN_MAX: u32 = 2;
const TRY_EVERY: u32 = 16;
const YIELDS: u32 = 16;
/// A few times what a sleep and a wake-up take.
const SLOW: Duration = Duration::from_micros(50);
const HURRIED: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_is_cut_short_when_in_vain_and_tried_again() {
        let luck = Luck::default();
        for _ in 0..IN_VAIN_MAX {
            assert_eq!(luck.looks(), LOOKS);
            luck.missed();
        }
        let looks: Vec<u32> = (0..2 * TRY_EVERY)
            .map(|_| {
                luck.missed();
                luck.looks()
            })
            .collect();
        assert_eq!(looks.iter().filter(|looks| **looks == LOOKS).count(), 2);
        assert_eq!(luck.looks(), LOOKS_MIN);
        luck.found();
        assert_eq!(luck.looks(), LOOKS);
    }

    #[test]
    fn after_a_slow_one_nobody_gives_way_for_a_while() {
        let luck = Luck::default();
        assert!(!luck.gave_way(SLOW / 2));
        assert_eq!(luck.missed(), YIELDS);
        assert!(luck.gave_way(SLOW));
        for _ in 0..HURRIED {
            assert_eq!(luck.missed(), 0);
        }
        assert_eq!(luck.missed(), YIELDS);
    }
}
