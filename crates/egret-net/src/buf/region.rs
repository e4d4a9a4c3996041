//! Memory mapped once, out of which pools are cut.

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use rustix::mm;

use super::error::{AdoptError, MemoryError};
use super::mapping::{self, MappingKind, Sharing};

/// A piece of memory, mapped once and unmapped when the last handle to it and
/// the last buffer in it are gone.
///
/// The handle is cheap to clone. The kernel hands the memory over zeroed, so
/// every byte is initialised from the start. Nothing can be read or written
/// through a region: memory is reached through the buffers of a
/// [`Pool`](super::Pool), each of which has one owner.
///
/// ```
/// use egret_net::buf::Region;
///
/// let region = Region::builder(10_000).map()?;
/// assert_eq!(region.len() % 4096, 0, "whole pages");
/// assert!(!region.is_pinned());
/// let pinned = region.pin()?;
/// assert!(region.is_pinned());
/// drop(pinned);
/// assert!(!region.is_pinned());
/// # Ok::<(), egret_net::buf::MemoryError>(())
/// ```
#[derive(Clone)]
pub struct Region(Arc<RegionMapping>);

/// What a region is to be made of; see [`Region::builder`].
///
/// ```
/// use egret_net::buf::Region;
///
/// // To be mapped by other processes too, through its file descriptor.
/// let region = Region::builder(1 << 20).shareable().map()?;
/// assert!(region.fd().is_some());
/// # Ok::<(), egret_net::buf::MemoryError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `map`"]
pub struct RegionBuilder {
    bytes: usize,
    kind: MappingKind,
    locked: bool,
}

/// Keeps a region in physical memory until it is dropped; made by
/// [`Region::pin`]. Pins are counted.
///
/// ```
/// # use egret_net::buf::Region;
/// let region = Region::builder(4096).map()?;
/// let (first, second) = (region.pin()?, region.pin()?);
/// drop(first);
/// assert!(region.is_pinned());
/// drop(second);
/// assert!(!region.is_pinned());
/// # Ok::<(), egret_net::buf::MemoryError>(())
/// ```
#[derive(Debug)]
#[must_use = "the region is unpinned when this is dropped"]
pub struct Pinned(Region);

struct RegionMapping {
    base: NonNull<u8>,
    len: usize,
    fd: Option<OwnedFd>,
    sharing: Sharing,
    /// How many pins there are; `.locked()` is one that never goes.
    pins: Mutex<usize>,
}

impl Region {
    /// Starts a region of at least `bytes` bytes, rounded up to whole pages.
    pub fn builder(bytes: usize) -> RegionBuilder {
        RegionBuilder { bytes, kind: MappingKind::default(), locked: false }
    }

