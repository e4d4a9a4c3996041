//! Every interleaving of the lock-free part, by the model checker.
//!
//! Here nobody has a cache; `bias.rs` has the scenes in which somebody does.

use std::sync::atomic::Ordering::Relaxed;

use super::slots::Slots;
use crate::atomics::checker::check;
use crate::buf::counts::{count_join, count_split};

#[test]
fn a_slot_has_one_holder() {
    check(one_holder);
}

pub(super) fn one_holder() {
    let slots = Slots::new(2);
    let other = slots.spawn(|slots| {
        slots.give(slots.take().expect("two slots for two"));
        slots.take().expect("two slots for two")
    });
    let mine = slots.take().expect("two slots for two");
    slots.write(mine);
    let theirs = other.join().unwrap();
    assert_ne!(mine, theirs);
    assert_eq!(slots.available(), 0);
}

#[test]
fn a_head_that_came_back_is_not_the_same() {
    check(head_came_back);
}

pub(super) fn head_came_back() {
    let slots = Slots::new(3);
    let other = slots.spawn(|slots| {
        let (first, second) = (slots.take().unwrap(), slots.take().unwrap());
        slots.give(first);
        second
    });
    let mine = slots.take().unwrap();
    let theirs = other.join().unwrap();
    let mut all: Vec<u32> = std::iter::from_fn(|| slots.take()).collect();
    all.extend([mine, theirs]);
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2]);
}

#[test]
fn gives_at_once_lose_nothing() {
    check(gives_at_once);
}

pub(super) fn gives_at_once() {
    let slots = Slots::new(3);
    let (a, b) = (slots.take().unwrap(), slots.take().unwrap());
    let other = slots.spawn(move |slots| slots.give(b));
    slots.give(a);
    let taken = slots.take().unwrap();
    other.join().unwrap();
    assert_eq!(slots.available(), 2);
    slots.give(taken);
    assert_eq!(slots.available(), 3);
    assert_eq!(std::iter::from_fn(|| slots.take()).count(), 3);
}

#[test]
fn a_waiter_is_woken() {
    check(waiter_woken);
}

pub(super) fn waiter_woken() {
    let slots = Slots::new(1);
    let slot = slots.take().unwrap();
    let waiter = slots.spawn(|slots| slots.wait_take());
    slots.give(slot);
    assert_eq!(waiter.join().unwrap(), slot);
}

#[test]
fn several_waiters_get_their_turn() {
    check(|| {
        let slots = Slots::new(1);
        let slot = slots.take().unwrap();
        let turn = |slots: &Slots| slots.give(slots.wait_take());
        let waiters = [slots.spawn(turn), slots.spawn(turn)];
        slots.give(slot);
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!(slots.available(), 1);
    });
}

#[test]
fn the_last_reader_sees_all_readers_gone() {
    check(last_reader);
}

pub(super) fn last_reader() {
    let slots = Slots::new(1);
    let slot = slots.take().unwrap();
    slots.list().handles(slot).fetch_add(1, Relaxed);
    let other = slots.spawn(move |slots| slots.stop_reading(slot));
    slots.stop_reading(slot);
    other.join().unwrap();
    assert_eq!(slots.available(), 1, "somebody was last");
    assert_eq!(slots.list().handles(slot).load(Relaxed), 1);
}

#[test]
fn parts_can_be_split_and_joined_on_two_threads() {
    check(|| {
        let slots = Slots::new(1);
        let slot = slots.take().unwrap();
        count_split(slots.list().handles(slot));
        let other = slots.spawn(move |slots| {
            count_split(slots.list().handles(slot));
            count_join(slots.list().handles(slot));
            slots.stop_reading(slot);
        });
        count_split(slots.list().handles(slot));
        slots.stop_reading(slot);
        slots.stop_reading(slot);
        other.join().unwrap();
        assert_eq!(slots.available(), 1);
        assert_eq!(slots.list().handles(slot).load(Relaxed), 1);
    });
}

#[test]
fn a_closed_pool_is_freed_once_by_the_last() {
    check(closed_pool);
}

pub(super) fn closed_pool() {
    let slots = Slots::new(2);
    let (a, b) = (slots.take().unwrap(), slots.take().unwrap());
    let other = slots.spawn(move |slots| slots.give(a));
    slots.close();
    slots.give(b);
    other.join().unwrap();
    assert!(slots.is_freed(), "all are home and nobody freed it");
}

#[test]
fn a_wake_needs_nothing_of_the_pool() {
    check(wake_after_close);
}

pub(super) fn wake_after_close() {
    let slots = Slots::new(1);
    let slot = slots.take().unwrap();
    let waiter = slots.spawn(|slots| {
        // One that waited, gave up, and was the pool's last user.
        slots.list().raise_waiting();
        slots.close();
    });
    slots.give(slot);
    waiter.join().unwrap();
}

#[test]
fn a_pool_closed_after_a_return_waits_for_nobody() {
    check(|| {
        let slots = Slots::new(2);
        let slot = slots.take().unwrap();
        let other = slots.spawn(move |slots| slots.give(slot));
        slots.close();
        other.join().unwrap();
        assert_eq!(slots.list().take(), None, "closed");
    });
}
