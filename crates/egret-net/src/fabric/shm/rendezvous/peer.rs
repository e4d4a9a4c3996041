//! Who is at the other end, as the kernel says.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use thiserror::Error;

use super::fault::{Fault, planted};
use super::pidfd;
use super::socket::Socket;
use crate::vi::WhyIsolated;

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
        let pidfd = pidfd::of_peer(socket, said.pid);
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

    /// Processes that cooperate run the same executable file.
    pub(super) fn check_executable(&self) -> Result<(), WhyIsolated> {
        let unknown = WhyIsolated::ExecutableUnknown;
        let pidfd = self.pidfd.as_ref().ok_or(unknown)?;
        let number = pidfd::number(pidfd).ok_or(unknown)?;
        let theirs = file(&format!("/proc/{number}/exe")).ok_or(unknown)?;
        // A number is given away only after its process has ended, so what was
        // looked at was this process.
        if pidfd::has_ended(pidfd) {
            return Err(unknown);
        }
        let ours = file("/proc/thread-self/exe").ok_or(unknown)?;
        if theirs == ours || planted(Fault::ExecutableUnchecked) {
            return Ok(());
        }
        Err(WhyIsolated::OtherExecutable)
    }

    /// Whether the process has not ended. `false` where the kernel does not say.
    pub(crate) fn is_alive(&self) -> bool {
        self.pidfd.as_ref().is_some_and(|pidfd| !pidfd::has_ended(pidfd))
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

/// The device and the number of a file, which no other has while it is in use.
fn file(path: &str) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

#[cfg(test)]
impl Peer {
    /// A process of this user, as if it had connected.
    pub(super) fn process(pid: rustix::process::Pid) -> Self {
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
        Self { pid: pid.as_raw_pid(), uid: own_user(), pidfd: pidfd.ok() }
    }

    /// This process.
    pub(crate) fn this() -> Self {
        Self::process(rustix::process::getpid())
    }

    /// One that has ended, and whose number this process has been given since.
    pub(crate) fn reused(ended: &std::process::Child) -> Self {
        let ended = Self::process(rustix::process::Pid::from_child(ended));
        Self { pid: rustix::process::getpid().as_raw_pid(), ..ended }
    }

    /// A process of a user that is not the one of this process.
    pub(super) fn stranger() -> Self {
        Self { pid: 1, uid: own_user() + 1, pidfd: None }
    }
}
