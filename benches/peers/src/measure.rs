//! Medians of interleaved batches.

use std::cell::RefCell;
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

impl<'a> Round<'a> {
    /// Times `work` on the front of memory that all share: where it lies makes a
    /// difference.
    pub fn on<R>(memory: &'a RefCell<Vec<u8>>, mut work: impl FnMut(&mut [u8]) -> R + 'a) -> Self {
        Self(Box::new(move |count| {
            let mut memory = memory.borrow_mut();
            Round::new(|| work(&mut memory)).0(count)
        }))
    }
}

/// The median of each. They are measured in turn, each turn in another order: what one
/// leaves to the allocator is what the next one finds.
pub fn medians<const N: usize>(mut rounds: [Round<'_>; N], bytes: usize) -> [f64; N] {
    let count = (400_000 / bytes.max(1)).clamp(1, 100);
    let turns = if bytes > 1_000_000 { 41 } else { 401 };
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    let mut order: [usize; N] = std::array::from_fn(|at| at);
    let mut random = 1_u64;
    for turn in 0..turns + 20 {
        for last in (1..N).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(last, (random >> 33) as usize % (last + 1));
        }
        for at in order {
            let time = (rounds[at].0)(count);
            if turn >= 20 {
                times[at].push(time);
            }
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}
