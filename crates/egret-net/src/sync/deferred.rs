//! Work that a thread defers until it has released a lock.
//!
//! Under the lock of a layer above a nic, such as links, no code of a program runs: a waker belongs to
//! the program's executor, and a [reclaim callback](crate::buf::Typed::share_with) to the program.
//! Either may use what the lock guards. A thread marks such a lock by [`enter`] and [`leave`]; code of
//! the program that it meets meanwhile is [deferred](defer), and after `leave` the thread
//! [takes](take) the deferred work and runs it without the lock.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::task::Waker;

/// Work that a thread has deferred.
pub enum DeferredWork {
    /// A waker, and the function to call with it.
    Waker(Waker, fn(Waker)),
    /// Code of the program.
    Closure(Box<dyn FnOnce() + Send>),
}

impl DeferredWork {
    /// Runs the work.
    pub fn run(self) {
        match self {
            Self::Waker(waker, then) => then(waker),
            Self::Closure(does) => does(),
        }
    }
}

impl fmt::Debug for DeferredWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waker(..) => "Waker",
            Self::Closure(_) => "Closure",
        })
    }
}

/// Marks that the thread has a lock from now on. Returns whether it had none before: only then it calls
/// [`leave`] after it has released the lock.
#[inline]
#[must_use]
pub fn enter() -> bool {
    let is_first = HELD.get() == LockMark::No;
    if is_first {
        HELD.set(LockMark::None);
    }
    is_first
}

/// Marks that the thread has no lock any more. Returns whether work was deferred meanwhile, which the
/// thread is to [take](take).
#[inline]
#[must_use]
pub fn leave() -> bool {
    HELD.replace(LockMark::No) == LockMark::Some
}

/// The deferred work of the thread. The vector is to be [recycled](recycle).
#[must_use]
pub fn take() -> Vec<DeferredWork> {
    DEFERRED.try_with(RefCell::take).unwrap_or_default()
}

/// Returns a vector from [`take`], to be used again.
pub fn recycle(mut done: Vec<DeferredWork>) {
    done.clear();
    drop(DEFERRED.try_with(|left| left.replace(done)));
}

/// Defers work until the thread has released its lock.
///
/// # Errors
///
/// Returns the work if the thread has no such lock: then it can run at once.
#[cold]
pub fn defer(what: DeferredWork) -> Result<(), DeferredWork> {
    if HELD.get() == LockMark::No {
        return Err(what);
    }
    let mut what = Some(what);
    // A thread that ends has no list any more.
    let _ = DEFERRED.try_with(|left| {
        left.borrow_mut().extend(what.take());
        HELD.set(LockMark::Some);
    });
    what.map_or(Ok(()), Err)
}

/// Runs `does` now, or after the thread has released its lock.
pub(crate) fn run(does: impl FnOnce() + Send + 'static) {
    if HELD.get() == LockMark::No {
        return does();
    }
    if let Err(does) = defer(DeferredWork::Closure(Box::new(does))) {
        does.run();
    }
}

/// Whether a thread has a lock, and deferred work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LockMark {
    No,
    None,
    Some,
}

thread_local! {
    static HELD: Cell<LockMark> = const { Cell::new(LockMark::No) };
    static DEFERRED: RefCell<Vec<DeferredWork>> = const { RefCell::new(Vec::new()) };
}
