//! Trials over seeds.

use egret_net::fabric::sim::check;

use super::trial::run;

/// Which seeds; `EGRET_SEEDS` says how many, or from which to which: `200..10000`.
fn seeds() -> std::ops::Range<u64> {
    let seeds = std::env::var("EGRET_SEEDS").unwrap_or_else(|_| "200".to_owned());
    let (first, end) = seeds.split_once("..").unwrap_or(("0", &seeds));
    first.parse().unwrap()..end.parse().unwrap()
}

pub(super) fn try_seeds(seeds: std::ops::Range<u64>) -> [usize; 4] {
    let total = std::sync::Mutex::new([0; 4]);
    check(seeds, |sim| {
        let counted = run(sim);
        let mut total = total.lock().unwrap();
        total.iter_mut().zip(counted).for_each(|(total, count)| *total += count);
    });
    total.into_inner().unwrap()
}

#[test]
fn whatever_happens_a_call_runs_once_at_most_and_its_caller_knows() {
    let [answered, refused, dropped, ran] = try_seeds(seeds());
    println!("{answered} answered, {refused} refused, {dropped} dropped, {ran} ran");
    assert!(answered > 0 && refused > 0 && dropped > 0 && ran > 0);
}
