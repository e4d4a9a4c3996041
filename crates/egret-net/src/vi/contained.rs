//! Code of the program that a fabric, or the thread that drives it, runs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of the program whose panic must not reach the caller: `None` if it panicked. The
/// panic hook has reported it by then.
pub fn contained<R>(body: impl FnOnce() -> R) -> Option<R> {
    caught(body).ok()
}

/// The same, with what it panicked with, as far as that is a text.
///
/// # Errors
///
/// If it panicked.
#[inline]
pub fn caught<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(message)
}

#[cold]
fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("(no message)").to_owned();
    // What was thrown is the program's too, and so is its drop. What that throws is leaked.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    text
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
        let said = |body: fn() -> u32| caught(body).unwrap_err();
        assert_eq!(said(|| panic!("of the program")), "of the program");
        assert_eq!(said(|| panic!("of {}", "it")), "of it");
        assert_eq!(said(|| std::panic::panic_any(Bomb)), "(no message)");
    }
}
