//! The nic and its listeners.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::bell::{Habit, Sleeper};
use super::driver::{After, Driver, Fixed, Listening, Settled};
use super::layout::{BELL, BELL_BYTES, DEPTH, TRANSFER_MAX};
use super::link::Link;
use super::memory::Own;
use super::rendezvous::{Door, DoorError, Stance};
use super::sleep::Sleep;
use super::token::Token;
use super::vi::ShmVi;
use crate::atomics::Lean;
use crate::fabric::{ConnectRequest, ListenerOps, NicOps, OpenError, Seen, ViOps, ViSpec};
use crate::rt::{self, Instant};
use crate::vi::{ConnectError, Keys, Limits, ListenError, NicOptions, Notices, Reliability, Wait};

/// What a nic, its listeners and its connections share.
#[derive(Debug)]
pub(super) struct Inner {
    pub fixed: Fixed,
    pub wait: Wait,
    driver: Lean<Driver>,
    pub sleep: Sleep,
    /// How much has happened under the driver's lock, and beside it. What waits
    /// are for is that the sum grows.
    happened: AtomicU64,
    happened_beside: AtomicU64,
}

/// What the set can say at once.
pub(super) const EVENTS: usize = 64;

impl Inner {
    /// Moves messages; now and then looks at the sockets. With one connection
    /// and nothing to do it costs about 25 ns, and one load of a line that is
    /// in the cache until the peer writes it.
    pub(super) fn progress(self: &Arc<Self>) -> Seen {
        // Whoever has it does the same just now, and counts what happens.
        if let Some(mut driver) = self.driver.try_lock() {
            driver.poll_quickly(&self.fixed);
            if driver.is_time_to_look() {
                self.look(&mut driver);
            }
            let wake = driver.after.is_news() && self.count(&mut driver);
            if wake || driver.after.has_more() {
                let after = std::mem::take(&mut driver.after);
                drop(driver);
                self.finish(after, wake);
            }
        }
        self.seen()
    }

    #[inline]
    pub(super) fn seen(&self) -> Seen {
        let beside = self.happened_beside.load(Ordering::SeqCst);
        Seen(self.happened.load(Ordering::Acquire).wrapping_add(beside))
    }

    /// Looks at the sockets without waiting.
    #[cold]
    fn look(&self, driver: &mut Driver) {
        let mut space = [MaybeUninit::uninit(); EVENTS];
        let events = ready(&self.fixed.sockets, &mut space, Some(Duration::ZERO));
        let mut after = std::mem::take(&mut driver.after);
        for event in events {
            driver.ready(Token::decode(event.data.u64()), &self.fixed, &mut after);
        }
        driver.tick(rt::now(), &self.fixed, &mut after);
        driver.after = after;
    }

    /// Something has happened; for whoever has the driver's lock, which orders it
    /// with those who go to sleep. Whether there are any.
    #[inline]
    fn count(&self, driver: &mut Driver) -> bool {
        driver.after.counted();
        driver.happened += 1;
        self.happened.store(driver.happened, Ordering::Release);
        driver.sleepers > 0
    }

    /// Looks at everything once more before a sleep. Whether there is nothing
    /// to do, and until when that will last.
    pub(super) fn last_look(&self) -> (Option<Option<Instant>>, After) {
        let mut after = After::default();
        let (busy, deadline) = self.driver(|driver| {
            let busy = driver.poll_links(&self.fixed, &mut after, true);
            if after.is_news() {
                self.count(driver);
            }
            (busy, driver.deadline())
        });
        let idle = !busy && !after.is_news();
        // Those who wait are told when the place of the one who sleeps is free.
        (idle.then_some(deadline), after)
    }

    /// Deals with what ended the sleep with this number, or a look before it if
    /// `None`. No bell is armed.
    pub(super) fn woken(&self, sleep: u64, events: Option<&[epoll::Event]>) -> After {
        self.driver(|driver| {
            driver.poll_quickly(&self.fixed);
            let mut look = events.is_some_and(<[_]>::is_empty);
            for event in events.unwrap_or_default() {
                match Token::decode(event.data.u64()) {
                    Token::Cord(id) => driver.rung(id, sleep),
                    _ => look = true,
                }
            }
            if look || driver.is_time_to_look() {
                self.look(driver);
            }
            if driver.after.is_news() {
                self.count(driver);
            }
            std::mem::take(&mut driver.after)
        })
    }

    pub(super) fn driver<R>(&self, body: impl FnOnce(&mut Driver) -> R) -> R {
        self.driver.with(body)
    }

    /// Tells everyone, with no lock held, and wakes those who sleep if `wake`.
    pub(super) fn finish(self: &Arc<Self>, after: After, wake: bool) {
        let After { notices, wakers, settled, .. } = after;
        if wake {
            self.sleep.end();
        }
        for Settled { promise, result } in settled {
            let made = result.map(|link| -> Box<dyn ViOps> { Box::new(self.vi(link)) });
            drop(promise.fulfil(made));
        }
        notices.give();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Tells of what happened beside the driver.
    #[inline]
    pub(super) fn tell(&self, notices: Notices) {
        if !notices.is_empty() {
            self.happen();
            notices.give();
        }
    }

    pub(super) fn happen(&self) {
        self.happened_beside.fetch_add(1, Ordering::SeqCst);
        self.sleep.end();
    }

    fn vi(self: &Arc<Self>, link: Arc<Link>) -> ShmVi {
        ShmVi::new(Arc::clone(self), link)
    }
}

/// What a set says, within so much time. An error is as if it had passed: the
/// caller looks, and comes again.
pub(super) fn ready<'a>(
    set: &OwnedFd,
    space: &'a mut [MaybeUninit<epoll::Event>; EVENTS],
    within: Option<Duration>,
) -> &'a [epoll::Event] {
    let within = within.map(|within| {
        Timespec::try_from(within).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
    });
    epoll::wait(set, space, within.as_ref()).map_or(&[], |(events, _)| events)
}

