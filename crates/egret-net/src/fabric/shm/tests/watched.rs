//! The descriptor of a nic, and what the checks say to planted faults. That no wake-up
//! is lost, `tests/watching.rs` shows.

use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::conformance::nic;
use super::meet;
use crate::atomics::{Atomics, FenceFault, StdAtomics};
use crate::rt::{self, Deadline, Instant};
use crate::vi::hub::fault::{Fault, caught};
use crate::vi::{Address, Arming, Descriptor, Nic, Vi, ViOptions, Wait};

/// Turns a hang into a failure.
const LONG: Duration = Duration::from_secs(5);

fn readable(nic: &Nic, within: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(nic.fd().unwrap(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::try_from(within).unwrap())).unwrap() > 0
}

fn nics() -> [Nic; 2] {
    ["here", "there"].map(|name| nic(&format!("{name}-{}", rt::random()), Wait::Frugal))
}

fn connect([here, there]: &[Nic; 2]) -> (Vi, Vi) {
    let options = ViOptions::default();
    let listener = there.listen("watched", 0, &options).unwrap();
    let to = Address::new(there.host(), "watched", 0);
    let connecting = here.connect(&to, &options, Deadline::In(LONG));
    meet(&listener, connecting)
}

/// What has happened since the last poll is said.
fn said() {
    let [nic, _] = nics();
    let seen = nic.poll();
    nic.wake();
    assert_eq!(nic.arm(seen), Arming::Ready);
}

/// A message makes the descriptor readable, until the loop has heard of it.
fn rung() {
    let nics = nics();
    let (here, there) = connect(&nics);
    let [_, nic] = &nics;
    for tag in 0..3 {
        there.post_recv(Descriptor::empty()).unwrap();
        while nic.arm(nic.poll()) == Arming::Ready {}
        assert!(!readable(nic, Duration::ZERO), "nothing has happened");
        here.post_send(Descriptor::empty().with_tag(tag)).unwrap();
        assert!(readable(nic, LONG), "the peer did not ring");
        nic.disarm();
        assert_eq!(there.recv_queue().poll().unwrap().tag, tag);
        here.send_queue().wait(Deadline::In(LONG)).unwrap().done().unwrap();
    }
}

/// The thread of a loop that is armed waits for a message all the same, and the loop hears of it.
fn waited() {
    let nics = nics();
    let (here, there) = connect(&nics);
    let here = Arc::new(here);
    let [_, nic] = &nics;
    for tag in 0..3 {
        there.post_recv(Descriptor::empty()).unwrap();
        while nic.arm(nic.poll()) == Arming::Ready {}
        let from = Arc::clone(&here);
        let sender = rt::spawn("sender", move || {
            // Likely that the other sleeps by now; if not, the round shows less.
            rt::sleep(Duration::from_millis(5));
            from.post_send(Descriptor::empty().with_tag(tag)).unwrap();
            from.send_queue().wait(Deadline::In(LONG)).unwrap().done().unwrap();
        });
        let started = rt::now();
        let got = there.recv_queue().wait(Deadline::In(LONG)).unwrap();
        assert!(rt::now() - started < LONG, "it was found when the time was over");
        assert_eq!(got.tag, tag);
        sender.unwrap().join().unwrap();
        assert!(readable(nic, LONG), "the loop is told that something has happened");
        nic.disarm();
        assert!(!readable(nic, Duration::ZERO), "nothing is left");
    }
}

#[test]
fn the_thread_of_a_loop_that_is_armed_may_wait() {
    waited();
}

#[test]
fn a_descriptor_is_readable_when_something_happens() {
    said();
    rung();
}

#[test]
fn a_descriptor_is_readable_where_peers_fence_for_themselves() {
    assert!(!caught(FenceFault::GlobalNever, rung));
}

/// How long a nic with a peer may sleep without looking.
fn armed_until() -> Option<Instant> {
    let nics = nics();
    let _connected = connect(&nics);
    loop {
        if let Arming::Armed { until } = nics[1].arm(nics[1].poll()) {
            return until;
        }
    }
}

#[test]
fn a_bell_without_its_fence_is_not_slept_on_for_long() {
    assert_eq!(armed_until(), None, "the peer rings");
    if !StdAtomics::has_global_fence() {
        return;
    }
    let denied = || {
        let until = armed_until().expect("the peer may not ring");
        assert!(until <= rt::now() + Duration::from_millis(1));
    };
    assert!(!caught(FenceFault::GlobalLater, denied));
}

#[test]
fn planted_faults_are_found() {
    let faults: [(Fault, fn()); 4] = [
        (Fault::ArmedLate, said),
        (Fault::NotArmed, rung),
        (Fault::SetUnasked, rung),
        (Fault::LoopFirst, waited),
    ];
    for (fault, scene) in faults {
        assert!(caught(fault, scene), "{fault:?} was not found");
    }
}
