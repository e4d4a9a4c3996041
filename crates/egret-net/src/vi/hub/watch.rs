//! A sleep without a thread: for programs with an event loop of their own.
//!
//! The loop polls one descriptor among its others: a set of three, of which two are those that a
//! thread of the nic would sleep on. To [arm](Hub::arm) is the first half
//! of a [sleep](super::sleep), up to the call that sleeps, and to
//! [disarm](Hub::disarm) is the second; in between the loop has the place of the one
//! who sleeps.
//!
//! If a thread has that place, or comes and wants it, the loop is armed *beside* it: the thread gets what the
//! descriptor says, and the loop's own event is written whenever something has happened and
//! when the thread leaves the place, which the loop may then have.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;

use super::Hub;
use super::fault::{Fault, planted};
use super::sleep::{SetReport, Sleep, SleepPlace};
use crate::rt::Instant;
use crate::vi::Wait;
use crate::vi::machine::{Arming, EventCount, Woken};

/// What a loop polls, once it has asked for it.
#[derive(Debug, Default)]
pub(super) struct LoopWatch(OnceLock<Option<Descriptors>>);

#[derive(Debug)]
struct Descriptors {
    /// Of those that a thread sleeps on, and of the event.
    all: OwnedFd,
    event: OwnedFd,
}

/// How a loop is armed.
#[derive(Debug, Default)]
pub(super) enum LoopState {
    #[default]
    Awake,
    /// The loop has the place of the sleeper.
    Asleep,
    /// A thread has the place of the sleeper. Whether the loop's event was written.
    Beside { told: bool },
}

impl LoopWatch {
    /// Something has happened, or the place is free; for who has its lock.
    pub(super) fn tell(&self, place: &mut SleepPlace) {
        let LoopState::Beside { told } = &mut place.looping else { return };
        if let Some(Some(Descriptors { event, .. })) = self.0.get()
            && !std::mem::replace(told, true)
        {
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }

    /// A loop that has the place of the one who sleeps leaves it to a thread. Whether it had it.
    pub(super) fn step_aside(&self, place: &mut SleepPlace) -> bool {
        let had = matches!(place.looping, LoopState::Asleep) && !planted(Fault::LoopFirst);
        if had {
            place.looping = LoopState::Beside { told: false };
        }
        had
    }

    /// The loop has heard of it.
    fn heard(&self) {
        if let Some(Some(Descriptors { event, .. })) = self.0.get() {
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
    }
}

impl Descriptors {
    fn new(slept_on: [BorrowedFd<'_>; 2]) -> Result<Self, Errno> {
        let all = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        for fd in slept_on.into_iter().chain([event.as_fd()]) {
            epoll::add(&all, fd, EventData::new_u64(0), EventFlags::IN)?;
        }
        Ok(Self { all, event })
    }
}

impl Sleep {
    /// Takes the place for a loop, or has it beside the thread that sleeps there.
    fn begin_loop(&self) -> bool {
        let mut place = self.place();
        let is_free = !std::mem::replace(&mut place.is_taken, true);
        place.looping = if is_free { LoopState::Asleep } else { LoopState::Beside { told: false } };
        is_free
    }

    fn end_loop(&self) -> LoopState {
        std::mem::take(&mut self.place().looping)
    }
}

impl Hub {
    /// What a loop polls. `None` for a nic that never sleeps.
    pub(in crate::vi) fn fd(&self) -> Option<BorrowedFd<'_>> {
        if self.wait == Wait::Spin {
            return None;
        }
        let make = || Descriptors::new(self.sleep.descriptors()?).ok();
        let descriptors = self.sleep.watched.0.get_or_init(make).as_ref()?;
        Some(descriptors.all.as_fd())
    }

    /// Goes to sleep, as far as others see, unless more has happened than was `seen`.
    pub(in crate::vi) fn arm(&self, seen: EventCount) -> Arming {
        self.disarm();
        if self.fd().is_none() {
            return Arming::Ready;
        }
        self.sleep.waiting.fetch_add(1, Ordering::SeqCst);
        self.inside.with(|inside| inside.sleepers += 1);
        if !self.sleep.begin_loop() {
            if self.has_happened(seen) {
                self.disarm();
                return Arming::Ready;
            }
            return Arming::Armed { until: None };
        }
        let idle = self.arm_for_loop(seen);
        if idle.is_none() {
            self.disarm();
        }
        self.tell_if_left();
        idle.map_or(Arming::Ready, |until| Arming::Armed { until })
    }

    /// Arms the machine. By when the loop looks again, if it may sleep.
    fn arm_for_loop(&self, seen: EventCount) -> Option<Option<Instant>> {
        let idle = if planted(Fault::NotArmed) { Some(None) } else { self.arm_machine() };
        idle.filter(|_| !self.has_happened(seen) || planted(Fault::ArmedLate))
    }

    /// Disarms the machine, which has slept, and deals with what its descriptor says.
    pub(super) fn wake_up(&self) {
        if planted(Fault::SetUnasked) {
            return self.disarm_machine(Woken::Awake);
        }
        let said = self.sleep.ask(Some(Timespec::default()));
        self.disarm_machine(SetReport::woken(said.as_ref()));
    }

    /// Wakes up, and deals with what has come.
    pub(in crate::vi) fn disarm(&self) {
        match self.sleep.end_loop() {
            LoopState::Awake => return,
            LoopState::Asleep => {
                self.wake_up();
                self.sleep.leave_place();
            }
            LoopState::Beside { told: true } => self.sleep.watched.heard(),
            LoopState::Beside { told: false } => {}
        }
        self.end_sleep();
    }
}
