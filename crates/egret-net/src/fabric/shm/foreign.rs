//! Memory that a peer writes and this process reads.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use thiserror::Error;

use super::copy;
use super::fault::{Fault, planted};
use super::memory::{LINE, Line, Peek, Readable, WORD};
use crate::atomics::StdAtomics;

/// A peer's memory file, mapped to be read.
///
/// The peer may change any byte at any time, so no reference to one exists:
/// words are loaded, bytes are [copied](copy) into private memory, and what
/// arrives is what the peer likes. Offsets are the peer's too, and a bad one is
/// an answer, not a panic. The handle is cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct ForeignMemory {
    mapping: Arc<ForeignMapping>,
    /// All of it. The mapping could say so too, one pointer further away, for each look.
    lines: NonNull<[Line<ForeignWord>]>,
}

/// Why a peer's descriptor was not mapped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub(super) enum ForeignError {
    /// Not a file that can be sealed.
    #[error("the peer's descriptor is not a memory file: F_GET_SEALS says {source}")]
    NotMemory { source: io::Error },
    /// The peer could change its size under us, or others could write it.
    #[error("the peer's memory file can still be {missing}: it must be sealed before it is sent")]
    Unsealed { missing: String },
    /// Not some whole pages.
    #[error("the peer's memory file has {bytes} bytes, which is not a number of whole pages")]
    NotPages { bytes: u64 },
    /// More than the peer may have us map.
    #[error("the peer's memory file has {bytes} bytes where at most {max} are allowed")]
    TooLarge { bytes: u64, max: u64 },
    /// The operating system refused.
    #[error("{call} of the peer's memory file failed: {source}")]
    System { call: &'static str, source: io::Error },
}

/// A range that is not inside the peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the peer names {bytes} bytes at {offset} of its memory, which has {len}")]
pub(super) struct OutOfBounds {
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) len: usize,
}

/// A word of a peer: it can be loaded, and nothing else.
#[derive(Debug)]
#[repr(transparent)]
pub(super) struct ForeignWord(AtomicU64);

#[derive(Debug)]
struct ForeignMapping {
    base: NonNull<u8>,
    len: usize,
}

impl ForeignMemory {
    /// Maps the file that a peer sent, if it is sealed as it must be and has
    /// some whole pages, at most `max_bytes`.
    pub(super) fn map(fd: OwnedFd, max_bytes: u64) -> Result<Self, ForeignError> {
        // First the seals: until they are there, the size can change after it was asked for.
        verify_seals(&fd)?;
        let len = verify_size(&fd, max_bytes)?;
        // SAFETY: a new mapping at an address the kernel picks; nothing else lives there. The
        // file cannot shrink, so its pages stay.
        let base = unsafe { mmap(null_mut(), len, ProtFlags::READ, MapFlags::SHARED, &fd, 0) }
            .map_err(system("mmap"))?;
        // The mapping keeps the file.
        drop(fd);
        let base = NonNull::new(base.cast()).expect("the kernel never maps address zero unasked");
        let lines = NonNull::slice_from_raw_parts(base.cast(), len / LINE);
        Ok(Self { mapping: Arc::new(ForeignMapping { base, len }), lines })
    }

    pub(super) fn len(&self) -> usize {
        self.mapping.len
    }

    /// The word at byte `offset`, if there is one.
    ///
    /// # Panics
    ///
    /// If `order` is not for loads, or sequentially consistent: that takes a
    /// fence at its own place.
    #[inline]
    pub(super) fn load(&self, offset: u64, order: Ordering) -> Option<u64> {
        let offset = usize::try_from(offset).ok().filter(|offset| offset.is_multiple_of(WORD))?;
        let word = self.lines().as_flattened().get(offset / WORD)?.peek();
        match order {
            Ordering::Relaxed => (),
            Ordering::Acquire => fence(Ordering::Acquire),
            order => panic!("a foreign word is not loaded {order:?}"),
        }
        Some(word)
    }

