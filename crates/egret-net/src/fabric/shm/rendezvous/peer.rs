//! Who is at the other end, as the kernel says.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, geteuid, pidfd_open};
use thiserror::Error;

use super::fault::{Fault, planted};
use super::socket::Socket;

/// The process at the other end when the connection was made.
#[derive(Debug)]
pub(crate) struct Peer {
    /// Its number, for messages. Another process may have it later.
    pub pid: i32,
    uid: u32,
    pidfd: Option<OwnedFd>,
}

/// The two ends belong to different users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "process {pid} belongs to user {theirs}, this one to user {ours}; \
     only processes of one user share memory"
)]
pub(crate) struct OtherUser {
    /// Process at the other end.
    pub pid: i32,
    /// Its effective user.
    pub theirs: u32,
    /// The effective user of this process.
    pub ours: u32,
}

impl Peer {
    /// Asks who connected, or who listens.
    pub(super) fn of(socket: &Socket) -> Result<Self, Errno> {
        let said = socket_peercred(socket)?;
        let pidfd = pidfd_open(said.pid, PidfdFlags::empty()).ok();
        // While the other end is open its process has not ended (or has passed
        // its end on, which nobody honest does), so the number was still its own
        // when the descriptor was made.
        let pidfd = pidfd.filter(|_| !socket.is_gone());
        Ok(Self { pid: said.pid.as_raw_pid(), uid: said.uid.as_raw(), pidfd })
    }

    /// Both ends must belong to one user, whatever they trust each other with.
    pub(super) fn check_user(&self) -> Result<(), OtherUser> {
        let ours = own_user();
        if self.uid == ours || planted(Fault::UserUnchecked) {
            return Ok(());
        }
        Err(OtherUser { pid: self.pid, theirs: self.uid, ours })
    }

    /// Readable when the process has ended. `None` if it had already, or where
    /// the kernel has no such descriptors.
    pub(crate) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }
}

/// The effective user of this process; it is what the kernel tells the peer.
pub(super) fn own_user() -> u32 {
    geteuid().as_raw()
}

#[cfg(test)]
impl Peer {
    /// A process of a user that is not the one of this process.
    pub(super) fn stranger() -> Self {
        Self { pid: 1, uid: own_user() + 1, pidfd: None }
    }
}
