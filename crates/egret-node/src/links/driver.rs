//! The driver: takes what has arrived, feeds the links, runs handlers, sends.
//!
//! Any thread that waits may drive; one at a time has the role. The others sit until what
//! they wait for has come or the role is theirs. A handler runs on the thread that received
//! its message, after it has given up the role.

use egret_net::rt::waits;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::task::{Poll, Waker};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::{DriverKind, RoleAttempt, RoleGuard, RoleWait, RoleWaiter};
use egret_net::vi::{Arming, EventCount};

use super::background::RoleExit;
use super::clock::DeadlineClock;
use super::core::{LinksCore, WaitStopped};
use super::deferred::is_later;
use super::state::LinksState;
use crate::am::fault::{Fault, planted};
use crate::am::{DrivingScope, DrivingThread, Upcall, run_jobs, server};
use crate::in_handler::in_handler;
use crate::wakers::wakes;

impl LinksCore {
    /// Drives the links, or has them driven, until `ready` has something, at the latest
    /// for the deadline. What `ready` is given a waker it is to keep, for who brings what
    /// it waits for.
    #[inline]
    pub(crate) fn wait<T>(
        self: &Arc<Self>,
        deadline: Deadline,
        mut ready: impl FnMut(&mut LinksState, Option<&Waker>) -> Option<T>,
    ) -> Result<T, WaitStopped> {
        self.wait_by(&mut DeadlineClock::of(deadline), &mut ready)
    }

    /// Like [`wait`](Self::wait), for what is left of a clock's time.
    #[inline]
    pub(crate) fn wait_by<T>(
        self: &Arc<Self>,
        clock: &mut DeadlineClock,
        ready: &mut impl FnMut(&mut LinksState, Option<&Waker>) -> Option<T>,
    ) -> Result<T, WaitStopped> {
        let leaves = RoleExit(self);
        let (ended, due) = self.drive_until(clock, ready);
        drop(leaves);
        if due == HandlersDue::Nothing {
            self.poll_if_due();
        } else {
            self.hand_over(due);
        }
        ended
    }

    /// The same, for a thread that will come again soon: handlers that are still due are its.
    ///
    /// A thread enters the lock once for each step: what it waits for and handlers that are due
    /// come first; then it takes the role, if that is free, and what has arrived. A handler runs
    /// without the lock and the role, and the step behind it puts it back.
    #[inline]
    pub(super) fn drive_until<T>(
        self: &Arc<Self>,
        clock: &mut DeadlineClock,
        ready: &mut impl FnMut(&mut LinksState, Option<&Waker>) -> Option<T>,
    ) -> (Result<T, WaitStopped>, HandlersDue) {
        if in_handler() {
            let found = self.state.with(|state| ready(state, None));
            return (found.ok_or(WaitStopped::InHandler), HandlersDue::Nothing);
        }
        let (mut role, mut spin) = (None, None);
        loop {
            // Who has the role next is told behind the lock.
            let mut next_holder = None;
            let step = self.state.with(|state| {
                let step = self.next_step(state, &mut role, ready);
                if !matches!(step, DriveStep::Idle { .. }) {
                    next_holder = role.take().and_then(RoleGuard::hand_on);
                }
                step
            });
            drop(next_holder);
            match step {
                DriveStep::Found(found, due) => return (Ok(found), due),
                DriveStep::Run(job) => {
                    self.call_rested();
                    spin = None;
                    if let Some(ended) = self.serve(job, clock, ready) {
                        return ended;
                    }
                }
                DriveStep::Idle { fed, next } => {
                    let spin = spin.get_or_insert_with(|| self.nic.spin());
                    // What comes at once is found without the clock.
                    if spin.again() {
                        continue;
                    }
                    let until = match clock.until(&self.nic) {
                        Ok(until) => until,
                        Err(stopped) => return (Err(stopped), HandlersDue::Nothing),
                    };
                    if fed.more {
                        self.nic.poll();
                    } else {
                        spin.wait(until.into_iter().chain(next).min());
                    }
                    role.iter().for_each(RoleGuard::count_use);
                }
                DriveStep::Taken { wake } => match self.sit(wake, clock, ready) {
                    RoleWaitResult::Found(found) => return (Ok(found), HandlersDue::Nothing),
                    RoleWaitResult::Role(turn) => role = turn,
                    RoleWaitResult::Stopped(stopped) => {
                        return (Err(stopped), HandlersDue::Nothing);
                    }
                },
            }
        }
    }

