//! The threads that drive the links when no other thread waits.
//!
//! One is on duty: it drives while no other thread does. While it is
//! [outside](crate::am::Request::outside) of a handler, which may last, a second thread stands by, looks now and then,
//! and takes over if the same is under way at two looks. The thread on duty also does errands, for threads
//! that have no time for them: so it goes outside as well. Who does what when, the [`Roster`] says;
//! here are the threads that ask it and do so.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use egret_net::rt::{self, Thread};
use egret_net::sync::{DutyTask, Employment, Mutex, Roster, RosterOrder};

use super::core::LinksCore;
use crate::am::{DrivingScope, DrivingThread, go_outside, server};
use crate::in_handler::to_end;

/// The threads in the background.
#[derive(Debug, Default)]
pub(crate) struct BackgroundThreads {
    /// Of the links, in this process.
    number: u32,
    roster: Roster<Thread>,
    /// Threads that have the links for as long as they work for them.
    holders: AtomicUsize,
    /// Whether an event loop drives the links.
    has_loop: AtomicBool,
    /// What the thread on duty is to do for others.
    errands: Mutex<VecDeque<Errand>>,
    /// Whether there are some. Written under their lock.
    has_errands: AtomicBool,
}

/// Something that the thread on duty does for another thread.
struct Errand(Box<dyn FnOnce() + Send>);

/// Starts the first. It ends soon after the last handle to the links is gone.
pub(super) fn start(core: &Arc<LinksCore>) -> std::io::Result<()> {
    core.crew.employ(core).map(drop)
}

impl BackgroundThreads {
    pub(super) fn new(number: u32) -> Self {
        Self { number, ..Self::default() }
    }

    /// Has a thread more, if that is needed and may be; whether there is one.
    fn employ(self: &Arc<Self>, core: &Arc<LinksCore>) -> std::io::Result<bool> {
        match self.roster.employ() {
            Employment::Present => return Ok(true),
            Employment::Full => return Ok(false),
            Employment::Start => {}
        }
        let (crew, core) = (Arc::clone(self), Arc::downgrade(core));
        let started = rt::spawn("egret links", move || crew.work(&core));
        started.inspect_err(|_| self.roster.start_failed()).map(|_| true)
    }

    fn work(self: &Arc<Self>, core: &Weak<LinksCore>) {
        let me = rt::current();
        let (mut order, mut is_late) = (self.roster.started(&me, rt::now()), false);
        loop {
            match order {
                RosterOrder::Drive => {
                    let on_duty =
                        DrivingScope::new(DrivingThread::OnDuty, self.number, Weak::clone(core));
                    let is_relieved = be_on_duty(self, core, is_late);
                    drop(on_duty);
                    if !is_relieved {
                        self.roster.leave(&me);
                        return drop(self.take_errands());
                    }
                    order = self.roster.report(&me, rt::now());
                }
                RosterOrder::Park(until) => {
                    rt::park(until);
                    order = self.roster.look(&me, rt::now());
                }
                RosterOrder::End => return,
            }
            is_late = true;
        }
    }

    /// Ensures that a thread stands by. Whether there is such a thread.
    #[inline]
    pub(crate) fn has_standby(self: &Arc<Self>, core: &Arc<LinksCore>) -> bool {
        self.roster.has_standby() || self.find_standby(core)
    }

    #[cold]
    fn find_standby(self: &Arc<Self>, core: &Arc<LinksCore>) -> bool {
        self.employ(core).unwrap_or(false)
    }

    /// The thread on duty goes outside of a handler.
    #[inline]
    pub(crate) fn begin(&self) -> DutyTask {
        let begun = self.roster.begin();
        if begun.wakes_standby {
            self.roster.call_standby().iter().for_each(Thread::unpark);
        }
        begun
    }

    /// The thread is back. Whether it is still on duty.
    #[inline]
    pub(crate) fn end(&self, begun: DutyTask) -> bool {
        self.roster.end(begun)
    }

    /// The calling thread, which was on duty and is outside, will not be back soon.
    #[cold]
    pub(crate) fn relieve(&self) {
        self.roster.relieve(&rt::current()).iter().for_each(Thread::unpark);
    }

    /// Whether the thread on duty is there, has no errand, and another stands by.
    pub(crate) fn is_at_hand(self: &Arc<Self>, core: &Arc<LinksCore>) -> bool {
        !self.has_errands() && self.roster.is_at_hand() && self.has_standby(core)
    }

    /// Has an errand done, by the thread on duty when it is [called](LinksCore::call_background) or by the
    /// one that takes over. An errand that no thread does is dropped.
    pub(crate) fn leave_errand(&self, errand: impl FnOnce() + Send + 'static) {
        let mut errands = self.errands.lock();
        errands.push_back(Errand(Box::new(errand)));
        self.has_errands.store(true, Ordering::Release);
    }

    /// Whether there is something to do for others.
    #[inline]
    pub(super) fn has_errands(&self) -> bool {
        self.has_errands.load(Ordering::Acquire)
    }

    fn next_errand(&self) -> Option<Errand> {
        let mut errands = self.errands.lock();
        let next = errands.pop_front();
        self.has_errands.store(!errands.is_empty(), Ordering::Release);
        next
    }

