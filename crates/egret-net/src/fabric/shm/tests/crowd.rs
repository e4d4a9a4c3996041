//! More connections than a look goes to each time.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::conformance::nic;
use super::meet;
use crate::atomics::{Atomics, FenceFault, StdAtomics};
use crate::fabric::shm::fault::Fault;
use crate::fault::{caught, planted};
use crate::rt::{self, Deadline, Instant};
use crate::vi::{Address, Arming, Descriptor, Lane, Nic, Reliability, Vi, ViOptions, Wait};

const LONG: Deadline = Deadline::In(Duration::from_secs(10));
const CONNECTIONS: usize = 12;
/// Looks after which all that can be found was found.
const LOOKS: usize = 1000;
/// Looks in which a nic hears at least twice who rings.
const SOON: usize = 130;
/// More than a connection is idle before it rests.
const TURNS: usize = 30;
const ROUNDS: usize = 60;
/// Bytes of a message that is moved in pieces.
const LARGE: usize = 1 << 20;

/// Two nics that only this thread drives, and their connections.
struct Crowd {
    here: Nic,
    there: Nic,
    pairs: Vec<(Vi, Vi)>,
}

impl Crowd {
    fn new() -> Self {
        Self::waiting(Wait::Spin)
    }

    /// All are there, and rest; the other nic waits like this.
    fn waiting(wait: Wait) -> Self {
        let unique = rt::random();
        let here = nic(&format!("one-{unique}"), Wait::Spin);
        let there = nic(&format!("other-{unique}"), wait);
        let options =
            ViOptions { drain: Some(there.drain()), ..ViOptions::of(Reliability::Delivery) };
        let listener = there.listen("crowd", 0, &options).unwrap();
        let to = Address::new(there.host(), "crowd", 0);
        let connect = |_| {
            let connecting = here.connect(&to, &ViOptions::of(Reliability::Delivery), LONG);
            meet(&listener, connecting)
        };
        let pairs = (0..CONNECTIONS).map(connect).collect();
        let crowd = Self { here, there, pairs };
        // Each of these is a turn, however busy the machine is.
        for _ in 0..TURNS {
            rt::sleep(Duration::from_micros(150));
            crowd.look(200);
        }
        crowd
    }

    fn look(&self, times: usize) {
        for _ in 0..times {
            self.here.poll();
            self.there.poll();
        }
    }
}

/// How the kernel denies the memory fence over processes, if it does.
const DENIALS: [FenceFault; 2] = [FenceFault::GlobalNever, FenceFault::GlobalLater];

/// Plays `scene` where sleepers pass the memory fence over processes, where senders pass their own,
/// and where sleepers are denied what they have promised.
fn with_and_without_fence(scene: fn()) {
    scene();
    for denial in DENIALS {
        assert!(!caught(denial, scene), "{denial:?}");
    }
}

