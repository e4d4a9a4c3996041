//! Every order in which two processes can see what happens to a slot, by the
//! model checker. The slot's bytes are a cell that its owner writes.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicU64;
use loom::thread;

use crate::atomics::checker::check;
use crate::buf::{arrive, depart, is_here, let_go};
use crate::fabric::shm::cooperating::returns::{ReturnsReader, ReturnsWriter, SlotPlace};
use crate::fabric::shm::tests::checker::{Memory, memory};

const PLACE: SlotPlace = SlotPlace { region: 1, class: 2, number: 3 };

/// A slot that is at the visitor.
struct World {
    /// The visitor's count of its handles.
    handles: AtomicU64,
    returner: ReturnsWriter<Memory>,
    /// A message: that the slot changes hands.
    told: AtomicU64,
    bytes: UnsafeCell<u32>,
}

impl World {
    fn new(handles: u64) -> (&'static Self, ReturnsReader<Memory>) {
        let returns = memory(2);
        let world = Self {
            handles: AtomicU64::new(handles),
            returner: ReturnsWriter::new(returns, 0, 2),
            told: AtomicU64::new(0),
            bytes: UnsafeCell::new(0),
        };
        (Box::leak(Box::new(world)), ReturnsReader::new(returns, 0, 2).unwrap())
    }

    fn write(&self) {
        // SAFETY: the checker sees to it that nobody else reads or writes meanwhile.
        self.bytes.with_mut(|bytes| unsafe { *bytes += 1 });
    }

    fn read(&self) {
        // SAFETY: the checker sees to it that nobody writes meanwhile.
        self.bytes.with(|bytes| assert!(unsafe { *bytes } < 100));
    }

    /// The visitor leaves.
    fn leave(&self) {
        let held = std::iter::once_with(|| is_here(&self.handles).then_some(PLACE));
        self.returner.leave(held.flatten());
    }

    /// The end of a handle at the visitor.
    fn drop_one(&self) {
        if let_go(&self.handles).is_some() {
            depart(&self.handles, || self.returner.put(PLACE));
        }
    }
}

#[test]
fn loom_what_came_back_is_not_held() {
    check(not_held);
}

/// The same, and the home lends the slot again if it does not know that the
/// visitor has left. That is never read, so it must not be said to be held.
pub(super) fn not_held() {
    let (world, mut returned) = World::new(1);
    let dropping = thread::spawn(|| world.drop_one());
    let leaving = thread::spawn(|| world.leave());
    while returns(&mut returned) == 0 {
        thread::yield_now();
    }
    let lends = !returned.has_left();
    dropping.join().unwrap();
    leaving.join().unwrap();
    let held = returned.held().unwrap();
    assert!(!lends || held.is_empty(), "it would stay out for ever");
}

/// How often the slot returned by now; it is the home's.
fn returns(returned: &mut ReturnsReader<Memory>) -> u32 {
    let mut count = 0;
    returned.poll(|place| {
        assert_eq!(place, Some(PLACE));
        count += 1;
    });
    count
}

#[test]
fn loom_a_slot_returns_and_comes_again() {
    check(comes_again);
}

/// Dropped here, home, and lent again while the one who dropped it is still at
/// it.
pub(super) fn comes_again() {
    let (world, mut returned) = World::new(1);
    let dropping = thread::spawn(|| {
        world.write();
        world.drop_one();
    });
    let receiving = thread::spawn(|| {
        while world.told.load(Acquire) == 0 {
            thread::yield_now();
        }
        assert!(arrive(&world.handles), "it is still here");
        world.write();
    });
    while returns(&mut returned) == 0 {
        thread::yield_now();
    }
    world.write();
    world.told.store(1, Release);
    dropping.join().unwrap();
    receiving.join().unwrap();
    assert_eq!((returns(&mut returned), world.handles.load(Relaxed)), (0, 1));
}

#[test]
fn loom_a_slot_has_one_way_home() {
    check(one_way_home);
}

/// One reader drops its handle; the other hands the buffer back if it is the
/// last, and drops its own if not.
pub(super) fn one_way_home() {
    let (world, mut returned) = World::new(2);
    let dropping = thread::spawn(|| {
        world.read();
        world.drop_one();
    });
    let handing = thread::spawn(|| {
        if world.handles.load(Acquire) != 1 {
            return world.drop_one();
        }
        world.write();
        depart(&world.handles, || world.told.store(1, Release));
    });
    let mut came = 0;
    while came == 0 {
        came += returns(&mut returned) + u32::from(world.told.load(Acquire) == 1);
        thread::yield_now();
    }
    world.write();
    dropping.join().unwrap();
    handing.join().unwrap();
    let told = world.told.load(Acquire);
    assert_eq!(world.returner.count() + told, 1, "exactly one of the two");
    assert_eq!(world.handles.load(Relaxed), 0);
}

#[test]
fn loom_two_return_at_once() {
    check(|| {
        let (world, mut returned) = World::new(1);
        let put = |number| move || world.returner.put(SlotPlace { number, ..PLACE });
        let putting = [thread::spawn(put(0)), thread::spawn(put(1))];
        let mut seen = Vec::new();
        while seen.len() < 2 {
            returned.poll(|place| seen.push(place.unwrap().number));
            thread::yield_now();
        }
        putting.into_iter().for_each(|thread| thread.join().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, [0, 1]);
    });
}

#[test]
fn loom_who_leaves_says_what_it_holds() {
    check(leaves);
}

/// The visitor leaves while a thread of it drops the buffer: either it is held
/// and returns, or it is not and free. In the end it is home.
pub(super) fn leaves() {
    let (world, mut returned) = World::new(1);
    let dropping = thread::spawn(|| {
        world.write();
        world.drop_one();
    });
    let leaving = thread::spawn(|| world.leave());
    loop {
        let came = returns(&mut returned) == 1;
        if came || returned.held().is_some_and(|held| held.is_empty()) {
            break;
        }
        thread::yield_now();
    }
    world.write();
    dropping.join().unwrap();
    leaving.join().unwrap();
}
