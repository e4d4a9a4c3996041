//! Sockets as this fabric has them: non-blocking, without delay, with a pulse.

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketFlags, SocketType,
};

/// One end of a TCP connection.
#[derive(Debug)]
pub(super) struct TcpSocket(OwnedFd);

/// Silence of so long has the kernel ask whether the peer is there,
const PULSE_AFTER: Duration = Duration::from_secs(5);
/// again after so long,
const PULSE_EVERY: Duration = Duration::from_secs(1);
/// so many times.
const PULSES: u32 = 3;
/// Bytes that the peer's machine has not taken for so long have no receiver. That is
/// also a peer that does not drive its nic, once its kernel is full.
const UNTAKEN_MS: u32 = 20_000;
/// Bytes that may lie in the kernel without having left: what is written later is
/// behind them.
const UNSENT_MAX: u32 = 512 << 10;

impl TcpSocket {
    /// Begins to connect. Writable when that is decided.
    pub(super) fn connect(to: SocketAddr) -> Result<Self, Errno> {
        let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let socket = Self::new(fd)?;
        match rustix::net::connect(&socket.0, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(why) => Err(why),
        }
    }

    /// Whether a connection was made; `None` if that is not decided.
    pub(super) fn connected(&self) -> Option<Result<(), Errno>> {
        match sockopt::socket_error(&self.0) {
            Ok(Err(why)) | Err(why) => Some(Err(why)),
            Ok(Ok(())) => match rustix::net::getpeername(&self.0) {
                // Two ends of one socket: no other process was there.
                Ok(peer) if rustix::net::getsockname(&self.0).ok() == peer => {
                    Some(Err(Errno::CONNREFUSED))
                }
                Ok(_) => Some(Ok(())),
                Err(Errno::NOTCONN) => None,
                Err(why) => Some(Err(why)),
            },
        }
    }

    /// A caller of a listening socket.
    pub(super) fn accept(listening: &OwnedFd) -> Result<Self, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        Self::new(rustix::net::accept_with(listening, flags)?)
    }

    pub(super) fn new(fd: OwnedFd) -> Result<Self, Errno> {
        sockopt::set_tcp_nodelay(&fd, true)?;
        sockopt::set_socket_keepalive(&fd, true)?;
        sockopt::set_tcp_keepidle(&fd, PULSE_AFTER)?;
        sockopt::set_tcp_keepintvl(&fd, PULSE_EVERY)?;
        sockopt::set_tcp_keepcnt(&fd, PULSES)?;
        sockopt::set_tcp_user_timeout(&fd, UNTAKEN_MS)?;
        // Without it, control has more to wait for.
        let _ = socket2::SockRef::from(&fd).set_tcp_notsent_lowat(UNSENT_MAX);
        Ok(Self(fd))
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The address of the peer, unless it has left.
    pub(super) fn peer_address(&self) -> Option<SocketAddr> {
        let peer = rustix::net::getpeername(&self.0).ok().flatten();
        peer.and_then(|peer| SocketAddr::try_from(peer).ok())
    }

    /// The same in words.
    pub(super) fn peer(&self) -> String {
        let peer = self.peer_address();
        peer.map_or_else(|| "an address that it has left".to_owned(), |peer| peer.to_string())
    }

    /// Writes what the kernel takes.
    #[inline]
    pub(super) fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::net::send(&self.0, bytes, FLAGS)
    }

    /// The same, of several pieces in order.
    pub(super) fn send_all(&self, slices: &[IoSlice<'_>]) -> Result<usize, Errno> {
        rustix::net::sendmsg(&self.0, slices, &mut SendAncillaryBuffer::default(), FLAGS)
    }

    /// Reads what is there; 0 is the end.
    #[inline]
    pub(super) fn recv(&self, to: &mut [u8]) -> Result<usize, Errno> {
        rustix::net::recv(&self.0, to, RecvFlags::DONTWAIT).map(|(_, n)| n)
    }

    /// The same, into two places in order.
    pub(super) fn recv_both(&self, one: &mut [u8], other: &mut [u8]) -> Result<usize, Errno> {
        self.recv_all(&mut [IoSliceMut::new(one), IoSliceMut::new(other)])
    }

    /// The same, into several.
    pub(super) fn recv_all(&self, slices: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        rustix::io::readv(&self.0, slices)
    }

    /// Whether the peer has closed, and nothing is left to read.
    pub(super) fn is_over(&self) -> bool {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        match rustix::net::recv(&self.0, &mut [0_u8; 1][..], flags) {
            Ok((_, n)) => n == 0,
            Err(why) => !is_later(why),
        }
    }

    /// Nothing more is sent.
    pub(super) fn shut(&self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Write);
    }
}

/// Whether a call would succeed later.
#[inline]
pub(super) const fn is_later(why: Errno) -> bool {
    matches!(why, Errno::AGAIN | Errno::INTR)
}

const FLAGS: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);
