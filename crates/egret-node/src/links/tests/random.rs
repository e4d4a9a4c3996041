//! What repeats from a seed.

/// Numbers that look random and repeat (splitmix64).
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.next() % below
    }

    pub(crate) fn index(&mut self, below: usize) -> usize {
        usize::try_from(self.below(below as u64)).unwrap()
    }

    pub(crate) fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Mostly small.
    pub(crate) fn size(&mut self, most: u64) -> usize {
        let most = match self.below(4) {
            0 => 16,
            1 => 300,
            _ => most,
        };
        usize::try_from(self.below(most + 1)).unwrap()
    }
}
