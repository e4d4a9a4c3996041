//! Trials over seeds.

use egret_net::fabric::sim::{count, seeds};

use super::trial::{run, run_with_restarts};

pub(super) fn try_seeds(seeds: std::ops::Range<u64>) -> [usize; 4] {
    count(seeds, run)
}

pub(super) fn try_restarts(seeds: std::ops::Range<u64>) -> [usize; 6] {
    count(seeds, run_with_restarts)
}

#[test]
fn a_registry_that_is_killed_forgets_nothing() {
    let [joined, left, died, found, starts, promises] = try_restarts(seeds(200));
    println!(
        "{joined} joined, {left} left, {died} died, {found} names found, {starts} starts, {promises} promises"
    );
    assert!(joined > 0 && left > 0 && died > 0 && found > 0 && starts > 0 && promises > 0);
}

#[test]
fn all_nodes_see_the_same_events_in_one_order() {
    let [joined, left, died, found] = try_seeds(seeds(200));
    println!("{joined} joined, {left} left, {died} died, {found} names found");
    assert!(joined > 0 && left > 0 && died > 0 && found > 0);
}
