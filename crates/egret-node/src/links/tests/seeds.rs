//! Trials over seeds.

use std::collections::BTreeMap;

use egret_net::fabric::sim::{check, seeds};
use egret_net::rt;

use super::random::Random;
use super::trial::{Plan, run};

pub(super) fn try_seeds(seeds: std::ops::Range<u64>) -> BTreeMap<String, usize> {
    let total = std::sync::Mutex::new(BTreeMap::new());
    check(seeds, |sim| {
        let mut random = Random(rt::random());
        let plan = Plan::of(&mut random);
        let ledger = run(sim, plan, random);
        for (what, count) in ledger.book().counts() {
            *total.lock().unwrap().entry(what).or_default() += count;
        }
    });
    total.into_inner().unwrap()
}

#[test]
fn whatever_happens_each_message_is_served_once_in_order_or_somebody_is_told() {
    let counts = try_seeds(seeds(200));
    println!("{counts:#?}");
}

/// An answer that gave way went without its bytes, overtook the question for them, and a peer that
/// had given the mapping up by then was cut off.
#[test]
fn seeds_that_have_found_something() {
    for seed in [2265, 6440] {
        try_seeds(seed..seed + 1);
    }
}
