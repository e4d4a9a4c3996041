//! What holds whatever the network does, and that the checks for it can fail.

mod acceptor;
mod conformance;
mod ends;
mod group;
mod hostile;
mod joined;
mod lanes;
mod multicast;
mod nics;
mod over;
mod planted;
mod pulse;
mod recv;
mod relay;
mod sealed;
mod send;
mod stage;
mod wire;

/// A seeded source of random numbers (`SplitMix64`).
#[derive(Debug)]
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not zero.
    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    /// Once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
