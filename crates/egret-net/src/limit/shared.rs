//! Memory that two processes see.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::fs::{
    MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{LimitError, system};
use crate::race;

/// A mapping of a memory file, zeroed when made, whose length is fixed.
#[derive(Debug)]
pub(super) struct Shared {
    base: NonNull<u8>,
    len: usize,
}

impl Shared {
    /// New memory of `len` bytes, and the descriptor to share it by.
    pub(super) fn create(len: usize) -> Result<(Self, OwnedFd), LimitError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("egret-limit", flags).map_err(system("memfd_create"))?;
        ftruncate(&fd, len as u64).map_err(system("ftruncate"))?;
        fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::SEAL).map_err(system("seal"))?;
        Ok((Self::map(&fd, len)?, fd))
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
        Self::map(&fd, len)
    }

    fn map(fd: impl AsFd, len: usize) -> Result<Self, LimitError> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing; `Drop` ends it.
        let base = unsafe { mmap(ptr::null_mut(), len, prot, flags | MapFlags::POPULATE, fd, 0) }
            .map_err(system("mmap"))?;
        let base = NonNull::new(base.cast()).expect("a mapping is not at address zero");
        Ok(Self { base, len })
    }

    /// All of it, as words that both processes may load and store at any time.
    #[inline]
    pub(super) fn words(&self) -> &[AtomicU64] {
        let (base, len) = (self.base.cast().as_ptr(), self.len / size_of::<AtomicU64>());
        // SAFETY: the mapping is page-aligned, of at least this length (its file is sealed
        // against shrinking, which `open` has verified) and lives as long as `self`; any bytes
        // are a word, and everybody reaches them by atomics or by copies that may race.
        unsafe { std::slice::from_raw_parts(base, len) }
    }

    /// Copies `from` to offset `at`. Whoever reads meanwhile gets a mixture.
    #[inline]
    pub(super) fn write(&self, at: usize, from: &[u8]) {
        let to = self.place(at, from.len());
        // SAFETY: `place` checked the range; the words around its ends are in the mapping, whose
        // length is a multiple of them, and are reached by atomics and these copies alone.
        unsafe { race::copy_in(from, to) };
    }

    /// Copies from offset `at` to `into`. If somebody writes meanwhile it is a mixture.
    #[inline]
    pub(super) fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.place(at, into.len());
        // SAFETY: as in `write`.
        unsafe { race::copy_out(from, into) };
    }

    #[inline]
    fn place(&self, at: usize, len: usize) -> *mut u8 {
        assert!(at <= self.len && len <= self.len - at, "{len} bytes at {at} of {}", self.len);
        self.base.as_ptr().wrapping_add(at)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: `map` made exactly this mapping, and every reference into it borrows `self`.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be ended");
    }
}
