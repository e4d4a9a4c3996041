//! A sleep without a thread: for programs with an event loop of their own.
//!
//! The loop polls one descriptor among its others: a set of two, of which one is the
//! set that a thread of the nic would sleep on. To [arm](Hub::arm) is the first half
//! of a [sleep](super::sleep), up to the call that sleeps, and to
//! [disarm](Hub::disarm) is the second; in between the loop has the place of the one
//! who sleeps.
//!
//! If a thread has that place, the loop is armed *beside* it: the thread gets what the
//! set says, and the loop's own event is written whenever something has happened and
//! when the thread leaves the place, which the loop may then have.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::epoll::EventFlags;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use super::fault::{Fault, planted};
use super::set::{self, SPACE, ready};
use super::sleep::{Place, Sleep};
use super::{After, Hub, Work};
use crate::fabric::{Arming, Seen};
use crate::vi::Wait;

/// What a loop polls, once it has asked for it.
#[derive(Debug, Default)]
pub(super) struct Watched(OnceLock<Option<Descriptors>>);

#[derive(Debug)]
struct Descriptors {
    /// Of the nic's set, and of the event.
    all: OwnedFd,
    event: OwnedFd,
}

/// How a loop is armed.
#[derive(Debug)]
pub(super) enum Loop<P> {
    Awake,
    /// It has the place of the one who sleeps.
    Asleep(P),
    /// A thread has that. Whether the loop's event was written.
    Beside {
        told: bool,
    },
}

impl Watched {
    fn descriptors(&self, nic: &OwnedFd) -> Option<&Descriptors> {
        self.0.get_or_init(|| Descriptors::new(nic).ok()).as_ref()
    }

    /// Something has happened, or the place is free; for who has its lock.
    pub(super) fn tell<P>(&self, place: &mut Place<P>) {
        let Loop::Beside { told } = &mut place.looping else { return };
        if let Some(Some(Descriptors { event, .. })) = self.0.get()
            && !std::mem::replace(told, true)
        {
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }

    /// The loop has heard of it.
    fn heard(&self) {
        if let Some(Some(Descriptors { event, .. })) = self.0.get() {
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
    }
}

impl Descriptors {
    fn new(nic: &OwnedFd) -> Result<Self, Errno> {
        let all = set::create()?;
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        set::watch(&all, nic, 0, EventFlags::IN)?;
        set::watch(&all, &event, 1, EventFlags::IN)?;
        Ok(Self { all, event })
    }
}

impl<P> Sleep<P> {
    /// Takes the place for a loop, or has it beside the thread that sleeps there.
    fn begin_loop(&self) -> Option<P> {
        let mut place = self.place();
        let own = place.own.take();
        if own.is_none() {
            place.looping = Loop::Beside { told: false };
        }
        own
    }

    fn end_loop(&self) -> Loop<P> {
        std::mem::replace(&mut self.place().looping, Loop::Awake)
    }
}

impl<W: Work> Hub<W> {
    /// What a loop polls. `None` for a nic that never sleeps.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        if self.wait == Wait::Spin {
            return None;
        }
        let descriptors = self.sleep.watched.descriptors(W::set(&self.fixed))?;
        Some(descriptors.all.as_fd())
    }

    /// Goes to sleep, as far as others see, unless more has happened than was `seen`.
    pub(super) fn arm(self: &Arc<Self>, seen: Seen) -> Arming {
        self.disarm();
        if self.fd().is_none() {
            return Arming::Ready;
        }
        self.sleep.waiting.fetch_add(1, Ordering::SeqCst);
        self.inside.with(|inside| inside.sleepers += 1);
        let Some(mut own) = self.sleep.begin_loop() else {
            if self.has_happened(seen) {
                self.disarm();
                return Arming::Ready;
            }
            return Arming::Armed { until: None };
        };
        if !planted(Fault::NotArmed) {
            W::arm(&mut own);
        }
        let (idle, after) = self.last_look();
        let idle = idle.filter(|_| !self.has_happened(seen) || planted(Fault::ArmedLate));
        self.sleep.place().looping = Loop::Asleep(own);
        if idle.is_none() {
            self.disarm();
        }
        self.finish(after, false);
        idle.map_or(Arming::Ready, |until| Arming::Armed { until })
    }

    /// Wakes up, and deals with what the set says.
    pub(super) fn disarm(self: &Arc<Self>) {
        let after = match self.sleep.end_loop() {
            Loop::Awake => return,
            Loop::Asleep(own) => self.rise(own),
            Loop::Beside { told } => {
                if told {
                    self.sleep.watched.heard();
                }
                After::default()
            }
        };
        self.inside.with(|inside| inside.sleepers -= 1);
        self.sleep.waiting.fetch_sub(1, Ordering::SeqCst);
        self.finish(after, false);
    }

    fn rise(&self, mut own: W::Place) -> After<W> {
        let mut space = SPACE;
        let events = if planted(Fault::SetUnasked) {
            &[]
        } else {
            ready(W::set(&self.fixed), &mut space, Some(Duration::ZERO))
        };
        let sleep = W::disarm(&mut own);
        let after = self.woken(sleep, Some(events));
        self.sleep.leave_place(own);
        after
    }
}