    /// Copies from byte `offset` to private memory: what the peer has there
    /// now, or a mixture if it is writing.
    #[inline]
    pub(super) fn copy_out(&self, offset: u64, to: &mut [u8]) -> Result<(), OutOfBounds> {
        let (bytes, len) = (to.len(), self.len());
        let inside = |&offset: &usize| is_inside(offset, bytes, len);
        let at = usize::try_from(offset).ok().filter(inside);
        let at = at.ok_or(OutOfBounds { offset, bytes, len })?;
        // SAFETY: the range is inside the mapping, which lives as long as `self`; this process
        // cannot write it at all.
        unsafe { copy::copy_out(self.mapping.base.as_ptr().wrapping_add(at), to) };
        Ok(())
    }
}

impl Readable for ForeignMemory {
    type Atomics = StdAtomics;
    type Word = ForeignWord;

    #[inline]
    fn lines(&self) -> &[Line<ForeignWord>] {
        // SAFETY: all of the mapping, which is of whole pages and lives as long as `self`; any
        // bytes are a word, and atomics leave the memory open to the peer.
        unsafe { self.lines.as_ref() }
    }

    #[inline]
    fn copy_out(&self, offset: usize, to: &mut [u64]) -> Result<(), OutOfBounds> {
        Self::copy_out(self, offset as u64, bytemuck::cast_slice_mut(to))
    }
}

impl Peek for ForeignWord {
    #[inline]
    fn peek(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for ForeignMapping {
    fn drop(&mut self) {
        // SAFETY: `map` made exactly this mapping, and every reference into it borrows a handle.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be ended");
    }
}

// SAFETY: the memory is not bound to a thread; all access is by loads that may race.
unsafe impl Send for ForeignMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for ForeignMemory {}
// SAFETY: as for `ForeignMemory`.
unsafe impl Send for ForeignMapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for ForeignMapping {}

/// Whether so many bytes from `offset` on lie in the first `len`.
#[inline]
fn is_inside(offset: usize, bytes: usize, len: usize) -> bool {
    let end = if planted(Fault::BoundsOffByOne) { len + 1 } else { len };
    offset <= end && bytes <= end - offset
}

fn lacks(seals: SealFlags, any_of: SealFlags) -> bool {
    !seals.intersects(any_of) && !planted(Fault::SealsIgnored)
}

/// Says what the file lacks to be safe to read while its owner is hostile.
fn verify_seals(fd: &OwnedFd) -> Result<(), ForeignError> {
    let seals = fcntl_get_seals(fd).map_err(|errno| match errno {
        Errno::INVAL => ForeignError::NotMemory { source: errno.into() },
        errno => system("fcntl(F_GET_SEALS)")(errno),
    })?;
    let missing = NEEDED.iter().filter(|(any_of, _)| lacks(seals, *any_of));
    let missing: Vec<&str> = missing.map(|(_, what)| *what).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ForeignError::Unsealed { missing: missing.join(", ") })
}

fn verify_size(fd: &OwnedFd, max: u64) -> Result<usize, ForeignError> {
    let bytes = fstat(fd).map_err(system("fstat"))?.st_size.cast_unsigned();
    if bytes == 0 || !bytes.is_multiple_of(rustix::param::page_size() as u64) {
        return Err(ForeignError::NotPages { bytes });
    }
    let len = isize::try_from(bytes).ok().filter(|_| bytes <= max);
    len.map(isize::cast_unsigned).ok_or(ForeignError::TooLarge { bytes, max })
}

fn system(call: &'static str) -> impl FnOnce(Errno) -> ForeignError {
    move |errno| ForeignError::System { call, source: errno.into() }
}

/// For each thing that must not happen, the seals that forbid it.
const NEEDED: [(SealFlags, &str); 4] = [
    (SealFlags::SHRINK, "shrunk"),
    (SealFlags::GROW, "grown"),
    (SealFlags::FUTURE_WRITE.union(SealFlags::WRITE), "written by others"),
    (SealFlags::SEAL, "sealed further"),
];
