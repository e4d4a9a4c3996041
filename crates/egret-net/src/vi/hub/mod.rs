//! What the handles of a nic share: the lock around its machine, the place to sleep, counting
//! what has happened, and telling of it when no lock is held.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | the lock, and the calls that go through it |
//! | `locked.rs` | what stands on a nic and shares its lock |
//! | `spin.rs` | how a thread looks, gives way and goes to sleep: the spin policy |
//! | `sleep.rs` | how the threads of a nic sleep |
//! | `watch.rs` | sleeping without a thread, for event loops |

pub(crate) mod fault;
mod locked;
mod sleep;
mod spin;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use self::locked::NicLocked;
use self::sleep::Sleep;
use self::spin::History;
pub use self::spin::Spin;
pub(super) use self::spin::WaitClock;
use super::machine::{
    After, ConnId, ConnectRequest, Drained, EventCount, Machine, Unposted, VirtualTime,
};
use super::{
    DrainId, Keys, Lane, Limits, Position, PostError, Posted, PublicKey, Reliability, Sink, Wait,
};
use crate::atomics::BiasedLock;
use crate::rt::{self, Instant};

/// A machine, and what its handles share.
#[derive(Debug)]
pub(super) struct Hub {
    pub host: Box<str>,
    pub key: Option<PublicKey>,
    pub limits: Limits,
    pub keys: Arc<Keys>,
    /// Of which levels the machine carries eager messages itself.
    has_eager: [bool; 3],
    /// Whether eager messages come and go without a poll.
    pub is_at_once: bool,
    /// Where time passes, if that is not the real one.
    world: Option<Arc<dyn VirtualTime>>,
    /// Whether the machine is polled, also if its time passes elsewhere.
    is_driven: bool,
    wait: Wait,
    inside: BiasedLock<HubState>,
    sleep: Sleep,
    history: History,
    /// How much has happened under the lock, and beside it. What waits are for is
    /// that the sum grows.
    happened: AtomicU64,
    happened_beside: AtomicU64,
    /// Whether calls have left something to do.
    has_left: AtomicBool,
}

#[derive(Debug)]
struct HubState {
    machine: Box<dyn Machine>,
    /// How much has happened here.
    happened: u64,
    /// Threads that sleep, or are about to.
    sleepers: u32,
    /// What a call leaves to do; empty between calls.
    after: After,
    /// What calls have left to do when the lock is free, and whether there is a waker to wake.
    left: After,
    wakes: bool,
}

impl Hub {
    pub(super) fn new(machine: Box<dyn Machine>, wait: Wait) -> Arc<Self> {
        Arc::new(Self {
            host: machine.host().into(),
            key: machine.key(),
            limits: machine.limits(),
            keys: Arc::clone(machine.keys()),
            has_eager: Reliability::ALL.map(|level| machine.has_eager(level)),
            is_at_once: machine.is_at_once(),
            world: machine.world(),
            is_driven: machine.is_driven(),
            wait,
            sleep: Sleep::new(machine.descriptor()),
            inside: BiasedLock::new(HubState {
                machine,
                happened: 0,
                sleepers: 0,
                after: After::default(),
                left: After::default(),
                wakes: false,
            }),
            history: History::default(),
            happened: AtomicU64::new(0),
            happened_beside: AtomicU64::new(0),
            has_left: AtomicBool::new(false),
        })
    }

    /// Whether the machine carries eager messages of this level itself, not as posted ones.
    pub(super) const fn has_eager(&self, level: Reliability) -> bool {
        self.has_eager[level as usize]
    }

    /// A value behind the lock. What a world carries out it delivers under a lock of its own,
    /// which the calls of a machine take under this one: there the value has another.
    pub(super) fn sharing<T>(&self, value: T) -> BiasedLock<T> {
        match self.world {
            None => self.inside.sharing(value),
            Some(_) => BiasedLock::new(value),
        }
    }

    /// The present moment where the machine lives.
    pub(super) fn now(&self) -> Instant {
        self.world.as_ref().map_or_else(rt::now, |world| world.now())
    }