/// A nic of this machine's shared memory.
#[derive(Debug)]
pub(super) struct ShmNic(Arc<Inner>);

impl ShmNic {
    pub(super) fn open(options: &NicOptions) -> Result<Self, OpenError> {
        let host = options.host.clone();
        let stance = Stance { trust: options.trust, secret: options.secret.clone() };
        let refused = |why: String| OpenError::Refused { host: host.clone(), why };
        let door = Door::open(&host, stance.clone()).map_err(|why| match why {
            DoorError::Taken { host } => OpenError::Taken { host },
            why => refused(why.to_string()),
        })?;
        let bell_page = Own::new(BELL_BYTES).map_err(|why| refused(why.to_string()))?;
        let habit = if options.wait == Wait::Spin { Habit::Spins } else { Habit::Sleeps };
        let sleeper = Sleeper::new(bell_page.clone(), BELL, habit);
        let system = |errno: Errno| refused(errno.to_string());
        let sleep = Sleep::new(sleeper).map_err(system)?;
        let set = || epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system);
        let (sockets, bells) = (set()?, set()?);
        Token::Door.watch(&sockets, door.fd()).map_err(system)?;
        Token::Sockets.watch(&bells, &sockets).map_err(system)?;
        Token::Wake.watch(&bells, sleep.fd()).map_err(system)?;
        Ok(Self(Arc::new(Inner {
            fixed: Fixed { host, keys: Arc::default(), sockets, bells, bell_page, stance },
            wait: options.wait,
            driver: Lean::new(Driver::new(door)),
            sleep,
            happened: AtomicU64::new(0),
            happened_beside: AtomicU64::new(0),
        })))
    }
}

impl NicOps for ShmNic {
    fn host(&self) -> &str {
        &self.0.fixed.host
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::least();
        limits.queue_depth = DEPTH;
        limits.transfer_max = TRANSFER_MAX;
        limits.segments_max = 64;
        limits.registrable_max = 1 << 34;
        limits
    }

    fn keys(&self) -> &Arc<Keys> {
        &self.0.fixed.keys
    }

    fn listen(
        &self,
        service: &str,
        tag: u64,
        reliability: Reliability,
    ) -> Result<Box<dyn ListenerOps>, ListenError> {
        let key = (service.to_owned(), tag);
        self.0.driver(|driver| {
            if !driver.is_up() {
                return Err(ListenError::NicDown);
            }
            if driver.listeners.contains_key(&key) {
                return Err(ListenError::Taken { service: key.0.clone(), tag });
            }
            driver.listeners.insert(key.clone(), Listening::new(reliability));
            Ok(())
        })?;
        Ok(Box::new(ShmListener { inner: Arc::clone(&self.0), key }))
    }

    fn connect(&self, request: ConnectRequest) {
        let (now, mut after) = (rt::now(), After::default());
        let refused = self.0.driver(|driver| {
            if !driver.is_up() {
                return Some(request);
            }
            driver.connect(request, now);
            driver.tick(now, &self.0.fixed, &mut after);
            None
        });
        if let Some(request) = refused {
            drop(request.promise.fulfil(Err(ConnectError::NicDown)));
            return;
        }
        // A thread that sleeps has a new moment to wake up at.
        self.0.happen();
        self.0.finish(after, false);
    }

    fn progress(&self) -> Seen {
        self.0.progress()
    }

    fn wait(&self, seen: Seen, until: Option<Instant>) -> Seen {
        self.0.wait(seen, until);
        self.0.seen()
    }

    fn wake(&self) {
        self.0.happen();
    }
}

impl Drop for ShmNic {
    fn drop(&mut self) {
        let mut after = After::default();
        self.0.driver(|driver| driver.shut(&mut after));
        self.0.happen();
        self.0.finish(after, false);
    }
}

#[derive(Debug)]
struct ShmListener {
    inner: Arc<Inner>,
    key: (String, u64),
}

impl ListenerOps for ShmListener {
    fn try_accept(&self, spec: ViSpec) -> Result<Option<Box<dyn ViOps>>, ListenError> {
        let made = self.inner.driver(|driver| {
            let up = driver.is_up();
            up.then(|| driver.accept(&self.key, spec, &self.inner.fixed))
        });
        Ok(made
            .ok_or(ListenError::NicDown)?
            .map(|link| -> Box<dyn ViOps> { Box::new(self.inner.vi(link)) }))
    }

    fn wake_on_arrival(&self, waker: &Waker) {
        // Cloned and, if it is not kept, dropped outside the lock.
        let mut waker = Some(waker.clone());
        self.inner.driver(|driver| {
            let Some(listening) = driver.listeners.get_mut(&self.key) else { return };
            let is_known = |new: &Waker| listening.wakers.iter().any(|known| known.will_wake(new));
            if !waker.as_ref().is_some_and(is_known) {
                listening.wakers.extend(waker.take());
            }
        });
        drop(waker);
    }
}

impl Drop for ShmListener {
    fn drop(&mut self) {
        let listening = self.inner.driver(|driver| driver.listeners.remove(&self.key));
        // Its wakers are dropped outside the lock: one may be the last to hold a nic.
        drop(listening.map(Listening::close));
    }
}
