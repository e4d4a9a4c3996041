//! Packets with descriptors, over a connected socket, without ever blocking.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, RecvMsg, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socket_with,
};

use super::fault::{Fault, planted};

/// One end of a connection. The packets of a sender arrive whole and in order.
#[derive(Debug)]
pub(super) struct PacketSocket(OwnedFd);

/// A packet as it arrived.
#[derive(Debug)]
pub(super) struct ControlPacket {
    pub bytes: Vec<u8>,
    /// Descriptors of the packet; the kernel closed those beyond [`FDS_MAX`].
    pub fds: Vec<OwnedFd>,
    /// Whether it was longer than [`PACKET_MAX`], and is cut off.
    pub cut_off: bool,
}

/// What there was to receive.
#[derive(Debug)]
pub(super) enum ReceivedPacket {
    Packet(ControlPacket),
    /// Nothing yet.
    Nothing,
    /// Nothing, and nothing will come: the peer closed its end or died.
    Gone,
}

/// Whether a packet could be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum PacketSent {
    /// The kernel has the packet, in order.
    Sent,
    /// The peer has not read what was sent before; try again later.
    Full,
}

/// Bytes of a packet.
pub(super) const PACKET_MAX: usize = 4096;
/// Descriptors taken out of a packet.
pub(super) const FDS_MAX: usize = 8;

impl PacketSocket {
    pub(super) const fn new(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Sends one packet. `Err(PIPE)` if the peer is gone; what it said before
    /// can still be received.
    pub(super) fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<PacketSent, Errno> {
        assert!((1..=PACKET_MAX).contains(&bytes.len()), "a packet of 1 to {PACKET_MAX} bytes");
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            let fits = control.push(SendAncillaryMessage::ScmRights(fds));
            assert!(fits, "at most {FDS_MAX} descriptors in a packet");
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match retry_on_intr(|| sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, flags)) {
            Ok(_) => Ok(PacketSent::Sent),
            // Too many references: this user's descriptors under way are as
            // many as it may have open, until someone receives some.
            Err(Errno::AGAIN | Errno::TOOMANYREFS) => Ok(PacketSent::Full),
            Err(Errno::CONNRESET) => Err(Errno::PIPE),
            Err(errno) => Err(errno),
        }
    }

    /// The next packet, if one is there.
    pub(super) fn receive(&self) -> Result<ReceivedPacket, Errno> {
        match self.receive_once() {
            // Said once, and first, if the peer left without having read all
            // that was sent to it; its own last packets are still to be had.
            Err(Errno::CONNRESET) => self.receive_behind_reset(),
            once => once,
        }
    }

    fn receive_behind_reset(&self) -> Result<ReceivedPacket, Errno> {
        match self.receive_once() {
            _ if planted(Fault::ResetIsEnd) => Ok(ReceivedPacket::Gone),
            Err(Errno::CONNRESET) => Ok(ReceivedPacket::Gone),
            again => again,
        }
    }

    fn receive_once(&self) -> Result<ReceivedPacket, Errno> {
        let mut bytes = [0; PACKET_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let got = match retry_on_intr(|| recvmsg(&self.0, &mut parts, &mut control, flags)) {
            Err(Errno::AGAIN) => return Ok(ReceivedPacket::Nothing),
            got => got?,
        };
        Ok(received(&got, &bytes, &mut control))
    }

    /// Whether the peer's end is closed, even if packets are left to receive.
    pub(super) fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::empty())];
        poll(&mut fds, Some(&Timespec::default())).is_ok()
            && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }
}

/// A socket that never blocks and does not outlive an `exec`.
pub(super) fn seqpacket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl ControlPacket {
    /// The first `count` descriptors; the others are closed. `None` if there
    /// are not so many.
    pub(super) fn take_fds(&mut self, count: usize) -> Option<Vec<OwnedFd>> {
        let mut fds = std::mem::take(&mut self.fds);
        close(fds.split_off(count.min(fds.len())));
        (fds.len() == count).then_some(fds)
    }
}

fn close(fds: Vec<OwnedFd>) {
    if planted(Fault::SurplusLeaked) {
        fds.into_iter().for_each(|fd| _ = fd.into_raw_fd());
    }
}

fn end() -> ReceivedPacket {
    if planted(Fault::EndIsSilence) { ReceivedPacket::Nothing } else { ReceivedPacket::Gone }
}

/// What a receive brought. No packet is empty, so nothing is the end.
fn received(got: &RecvMsg, bytes: &[u8], control: &mut RecvAncillaryBuffer<'_>) -> ReceivedPacket {
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds = fds.flatten().collect();
    if got.bytes == 0 {
        return end();
    }
    let cut_off = got.flags.contains(ReturnFlags::TRUNC);
    ReceivedPacket::Packet(ControlPacket { bytes: bytes[..got.bytes].to_vec(), fds, cut_off })
}