    /// Does what can be done without waiting. A thread that has the lock by something beside
    /// does nothing: it may have called for something else, and others are told of what happens.
    #[inline]
    pub(super) fn progress(&self) -> EventCount {
        if let Some(world) = &self.world {
            return if self.inside.is_mine() { self.seen() } else { self.look(&**world) };
        }
        // The holder counts what happens, and a thread that would sleep waits for it.
        let polled = self.inside.try_with(|inside| {
            self.call(inside, |machine, after| machine.poll(after));
        });
        if polled.is_some() {
            self.tell_if_left();
        }
        self.seen()
    }

    /// Lets happen what is due in the world of the machine, and polls the machine then: what comes
    /// of that is not among what was seen.
    fn look(&self, world: &dyn VirtualTime) -> EventCount {
        let seen = world.look();
        if self.is_driven {
            self.work(|machine, after| machine.poll(after));
        }
        seen
    }

    /// Lets the time of the world pass until more has happened than was `seen`, at the latest
    /// `until`.
    fn wait_in(
        &self,
        world: &dyn VirtualTime,
        seen: EventCount,
        until: Option<Instant>,
    ) -> EventCount {
        if !self.is_driven {
            return world.wait(seen, until);
        }
        let next = self.quietly(|machine| machine.next_event());
        let seen = world.wait(seen, until.into_iter().chain(next).min());
        self.work(|machine, after| machine.poll(after));
        seen
    }

    /// Works under the lock, and tells afterwards.
    #[inline]
    pub(super) fn work<R>(&self, body: impl FnOnce(&mut dyn Machine, &mut After) -> R) -> R {
        let _tell = TellLater(self);
        self.inside.with(|inside| self.call(inside, body))
    }

    /// Works under the lock, where nothing is to be delivered afterwards.
    #[inline]
    pub(super) fn quietly<R>(&self, body: impl FnOnce(&mut dyn Machine) -> R) -> R {
        self.inside.with(|inside| body(&mut *inside.machine))
    }

    /// Calls the machine with the lock. Whom to tell of what comes of it is put aside until the
    /// lock is free, which is soon, or when the thread leaves what it has [beside](NicLocked).
    #[inline]
    fn call<R>(
        &self,
        inside: &mut HubState,
        body: impl FnOnce(&mut dyn Machine, &mut After) -> R,
    ) -> R {
        inside.after.begin();
        let result = body(&mut *inside.machine, &mut inside.after);
        let is_news = inside.after.is_news();
        if is_news
            && self.is_driven
            && let Some(world) = &self.world
        {
            world.wake();
        }
        let wake = is_news && self.count(inside);
        if wake || inside.after.has_more() {
            self.put_aside(inside, wake);
        }
        result
    }

    fn put_aside(&self, inside: &mut HubState, wake: bool) {
        inside.after.move_to(&mut inside.left);
        inside.wakes |= wake;
        self.has_left.store(true, Ordering::Relaxed);
    }

    /// Tells of what calls have left, if the thread has left the lock.
    #[inline]
    fn tell_if_left(&self) {
        if self.has_left.load(Ordering::Relaxed) {
            self.tell_left();
        }
    }

    #[cold]
    fn tell_left(&self) {
        if self.inside.is_mine() {
            return;
        }
        let (after, wake) = self.inside.with(|inside| {
            self.has_left.store(false, Ordering::Relaxed);
            (std::mem::take(&mut inside.left), std::mem::take(&mut inside.wakes))
        });
        self.finish(after, wake);
    }

    #[inline]
    pub(super) fn post(&self, conn: ConnId, posted: Posted) -> Result<(), Unposted> {
        self.history.posted(&posted);
        self.work(|machine, after| machine.post(conn, posted, after))
    }

