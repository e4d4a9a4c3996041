//! Medians of interleaved batches.

use std::hint::black_box;
use std::time::Instant;

/// Something to time: a round and what comes of it, dropped off the clock.
pub struct Round<'a>(pub Box<dyn FnMut(usize) -> f64 + 'a>);

impl<'a> Round<'a> {
    /// Times `work`.
    pub fn new<R>(mut work: impl FnMut() -> R + 'a) -> Self {
        Self(Box::new(move |count| {
            let mut made = Vec::with_capacity(count);
            let start = Instant::now();
            for _ in 0..count {
                made.push(work());
            }
            let took = start.elapsed();
            black_box(&made);
            took.as_nanos() as f64 / count as f64
        }))
    }
}

/// The median of each, measured in turn.
pub fn medians<const N: usize>(mut rounds: [Round<'_>; N], bytes: usize) -> [f64; N] {
    let count = (400_000 / bytes.max(1)).clamp(1, 100);
    let turns = if bytes > 1_000_000 { 41 } else { 401 };
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for turn in 0..turns + 20 {
        for (round, times) in rounds.iter_mut().zip(&mut times) {
            let time = (round.0)(count);
            if turn >= 20 {
                times.push(time);
            }
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}
