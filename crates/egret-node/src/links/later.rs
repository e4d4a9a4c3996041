//! Handlers that run later than they are due, on the thread that would run them.

use std::cell::RefCell;
use std::sync::Arc;

use super::behind::wakes;
use super::core::Core;

/// Runs `body`, which may poll links and what goes by them. Handlers that it would run by that run behind it, on
/// this thread: for who has taken something that they may want as well.
///
/// ```
/// assert_eq!(egret_node::am::handlers_later(|| 6 * 7), 42);
/// ```
pub fn handlers_later<R>(body: impl FnOnce() -> R) -> R {
    let is_inner = LATER.with_borrow_mut(|later| {
        let is_inner = later.is_some();
        later.get_or_insert_default();
        is_inner
    });
    // Made only by the outermost: its drop runs them.
    let behind = if is_inner { None } else { Some(Behind) };
    let done = body();
    drop(behind);
    done
}

/// Whether the handlers of these links run later.
#[inline]
pub(super) fn is_later(core: &Arc<Core>) -> bool {
    LATER.with_borrow_mut(|later| {
        let Some(later) = later else { return false };
        if !later.iter().any(|other| Arc::ptr_eq(other, core)) {
            later.push(Arc::clone(core));
        }
        true
    })
}

struct Behind;

impl Drop for Behind {
    fn drop(&mut self) {
        for core in LATER.take().unwrap_or_default() {
            if wakes() || std::thread::panicking() {
                core.leave_handlers();
            } else {
                core.flush();
            }
        }
    }
}

thread_local! {
    static LATER: RefCell<Option<Vec<Arc<Core>>>> = const { RefCell::new(None) };
}
