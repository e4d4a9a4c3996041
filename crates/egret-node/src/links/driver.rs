//! The driver: takes what has arrived, feeds the machines, runs handlers, sends.
//!
//! Any thread that waits may drive; one at a time has the role. The others sit until what
//! they wait for has come or the role is theirs. A handler runs on the thread that received
//! its message, after it has given up the role.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Waker;
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::{Entered, Ground, Seat, Turn, Waited};
use egret_net::vi::{Arming, Nic, Seen};

use super::core::{Core, Stopped};
use super::state::State;
use crate::am::{Upcall, in_handler, run_jobs};

impl Core {
    /// Drives the links, or has them driven, until `ready` has something, at the latest
    /// for the deadline. What `ready` is given a waker it is to keep, for who brings what
    /// it waits for.
    #[inline]
    pub(crate) fn wait<T>(
        self: &Arc<Self>,
        deadline: Deadline,
        mut ready: impl FnMut(&mut State, Option<&Waker>) -> Option<T>,
    ) -> Result<T, Stopped> {
        self.wait_by(&mut Clock::of(deadline), &mut ready)
    }

    /// Like [`wait`](Self::wait), for what is left of a clock's time.
    #[inline]
    pub(crate) fn wait_by<T>(
        self: &Arc<Self>,
        clock: &mut Clock,
        ready: &mut impl FnMut(&mut State, Option<&Waker>) -> Option<T>,
    ) -> Result<T, Stopped> {
        if in_handler() {
            return self.state.with(|state| ready(state, None)).ok_or(Stopped::InHandler);
        }
        loop {
            let driven = match self.baton.enter(Ground::Foreground) {
                Entered::Mine(turn) => self.drive(turn, clock, ready),
                Entered::Taken { wake, .. } => self.sit(wake, clock, ready),
            };
            let ended = match driven {
                Driven::Has(found, None) => found.map(Ok),
                Driven::Has(found, Some(job)) => self.serve(job, found, clock, ready),
                Driven::Stopped(stopped) => Some(Err(stopped)),
            };
            if let Some(ended) = ended {
                return ended;
            }
        }
    }

    /// Drives, with the role, until there is something to do without it.
    #[inline]
    #[expect(clippy::needless_pass_by_value, reason = "the role is given up when it returns")]
    fn drive<T>(
        &self,
        turn: Turn<'_>,
        clock: &mut Clock,
        ready: &mut impl FnMut(&mut State, Option<&Waker>) -> Option<T>,
    ) -> Driven<T> {
        let (mut looks, mut seen) = (0, None);
        loop {
            let (found, job, next, fed) = self.state.with(|state| {
                let fed = self.feed(state);
                let (found, job) = (ready(state, None), state.next_job());
                // It goes to sleep only without.
                let is_idle = found.is_none() && job.is_none();
                state.role_waits &= is_idle;
                (found, job, if is_idle { state.next_event() } else { None }, fed)
            });
            if found.is_some() || job.is_some() {
                if seen.is_none() {
                    self.poll_if_due(fed);
                }
                return Driven::Has(found, job);
            }
            // What comes at once is found without the clock.
            looks += 1;
            let Some(before) = seen.filter(|_| looks >= LOOKS) else {
                seen = Some(self.nic.poll());
                continue;
            };
            let until = match clock.until(&self.nic) {
                Ok(until) => until,
                Err(stopped) => return Driven::Stopped(stopped),
            };
            seen = Some(if fed.more {
                self.nic.poll()
            } else {
                let seen = self.nic.wait(before, until.into_iter().chain(next).min());
                turn.again();
                seen
            });
        }
    }

    /// Lets the nic make progress now and then, also where there is always something to do
    /// without: other peers are to be heard, and what was done just now is to get on.
    #[inline]
    fn poll_if_due(&self, fed: Fed) {
        let feeds = self.feeds.load(Relaxed);
        if fed.heard && !fed.more && feeds < FEEDS_MAX {
            return self.feeds.store(feeds + 1, Relaxed);
        }
        self.feeds.store(0, Relaxed);
        self.nic.poll();
    }

