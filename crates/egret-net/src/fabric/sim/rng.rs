//! The seeded source of everything random in a simulated world.

use crate::rt::SplitMix64;

/// The numbers of a world, and the decisions made of them.
#[derive(Debug, Clone)]
pub(super) struct Rng(SplitMix64);

impl Rng {
    pub(super) const fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// Between 0 and 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are all that fit")]
    pub(super) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Asks no randomness for what never happens, so that a rule added for one
    /// link leaves the others' fortunes alone.
    pub(super) fn chance(&mut self, chance: f64) -> bool {
        chance > 0.0 && self.fraction() < chance
    }

    /// Below `end`, or 0.
    pub(super) const fn below(&mut self, end: usize) -> usize {
        self.0.below(if end == 0 { 1 } else { end })
    }
}