    fn take_errands(&self) -> VecDeque<Errand> {
        let mut errands = self.errands.lock();
        self.has_errands.store(false, Ordering::Release);
        std::mem::take(&mut errands)
    }

    /// Does what is to be done for others, until the standby has taken over: whether it has. An errand
    /// for which no thread stands by is dropped.
    fn do_errands(self: &Arc<Self>, core: &Arc<LinksCore>) -> bool {
        while self.has_errands()
            && let Some(Errand(errand)) = self.next_errand()
        {
            if !self.has_standby(core) {
                drop(errand);
                continue;
            }
            go_outside(core, || to_end(errand));
            if server().0 != DrivingThread::OnDuty {
                return true;
            }
        }
        false
    }

    /// Has the thread on duty look.
    #[cold]
    pub(super) fn call(&self) {
        self.roster.on_duty().iter().for_each(Thread::unpark);
    }

    /// There is nothing to drive any more.
    pub(super) fn close(&self) {
        self.roster.close().for_each(|thread| thread.unpark());
    }

    /// An event loop drives the links, or does not any more: while one does, the thread on duty
    /// looks only when it is called. Whether there was one.
    #[cfg(feature = "tokio")]
    pub(crate) fn set_loop(&self, drives: bool) -> bool {
        let before = self.has_loop.swap(drives, Ordering::AcqRel);
        self.call();
        before
    }

    /// Whether an event loop drives the links.
    pub(super) fn has_loop(&self) -> bool {
        self.has_loop.load(Ordering::Relaxed)
    }

    /// Threads that have the links for as long as they work for them.
    pub(super) fn holders(&self) -> usize {
        self.holders.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Errand")
    }
}

/// A thread that may have had the role, and left it. Dropped, also by a panic, it has the background
/// go on that [rests](LinksCore::call_rested).
pub(super) struct RoleExit<'a>(pub(super) &'a LinksCore);

impl Drop for RoleExit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.call_rested();
    }
}

/// The links, of a thread that works for them.
struct WorkerHold<'a> {
    core: Arc<LinksCore>,
    crew: &'a BackgroundThreads,
}

impl<'a> WorkerHold<'a> {
    fn new(core: &Weak<LinksCore>, crew: &'a BackgroundThreads) -> Option<Self> {
        let core = core.upgrade()?;
        crew.holders.fetch_add(1, Ordering::Relaxed);
        Some(Self { core, crew })
    }
}

impl Drop for WorkerHold<'_> {
    fn drop(&mut self) {
        self.crew.holders.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Drives while no other thread does: at first at once, if a thread should have before. Until the
/// links are gone, or the standby has taken over: whether that is so.
fn be_on_duty(crew: &Arc<BackgroundThreads>, core: &Weak<LinksCore>, mut is_late: bool) -> bool {
    let (mut turns, mut trimmed) = (None, rt::now());
    loop {
        let Some(held) = WorkerHold::new(core, crew) else { return false };
        let core = &held.core;
        if core.is_forsaken() {
            return false;
        }
        if core.is_called.swap(false, Ordering::Acquire) {
            core.flush();
            is_late = true;
        }
        if server().0 == DrivingThread::OnDuty && crew.do_errands(core) {
            return true;
        }
        if crew.has_loop() && server().0 == DrivingThread::OnDuty {
            (turns, is_late) = (None, false);
            drop(held);
            rt::park(None);
            continue;
        }
        let before = turns.replace(core.driving_role.uses());
        if server().0 == DrivingThread::OnDuty && before != turns && !std::mem::take(&mut is_late) {
            drop(held);
            rt::park(Some(rt::now() + QUIET));
            continue;
        }
        // Said before it is asked whose the role is: who has it then sees this when it leaves.
        core.rests.store(true, Ordering::Release);
        let until = core.nic.now() + LOOK;
        let is_taken = server().0 == DrivingThread::OnDuty && !core.drive_behind(until);
        // What is used now and then, and between two waits of the program, stays.
        if rt::now() - trimmed >= TRIM {
            core.depot.trim();
            trimmed = rt::now();
        }
        if server().0 != DrivingThread::OnDuty {
            return true;
        }
        // Who was asked to leave gives way for a moment. Else who comes from now on is seen.
        let stays = is_taken || core.nic.now() >= until;
        turns = stays.then(|| core.driving_role.uses());
        if is_taken {
            // Who has the role waits, and long. It calls when it leaves.
            drop(held);
            rt::park(Some(rt::now() + LOOK));
        } else {
            core.rests.store(false, Ordering::Relaxed);
        }
    }
}

/// If no thread has driven for so long, none waits: what comes then is heard after twice that, and
/// the time it takes a thread to wake. A glance costs a few microseconds while others drive.
const QUIET: Duration = Duration::from_micros(150);
/// How often the thread on duty looks whether there are links at all, if nothing else happens.
const LOOK: Duration = Duration::from_secs(5);
/// How long memory for what arrives is kept though nothing does, at least.
const TRIM: Duration = Duration::from_secs(5);
