//! Every interleaving of threads that hand_on a role on, by the model checker, and what
//! the checks say to planted faults. A role that is lost is a deadlock there.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::super::checker::LoomAtomics;
use super::super::role::{DriverKind, DrivingRole, Fault, RoleAttempt, RoleWait, RoleWaiter};
use crate::fault::caught;
use crate::rt::{self, Instant};

/// A role, and two words that only its holder may touch.
struct Scene {
    driving_role: DrivingRole<LoomAtomics>,
    pair: [AtomicU64; 2],
}

fn scene() -> Arc<Scene> {
    Arc::new(Scene {
        driving_role: DrivingRole::new(),
        pair: [AtomicU64::new(0), AtomicU64::new(0)],
    })
}

/// What a thread that wants the role gets.
#[derive(Debug, PartialEq, Eq)]
enum Got {
    Role,
    Woken,
    TimedOut,
}

impl Scene {
    /// What the holder of the role does.
    fn step(&self) {
        let [a, b] = self.pair.each_ref().map(|word| word.load(Relaxed));
        assert_eq!(a, b, "somebody else has the role");
        self.pair.iter().for_each(|word| word.store(a + 1, Relaxed));
    }

    fn steps(&self) -> u64 {
        self.pair[0].load(Relaxed)
    }

    /// Takes the role, or waits for it, and steps.
    fn go(&self, waiter: &mut RoleWaiter<LoomAtomics>, until: Option<Instant>) -> Got {
        let (guard, got) = match self.driving_role.enter_or_wait(waiter) {
            RoleAttempt::Acquired(guard) => (Some(guard), Got::Role),
            RoleAttempt::Taken { waiter, .. } => match waiter.wait(until) {
                RoleWait::Given(guard) => (Some(guard), Got::Role),
                RoleWait::Woken => (None, Got::Woken),
                RoleWait::TimedOut => (None, Got::TimedOut),
            },
        };
        if guard.is_some() {
            self.step();
        }
        got
    }

    /// Nobody has the role, and nobody sits.
    fn is_free(&self) {
        match self.driving_role.enter(DriverKind::Foreground) {
            RoleAttempt::Acquired(_) => self.step(),
            RoleAttempt::Taken { .. } => panic!("the role was lost"),
        }
    }
}

fn spawn<R: 'static>(
    scene: &Arc<Scene>,
    body: impl FnOnce(&Scene, &mut RoleWaiter<LoomAtomics>) -> R + 'static,
) -> thread::JoinHandle<R> {
    let scene = Arc::clone(scene);
    thread::spawn(move || body(&scene, &mut RoleWaiter::new(DriverKind::Foreground)))
}

fn check(preemptions: usize, body: fn()) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = Some(preemptions);
    checker.check(body);
}

/// Two threads step, one after the other.
fn both_step() {
    let scene = scene();
    let other = spawn(&scene, |scene, waiter| scene.go(waiter, None));
    let mut waiter = RoleWaiter::new(DriverKind::Foreground);
    let mine = [(); 2].map(|()| scene.go(&mut waiter, None));
    assert_eq!((mine, other.join().unwrap()), ([Got::Role, Got::Role], Got::Role));
    assert_eq!(scene.steps(), 3);
    scene.is_free();
}

#[test]
fn one_thread_at_a_time() {
    check(3, both_step);
}

#[test]
fn three_take_turns() {
    check(1, || {
        let scene = scene();
        let others = [(); 2].map(|()| spawn(&scene, |scene, waiter| scene.go(waiter, None)));
        scene.go(&mut RoleWaiter::new(DriverKind::Foreground), None);
        for other in others {
            assert_eq!(other.join().unwrap(), Got::Role);
        }
        assert_eq!(scene.steps(), 3);
        scene.is_free();
    });
}

/// A waiter is woken while the role is given to it: it has one of the two, and the role
/// is not lost. The threads of `behind` enter_or_wait too, and wait for the role alone.
fn woken_and_given(behind: usize) {
    let scene = scene();
    let RoleAttempt::Acquired(guard) = scene.driving_role.enter(DriverKind::Foreground) else {
        panic!("it is free")
    };
    let mut waiter = RoleWaiter::new(DriverKind::Foreground);
    let state = Arc::clone(waiter.state());
    let RoleAttempt::Taken { waiter, .. } = scene.driving_role.enter_or_wait(&mut waiter) else {
        panic!("it is taken")
    };
    let others: Vec<_> =
        (0..behind).map(|_| spawn(&scene, |scene, waiter| scene.go(waiter, None))).collect();
    let waker = thread::spawn(move || state.wake());
    drop(guard);
    if let RoleWait::Given(_turn) = waiter.wait(None) {
        scene.step();
    }
    waker.join().unwrap();
    for other in others {
        assert_eq!(other.join().unwrap(), Got::Role);
    }
    scene.is_free();
}

#[test]
fn a_woken_waiter_passes_the_role_on() {
    check(3, || woken_and_given(0));
}

#[test]
fn a_role_that_is_passed_on_reaches_who_waits_for_it() {
    check(2, || woken_and_given(1));
}

