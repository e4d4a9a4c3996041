//! Time, sleep, threads and randomness, from the machine or from a simulated [`Runtime`].
//!
//! All code above this module asks it for time, sleep, threads and randomness; clippy bans the
//! standard library's functions elsewhere. A thread that has [entered](enter) a [`Runtime`] is
//! answered by that runtime. The simulator is a runtime whose clock moves when its threads wait, so
//! the same code runs in virtual time unchanged.
//!
//! # Deadlines
//!
//! Every call that waits takes a [`Deadline`]; no call waits without one. `In` is measured from the
//! call. `UntilDead` waits as long as the peer lives: it ends with the peer, never by the clock.
//!
//! # Errors
//!
//! These conventions hold in every crate and are written here once.
//!
//! * One small `#[non_exhaustive]` enum per family of operations; a variant
//!   names the cause and carries the values a person needs to act: both sizes,
//!   the limit and the setting that raises it, the peer that was waited for and how long.
//! * A call that took a value and failed gives the value back inside a [`GivenBack`].
//! * A full queue or an exhausted pool is an outcome the caller handles in the
//!   normal course, so it has a variant of its own and is never logged.
//! * Bytes from a peer never panic; they become errors. A programmer's error
//!   (an index out of range, a deadline that overflows) asserts.
//! * A wait that ends by its deadline says how long it waited and for what.
//! * `anyhow` appears in the binary only.

mod deadline;
mod given_back;
mod log_limit;
mod split_mix;
mod stack;
mod thread;
mod ticks;
#[doc(hidden)]
pub mod waits;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

pub use deadline::{Deadline, Instant};
pub use given_back::GivenBack;
#[doc(hidden)]
pub use log_limit::LogLimit;
#[doc(hidden)]
pub use split_mix::SplitMix64;
#[doc(hidden)]
pub use stack::stack_below;
#[doc(hidden)]
pub use thread::{ContextSwitches, context_switches, ran_for};
pub use thread::{JoinHandle, Thread, current, spawn};
pub(crate) use thread::{WakeSignal, park_on_machine, spawn_on_machine, this_thread, yield_now};
#[doc(hidden)]
pub use thread::{fault, set_fault, trials, tries_all};

/// A source of time, sleep, randomness and threads for the threads that [entered](enter) it.
///
/// ```
/// use std::sync::Arc;
///
/// use egret_net::rt::{self, Instant, Runtime};
///
/// /// Its clock shows one second, for ever.
/// struct Stopped;
///
/// impl Runtime for Stopped {
///     fn now(&self) -> Instant {
///         Instant::from_nanos(1_000_000_000)
///     }
///     fn park(&self, _until: Option<Instant>) {}
///     fn random(&self) -> u64 {
///         4
///     }
/// }
///
/// let entered = rt::enter(Arc::new(Stopped));
/// assert_eq!(rt::now().as_nanos(), 1_000_000_000);
/// drop(entered);
/// ```
pub trait Runtime: Send + Sync {
    /// The present moment of this runtime.
    fn now(&self) -> Instant;
    /// Lets time pass in this runtime until something may have changed, at the latest `until`. May
    /// return early for no reason.
    fn park(&self, until: Option<Instant>);
    /// 64 random bits, repeatable if the runtime is seeded.
    fn random(&self) -> u64;
    /// Starts a thread of this runtime, if the runtime has threads. One thread of a runtime runs at
    /// a time, until it parks or ends.
    ///
    /// # Errors
    ///
    /// If the runtime has no thread to give.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Thread> {
        let _ = (name, body);
        let why = "this simulated runtime runs all its nodes on one thread";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }
    /// Ends the present or next park of a thread of this runtime.
    fn unpark(&self, thread: ThreadId) {
        let _ = thread;
    }
    /// A thread of this runtime has panicked, with `why`.
    fn panicked(&self, why: &(dyn Any + Send)) {
        let _ = why;
    }
    /// Whether nodes of this runtime have threads of their own. If not, the program polls them.
    fn has_background(&self) -> bool {
        false
    }
}

/// Puts the calling thread into `runtime` until the guard is dropped; [`Runtime`] has an example.
///
/// Entries nest; the innermost runtime answers.
#[must_use]
pub fn enter(runtime: Arc<dyn Runtime>) -> EnteredRuntime {
    let kept = Arc::clone(&runtime);
    RUNTIMES.with_borrow_mut(|runtimes| runtimes.push(runtime));
    IS_SIMULATED.set(true);
    EnteredRuntime { runtime: kept, _thread_bound: std::marker::PhantomData }
}

/// Keeps its thread in a [`Runtime`]; made by [`enter`].
pub struct EnteredRuntime {
    runtime: Arc<dyn Runtime>,
    _thread_bound: std::marker::PhantomData<*const ()>,
}

impl Drop for EnteredRuntime {
    fn drop(&mut self) {
        RUNTIMES.with_borrow_mut(|runtimes| {
            let own = runtimes.iter().rposition(|runtime| Arc::ptr_eq(runtime, &self.runtime));
            let removed = own.map(|at| runtimes.remove(at));
            IS_SIMULATED.set(!runtimes.is_empty());
            removed
        });
    }
}

