//! The seam to the world: now, park and unpark, spawn, random.
//!
//! Everything above this module asks it for time, sleep, threads and
//! randomness, and clippy bans the originals elsewhere. A thread that has
//! [entered](enter) a [`World`] gets its answers from there: the simulator is a
//! world whose clock moves when its threads wait, so the same code runs in
//! virtual time without knowing it.
//!
//! # Deadlines
//!
//! Every call that waits takes a [`Deadline`]; there is no way to wait without
//! saying how long. `In` is measured from the call. `UntilDead` waits as long
//! as whoever is waited for lives: it ends with the peer, never with the clock.
//!
//! # Errors
//!
//! These conventions hold in every crate and are written here once.
//!
//! * One small `#[non_exhaustive]` enum per family of operations; a variant
//!   names the cause and carries the values a person needs to act: both sizes,
//!   the limit and the setting that raises it, who was waited for and how long.
//! * A call that took something and failed gives it back inside the error
//!   (`PostError` returns the descriptor, a cast the buffer).
//! * A full queue or an exhausted pool is an outcome the caller handles in the
//!   normal course, so it has a variant of its own and is never logged.
//! * Bytes from a peer never panic; they become errors. A programmer's error
//!   (an index out of range, a deadline that overflows) asserts.
//! * A wait that ends by its deadline says how long it waited and for what.
//! * `anyhow` appears in the binary only.

mod deadline;
mod seldom;
mod stack;
mod thread;
mod ticks;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

pub use deadline::{Deadline, Instant};
pub use seldom::Seldom;
pub use stack::stack_below;
pub use thread::{JoinHandle, Switches, Thread, current, ran_for, spawn, switches};
#[doc(hidden)]
pub use thread::{fault, set_fault};
pub(crate) use thread::{park_on_machine, spawn_on_machine, this_thread, yield_now};

/// A source of time, sleep, randomness and threads for the threads that entered it.
pub trait World: Send + Sync {
    /// The present moment of this world.
    fn now(&self) -> Instant;
    /// Lets the world go on until something may have changed, at the latest
    /// `until`. May return early for no reason.
    fn park(&self, until: Option<Instant>);
    /// 64 random bits, repeatable if the world is seeded.
    fn random(&self) -> u64;
    /// Starts a thread of this world, if the world can. One thread of a world runs at a time, until
    /// it parks or ends.
    ///
    /// # Errors
    ///
    /// If the world has no thread to give.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Thread> {
        let _ = (name, body);
        let why = "this simulated world runs all its nodes on one thread";
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }
    /// Ends the present or next park of a thread of this world.
    fn unpark(&self, thread: ThreadId) {
        let _ = thread;
    }
    /// A thread of this world has panicked with this.
    fn panicked(&self, why: &(dyn Any + Send)) {
        let _ = why;
    }
    /// Whether nodes have threads of their own here; else somebody polls them.
    fn has_background(&self) -> bool {
        false
    }
}

/// Puts the calling thread into `world` until the guard is dropped.
///
/// Entries nest; the innermost world answers.
#[must_use]
pub fn enter(world: Arc<dyn World>) -> Entered {
    let kept = Arc::clone(&world);
    WORLDS.with_borrow_mut(|worlds| worlds.push(world));
    IN_WORLD.set(true);
    Entered { world: kept, _thread_bound: std::marker::PhantomData }
}

/// Keeps its thread in a [`World`]; made by [`enter`].
pub struct Entered {
    world: Arc<dyn World>,
    _thread_bound: std::marker::PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        WORLDS.with_borrow_mut(|worlds| {
            let own = worlds.iter().rposition(|world| Arc::ptr_eq(world, &self.world));
            let removed = own.map(|at| worlds.remove(at));
            IN_WORLD.set(!worlds.is_empty());
            removed
        });
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Entered")
    }
}

/// The present moment.
#[must_use]
#[inline]
pub fn now() -> Instant {
    match world() {
        None => ticks::monotonic(),
        Some(world) => world.now(),
    }
}

/// What the clock said to the calling thread last: for who knows that it was asked a moment ago, and
/// can do with a little less. In a simulated world, whose clock stands still meanwhile, the present.
#[must_use]
#[inline]
pub fn lately() -> Instant {
    match world() {
        None => ticks::told(),
        Some(world) => world.now(),
    }
}

/// The machine's clock, whatever world the calling thread is in: for what is
/// measured, not simulated.
#[cfg(feature = "limits")]
pub(crate) fn machine_now() -> Instant {
    ticks::monotonic()
}

/// Sleeps until [unparked](Thread::unpark) or until `until`; may return early.
pub fn park(until: Option<Instant>) {
    match world() {
        None => thread::park(until),
        Some(world) => world.park(until),
    }
}

/// Sleeps for `duration`.
pub fn sleep(duration: Duration) {
    let until = now() + duration;
    while now() < until {
        park(Some(until));
    }
}

/// 64 random bits: from the operating system, or from the seed of the world
/// the thread is in.
///
/// # Panics
///
/// If the operating system has no randomness to give.
#[must_use]
pub fn random() -> u64 {
    match world() {
        None => {
            let mut bytes = [0; 8];
            let flags = rustix::rand::GetRandomFlags::empty();
            let filled = rustix::rand::getrandom(&mut bytes, flags).expect("getrandom answers");
            assert_eq!(filled, bytes.len(), "getrandom never splits eight bytes");
            u64::from_ne_bytes(bytes)
        }
        Some(world) => world.random(),
    }
}

#[inline]
fn world() -> Option<Arc<dyn World>> {
    if in_world() { innermost() } else { None }
}

#[cold]
fn innermost() -> Option<Arc<dyn World>> {
    WORLDS.with_borrow(|worlds| worlds.last().cloned())
}

/// Whether nodes have threads of their own where the calling thread is: in the real world, and in a
/// [`World`] that says so.
#[must_use]
pub fn has_background() -> bool {
    world().is_none_or(|world| world.has_background())
}

/// Whether the calling thread is in a simulated world.
#[must_use]
#[inline]
pub fn in_world() -> bool {
    IN_WORLD.get()
}

thread_local! {
    /// Whether there are any: asked far more often than they change.
    static IN_WORLD: Cell<bool> = const { Cell::new(false) };
    static WORLDS: RefCell<Vec<Arc<dyn World>>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug)]
    struct Stepping(Mutex<u64>);

    impl World for Stepping {
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
    fn a_world_answers_for_its_thread_only_while_entered() {
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
