//! Threads of the real world.

use std::io;
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::time::{ClockId, clock_gettime};

use super::{Instant, in_world};

/// A thread that can be unparked.
#[derive(Debug, Clone)]
pub struct Thread(std::thread::Thread);

impl Thread {
    /// Ends its present or next [`park`](super::park).
    pub fn unpark(&self) {
        self.0.unpark();
    }

    /// Tells it from every other thread.
    #[must_use]
    pub fn id(&self) -> std::thread::ThreadId {
        self.0.id()
    }

    /// What it was named when it was started; of a test, the test's name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name()
    }
}

/// A [`Waker`](std::task::Waker) of it unparks it.
impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }
}

/// Waits for a spawned thread; made by [`spawn`].
pub type JoinHandle<T> = std::thread::JoinHandle<T>;

/// The calling thread.
#[must_use]
pub fn current() -> Thread {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    Thread(std::thread::current())
}

/// How often a thread has left its core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches {
    /// It waited for something.
    pub waited: u64,
    /// Another thread got the core.
    pub lost: u64,
}

/// How often the calling thread has left its core. About 0.2 µs; in a simulated world none does.
#[must_use]
pub fn switches() -> Switches {
    if in_world() {
        return Switches::default();
    }
    getrusage(UsageWho::RUSAGE_THREAD).map_or_else(
        |_| Switches::default(),
        |usage| Switches {
            waited: usage.voluntary_context_switches().unsigned_abs(),
            lost: usage.involuntary_context_switches().unsigned_abs(),
        },
    )
}

/// How long the calling thread has run on a core. About 0.2 µs; in a simulated world as long as it is.
#[must_use]
pub fn ran_for() -> Duration {
    if in_world() {
        return Duration::from_nanos(super::now().as_nanos());
    }
    let ran = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u32::try_from(ran.tv_nsec).unwrap_or_default();
    Duration::new(ran.tv_sec.unsigned_abs(), nanos)
}

/// Starts a thread.
///
/// # Errors
///
/// If the operating system has no thread to give, or the caller is in a
/// simulated world: the simulator's first level runs without threads.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    if in_world() {
        let why = "a simulated world runs all its nodes on one thread";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// Lets another thread of the machine run: for a wait of a few instructions
/// that lasts only if the other was preempted in them.
pub(crate) fn yield_now() {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    std::thread::yield_now();
}

pub(super) fn park(until: Option<Instant>) {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    match until {
        None => std::thread::park(),
        Some(until) => std::thread::park_timeout(until - super::now()),
    }
}
