//! What the fuzzers call, over inputs of which each run sees the same.

use super::{callee, caller, said_by_caller};
use crate::fabric::handshake::fault::{Fault, caught};
use crate::fabric::handshake::fuzzing::{Case, meddler, stranger};
use crate::rt::{SplitMix64, trials};

#[test]
fn whatever_a_stranger_says_is_read_or_refused() {
    let mut caller = caller("");
    let opening = said_by_caller(&mut caller);
    let mut callee = callee("");
    callee.feed(&opening).unwrap();
    let nearly =
        [opening, callee.outgoing().to_vec(), b"EGRT\x02\x01\x05\0\x04\0\x01\0\x05".to_vec()];
    for seed in 0..trials(20_000) {
        let mut rng = SplitMix64(seed);
        let mut input = vec![rng.byte(), rng.byte()];
        for _ in 0..=rng.below(3) {
            input.extend(&nearly[rng.below(nearly.len())]);
        }
        for _ in 0..rng.below(4) {
            let at = rng.below(input.len());
            input[at] = rng.byte();
        }
        input.truncate(1 + rng.below(2 * input.len()));
        assert!(std::panic::catch_unwind(|| stranger(&input)).is_ok(), "seed {seed}");
    }
}

#[test]
fn whatever_a_meddler_changes_is_not_believed() {
    for seed in 0..trials(4_000) {
        let mut rng = SplitMix64(seed);
        let case = Case::read(rng.byte());
        let input: Vec<u8> = (0..4 * rng.below(4)).map(|_| rng.byte()).collect();
        assert!(std::panic::catch_unwind(|| meddler(case, &input)).is_ok(), "seed {seed}");
    }
}

/// Two whom nobody is between, in every case.
fn all_cases() {
    (0..64).for_each(|bits| meddler(Case::read(bits), &[]));
}

#[test]
fn a_meddler_sees_what_both_ends_agree_on() {
    all_cases();
    for fault in [Fault::DowngradeAllowed, Fault::DirectionsAlike, Fault::GuessesAllowed] {
        assert!(caught(fault, all_cases), "{fault:?} was not found");
    }
}
