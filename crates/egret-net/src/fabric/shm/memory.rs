//! Memory that this process writes and its peers read.

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::foreign::OutOfBounds;
use super::{block, copy};
use crate::atomics::{Atomics, StdAtomics, Word};
use crate::buf::{MemoryError, Region};

/// A memory file that only this process can write; the kernel sees to that.
///
/// Peers map its [`fd`](Self::fd) as [`ForeignMemory`](super::foreign::ForeignMemory) memory
/// and read whenever they like. All the same nothing here is a plain reference:
/// the threads of this process reach it at once, each through its own ring or
/// word, so everything is an atomic word or a [`copy`] that behaves like
/// many. The handle is cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct OwnMemory {
    region: Region,
    /// All of it. The region could say so too, one pointer further away, for each message.
    lines: NonNull<[Line<AtomicU64>]>,
}

/// Cache lines that this side may store to.
pub(super) trait Writable {
    type Atomics: Atomics;

    fn lines(&self) -> &[Line<<Self::Atomics as Atomics>::Word>];

    /// Says that this line will be stored to soon.
    fn claim(_line: &Line<<Self::Atomics as Atomics>::Word>) {}

    /// Copies `from` to byte `offset`. Who reads there sees
    /// some of the new bytes and some of the old until it is told otherwise, by a
    /// word stored with release.
    ///
    /// # Panics
    ///
    /// If the range lies outside.
    fn copy_in(&self, offset: usize, from: &[u8]) {
        let words = self.lines().as_flattened()[offset / WORD..].iter();
        let (mut at, mut rest) = (offset % WORD, from);
        for shared in words.take((at + from.len()).div_ceil(WORD)) {
            let mut word = shared.load(Relaxed).to_ne_bytes();
            let (now, later) = rest.split_at(rest.len().min(WORD - at));
            word[at..at + now.len()].copy_from_slice(now);
            shared.store(u64::from_ne_bytes(word), Relaxed);
            (at, rest) = (0, later);
        }
        assert!(rest.is_empty(), "{} bytes at {offset} do not fit", from.len());
    }
}

/// Cache lines that another process may store to at any time.
pub(super) trait Readable {
    type Atomics: Atomics;
    type Word: Peek;

    fn lines(&self) -> &[Line<Self::Word>];

    /// Copies whole words from byte `offset`, the start of one, to private memory:
    /// what is there now, or a mixture if the peer is writing.
    fn copy_out(&self, offset: usize, to: &mut [u64]) -> Result<(), OutOfBounds> {
        let words = self.lines().as_flattened();
        let (bytes, len) = (size_of_val(to), size_of_val(words));
        let outside = OutOfBounds { offset: offset as u64, bytes, len };
        let words = words.get(offset / WORD..).and_then(|words| words.get(..to.len()));
        for (to, word) in to.iter_mut().zip(words.ok_or(outside)?) {
            *to = word.peek();
        }
        Ok(())
    }
}

/// A word that can only be looked at.
pub(super) trait Peek {
    /// A relaxed load: on memory that is mapped read-only no other is promised
    /// to be one. Who needs more adds a fence.
    fn peek(&self) -> u64;
}

/// The words of one cache line.
pub(super) type Line<W> = [W; LINE_WORDS];

pub(super) const LINE_WORDS: usize = 8;
pub(super) const LINE: usize = LINE_WORDS * WORD;
pub(super) const WORD: usize = size_of::<u64>();

impl OwnMemory {
    /// Zeroed memory of at least `bytes` bytes, in whole pages, all of them
    /// there: neither this process nor a peer will have to wait for one.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn new(bytes: usize) -> Result<Self, MemoryError> {
        Self::with_first(bytes, bytes)
    }

    /// The same with only the pages of its `first` bytes there; the others come
    /// when they are used.
    pub(super) fn with_first(bytes: usize, first: usize) -> Result<Self, MemoryError> {
        let region = Region::builder(bytes).shareable().map()?;
        let (base, len) = (region.base().cast(), region.len() / LINE);
        let own = Self { region, lines: NonNull::slice_from_raw_parts(base, len) };
        let lines = &own.lines()[..first.div_ceil(LINE)];
        lines.iter().step_by(rustix::param::page_size() / LINE).for_each(touch);
        Ok(own)
    }

    /// The file to hand out.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd().expect("it was built shareable")
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len() * LINE
    }

    /// The word at byte `offset`.
    ///
    /// # Panics
    ///
    /// If it lies outside or across two words.
    #[inline]
    pub(super) fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(WORD), "a word at {offset} is not aligned");
        &self.lines().as_flattened()[offset / WORD]
    }

    /// Copies `from` to byte `offset`. Peers, and threads of this process that
    /// load words there, see some of the new bytes and some of the old until
    /// they are told otherwise, by a word stored with release.
    ///
    /// # Panics
    ///
    /// If the range lies outside.
    #[inline]
    pub(super) fn copy_in(&self, offset: usize, from: &[u8]) {
        let (bytes, len) = (from.len(), self.len());
        assert!(offset <= len && bytes <= len - offset, "{bytes} bytes at {offset} of {len}");
        let to = self.region.base().as_ptr().wrapping_add(offset);
        // SAFETY: the range is inside the mapping, which has whole words and lives as long as
        // `self`; it is reached only through `lines` and this function.
        unsafe { copy::copy_in(from, to) };
    }
}

impl Writable for OwnMemory {
    type Atomics = StdAtomics;

    #[inline]
    fn lines(&self) -> &[Line<AtomicU64>] {
        // SAFETY: all of the region's mapping, which is of whole pages, initialised, and lives as
        // long as `self`. The region has no other owner, so that no pool was cut from it: this
        // process reaches it only by atomics and by copies that behave like them.
        unsafe { self.lines.as_ref() }
    }

    #[inline]
    fn claim(line: &Line<AtomicU64>) {
        block::claim(line.as_ptr().cast());
    }

    #[inline]
    fn copy_in(&self, offset: usize, from: &[u8]) {
        Self::copy_in(self, offset, from);
    }
}

// SAFETY: the memory is not bound to a thread; all access is by atomics, or as if by atomics.
unsafe impl Send for OwnMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for OwnMemory {}

/// Has the kernel find the page now.
fn touch(line: &Line<AtomicU64>) {
    line[0].store(0, Relaxed);
}
