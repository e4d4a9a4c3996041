//! The socket of a nic, and what the system says of the path to a peer.
//!
//! Datagrams are never cut by the system: one that is larger than what the path
//! carries is refused here, and the next is smaller.
//!
//! # Many at once
//!
//! Measured on loopback (two cores, Linux 6.18, nanoseconds for each datagram of 4 or of
//! 1,400 bytes): `sendmsg` 1,150, `sendmmsg` of 32 of them 950, one `sendmsg` of 32 that
//! the system cuts (`UDP_SEGMENT`) 250; `recvfrom` 330, `recvmmsg` 310. So the pieces of
//! a message leave [together](DatagramSocket::send_cut), and are received one by one, unless the system
//! [joins](DatagramSocket::join_received) them for a window.

use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use nix::cmsg_space;
use nix::libc::{sock_extended_err, sockaddr_in6};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
    sockopt as nix_sockopt,
};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketFlags,
    SocketType, bind, connect, getsockname, ipproto, recvfrom, sendmsg_addr, sendto, socket_with,
    sockopt,
};

use super::fault;
#[cfg(any(test, feature = "fuzzing"))]
use super::scripted_peer::MemoryNetwork;
use super::send::{ROOM_ANYWHERE, ROOM_MIN, SendBlocked};
use super::wire::DATAGRAM_MAX;
use crate::fabric::common::epoll;

#[derive(Debug)]
pub(super) struct DatagramSocket {
    fd: OwnedFd,
    local: SocketAddr,
    /// Whether the system has something to say about what was sent.
    has_undelivered: AtomicBool,
    /// Whether it can cut what is sent.
    cuts: AtomicBool,
    /// What it sends to and receives from instead of the system, in tests and under a fuzzer.
    #[cfg(any(test, feature = "fuzzing"))]
    memory: Option<MemoryNetwork>,
}

/// What became of several datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentedSend {
    Sent,
    /// They must be sent one by one.
    NotHere,
}

/// What the system of another machine said about a datagram of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UndeliveredDatagram {
    /// Where it was sent.
    pub to: SocketAddr,
    /// As much of it as came back.
    pub bytes: Vec<u8>,
}

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
/// What the system may keep of what was received, if it lets us ask for so much.
const BUFFER: usize = 4 << 20;
/// Bytes of a datagram that are looked at when it comes back.
const QUOTED: usize = 64;
/// Errors of earlier datagrams that one send gets past.
const TRIES: usize = 4;
/// Messages of the system read at once.
pub(super) const UNDELIVERED_AT_ONCE: usize = 64;

impl DatagramSocket {
    /// One that receives at `at`.
    pub(super) fn open(at: SocketAddr) -> Result<Self, Errno> {
        let fd = unbound(at)?;
        bind(&fd, &at)?;
        let local = SocketAddr::try_from(getsockname(&fd)?)?;
        Ok(Self::new(fd, local))
    }

    /// One that is a member of the group `at`, over the interface of `own`.
    pub(super) fn join(at: SocketAddr, own: &SocketAddr) -> Result<Self, Errno> {
        let fd = unbound(at)?;
        // Other members may be processes of this machine.
        sockopt::set_socket_reuseaddr(&fd, true)?;
        over_interface(&fd, at, own)?;
        match (at, own.ip()) {
            (SocketAddr::V4(group), IpAddr::V4(own)) => {
                sockopt::set_ip_add_membership(&fd, group.ip(), &own)?;
                sockopt::set_ip_multicast_loop(&fd, true)?;
            }
            (SocketAddr::V6(group), _) => {
                sockopt::set_ipv6_add_membership(&fd, group.ip(), group.scope_id())?;
                sockopt::set_ipv6_multicast_loop(&fd, true)?;
            }
            _ => return Err(Errno::AFNOSUPPORT),
        }
        bind(&fd, &at)?;
        Ok(Self::new(fd, at))
    }

