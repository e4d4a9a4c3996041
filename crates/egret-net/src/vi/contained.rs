//! Code of the program that a fabric, or whoever drives one, runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the program whose panic must not reach the caller: `None` if it panicked. The
/// panic hook has reported it by then.
pub fn contained<R>(body: impl FnOnce() -> R) -> Option<R> {
    let panic = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => return Some(result),
        Err(panic) => panic,
    };
    // What was thrown is the program's too, and so is its drop. What that throws is leaked.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any(Self);
        }
    }

    #[test]
    fn a_panic_ends_here_whatever_was_thrown() {
        assert_eq!(contained(|| 7), Some(7));
        assert_eq!(contained(|| -> u32 { panic!("of the program") }), None);
        assert_eq!(contained(|| -> u32 { std::panic::panic_any(Bomb) }), None);
    }
}