    /// Its size in bytes: whole pages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Never: a region has at least one page.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The file behind a [shareable](RegionBuilder::shareable) region. It is
    /// sealed: its size is final, and a process that gets the descriptor can only read.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file(Sharing::Readers)
    }

    /// Whether it was built for [cooperating](RegionBuilder::cooperating) peers.
    #[must_use]
    pub fn is_cooperating(&self) -> bool {
        self.cooperating_fd().is_some()
    }

    /// The file behind a [cooperating](RegionBuilder::cooperating) region.
    /// A process that gets the descriptor can write memory that is someone's `&mut`, so it goes to
    /// cooperating peers alone, and never to the program.
    pub(crate) fn cooperating_fd(&self) -> Option<BorrowedFd<'_>> {
        self.file(Sharing::Writers)
    }

    fn file(&self, sharing: Sharing) -> Option<BorrowedFd<'_>> {
        self.0.fd.as_ref().filter(|_| self.0.sharing == sharing).map(AsFd::as_fd)
    }

    /// The [shareable](RegionBuilder::shareable) region of this process that `bytes` lie in,
    /// and where they begin there.
    ///
    /// ```
    /// use egret_net::buf::{Pool, Region};
    ///
    /// let buf = Pool::builder().class(8192, 1).shareable().build()?.take(8192)?;
    /// let (region, at) = Region::holding(&buf.bytes()[100..]).expect("it is in a pool");
    /// assert!(region.fd().is_some() && at >= 100);
    /// assert!(Region::holding(&vec![0; 8192]).is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn holding(bytes: &[u8]) -> Option<(Self, usize)> {
        let start = bytes.as_ptr().addr();
        let shareable = SHAREABLE.read().unwrap_or_else(PoisonError::into_inner);
        let (base, (len, mapping)) = shareable.range(..=start).next_back()?;
        let at = start - base;
        // Only what the caller has bytes of is held, which this cannot be the last to drop.
        let is_inside = at <= *len && bytes.len() <= len - at;
        is_inside.then(|| mapping.upgrade().map(|mapping| (Self(mapping), at)))?
    }

    /// Maps a region of a cooperating peer, of at most `max` bytes. Its file is
    /// not kept: it cannot be sent on.
    pub(crate) fn adopt(fd: &OwnedFd, max: u64) -> Result<Self, AdoptError> {
        let (base, len) = mapping::adopt(fd, max)?;
        let (sharing, pins) = (Sharing::Nobody, Mutex::new(0));
        Ok(Self(Arc::new(RegionMapping { base, len, fd: None, sharing, pins })))
    }

    /// Keeps the region in physical memory while the answer lives. The first
    /// pin locks the pages, the last one dropped unlocks them.
    ///
    /// # Errors
    ///
    /// [`MemoryError::LockLimit`] if the process may not lock that much.
    pub fn pin(&self) -> Result<Pinned, MemoryError> {
        let mut pins = self.0.pins();
        if *pins == 0 {
            mapping::lock(self.0.base, self.0.len)?;
        }
        *pins += 1;
        Ok(Pinned(self.clone()))
    }

    /// Whether the region is kept in physical memory now.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        *self.0.pins() > 0
    }

    /// Tells it from every other region that lives.
    pub(crate) fn id(&self) -> usize {
        self.0.base.addr().get()
    }

    /// Its first byte, valid for reads and writes of [`len`](Self::len) bytes
    /// while any handle lives.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.0.base
    }

    #[cfg(test)]
    pub(super) fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl RegionBuilder {
    /// The same of another size.
    pub(super) const fn of(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Asks for pages of 2 MiB out of the machine's reserve
    /// (`vm.nr_hugepages`): fewer address translations to miss.
    pub fn huge_pages(mut self) -> Self {
        self.kind.huge = true;
        self
    }

    /// Keeps the region in physical memory all its life.
    pub fn locked(mut self) -> Self {
        self.locked = true;
        self
    }

    /// Puts the region into a memory file that other processes can map, to
    /// read: this process stays the only one that writes it.
    pub fn shareable(mut self) -> Self {
        self.kind.sharing = Sharing::Readers;
        self
    }

    /// Puts the region into a memory file that peers map to write as well, on
    /// connections whose [trust](crate::vi::Trust) is `Cooperating`. No other process
    /// gets it: on other connections its bytes travel as those of private memory
    /// do. Instead of [`shareable`](Self::shareable), not beside it; the last one
    /// called counts.
    ///
    /// A cooperating peer is this same program. It writes only what was handed
    /// over to it, and that is all that keeps the exclusive references of this
    /// process exclusive: the kernel does not.
    pub fn cooperating(mut self) -> Self {
        self.kind.sharing = Sharing::Writers;
        self
    }

    /// Maps the region.
    ///
    /// # Errors
    ///
    /// Each names the limit that was met and the setting that raises it; see
    /// [`MemoryError`].
    pub fn map(self) -> Result<Region, MemoryError> {
        let (base, len, fd) = self.kind.map(self.bytes)?;
        let mapping =
            RegionMapping { base, len, fd, sharing: self.kind.sharing, pins: Mutex::new(0) };
        if self.locked {
            mapping::lock(base, len)?;
            *mapping.pins() = 1;
        }
        let mapping = Arc::new(mapping);
        if mapping.sharing == Sharing::Readers {
            let mut shareable = SHAREABLE.write().unwrap_or_else(PoisonError::into_inner);
            shareable.insert(base.addr().get(), (len, Arc::downgrade(&mapping)));
        }
        Ok(Region(mapping))
    }
}

impl RegionMapping {
    fn pins(&self) -> MutexGuard<'_, usize> {
        self.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RegionMapping {
    fn drop(&mut self) {
        if self.sharing == Sharing::Readers {
            // Before the pages are free to be another region's.
            let mut shareable = SHAREABLE.write().unwrap_or_else(PoisonError::into_inner);
            shareable.remove(&self.base.addr().get());
        }
        // SAFETY: the pages are this mapping's own, and it is unmapped by its
        // last owner: buffers keep their pool, and the pool its region, alive.
        let unmapped = unsafe { mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "the pages were mapped by this mapping");
    }
}

// SAFETY: `RegionMapping` only names the memory; who may touch which byte of it is
// decided by the free lists, which hand out each slot once.
unsafe impl Send for RegionMapping {}
// SAFETY: as for `Send`; the count of pins is behind its lock.
unsafe impl Sync for RegionMapping {}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mapping = &self.0.0;
        let mut pins = mapping.pins();
        *pins -= 1;
        if *pins == 0 {
            mapping::unlock(mapping.base, mapping.len);
        }
    }
}

/// The shareable regions of this process by their first byte, with their lengths: what memory is
/// does not depend on who sends it.
static SHAREABLE: RwLock<BTreeMap<usize, (usize, Weak<RegionMapping>)>> =
    RwLock::new(BTreeMap::new());

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("len", &self.len())
            .field("shareable", &self.fd().is_some())
            .field("cooperating", &self.is_cooperating())
            .field("pinned", &self.is_pinned())
            .finish()
    }
}
