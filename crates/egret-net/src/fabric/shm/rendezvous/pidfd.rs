//! The process at the other end, as a descriptor.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::super::socket::PacketSocket;

/// The process whose number the kernel gives for the other end of `socket`.
pub(in super::super) fn of_peer(socket: &PacketSocket, pid: Pid) -> Option<OwnedFd> {
    match told_by(socket) {
        Ok(pidfd) => Some(pidfd),
        Err(Errno::NOPROTOOPT) => {
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
            // While the other end is open its process has not ended (or has passed
            // its end on, which no honest process does), so the number was still its
            // own when the descriptor was made.
            pidfd.filter(|_| !socket.is_gone())
        }
        // The kernel knows better than the number: the process has ended.
        Err(_) => None,
    }
}

/// Straight from the socket, from Linux 6.5 on: whatever happened since, it is
/// the process that connected or listened.
fn told_by(socket: &PacketSocket) -> Result<OwnedFd, Errno> {
    let mut fd = MaybeUninit::<libc::c_int>::uninit();
    let size = libc::socklen_t::try_from(size_of_val(&fd)).expect("four bytes");
    let mut len = size;
    let (socket, to) = (socket.as_fd().as_raw_fd(), fd.as_mut_ptr().cast());
    // SAFETY: the socket is open, `to` has room for `len` bytes, and the kernel
    // writes no more than that.
    let answer =
        unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, SO_PEERPIDFD, to, &raw mut len) };
    if answer != 0 {
        let why = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&why).unwrap_or(Errno::INVAL));
    }
    assert_eq!(len, size, "a descriptor is what the kernel answers with");
    // SAFETY: the kernel has written all of it.
    let fd = unsafe { fd.assume_init() };
    // SAFETY: the kernel made it for this call, and no other code knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The number of its process where `/proc` is looked at. `None` if it has been
/// waited for, and if the two are of different process namespaces.
pub(in super::super) fn number(pidfd: &OwnedFd) -> Option<i32> {
    let path = format!("/proc/thread-self/fdinfo/{}", pidfd.as_raw_fd());
    let info = std::fs::read_to_string(path).ok()?;
    let number = info.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    number.trim().parse().ok().filter(|number| *number > 0)
}

/// Whether its process has ended.
pub(in super::super) fn has_ended(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
}

/// Not among the constants of `libc`. One family counts otherwise.
const SO_PEERPIDFD: libc::c_int =
    if cfg!(any(target_arch = "sparc", target_arch = "sparc64")) { 0x56 } else { 77 };

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use rustix::process::getpid;

    use super::*;

    #[test]
    fn a_descriptor_is_of_the_process_it_should_be() {
        let flags = SocketFlags::CLOEXEC;
        let (near, _far) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let near = PacketSocket::new(near);
        let own = Some(getpid().as_raw_pid());
        let pidfd = of_peer(&near, getpid()).unwrap();
        assert_eq!((number(&pidfd), has_ended(&pidfd)), (own, false));
        // From Linux 6.5 on the number is not asked for.
        if let Ok(told) = told_by(&near) {
            assert_eq!(number(&told), own);
            let flags = rustix::io::fcntl_getfd(&told).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
            let other = of_peer(&near, Pid::INIT).unwrap();
            assert_eq!(number(&other), own);
        }
    }

    #[test]
    fn a_descriptor_of_no_process_has_no_number() {
        let (read, _write) = std::io::pipe().unwrap();
        assert_eq!(number(&read.into()), None);
    }
}
