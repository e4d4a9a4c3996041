//! Panics of what is the program's: methods, and what they leave behind.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `body`. If it panics, what it panicked with, as far as that is a text.
///
/// The payload of a panic is the program's, too, and dropping it may panic again: that ends
/// here as well.
#[inline]
pub(crate) fn caught<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        let text = message(&*payload).to_owned();
        dispose(payload);
        text
    })
}

#[cold]
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("(no message)")
}

#[cold]
fn dispose(mut payload: Box<dyn Any + Send>) {
    for _ in 0..DROPS_MAX {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    // Whoever goes on like this would do so for ever: its memory is lost instead of a thread.
    std::mem::forget(payload);
}

/// Payloads that are dropped one after the other.
const DROPS_MAX: usize = 16;
