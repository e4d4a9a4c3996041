//! Every order in which the two sides of a gate can see each other, by the model
//! checker. The memory behind the gate is a cell that must not be raced for.

use loom::cell::UnsafeCell;
use loom::thread;

use crate::atomics::checker::check;
use crate::fabric::shm::cooperating::gate::{GateEntrant, GateKeeper, GatePass};
use crate::fabric::shm::tests::checker::{Memory, memory};

const GATES: u16 = 2;
const FIRST: GatePass = GatePass { gate: 0, number: 1 };
const SECOND: GatePass = GatePass { gate: 1, number: 2 };
/// Another time at the gate of the first.
const AGAIN: GatePass = GatePass { gate: 0, number: 3 };

/// Memory of the keeper's.
struct Behind(UnsafeCell<u64>);

impl Behind {
    fn new() -> &'static Self {
        Box::leak(Box::new(Self(UnsafeCell::new(0))))
    }

    fn set(&self, value: u64) {
        // SAFETY: the checker sees to it that nobody else reads or writes meanwhile.
        self.0.with_mut(|cell| unsafe { *cell = value });
    }

    fn get(&self) -> u64 {
        // SAFETY: the checker sees to it that nobody writes meanwhile.
        self.0.with(|cell| unsafe { *cell })
    }
}

fn sides() -> (GateKeeper<Memory, Memory>, GateEntrant<Memory, Memory>) {
    let (keeps, enters) = (memory(2), memory(2));
    let keeper = GateKeeper::new(keeps, enters, 0, GATES).unwrap();
    (keeper, GateEntrant::new(enters, keeps, 0, GATES).unwrap())
}

#[test]
fn loom_nobody_writes_what_the_keeper_has_back() {
    check(waits_for_who_is_inside);
}

/// The keeper shuts the gate, waits until nobody is inside, and has the memory.
pub(super) fn waits_for_who_is_inside() {
    let (keeper, mut entrant) = sides();
    let (memory, other) = (Behind::new(), Behind::new());
    keeper.open(FIRST);
    keeper.open(SECOND);
    let writing = thread::spawn(move || {
        let first = entrant.enter(FIRST, || memory.set(1));
        (first, entrant.enter(SECOND, || other.set(1)))
    });
    keeper.shut(FIRST);
    while keeper.is_inside(FIRST) {
        thread::yield_now();
    }
    let seen = memory.get();
    memory.set(2);
    let (first, second) = writing.join().unwrap();
    assert!(seen == 1 || !first, "it succeeded and is not there");
    assert!(second, "its gate was never shut");
    assert_eq!(memory.get(), 2, "it was written afterwards");
}

#[test]
fn loom_what_succeeded_is_the_keepers() {
    check(does_not_wait);
}

/// The keeper gives up the memory if somebody is inside.
pub(super) fn does_not_wait() {
    let (keeper, mut entrant) = sides();
    let memory = Behind::new();
    keeper.open(FIRST);
    let writing = thread::spawn(move || entrant.enter(FIRST, || memory.set(1)));
    keeper.shut(FIRST);
    let seen = (!keeper.is_inside(FIRST)).then(|| memory.get());
    let succeeded = writing.join().unwrap();
    assert!(seen == Some(1) || !succeeded, "{seen:?} is what the keeper has of it");
}

#[test]
fn loom_a_gate_opens_for_others() {
    check(opens_again);
}

/// The gate is another's by now: who was told of the first time stays out.
pub(super) fn opens_again() {
    let (keeper, mut entrant) = sides();
    let memory = Behind::new();
    keeper.open(FIRST);
    let writing = thread::spawn(move || {
        entrant.enter(FIRST, || memory.set(1));
        entrant.enter(FIRST, || memory.set(1))
    });
    keeper.shut(FIRST);
    while keeper.is_inside(FIRST) {
        thread::yield_now();
    }
    keeper.open(AGAIN);
    memory.set(2);
    writing.join().unwrap();
    assert_eq!(memory.get(), 2, "it was written afterwards");
}
