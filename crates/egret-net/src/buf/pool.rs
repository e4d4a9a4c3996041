//! Pools: where buffers come from and return to.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::buffer::Buf;
use super::builder::PoolBuilder;
use super::class::{BufferClass, PoolCore};
use super::error::MemoryError;
use super::plain::Plain;
use super::region::Region;
use super::stats::PoolStats;
use super::typed::Typed;
use crate::rt::{self, Deadline};

/// Buffers of one or several sizes, cut once from one [`Region`].
///
/// A take is served by the smallest class whose buffers are large enough, and
/// by no other: what a program does with small buffers never uses up the large
/// ones, so a class can be sized by counting who takes from it.
///
/// The first thread that takes from a class is served fastest, for as long as no
/// other finds the class empty: let the one that uses it most be the first.
///
/// The handle is cheap to clone. Buffers may outlive it: the memory is unmapped
/// when the last handle is dropped and the last buffer is home.
///
/// ```
/// use egret_net::buf::{Pool, MemoryError};
///
/// let pool = Pool::builder().class(256, 64).class(65536, 8).build()?;
/// let small = pool.take(100)?;
/// let large = pool.take(257)?;
/// assert_eq!((small.capacity(), large.capacity()), (256, 65536));
/// assert_eq!((pool.available(256), pool.available(65536)), (63, 7));
/// assert!(matches!(pool.take(65537), Err(MemoryError::NoLargeClass { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pool {
    core: NonNull<PoolCore>,
    /// Closes the pool with the last handle; a take does not touch it.
    closer: Arc<Closer>,
}

#[derive(Debug)]
struct Closer(NonNull<PoolCore>);

impl Pool {
    /// A pool of `count` buffers of `bytes_each`.
    ///
    /// # Errors
    ///
    /// If the memory cannot be had; see [`MemoryError`].
    pub fn new(bytes_each: usize, count: usize) -> Result<Self, MemoryError> {
        Self::builder().class(bytes_each, count).build()
    }

    /// Starts a pool; it needs one [class](PoolBuilder::class) at least.
    pub fn builder() -> PoolBuilder {
        PoolBuilder::default()
    }

    pub(super) fn from_core(core: NonNull<PoolCore>) -> Self {
        Self { core, closer: Arc::new(Closer(core)) }
    }

    /// Takes a buffer of `len` bytes.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Exhausted`] if all buffers of the class that fits are out:
    /// the normal course of things in a busy pool. [`MemoryError::NoLargeClass`] if
    /// no class fits.
    #[inline]
    pub fn take(&self, len: usize) -> Result<Buf, MemoryError> {
        let class = self.class(len).ok_or_else(|| self.too_large(len))?;
        match class.take(len) {
            Some(slot) => Ok(Buf::new(slot)),
            None => Err(self.exhausted(class)),
        }
    }

    /// Takes a buffer of `len` bytes, asleep until there is one.
    ///
    /// Buffers go to the first taker, not to the one that waited longest.
    ///
    /// # Errors
    ///
    /// [`MemoryError::TimedOut`] if there was none by the deadline (`UntilDead`
    /// never ends, for the one waited for is this process itself), or
    /// [`MemoryError::NoLargeClass`].
    pub fn wait_take(&self, len: usize, deadline: impl Into<Deadline>) -> Result<Buf, MemoryError> {
        let deadline = deadline.into();
        let class = self.class(len).ok_or_else(|| self.too_large(len))?;
        match class.take(len) {
            Some(slot) => Ok(Buf::new(slot)),
            None => self.wait(class, len, deadline),
        }
    }

    /// Takes a buffer of `count` elements of `T`.
    ///
    /// # Errors
    ///
    /// As for [`take`](Self::take).
    ///
    /// ```
    /// # use egret_net::buf::Pool;
    /// let mut row = Pool::new(4096, 2)?.take_typed::<f64>(512)?;
    /// row.fill(1.5);
    /// assert_eq!(row.iter().sum::<f64>(), 768.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_typed<T: Plain>(&self, count: usize) -> Result<Typed<T>, MemoryError> {
        const { assert!(align_of::<T>() <= SLOT_ALIGN, "slots are aligned to 64 bytes") };
        const { assert!(size_of::<T>() > 0, "an element of a buffer has at least one byte") };
        // A whole slot is aligned, and the length is whole: it fits.
        self.take(count.saturating_mul(size_of::<T>())).map(Typed::new)
    }

    /// How many buffers for `len` bytes are free; while others take and return,
    /// how many were a moment ago. 0 if no class fits.
    #[must_use]
    pub fn available(&self, len: usize) -> usize {
        self.class(len).map_or(0, |class| class.slots.available())
    }

    /// How many buffers for `len` bytes there are, free or not. 0 if no class
    /// fits.
    #[must_use]
    pub fn capacity(&self, len: usize) -> usize {
        self.class(len).map_or(0, |class| class.slots.list().count())
    }

    /// The size of its largest buffers.
    #[must_use]
    pub fn largest(&self) -> usize {
        self.core().classes.last().map_or(0, |class| class.bytes)
    }

    /// The memory all its buffers lie in.
    #[must_use]
    pub fn region(&self) -> &Region {
        &self.core().region
    }

    /// What it counted so far.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.core().counters.read()
    }

    #[inline]
    fn core(&self) -> &PoolCore {
        // SAFETY: freed only after the last handle has closed it.
        unsafe { self.core.as_ref() }
    }

    #[inline]
    fn class(&self, len: usize) -> Option<&BufferClass> {
        self.core().classes.iter().find(|class| class.bytes >= len)
    }

    #[cold]
    fn wait(
        &self,
        class: &BufferClass,
        len: usize,
        deadline: Deadline,
    ) -> Result<Buf, MemoryError> {
        self.core().counters.exhausted.fetch_add(1, Relaxed);
        let (begun, until) = (rt::now(), deadline.until());
        let number = class.waiters.wait_take(&class.slots, until);
        let buf = number.map(|number| Buf::new(class.slot(number, len)));
        buf.ok_or_else(|| MemoryError::TimedOut {
            class: class.bytes,
            count: class.slots.list().count(),
            waited: rt::now() - begun,
        })
    }

    #[cold]
    fn exhausted(&self, class: &BufferClass) -> MemoryError {
        self.core().counters.exhausted.fetch_add(1, Relaxed);
        MemoryError::Exhausted { class: class.bytes, count: class.slots.list().count() }
    }

    #[cold]
    fn too_large(&self, asked: usize) -> MemoryError {
        MemoryError::NoLargeClass { asked, largest: self.largest() }
    }
}

// SAFETY: the core is `Sync`: everything in it that changes is atomic or locked.
unsafe impl Send for Pool {}
// SAFETY: as for `Send`.
unsafe impl Sync for Pool {}
// SAFETY: it only closes the core, once, from whichever thread is last.
unsafe impl Send for Closer {}
// SAFETY: through `&Closer` nothing can be done.
unsafe impl Sync for Closer {}

impl Drop for Closer {
    fn drop(&mut self) {
        // SAFETY: all handles share this one, so it runs once, after the last.
        unsafe { PoolCore::close(self.0) };
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |class: &BufferClass| {
            (class.bytes, class.slots.available(), class.slots.list().count())
        };
        let classes: Vec<_> = self.core().classes.iter().map(of).collect();
        f.debug_struct("Pool")
            .field("classes (bytes, available, count)", &classes)
            .field("handles", &Arc::strong_count(&self.closer))
            .finish()
    }
}

/// What every slot is aligned to, at least.
pub(super) const SLOT_ALIGN: usize = 64;
