use std::sync::atomic::Ordering::Relaxed;

use loom::thread;

use super::checker::{self, memory};
use super::{foreign_of, shared};
use crate::atomics::checker::check;
use crate::fabric::shm::bell::{Habit, Ringer, Sleeper};
use crate::fabric::shm::cord::{Cord, Handle};
use crate::fabric::shm::fault::{Fault, planted};
use crate::fabric::shm::memory::{LINE, Own};
use crate::fabric::shm::ring::{Consumer, Producer};

#[test]
fn loom_no_wake_up_is_lost() {
    check(no_lost_wake_up);
}

#[test]
fn loom_no_wake_up_is_lost_though_the_cord_is_not_drained() {
    check(|| two_messages(false));
}

pub(super) fn no_lost_wake_up() {
    two_messages(true);
}

/// Two messages to a process that sleeps whenever it finds none: it may sleep
/// once, twice or never, and must have both.
fn two_messages(drains: bool) {
    let (slots, flag) = (memory(2), memory(1));
    let cord = checker::Cord::new();
    let mut sleeper = Sleeper::new(flag, 0, Habit::Sleeps);
    let mut producer = Producer::new(slots, 0, 2);
    let mut ringer = Ringer::new(flag, 0, cord).unwrap();
    let sending = thread::spawn(move || {
        for number in 0..2 {
            producer.put(number, &[0; 7]);
            ringer.ring().unwrap();
        }
    });
    let mut consumer = Consumer::new(slots, 0, 2).unwrap();
    while consumer.taken_count() < 2 {
        if consumer.poll().is_some() {
            continue;
        }
        sleep_unless(&mut sleeper, cord, drains, || consumer.poll().is_some());
    }
    sending.join().unwrap();
}

/// As a driver does it: arm, look, sleep, disarm, and now and then drain.
fn sleep_unless(
    sleeper: &mut Sleeper<checker::Memory>,
    cord: &checker::Cord,
    drains: bool,
    mut look: impl FnMut() -> bool,
) {
    let seen = planted(Fault::LookBeforeArm) && look();
    sleeper.arm();
    let seen = if planted(Fault::LookBeforeArm) { seen } else { look() };
    if planted(Fault::DrainAfterArm) {
        cord.drain();
    }
    if !seen {
        cord.sleep();
    }
    sleeper.disarm();
    if drains && !planted(Fault::DrainAfterArm) {
        cord.drain();
    }
}

#[test]
fn a_sleeper_is_rung_once_each_time_it_sleeps() {
    let (own, foreign) = shared(4096);
    let (cord, handle) = Cord::pair().unwrap();
    let mut sleeper = Sleeper::new(own, LINE, Habit::Sleeps);
    let mut ringer = Ringer::new(foreign, LINE as u64, Handle::new(handle).unwrap()).unwrap();
    assert!(!ringer.ring().unwrap(), "it is awake");
    for _ in 0..3 {
        sleeper.arm();
        assert!(ringer.ring().unwrap(), "it sleeps");
        assert!(!ringer.ring().unwrap(), "it was rung for this");
        sleeper.disarm();
        assert_eq!(cord.drain().unwrap(), 1);
        assert!(!ringer.ring().unwrap(), "it is awake");
        assert_eq!(cord.drain().unwrap(), 0);
    }
}

#[test]
fn a_peer_that_never_sleeps_is_never_rung() {
    let own = Own::new(4096).unwrap();
    let (cord, handle) = Cord::pair().unwrap();
    let _sleeper = Sleeper::new(own.clone(), 0, Habit::Spins);
    let handle = Handle::new(handle).unwrap();
    let mut ringer = Ringer::new(foreign_of(&own), 0, handle).unwrap();
    own.word(0).store(u64::MAX, Relaxed);
    assert!(!ringer.ring().unwrap(), "it was asked when connecting");
    assert_eq!(cord.drain().unwrap(), 0);
}

#[test]
#[should_panic(expected = "never sleeps")]
fn who_never_sleeps_does_not() {
    Sleeper::new(Own::new(4096).unwrap(), 0, Habit::Spins).arm();
}

#[test]
fn a_bell_that_is_not_there_is_none() {
    let (_own, foreign) = shared(4096);
    for offset in [1, 8, 4096, u64::MAX, u64::MAX - 63] {
        let (_cord, handle) = Cord::pair().unwrap();
        let handle = Handle::new(handle).unwrap();
        assert!(Ringer::new(foreign.clone(), offset, handle).is_none(), "{offset}");
    }
}
