//! A lock that a panic does not close.

use std::sync::{MutexGuard, PoisonError, TryLockError};

/// A lock that opens again after a thread has panicked with it. What is inside must be whole
/// whenever something runs under it that may panic.
///
/// ```
/// use egret_net::sync::Mutex;
///
/// let mut count = Mutex::new(1);
/// let panicked = std::panic::catch_unwind(|| {
///     *count.lock() += 1;
///     let _count = count.lock();
///     assert!(count.try_lock().is_none());
///     panic!("with the lock");
/// });
/// assert!(panicked.is_err());
/// assert_eq!(*count.lock(), 2);
/// assert_eq!(count.try_lock().as_deref(), Some(&2));
/// assert_eq!(*count.get_mut(), 2);
/// ```
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// With this inside.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock, unless another thread has it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(inside) => Some(inside),
            Err(TryLockError::Poisoned(inside)) => Some(inside.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// What is inside, for who has the lock alone.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
