//! The seam where the bytes of a connection enter and leave.
//!
//! From its welcome on, every byte that an end reads or writes goes through its [`Stream`], and
//! nothing else of the connection touches its socket: the datapath reads by
//! [`read`](Stream::read) and [`read_both`](Stream::read_both), batches and last words are written
//! by [`write`](Stream::write) and [`write_all`](Stream::write_all). What transforms the bytes
//! belongs here, with its state, between the greeting and the kernel. The greeting itself has the
//! [socket](super::socket), as it is over before there is anything to transform by.
//!
//! Each of the four functions is one system call. In tests and under a fuzzer a stream may lie in
//! memory, without a socket.

use std::io::IoSlice;
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

#[cfg(any(test, feature = "fuzzing"))]
use super::puppet::Memory;
use super::socket::Socket;
use crate::fabric::hub::set;

/// What an end reads from and writes to.
#[derive(Debug)]
pub(super) enum Stream {
    Socket(Socket),
    #[cfg(any(test, feature = "fuzzing"))]
    Memory(Memory),
}

impl Stream {
    /// Writes what the kernel takes.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::Socket(socket) => socket.send(bytes),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.write(&[IoSlice::new(bytes)]),
        }
    }

    /// The same, of several pieces in order.
    pub(super) fn write_all(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        match self {
            Self::Socket(socket) => socket.send_all(slices),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.write(slices),
        }
    }

    /// Reads what is there; 0 is the end.
    #[inline]
    pub(super) fn read(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Socket(socket) => socket.recv(to),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.read(to),
        }
    }

    /// The same, into two places in order.
    pub(super) fn read_both(&mut self, one: &mut [u8], other: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Socket(socket) => socket.recv_both(one, other),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.read_both(one, other),
        }
    }

    /// Nothing more is sent.
    pub(super) fn shut(&self) {
        match self {
            Self::Socket(socket) => socket.shut(),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.end(),
        }
    }

    /// Whether the peer has closed, and nothing is left to read.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.is_over(),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.is_over(),
        }
    }

    /// Has a set say `data` about it.
    pub(super) fn watch(&self, set: &OwnedFd, data: u64, flags: EventFlags) -> Result<(), Errno> {
        match self {
            Self::Socket(socket) => set::watch(set, socket.fd(), data, flags),
            // It is tried again if a set cannot say when there is room.
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(_) if flags.contains(EventFlags::OUT) => Err(Errno::PERM),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(_) => Ok(()),
        }
    }

    /// Has the set say nothing more about it.
    pub(super) fn forget(&self, set: &OwnedFd) {
        match self {
            Self::Socket(socket) => _ = set::forget(set, socket.fd()),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(_) => {}
        }
    }
}
