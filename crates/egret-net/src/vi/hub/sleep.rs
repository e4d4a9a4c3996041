//! How the threads of a nic sleep.
//!
//! One of them sleeps on the descriptor of the machine, the others
//! wait for it: when something has happened, or it has slept enough, all look
//! for themselves and one of those that still wait takes its place.
//!
//! The machine is armed and disarmed by the one who has the place alone: what made the
//! descriptor readable is dealt with by the one whom it woke. If somebody else did, a peer would
//! believe that it had rung, and the sleeper would sleep on.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;

use super::watch::{LoopState, LoopWatch};
use super::{Hub, HubState};
use crate::rt::{self, Instant};
use crate::vi::machine::{EventCount, MachineFd, SetEvent, Woken};

#[derive(Debug)]
pub(super) struct Sleep {
    /// The machine's, if it has one.
    descriptor: Option<Arc<OwnedFd>>,
    /// Whether that is a set, which has the event as well.
    is_set: bool,
    place: Mutex<SleepPlace>,
    /// Told when the place is free or something has happened.
    changed: Condvar,
    /// Threads that sleep, or wait for the place.
    pub(super) waiting: AtomicU32,
    /// Readable when a sleep is to end. `None` where no thread sleeps on a descriptor, or if the
    /// system has none to give.
    event: Option<OwnedFd>,
    pub(super) watched: LoopWatch,
}

#[derive(Debug, Default)]
pub(super) struct SleepPlace {
    /// Whether a thread has it.
    pub(super) is_taken: bool,
    /// Whether the event was written for the one who has it.
    told: bool,
    /// Threads that wait for it.
    others: u32,
    /// What an event loop is doing.
    pub(super) looping: LoopState,
}

impl Sleep {
    pub(super) fn new(descriptor: Option<MachineFd>) -> Self {
        let (descriptor, is_set) = match descriptor {
            None => (None, false),
            Some(MachineFd::Any(fd)) => (Some(fd), false),
            Some(MachineFd::Set(fd)) => (Some(fd), true),
        };
        let event = descriptor.as_ref().and_then(|_| make_event());
        let add = |(set, event)| epoll::add(set, event, EventData::new_u64(EVENT), EventFlags::IN);
        let is_set = is_set && descriptor.as_ref().zip(event.as_ref()).map(add) == Some(Ok(()));
        Self {
            descriptor,
            is_set,
            place: Mutex::default(),
            changed: Condvar::new(),
            waiting: AtomicU32::new(0),
            event,
            watched: LoopWatch::default(),
        }
    }

    /// What is readable when something has come, and when a sleep is to end; `None` if there
    /// is no such thing.
    pub(super) fn descriptors(&self) -> Option<[BorrowedFd<'_>; 2]> {
        Some([self.descriptor.as_ref()?.as_fd(), self.event.as_ref()?.as_fd()])
    }

    /// Ends all sleeps: something has happened, and is counted already.
    pub(super) fn end(&self) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut place = self.place();
        if place.is_taken
            && !std::mem::replace(&mut place.told, true)
            && let Some(event) = &self.event
        {
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
        self.tell_others(place);
    }

    /// A system call, so only if there are any.
    fn tell_others(&self, mut place: MutexGuard<'_, SleepPlace>) {
        self.watched.tell(&mut place);
        let others = place.others;
        drop(place);
        if others > 0 {
            self.changed.notify_all();
        }
    }

    pub(super) fn place(&self) -> MutexGuard<'_, SleepPlace> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the place of the one who sleeps, or waits until there is
    /// something to look at.
    fn take_place(&self, has_happened: impl Fn() -> bool, until: Option<Instant>) -> SleepTurn {
        let mut place = self.place();
        loop {
            if has_happened() {
                return SleepTurn::Nothing;
            }
            if !std::mem::replace(&mut place.is_taken, true) {
                return SleepTurn::Place;
            }
            // A loop that has it may be the very thread that waits, and come to nothing until that
            // is over.
            if self.watched.step_aside(&mut place) {
                return SleepTurn::PlaceOfLoop;
            }
            let left = left(until).unwrap_or(Duration::from_secs(1));
            if left.is_zero() {
                return SleepTurn::Nothing;
            }
            place.others += 1;
            #[expect(clippy::disallowed_methods, reason = "real processes share no virtual time")]
            let waited = self.changed.wait_timeout(place, left);
            place = waited.unwrap_or_else(PoisonError::into_inner).0;
            place.others -= 1;
        }
    }

