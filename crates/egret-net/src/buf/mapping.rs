//! The system calls behind a region.

use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};

use rustix::fs::{self, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use super::region_error::RegionError;

/// What pages a region is made of.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Kind {
    pub(super) huge: bool,
    pub(super) shareable: bool,
}

type Mapped = (NonNull<u8>, usize, Option<OwnedFd>);

impl Kind {
    /// Maps at least `bytes` bytes: where, how many, and the file behind them.
    pub(super) fn map(self, bytes: usize) -> Result<Mapped, RegionError> {
        let len = self.round_up(bytes)?;
        let (base, fd) = if self.shareable {
            let fd = self.file(len)?;
            let base = self.map_file(&fd, len)?;
            self.keep_to_ourselves(base, len, &fd)?;
            (base, Some(fd))
        } else {
            (self.map_anonymous(len)?, None)
        };
        let base = NonNull::new(base.cast()).expect("the kernel never maps address zero unasked");
        Ok((base, len, fd))
    }

    fn page(self) -> usize {
        if self.huge { HUGE_PAGE } else { rustix::param::page_size() }
    }

    fn round_up(self, bytes: usize) -> Result<usize, RegionError> {
        if bytes == 0 {
            return Err(RegionError::Empty);
        }
        let len = bytes.checked_next_multiple_of(self.page());
        len.filter(|&len| isize::try_from(len).is_ok()).ok_or(RegionError::TooLarge { bytes })
    }

    fn file(self, len: usize) -> Result<OwnedFd, RegionError> {
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

    fn map_file(self, fd: &OwnedFd, len: usize) -> Result<*mut u8, RegionError> {
        // SAFETY: a new mapping at an address the kernel picks; nothing else
        // lives there. The file is ours and sealed, so it cannot shrink.
        let base = unsafe { mm::mmap(null_mut(), len, READ_WRITE, MapFlags::SHARED, fd, 0) };
        base.map(<*mut _>::cast).map_err(|errno| self.refused("mmap", errno, len))
    }

    /// Makes the mapping at `base` the only one that can ever write the file:
    /// whoever gets the descriptor, also inside this process, can only read, and
    /// a forked child has neither. Unmaps it if that is refused.
    fn keep_to_ourselves(self, base: *mut u8, len: usize, fd: &OwnedFd) -> Result<(), RegionError> {
        // SAFETY: the advice is about children; nothing changes in this process.
        let unforked = unsafe { mm::madvise(base.cast(), len, mm::Advice::LinuxDontFork) };
        let sealed = fs::fcntl_add_seals(fd, SealFlags::FUTURE_WRITE | SealFlags::SEAL);
        unforked.and(sealed).map_err(|errno| {
            // SAFETY: mapped just now, and nobody was told of it.
            let _ = unsafe { mm::munmap(base.cast(), len) };
            self.refused("fcntl(F_ADD_SEALS)", errno, len)
        })
    }

    fn map_anonymous(self, len: usize) -> Result<*mut u8, RegionError> {
        let mut flags = MapFlags::PRIVATE;
        if self.huge {
            flags |= MapFlags::HUGETLB | MapFlags::HUGE_2MB;
        }
        // SAFETY: a new mapping at an address the kernel picks; nothing else
        // lives there.
        let base = unsafe { mm::mmap_anonymous(null_mut(), len, READ_WRITE, flags) };
        base.map(<*mut _>::cast).map_err(|errno| self.refused("mmap", errno, len))
    }

    fn refused(self, call: &'static str, errno: Errno, len: usize) -> RegionError {
        match errno {
            Errno::NOMEM if self.huge => RegionError::HugePages {
                needed: len / HUGE_PAGE,
                free: huge_pages_free().unwrap_or(0),
            },
            Errno::NOMEM | Errno::OVERFLOW | Errno::FBIG => RegionError::TooLarge { bytes: len },
            errno => RegionError::System { call, source: errno.into() },
        }
    }
}

/// Locks pages into physical memory.
pub(super) fn lock(base: NonNull<u8>, len: usize) -> Result<(), RegionError> {
    // SAFETY: the pages are mapped, as the caller's region keeps them; locking
    // changes nothing a program can see.
    let locked = unsafe { mm::mlock(base.as_ptr().cast(), len) };
    locked.map_err(|errno| match errno {
        Errno::NOMEM | Errno::PERM | Errno::AGAIN => {
            RegionError::LockLimit { bytes: len, limit: getrlimit(Resource::Memlock).current }
        }
        errno => RegionError::System { call: "mlock", source: errno.into() },
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
const HUGE_PAGE: usize = 2 << 20;
