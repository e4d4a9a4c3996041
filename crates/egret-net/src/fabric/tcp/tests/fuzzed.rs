//! What the fuzzer calls, over inputs of which each run sees the same.

use crate::fabric::tcp::fuzzing::frames;

/// A few numbers from one (`SplitMix64`).
struct Rng(u64);

impl Rng {
    fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 56).to_le_bytes()[0]
    }
}

#[test]
fn whatever_a_peer_writes_the_buffers_come_back() {
    for seed in 0..1500 {
        let mut rng = Rng(seed);
        let len = usize::from(rng.byte()) + usize::from(rng.byte());
        let input: Vec<u8> = (0..len).map(|_| rng.byte()).collect();
        assert!(std::panic::catch_unwind(|| frames(&input)).is_ok(), "seed {seed}");
    }
}
