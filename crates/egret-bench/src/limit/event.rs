//! `eventfd`: two processes that wake each other.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::io::{Errno, read, write};

use super::end::{LimitLink, LimitTime};
use super::ticks::Stopwatch;
use super::wait::WaitLimit;
use super::{LimitError, system};

/// An eventfd each way; this end sleeps on `mine` and rings `theirs`.
#[derive(Debug)]
pub(super) struct EventPair {
    mine: OwnedFd,
    theirs: OwnedFd,
    epoll: OwnedFd,
}

impl EventPair {
    pub(super) fn prepare() -> Result<(Self, [OwnedFd; 2]), LimitError> {
        let make = || eventfd(0, EventfdFlags::CLOEXEC).map_err(system("eventfd"));
        let (back, there) = (make()?, make()?);
        let copy = |fd: &OwnedFd| fd.try_clone().map_err(system("dup"));
        let theirs = [copy(&there)?, copy(&back)?];
        Ok((Self::join([back, there])?, theirs))
    }

    pub(super) fn join([mine, theirs]: [OwnedFd; 2]) -> Result<Self, LimitError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll_create"))?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&epoll, &mine, data, epoll::EventFlags::IN).map_err(system("epoll_ctl"))?;
        Ok(Self { mine, theirs, epoll })
    }

    #[inline]
    fn ring(&self) -> Result<(), LimitError> {
        write(&self.theirs, &1_u64.to_ne_bytes()).map(drop).map_err(system("write"))
    }

    #[inline]
    fn sleep(&self, patience: &WaitLimit, timeout: &Timespec) -> Result<(), LimitError> {
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); 1];
        loop {
            match epoll::wait(&self.epoll, &mut events, Some(timeout)) {
                Ok((woken, _)) if !woken.is_empty() => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(system("epoll_wait")(errno)),
            }
            patience.check()?;
        }
        let mut count = [0; size_of::<u64>()];
        read(&self.mine, &mut count).map(drop).map_err(system("read"))
    }
}

impl LimitLink for EventPair {
    fn lead(&mut self, rounds: u64, patience: WaitLimit) -> Result<LimitTime, LimitError> {
        let timeout = timespec(&patience)?;
        let mut times = Vec::with_capacity(rounds.try_into().unwrap_or(0));
        for _ in 0..rounds {
            let start = Stopwatch::start();
            self.ring()?;
            self.sleep(&patience, &timeout)?;
            times.push(start.nanos());
        }
        Ok(LimitTime::RoundTrips(times))
    }

    fn follow(&mut self, rounds: u64, patience: WaitLimit) -> Result<(), LimitError> {
        let timeout = timespec(&patience)?;
        for _ in 0..rounds {
            self.sleep(&patience, &timeout)?;
            self.ring()?;
        }
        Ok(())
    }
}

/// What is left, for a system call.
pub(super) fn timespec(patience: &WaitLimit) -> Result<Timespec, LimitError> {
    let left = patience.left()?;
    Ok(Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() })
}
