//! How deep nested values may go: measured on the stack itself.

use egret_net::rt;

use crate::fault::{Fault, planted};

/// The stack that nested values may take at most, by default. They take no more
/// than half of what is left of the thread's stack, either.
pub const STACK_BYTES: usize = 1 << 20;

/// An address that the stack must not grow below while a value is written or read.
///
/// The first level sets it. Nothing is counted, so nothing is to be put back when a
/// level is left, and frames cost what they cost in this build.
pub(crate) struct Floor {
    address: usize,
    /// What the user lets nested values take.
    given: Option<usize>,
}

impl Floor {
    pub(crate) const fn new() -> Self {
        Self { address: UNSET, given: None }
    }

    /// One that is at most `bytes` below the first level.
    pub(crate) const fn below(bytes: usize) -> Self {
        Self { address: UNSET, given: Some(bytes) }
    }

    /// Whether it is below `here`, so that there is room for another level.
    #[inline(always)]
    pub(crate) fn is_below(&mut self, here: usize) -> bool {
        here >= self.address || self.is_set_below(here) || planted(Fault::Bottomless)
    }

    #[cold]
    #[inline(never)]
    fn is_set_below(&mut self, here: usize) -> bool {
        if self.address != UNSET {
            return false;
        }
        let room = room(rt::stack_below(here), self.given);
        self.address = here.saturating_sub(room);
        true
    }

    /// The next level is a first one.
    #[inline(always)]
    pub(crate) const fn forget(&mut self) {
        self.address = UNSET;
    }
}

/// How much of the stack nested values may take where so much is `left` of it.
///
/// Half of what is left stays free, up to 1 MiB: for the frames of one more level, whatever
/// their size, for what reading calls there, and for dropping the value, which takes less than
/// reading it did.
fn room(left: Option<usize>, given: Option<usize>) -> usize {
    match (left, given) {
        (Some(left), given) => given.unwrap_or(STACK_BYTES).min(left - (left / 2).min(FREE_BYTES)),
        (None, Some(given)) => given,
        (None, None) => UNKNOWN_BYTES,
    }
}

const UNSET: usize = usize::MAX;

/// The stack that stays free below nested values, at most.
const FREE_BYTES: usize = 1 << 20;

/// The stack that nested values may take where it is unknown how much there is, as in a coroutine:
/// few have less than 32 KiB.
const UNKNOWN_BYTES: usize = 16 << 10;

/// Where the stack is.
#[inline(always)]
pub(crate) fn here() -> usize {
    let mark = 0_u8;
    std::ptr::from_ref(&mark).addr()
}

/// Where the stack is, asked from a frame of its own: a function that looks at its
/// own frame cannot leave it before its last call.
#[inline(never)]
pub(crate) fn called() -> usize {
    here()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_left_stays_free_up_to_a_mebibyte() {
        for (left, given, expected) in [
            (64 << 10, None, 32 << 10),
            (1 << 20, None, 512 << 10),
            (8 << 20, None, 1 << 20),
            (64 << 10, Some(16 << 10), 16 << 10),
            (64 << 10, Some(1 << 30), 32 << 10),
            (8 << 20, Some(6 << 20), 6 << 20),
            (8 << 20, Some(8 << 20), 7 << 20),
            (0, None, 0),
        ] {
            assert_eq!(room(Some(left), given), expected, "{given:?} of {left}");
        }
    }

    #[test]
    fn where_nobody_knows_the_stack_little_is_taken() {
        let elsewhere = vec![0_u8; 1 << 16];
        let here = std::ptr::from_ref(&elsewhere[1 << 15]).addr();
        for (mut floor, room) in [(Floor::new(), UNKNOWN_BYTES), (Floor::below(100), 100)] {
            assert!(floor.is_below(here), "the first level");
            assert!(floor.is_below(here - room) && !floor.is_below(here - room - 1));
        }
    }
}
