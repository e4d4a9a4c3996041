//! Memory for what arrives, of any size, made when it is first needed and used again.

use std::fmt;

use egret_net::buf::{Buf, MemoryError, Pool};
use egret_net::sync::Mutex;

/// Buffers of any length, out of pools that are made as they are needed.
///
/// A buffer is as large as the next power of two, from 512 bytes to 4 MiB; larger ones are whole
/// pages of their own. What comes back is used again as it is. How much is out at a time is
/// bounded by who asks: what a peer may send by the [`FlowBudget`](super::FlowBudget), and what a program
/// keeps by the program.
///
/// ```
/// use egret_node::flow::SizedPools;
///
/// let pools = SizedPools::default();
/// let (small, large) = (pools.take(300)?, pools.take(70_000)?);
/// assert_eq!((small.len(), small.capacity()), (300, 512));
/// assert_eq!((large.len(), large.capacity()), (70_000, 131_072));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct SizedPools {
    shelves: [Mutex<PoolsOfSize>; SHELVES],
    /// Of more than [`LARGEST`]: pools of one buffer each.
    large: Mutex<PoolsOfSize>,
}

/// What a [`SizedPools`] has mapped, and how much of it is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SizedPoolStats {
    /// Bytes of all its pools.
    pub mapped_bytes: usize,
    /// Bytes of the buffers that are out.
    pub out_bytes: usize,
}

/// The pools of one size.
#[derive(Default)]
struct PoolsOfSize {
    slabs: Vec<SlabPool>,
    /// Where a buffer was found last.
    at: usize,
}

struct SlabPool {
    pool: Pool,
    bytes_each: usize,
    count: usize,
    /// Taken from since the last [`SizedPools::trim`].
    used: bool,
}

impl SizedPools {
    /// Takes a buffer of `len` bytes. Its bytes are whatever they were.
    ///
    /// # Errors
    ///
    /// If the system has no memory.
    pub fn take(&self, len: usize) -> Result<Buf, MemoryError> {
        let bytes = usize::try_from(rounded(len as u64)).unwrap_or(usize::MAX);
        let shelf = if bytes > LARGEST { &self.large } else { &self.shelves[number(bytes)] };
        shelf.lock().take(bytes, len)
    }

    /// Gives the system back what has not been used since the last time. Call it now and then.
    pub fn trim(&self) {
        for shelf in self.all() {
            shelf.lock().trim();
        }
    }

    /// What it has, now.
    #[must_use]
    pub fn stats(&self) -> SizedPoolStats {
        let mut stats = SizedPoolStats::default();
        for shelf in self.all() {
            for slab in &shelf.lock().slabs {
                stats.mapped_bytes += slab.bytes_each * slab.count;
                stats.out_bytes += slab.bytes_each * (slab.count - slab.home());
            }
        }
        stats
    }

    fn all(&self) -> impl Iterator<Item = &Mutex<PoolsOfSize>> {
        self.shelves.iter().chain([&self.large])
    }
}

impl PoolsOfSize {
    fn take(&mut self, bytes: usize, len: usize) -> Result<Buf, MemoryError> {
        for step in 0..self.slabs.len() {
            let at = (self.at + step) % self.slabs.len();
            let slab = &mut self.slabs[at];
            if let Some(buf) = slab.take(bytes, len) {
                self.at = at;
                return Ok(buf);
            }
        }
        self.grow(bytes, len)
    }

    /// One pool more, as large as all before it together, within reason.
    #[cold]
    fn grow(&mut self, bytes: usize, len: usize) -> Result<Buf, MemoryError> {
        if bytes > LARGEST {
            self.slabs.retain(|slab| slab.home() == 0);
        }
        let have: usize = self.slabs.iter().map(|slab| slab.count).sum();
        let (least, most) = ((SLAB_FIRST / bytes).max(1), (SLAB_MOST / bytes).max(1));
        let count = have.clamp(least, most);
        let pool = Pool::builder().class(bytes, count).low_water(0).build()?;
        let mut slab = SlabPool { pool, bytes_each: bytes, count, used: true };
        let buf = slab.take(bytes, len).expect("nobody else has the pool");
        self.at = self.slabs.len();
        self.slabs.push(slab);
        Ok(buf)
    }

    fn trim(&mut self) {
        self.slabs.retain_mut(|slab| {
            std::mem::replace(&mut slab.used, false) || slab.home() < slab.count
        });
        self.at = 0;
    }
}

impl SlabPool {
    /// A buffer for `len` bytes, unless all are out or are much larger.
    fn take(&mut self, bytes: usize, len: usize) -> Option<Buf> {
        let fits = self.bytes_each >= bytes && self.bytes_each / 2 <= bytes;
        let buf = if fits { self.pool.take(len).ok()? } else { return None };
        self.used = true;
        Some(buf)
    }

    fn home(&self) -> usize {
        self.pool.available(self.bytes_each)
    }
}

impl fmt::Debug for SizedPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SizedPools").field(&self.stats()).finish()
    }
}

/// The bytes of the buffer that `len` bytes land in.
pub(super) const fn rounded(len: u64) -> u64 {
    if len <= LARGEST as u64 {
        let least = if len < SMALLEST as u64 { SMALLEST as u64 } else { len };
        least.next_power_of_two()
    } else {
        match len.checked_next_multiple_of(PAGE) {
            Some(bytes) => bytes,
            None => u64::MAX,
        }
    }
}

/// Which power of two it is, from the smallest.
const fn number(bytes: usize) -> usize {
    (bytes / SMALLEST).trailing_zeros() as usize
}

const SMALLEST: usize = 512;
const LARGEST: usize = 4 << 20;
const SHELVES: usize = number(LARGEST) + 1;
const PAGE: u64 = 4096;
/// The first pool of a size is about this large, and none is much larger than the other.
const SLAB_FIRST: usize = 128 << 10;
const SLAB_MOST: usize = 4 << 20;
