use std::sync::atomic::Ordering::Relaxed;

use loom::thread;

use super::checker::{self, memory};
use super::{foreign_of, shared};
use crate::atomics::checker::check;
use crate::atomics::{Atomics, FenceFault, StdAtomics};
use crate::fabric::shm::doorbell::{
    DoorbellRinger, DoorbellSleeper, SleepPolicy, WakeupCertainty, rest_fence, settle,
};
use crate::fabric::shm::doorbell_socket::{DoorbellHandle, DoorbellSocket};
use crate::fabric::shm::fault::{Fault, caught, planted};
use crate::fabric::shm::memory::{LINE, OwnMemory, Writable};
use crate::fabric::shm::records::{RingReceiver, RingSender, Scratch};

#[test]
fn loom_no_wake_up_is_lost() {
    check(no_lost_wake_up);
}

#[test]
fn loom_no_wake_up_is_lost_where_ringers_fence() {
    assert!(!caught(FenceFault::GlobalNever, || check(no_lost_wake_up)));
}

#[test]
fn loom_no_wake_up_is_lost_when_the_fence_is_denied_later() {
    assert!(!caught(FenceFault::GlobalLater, || check(no_lost_wake_up)));
}

#[test]
fn loom_finds_who_trusts_a_bell_without_its_fence() {
    assert!(caught(FenceFault::GlobalLater, || check(|| two_messages(true, Trust::Blind))));
}

/// What a sleeper makes of a bell that is not to be trusted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// It looks again soon.
    Wary,
    /// It sleeps on.
    Blind,
}

#[test]
fn loom_no_wake_up_is_lost_though_the_cord_is_not_drained() {
    check(|| two_messages(false, Trust::Wary));
}

pub(super) fn no_lost_wake_up() {
    two_messages(true, Trust::Wary);
}

#[test]
fn loom_an_end_that_rests_is_rung() {
    check(rest);
}

#[test]
fn loom_an_end_that_rests_is_rung_where_ringers_fence() {
    assert!(!caught(FenceFault::GlobalNever, || check(rest)));
}

/// An end says that it sleeps, passes a fence of its own, and looks: a ringer that fences, too, is
/// seen or rings. The model takes the light fence of a ringer for a full one; what a put behind a
/// light one misses is found in turn (`rounds.rs`).
pub(super) fn rest() {
    let (lines, consumed, flag) = (memory(2), memory(1), memory(1));
    let cord = checker::Cord::new();
    let mut sleeper = DoorbellSleeper::new(flag, 0, SleepPolicy::Sleeps);
    let mut sender = RingSender::from_lines(2, lines, 0, 2, consumed, 0).unwrap();
    let mut ringer = DoorbellRinger::new(flag, 0, cord).unwrap();
    let sending = thread::spawn(move || {
        sender.send(0, &[]).unwrap();
        ringer.ring().unwrap();
    });
    let receiver = RingReceiver::from_lines(2, lines, 0, 2, consumed, 0).unwrap();
    let (mut receiver, mut scratch) = (receiver.of_posted(), Scratch::of_posted());
    sleeper.doze();
    rest_fence::<<checker::Memory as Writable>::Atomics>();
    if receiver.take_posted(&mut scratch).unwrap().is_none() {
        cord.sleep();
    }
    sending.join().unwrap();
}

/// Two messages to a process that sleeps whenever it finds none: it may sleep
/// once, twice or never, and must have both.
fn two_messages(drains: bool, trust: Trust) {
    let (lines, consumed, flag) = (memory(2), memory(1), memory(1));
    let cord = checker::Cord::new();
    let mut sleeper = DoorbellSleeper::new(flag, 0, SleepPolicy::Sleeps);
    let mut sender = RingSender::from_lines(2, lines, 0, 2, consumed, 0).unwrap();
    let mut ringer = DoorbellRinger::new(flag, 0, cord).unwrap();
    let sending = thread::spawn(move || {
        for number in 0..2 {
            sender.send(number, &[]).unwrap();
            ringer.ring().unwrap();
        }
    });
    let receiver = RingReceiver::from_lines(2, lines, 0, 2, consumed, 0).unwrap();
    let (mut receiver, mut scratch) = (receiver.of_posted(), Scratch::of_posted());
    while receiver.position() < 2 {
        if receiver.take_posted(&mut scratch).unwrap().is_some() {
            continue;
        }
        sleep_unless(&mut sleeper, cord, (drains, trust), || {
            receiver.take_posted(&mut scratch).unwrap().is_some()
        });
    }
    sending.join().unwrap();
}

/// What a nic does with the words of all its ends, of one.
fn arm<M: Writable>(sleeper: &mut DoorbellSleeper<M>) -> WakeupCertainty {
    sleeper.doze();
    settle(std::iter::once(&*sleeper))
}

/// As a driver does it: arm, look, sleep, disarm, and now and then drain.
fn sleep_unless(
    sleeper: &mut DoorbellSleeper<checker::Memory>,
    cord: &checker::Cord,
    (drains, trust): (bool, Trust),
    mut look: impl FnMut() -> bool,
) {
    let seen = planted(Fault::LookBeforeArm) && look();
    let is_sure = arm(sleeper) != WakeupCertainty::Doubtful || trust == Trust::Blind;
    let seen = if planted(Fault::LookBeforeArm) { seen } else { look() };
    if planted(Fault::DrainAfterArm) {
        cord.drain();
    }
    match seen {
        true => {}
        false if is_sure => cord.sleep(),
        // A sleep that ends by itself.
        false => thread::yield_now(),
    }
    sleeper.disarm();
    if drains && !planted(Fault::DrainAfterArm) {
        cord.drain();
    }
}

