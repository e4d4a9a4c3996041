//! What holds for memory, rings and bells whatever the peer does, and that the
//! checks for it can fail.

mod attack;
mod checker;
mod conformance;
mod copy;
mod crowd;
mod direct;
mod doorbell;
mod doorbell_socket;
mod eager;
mod fuzzed;
mod hand_over;
mod handed;
mod hostile;
mod left;
mod memory;
mod nonsense;
mod planted;
mod process_memory;
mod processes;
mod program;
mod records;
mod trust;
mod waiting;
mod watched;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::foreign::ForeignMemory;
use super::memory::OwnMemory;
use crate::vi::{ConnectError, Listener, Vi};

/// Drives both nics of a connection in turn, until it is made: the end of the one that connects,
/// and that of the one that listens.
fn meet(
    listener: &Listener,
    connecting: impl Future<Output = Result<Vi, ConnectError>>,
) -> (Vi, Vi) {
    let (mut connecting, mut there) = (pin!(connecting), None);
    loop {
        there = there.or(listener.poll_accept().unwrap());
        if let Poll::Ready(here) = connecting.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        {
            return (here.unwrap(), there.unwrap());
        }
    }
}

/// New memory, and the same as a peer sees it.
fn shared(bytes: usize) -> (OwnMemory, ForeignMemory) {
    let own = OwnMemory::new(bytes).unwrap();
    let foreign = foreign_of(&own);
    (own, foreign)
}

/// What a peer makes of the memory's descriptor.
fn foreign_of(own: &OwnMemory) -> ForeignMemory {
    let fd = own.fd().try_clone_to_owned().unwrap();
    ForeignMemory::map(fd, own.len() as u64).unwrap()
}
