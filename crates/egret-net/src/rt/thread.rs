//! Threads, of the machine or of a simulated runtime.

use std::any::TypeId;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Wake;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::{Instant, Runtime, enter, is_simulated, runtime};

/// A thread that can be unparked.
///
/// ```
/// use egret_net::rt;
///
/// let this = rt::current();
/// let other = rt::spawn("waker", move || this.unpark())?;
/// rt::park(None); // until the other thread has unparked this one
/// other.join().expect("it does not panic");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Thread {
    os: std::thread::Thread,
    /// The simulated runtime in which [`current`] was called.
    runtime: Option<Weak<dyn Runtime>>,
}

impl Thread {
    /// A thread of the machine, in no simulated runtime.
    pub(crate) const fn of(os: std::thread::Thread) -> Self {
        Self { os, runtime: None }
    }

    /// Ends its present or next [`park`](super::park).
    pub fn unpark(&self) {
        match &self.runtime {
            None => self.os.unpark(),
            Some(runtime) => {
                runtime.upgrade().into_iter().for_each(|runtime| runtime.unpark(self.id()));
            }
        }
    }

    /// The number of the thread in its process.
    #[must_use]
    pub fn id(&self) -> std::thread::ThreadId {
        self.os.id()
    }

    /// The name that the thread was started with; of a test, the test's name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.os.name()
    }
}

/// A [`Waker`](std::task::Waker) made of a thread unparks the thread.
impl Wake for Thread {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }
}

impl PartialEq for Thread {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Thread {}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Thread").field(&self.os.id()).field(&self.os.name()).finish()
    }
}

/// Waits for a spawned thread; made by [`spawn`]. [`Thread`] has an example.
#[derive(Debug)]
pub struct JoinHandle<T> {
    thread: Thread,
    joining: JoinHandleState<T>,
}

/// Where a thread leaves its result.
#[derive(Debug)]
enum JoinHandleState<T> {
    Machine(std::thread::JoinHandle<T>),
    Simulated(Arc<Mutex<ThreadResult<T>>>),
}

/// The result of a thread of a simulated runtime.
#[derive(Debug)]
struct ThreadResult<T> {
    is_over: bool,
    result: Option<std::thread::Result<T>>,
    waits: Option<Thread>,
}

impl<T> JoinHandle<T> {
    /// Waits until the thread has ended.
    ///
    /// # Errors
    ///
    /// If the thread panicked, with the payload of the panic.
    ///
    /// # Panics
    ///
    /// If the thread waits for itself in a simulated runtime.
    pub fn join(self) -> std::thread::Result<T> {
        let outcome = match self.joining {
            JoinHandleState::Machine(handle) => return handle.join(),
            JoinHandleState::Simulated(outcome) => outcome,
        };
        let me = current();
        assert!(me != self.thread, "a thread joins itself");
        loop {
            {
                let mut outcome = lock(&outcome);
                if let Some(result) = outcome.result.take() {
                    return result;
                }
                if outcome.is_over {
                    return Err(Box::new("the simulated runtime ended before the thread began"));
                }
                outcome.waits = Some(me.clone());
            }
            super::park(None);
        }
    }

    /// Whether the thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.joining {
            JoinHandleState::Machine(handle) => handle.is_finished(),
            JoinHandleState::Simulated(outcome) => lock(outcome).is_over,
        }
    }

    /// The thread.
    #[must_use]
    pub const fn thread(&self) -> &Thread {
        &self.thread
    }
}

/// A thread of a simulated runtime ends, or never begins, when this is dropped.
struct EndOfThread<T>(Arc<Mutex<ThreadResult<T>>>);

impl<T> Drop for EndOfThread<T> {
    fn drop(&mut self) {
        let waits = {
            let mut outcome = lock(&self.0);
            outcome.is_over = true;
            outcome.waits.take()
        };
        waits.into_iter().for_each(|waits| waits.unpark());
    }
}

fn lock<T>(outcome: &Mutex<ThreadResult<T>>) -> std::sync::MutexGuard<'_, ThreadResult<T>> {
    outcome.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread; [`Thread`] has an example.
#[must_use]
pub fn current() -> Thread {
    Thread { os: this_thread(), runtime: runtime().map(|runtime| Arc::downgrade(&runtime)) }
}

/// The calling thread, as the machine knows it.
pub(crate) fn this_thread() -> std::thread::Thread {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    std::thread::current()
}

/// How often a thread has left its core.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContextSwitches {
    /// By waiting.
    pub waited: u64,
    /// By preemption.
    pub lost: u64,
}

/// How often the calling thread has left its core. The call takes about 0.2 µs. In a simulated
/// runtime the counts stay 0.
#[doc(hidden)]
#[must_use]
pub fn context_switches() -> ContextSwitches {
    if is_simulated() {
        return ContextSwitches::default();
    }
    getrusage(UsageWho::RUSAGE_THREAD).map_or_else(
        |_| ContextSwitches::default(),
        |usage| ContextSwitches {
            waited: usage.voluntary_context_switches().unsigned_abs(),
            lost: usage.involuntary_context_switches().unsigned_abs(),
        },
    )
}

