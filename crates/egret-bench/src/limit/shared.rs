//! Memory that two processes see.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{LimitError, system};

/// A mapping of a memory file, zeroed when made, whose length is fixed.
#[derive(Debug)]
pub(super) struct SharedMapping {
    base: NonNull<u8>,
    len: usize,
    _claim: Claim,
}

/// Which side of a link somebody is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LinkRole {
    Leader,
    Follower,
}

/// The right to be one side of a link: one in this process at a time. Two who
/// follow on one link would write the same bytes at once.
#[derive(Debug)]
struct Claim(u64, LinkRole);

static CLAIMS: Mutex<BTreeSet<(u64, LinkRole)>> = Mutex::new(BTreeSet::new());

impl Claim {
    fn new(fd: impl AsFd, role: LinkRole) -> Result<Self, LimitError> {
        let file = fstat(fd).map_err(system("fstat"))?.st_ino;
        let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
        if claims.insert((file, role)) { Ok(Self(file, role)) } else { Err(LimitError::Taken) }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).remove(&(self.0, self.1));
    }
}

impl SharedMapping {
    /// New memory of `len` bytes, and the descriptor to share it by.
    pub(super) fn create(len: usize) -> Result<(Self, OwnedFd), LimitError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("egret-limit", flags).map_err(system("memfd_create"))?;
        ftruncate(&fd, len as u64).map_err(system("ftruncate"))?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::SEAL).map_err(system("seal"))?;
        Ok((Self::map(&fd, len, LinkRole::Leader)?, fd))
    }

    /// The memory behind a descriptor that [`create`](Self::create) gave.
    pub(super) fn open(fd: impl AsFd, len: usize) -> Result<Self, LimitError> {
        let given = fstat(&fd).map_err(system("fstat"))?.st_size.cast_unsigned();
        if given != len as u64 {
            return Err(LimitError::OtherSize { given, needed: len });
        }
        let seals = fcntl_get_seals(&fd).map_err(system("asking for the seals"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(LimitError::Unsealed);
        }
        Self::map(&fd, len, LinkRole::Follower)
    }

    fn map(fd: impl AsFd, len: usize, role: LinkRole) -> Result<Self, LimitError> {
        let claim = Claim::new(&fd, role)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing; `Drop` ends it.
        let base = unsafe { mmap(ptr::null_mut(), len, prot, flags | MapFlags::POPULATE, fd, 0) }
            .map_err(system("mmap"))?;
        let base = NonNull::new(base.cast()).expect("a mapping is not at address zero");
        Ok(Self { base, len, _claim: claim })
    }

    /// All of it, as words that both processes may load and store at any time.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        let (base, len) = (self.base.cast().as_ptr(), self.len / size_of::<AtomicU64>());
        // SAFETY: the mapping is page-aligned, of at least this length (its file is sealed
        // against shrinking) and lives as long as `self`; any bytes are a word, and atomics
        // leave the memory open to `write`, whose caller keeps the others away.
        unsafe { std::slice::from_raw_parts(base, len) }
    }

    /// All of it, as halves of words: what a process can sleep on. Of one link either
    /// these are used or the words.
    #[inline]
    pub(super) fn halves(&self) -> &[AtomicU32] {
        let (base, len) = (self.base.cast().as_ptr(), self.len / size_of::<AtomicU32>());
        // SAFETY: as in `words`; a caller of `halves` uses no other view of this memory.
        unsafe { std::slice::from_raw_parts(base, len) }
    }

    /// Copies `from` to offset `at`.
    ///
    /// # Safety
    ///
    /// Until it returns, no other thread reads or writes these bytes, in this
    /// process or the other.
    #[inline]
    pub(super) unsafe fn write(&self, at: usize, from: &[u8]) {
        let to = self.place(at, from.len());
        // SAFETY: `place` checked the range, private memory does not overlap a mapping of our
        // own, and the caller keeps everybody else away.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Copies from offset `at` to `into`.
    ///
    /// # Safety
    ///
    /// Until it returns, no thread writes these bytes, in this process or the
    /// other.
    #[inline]
    pub(super) unsafe fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.place(at, into.len());
        // SAFETY: as in `write`.
        unsafe { ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
    }

    #[inline]
    fn place(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len && len <= self.len - at, "{len} bytes at {at} of {}", self.len);
        self.base.as_ptr().wrapping_add(at)
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: `map` made exactly this mapping, and every reference into it borrows `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be ended");
    }
}
