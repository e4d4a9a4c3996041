//! Trials over seeds.

use egret_net::fabric::sim::{count, seeds};

use super::trial::run;

pub(super) fn try_seeds(seeds: std::ops::Range<u64>) -> [usize; 4] {
    count(seeds, run)
}

#[test]
fn all_nodes_see_the_same_events_in_one_order() {
    let [joined, left, died, found] = try_seeds(seeds(200));
    println!("{joined} joined, {left} left, {died} died, {found} names found");
    assert!(joined > 0 && left > 0 && died > 0 && found > 0);
}
