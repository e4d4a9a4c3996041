//! What a doorbell is rung by: a pair of sockets for each peer.
//!
//! The sleeper keeps the [`DoorbellSocket`] and has its descriptor in the set that it sleeps on;
//! the peer has the [`DoorbellHandle`]. Others would be cheaper (a write to an eventfd or
//! a pipe by about half a microsecond), but what a peer holds too it can turn
//! against us:
//!
//! * whether an eventfd blocks is a flag that both can change: a peer that clears
//!   it and fills the counter has the ringer wait in `write` for ever, one that
//!   clears it and reads the counter has the sleeper wait in `read`. And a peer
//!   that can ring can also read, and takes away what another peer rang;
//! * a pipe has two ends, but one lock, which the kernel holds while it copies. A
//!   peer that reads into memory whose pages never come has the ringer wait for it.
//!
//! A socket has two ends that share no lock while they copy, and a call can say
//! for itself that it must not block. And a peer that dies closes its end, which
//! the sleeper hears.
//!
//! The set reports each signal once (it is edge-triggered), so that a socket need not be
//! drained for the next sleep: one system call less for each. Now and then it is
//! drained all the same, because a signal that finds the socket full wakes no thread.
//! An honest peer signals once per sleep, so a socket that is drained when
//! [`SLEEPS_MAX`] sleeps have passed since the last time holds no more signals than
//! that. A peer that signals more often fills its own socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use thiserror::Error;

use super::doorbell::DoorbellSignal;
use super::fault::{Fault, planted};

/// The sleeper's end.
#[derive(Debug)]
pub(super) struct DoorbellSocket {
    fd: OwnedFd,
    /// The number of the sleep after which it was drained.
    drained: u64,
}

/// The ringer's end.
#[derive(Debug)]
pub(super) struct DoorbellHandle(OwnedFd);

/// Why a doorbell cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(super) enum DoorbellError {
    /// The other end is closed.
    #[error("the peer is gone: its end of the doorbell is closed")]
    Gone,
    /// The peer sent something else.
    #[error("the peer's descriptor is not the end of a doorbell: it must be a local stream socket")]
    NotACord,
    /// The operating system refused.
    #[error("{call} on a doorbell failed: {source}")]
    System { call: &'static str, source: io::Error },
}

impl DoorbellSocket {
    /// A doorbell socket, and the handle to send to the peer.
    pub(super) fn pair() -> Result<(Self, OwnedFd), DoorbellError> {
        let flags = SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (mine, theirs) = pair.map_err(|errno| refused("socketpair", errno))?;
        Ok((Self { fd: mine, drained: 0 }, theirs))
    }

    /// To sleep on: readable when it was signalled and when the peer is gone.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A signal ended the sleep with this number. Drains the socket if that is due.
    pub(super) fn rung(&mut self, sleep: u64) -> Result<(), DoorbellError> {
        let is_due = sleep.saturating_sub(self.drained) >= SLEEPS_MAX;
        if is_due && self.drain()? < PULLS_AT_ONCE {
            self.drained = sleep;
        }
        Ok(())
    }

    /// Reads the signals that are there, and says how many there were.
    pub(super) fn drain(&self) -> Result<usize, DoorbellError> {
        if planted(Fault::NotDrained) {
            return Ok(0);
        }
        match recv(&self.fd, &mut [0; PULLS_AT_ONCE][..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => Err(DoorbellError::Gone),
            Ok((_, pulls)) => Ok(pulls),
            Err(Errno::AGAIN) => Ok(0),
            Err(errno) => Err(refused("recv", errno)),
        }
    }
}

impl DoorbellHandle {
    /// The handle that a peer sent, if it is one.
    pub(super) fn new(fd: OwnedFd) -> Result<Self, DoorbellError> {
        let is_cord = socket_domain(&fd) == Ok(AddressFamily::UNIX)
            && socket_type(&fd) == Ok(SocketType::STREAM);
        is_cord.then_some(Self(fd)).ok_or(DoorbellError::NotACord)
    }

    /// The same handle once more.
    pub(super) fn another(&self) -> Result<Self, DoorbellError> {
        let copied = self.0.try_clone();
        copied.map(Self).map_err(|source| DoorbellError::System { call: "dup", source })
    }
}

impl DoorbellSignal for DoorbellHandle {
    fn pull(&self) -> Result<(), DoorbellError> {
        match send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            // Full, by the peer's fault: it has not drained earlier signals.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(refused("send", errno)),
        }
    }
}

fn refused(call: &'static str, errno: Errno) -> DoorbellError {
    match errno {
        Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => DoorbellError::Gone,
        errno => DoorbellError::System { call, source: errno.into() },
    }
}

/// A socket takes some 270 signals by default, and more than this if its
/// memory is limited to a tenth of that.
const SLEEPS_MAX: u64 = 16;
const PULLS_AT_ONCE: usize = 512;
