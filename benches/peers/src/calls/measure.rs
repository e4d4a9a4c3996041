//! Times of calls, one at a time and many at once.

use std::future::Future;

use anyhow::Result;
use egret_bench::limit::Stopwatch;
use futures::future::try_join_all;

/// Calls `rounds` times, one after the other: the time of each. What a call takes is made
/// before the clock starts, and what it gave is looked at when it has stopped.
pub async fn one_by_one<A, R, F: Future<Output = Result<R>>>(
    rounds: u64,
    make: impl Fn(u64) -> A,
    mut call: impl FnMut(A) -> F,
    check: impl Fn(u64, R) -> Result<()>,
) -> Result<Vec<f64>> {
    let mut times = Vec::with_capacity(rounds as usize);
    for round in 1..=rounds {
        let with = make(round);
        let start = Stopwatch::start();
        let got = call(with).await?;
        times.push(start.nanos());
        check(round, got)?;
    }
    Ok(times)
}

/// Calls about `rounds` times, `inflight` at once: the time of all over their number.
pub async fn many<F: Future<Output = Result<()>>>(
    rounds: u64,
    inflight: usize,
    call: impl Fn() -> F,
) -> Result<Vec<f64>> {
    let each = rounds.div_ceil(inflight as u64);
    let call = &call;
    let one = |_| async move {
        for _ in 0..each {
            call().await?;
        }
        anyhow::Ok(())
    };
    let start = Stopwatch::start();
    try_join_all((0..inflight).map(one)).await?;
    Ok(vec![start.nanos() / (each * inflight as u64) as f64])
}

/// The middle one of `values`.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
