//! The nic and its listeners.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Waker;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::{Errno, retry_on_intr};

use super::bell::{Habit, Sleeper};
use super::driver::{After, Driver, Fixed, Listening, Settled};
use super::layout::{BELL, BELL_BYTES, DEPTH};
use super::link::Link;
use super::memory::Own;
use super::rendezvous::{Door, DoorError};
use super::sleep::Sleep;
use super::token::Token;
use super::vi::ShmVi;
use crate::fabric::{ConnectRequest, ListenerOps, NicOps, OpenError, Seen, ViOps, ViSpec};
use crate::rt::{self, Instant};
use crate::vi::{ConnectError, Keys, Limits, ListenError, NicOptions, Reliability, Wait};

/// What a nic, its listeners and its connections share.
#[derive(Debug)]
pub(super) struct Inner {
    pub fixed: Fixed,
    pub wait: Wait,
    driver: Mutex<Driver>,
    pub sleep: Sleep,
    /// How much has happened: what waits are for.
    pub happened: AtomicU64,
}

/// What the set can say at once.
pub(super) const EVENTS: usize = 64;

impl Inner {
    /// Moves messages; now and then looks at the sockets.
    pub(super) fn progress(self: &Arc<Self>) -> Seen {
        let seen = Seen(self.happened.load(Ordering::SeqCst));
        // Whoever has it does the same just now, and counts what happens.
        let mut driver = match self.driver.try_lock() {
            Ok(driver) => driver,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return seen,
        };
        let mut after = After::default();
        driver.poll_links(&self.fixed, &mut after, false);
        if driver.is_time_to_look() {
            self.look(&mut driver, &mut after);
        }
        drop(driver);
        self.finish(after);
        Seen(self.happened.load(Ordering::SeqCst))
    }

    /// Looks at the sockets without waiting.
    fn look(&self, driver: &mut Driver, after: &mut After) {
        let mut events = Vec::with_capacity(EVENTS);
        let _ = self.ready(&mut events, Some(Duration::ZERO));
        for event in &events {
            driver.ready(Token::decode(event.data.u64()), &self.fixed, after);
        }
        driver.tick(rt::now(), &self.fixed, after);
    }

    /// What the set says, within so much time.
    pub(super) fn ready(
        &self,
        events: &mut Vec<epoll::Event>,
        within: Option<Duration>,
    ) -> Result<usize, Errno> {
        let within = within.map(|within| {
            Timespec::try_from(within).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
        });
        retry_on_intr(|| {
            epoll::wait(&self.fixed.epoll, spare_capacity(&mut *events), within.as_ref())
        })
    }

    /// Looks at everything once more before a sleep. Whether there is nothing
    /// to do, and until when that will last.
    pub(super) fn last_look(self: &Arc<Self>) -> Option<Option<Instant>> {
        let mut after = After::default();
        let mut driver = self.driver();
        let busy = driver.poll_links(&self.fixed, &mut after, true);
        driver.tick(rt::now(), &self.fixed, &mut after);
        let deadline = driver.deadline();
        drop(driver);
        let idle = !busy && !after.happened && after.notices.is_empty();
        self.finish(after);
        idle.then_some(deadline)
    }

    /// Deals with what ended a sleep. No bell is armed.
    pub(super) fn woken(self: &Arc<Self>, events: &[epoll::Event]) {
        let mut after = After::default();
        let mut driver = self.driver();
        for event in events {
            match Token::decode(event.data.u64()) {
                Token::Cord(id) => driver.rung(id, &self.fixed),
                token => driver.ready(token, &self.fixed, &mut after),
            }
        }
        driver.tick(rt::now(), &self.fixed, &mut after);
        drop(driver);
        self.finish(after);
    }