impl fmt::Debug for EnteredRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnteredRuntime")
    }
}

/// The present moment; [`Instant`] has an example.
#[must_use]
#[inline]
pub fn now() -> Instant {
    match runtime() {
        None => ticks::monotonic(),
        Some(runtime) => runtime.now(),
    }
}

/// The answer that [`now`] gave the calling thread last, without a new reading of the clock: for
/// callers that know that the last reading was a moment ago. In a simulated runtime, the present.
#[doc(hidden)]
#[must_use]
#[inline]
pub fn last_now() -> Instant {
    match runtime() {
        None => ticks::last(),
        Some(runtime) => runtime.now(),
    }
}

/// The machine's clock, whatever runtime the calling thread is in: for measurements.
#[cfg(feature = "limits")]
#[doc(hidden)]
#[must_use]
pub fn machine_now() -> Instant {
    ticks::monotonic()
}

/// Sleeps until [unparked](Thread::unpark) or until `until`; may return early. [`Thread`] has an
/// example.
pub fn park(until: Option<Instant>) {
    match runtime() {
        None => thread::park(until),
        Some(runtime) => runtime.park(until),
    }
}

/// Sleeps for `duration`; [`Instant`] has an example.
pub fn sleep(duration: Duration) {
    let until = now() + duration;
    while now() < until {
        park(Some(until));
    }
}

/// Sets what the calling thread does before its next wait in a simulated runtime with threads, once; returns what was
/// set before.
#[doc(hidden)]
pub fn set_before_wait(does: Option<fn()>) -> Option<fn()> {
    BEFORE_WAIT.replace(does)
}

/// Does what was [set](set_before_wait) for this wait.
pub(crate) fn before_wait() {
    if let Some(does) = BEFORE_WAIT.take() {
        does();
    }
}

/// 64 random bits: from the operating system, or from the seed of the runtime the thread is in.
///
/// ```
/// assert_ne!(egret_net::rt::random(), egret_net::rt::random());
/// ```
///
/// # Panics
///
/// If the operating system has no randomness to give.
#[must_use]
pub fn random() -> u64 {
    match runtime() {
        None => {
            let mut bytes = [0; 8];
            let flags = rustix::rand::GetRandomFlags::empty();
            let filled = rustix::rand::getrandom(&mut bytes, flags).expect("getrandom answers");
            assert_eq!(filled, bytes.len(), "getrandom never splits eight bytes");
            u64::from_ne_bytes(bytes)
        }
        Some(runtime) => runtime.random(),
    }
}

#[inline]
fn runtime() -> Option<Arc<dyn Runtime>> {
    if is_simulated() { innermost() } else { None }
}

#[cold]
fn innermost() -> Option<Arc<dyn Runtime>> {
    RUNTIMES.with_borrow(|runtimes| runtimes.last().cloned())
}

/// Whether nodes that the calling thread makes have threads of their own: outside a simulated
/// runtime, and in a [`Runtime`] that says so.
#[doc(hidden)]
#[must_use]
pub fn has_background() -> bool {
    runtime().is_none_or(|runtime| runtime.has_background())
}

/// Whether the calling thread has entered a [`Runtime`].
#[doc(hidden)]
#[must_use]
#[inline]
pub fn is_simulated() -> bool {
    IS_SIMULATED.get()
}

thread_local! {
    /// Whether `RUNTIMES` has an entry: read far more often than the entries change.
    static IS_SIMULATED: Cell<bool> = const { Cell::new(false) };
    static BEFORE_WAIT: Cell<Option<fn()>> = const { Cell::new(None) };
    static RUNTIMES: RefCell<Vec<Arc<dyn Runtime>>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug)]
    struct Stepping(Mutex<u64>);

    impl Runtime for Stepping {
        fn now(&self) -> Instant {
            Instant::from_nanos(*self.0.lock().unwrap())
        }
        fn park(&self, _until: Option<Instant>) {
            *self.0.lock().unwrap() += 10;
        }
        fn random(&self) -> u64 {
            4
        }
    }

    #[test]
    fn a_runtime_answers_for_its_thread_only_while_entered() {
        let entered = enter(Arc::new(Stepping(Mutex::new(5))));
        assert_eq!(now(), Instant::from_nanos(5));
        sleep(Duration::from_nanos(25));
        assert_eq!(now(), Instant::from_nanos(35));
        assert_eq!(random(), 4);
        assert!(spawn("refused", || ()).is_err());
        drop(entered);
        assert_ne!(random(), random());
        assert!(now() >= Instant::from_nanos(0));
    }

    #[test]
    fn an_unpark_before_the_park_is_not_lost() {
        let me = current();
        let waker = spawn("waker", move || me.unpark()).unwrap();
        park(None);
        waker.join().unwrap();
    }

    #[test]
    fn deadlines_end_in_time_or_never() {
        assert_eq!(Deadline::UntilDead.until(), None);
        let end = Deadline::In(Duration::from_secs(1)).until().unwrap();
        assert!(end > now());
        assert_eq!(Deadline::In(Duration::MAX).until(), None, "too far to ever pass");
    }
}