/// How long the calling thread has run on a core. The call takes about 0.2 µs. In a simulated
/// runtime, the time since its start.
#[doc(hidden)]
#[must_use]
pub fn ran_for() -> Duration {
    if is_simulated() {
        return Duration::from_nanos(super::now().as_nanos());
    }
    let ran = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u32::try_from(ran.tv_nsec).unwrap_or_default();
    Duration::new(ran.tv_sec.unsigned_abs(), nanos)
}

/// Starts a thread, in the simulated runtime that the caller is in, if it is in one; [`Thread`] has an
/// example.
///
/// # Errors
///
/// If the operating system, or the runtime, has no thread to give.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    if let Some(runtime) = runtime() {
        return spawn_in(&runtime, name, body);
    }
    let handle = spawn_on_machine(name, body)?;
    let thread = Thread::of(handle.thread().clone());
    Ok(JoinHandle { thread, joining: JoinHandleState::Machine(handle) })
}

/// Starts a thread of the machine, whatever runtime the calling thread is in.
pub(crate) fn spawn_on_machine<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<std::thread::JoinHandle<T>> {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

fn spawn_in<T: Send + 'static>(
    runtime: &Arc<dyn Runtime>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let outcome = Arc::new(Mutex::new(ThreadResult { is_over: false, result: None, waits: None }));
    let (ending, runtime_of, fault) =
        (EndOfThread(Arc::clone(&outcome)), Arc::clone(runtime), fault());
    let run = move || {
        let entered = enter(Arc::clone(&runtime_of));
        set_fault(fault);
        let result = catch_unwind(AssertUnwindSafe(body));
        if let Err(why) = &result {
            runtime_of.panicked(&**why);
        }
        lock(&ending.0).result = Some(result);
        drop(ending);
        drop(entered);
    };
    let mut thread = runtime.spawn(name, Box::new(run))?;
    thread.runtime = Some(Arc::downgrade(runtime));
    Ok(JoinHandle { thread, joining: JoinHandleState::Simulated(outcome) })
}

/// How often a test tries what it would try `all` times: an eighth of it, and all with `EGRET_TESTS=all`.
#[doc(hidden)]
#[must_use]
pub fn trials(all: u64) -> u64 {
    if tries_all() { all } else { all.div_ceil(8) }
}

/// Whether the tests are to try everything, however long that takes.
#[doc(hidden)]
#[must_use]
pub fn tries_all() -> bool {
    std::env::var("EGRET_TESTS").is_ok_and(|tests| tests == "all")
}

/// The fault that a test has planted on the calling thread, by its type and number. A thread that
/// the calling thread spawns in a simulated runtime inherits the fault.
#[doc(hidden)]
#[must_use]
pub fn fault() -> Option<(TypeId, u32)> {
    FAULT.try_with(Cell::get).ok().flatten()
}

/// Plants a fault on the calling thread, or takes it away.
#[doc(hidden)]
pub fn set_fault(fault: Option<(TypeId, u32)>) {
    FAULT.set(fault);
}

thread_local! {
    static FAULT: Cell<Option<(TypeId, u32)>> = const { Cell::new(None) };
}

/// Lets another thread of the machine run: for a wait of a few instructions, which lasts longer only
/// if the other thread was preempted in them.
pub(crate) fn yield_now() {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    std::thread::yield_now();
}

/// Where one thread of the machine sleeps until another wakes it, of thousands that sleep.
///
/// The system keeps who sleeps on memory of one process alone in a table that has few places on a machine with few
/// cores, and searches a place from its beginning; the table of shared memory is larger. So this word says that it is shared.
#[derive(Debug, Default)]
pub(crate) struct WakeSignal(AtomicU32);

impl WakeSignal {
    /// Ends the present or next sleep.
    pub(crate) fn wake(&self) {
        self.0.store(1, Ordering::Release);
        _ = futex::wake(&self.0, futex::Flags::empty(), 1);
    }

    /// Sleeps until woken, for at most `most`; may return early.
    pub(crate) fn sleep(&self, most: Duration) {
        if self.0.swap(0, Ordering::Acquire) == 0 {
            let most = Timespec::try_from(most).ok();
            _ = futex::wait(&self.0, futex::Flags::empty(), 0, most.as_ref());
            self.0.store(0, Ordering::Release);
        }
    }
}

/// Sleeps as a thread of the machine, whatever runtime the thread is in, until it is
/// [unparked](std::thread::Thread::unpark), for at most `most`.
pub(crate) fn park_on_machine(most: Duration) {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    std::thread::park_timeout(most);
}

pub(super) fn park(until: Option<Instant>) {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    match until {
        None => std::thread::park(),
        Some(until) => std::thread::park_timeout(until - super::now()),
    }
}
