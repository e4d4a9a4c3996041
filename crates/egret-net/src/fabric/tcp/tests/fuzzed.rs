//! What the fuzzer calls, over inputs of which each run sees the same.

use crate::fabric::tcp::fuzzing::frames;
use crate::rt::{SplitMix64, trials};

#[test]
fn whatever_a_peer_writes_the_buffers_come_back() {
    for seed in 0..trials(1500) {
        let mut rng = SplitMix64(seed);
        let len = usize::from(rng.byte()) + usize::from(rng.byte());
        let input: Vec<u8> = (0..len).map(|_| rng.byte()).collect();
        assert!(std::panic::catch_unwind(|| frames(&input)).is_ok(), "seed {seed}");
    }
}
