//! The process at the other end, as the kernel says.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use thiserror::Error;

use super::super::fault::{self, Fault, planted};
use super::super::socket::PacketSocket;
use super::pidfd;
use crate::vi::WhyIsolated;

/// The process at the other end when the connection was made.
#[derive(Debug)]
pub(in super::super) struct PeerProcess {
    /// Its number, for messages. Another process may have it later.
    pub pid: i32,
    uid: u32,
    pidfd: Option<OwnedFd>,
}

/// The two ends belong to different users, or may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(in super::super) enum OtherUser {
    /// The kernel gives another number.
    #[error(
        "process {pid} belongs to user {theirs}, this one to user {ours}; \
         only processes of one user share memory"
    )]
    Number {
        /// Process at the other end.
        pid: i32,
        /// Its effective user.
        theirs: u32,
        /// The effective user of this process.
        ours: u32,
    },
    /// The number is the same, and what it means is not.
    #[error(
        "process {pid} shows user {user}, as this one does, and is in another user namespace; \
         only processes of one user in one user namespace share memory"
    )]
    Namespace {
        /// Process at the other end.
        pid: i32,
        /// What both show.
        user: u32,
    },
    /// The number stands for all users that have none here.
    #[error(
        "process {pid} shows user {user}, which the kernel shows of every user that has no number \
         in this user namespace, and its own namespace cannot be told; run both ends in one user \
         namespace, as a user that has a number in it"
    )]
    Unknown {
        /// Process at the other end.
        pid: i32,
        /// What both show.
        user: u32,
    },
}

/// Whether the numbers of two processes' users mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum UserNamespace {
    /// Both are in one user namespace.
    Same,
    Other,
    /// `/proc` is missing or of another process namespace, or the process may not be looked at,
    /// or has ended.
    Unknown,
}

impl OtherUser {
    /// What is seen of the other end's user.
    pub(in super::super) const fn theirs(self) -> u32 {
        match self {
            Self::Number { theirs: user, .. }
            | Self::Namespace { user, .. }
            | Self::Unknown { user, .. } => user,
        }
    }

    /// The process at the other end.
    pub(in super::super) const fn pid(self) -> i32 {
        match self {
            Self::Number { pid, .. } | Self::Namespace { pid, .. } | Self::Unknown { pid, .. } => {
                pid
            }
        }
    }
}

impl PeerProcess {
    /// Asks who connected, or who listens.
    pub(in super::super) fn of(socket: &PacketSocket) -> Result<Self, Errno> {
        let said = socket_peercred(socket)?;
        let pidfd = pidfd::of_peer(socket, said.pid);
        Ok(Self { pid: said.pid.as_raw_pid(), uid: said.uid.as_raw(), pidfd })
    }

    /// Both ends must belong to one user, whatever they trust each other with.
    ///
    /// A number says which user it is among those of one user namespace. Of users that have no
    /// number in the namespace of this process the kernel shows one for all. A process that
    /// is seen to be in another namespace is refused. Where that cannot be seen, the kernel's
    /// number still says the same user, unless it is the one for all; and such a peer is isolated, as its
    /// executable file cannot be seen either.
    pub(in super::super) fn check_user(&self) -> Result<(), OtherUser> {
        let ours = own_user();
        if self.uid != ours {
            let why = OtherUser::Number { pid: self.pid, theirs: self.uid, ours };
            return fault::refused_user(why);
        }
        judge(self.pid, ours, self.space(), overflow_user())
    }

    fn space(&self) -> UserNamespace {
        match (self.seen("ns/user"), file("/proc/thread-self/ns/user")) {
            (Some(theirs), Some(ours)) if theirs == ours => UserNamespace::Same,
            (Some(_), Some(_)) => UserNamespace::Other,
            _ => UserNamespace::Unknown,
        }
    }

    /// Processes that cooperate run the same executable file.
    pub(in super::super) fn check_executable(&self) -> Result<(), WhyIsolated> {
        let unknown = WhyIsolated::ExecutableUnknown;
        let theirs = self.seen("exe").ok_or(unknown)?;
        let ours = file("/proc/thread-self/exe").ok_or(unknown)?;
        if theirs == ours || planted(Fault::ExecutableUnchecked) {
            return Ok(());
        }
        Err(WhyIsolated::OtherExecutable)
    }

    /// The file that an entry of `/proc` leads to, of this very process.
    fn seen(&self, entry: &str) -> Option<(u64, u64)> {
        let pidfd = self.pidfd.as_ref()?;
        let number = pidfd::number(pidfd)?;
        let found = file(&format!("/proc/{number}/{entry}"))?;
        // A number is given away only after its process has ended, so what was
        // looked at was this process.
        (!pidfd::has_ended(pidfd)).then_some(found)
    }

    /// Whether the process has not ended. `false` where the kernel does not say.
    pub(in super::super) fn is_alive(&self) -> bool {
        self.pidfd.as_ref().is_some_and(|pidfd| !pidfd::has_ended(pidfd))
    }

    /// Readable when the process has ended. `None` if it had already, or where
    /// the kernel has no such descriptors.
    pub(in super::super) fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }
}

/// The effective user of this process; it is what the kernel tells the peer.
pub(in super::super) fn own_user() -> u32 {
    geteuid().as_raw()
}

/// What to make of a peer that shows the number of this process's user.
pub(in super::super) fn judge(
    pid: i32,
    user: u32,
    space: UserNamespace,
    overflow: u32,
) -> Result<(), OtherUser> {
    match space {
        _ if planted(Fault::NamespaceUnchecked) => Ok(()),
        UserNamespace::Same => Ok(()),
        UserNamespace::Other => Err(OtherUser::Namespace { pid, user }),
        UserNamespace::Unknown if user == overflow => Err(OtherUser::Unknown { pid, user }),
        UserNamespace::Unknown => Ok(()),
    }
}

/// What the kernel shows of a user that has no number in a namespace.
fn overflow_user() -> u32 {
    let said = fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    said.and_then(|said| said.trim().parse().ok()).unwrap_or(OVERFLOW)
}

/// The overflow user of the kernel, unless it was configured otherwise.
const OVERFLOW: u32 = 65534;

/// The device and the number of a file, which no other has while it is in use.
fn file(path: &str) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

#[cfg(test)]
impl PeerProcess {
    /// A process of this user, as if it had connected.
    pub(in super::super) fn process(pid: rustix::process::Pid) -> Self {
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty());
        Self { pid: pid.as_raw_pid(), uid: own_user(), pidfd: pidfd.ok() }
    }

    /// This process.
    pub(in super::super) fn this() -> Self {
        Self::process(rustix::process::getpid())
    }

    /// One that has ended, and whose number this process has been given since.
    pub(in super::super) fn reused(ended: &std::process::Child) -> Self {
        let ended = Self::process(rustix::process::Pid::from_child(ended));
        Self { pid: rustix::process::getpid().as_raw_pid(), ..ended }
    }

    /// A process of a user that is not the one of this process.
    pub(in super::super) fn stranger() -> Self {
        Self { pid: 1, uid: own_user() + 1, pidfd: None }
    }
}
