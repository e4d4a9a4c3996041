//! What the lock-free part of the pool stands on, so that the model checker can
//! put its own underneath.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::rt::{self, Instant};

/// Atomic words, a lock and sleeping threads of one kind: those of the machine
/// ([`StdAtomics`]) or, in tests, those of the model checker.
pub(crate) trait Atomics: fmt::Debug + 'static {
    /// An atomic 64-bit word.
    type Word: Word;
    /// A lock; only slow paths take it.
    type Lock<T: Send>: Lock<T>;
    /// A thread that can be woken.
    type Thread: Send;

    fn current() -> Self::Thread;
    fn park(until: Option<Instant>);
    fn unpark(thread: &Self::Thread);
}

/// An atomic 64-bit word.
pub(crate) trait Word: Send + Sync {
    fn new(value: u64) -> Self;
    fn load(&self, order: Ordering) -> u64;
    fn store(&self, value: u64, order: Ordering);
    fn swap(&self, value: u64, order: Ordering) -> u64;
    fn fetch_add(&self, value: u64, order: Ordering) -> u64;
    fn fetch_sub(&self, value: u64, order: Ordering) -> u64;
    fn compare_exchange_weak(
        &self,
        current: u64,
        new: u64,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u64, u64>;
}

/// A mutual exclusion that a panic inside does not poison.
pub(crate) trait Lock<T>: Send + Sync {
    fn new(value: T) -> Self;
    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R;
}

/// The machine's own.
#[derive(Debug)]
pub(crate) struct StdAtomics;

impl Atomics for StdAtomics {
    type Word = std::sync::atomic::AtomicU64;
    type Lock<T: Send> = Mutex<T>;
    type Thread = rt::Thread;

    fn current() -> rt::Thread {
        rt::current()
    }

    fn park(until: Option<Instant>) {
        rt::park(until);
    }

    fn unpark(thread: &rt::Thread) {
        thread.unpark();
    }
}

impl<T: Send> Lock<T> for Mutex<T> {
    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The two kinds of words have the same methods and no trait in common.
macro_rules! word {
    ($word:ty) => {
        impl $crate::buf::atomics::Word for $word {
            #[inline]
            fn new(value: u64) -> Self {
                Self::new(value)
            }
            #[inline]
            fn load(&self, order: Ordering) -> u64 {
                self.load(order)
            }
            #[inline]
            fn store(&self, value: u64, order: Ordering) {
                self.store(value, order);
            }
            #[inline]
            fn swap(&self, value: u64, order: Ordering) -> u64 {
                self.swap(value, order)
            }
            #[inline]
            fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
                self.fetch_add(value, order)
            }
            #[inline]
            fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
                self.fetch_sub(value, order)
            }
            #[inline]
            fn compare_exchange_weak(
                &self,
                current: u64,
                new: u64,
                success: Ordering,
                failure: Ordering,
            ) -> Result<u64, u64> {
                self.compare_exchange_weak(current, new, success, failure)
            }
        }
    };
}

#[cfg(test)]
pub(crate) use word;

word!(std::sync::atomic::AtomicU64);