    /// Feeds what has come and what has completed to the machines.
    #[inline]
    fn feed(&self, state: &mut State) -> Fed {
        state.role_waits = false;
        state.receive_again();
        // Short frames first: of a link that has ended, what came before its end.
        let drained = state.drain(&self.drain, TURN);
        let mut left = TURN;
        while left > 0
            && let Some(completion) = self.queue.take()
        {
            state.completed_or_put_aside(completion);
            left -= 1;
        }
        if drained < TURN {
            state.end_broken();
        }
        state.pump_blocked();
        if state.is_busy() {
            state.look_after();
        }
        Fed { more: left == 0 || drained == TURN, heard: drained > 0 || left < TURN }
    }

    /// Waits while another thread has the role.
    #[cold]
    fn sit<T>(
        &self,
        wake: bool,
        clock: &mut Clock,
        ready: &mut impl FnMut(&mut State, Option<&Waker>) -> Option<T>,
    ) -> Driven<T> {
        if wake {
            self.nic.wake();
        }
        let mut seat = Seat::new(Ground::Foreground);
        let waker = seat.waker();
        let found = self.state.with(|state| ready(state, Some(&waker)));
        if found.is_some() {
            return Driven::Has(found, None);
        }
        let until = match clock.until(&self.nic) {
            Ok(until) => until,
            Err(stopped) => return Driven::Stopped(stopped),
        };
        match self.baton.sit(&mut seat) {
            Entered::Mine(turn) => self.drive(turn, clock, ready),
            Entered::Taken { seat, wake } => {
                if wake {
                    self.nic.wake();
                }
                match seat.wait(until) {
                    Waited::Given(turn) => self.drive(turn, clock, ready),
                    Waited::Woken | Waited::TimedOut => Driven::Has(None, None),
                }
            }
        }
    }

    /// Without the role: runs handlers until `ready` has something or the time is over, which
    /// is looked at after each. At least one is run, else those who wait only for what is there
    /// already, or without time, would keep the role from who would serve.
    fn serve<T>(
        self: &Arc<Self>,
        job: Box<Upcall>,
        mut found: Option<T>,
        clock: &mut Clock,
        ready: &mut impl FnMut(&mut State, Option<&Waker>) -> Option<T>,
    ) -> Option<Result<T, Stopped>> {
        let mut over = None;
        clock.start(&self.nic);
        run_jobs(self, job, |state| {
            if found.is_none() {
                // Whether who has the role is to be woken is that thread's affair.
                let role_waits = state.role_waits;
                found = ready(state, None);
                state.role_waits = role_waits;
                over = clock.until(&self.nic).err();
            }
            found.is_some() || over.is_some()
        });
        let ended = found.map(Ok).or(over.map(Err));
        if ended.is_some() {
            self.hand_over();
        }
        ended
    }

    /// Does what can be done without waiting.
    pub(crate) fn poll(self: &Arc<Self>) {
        if let Entered::Mine(turn) = self.baton.enter(Ground::Foreground) {
            self.nic.poll();
            // Who sends without end does not keep it here.
            for _ in 0..TURNS_MAX {
                if !self.state.with(|state| self.feed(state)).more {
                    break;
                }
            }
            drop(turn);
        }
        self.flush();
    }

