//! The class of a type, remembered.

use std::any::TypeId;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use super::class::GraphClasses;

/// The number that a type has in the graphs of the first type of root that it was met in, which
/// is mostly the only one.
///
/// An access that believes it has the address of the arena while the reference is still being
/// loaded; whether it was right is a branch that is foretold. It is written once, and what is
/// wrong about it costs time and nothing else.
#[doc(hidden)]
#[derive(Debug)]
pub struct ClassHint {
    class: AtomicU8,
    /// Of graphs whose root has the type that asked first.
    classes: OnceLock<(TypeId, &'static GraphClasses)>,
}

impl ClassHint {
    /// One that knows nothing.
    #[doc(hidden)]
    #[must_use]
    pub const fn new() -> Self {
        Self { class: AtomicU8::new(NONE), classes: OnceLock::new() }
    }

    /// Remembers a class, if it remembers none.
    pub(super) fn learn(&self, class: usize) {
        let class = u8::try_from(class).unwrap_or(NONE);
        let _ = self.class.compare_exchange(NONE, class, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// What it remembers.
    #[inline]
    pub(super) fn class(&self) -> u8 {
        self.class.load(Ordering::Relaxed)
    }

    /// The classes of graphs with a root of the type `id`, if they are remembered, or else what
    /// `walk` says.
    #[inline]
    pub(super) fn classes(
        &self,
        id: TypeId,
        walk: impl FnOnce() -> &'static GraphClasses,
    ) -> &'static GraphClasses {
        match self.classes.get() {
            Some((root, classes)) if *root == id => classes,
            _ => {
                let classes = walk();
                let _ = self.classes.set((id, classes));
                classes
            }
        }
    }
}

const NONE: u8 = u8::MAX;
