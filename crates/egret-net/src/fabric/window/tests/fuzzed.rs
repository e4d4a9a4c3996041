//! What the fuzzer calls, over inputs of which each run sees the same.

use super::super::fuzzing::ends;
use crate::fabric::common::fuzzed::Still;
use crate::rt::Runtime;

#[test]
fn whatever_a_peer_says_the_buffers_come_back() {
    let random = Still::default();
    for seed in 0..3000 {
        let len = usize::try_from(random.random() % 400).unwrap();
        // Instructions are among the small ones.
        let most = [8, 32, 256][seed % 3];
        let input: Vec<u8> =
            (0..len).map(|_| u8::try_from(random.random() % most).unwrap()).collect();
        assert!(std::panic::catch_unwind(|| ends(&input)).is_ok(), "seed {seed}: {input:?}");
    }
}
