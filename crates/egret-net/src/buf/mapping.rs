//! The system calls behind a region.

use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};

use rustix::fs::{self, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use super::error::{AdoptError, MemoryError};
use super::fault::{Fault, planted};

/// What pages a region is made of.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MappingKind {
    pub(super) huge: bool,
    pub(super) sharing: Sharing,
}

/// Whether other processes can have a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sharing {
    /// No other process has it.
    #[default]
    Nobody,
    /// Others can read it.
    Readers,
    /// Others can write it too.
    Writers,
}

type MappedParts = (NonNull<u8>, usize, Option<OwnedFd>);

impl MappingKind {
    /// Maps at least `bytes` bytes: where, how many, and the file behind them.
    pub(super) fn map(self, bytes: usize) -> Result<MappedParts, MemoryError> {
        let len = self.round_up(bytes)?;
        let (base, fd) = if self.sharing == Sharing::Nobody {
            (self.map_anonymous(len)?, None)
        } else {
            let fd = self.file(len)?;
            let base = self.map_file(&fd, len)?;
            self.seal(base, len, &fd)?;
            (base, Some(fd))
        };
        let base = NonNull::new(base.cast()).expect("the kernel never maps address zero unasked");
        Ok((base, len, fd))
    }

    fn page(self) -> usize {
        if self.huge { HUGE_PAGE } else { rustix::param::page_size() }
    }

    fn round_up(self, bytes: usize) -> Result<usize, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::EmptyRegion);
        }
        let len = bytes.checked_next_multiple_of(self.page());
        len.filter(|&len| isize::try_from(len).is_ok()).ok_or(MemoryError::RegionTooLarge { bytes })
    }

    fn file(self, len: usize) -> Result<OwnedFd, MemoryError> {
        let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        if self.huge {
            flags |= MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        }
        let fd = fs::memfd_create("egret-region", flags)
            .map_err(|errno| self.refused("memfd_create", errno, len))?;
        fs::ftruncate(&fd, len as u64).map_err(|errno| self.refused("ftruncate", errno, len))?;
        fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW)
            .map_err(|errno| self.refused("fcntl(F_ADD_SEALS)", errno, len))?;
        Ok(fd)
    }

    fn map_file(self, fd: &OwnedFd, len: usize) -> Result<*mut u8, MemoryError> {
        // SAFETY: a new mapping at an address the kernel picks; nothing else
        // lives there. The file is ours and sealed, so it cannot shrink.
        let base = unsafe { mm::mmap(null_mut(), len, READ_WRITE, MapFlags::SHARED, fd, 0) };
        base.map(<*mut _>::cast).map_err(|errno| self.refused("mmap", errno, len))
    }

    /// Makes the mapping at `base` the only one that can ever write the file,
    /// unless it is for other writers too: another holder of the descriptor, also
    /// inside this process, can only read. A forked child has no mapping in any
    /// case. Unmaps it if that is refused.
    fn seal(self, base: *mut u8, len: usize, fd: &OwnedFd) -> Result<(), MemoryError> {
        let seals = match self.sharing {
            Sharing::Writers => SealFlags::SEAL,
            Sharing::Nobody | Sharing::Readers => SealFlags::FUTURE_WRITE | SealFlags::SEAL,
        };
        let sealed = fs::fcntl_add_seals(fd, seals);
        keep_from_children(base, len).and(sealed).map_err(|errno| {
            // SAFETY: mapped just now, and not shared yet.
            let _ = unsafe { mm::munmap(base.cast(), len) };
            self.refused("fcntl(F_ADD_SEALS)", errno, len)
        })
    }

    fn map_anonymous(self, len: usize) -> Result<*mut u8, MemoryError> {
        let mut flags = MapFlags::PRIVATE;
        if self.huge {
            flags |= MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        }
        // SAFETY: a new mapping at an address the kernel picks; nothing else
        // lives there.
        let base = unsafe { mm::mmap_anonymous(null_mut(), len, READ_WRITE, flags) };
        base.map(<*mut _>::cast).map_err(|errno| self.refused("mmap", errno, len))
    }

    fn refused(self, call: &'static str, errno: Errno, len: usize) -> MemoryError {
        match errno {
            Errno::NOMEM if self.huge => MemoryError::HugePages {
                needed: len / HUGE_PAGE,
                free: huge_pages_free().unwrap_or(0),
            },
            Errno::NOMEM | Errno::OVERFLOW | Errno::FBIG => {
                MemoryError::RegionTooLarge { bytes: len }
            }
            errno => MemoryError::System { call, source: errno.into() },
        }
    }
}