    /// One step of a thread that waits, under the lock.
    #[inline]
    fn next_step<'a, T>(
        &'a self,
        state: &mut LinksState,
        role: &mut Option<RoleGuard<'a>>,
        ready: &mut impl FnMut(&mut LinksState, Option<&Waker>) -> Option<T>,
    ) -> DriveStep<T> {
        if role.is_none() {
            // Whether who has the role is to be woken is that thread's affair.
            let role_waits = state.role_waits;
            let found = ready(state, None);
            state.role_waits = role_waits;
            if let Some(found) = found {
                return DriveStep::Found(found, HandlersDue::of(state));
            }
            if state.has_jobs()
                && let Some(job) = state.next_job()
            {
                return DriveStep::Run(job);
            }
            match self.driving_role.enter(DriverKind::Foreground) {
                RoleAttempt::Acquired(turn) => *role = Some(turn),
                RoleAttempt::Taken { wake, .. } => return DriveStep::Taken { wake },
            }
        }
        let fed = self.feed(state);
        if let Some(found) = ready(state, None) {
            state.role_waits = false;
            return DriveStep::Found(found, HandlersDue::of(state));
        }
        if state.has_jobs()
            && let Some(job) = state.next_job()
        {
            state.role_waits = false;
            return DriveStep::Run(job);
        }
        DriveStep::Idle { fed, next: state.next_event() }
    }

    /// Runs a handler that is due, and those behind it, until `ready` has something or the time is
    /// over, which is looked at after each.
    #[inline]
    fn serve<T>(
        self: &Arc<Self>,
        job: Box<Upcall>,
        clock: &mut DeadlineClock,
        ready: &mut impl FnMut(&mut LinksState, Option<&Waker>) -> Option<T>,
    ) -> Option<(Result<T, WaitStopped>, HandlersDue)> {
        clock.start(&self.nic);
        let mut ended = None;
        let has_more = run_jobs(self, job, |state| {
            let role_waits = state.role_waits;
            let found = ready(state, None);
            state.role_waits = role_waits;
            ended = found.map(Ok).or_else(|| clock.until(&self.nic).err().map(Err));
            // Another thread drives, and has left upcalls to this one, which may be long.
            if ended.is_some() && !state.left.is_empty() {
                self.nic.wake();
            }
            ended.is_some()
        });
        Some((ended?, if has_more { HandlersDue::Others } else { HandlersDue::Nothing }))
    }

    /// Waits for what [`wait`](Self::wait) would, without a thread.
    pub(crate) fn step<T>(
        self: &Arc<Self>,
        mut ready: impl FnMut(&mut LinksState, Option<&Waker>) -> Option<T>,
    ) -> impl Future<Output = T> {
        let core = Arc::clone(self);
        poll_fn(move |context| {
            core.poll();
            let found = core.state.with(|state| ready(state, Some(context.waker())));
            found.map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// The same if it is there now.
    pub(crate) fn look<T>(
        self: &Arc<Self>,
        mut ready: impl FnMut(&mut LinksState, Option<&Waker>) -> Option<T>,
    ) -> Option<T> {
        self.poll();
        self.state.with(|state| ready(state, None))
    }

    /// Lets the nic make progress now and then, also where there is always something to do
    /// without: other peers are to be heard, and what was done just now is to get on.
    #[inline]
    pub(super) fn poll_if_due(&self) {
        let feeds = self.feeds.load(Relaxed);
        if feeds < FEEDS_MAX && self.is_looked_after {
            return self.feeds.store(feeds + 1, Relaxed);
        }
        self.feeds.store(0, Relaxed);
        self.nic.poll();
    }

    /// Handlers are due, and the thread that found them leaves: who drives now is to look, or the
    /// background at once. One is run here if the thread has not run any: those who wait only for
    /// what is there already would keep the role from who would serve.
    #[cold]
    pub(crate) fn hand_over(self: &Arc<Self>, due: HandlersDue) {
        self.nic.poll();
        let has_more = match due {
            HandlersDue::Nothing => false,
            HandlersDue::Others => true,
            HandlersDue::All => {
                let job = self.state.with(LinksState::next_job);
                let _leaves =
                    DrivingScope::new(DrivingThread::Leaves, self.number, Arc::downgrade(self));
                job.is_some_and(|job| run_jobs(self, job, |_| true))
            }
        };
        if has_more {
            self.call_background();
        }
    }

    /// Feeds what has come and what has completed to the links.
    #[inline]
    fn feed(&self, state: &mut LinksState) -> FeedResult {
        (state.role_waits, state.came) = (false, None);
        // Short frames first: of a link that has ended, what came before its end.
        let drained = state.drain(&self.drain, TURN);
        let by_paths = state.drain_paths(&self.path_drain, TURN);
        let mut left = TURN;
        while left > 0
            && let Some(completion) = self.queue.take()
        {
            state.completed_or_put_aside(completion);
            left -= 1;
        }
        if drained < TURN && left > 0 {
            state.end_broken();
        }
        state.pump_blocked();
        if state.is_busy() {
            state.look_after();
        }
        let more = left == 0 || drained == TURN || by_paths == TURN;
        FeedResult { more, heard: drained > 0 || by_paths > 0 || left < TURN }
    }

    /// Waits while another thread has the role.
    #[cold]
    fn sit<T>(
        &self,
        wake: bool,
        clock: &mut DeadlineClock,
        ready: &mut impl FnMut(&mut LinksState, Option<&Waker>) -> Option<T>,
    ) -> RoleWaitResult<'_, T> {
        if wake {
            self.nic.wake();
        }
        let mut waiter = RoleWaiter::new(DriverKind::Foreground);
        let waker = waiter.waker();
        if let Some(found) = self.state.with(|state| ready(state, Some(&waker))) {
            return RoleWaitResult::Found(found);
        }
        let until = match clock.until(&self.nic) {
            Ok(until) => until,
            Err(stopped) => return RoleWaitResult::Stopped(stopped),
        };
        match self.driving_role.enter_or_wait(&mut waiter) {
            RoleAttempt::Acquired(turn) => RoleWaitResult::Role(Some(turn)),
            RoleAttempt::Taken { waiter, wake } => {
                if wake {
                    self.nic.wake();
                }
                waits::show();
                match waiter.wait(until) {
                    RoleWait::Given(turn) => RoleWaitResult::Role(Some(turn)),
                    RoleWait::Woken | RoleWait::TimedOut => RoleWaitResult::Role(None),
                }
            }
        }
    }

    /// Does what can be done without waiting. A thread that wakes somebody just now, perhaps with the
    /// role, leaves handlers to others.
    pub(crate) fn poll(self: &Arc<Self>) {
        if let RoleAttempt::Acquired(turn) = self.driving_role.enter(DriverKind::Foreground) {
            self.nic.poll();
            // Who sends without end does not keep it here.
            for _ in 0..TURNS_MAX {
                if !self.state.with(|state| self.feed(state)).more {
                    break;
                }
            }
            drop(turn);
            self.call_rested();
        }
        if wakes() {
            self.leave_handlers();
        } else if !is_later(self) {
            self.flush();
        }
    }

    /// Does what can be done, and has an event loop woken when there is more.
    pub(super) fn arm(self: &Arc<Self>) -> Arming {
        let seen = self.nic.poll();
        let (job, next, fed) = self.state.with(|state| {
            // Whether who has the role is to be woken is that thread's affair.
            let role_waits = state.role_waits;
            let fed = self.feed(state);
            state.role_waits |= role_waits;
            (state.next_job(), state.next_event(), fed)
        });
        let more = fed.more;
        // What another thread waits for may have come, which has the role and keeps no waker.
        if fed.heard {
            match self.driving_role.enter(DriverKind::Background) {
                RoleAttempt::Taken { .. } => self.nic.wake(),
                RoleAttempt::Acquired(turn) => {
                    drop(turn);
                    self.call_rested();
                }
            }
        }
        if let Some(job) = job {
            run_jobs(self, job, |_| false);
            return Arming::Ready;
        }
        match self.nic.arm(seen) {
            Arming::Armed { until } if !more => {
                Arming::Armed { until: until.into_iter().chain(next).min() }
            }
            Arming::Armed { .. } => {
                self.nic.disarm();
                Arming::Ready
            }
            Arming::Ready => Arming::Ready,
        }
    }

    /// Runs the handlers that are due, or some of them. Whether there was one.
    pub(crate) fn flush(self: &Arc<Self>) -> bool {
        let job = self.state.with(LinksState::next_job);
        let is_due = job.is_some();
        if let Some(job) = job
            && run_jobs(self, job, |_| false)
        {
            self.call_background();
        }
        is_due
    }

    /// Has handlers that are due run by who drives, or will: not by the caller, who has
    /// something else to do.
    pub(crate) fn leave_handlers(&self) {
        if self.state.with(|state| state.has_jobs()) {
            self.call_background();
        }
    }

    /// Makes the driver, or the background thread, poll now.
    #[cold]
    pub(crate) fn call_background(&self) {
        self.nic.wake();
        self.is_called.store(true, Release);
        self.crew.call();
    }

    /// The thread has left the role: if the background rests until somebody does, it is its turn.
    #[inline]
    pub(super) fn call_rested(&self) {
        if self.rests.load(Relaxed) {
            self.end_rest();
        }
    }

    #[cold]
    fn end_rest(&self) {
        if self.rests.swap(false, Acquire) && !planted(Fault::RestUncalled) {
            self.crew.call();
        }
    }

    /// Drives while no other thread does, until it is asked to leave or `until`. Whether it could.
    pub(super) fn drive_behind(self: &Arc<Self>, until: Instant) -> bool {
        let (mut seen, mut has_driven) = (EventCount(0), false);
        let spins = self.nic.fd().is_none() && !rt::is_simulated();
        while let RoleAttempt::Acquired(turn) = self.driving_role.enter(DriverKind::Background) {
            has_driven = true;
            if spins {
                self.nic.poll();
            }
            let (job, next, fed) = self.state.with(|state| {
                let fed = self.feed(state);
                (state.next_job(), state.next_event(), fed)
            });
            if fed.heard {
                self.nic.poll();
            }
            let more = fed.more;
            if let Some(job) = job {
                drop(turn);
                if run_jobs(self, job, |_| false) {
                    // Of a thread that has taken the role meanwhile, perhaps, and sleeps.
                    self.nic.wake();
                }
                if server().0 == DrivingThread::Relieved
                    || self.crew.has_errands()
                    || self.nic.now() >= until
                    || self.is_forsaken()
                {
                    break;
                }
            } else if self.driving_role.is_wanted()
                || self.crew.has_loop()
                || self.crew.has_errands()
                || self.nic.now() >= until
                || self.is_forsaken()
            {
                break;
            } else if !more && !spins {
                seen = self.nic.wait(seen, next.into_iter().chain([until]).min());
            } else if !more {
                // It would spin, and take a core from who works.
                drop(turn);
                rt::park(Some(rt::now() + GLANCE));
            }
        }
        has_driven
    }
}

/// What came of feeding.
#[derive(Debug, Clone, Copy)]
struct FeedResult {
    /// Whether there may be more.
    more: bool,
    /// Whether there was something.
    heard: bool,
}

/// What came of one step of a thread that waits.
enum DriveStep<T> {
    /// What it waits for; and what is left to do.
    Found(T, HandlersDue),
    /// A handler is due.
    Run(Box<Upcall>),
    /// Nothing, and the role is the thread's.
    Idle { fed: FeedResult, next: Option<Instant> },
    /// Nothing, and another thread has the role: one in the background, which is to be woken.
    Taken { wake: bool },
}

/// Handlers that are due when a thread has what it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandlersDue {
    Nothing,
    /// Some, of which the thread has run none.
    All,
    /// Some, behind those that the thread has run.
    Others,
}

impl HandlersDue {
    #[inline]
    fn of(state: &LinksState) -> Self {
        if state.has_jobs() { Self::All } else { Self::Nothing }
    }
}

/// What came of sitting.
enum RoleWaitResult<'a, T> {
    Found(T),
    /// The caller must look again, perhaps with the role.
    Role(Option<RoleGuard<'a>>),
    Stopped(WaitStopped),
}

/// Feeds that find something in a row before the nic makes progress.
const FEEDS_MAX: u32 = 8;
/// How often the background looks at a nic that spins.
const GLANCE: Duration = Duration::from_micros(200);
/// Completions that are taken before anything else is looked at.
const TURN: usize = 64;
/// How often that is done without looking at anything else, by who only polls.
const TURNS_MAX: usize = 64;
