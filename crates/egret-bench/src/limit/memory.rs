//! `memcpy`, `malloc+free` and `clone`: what one process does with memory.

use std::hint::black_box;
use std::time::Duration;

use egret::rt;

/// Two blocks of private memory, to copy from one to the other.
#[derive(Debug)]
pub struct Copying {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Copying {
    /// Blocks of `bytes`, both touched.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { from: vec![1; bytes], to: vec![2; bytes] }
    }

    /// Copies `count` times.
    pub fn copy(&mut self, count: usize) -> Duration {
        timed(|| {
            for _ in 0..count {
                self.to.copy_from_slice(black_box(&self.from));
                black_box(&mut self.to);
            }
        })
    }
}

/// Blocks of one size from the allocator.
#[derive(Debug)]
pub struct HeapBlocks {
    bytes: usize,
    held: Vec<Vec<u8>>,
}

impl HeapBlocks {
    /// None yet, of `bytes` each.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { bytes, held: Vec::new() }
    }

    /// `malloc`, `count` times; the blocks stay until [`free`](Self::free).
    pub fn malloc(&mut self, count: usize) -> Duration {
        self.held.reserve(count);
        timed(|| {
            for _ in 0..count {
                self.held.push(black_box(Vec::with_capacity(self.bytes)));
            }
        })
    }

    /// `free`, for every block there is.
    pub fn free(&mut self) -> Duration {
        timed(|| self.held.clear())
    }

    /// `malloc` and `free` at once, `count` times.
    pub fn malloc_free(&self, count: usize) -> Duration {
        timed(|| {
            for _ in 0..count {
                drop(black_box(Vec::<u8>::with_capacity(self.bytes)));
            }
        })
    }
}

/// The time to clone `value` `count` times, without that to drop the clones,
/// which happens when `held` of them are there.
pub fn clone_of<T: Clone>(value: &T, count: usize, held: usize) -> Duration {
    let mut clones = Vec::with_capacity(held);
    let (mut total, mut left) = (Duration::ZERO, count);
    while left > 0 {
        let batch = left.min(held.max(1));
        total += timed(|| {
            for _ in 0..batch {
                clones.push(black_box(value).clone());
            }
        });
        black_box(&mut clones).clear();
        left -= batch;
    }
    total
}

fn timed(work: impl FnOnce()) -> Duration {
    let start = rt::machine_now();
    work();
    rt::machine_now() - start
}