/// The holder's waiter is woken from the holder's guard, as a driver does.
fn completed_by_the_driver() {
    let scene = scene();
    let mut waiter = RoleWaiter::new(DriverKind::Foreground);
    let state = Arc::clone(waiter.state());
    let driver = spawn(&scene, move |scene, waiter| {
        let got = scene.go(waiter, None);
        assert_eq!(got, Got::Role);
        state.wake();
    });
    let mut waits = 0;
    loop {
        match scene.driving_role.enter_or_wait(&mut waiter) {
            // Its guard comes and goes until what it waits for is there.
            RoleAttempt::Acquired(_) => {
                scene.step();
                break;
            }
            RoleAttempt::Taken { waiter, .. } => match waiter.wait(None) {
                RoleWait::Given(_) => {
                    scene.step();
                    break;
                }
                RoleWait::Woken => waits += 1,
                RoleWait::TimedOut => panic!("it has no deadline"),
            },
        }
        assert!(waits < 2, "woken once");
    }
    driver.join().unwrap();
    scene.is_free();
}

#[test]
fn a_wake_is_not_lost() {
    check(3, completed_by_the_driver);
}

/// A wait that is over gives up its waiter, and the role if that was its.
fn timed_out() {
    let scene = scene();
    let past = Some(rt::now());
    let other = spawn(&scene, move |scene, waiter| scene.go(waiter, past));
    let mine = scene.go(&mut RoleWaiter::new(DriverKind::Foreground), None);
    assert_eq!(mine, Got::Role);
    assert_ne!(other.join().unwrap(), Got::Woken);
    scene.is_free();
}

#[test]
fn a_wait_that_is_over_loses_no_role() {
    check(3, timed_out);
}

#[test]
fn a_seat_that_is_dropped_loses_no_role() {
    check(3, || {
        let scene = scene();
        let other = spawn(&scene, |scene, waiter| drop(scene.driving_role.enter_or_wait(waiter)));
        assert_eq!(scene.go(&mut RoleWaiter::new(DriverKind::Foreground), None), Got::Role);
        other.join().unwrap();
        scene.is_free();
    });
}

/// A thread in the background drives until it is asked to leave. The nic of the scene
/// is a word, and waiting for it is to look at that until it changes.
fn asked_to_leave() {
    let scene = scene();
    let woken = Arc::new(AtomicU64::new(0));
    let RoleAttempt::Acquired(guard) = scene.driving_role.enter(DriverKind::Background) else {
        panic!("it is free")
    };
    let other = spawn(&scene, {
        let woken = Arc::clone(&woken);
        move |scene, waiter| match scene.driving_role.enter_or_wait(waiter) {
            RoleAttempt::Acquired(_) => scene.step(),
            RoleAttempt::Taken { waiter, wake } => {
                if wake {
                    woken.store(1, Relaxed);
                }
                assert!(matches!(waiter.wait(None), RoleWait::Given(_)), "nobody else waits");
            }
        }
    });
    scene.step();
    while !scene.driving_role.is_wanted() && woken.load(Relaxed) == 0 {
        thread::yield_now();
    }
    drop(guard);
    other.join().unwrap();
    assert!(!scene.driving_role.is_wanted(), "asked once");
    scene.is_free();
}

#[test]
fn a_background_thread_leaves_when_it_is_asked_to() {
    check(3, asked_to_leave);
}

/// Nothing but the wake ends the wait.
fn woken_alone() {
    let scene = scene();
    let RoleAttempt::Acquired(guard) = scene.driving_role.enter(DriverKind::Foreground) else {
        panic!("it is free")
    };
    // Not left where the checker finds a deadlock and unwinds.
    let guard = ManuallyDrop::new(guard);
    let mut waiter = RoleWaiter::new(DriverKind::Foreground);
    let state = Arc::clone(waiter.state());
    let waker = thread::spawn(move || state.wake());
    let RoleAttempt::Taken { waiter, .. } = scene.driving_role.enter_or_wait(&mut waiter) else {
        panic!("it is taken")
    };
    assert!(matches!(waiter.wait(None), RoleWait::Woken), "nobody left");
    drop(ManuallyDrop::into_inner(guard));
    waker.join().unwrap();
    scene.is_free();
}

#[test]
fn a_wake_ends_a_wait() {
    check(3, woken_alone);
}

/// Who leaves with the lock says behind it whose the role is.
fn handed_on() {
    let scene = scene();
    let RoleAttempt::Acquired(guard) = scene.driving_role.enter(DriverKind::Foreground) else {
        panic!("it is free")
    };
    let other = spawn(&scene, |scene, waiter| scene.go(waiter, None));
    scene.step();
    let next = guard.hand_on();
    // Meanwhile the role is the other's, who has not been told, or nobody's.
    let third = spawn(&scene, |scene, waiter| scene.go(waiter, None));
    drop(next);
    assert_eq!((other.join().unwrap(), third.join().unwrap()), (Got::Role, Got::Role));
    assert_eq!(scene.steps(), 3);
    scene.is_free();
}

#[test]
fn a_role_that_is_handed_on_under_the_lock_is_not_lost() {
    check(1, handed_on);
}

#[test]
fn every_planted_fault_is_found() {
    let faults: [(Fault, usize, fn()); 7] = [
        (Fault::NotNotified, 1, handed_on),
        (Fault::RoleKept, 3, || woken_and_given(0)),
        (Fault::GivenTwice, 3, both_step),
        (Fault::WokenLate, 3, woken_alone),
        (Fault::NotNotified, 3, both_step),
        (Fault::WaiterLeftQueued, 3, timed_out),
        (Fault::RequestForgotten, 3, asked_to_leave),
    ];
    for (fault, preemptions, scene) in faults {
        assert!(caught(fault, || check(preemptions, scene)), "{fault:?}");
    }
}
