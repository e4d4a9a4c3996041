//! The control socket of a connection that is made.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use thiserror::Error;

use super::super::socket::{PacketSent, PacketSocket, ReceivedPacket};
use super::message::ControlMessage;
use super::peer::PeerProcess;
use crate::fabric::common::bytes::Malformed;

/// The socket for control messages, beside the rings of a connection. Dropping it
/// tells the peer that this end is gone.
#[derive(Debug)]
pub(in super::super) struct ControlSocket {
    socket: PacketSocket,
    peer: PeerProcess,
}

/// Why nothing more will come of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(in super::super) enum ControlSocketError {
    /// Its process ended, or it closed its end. Seen after everything that it
    /// said before.
    #[error("process {pid} at the other end is gone")]
    PeerGone {
        /// The process.
        pid: i32,
    },
    /// The peer broke the protocol.
    #[error("process {pid} at the other end broke the protocol: {why}")]
    Protocol {
        /// The process.
        pid: i32,
        /// What was wrong.
        why: Malformed,
    },
    /// A system call failed.
    #[error("the connection with process {pid} failed: {errno}")]
    System {
        /// The process.
        pid: i32,
        /// What it said.
        errno: Errno,
    },
}

impl ControlSocket {
    pub(in super::super) const fn new(socket: PacketSocket, peer: PeerProcess) -> Self {
        Self { socket, peer }
    }

    /// Sends `message` with its descriptors, of which it keeps none open: one
    /// with a region, else none.
    ///
    /// # Errors
    ///
    /// If the peer is gone; [`poll`](Self::poll) tells what it said last.
    ///
    /// # Panics
    ///
    /// If `fds` are not as many as go with the message.
    pub(in super::super) fn send(
        &self,
        message: &ControlMessage,
        fds: &[BorrowedFd<'_>],
    ) -> Result<PacketSent, ControlSocketError> {
        let needed = usize::from(message.descriptors());
        assert_eq!(fds.len(), needed, "descriptors that go with a message");
        self.send_bytes(&message.encode(), fds)
    }

    pub(in super::super) fn send_bytes(
        &self,
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<PacketSent, ControlSocketError> {
        self.socket.send(bytes, fds).map_err(|errno| match errno {
            Errno::PIPE => ControlSocketError::PeerGone { pid: self.peer.pid },
            errno => ControlSocketError::System { pid: self.peer.pid, errno },
        })
    }

    /// The next message, if one is there.
    ///
    /// # Errors
    ///
    /// If the peer is gone or breaks the protocol.
    pub(in super::super) fn poll(
        &self,
    ) -> Result<Option<(ControlMessage, Vec<OwnedFd>)>, ControlSocketError> {
        let pid = self.peer.pid;
        match self.socket.receive() {
            Ok(ReceivedPacket::Packet(packet)) => {
                let message = ControlMessage::decode(packet);
                message.map(Some).map_err(|why| ControlSocketError::Protocol { pid, why })
            }
            Ok(ReceivedPacket::Nothing) => Ok(None),
            Ok(ReceivedPacket::Gone) => Err(ControlSocketError::PeerGone { pid }),
            Err(errno) => Err(ControlSocketError::System { pid, errno }),
        }
    }

    /// Readable when [`poll`](Self::poll) has something to tell.
    pub(in super::super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The process at the other end.
    pub(in super::super) const fn peer(&self) -> &PeerProcess {
        &self.peer
    }

    /// Whether the other end is closed; what it said last may still be to read.
    pub(in super::super) fn is_gone(&self) -> bool {
        self.socket.is_gone()
    }

    /// The next packet of a connection that is being made.
    pub(in super::super) fn receive(&self) -> Result<ReceivedPacket, Errno> {
        self.socket.receive()
    }
}
