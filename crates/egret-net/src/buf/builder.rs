//! How a pool is cut from its region.

use super::class::{ClassLayout, PoolCore};
use super::error::MemoryError;
use super::free_list::FreeList;
use super::pool::{Pool, SLOT_ALIGN};
use super::region::{Region, RegionBuilder};

/// What a pool is to be made of; see [`Pool::builder`].
///
/// ```
/// use egret_net::buf::Pool;
///
/// let pool = Pool::builder()
///     .class(64, 1024) // control messages
///     .class(4096, 256) // a page each
///     .low_water(16)
///     .shareable()
///     .build()?;
/// assert!(pool.region().fd().is_some());
/// assert_eq!(pool.take(4096)?.offset_in_region() % 4096, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct PoolBuilder {
    classes: Vec<(usize, usize)>,
    low_water: Option<usize>,
    /// Of no bytes until the classes are known.
    region: RegionBuilder,
}

impl Default for PoolBuilder {
    fn default() -> Self {
        Self { classes: Vec::new(), low_water: None, region: Region::builder(0) }
    }
}

impl PoolBuilder {
    /// Adds `count` buffers of `bytes_each`. Each starts at a multiple of 64
    /// bytes, and at a page if it is as large as one.
    pub fn class(mut self, bytes_each: usize, count: usize) -> Self {
        self.classes.push((bytes_each, count));
        self
    }

    /// How many buffers of each class [`hold`](super::Typed::hold) leaves free:
    /// with fewer free it copies. 0 never copies. Without this it is a quarter
    /// of the class, rounded down.
    pub fn low_water(mut self, buffers: usize) -> Self {
        self.low_water = Some(buffers);
        self
    }

    /// As [`RegionBuilder::huge_pages`].
    pub fn huge_pages(mut self) -> Self {
        self.region = self.region.huge_pages();
        self
    }

    /// As [`RegionBuilder::locked`].
    pub fn locked(mut self) -> Self {
        self.region = self.region.locked();
        self
    }

    /// As [`RegionBuilder::shareable`].
    pub fn shareable(mut self) -> Self {
        self.region = self.region.shareable();
        self
    }

    /// As [`RegionBuilder::cooperating`].
    ///
    /// ```
    /// use egret_net::buf::Pool;
    ///
    /// let pool = Pool::builder().class(4096, 16).cooperating().build()?;
    /// assert!(pool.region().is_cooperating());
    /// assert!(pool.region().fd().is_none(), "not for everybody");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cooperating(mut self) -> Self {
        self.region = self.region.cooperating();
        self
    }

    /// Maps the memory and cuts it.
    ///
    /// # Errors
    ///
    /// If the classes make no sense or the memory cannot be had.
    pub fn build(mut self) -> Result<Pool, MemoryError> {
        self.classes.sort_unstable();
        self.check()?;
        let (layouts, bytes) =
            self.layouts().ok_or(MemoryError::RegionTooLarge { bytes: usize::MAX })?;
        let region = self.region.of(bytes).map()?;
        Ok(Pool::from_core(PoolCore::new(region, &layouts)))
    }

    fn check(&self) -> Result<(), MemoryError> {
        if self.classes.is_empty() {
            return Err(MemoryError::NoClass);
        }
        for &(bytes, count) in &self.classes {
            if bytes == 0 || count == 0 {
                return Err(MemoryError::EmptyClass { bytes, count });
            }
            if count > COUNT_MAX {
                return Err(MemoryError::TooManyBuffers { bytes, count, most: COUNT_MAX });
            }
        }
        match self.classes.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            Some(twice) => Err(MemoryError::SameClass { bytes: twice[0].0 }),
            None => Ok(()),
        }
    }

    /// One class after the other; `None` if that is more than can be counted.
    fn layouts(&self) -> Option<(Vec<ClassLayout>, usize)> {
        let mut end: usize = 0;
        let mut layouts = Vec::with_capacity(self.classes.len());
        for &(bytes, count) in &self.classes {
            let align = if bytes >= PAGE { PAGE } else { SLOT_ALIGN };
            let stride = bytes.checked_next_multiple_of(align)?;
            let offset = end.checked_next_multiple_of(align)?;
            end = offset.checked_add(stride.checked_mul(count)?)?;
            let low_water = self.low_water.unwrap_or(count / 4);
            let count = u32::try_from(count).ok()?;
            layouts.push(ClassLayout { bytes, stride, offset, count, low_water });
        }
        Some((layouts, end))
    }
}

const COUNT_MAX: usize = <FreeList>::COUNT_MAX;
const PAGE: usize = 4096;