    const fn new(fd: OwnedFd, local: SocketAddr) -> Self {
        Self {
            fd,
            local,
            has_undelivered: AtomicBool::new(false),
            cuts: AtomicBool::new(true),
            #[cfg(any(test, feature = "fuzzing"))]
            memory: None,
        }
    }

    /// The same, with memory instead of a network.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn in_memory(self) -> Self {
        Self { memory: Some(MemoryNetwork::default()), ..self }
    }

    /// Has a set say nothing more about it.
    pub(super) fn forget(&self, set: &OwnedFd) {
        #[cfg(any(test, feature = "fuzzing"))]
        if self.memory.is_some() {
            return;
        }
        let _ = epoll::forget(set, &self.fd);
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn memory(&self) -> &MemoryNetwork {
        self.memory.as_ref().expect("a socket in memory")
    }

    /// Something is to be heard of the system.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn report_undelivered(&self, undelivered: UndeliveredDatagram) {
        self.memory().complain(undelivered);
        self.has_undelivered.store(true, Relaxed);
    }

    /// Where it receives.
    pub(super) const fn local(&self) -> SocketAddr {
        self.local
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends a datagram, or loses it.
    #[inline]
    pub(super) fn send(
        &self,
        to: &SocketAddrAny,
        slices: &[IoSlice<'_>],
    ) -> Result<(), SendBlocked> {
        #[cfg(any(test, feature = "fuzzing"))]
        if let Some(memory) = &self.memory {
            return memory.send(slices, slices.iter().map(|slice| slice.len()).sum());
        }
        let mut no_control = SendAncillaryBuffer::default();
        self.try_to(to, || sendmsg_addr(&self.fd, to, slices, &mut no_control, FLAGS))
    }

    /// The same for one that lies in one piece.
    #[inline]
    pub(super) fn send_small(&self, to: &SocketAddrAny, bytes: &[u8]) -> Result<(), SendBlocked> {
        #[cfg(any(test, feature = "fuzzing"))]
        if let Some(memory) = &self.memory {
            return memory.send(&[IoSlice::new(bytes)], bytes.len());
        }
        self.try_to(to, || sendto(&self.fd, bytes, FLAGS, to))
    }

    #[inline]
    fn try_to(
        &self,
        to: &SocketAddrAny,
        mut send: impl FnMut() -> Result<usize, Errno>,
    ) -> Result<(), SendBlocked> {
        for _ in 0..TRIES {
            match send() {
                Ok(_) => return Ok(()),
                Err(errno) => {
                    if !self.stuck(errno, to)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends a datagram that the path does not carry in one piece: the system, and those on the way,
    /// may cut it.
    #[cold]
    pub(super) fn send_long(&self, to: &SocketAddrAny, bytes: &[u8]) -> Result<(), SendBlocked> {
        let _ = discover(&self.fd, self.local, false);
        let sent = self.send_small(to, bytes);
        let _ = discover(&self.fd, self.local, true);
        sent
    }

    /// Receives datagrams that follow each other in one piece from now on, if the system can. Where
    /// each ends they say themselves: a control message of the system that says so makes every call longer.
    pub(super) fn join_received(&self) {
        let _ = setsockopt(&self.fd, nix_sockopt::UdpGroSegment, &true);
    }

    /// Whether the system cuts what is sent into datagrams.
    pub(super) fn cuts(&self) -> bool {
        self.cuts.load(Relaxed)
    }

    /// Sends several datagrams of `size` bytes, the last of which may have less. All,
    /// or none, or they are lost.
    pub(super) fn send_cut(
        &self,
        to: &SocketAddrAny,
        slices: &[IoSlice<'_>],
        size: u16,
    ) -> Result<SegmentedSend, SendBlocked> {
        #[cfg(any(test, feature = "fuzzing"))]
        if let Some(memory) = &self.memory {
            return memory.send(slices, size.into()).map(|()| SegmentedSend::Sent);
        }
        let Ok(at) = SocketAddr::try_from(to.clone()) else { return Ok(SegmentedSend::NotHere) };
        let at = SockaddrStorage::from(at);
        let said = [ControlMessage::UdpGsoSegments(&size)];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        for _ in 0..TRIES {
            match sendmsg(self.fd.as_raw_fd(), slices, &said, flags, Some(&at)).map_err(errno) {
                Ok(_) => return Ok(SegmentedSend::Sent),
                // The device or the system cannot, or not here.
                Err(Errno::INVAL | Errno::IO | Errno::OPNOTSUPP | Errno::NOPROTOOPT) => {
                    self.cuts.store(false, Relaxed);
                    return Ok(SegmentedSend::NotHere);
                }
                Err(errno) => {
                    if !self.stuck(errno, to)? {
                        return Ok(SegmentedSend::Sent);
                    }
                }
            }
        }
        Ok(SegmentedSend::Sent)
    }

    /// What an error means for a datagram: it waits, it is tried again (`true`), or it
    /// is lost.
    #[cold]
    fn stuck(&self, errno: Errno, to: &SocketAddrAny) -> Result<bool, SendBlocked> {
        match errno {
            Errno::AGAIN => Err(SendBlocked::Full),
            Errno::MSGSIZE => {
                self.has_undelivered.store(true, Relaxed);
                let to = SocketAddr::try_from(to.clone());
                Err(SendBlocked::TooLong { room: to.map_or(ROOM_MIN, |to| self.room_to(&to)) })
            }
            Errno::INTR => Ok(true),
            // Of an earlier datagram, perhaps to another host.
            Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::PROTO => {
                self.has_undelivered.store(true, Relaxed);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Receives a datagram, or several that were [joined](Self::join_received), if there is one: the
    /// bytes and where they came from.
    #[inline]
    pub(super) fn recv(&self, space: &mut [u8]) -> Option<(usize, SocketAddrAny)> {
        #[cfg(any(test, feature = "fuzzing"))]
        if let Some(memory) = &self.memory {
            return memory.recv(space);
        }
        for _ in 0..TRIES {
            match recvfrom(&self.fd, &mut *space, RecvFlags::DONTWAIT) {
                Ok((_, len, Some(from))) => return Some((len.min(space.len()), from)),
                Err(Errno::AGAIN) => return None,
                // Of a datagram that was sent.
                Err(_) => self.has_undelivered.store(true, Relaxed),
                Ok(_) => {}
            }
        }
        None
    }

    /// Whether there may be [troubles](Self::undelivered). Says so once.
    #[inline]
    pub(super) fn may_have_undelivered(&self) -> bool {
        self.has_undelivered.load(Relaxed) && self.has_undelivered.swap(false, Relaxed)
    }

    /// What the system has to say about a datagram that found no receiver. Other news,
    /// such as that the path carries less, are known to the system and passed over.
    pub(super) fn undelivered(&self) -> Option<UndeliveredDatagram> {
        #[cfg(any(test, feature = "fuzzing"))]
        if let Some(memory) = &self.memory {
            return memory.undelivered();
        }
        for _ in 0..UNDELIVERED_AT_ONCE {
            let mut bytes = [0; QUOTED];
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let mut space = cmsg_space!(sock_extended_err, sockaddr_in6);
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let fd = self.fd.as_raw_fd();
            let message =
                recvmsg::<SockaddrStorage>(fd, &mut slices, Some(&mut space), flags).ok()?;
            let (len, to) = (message.bytes, message.address.as_ref().and_then(address));
            let is_refused = message.cmsgs().ok()?.any(|said| match said {
                ControlMessageOwned::Ipv4RecvErr(why, _)
                | ControlMessageOwned::Ipv6RecvErr(why, _) => {
                    why.ee_errno == Errno::CONNREFUSED.raw_os_error().unsigned_abs()
                }
                _ => false,
            });
            if let (true, Some(to)) = (is_refused, to) {
                return Some(UndeliveredDatagram { to, bytes: bytes[..len.min(QUOTED)].to_vec() });
            }
        }
        None
    }

    /// Bytes of a datagram that the path to a peer carries, as far as is known.
    pub(super) fn room_to(&self, to: &SocketAddr) -> usize {
        #[cfg(any(test, feature = "fuzzing"))]
        if let Some(memory) = &self.memory {
            return memory.room();
        }
        let asked = || {
            let scout = unbound(*to)?;
            if to.ip().is_multicast() {
                over_interface(&scout, *to, &self.local)?;
            } else {
                bind(&scout, &SocketAddr::new(self.local.ip(), 0))?;
            }
            connect(&scout, to)?;
            Ok::<_, Errno>(match to {
                SocketAddr::V4(_) => sockopt::ip_mtu(&scout)?.saturating_sub(28),
                SocketAddr::V6(_) => sockopt::ipv6_mtu(&scout)?.saturating_sub(48),
            })
        };
        let room = asked().map_or(ROOM_ANYWHERE, |room| room as usize);
        fault::room(room).clamp(ROOM_MIN, DATAGRAM_MAX)
    }
}

fn unbound(at: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let protocol: Option<Protocol> = Some(ipproto::UDP);
    let fd = socket_with(family, SocketType::DGRAM, flags, protocol)?;
    discover(&fd, at, true)?;
    if at.is_ipv4() {
        setsockopt(&fd, nix_sockopt::Ipv4RecvErr, &true).map_err(errno)?;
    } else {
        sockopt::set_ipv6_v6only(&fd, true)?;
        setsockopt(&fd, nix_sockopt::Ipv6RecvErr, &true).map_err(errno)?;
    }
    // As much as the system allows.
    let _ = sockopt::set_socket_recv_buffer_size(&fd, BUFFER);
    let _ = sockopt::set_socket_send_buffer_size(&fd, BUFFER);
    Ok(fd)
}

/// Has the system refuse datagrams that the path does not carry in one piece, or cut them.
fn discover(fd: &OwnedFd, at: SocketAddr, refuses: bool) -> Result<(), Errno> {
    use sockopt::{Ipv4PathMtuDiscovery as Four, Ipv6PathMtuDiscovery as Six};
    match (at, refuses) {
        (SocketAddr::V4(_), true) => sockopt::set_ip_mtu_discover(fd, Four::DO),
        (SocketAddr::V4(_), false) => sockopt::set_ip_mtu_discover(fd, Four::DONT),
        (SocketAddr::V6(_), true) => sockopt::set_ipv6_mtu_discover(fd, Six::DO),
        (SocketAddr::V6(_), false) => sockopt::set_ipv6_mtu_discover(fd, Six::DONT),
    }
}

/// Has datagrams to a group leave over the interface of `own`, or the one that the
/// group's address names.
fn over_interface(fd: &OwnedFd, group: SocketAddr, own: &SocketAddr) -> Result<(), Errno> {
    match (group, own.ip()) {
        (SocketAddr::V4(_), IpAddr::V4(own)) => sockopt::set_ip_multicast_if(fd, &own),
        (SocketAddr::V6(group), _) => sockopt::set_ipv6_multicast_if(fd, group.scope_id()),
        _ => Err(Errno::AFNOSUPPORT),
    }
}

fn errno(nix: nix::Error) -> Errno {
    Errno::from_raw_os_error(nix as i32)
}

fn address(from: &SockaddrStorage) -> Option<SocketAddr> {
    let four = from.as_sockaddr_in().map(|four| std::net::SocketAddrV4::from(*four).into());
    let six = || from.as_sockaddr_in6().map(|six| std::net::SocketAddrV6::from(*six).into());
    four.or_else(six)
}
