//! How deep nested values may go: measured on the stack itself.

use crate::fault::{Fault, planted};

/// The stack that nested values may take. A thread has 2 MiB, if nobody said
/// otherwise.
pub const STACK_BYTES: usize = 1 << 20;

/// An address that the stack must not grow below while a value is written or read.
///
/// The first level sets it. Nothing is counted, so nothing is to be put back when a
/// level is left, and frames cost what they cost in this build.
pub(crate) struct Floor {
    address: usize,
    bytes: usize,
}

impl Floor {
    pub(crate) const fn new() -> Self {
        Self::below(STACK_BYTES)
    }

    /// One that is `bytes` below the first level.
    pub(crate) const fn below(bytes: usize) -> Self {
        Self { address: UNSET, bytes }
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
        self.address = here.saturating_sub(self.bytes);
        true
    }

    /// The next level is a first one.
    #[inline(always)]
    pub(crate) const fn forget(&mut self) {
        self.address = UNSET;
    }
}

const UNSET: usize = usize::MAX;

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
