//! Epoll sets.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// Events that one call returns at most.
pub(in crate::fabric) const EVENTS: usize = 64;

/// Memory for the events of one call.
pub(in crate::fabric) type EventSpace = [MaybeUninit<epoll::Event>; EVENTS];

pub(in crate::fabric) const SPACE: EventSpace = [MaybeUninit::uninit(); EVENTS];

pub(in crate::fabric) fn create() -> Result<OwnedFd, Errno> {
    epoll::create(epoll::CreateFlags::CLOEXEC)
}

/// Watches `fd` in `set` with this `data`, also if it is watched with other data: the socket of an attempt
/// to connect becomes that of a connection.
pub(in crate::fabric) fn watch(
    set: &OwnedFd,
    fd: impl AsFd,
    data: u64,
    flags: epoll::EventFlags,
) -> Result<(), Errno> {
    let data = epoll::EventData::new_u64(data);
    match epoll::add(set, &fd, data, flags) {
        Err(Errno::EXIST) => epoll::modify(set, &fd, data, flags),
        outcome => outcome,
    }
}

/// The epoll data for the object `id` of a `kind`, one of eight.
pub(in crate::fabric) const fn token(kind: u8, id: u64) -> u64 {
    id << KIND_BITS | kind as u64
}

/// The kind and the object that a [`token`] was made of.
pub(in crate::fabric) const fn read(token: u64) -> (u8, u64) {
    let [low, ..] = token.to_le_bytes();
    (low & ((1 << KIND_BITS) - 1), token >> KIND_BITS)
}

const KIND_BITS: u32 = 3;

/// Stops watching `fd` in `set`.
pub(in crate::fabric) fn forget(set: &OwnedFd, fd: impl AsFd) -> Result<(), Errno> {
    epoll::delete(set, fd)
}

/// Waits for events of a set, at most so long. An error counts as a timeout: the caller looks at its
/// sockets, and calls again.
pub(in crate::fabric) fn ready<'a>(
    set: &OwnedFd,
    space: &'a mut EventSpace,
    within: Option<Duration>,
) -> &'a [epoll::Event] {
    let within = within.map(|within| {
        Timespec::try_from(within).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
    });
    epoll::wait(set, space, within.as_ref()).map_or(&[], |(events, _)| events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_as_what_it_was() {
        for kind in 0..8 {
            for id in [0, 1, 7, 8, u64::MAX >> KIND_BITS] {
                assert_eq!(read(token(kind, id)), (kind, id));
            }
        }
    }
}
