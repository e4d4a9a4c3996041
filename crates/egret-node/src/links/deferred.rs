//! Handlers that run after a piece of code of the same thread, instead of inside it.

use std::cell::RefCell;
use std::sync::Arc;

use super::core::LinksCore;
use crate::in_handler::in_handler;
use crate::wakers::wakes;

/// Runs `body`, which may poll links. Handlers that would run inside `body` run after it, on this thread:
/// for code that holds a lock which handlers may take too. In a handler they are left to the driver.
///
/// ```
/// assert_eq!(egret_node::am::handlers_later(|| 6 * 7), 42);
/// ```
#[doc(hidden)]
pub fn handlers_later<R>(body: impl FnOnce() -> R) -> R {
    // A thread that ends has none any more: handlers run where they are due then.
    let is_inner = with(|later| {
        let is_inner = later.is_some();
        later.get_or_insert_default();
        is_inner
    });
    let is_inner = is_inner.unwrap_or(true);
    // Made only by the outermost: its drop runs them.
    let behind = if is_inner { None } else { Some(RunDeferred) };
    let done = body();
    drop(behind);
    done
}

/// Whether the handlers of these links run later.
#[inline]
pub(super) fn is_later(core: &Arc<LinksCore>) -> bool {
    let is_later = with(|later| {
        let Some(later) = later else { return false };
        if !later.iter().any(|other| Arc::ptr_eq(other, core)) {
            later.push(Arc::clone(core));
        }
        true
    });
    is_later.unwrap_or(false)
}

fn with<R>(body: impl FnOnce(&mut Option<Vec<Arc<LinksCore>>>) -> R) -> Option<R> {
    LATER.try_with(|later| body(&mut later.borrow_mut())).ok()
}

struct RunDeferred;

impl Drop for RunDeferred {
    fn drop(&mut self) {
        for core in with(Option::take).flatten().unwrap_or_default() {
            // A handler inside of a handler could be the first of many.
            if wakes() || in_handler() || std::thread::panicking() {
                core.leave_handlers();
            } else {
                core.flush();
            }
        }
    }
}

thread_local! {
    static LATER: RefCell<Option<Vec<Arc<LinksCore>>>> = const { RefCell::new(None) };
}