    /// Sends an eager message. Of what comes of it when nothing is against it nobody is to be
    /// told.
    #[inline]
    pub(super) fn send(
        &self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<Position, PostError> {
        self.history.spoke();
        match self.quietly(|machine| machine.try_send(conn, lane, tag, parts)) {
            Some(behind) => Ok(Position::new(behind.get())),
            None => self.send_or_say(conn, lane, tag, parts),
        }
    }

    #[cold]
    fn send_or_say(
        &self,
        conn: ConnId,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<Position, PostError> {
        self.work(|machine, after| machine.send(conn, lane, tag, parts, after))
    }

    /// Passes eager messages that are there to `sink`, at most `budget`. How many.
    #[inline]
    pub(super) fn drain(&self, drain: DrainId, budget: usize, sink: &mut Sink<'_>) -> usize {
        let drained = self.work(|machine, after| machine.drain(drain, budget, sink, after));
        self.drained(drained, budget)
    }

    /// The same; if there are none, those that a poll finds.
    #[inline]
    pub(super) fn look_and_drain(
        &self,
        drain: DrainId,
        budget: usize,
        sink: &mut Sink<'_>,
    ) -> usize {
        let mut drained = self.work(|machine, after| {
            let drained = machine.drain(drain, budget, sink, after);
            if drained.count > 0 || self.world.is_some() {
                return drained;
            }
            machine.poll(after);
            if after.happened { machine.drain(drain, budget, sink, after) } else { drained }
        });
        if drained.count == 0
            && let Some(world) = &self.world
        {
            self.look(&**world);
            drained = self.work(|machine, after| machine.drain(drain, budget, sink, after));
        }
        self.drained(drained, budget)
    }

    #[inline]
    fn drained(&self, drained: Drained, budget: usize) -> usize {
        match drained {
            Drained { count: 0, .. } => {}
            Drained { answers: true, .. } => self.history.spoke(),
            Drained { count, .. } => self.history.drained(count < budget),
        }
        drained.count
    }

    pub(super) fn connect(&self, request: ConnectRequest) {
        self.work(|machine, after| {
            machine.connect(request, after);
            // A thread that sleeps has a new moment to wake up at.
            after.happened = true;
        });
    }

    #[inline]
    fn seen(&self) -> EventCount {
        let beside = self.happened_beside.load(Ordering::SeqCst);
        EventCount(self.happened.load(Ordering::Acquire).wrapping_add(beside))
    }

    fn has_happened(&self, seen: EventCount) -> bool {
        self.seen() != seen
    }

    /// Something has happened; called by the thread that has the lock, which orders it with threads
    /// that go to sleep. Whether there are any.
    #[inline]
    fn count(&self, inside: &mut HubState) -> bool {
        inside.after.counted();
        inside.happened += 1;
        self.happened.store(inside.happened, Ordering::Release);
        inside.sleepers > 0
    }

    /// Tells everyone, with no lock held, and wakes those who sleep if `wake`. Who is woken by what
    /// is told only now may have looked before: it is counted once more.
    fn finish(&self, mut after: After, wake: bool) {
        if wake {
            self.sleep.end();
        }
        if after.wake() {
            self.wake();
        }
        after.tell();
    }

    /// Something has happened beside the lock: waits end.
    pub(super) fn wake(&self) {
        if let Some(world) = &self.world {
            return world.wake();
        }
        self.happened_beside.fetch_add(1, Ordering::SeqCst);
        self.sleep.end();
    }
}

/// Tells of what calls have left when it is dropped, which is behind the lock, also if a call
/// panicked.
struct TellLater<'a>(&'a Hub);

impl Drop for TellLater<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.tell_if_left();
    }
}

#[cfg(any(test, feature = "fuzzing"))]
impl super::Nic {
    /// Works on a machine of this type, for tests that look inside.
    pub(crate) fn inside<M: Machine, R>(&self, body: impl FnOnce(&mut M, &mut After) -> R) -> R {
        self.hub.work(|machine, after| {
            let machine: &mut dyn std::any::Any = machine;
            body(machine.downcast_mut().expect("a machine of another type"), after)
        })
    }
}

/// The last handle is gone: the nic goes down.
impl Drop for Hub {
    fn drop(&mut self) {
        self.work(|machine, after| machine.shut(after));
    }
}
