//! The descriptor of a nic, and what the checks say to planted faults. That no wake-up
//! is lost, `tests/programs/watching.rs` shows.

use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::conformance::nic;
use super::meet;
use crate::atomics::{Atomics, FenceFault, StdAtomics};
use crate::fabric::shm::fault::Fault as ShmFault;
use crate::rt::{self, Deadline, Instant};
use crate::vi::hub::fault::{Fault, caught};
use crate::vi::{Address, Arming, Descriptor, Nic, Vi, ViOptions, Wait};

/// Turns a hang into a failure.
const LONG: Duration = Duration::from_secs(5);

/// Sleeps until the descriptor is readable. Whether it is.
pub(super) fn readable(nic: &Nic, within: Duration) -> bool {
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
        // The peer may have rung when the thread had just woken by itself.
        while nic.arm(nic.poll()) == Arming::Ready {}
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

/// Arms the nic. How long it may sleep without looking.
fn armed_for(nic: &Nic) -> Option<Duration> {
    loop {
        let before = rt::now();
        if let Arming::Armed { until } = nic.arm(nic.poll()) {
            return until.map(|until: Instant| until - before);
        }
    }
}

/// How long a nic with a peer may sleep without looking, when this was over before, each time.
fn naps() -> [Option<Duration>; 3] {
    let nics = nics();
    let _connected = connect(&nics);
    std::array::from_fn(|_| {
        let nap = armed_for(&nics[1]);
        rt::sleep(nap.unwrap_or_default());
        nics[1].disarm();
        nap
    })
}

#[test]
fn a_bell_without_its_fence_is_not_slept_on_for_long() {
    let by_peers = || assert_eq!(naps(), [None; 3], "the peer fences, and rings");
    assert!(!caught(FenceFault::GlobalNever, by_peers));
    if !StdAtomics::has_global_fence() {
        return;
    }
    let [first, second, third] = naps().map(|nap| nap.expect("the kernel's fence may miss a peer"));
    assert!(first < second && second < third, "{first:?}, {second:?}, {third:?}");
    let denied = || assert!(naps().iter().all(Option::is_some), "the peer may not ring");
    assert!(!caught(FenceFault::GlobalLater, denied));
}

/// A message is found though its sender did not see that this side sleeps.
fn unseen() {
    let nics = nics();
    let (here, there) = connect(&nics);
    let [_, nic] = &nics;
    there.post_recv(Descriptor::empty()).unwrap();
    let mut nap = armed_for(nic);
    let send = move || {
        let send = || _ = here.post_send(Descriptor::empty()).unwrap();
        assert!(!caught(ShmFault::SleepUnseen, send));
        here
    };
    let _here = rt::spawn("sender", send).unwrap().join().unwrap();
    loop {
        let within = nap.expect("a peer that has not rung is waited for without an end");
        assert!(!readable(nic, within), "the peer did ring");
        nic.disarm();
        if there.recv_queue().poll().is_some() {
            break;
        }
        nap = armed_for(nic);
    }
}

#[test]
fn what_the_fence_of_the_kernel_misses_is_found_later() {
    if StdAtomics::has_global_fence() {
        unseen();
        assert!(caught(ShmFault::FenceTrusted, unseen), "it slept without an end");
    }
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
