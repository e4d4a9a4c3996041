use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::fabric::shm::bell::Pull;
use crate::fabric::shm::cord::{Cord, CordError, Handle};

#[test]
fn a_drained_cord_can_be_slept_on_again() {
    drained();
}

pub(super) fn drained() {
    let (cord, handle) = pair();
    for _ in 0..2 {
        assert!(!is_readable(&cord));
        handle.pull().unwrap();
        handle.pull().unwrap();
        assert!(is_readable(&cord));
        assert!(cord.drain().unwrap());
    }
    assert!(!is_readable(&cord));
    assert!(!cord.drain().unwrap());
}

/// With an eventfd it could.
#[test]
fn a_peer_that_never_drains_cannot_block_the_ringer() {
    let (cord, handle) = pair();
    for _ in 0..10_000 {
        handle.pull().unwrap();
    }
    assert!(is_readable(&cord));
}

#[test]
fn both_ends_hear_that_the_other_is_gone() {
    let (cord, handle) = pair();
    handle.pull().unwrap();
    drop(handle);
    assert!(cord.drain().unwrap(), "what it rang before still counts");
    assert!(is_readable(&cord));
    assert!(matches!(cord.drain(), Err(CordError::Gone)));
    let (cord, handle) = pair();
    drop(cord);
    assert!(matches!(handle.pull(), Err(CordError::Gone)));
}

#[test]
fn another_descriptor_is_no_handle() {
    let others: [OwnedFd; 3] = [
        eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
        UnixDatagram::unbound().unwrap().into(),
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into(),
    ];
    for other in others {
        assert!(matches!(Handle::new(other), Err(CordError::NotACord)));
    }
}

fn pair() -> (Cord, Handle) {
    let (cord, handle) = Cord::pair().unwrap();
    (cord, Handle::new(handle).unwrap())
}

fn is_readable(cord: &Cord) -> bool {
    let fd = cord.fd();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)).unwrap() > 0
}
