//! The class of a type, remembered.

use std::sync::atomic::{AtomicU8, Ordering};

/// The number that a type has in the graphs of the first type of root that it was met in, which
/// is mostly the only one.
///
/// An access that believes it has the address of the arena while the reference is still being
/// loaded; whether it was right is a branch that is foretold. It is written once, and what is
/// wrong about it costs time and nothing else.
#[derive(Debug)]
pub struct Hint(AtomicU8);

impl Hint {
    /// One that knows nothing.
    #[doc(hidden)]
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU8::new(NONE))
    }

    /// Remembers a class, if it remembers none.
    pub(super) fn learn(&self, class: usize) {
        let class = u8::try_from(class).unwrap_or(NONE);
        let _ = self.0.compare_exchange(NONE, class, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// What it remembers.
    #[inline]
    pub(super) fn class(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }
}

const NONE: u8 = u8::MAX;
