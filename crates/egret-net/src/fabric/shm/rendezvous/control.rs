//! The socket of a connection, once it is made.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use thiserror::Error;

use super::message::Message;
use super::peer::Peer;
use super::socket::{Received, Sent, Socket};
use crate::fabric::hub::bytes::Malformed;

/// What two nics tell each other beside the rings of a connection. Dropping it
/// tells the peer that this end is gone.
#[derive(Debug)]
pub(crate) struct Control {
    socket: Socket,
    peer: Peer,
}

/// Why nothing more will come of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum ControlError {
    /// Its process ended, or it closed its end. Seen after everything that it
    /// said before.
    #[error("process {pid} at the other end is gone")]
    PeerGone {
        /// The process.
        pid: i32,
    },
    /// It sent what it must not.
    #[error("process {pid} at the other end broke the protocol: {why}")]
    Protocol {
        /// The process.
        pid: i32,
        /// What was wrong.
        why: Malformed,
    },
    /// The operating system would not.
    #[error("the connection with process {pid} failed: {errno}")]
    System {
        /// The process.
        pid: i32,
        /// What it said.
        errno: Errno,
    },
}

impl Control {
    pub(super) const fn new(socket: Socket, peer: Peer) -> Self {
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
    pub(crate) fn send(
        &self,
        message: &Message,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Sent, ControlError> {
        let needed = usize::from(message.descriptors());
        assert_eq!(fds.len(), needed, "descriptors that go with a message");
        self.send_bytes(&message.encode(), fds)
    }

    pub(super) fn send_bytes(
        &self,
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Sent, ControlError> {
        self.socket.send(bytes, fds).map_err(|errno| match errno {
            Errno::PIPE => ControlError::PeerGone { pid: self.peer.pid },
            errno => ControlError::System { pid: self.peer.pid, errno },
        })
    }

    /// The next message, if one is there.
    ///
    /// # Errors
    ///
    /// If the peer is gone or breaks the protocol.
    pub(crate) fn poll(&self) -> Result<Option<(Message, Vec<OwnedFd>)>, ControlError> {
        let pid = self.peer.pid;
        match self.socket.receive() {
            Ok(Received::Packet(packet)) => {
                let message = Message::decode(packet);
                message.map(Some).map_err(|why| ControlError::Protocol { pid, why })
            }
            Ok(Received::Nothing) => Ok(None),
            Ok(Received::Gone) => Err(ControlError::PeerGone { pid }),
            Err(errno) => Err(ControlError::System { pid, errno }),
        }
    }

    /// Readable when [`poll`](Self::poll) has something to tell.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Who is at the other end.
    pub(crate) const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Whether the other end is closed; what it said last may still be to read.
    pub(crate) fn is_gone(&self) -> bool {
        self.socket.is_gone()
    }

    /// The next packet of a connection that is being made.
    pub(super) fn receive(&self) -> Result<Received, Errno> {
        self.socket.receive()
    }
}
