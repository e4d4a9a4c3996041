//! What lock-free code stands on, so that the model checker can put its own
//! underneath.

mod biased_lock;
#[cfg(test)]
pub(crate) mod checker;
mod duty;
mod role;
mod roster;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::fmt;
use std::io::Write as _;
use std::ops::DerefMut;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

pub(crate) use biased_lock::BiasedLock;
pub use duty::DutyTask;
pub use role::{
    DriverKind, DrivingRole, NextHolder, QueuedWaiter, RoleAttempt, RoleGuard, RoleWait, RoleWaiter,
};
pub use roster::{Employment, Roster, RosterOrder};
use rustix::thread::{MembarrierCommand, membarrier};

use crate::fault::planted;
use crate::rt::{self, Instant};

/// Atomic words, a lock and sleeping threads of one kind: those of the machine
/// ([`StdAtomics`]) or, in tests, those of the model checker.
pub trait Atomics: fmt::Debug + 'static {
    /// An atomic 64-bit word.
    type Word: Word;
    /// A lock; only slow paths take it.
    type Lock<T: Send>: Lock<T>;
    /// A thread that can be woken.
    type Thread: Send + Sync;
    /// The places of a [cache](crate::buf).
    type Places: AsRef<[Self::Word]> + Send + Sync;
    /// Turns in a row by which a thread earns the first bias of a [lock](BiasedLock).
    const IN_A_ROW: u64;

    /// Orders words of this and of other threads; see [`std::sync::atomic::fence`].
    fn fence(order: Ordering);
    fn current() -> Self::Thread;
    fn park(until: Option<Instant>);
    fn unpark(thread: &Self::Thread);

    fn places() -> Self::Places;
    /// The number of the calling thread, which no other thread ever had or will
    /// have; 0 if it has [none](Self::number_me) yet.
    fn me() -> u64;
    /// Gives the calling thread its number.
    fn number_me() -> u64;
    /// Whether there is a [`heavy_fence`](Self::heavy_fence).
    fn has_heavy_fence() -> bool;
    /// The cheap half of a pair of fences: between the two halves, one on each
    /// of two threads, holds what holds between two sequentially consistent
    /// fences. Between two light ones nothing does.
    fn light_fence();
    /// The dear half: a system call. It does not unwind: if there is no fence it does not
    /// return.
    fn heavy_fence();
    /// Whether there is a [`global_fence`](Self::global_fence), which then reaches the
    /// threads of this process too.
    fn has_global_fence() -> bool;
    /// The dear half towards [light](Self::light_fence) halves of all processes that have
    /// it, and towards sequentially consistent fences of any. Whether it was granted: a
    /// kernel may deny later what it [had](Self::has_global_fence).
    #[must_use]
    fn global_fence() -> bool;
    /// Passes the time of a short wait that has gone on for so many `turns`.
    fn relax(turns: u32);
}

/// An atomic 64-bit word.
pub trait Word: Send + Sync {
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
pub trait Lock<T>: Send + Sync {
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a;

    fn new(value: T) -> Self;
    fn lock(&self) -> Self::Guard<'_>;
    /// `None` if another thread has it.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;

    fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        body(&mut self.lock())
    }
}

/// The machine's own.
#[derive(Debug)]
pub struct StdAtomics;

impl Atomics for StdAtomics {
    type Word = AtomicU64;
    type Lock<T: Send> = Mutex<T>;
    type Thread = rt::Thread;
    type Places = [AtomicU64; 32];
    const IN_A_ROW: u64 = 16;

    #[inline]
    fn fence(order: Ordering) {
        std::sync::atomic::fence(order);
    }

    fn current() -> rt::Thread {
        rt::current()
    }

    fn park(until: Option<Instant>) {
        rt::park(until);
    }

    fn unpark(thread: &rt::Thread) {
        thread.unpark();
    }

    fn places() -> Self::Places {
        std::array::from_fn(|_| AtomicU64::new(0))
    }

    #[inline]
    fn me() -> u64 {
        NUMBER.get()
    }

