//! Every interleaving of a thread with a cache and one that revokes it, by the
//! model checker. The cache of the scenes has two places at most.

use super::slots::Slots;
use crate::atomics::checker::check;

#[test]
fn a_stashed_slot_is_found_by_another_thread() {
    check(taker_revokes);
}

/// All that is free is in the cache, or on its way there.
pub(super) fn taker_revokes() {
    let slots = Slots::biased(2);
    slots.own(1);
    let mine = slots.take().unwrap();
    let other = slots.spawn(|slots| {
        let first = slots.take().expect("one of two is out");
        slots.take().map_or(1, |second| {
            assert_ne!(first, second);
            2
        })
    });
    slots.give(mine);
    let theirs = other.join().unwrap();
    assert_eq!(slots.available(), 2 - theirs);
    assert_eq!(slots.take_all(), 2 - theirs);
}

#[test]
fn a_slot_of_a_stash_has_one_holder() {
    check(one_holder_of_a_stash);
}

/// The owner takes out of its cache while it is revoked.
pub(super) fn one_holder_of_a_stash() {
    let slots = Slots::biased(1);
    slots.own(1);
    let other = slots.spawn(|slots| slots.take());
    let mine = slots.take();
    let theirs = other.join().unwrap();
    assert_eq!([mine, theirs].iter().flatten().count(), 1, "one slot for two");
    assert_eq!(slots.available(), 0);
}

#[test]
fn an_owner_fills_and_empties_its_stash_while_it_is_revoked() {
    check(|| {
        let slots = Slots::biased(4);
        let [a, b, c] = [(); 3].map(|()| slots.take().unwrap());
        let other = slots.spawn(|slots| [slots.take(), slots.take()]);
        for slot in [a, b, c] {
            slots.give(slot);
        }
        let mine = slots.take().expect("two at most are out");
        let theirs = other.join().unwrap();
        assert!(theirs[0].is_some(), "three at most are out");
        assert!(!theirs.contains(&Some(mine)), "one holder");
        let out = 1 + theirs.iter().flatten().count();
        assert_eq!((slots.available(), slots.take_all()), (4 - out, 4 - out));
    });
}

#[test]
fn two_revoke_at_once() {
    check(two_revokers);
}

/// Both slots are in the cache when two threads need one each.
pub(super) fn two_revokers() {
    let slots = Slots::biased(3);
    let first = slots.take().unwrap();
    let [a, b] = [(); 2].map(|()| slots.take().unwrap());
    slots.give(a);
    slots.give(b);
    let others = [(); 2].map(|()| slots.spawn(|slots| slots.take()));
    let taken = others.map(|other| other.join().unwrap().expect("two slots for two"));
    assert_ne!(taken[0], taken[1]);
    assert_eq!(slots.take(), None);
    slots.give(first);
}

#[test]
fn two_want_to_be_the_owner() {
    check(|| {
        let slots = Slots::biased(2);
        let turn = |slots: &Slots| {
            for _ in 0..2 {
                slots.give(slots.take().expect("two slots for two"));
            }
        };
        let other = slots.spawn(turn);
        turn(slots);
        other.join().unwrap();
        assert_eq!((slots.available(), slots.take_all()), (2, 2));
    });
}

#[test]
fn a_waiter_is_woken_by_an_owner() {
    check(owner_wakes);
}

/// The waiter sleeps at once: its take would revoke, too.
pub(super) fn owner_wakes() {
    let slots = Slots::biased(1);
    slots.own(1);
    let slot = slots.take().unwrap();
    let waiter = slots.spawn(|slots| slots.wait());
    slots.give(slot);
    assert_eq!(waiter.join().unwrap(), slot);
}

#[test]
fn an_owner_waits_for_what_others_return() {
    check(|| {
        let slots = Slots::biased(1);
        slots.own(1);
        let slot = slots.take().unwrap();
        let other = slots.spawn(move |slots| slots.give(slot));
        assert_eq!(slots.wait_take(), slot);
        other.join().unwrap();
    });
}

#[test]
fn a_pool_closed_over_a_stash_is_freed_once_by_the_last() {
    check(closed_over_a_stash);
}

/// Of two slots one is in the cache and one on its way there.
pub(super) fn closed_over_a_stash() {
    let slots = Slots::biased(4);
    slots.own(2);
    let slot = slots.take().unwrap();
    let closer = slots.spawn(|slots| slots.close());
    slots.give(slot);
    closer.join().unwrap();
    assert!(slots.is_freed(), "all are home and nobody freed it");
}
