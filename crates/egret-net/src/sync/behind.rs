//! What a thread leaves to do until it has given up a lock.
//!
//! Under the lock of what stands on a nic, as links do, no code of a program runs: a waker is its
//! executor's, and what [reclaims](crate::buf::Typed::share_with) a buffer is the program's. Either may
//! use what the lock guards. Who has such a lock says so by [`begin`] and [`end`], whoever comes upon
//! such code meanwhile [leaves](leave) it, and `end` gives what was left to who had the lock, to be run
//! without it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::task::Waker;

/// Something that a thread has left to do.
pub enum Left {
    /// A waker, and what is to be done with it.
    Waker(Waker, fn(Waker)),
    /// Code of the program.
    Does(Box<dyn FnOnce() + Send>),
}

impl Left {
    /// Does it.
    pub fn run(self) {
        match self {
            Self::Waker(waker, then) => then(waker),
            Self::Does(does) => does(),
        }
    }
}

impl fmt::Debug for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waker(..) => "Waker",
            Self::Does(_) => "Does",
        })
    }
}

/// The thread has a lock from now on. Whether it had none before: then it calls [`end`] when it has
/// given the lock up, and else it does not.
#[inline]
#[must_use]
pub fn begin() -> bool {
    let is_first = HELD.get() == Held::No;
    if is_first {
        HELD.set(Held::None);
    }
    is_first
}

/// The thread has no lock any more. Whether it has [left](take) something to do meanwhile.
#[inline]
#[must_use]
pub fn end() -> bool {
    HELD.replace(Held::No) == Held::Some
}

/// What the thread has left to do. The memory is to be given [back](give_back).
#[must_use]
pub fn take() -> Vec<Left> {
    LEFT.try_with(RefCell::take).unwrap_or_default()
}

/// Memory that [`take`] has given, to be used again.
pub fn give_back(mut done: Vec<Left>) {
    done.clear();
    drop(LEFT.try_with(|left| left.replace(done)));
}

/// Leaves something to do until the thread has given its lock up.
///
/// # Errors
///
/// The same, if it has none: then it can be done at once.
#[cold]
pub fn leave(what: Left) -> Result<(), Left> {
    if HELD.get() == Held::No {
        return Err(what);
    }
    let mut what = Some(what);
    // A thread that ends has no such place any more.
    let _ = LEFT.try_with(|left| {
        left.borrow_mut().extend(what.take());
        HELD.set(Held::Some);
    });
    what.map_or(Ok(()), Err)
}

/// Does something now, or when the thread has given its lock up.
pub(crate) fn run_behind(does: impl FnOnce() + Send + 'static) {
    if HELD.get() == Held::No {
        return does();
    }
    if let Err(does) = leave(Left::Does(Box::new(does))) {
        does.run();
    }
}

/// Whether a thread has a lock, and something left to do behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    No,
    None,
    Some,
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held::No) };
    static LEFT: RefCell<Vec<Left>> = const { RefCell::new(Vec::new()) };
}