/// `body`, for another thread, with what the kernel denies to this one.
fn denied_alike(body: impl FnOnce() + Send + 'static) -> impl FnOnce() + Send + 'static {
    let denial = DENIALS.into_iter().find(|denial| planted(*denial));
    move || match denial {
        None => body(),
        Some(denial) => assert!(!caught(denial, body), "{denial:?}"),
    }
}

#[test]
fn what_begins_at_a_connection_that_rests_is_seen_to() {
    with_and_without_fence(begun_at_rest);
}

/// A message that takes more than one step at both sides, and waits for its receive first.
pub(super) fn begun_at_rest() {
    let crowd = Crowd::new();
    for (tag, (sends, receives)) in (1_u64..).zip(&crowd.pairs) {
        sends.post_send(Descriptor::new(vec![7_u8; LARGE]).with_tag(tag)).unwrap();
        crowd.look(LOOKS);
        receives.post_recv(Descriptor::new(vec![0_u8; LARGE])).unwrap();
        crowd.look(LOOKS);
        let got = receives.recv_queue().poll().expect("it was sent").ok().unwrap();
        assert_eq!((got.tag, got.bytes()), (tag, &[7_u8; LARGE][..]));
        assert!(sends.send_queue().poll().expect("the peer has it").status.is_ok());
    }
}

#[test]
fn what_comes_to_a_connection_that_rests_is_found_soon() {
    with_and_without_fence(found_soon);
}

/// By what the peer rings, and not because each connection is looked at in turn now and then.
pub(super) fn found_soon() {
    let crowd = Crowd::new();
    let drain = crowd.pairs[0].1.drain();
    for (tag, (sends, _)) in (0_u64..).zip(&crowd.pairs) {
        sends.send_eager(Lane::Talk, tag, &[]).unwrap();
        let mut came = None;
        for _ in 0..SOON {
            drain.poll(64, |_, tag, _| came = Some(tag));
        }
        assert_eq!(came, Some(tag));
    }
}

#[test]
fn a_ring_wakes_the_sleeper_whatever_others_poll() {
    with_and_without_fence(heard_by_who_sleeps);
}

/// A receive that the peer posts rings for who sleeps, and is no news to who polls.
pub(super) fn heard_by_who_sleeps() {
    let crowd = Crowd::waiting(Wait::Frugal);
    let is_relied_on = StdAtomics::has_global_fence();
    assert_eq!(armed(&crowd.there).is_some(), is_relied_on, "how long it may sleep");
    for (sends, _) in &crowd.pairs {
        assert!(!is_readable(&crowd.there), "nothing has rung");
        sends.post_recv(Descriptor::new(vec![7_u8; 8])).unwrap();
        (0..LOOKS).for_each(|_| _ = crowd.there.poll());
        assert!(is_readable(&crowd.there), "somebody else has heard it");
        crowd.there.disarm();
        armed(&crowd.there);
    }
    crowd.there.disarm();
}

#[test]
fn a_connection_that_rests_is_looked_at_once_more_behind_the_fence() {
    if StdAtomics::has_global_fence() {
        unseen_at_rest();
    }
}

/// What the fence missed is found, though the nic is woken for nothing meanwhile.
fn unseen_at_rest() {
    let Crowd { here: _here, there, mut pairs } = Crowd::waiting(Wait::Frugal);
    assert!(armed(&there).is_some(), "how long it may sleep");
    let (sends, receives) = pairs.remove(0);
    let send = move || {
        let send = || _ = sends.send_eager(Lane::Talk, 7, &[]).unwrap();
        assert!(!caught(Fault::SleepUnseen, send));
        sends
    };
    let _sends = rt::spawn("sender", send).unwrap().join().unwrap();
    let (drain, mut came) = (receives.drain(), None);
    while came.is_none() {
        there.disarm();
        let until = armed(&there);
        drain.poll(64, |_, tag, _| came = Some(tag));
        assert!(came.is_some() || until.is_some(), "it sleeps on without an end");
        rt::sleep(until.map_or(Duration::ZERO, |until| until.since(rt::now())));
    }
    assert_eq!(came, Some(7));
}

/// Arms the nic, and says until when that is good.
fn armed(nic: &Nic) -> Option<Instant> {
    loop {
        if let Arming::Armed { until } = nic.arm(nic.poll()) {
            return until;
        }
    }
}

fn is_readable(nic: &Nic) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(nic.fd().unwrap(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
}

/// However much the others send.
#[test]
fn what_comes_to_a_connection_that_rests_waits_for_few_messages_of_others() {
    with_and_without_fence(few_of_others_before);
}

fn few_of_others_before() {
    let crowd = Crowd::new();
    let drain = crowd.pairs[0].1.drain();
    let (lone, floods) = crowd.pairs.split_last().unwrap();
    let flood = || {
        for (sends, _) in floods {
            while sends.send_eager(Lane::Talk, 0, &[]).is_ok() {}
        }
    };
    flood();
    drain.poll(64, |_, _, _| {});
    lone.0.send_eager(Lane::Talk, 1, &[]).unwrap();
    let (mut before, mut is_found) = (0, false);
    while !is_found {
        drain.poll(64, |_, tag, _| {
            is_found |= tag == 1;
            before += usize::from(!is_found);
        });
        flood();
        assert!(before <= 256, "{before} messages of others");
    }
}

/// Often enough for each ring to begin again more than once.
#[test]
fn what_comes_to_many_connections_is_found_wherever_their_rings_are() {
    with_and_without_fence(found_wherever);
}

fn found_wherever() {
    let crowd = Crowd::new();
    let drain = crowd.pairs[0].1.drain();
    let lines = crate::fabric::shm::layout::LANE_LINES;
    for round in 0..=2 * lines / 48 {
        for (number, (sends, _)) in crowd.pairs.iter().enumerate() {
            sends.send_eager(Lane::Talk, number as u64, &[&[1_u8; 3000]]).unwrap();
        }
        let mut came = Vec::new();
        for _ in 0..LOOKS {
            drain.poll(64, |_, tag, _| came.push(tag));
        }
        came.sort_unstable();
        let all: Vec<_> = (0..CONNECTIONS as u64).collect();
        assert_eq!(came, all, "round {round}");
        crowd.here.poll();
    }
}

/// Some rest and some do not when a nic goes to sleep, and whoever comes wakes it.
#[test]
fn a_nic_that_sleeps_is_woken_by_those_that_rest_and_by_those_that_do_not() {
    with_and_without_fence(woken_by_all);
}

fn woken_by_all() {
    let crowd = Crowd::waiting(Wait::Frugal);
    let pairs = &crowd.pairs;
    let drain = pairs[0].1.drain().clone();
    let echoes = move || {
        let mut left = ROUNDS * CONNECTIONS;
        while left > 0 {
            left -=
                drain.wait(64, LONG, |reply, tag, _| _ = reply.send(Lane::Talk, tag, &[])).unwrap();
        }
    };
    let echo = rt::spawn("echo", denied_alike(echoes));
    for round in 0..ROUNDS {
        for (number, (sends, _)) in pairs.iter().enumerate() {
            // The first ones have something to do all the time.
            let busy = if round % 4 == 0 { number } else { number % 3 };
            let sends = if busy == number { sends } else { &pairs[busy].0 };
            sends.send_eager(Lane::Talk, number as u64, &[]).unwrap();
            let mut came = None;
            sends.drain().wait(1, LONG, |_, tag, _| came = Some(tag)).unwrap();
            assert_eq!(came, Some(number as u64), "round {round}");
        }
        if round % 8 == 0 {
            rt::sleep(Duration::from_millis(2));
        }
    }
    echo.unwrap().join().unwrap();
}
