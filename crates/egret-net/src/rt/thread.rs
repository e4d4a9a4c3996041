//! Threads, of the real world or of a simulated one.

use std::any::TypeId;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Wake;
use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::time::{ClockId, clock_gettime};

use super::{Instant, World, enter, in_world, world};

/// A thread that can be unparked.
#[derive(Clone)]
pub struct Thread {
    os: std::thread::Thread,
    /// The simulated world that it was in when it was asked for.
    world: Option<Weak<dyn World>>,
}

impl Thread {
    /// A thread of the machine, in no world.
    pub(crate) const fn of(os: std::thread::Thread) -> Self {
        Self { os, world: None }
    }

    /// Ends its present or next [`park`](super::park).
    pub fn unpark(&self) {
        match &self.world {
            None => self.os.unpark(),
            Some(world) => {
                world.upgrade().into_iter().for_each(|world| world.unpark(self.id()));
            }
        }
    }

    /// Tells it from every other thread.
    #[must_use]
    pub fn id(&self) -> std::thread::ThreadId {
        self.os.id()
    }

    /// What it was named when it was started; of a test, the test's name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.os.name()
    }
}

/// A [`Waker`](std::task::Waker) of it unparks it.
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

/// Waits for a spawned thread; made by [`spawn`].
#[derive(Debug)]
pub struct JoinHandle<T> {
    thread: Thread,
    ends: Ends<T>,
}

/// How a thread says that it has ended.
#[derive(Debug)]
enum Ends<T> {
    Machine(std::thread::JoinHandle<T>),
    World(Arc<Mutex<Left<T>>>),
}

/// What a thread of a simulated world leaves behind.
#[derive(Debug)]
struct Left<T> {
    is_over: bool,
    result: Option<std::thread::Result<T>>,
    waits: Option<Thread>,
}

impl<T> JoinHandle<T> {
    /// Waits until the thread has ended.
    ///
    /// # Errors
    ///
    /// If it panicked, with what it did so.
    ///
    /// # Panics
    ///
    /// If the thread waits for itself in a simulated world.
    pub fn join(self) -> std::thread::Result<T> {
        let left = match self.ends {
            Ends::Machine(handle) => return handle.join(),
            Ends::World(left) => left,
        };
        let me = current();
        assert!(me != self.thread, "a thread waits for its own end");
        loop {
            {
                let mut left = lock(&left);
                if let Some(result) = left.result.take() {
                    return result;
                }
                if left.is_over {
                    return Err(Box::new("the world of the thread was over before it began"));
                }
                left.waits = Some(me.clone());
            }
            super::park(None);
        }
    }

    /// Whether the thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.ends {
            Ends::Machine(handle) => handle.is_finished(),
            Ends::World(left) => lock(left).is_over,
        }
    }

    /// The thread.
    #[must_use]
    pub const fn thread(&self) -> &Thread {
        &self.thread
    }
}

/// A thread of a simulated world ends, or never begins, when this is dropped.
struct Ending<T>(Arc<Mutex<Left<T>>>);

impl<T> Drop for Ending<T> {
    fn drop(&mut self) {
        let waits = {
            let mut left = lock(&self.0);
            left.is_over = true;
            left.waits.take()
        };
        waits.into_iter().for_each(|waits| waits.unpark());
    }
}

fn lock<T>(left: &Mutex<Left<T>>) -> std::sync::MutexGuard<'_, Left<T>> {
    left.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread.
#[must_use]
pub fn current() -> Thread {
    Thread { os: this_thread(), world: world().map(|world| Arc::downgrade(&world)) }
}

/// The calling thread as one of the machine.
pub(crate) fn this_thread() -> std::thread::Thread {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    std::thread::current()
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

/// Starts a thread: of the simulated world that the caller is in, if it is in one.
///
/// # Errors
///
/// If the operating system, or the world, has no thread to give.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    if let Some(world) = world() {
        return spawn_in(&world, name, body);
    }
    let handle = spawn_on_machine(name, body)?;
    let thread = Thread::of(handle.thread().clone());
    Ok(JoinHandle { thread, ends: Ends::Machine(handle) })
}

/// Starts a thread of the machine, whatever world the calling thread is in.
pub(crate) fn spawn_on_machine<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<std::thread::JoinHandle<T>> {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

fn spawn_in<T: Send + 'static>(
    world: &Arc<dyn World>,
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let left = Arc::new(Mutex::new(Left { is_over: false, result: None, waits: None }));
    let (ending, world_of, fault) = (Ending(Arc::clone(&left)), Arc::clone(world), fault());
    let run = move || {
        let entered = enter(Arc::clone(&world_of));
        set_fault(fault);
        let result = catch_unwind(AssertUnwindSafe(body));
        if let Err(why) = &result {
            world_of.panicked(&**why);
        }
        lock(&ending.0).result = Some(result);
        drop(ending);
        drop(entered);
    };
    let mut thread = world.spawn(name, Box::new(run))?;
    thread.world = Some(Arc::downgrade(world));
    Ok(JoinHandle { thread, ends: Ends::World(left) })
}

/// The fault that a test has planted on the calling thread, by its type and number. What the thread
/// spawns in a simulated world has it too.
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

/// Lets another thread of the machine run: for a wait of a few instructions
/// that lasts only if the other was preempted in them.
pub(crate) fn yield_now() {
    #[expect(clippy::disallowed_methods, reason = "this is the seam")]
    std::thread::yield_now();
}

/// Sleeps as a thread of the machine, whatever world it is in, until it is
/// [unparked](std::thread::Thread::unpark), at most for so long.
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
