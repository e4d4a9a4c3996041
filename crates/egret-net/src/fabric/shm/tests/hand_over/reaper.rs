//! What is still out when the connection is over.

use super::{LARGE, REGION, Rig, SMALL, assert_all_home, until};
use crate::fabric::shm::cooperating::reaper;

#[test]
fn what_is_held_stays_out_until_it_is_dropped() {
    held_stays_out();
}

pub(super) fn held_stays_out() {
    let mut rig = Rig::new();
    let mut held = [rig.hand(SMALL), rig.hand(SMALL)];
    held[0].bytes_mut().fill(5);
    // One that was never read, and one that was given back and never read.
    let _unread = rig.loans.lend(REGION, rig.pool.take(LARGE).unwrap()).unwrap();
    let buf = rig.hand(LARGE);
    let _back = rig.visiting.give_back(buf).unwrap();
    drop(rig.hand(LARGE));
    drop(rig.visiting);
    drop(rig.loans);
    assert_eq!(rig.pool.available(SMALL), 2, "two are held");
    assert_eq!(rig.pool.available(LARGE), 4, "all that is not held is home at once");
    assert!(reaper::is_running());
    let [first, second] = held;
    drop(second);
    until(|| rig.pool.available(SMALL) == 3, "the reaper looks for returns");
    assert_eq!(first.bytes(), [5; SMALL]);
    drop(first);
    until(|| rig.pool.available(SMALL) == 4, "the reaper looks for returns");
    assert_all_home(&rig.pool);
    // Others may have it wait too.
    until(|| !reaper::is_running(), "there is nothing to wait for");
}

#[test]
fn a_connection_that_ends_first_at_home() {
    let mut rig = Rig::new();
    let held = rig.hand(SMALL);
    let _unread = rig.loans.lend(REGION, rig.pool.take(LARGE).unwrap()).unwrap();
    drop(rig.loans);
    assert_eq!(rig.pool.available(SMALL) + rig.pool.available(LARGE), 6, "the visitor is there");
    drop(rig.visiting);
    until(|| rig.pool.available(LARGE) == 4, "the visitor has left and holds one");
    assert_eq!(rig.pool.available(SMALL), 3);
    drop(held);
    until(|| rig.pool.available(SMALL) == 4, "the visitor has dropped it");
}

#[test]
fn the_reaper_hears_of_a_death() {
    let mut rig = Rig::new();
    std::mem::forget((rig.hand(SMALL), rig.hand(LARGE)));
    drop(rig.loans);
    assert_eq!(rig.pool.available(SMALL), 3);
    use std::io::Write;
    rig.life.write_all(&[0]).unwrap();
    until(|| rig.pool.available(SMALL) + rig.pool.available(LARGE) == 8, "the visitor is dead");
    assert_all_home(&rig.pool);
    std::mem::forget(rig.visiting);
}

#[test]
fn a_pool_waits_for_what_is_out() {
    let mut rig = Rig::new();
    let file = super::inode(&rig.pool);
    let held = rig.hand(SMALL);
    drop((rig.pool, rig.loans, rig.visiting));
    assert!(super::has_file(file));
    drop(held);
    until(|| !super::has_file(file), "the last is home");
}
