//! The seeded source of everything random in a simulated world.

/// `SplitMix64` (Steele, Lea, Flood 2014): one word of state, any seed is good.
#[derive(Debug, Clone)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
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
        #[expect(clippy::cast_possible_truncation, reason = "the remainder fits")]
        let below = (self.next() % if end == 0 { 1 } else { end as u64 }) as usize;
        below
    }
}
