use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};

use crate::fabric::common;
use crate::fabric::shm::doorbell::DoorbellSignal;
use crate::fabric::shm::doorbell_socket::{DoorbellError, DoorbellHandle, DoorbellSocket};
use crate::fabric::shm::nic_context::DOORBELL_FLAGS;

#[test]
fn a_drained_cord_can_be_slept_on_again() {
    let (cord, handle) = pair();
    for _ in 0..2 {
        assert!(!is_readable(&cord));
        handle.pull().unwrap();
        handle.pull().unwrap();
        assert!(is_readable(&cord));
        assert_eq!(cord.drain().unwrap(), 2);
    }
    assert!(!is_readable(&cord));
    assert_eq!(cord.drain().unwrap(), 0);
}

#[test]
fn a_cord_wakes_for_each_pull_however_many_there_were() {
    wakes_for_ever();
}

/// More sleeps than a cord has room for pulls, in which the set is asked each
/// time, or seldom: one who finds something to do does not sleep.
pub(super) fn wakes_for_ever() {
    for asked_each in [1, 7, 1000] {
        let (mut cord, handle) = pair();
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        common::epoll::watch(&set, cord.fd(), 1, DOORBELL_FLAGS).unwrap();
        for sleep in 1..=5000 {
            handle.pull().unwrap();
            if sleep % asked_each == 0 {
                assert!(has_event(&set), "sleep {sleep}, asked each {asked_each}");
                assert!(!has_event(&set), "it was said already");
                cord.rung(sleep).unwrap();
                assert!(!has_event(&set), "nothing was pulled since");
            }
        }
    }
}

/// It has only itself to blame, and when it stops all is well.
#[test]
fn a_peer_that_pulls_without_end_stops_nobody() {
    let (mut cord, handle) = pair();
    let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    common::epoll::watch(&set, cord.fd(), 1, DOORBELL_FLAGS).unwrap();
    for sleep in 1..1000 {
        (0..100).for_each(|_| handle.pull().unwrap());
        let _ = has_event(&set);
        cord.rung(sleep).unwrap();
    }
    while cord.drain().unwrap() > 0 {}
    for sleep in 1000..2000 {
        handle.pull().unwrap();
        assert!(has_event(&set));
        cord.rung(sleep).unwrap();
    }
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
    assert_eq!(cord.drain().unwrap(), 1, "what it rang before still counts");
    assert!(is_readable(&cord));
    assert!(matches!(cord.drain(), Err(DoorbellError::Gone)));
    let (cord, handle) = pair();
    drop(cord);
    assert!(matches!(handle.pull(), Err(DoorbellError::Gone)));
}

#[test]
fn another_descriptor_is_no_handle() {
    let others: [OwnedFd; 3] = [
        eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
        UnixDatagram::unbound().unwrap().into(),
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap().into(),
    ];
    for other in others {
        assert!(matches!(DoorbellHandle::new(other), Err(DoorbellError::NotACord)));
    }
}

fn pair() -> (DoorbellSocket, DoorbellHandle) {
    let (cord, handle) = DoorbellSocket::pair().unwrap();
    (cord, DoorbellHandle::new(handle).unwrap())
}

fn is_readable(cord: &DoorbellSocket) -> bool {
    let fd = cord.fd();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)).unwrap() > 0
}

fn has_event(set: &OwnedFd) -> bool {
    let mut space = [MaybeUninit::<epoll::Event>::uninit(); 1];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    !epoll::wait(set, &mut space, Some(&now)).unwrap().0.is_empty()
}