#[test]
fn a_sleeper_is_rung_once_each_time_it_sleeps() {
    let (own, foreign) = shared(4096);
    let (cord, handle) = DoorbellSocket::pair().unwrap();
    let mut sleeper = DoorbellSleeper::new(own, LINE, SleepPolicy::Sleeps);
    let mut ringer =
        DoorbellRinger::new(foreign, LINE as u64, DoorbellHandle::new(handle).unwrap()).unwrap();
    assert!(!ringer.ring().unwrap(), "it is awake");
    for _ in 0..3 {
        assert_ne!(arm(&mut sleeper), WakeupCertainty::Doubtful);
        assert!(ringer.ring().unwrap(), "it sleeps");
        assert!(!ringer.ring().unwrap(), "it was rung for this");
        sleeper.disarm();
        assert_eq!(cord.drain().unwrap(), 1);
        assert!(!ringer.ring().unwrap(), "it is awake");
        assert_eq!(cord.drain().unwrap(), 0);
    }
}

#[test]
fn an_end_of_a_nic_that_never_sleeps_is_rung_when_it_rests() {
    let own = OwnMemory::new(4096).unwrap();
    let (cord, handle) = DoorbellSocket::pair().unwrap();
    let mut sleeper = DoorbellSleeper::new(own.clone(), 0, SleepPolicy::Spins);
    let handle = DoorbellHandle::new(handle).unwrap();
    let mut ringer = DoorbellRinger::new(foreign_of(&own), 0, handle).unwrap();
    assert!(!ringer.is_light() && !ringer.ring().unwrap(), "it is awake");
    sleeper.doze();
    assert!(ringer.ring().unwrap() && !ringer.ring().unwrap());
    sleeper.disarm();
    assert!(!ringer.ring().unwrap(), "it is awake");
    assert_eq!(cord.drain().unwrap(), 1);
}

/// Runs `body` where the kernel denies the fence so, if at all.
fn denied<T>(denial: Option<FenceFault>, body: impl FnOnce() -> T) -> T {
    let mut made = None;
    let make = || made = Some(body());
    match denial {
        Some(denial) => assert!(!caught(denial, make)),
        None => make(),
    }
    made.unwrap()
}

fn ringer(own: &OwnMemory) -> DoorbellRinger {
    let (_cord, handle) = DoorbellSocket::pair().unwrap();
    DoorbellRinger::new(foreign_of(own), 0, DoorbellHandle::new(handle).unwrap()).unwrap()
}

#[test]
fn a_ringer_goes_light_only_for_a_sleeper_that_fences() {
    no_promise();
    let never = Some(FenceFault::GlobalNever);
    for (asleep, ringing) in [(None, None), (never, None), (None, never), (never, never)] {
        let own = OwnMemory::new(4096).unwrap();
        let mut sleeper =
            denied(asleep, || DoorbellSleeper::new(own.clone(), 0, SleepPolicy::Sleeps));
        let ringer = denied(ringing, || ringer(&own));
        let both = asleep.is_none() && ringing.is_none() && StdAtomics::has_global_fence();
        assert_eq!(ringer.is_light(), both, "asleep {asleep:?}, ringing {ringing:?}");
        let is_relied_on = asleep.is_none() && StdAtomics::has_global_fence();
        let bells = if is_relied_on { WakeupCertainty::Likely } else { WakeupCertainty::Sure };
        assert_eq!(arm(&mut sleeper), bells, "nobody relies on what is not there");
    }
}

/// The word of a sleeper that promises nothing, as those did that knew no fence.
pub(super) fn no_promise() {
    let own = OwnMemory::new(4096).unwrap();
    for word in [0, 5, 5 << 2 | 1] {
        own.word(0).store(word, Relaxed);
        assert!(!ringer(&own).is_light(), "{word}");
    }
}

#[test]
fn a_fence_denied_later_makes_doorbells_doubtful() {
    let own = OwnMemory::new(4096).unwrap();
    let mut sleeper = DoorbellSleeper::new(own.clone(), 0, SleepPolicy::Sleeps);
    let has_fence = StdAtomics::has_global_fence();
    assert_eq!(ringer(&own).is_light(), has_fence);
    assert_ne!(arm(&mut sleeper), WakeupCertainty::Doubtful);
    sleeper.disarm();
    for _ in 0..2 {
        let bells = denied(Some(FenceFault::GlobalLater), || arm(&mut sleeper));
        assert_eq!(bells == WakeupCertainty::Doubtful, has_fence, "its ringer relies on it");
        sleeper.disarm();
    }
    assert_ne!(arm(&mut sleeper), WakeupCertainty::Doubtful, "it is granted again");
    drop(DoorbellSleeper::new(own.clone(), 0, SleepPolicy::SleepsUnfenced));
    assert!(!ringer(&own).is_light(), "once denied it is not promised again");
}

#[test]
fn a_bell_that_is_not_there_is_none() {
    let (_own, foreign) = shared(4096);
    for offset in [1, 8, 4096, u64::MAX, u64::MAX - 63] {
        let (_cord, handle) = DoorbellSocket::pair().unwrap();
        let handle = DoorbellHandle::new(handle).unwrap();
        assert!(DoorbellRinger::new(foreign.clone(), offset, handle).is_none(), "{offset}");
    }
}
