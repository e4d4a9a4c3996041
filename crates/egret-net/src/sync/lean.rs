//! A lock that leans towards one thread.

use std::fmt;
use std::ops::{Deref, DerefMut};

use crate::atomics;

/// A mutual exclusion around `T` that leans towards the thread that takes it most:
/// that one takes it with plain stores. Another thread ends the favour by a system
/// call, and some turns in a row win it again; a lock that is really shared soon is an
/// ordinary one. A panic inside does not poison it.
///
/// The system call is `membarrier`. Where it is denied from the start the lock is an ordinary
/// one. A seccomp filter that is installed later must allow it: a process that is denied it
/// while a thread is favoured is aborted, with a message on stderr, for no other thread could
/// be let in safely.
///
/// ```
/// use egret_net::rt;
/// use egret_net::sync::Lean;
/// use std::sync::Arc;
///
/// let sum = Arc::new(Lean::new(0));
/// for number in 1..=100 {
///     *sum.lock() += number;
/// }
/// let shared = Arc::clone(&sum);
/// rt::spawn("another", move || *shared.lock() += 1)?.join().expect("it does not panic");
/// assert_eq!(*sum.lock(), 5051);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Lean<T>(atomics::Lean<T>);

/// The value of a [`Lean`] lock, which is held as long as this lives.
#[must_use = "the lock is free again when this is dropped"]
pub struct LeanGuard<'a, T>(atomics::LeanGuard<'a, T>);

impl<T> Lean<T> {
    /// A lock that is free.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(atomics::Lean::new(value))
    }

    /// Waits until the calling thread has the lock.
    ///
    /// # Panics
    ///
    /// If the calling thread has the lock already.
    #[inline]
    pub fn lock(&self) -> LeanGuard<'_, T> {
        LeanGuard(self.0.lock())
    }

    /// The lock, unless another thread, or this one, has it.
    #[inline]
    pub fn try_lock(&self) -> Option<LeanGuard<'_, T>> {
        self.0.try_lock().map(LeanGuard)
    }

    /// Runs `body` with the value, alone.
    #[inline]
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        self.0.with(body)
    }
}

impl<T> Deref for LeanGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for LeanGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Default> Default for Lean<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Lean<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for LeanGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
