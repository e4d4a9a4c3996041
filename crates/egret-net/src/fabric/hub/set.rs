//! Sets of descriptors.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// What a set can say at once.
pub(in crate::fabric) const EVENTS: usize = 64;

/// Where it says it.
pub(in crate::fabric) type Space = [MaybeUninit<epoll::Event>; EVENTS];

pub(in crate::fabric) const SPACE: Space = [MaybeUninit::uninit(); EVENTS];

pub(in crate::fabric) fn create() -> Result<OwnedFd, Errno> {
    epoll::create(epoll::CreateFlags::CLOEXEC)
}

/// Has `set` say `data` about `fd`, whatever it said before: the socket of a knock becomes that
/// of a connection.
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

/// What a set is to say of the thing `id` of a `kind`, one of eight.
pub(in crate::fabric) const fn token(kind: u8, id: u64) -> u64 {
    id << KIND_BITS | kind as u64
}

/// The kind and the thing that [`token`] was made of.
pub(in crate::fabric) const fn read(token: u64) -> (u8, u64) {
    let [low, ..] = token.to_le_bytes();
    (low & ((1 << KIND_BITS) - 1), token >> KIND_BITS)
}

const KIND_BITS: u32 = 3;

/// Has `set` say nothing more about `fd`.
pub(in crate::fabric) fn forget(set: &OwnedFd, fd: impl AsFd) -> Result<(), Errno> {
    epoll::delete(set, fd)
}

/// What a set says, within so much time. An error is as if it had passed: the
/// caller looks, and comes again.
pub(in crate::fabric) fn ready<'a>(
    set: &OwnedFd,
    space: &'a mut Space,
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