    pub(super) fn leave_place(&self) {
        let mut place = self.place();
        // With the place: what is written from now on is for the next.
        if std::mem::take(&mut place.told)
            && let Some(event) = &self.event
        {
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
        place.is_taken = false;
        self.tell_others(place);
    }

    /// Sleeps until one of the descriptors is readable, at the latest `until`. An error is as if
    /// that had come: the caller looks, and comes again.
    fn sleep(&self, until: Option<Instant>) -> Option<SetReport> {
        let descriptors = self.descriptors();
        let nap = descriptors.is_none().then(|| rt::now() + NAP);
        let left = left(until.into_iter().chain(nap).min());
        let within = left.map(|left| {
            Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
        });
        let all = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let _ = match descriptors.map(|fds| fds.map(all)) {
            Some(_) if self.is_set => return self.ask(within),
            Some(mut all) => poll(&mut all, within.as_ref()),
            None => poll(&mut [], within.as_ref()),
        };
        None
    }

    /// What the set says, within so much time, if there is one.
    pub(super) fn ask(&self, within: Option<Timespec>) -> Option<SetReport> {
        let set = self.descriptor.as_ref().filter(|_| self.is_set)?;
        let mut space = [MaybeUninit::uninit(); EVENTS];
        let events = epoll::wait(set, &mut space, within.as_ref()).map_or(&[][..], |(it, _)| it);
        let mut said = SetReport { events: [SetEvent::default(); EVENTS], count: 0 };
        for event in events.iter().filter(|event| event.data.u64() != EVENT) {
            let (token, flags) = (event.data.u64(), event.flags);
            let has_room = flags.contains(EventFlags::OUT);
            let has_error = flags.contains(EventFlags::ERR);
            said.events[said.count] = SetEvent { token, has_room, has_error };
            said.count += 1;
        }
        Some(said)
    }
}

/// What a thread has that wants to sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SleepTurn {
    /// Something has happened, or its time is over.
    Nothing,
    /// The place of the one who sleeps.
    Place,
    /// The same; an event loop had it, and has armed the machine.
    PlaceOfLoop,
}

/// What a set said.
#[derive(Debug)]
pub(super) struct SetReport {
    events: [SetEvent; EVENTS],
    count: usize,
}

impl SetReport {
    /// For a machine that is to be disarmed, after a sleep on a set or on something else.
    pub(super) fn woken(said: Option<&Self>) -> Woken<'_> {
        said.map_or(Woken::Slept, |said| Woken::Said(&said.events[..said.count]))
    }
}

impl Hub {
    pub(super) fn sleep(&self, seen: EventCount, until: Option<Instant>) {
        self.sleep.waiting.fetch_add(1, Ordering::SeqCst);
        self.inside.with(|inside| inside.sleepers += 1);
        let took = self.sleep.take_place(|| self.has_happened(seen), until);
        if took == SleepTurn::PlaceOfLoop {
            // What the descriptor says already was meant for the loop.
            self.wake_up();
        }
        if took != SleepTurn::Nothing {
            self.sleep_on_everything(seen, until);
            self.sleep.leave_place();
        }
        self.end_sleep();
    }

    /// A thread or a loop sleeps no more. Only now, with the place free, others are told of what
    /// the sleep has left: a handler may wait, or panic.
    pub(super) fn end_sleep(&self) {
        self.inside.with(|inside| inside.sleepers -= 1);
        self.sleep.waiting.fetch_sub(1, Ordering::SeqCst);
        self.tell_if_left();
    }

    fn sleep_on_everything(&self, seen: EventCount, until: Option<Instant>) {
        let idle = self.arm_machine().filter(|_| !self.has_happened(seen));
        let slept = idle.map(|next| self.sleep.sleep(until.into_iter().chain(next).min()));
        let woken = slept.as_ref().map_or(Woken::Awake, |said| SetReport::woken(said.as_ref()));
        self.disarm_machine(woken);
    }

    /// Arms the machine. Whether there is nothing to do, and until when that will last.
    pub(super) fn arm_machine(&self) -> Option<Option<Instant>> {
        self.inside.with(|inside| {
            inside.after.begin();
            let is_busy = inside.machine.arm(&mut inside.after);
            let is_idle = !is_busy && !inside.after.is_news();
            let next = inside.machine.next_event();
            self.put_sleep_aside(inside);
            is_idle.then_some(next)
        })
    }

    pub(super) fn disarm_machine(&self, woken: Woken<'_>) {
        self.inside.with(|inside| {
            inside.after.begin();
            inside.machine.disarm(woken, &mut inside.after);
            self.put_sleep_aside(inside);
        });
    }

    /// Wakes no thread; waiting threads learn that the place of the sleeper is free.
    fn put_sleep_aside(&self, inside: &mut HubState) {
        if inside.after.is_news() {
            self.count(inside);
        }
        if inside.after.has_more() {
            self.put_aside(inside, false);
        }
    }
}

fn make_event() -> Option<OwnedFd> {
    let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
    let warn = |errno: &Errno| {
        tracing::warn!(%errno, "eventfd failed: threads that wait on this nic look every millisecond");
    };
    made.inspect_err(warn).ok()
}

/// What a set can say at once.
const EVENTS: usize = 64;
/// By what a set knows the event.
const EVENT: u64 = u64::MAX;
/// How long to sleep where nothing says that something has come.
const NAP: Duration = Duration::from_millis(1);

fn left(until: Option<Instant>) -> Option<Duration> {
    until.map(|until| until.since(rt::now()))
}