    #[cold]
    fn number_me() -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        if NUMBER.get() == 0 {
            NUMBER.set(LAST.fetch_add(1, Ordering::Relaxed) + 1);
        }
        NUMBER.get()
    }

    /// Registers the process with the kernel, once.
    fn has_heavy_fence() -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        let register = || membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok();
        *REGISTERED.get_or_init(register)
    }

    /// Nothing for the processor: the heavy half makes it fence when it has to.
    #[inline(always)]
    fn light_fence() {
        compiler_fence(Ordering::SeqCst);
    }

    /// Every processor that runs a thread of this process passes a full fence
    /// before this returns. Where the kernel denies that, the process ends.
    fn heavy_fence() {
        if let Err(why) = fence_all_threads() {
            end_without_fence(why);
        }
    }

    /// Registers the process with the kernel and passes the fence, both once: others may
    /// then rely on this process, and it knows that it may rely on the fence.
    fn has_global_fence() -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        let register = || {
            membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
                && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
        };
        !planted(FenceFault::GlobalNever) && *REGISTERED.get_or_init(register)
    }

    /// Every processor that runs a thread of a registered process passes a full fence
    /// before this returns.
    fn global_fence() -> bool {
        !planted(FenceFault::GlobalLater) && membarrier(MembarrierCommand::GlobalExpedited).is_ok()
    }

    fn relax(turns: u32) {
        if turns < SPINS { std::hint::spin_loop() } else { rt::yield_now() }
    }
}

fn fence_all_threads() -> rustix::io::Result<()> {
    if planted(FenceFault::Denied) {
        return Err(rustix::io::Errno::PERM);
    }
    membarrier(MembarrierCommand::PrivateExpedited)
}

/// Ends the process: the kernel has granted the fence before and denies it now.
///
/// The thread that needs the fence has announced that it takes something away from another
/// thread, and cannot know whether that one has heard of it: what the other thread wrote may
/// still be in the store buffer of its processor.
///
/// * To go on would let two threads into one lock.
/// * To unwind would leave the announcement behind, and the next thread would go on.
/// * To wait for the other thread to say that it has heard would last for ever: a thread that
///   sleeps, or has ended, says nothing.
/// * Other ways to have all processors fence (changing the protection of a page, moving to
///   each processor in turn) do so by the habits of some kernels on some processors, which
///   nothing promises: newer ones change page tables without interrupting anybody.
///
/// So there is no correct way on, and nothing may run after this, no destructor either. The
/// message goes past the log: a subscriber is a program's code, and may take such a lock.
#[cold]
fn end_without_fence(why: rustix::io::Errno) -> ! {
    let _ = writeln!(
        std::io::stderr(),
        "egret: the kernel denies membarrier(PRIVATE_EXPEDITED): {why}. This process was granted \
         it before, and its biased locks rely on it: they cannot be taken from the thread that \
         has them, so the process is aborted. A seccomp filter that is installed later must \
         allow membarrier; one that denies it must be installed before the first nic or pool, \
         whose locks are then ordinary ones."
    );
    std::process::abort()
}

/// One way the kernel can get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FenceFault {
    /// A filter of system calls that was installed later denies the calling thread the fence.
    Denied,
    /// The kernel has no fence over processes, or denies it from the start.
    GlobalNever,
    /// A filter that was installed later denies the calling thread the fence over processes.
    GlobalLater,
}

thread_local! {
    /// Without a destructor: buffers may be dropped while a thread ends.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Longer than a take or a return that is not interrupted.
const SPINS: u32 = 200;

impl<T: Send> Lock<T> for Mutex<T> {
    type Guard<'a>
        = MutexGuard<'a, T>
    where
        Self: 'a;

    fn new(value: T) -> Self {
        Self::new(value)
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The two kinds of words have the same methods and no trait in common.
macro_rules! word {
    ($word:ty) => {
        impl $crate::atomics::Word for $word {
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

word!(AtomicU64);
