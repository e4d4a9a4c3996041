//! Trials over seeds.

use egret_net::fabric::sim::{count, seeds};

use super::trial::run;

pub(super) fn try_seeds(seeds: std::ops::Range<u64>) -> [usize; 4] {
    count(seeds, run)
}

#[test]
fn whatever_happens_a_call_runs_once_at_most_and_its_caller_knows() {
    let [answered, refused, dropped, ran] = try_seeds(seeds(200));
    println!("{answered} answered, {refused} refused, {dropped} dropped, {ran} ran");
    assert!(answered > 0 && refused > 0 && dropped > 0 && ran > 0);
}
