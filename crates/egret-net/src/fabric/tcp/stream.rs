//! The seam where the bytes of a connection enter and leave.
//!
//! From its welcome on, every byte that an end reads or writes goes through its [`ByteStream`], and
//! nothing else of the connection touches its socket: the datapath reads by
//! [`read`](ByteStream::read) and [`read_both`](ByteStream::read_both), batches and closing frame are written
//! by [`write`](ByteStream::write) and [`write_all`](ByteStream::write_all). What transforms the bytes
//! belongs here, with its state, between the handshake and the kernel. The handshake itself has the
//! [socket](super::socket), as it is over before there is anything to transform by.
//!
//! Each of the four functions is one system call, unless the stream is [sealed](super::sealed): then
//! bytes count as written that are still [unsent](ByteStream::has_unsent), and bytes that have come may
//! be [ready](ByteStream::is_ready) without a call. In tests and under a fuzzer a stream may lie in
//! memory, without a socket.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

#[cfg(any(test, feature = "fuzzing"))]
use super::scripted_peer::MemoryStream;
use super::sealed::SealedStream;
use super::socket::TcpSocket;
use crate::fabric::common::epoll;
use crate::fabric::seal::SealKeys;

/// What an end reads from and writes to.
#[derive(Debug)]
pub(super) enum ByteStream {
    Socket(TcpSocket),
    Sealed(Box<SealedStream>),
    #[cfg(any(test, feature = "fuzzing"))]
    Memory(MemoryStream),
}

/// Why nothing was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamReadError {
    Kernel(Errno),
    /// The bytes are not those of a peer that keeps to the protocol.
    Wrong(&'static str),
    /// The stream has ended inside of a sealed record.
    Cut,
}

impl From<Errno> for StreamReadError {
    fn from(why: Errno) -> Self {
        Self::Kernel(why)
    }
}

impl ByteStream {
    /// What the bytes from here on are sealed by. `first` are bytes that go before, as they are.
    ///
    /// The kernel could seal instead (`TCP_ULP` "tls", then `TLS_TX` and `TLS_RX` with the cipher
    /// AES-256-GCM), and a network card in its stead: the keys would be handed to it here, with a
    /// salt and a vector of zeros and the number 0, which makes the same nonces as
    /// [ours](crate::fabric::seal), and the stream would stay a [`TcpSocket`](Self::Socket). Its
    /// records are TLS 1.3's, with another head and a byte for their type, and the keys of a
    /// kernel change only when a record says so; hence both ends must have agreed on it in the
    /// handshake, and a kernel at one end does not talk to [`SealedStream`] at the other.
    pub(super) fn sealed(self, keys: SealKeys, first: &[u8]) -> Self {
        Self::Sealed(Box::new(SealedStream::new(self, keys, first)))
    }

    /// Writes what the kernel takes.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::Socket(socket) => socket.send(bytes),
            Self::Sealed(sealed) => sealed.write(&[IoSlice::new(bytes)]),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.write(&[IoSlice::new(bytes)]),
        }
    }

    /// The same, of several pieces in order.
    pub(super) fn write_all(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        match self {
            Self::Socket(socket) => socket.send_all(slices),
            Self::Sealed(sealed) => sealed.write(slices),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.write(slices),
        }
    }

    /// Whether bytes that count as written are not with the kernel.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        matches!(self, Self::Sealed(sealed) if sealed.has_unsent())
    }

    /// Writes what is unsent. Whether that was all.
    #[inline]
    pub(super) fn flush(&mut self) -> Result<bool, Errno> {
        match self {
            Self::Sealed(sealed) => sealed.flush(),
            _ => Ok(true),
        }
    }

    /// Whether nothing can be written any more because there is no number left to seal under.
    pub(super) fn is_worn(&self) -> bool {
        matches!(self, Self::Sealed(sealed) if sealed.is_worn())
    }

    /// Reads what is there; 0 is the end.
    #[inline]
    pub(super) fn read(&mut self, to: &mut [u8]) -> Result<usize, StreamReadError> {
        match self {
            Self::Socket(socket) => socket.recv(to).map_err(StreamReadError::Kernel),
            Self::Sealed(sealed) => sealed.read(to),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.read(to).map_err(StreamReadError::Kernel),
        }
    }

    /// The same, into two places in order.
    pub(super) fn read_both(
        &mut self,
        one: &mut [u8],
        other: &mut [u8],
    ) -> Result<usize, StreamReadError> {
        match self {
            Self::Socket(socket) => socket.recv_both(one, other).map_err(StreamReadError::Kernel),
            Self::Sealed(sealed) => sealed.read_both(one, other),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.read_both(one, other).map_err(StreamReadError::Kernel),
        }
    }

    /// The same, into several places in order, of a stream that is not sealed.
    pub(super) fn read_all(
        &mut self,
        slices: &mut [IoSliceMut<'_>],
    ) -> Result<usize, StreamReadError> {
        match self {
            Self::Socket(socket) => socket.recv_all(slices).map_err(StreamReadError::Kernel),
            Self::Sealed(_) => unreachable!("a stream is sealed once"),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.read_all(slices).map_err(StreamReadError::Kernel),
        }
    }

    /// Reads bytes to be dropped, opened or not; 0 is the end.
    pub(super) fn read_in_vain(&mut self, scrap: &mut [u8]) -> Result<usize, StreamReadError> {
        match self {
            Self::Sealed(sealed) => sealed.wire.read(scrap),
            stream => stream.read(scrap),
        }
    }

    /// Takes bytes that came already. Gives back what the stream has nothing to do with.
    pub(super) fn hold<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Sealed(sealed) => {
                sealed.hold(bytes);
                &[]
            }
            _ => bytes,
        }
    }

    /// Whether bytes can be read that no set tells of.
    #[inline]
    pub(super) fn is_ready(&self) -> bool {
        matches!(self, Self::Sealed(sealed) if sealed.is_ready())
    }

    /// Whether the last read has left nothing; `was_short` if it brought less than was asked for.
    #[inline]
    pub(super) fn is_drained(&self, was_short: bool) -> bool {
        match self {
            Self::Sealed(sealed) => sealed.is_drained(),
            _ => was_short,
        }
    }

    /// Gives memory back that an end which sleeps does not need.
    pub(super) fn trim(&mut self) {
        if let Self::Sealed(sealed) = self {
            sealed.trim();
        }
    }

    /// Nothing more is sent.
    pub(super) fn shut(&self) {
        match self {
            Self::Socket(socket) => socket.shut(),
            Self::Sealed(sealed) => sealed.wire.shut(),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.end(),
        }
    }

    /// Whether the peer has closed, and nothing is left to read.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.is_over(),
            Self::Sealed(sealed) => !sealed.is_ready() && sealed.wire.is_over(),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(memory) => memory.is_over(),
        }
    }

    /// Has a set say `data` about it.
    pub(super) fn watch(&self, set: &OwnedFd, data: u64, flags: EventFlags) -> Result<(), Errno> {
        match self {
            Self::Socket(socket) => epoll::watch(set, socket.fd(), data, flags),
            Self::Sealed(sealed) => sealed.wire.watch(set, data, flags),
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
            Self::Socket(socket) => _ = epoll::forget(set, socket.fd()),
            Self::Sealed(sealed) => sealed.wire.forget(set),
            #[cfg(any(test, feature = "fuzzing"))]
            Self::Memory(_) => {}
        }
    }
}
