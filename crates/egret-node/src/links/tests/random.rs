//! What repeats from a seed.

use egret_net::rt::SplitMix64;

/// Numbers that repeat from a seed, and choices made of them.
#[derive(Debug, Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        let mut numbers = SplitMix64(self.0);
        let next = numbers.next();
        self.0 = numbers.0;
        next
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
