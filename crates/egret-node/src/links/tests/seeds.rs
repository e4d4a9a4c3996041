//! Trials over seeds.

use std::collections::BTreeMap;
use std::ops::Range;

use egret_net::fabric::sim::{check, seeds};
use egret_net::rt;

use super::random::Random;
use super::trial::{Plan, run};

pub(super) fn try_seeds(seeds: Range<u64>) -> BTreeMap<String, usize> {
    try_plans(seeds, |plan| plan)
}

/// The same of nodes that have threads in the background.
pub(super) fn try_crews(seeds: Range<u64>) -> BTreeMap<String, usize> {
    try_plans(seeds, Plan::with_crews)
}

fn try_plans(seeds: Range<u64>, change: fn(Plan) -> Plan) -> BTreeMap<String, usize> {
    let total = std::sync::Mutex::new(BTreeMap::new());
    check(seeds, |sim| {
        let mut random = Random(rt::random());
        let plan = change(Plan::of(&mut random));
        let ledger = run(sim, plan, random);
        for (what, count) in ledger.book().counts() {
            *total.lock().unwrap().entry(what).or_default() += count;
        }
    });
    total.into_inner().unwrap()
}

#[test]
fn each_message_is_served_once_in_order_or_reported() {
    let counts = try_seeds(seeds(200));
    println!("{counts:#?}");
}

#[test]
fn nodes_with_threads_serve_each_message_once_in_order_or_tell_somebody() {
    let counts = try_crews(seeds(60));
    let served = |what: &&String| what.ends_with("served: true");
    assert!(counts.keys().any(|what| served(&what)), "{counts:#?}");
}

/// An answer that gave way went without its bytes, overtook the question for them, and a peer that
/// had given the mapping up by then was cut off.
#[test]
fn seeds_that_have_found_something() {
    for seed in [2265, 6440] {
        try_seeds(seed..seed + 1);
    }
}
