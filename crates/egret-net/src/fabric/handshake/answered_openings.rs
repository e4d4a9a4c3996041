//! The openings that a nic has answered: each is worth one handshake.
//!
//! A caller makes new keys for each handshake, so no two openings are the same, and one that arrives again
//! was recorded by an attacker. Its sign is right; that it was answered before is known here, at the cost of
//! a lookup instead of a handshake.

use std::collections::BTreeSet;
use std::mem;
use std::sync::{Mutex, PoisonError};

use super::credentials::Sign;
use super::fault::{Fault, planted};

/// Which openings were answered lately: the last 4,096, and at most twice as many.
#[derive(Debug, Default)]
pub(super) struct AnsweredOpenings(Mutex<AnsweredSigns>);

#[derive(Debug, Default)]
struct AnsweredSigns {
    recent: BTreeSet<[u8; super::credentials::SIGN]>,
    before: BTreeSet<[u8; super::credentials::SIGN]>,
    /// Since the nic was opened.
    all: u64,
}

/// Signs that are kept together, and forgotten together.
const TOGETHER: usize = 4096;

impl AnsweredOpenings {
    /// Whether the opening with this sign was answered already.
    pub(super) fn has(&self, sign: &Sign) -> bool {
        let answered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = answered.recent.contains(&sign.0) || answered.before.contains(&sign.0);
        is_there && !planted(Fault::OpeningsForgotten)
    }

    /// Adds an opening that is being answered.
    pub(super) fn add(&self, sign: Sign) {
        let mut answered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answered.all += 1;
        if answered.recent.len() >= TOGETHER {
            answered.before = mem::take(&mut answered.recent);
        }
        answered.recent.insert(sign.0);
    }

    /// How many were answered: what each has cost is a handshake.
    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.0.lock().unwrap().all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(number: usize) -> Sign {
        let mut bytes = [0; super::super::credentials::SIGN];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Sign(bytes)
    }

    #[test]
    fn the_last_are_known_and_no_more_than_twice_as_many() {
        let openings = AnsweredOpenings::default();
        let kept = |to: usize| (0..to).filter(|number| openings.has(&sign(*number))).count();
        for number in 0..5 * TOGETHER {
            assert!(!openings.has(&sign(number)));
            openings.add(sign(number));
            assert!(openings.has(&sign(number)));
            if number % 1000 == 999 {
                let first = number + 1 - TOGETHER.min(number + 1);
                assert!((first..=number).all(|number| openings.has(&sign(number))));
                assert!(kept(number + 1) <= 2 * TOGETHER);
            }
        }
        assert_eq!(openings.count(), 5 * TOGETHER as u64);
    }
}
