//! Numbers that repeat from a seed.

/// `SplitMix64` (Steele, Lea, Flood 2014): numbers that look random and repeat from a seed, for the simulator and
/// for tests. One word of state; any seed is good.
#[derive(Debug, Clone)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// The distance between two states.
    pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `end`, which is not zero.
    #[expect(clippy::cast_possible_truncation, reason = "the remainder fits")]
    pub const fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// The next byte.
    pub const fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

#[test]
fn numbers_are_the_same_for_ever() {
    let mut numbers = SplitMix64(1_234_567);
    assert_eq!(numbers.next(), 6_457_827_717_110_365_317);
    assert_eq!(numbers.next(), 3_203_168_211_198_807_973);
}
