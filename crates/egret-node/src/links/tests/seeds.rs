//! Trials over seeds.

use std::collections::BTreeMap;

use egret_net::fabric::sim::check;
use egret_net::rt;

use super::random::Random;
use super::trial::{Plan, run};

/// Which seeds; `EGRET_SEEDS` says how many, or from which to which: `200..10000`.
fn seeds() -> std::ops::Range<u64> {
    let seeds = std::env::var("EGRET_SEEDS").unwrap_or_else(|_| "200".to_owned());
    let (first, end) = seeds.split_once("..").unwrap_or(("0", &seeds));
    first.parse().unwrap()..end.parse().unwrap()
}

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
    let counts = try_seeds(seeds());
    println!("{counts:#?}");
}
