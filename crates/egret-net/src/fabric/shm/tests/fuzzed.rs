//! What the fuzzers call, over inputs of which each run sees the same.

use crate::fabric::shm::fuzzing::{posted, records, rendezvous};
use crate::rt::{SplitMix64, trials};

/// Inputs that lead somewhere: an instruction each, with what it takes.
fn phrases(rng: &mut SplitMix64) -> Vec<u8> {
    let mut input = vec![rng.byte()];
    for _ in 0..1 + rng.below(40) {
        let op = rng.byte() % 16;
        input.push(op);
        let word = |rng: &mut SplitMix64, input: &mut Vec<u8>| {
            let small = [rng.byte() % 8, rng.byte() % 128, 128 + rng.byte() % 64, 255];
            let byte = small[rng.below(4)];
            input.push(byte);
            if byte == 255 {
                input.extend(rng.next().to_le_bytes());
            }
        };
        match op {
            0..=5 => {
                input.extend([rng.byte(), rng.byte(), rng.byte(), rng.byte()]);
                (0..6).for_each(|_| word(rng, &mut input));
            }
            7 => {
                input.extend([rng.byte() % 16, 0]);
                word(rng, &mut input);
            }
            8 | 9 => {
                input.push(rng.byte());
                word(rng, &mut input);
            }
            _ => input.push(rng.byte()),
        }
    }
    input
}

#[test]
fn whatever_a_peer_says_the_buffers_come_back() {
    for seed in 0..trials(1500) {
        let mut rng = SplitMix64(seed);
        let mut input = phrases(&mut rng);
        for _ in 0..rng.below(4) {
            let at = rng.below(input.len());
            input[at] = rng.byte();
        }
        let outcome = std::panic::catch_unwind(|| posted(&input));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

#[test]
fn whatever_a_peer_writes_into_its_ring_is_an_answer() {
    for seed in 0..trials(1500) {
        let mut rng = SplitMix64(seed);
        let input: Vec<u8> = (0..rng.below(400)).map(|_| rng.byte()).collect();
        let outcome = std::panic::catch_unwind(|| records(&input));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

#[test]
fn whatever_a_stranger_sends_is_read_or_refused() {
    const NEARLY: [&[u8]; 5] = [
        b"\x00\x02EGRT\x02\x01\x04\x00\x01\x04\x07\0\0\0\0\0\0\0grid\x02\0\0\0\x40\0\0\0\0\0\x02\0\0\0\0\0\x01\x02\x01h\x00",
        b"\x01\x02EGRT\x04\0\x00\x02\0\0\0\x40\0\0\0\0\0\x02\0\0\0\0\0\x01\x02\x00",
        b"\x01\x00EGRT\x04\x00\x03\x04\x09too short",
        b"\x02\x01\x01\x01\x07\0\0\0",
        b"\x02\x00\x03\x00\x04\x02\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0",
    ];
    for seed in 0..trials(20_000) {
        let mut rng = SplitMix64(seed);
        let mut input = NEARLY[rng.below(NEARLY.len())].to_vec();
        for _ in 0..rng.below(4) {
            let at = rng.below(input.len());
            input[at] = rng.byte();
        }
        input.truncate(1 + rng.below(2 * input.len()));
        let outcome = std::panic::catch_unwind(|| rendezvous(&input));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