    pub(super) fn driver(&self) -> MutexGuard<'_, Driver> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells everyone, with no lock held.
    pub(super) fn finish(self: &Arc<Self>, after: After) {
        let After { notices, wakers, settled, happened } = after;
        if happened || !notices.is_empty() {
            self.happen();
        }
        for Settled { promise, result } in settled {
            let made = result.map(|link| -> Box<dyn ViOps> { Box::new(self.vi(link)) });
            drop(promise.fulfil(made));
        }
        notices.give();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn happen(&self) {
        self.happened.fetch_add(1, Ordering::SeqCst);
        self.sleep.end();
    }

    fn vi(self: &Arc<Self>, link: Arc<Link>) -> ShmVi {
        ShmVi::new(Arc::clone(self), link)
    }
}

/// A nic of this machine's shared memory.
#[derive(Debug)]
pub(super) struct ShmNic(Arc<Inner>);

impl ShmNic {
    pub(super) fn open(options: &NicOptions) -> Result<Self, OpenError> {
        let host = options.host.clone();
        let refused = |why: String| OpenError::Refused { host: host.clone(), why };
        let door = Door::open(&host).map_err(|why| match why {
            DoorError::Taken { host } => OpenError::Taken { host },
            why => refused(why.to_string()),
        })?;
        let bell_page = Own::new(BELL_BYTES).map_err(|why| refused(why.to_string()))?;
        let habit = if options.wait == Wait::Spin { Habit::Spins } else { Habit::Sleeps };
        let sleeper = Sleeper::new(bell_page.clone(), BELL, habit);
        let system = |errno: Errno| refused(errno.to_string());
        let sleep = Sleep::new(sleeper).map_err(system)?;
        let epoll: OwnedFd = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system)?;
        Token::Door.watch(&epoll, door.fd()).map_err(system)?;
        Token::Wake.watch(&epoll, sleep.fd()).map_err(system)?;
        Ok(Self(Arc::new(Inner {
            fixed: Fixed { host, keys: Arc::default(), epoll, bell_page },
            wait: options.wait,
            driver: Mutex::new(Driver::new(door)),
            sleep,
            happened: AtomicU64::new(0),
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
        limits.transfer_max = 1 << 40;
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
        let mut driver = self.0.driver();
        if !driver.is_up() {
            return Err(ListenError::NicDown);
        }
        if driver.listeners.contains_key(&key) {
            return Err(ListenError::Taken { service: key.0, tag });
        }
        driver.listeners.insert(key.clone(), Listening::new(reliability));
        Ok(Box::new(ShmListener { inner: Arc::clone(&self.0), key }))
    }

    fn connect(&self, request: ConnectRequest) {
        let mut driver = self.0.driver();
        if !driver.is_up() {
            drop(driver);
            drop(request.promise.fulfil(Err(ConnectError::NicDown)));
            return;
        }
        let mut after = After::default();
        let now = rt::now();
        driver.connect(request, now);
        driver.tick(now, &self.0.fixed, &mut after);
        drop(driver);
        // A thread that sleeps has a new moment to wake up at.
        after.happened = true;
        self.0.finish(after);
    }

    fn progress(&self) -> Seen {
        self.0.progress()
    }

    fn wait(&self, seen: Seen, until: Option<Instant>) {
        self.0.wait(seen, until);
    }

    fn wake(&self) {
        self.0.happen();
    }
}

impl Drop for ShmNic {
    fn drop(&mut self) {
        let mut after = After::default();
        self.0.driver().shut(&mut after);
        self.0.finish(after);
    }
}

#[derive(Debug)]
struct ShmListener {
    inner: Arc<Inner>,
    key: (String, u64),
}

impl ListenerOps for ShmListener {
    fn try_accept(&self, spec: ViSpec) -> Result<Option<Box<dyn ViOps>>, ListenError> {
        let mut driver = self.inner.driver();
        if !driver.is_up() {
            return Err(ListenError::NicDown);
        }
        let made = driver.accept(&self.key, spec, &self.inner.fixed);
        drop(driver);
        Ok(made.map(|link| -> Box<dyn ViOps> { Box::new(self.inner.vi(link)) }))
    }

    fn wake_on_arrival(&self, waker: &Waker) {
        // Cloned and, if it is not kept, dropped outside the lock.
        let waker = waker.clone();
        let mut driver = self.inner.driver();
        let unknown = |listening: &&mut Listening| {
            !listening.wakers.iter().any(|known| known.will_wake(&waker))
        };
        if let Some(listening) = driver.listeners.get_mut(&self.key).filter(unknown) {
            listening.wakers.push(waker);
            return;
        }
        drop(driver);
        drop(waker);
    }
}

impl Drop for ShmListener {
    fn drop(&mut self) {
        let listening = self.inner.driver().listeners.remove(&self.key);
        // Its wakers are dropped outside the lock: one may be the last to hold a nic.
        drop(listening.map(Listening::close));
    }
}
