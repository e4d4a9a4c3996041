//! Numbers that look random and repeat.

use egret_net::rt::SplitMix64;

#[derive(Debug)]
pub(crate) struct Rng(SplitMix64);

impl Rng {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SplitMix64(seed))
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0.next()
    }

    /// From 1 to `most`.
    pub(crate) const fn up_to(&mut self, most: u64) -> u64 {
        1 + self.next() % most
    }
}