fn has_final_size(seals: SealFlags) -> bool {
    seals.contains(FINAL_SIZE) || planted(Fault::AdoptUnsealed)
}

/// Maps a file that a cooperating peer sent, to be read and written, if its size
/// is final and at most `max` bytes in whole pages.
pub(super) fn adopt(fd: &OwnedFd, max: u64) -> Result<(NonNull<u8>, usize), AdoptError> {
    // First the seals: until they are there, the size can change after it was asked for.
    let seals = fs::fcntl_get_seals(fd).map_err(refused_adoption("fcntl(F_GET_SEALS)"))?;
    if !has_final_size(seals) {
        return Err(AdoptError::Unsealed);
    }
    let bytes = fs::fstat(fd).map_err(refused_adoption("fstat"))?.st_size.cast_unsigned();
    let is_whole = bytes > 0 && bytes.is_multiple_of(rustix::param::page_size() as u64);
    let len = usize::try_from(bytes).ok().filter(|_| is_whole && bytes <= max);
    let len = len.ok_or(AdoptError::Size { bytes, max })?;
    // SAFETY: a new mapping at an address the kernel picks; nothing else lives there. The
    // file cannot shrink, so its pages stay.
    let base = unsafe { mm::mmap(null_mut(), len, READ_WRITE, MapFlags::SHARED, fd, 0) };
    let base = base.map_err(refused_adoption("mmap"))?;
    if let Err(errno) = keep_from_children(base.cast(), len) {
        // SAFETY: mapped just now, and not shared yet.
        let _ = unsafe { mm::munmap(base, len) };
        return Err(refused_adoption("madvise")(errno));
    }
    let base = NonNull::new(base.cast()).expect("the kernel never maps address zero unasked");
    Ok((base, len))
}

fn refused_adoption(call: &'static str) -> impl FnOnce(Errno) -> AdoptError {
    move |errno| AdoptError::System { call, source: errno.into() }
}

fn keep_from_children(base: *mut u8, len: usize) -> Result<(), Errno> {
    // SAFETY: the advice is about children; nothing changes in this process.
    unsafe { mm::madvise(base.cast(), len, mm::Advice::LinuxDontFork) }
}

/// Leaves pages out of core dumps, where the kernel does that.
pub(super) fn keep_from_dumps(base: NonNull<u8>, len: usize) {
    // SAFETY: the advice is about files that the kernel writes; nothing changes in this process.
    let _ = unsafe { mm::madvise(base.as_ptr().cast(), len, mm::Advice::LinuxDontDump) };
}

/// Locks pages into physical memory.
pub(super) fn lock(base: NonNull<u8>, len: usize) -> Result<(), MemoryError> {
    // SAFETY: the pages are mapped, as the caller's region keeps them; locking
    // changes nothing a program can see.
    let locked = unsafe { mm::mlock(base.as_ptr().cast(), len) };
    locked.map_err(|errno| match errno {
        Errno::NOMEM | Errno::PERM | Errno::AGAIN => {
            MemoryError::LockLimit { bytes: len, limit: getrlimit(Resource::Memlock).current }
        }
        errno => MemoryError::System { call: "mlock", source: errno.into() },
    })
}

/// Undoes [`lock`].
pub(super) fn unlock(base: NonNull<u8>, len: usize) {
    // SAFETY: the pages are mapped, as the caller's region keeps them; unlocking
    // changes nothing a program can see.
    let unlocked = unsafe { mm::munlock(base.as_ptr().cast(), len) };
    debug_assert!(unlocked.is_ok(), "the pages are mapped");
}

/// How many huge pages the machine has left, if it says so.
fn huge_pages_free() -> Option<usize> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("HugePages_Free:"))?;
    line.trim().parse().ok()
}

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
const FINAL_SIZE: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
const HUGE_PAGE: usize = 2 << 20;