    /// Does what can be done, and has an event loop woken when there is more.
    pub(super) fn arm(self: &Arc<Self>) -> Arming {
        let seen = self.nic.poll();
        let (job, next, more) = self.state.with(|state| {
            let fed = self.feed(state);
            (state.next_job(), state.next_event(), fed.more)
        });
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

    /// Runs the next handler that is due, if one is. How many have been run then.
    #[inline]
    pub(super) fn run_next(self: &Arc<Self>) -> Option<u64> {
        if in_handler() {
            return None;
        }
        let job = self.state.with(State::next_job)?;
        let mut served = 0;
        run_jobs(self, job, |state| {
            served = state.jobs;
            true
        });
        // What a handler has answered may wait for that.
        self.poll_if_due(Fed { more: !self.drain.is_native(), heard: true });
        Some(served)
    }

    /// Runs the handlers that are due, or some of them. Whether there was one.
    pub(crate) fn flush(self: &Arc<Self>) -> bool {
        let job = self.state.with(State::next_job);
        let is_due = job.is_some();
        if let Some(job) = job {
            run_jobs(self, job, |_| false);
            self.hand_over();
        }
        is_due
    }

    /// Has handlers that are due run by who drives, or will: not by the caller, who has
    /// something else to do.
    pub(crate) fn hand_over(&self) {
        if self.state.with(|state| state.has_jobs()) {
            self.nic.wake();
        }
    }

    /// Drives while nobody else does, until it is asked to leave or `until`.
    pub(super) fn drive_behind(self: &Arc<Self>, until: Instant) {
        let mut seen = Seen(0);
        let spins = self.nic.fd().is_none();
        while let Entered::Mine(turn) = self.baton.enter(Ground::Background) {
            if spins {
                self.nic.poll();
            }
            let (job, next, fed) = self.state.with(|state| {
                let fed = self.feed(state);
                (state.next_job(), state.next_event(), fed)
            });
            if fed.heard {
                self.poll_if_due(fed);
            }
            let more = fed.more;
            if let Some(job) = job {
                drop(turn);
                run_jobs(self, job, |_| false);
                // Of a thread that has taken the role meanwhile, perhaps, and sleeps.
                self.hand_over();
                if self.nic.now() >= until || Arc::strong_count(self) == 1 {
                    return;
                }
            } else if self.baton.wanted() || self.nic.now() >= until || Arc::strong_count(self) == 1
            {
                return;
            } else if !more && !spins {
                seen = self.nic.wait(seen, next.into_iter().chain([until]).min());
            } else if !more {
                // It would spin, and take a core from who works.
                drop(turn);
                rt::park(Some(rt::now() + GLANCE));
            }
        }
    }
}

/// What came of feeding.
#[derive(Debug, Clone, Copy)]
struct Fed {
    /// Whether there may be more.
    more: bool,
    /// Whether there was something.
    heard: bool,
}

/// What came of driving.
enum Driven<T> {
    /// What was waited for, perhaps, and perhaps a handler to run.
    Has(Option<T>, Option<Box<Upcall>>),
    Stopped(Stopped),
}

/// How long a wait, or several behind each other, may last. It asks the time when it must.
pub(crate) struct Clock {
    deadline: Deadline,
    started: Option<Instant>,
}

impl Clock {
    #[inline]
    pub(crate) const fn of(deadline: Deadline) -> Self {
        Self { deadline, started: None }
    }

    /// The time begins now, if it has not begun.
    pub(crate) fn start(&mut self, nic: &Nic) {
        if self.started.is_none() && self.deadline != Deadline::UntilDead {
            self.started = Some(nic.now());
        }
    }

    /// Until when it lasts.
    ///
    /// # Errors
    ///
    /// If that has passed.
    pub(crate) fn until(&mut self, nic: &Nic) -> Result<Option<Instant>, Stopped> {
        if self.deadline == Deadline::UntilDead {
            return Ok(None);
        }
        let now = nic.now();
        let started = *self.started.get_or_insert(now);
        let until = self.deadline.until_from(started);
        if until.is_some_and(|until| now >= until) {
            return Err(Stopped::TimedOut { waited: now - started });
        }
        Ok(until)
    }
}

/// Looks at what has arrived before a thread waits: about a round trip between two processes.
const LOOKS: u32 = 16;
/// Feeds that find something in a row before the nic makes progress.
const FEEDS_MAX: u32 = 8;
/// How often the background looks at a nic that spins.
const GLANCE: Duration = Duration::from_micros(200);
/// Completions that are taken before anything else is looked at.
const TURN: usize = 64;
/// How often that is done without looking at anything else, by who only polls.
const TURNS_MAX: usize = 64;
