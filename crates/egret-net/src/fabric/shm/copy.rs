//! Copies that may race with another process.
//!
//! A plain copy is a promise to the compiler that no other thread touches the bytes
//! meanwhile; it may then read a byte twice, or keep something of its own where
//! the copy is to be. Here nothing is promised: what races comes out as some
//! mixture of old and new bytes, and that is all that can happen.
//!
//! Two means, by length:
//!
//! * below 64 bytes, and for the rest of a longer copy: relaxed atomic accesses,
//!   whole words where they are aligned in the shared memory and single bytes
//!   before and after them, never outside the range;
//! * assembly that the compiler cannot see into: blocks of 64 bytes, and on
//!   x86-64 from 384 bytes on `rep movsb`, if the processor says that it is fast
//!   (ERMS). On other architectures than that and aarch64 the words do it all.
//!
//! What the assembly does must be something Rust could have done: reading is
//! one relaxed load per byte. A byte written is an atomic read-modify-write of
//! the aligned word around it that changes that byte only. So it may even race
//! with the words of [`OwnMemory`](super::memory::OwnMemory) in this process.
//!
//! # Measured
//!
//! Nanoseconds per copy out, in cache up to 16 KiB, best of 60 on a Xeon with
//! ERMS and FSRM whose two cores were shared; the source at a cache line and the
//! target at another. A copy in takes the same.
//!
//! | bytes | plain copy | here | words alone | `rep movsb` alone |
//! |---|---|---|---|---|
//! | 8 | 3.5 | 4.2 | 2.7 | 4.5 |
//! | 40 | 3.7 | 7.3 | 5.6 | 4.5 |
//! | 64 | 3.0 | 3.8 | 3.0 | 4.5 |
//! | 256 | 5.0 | 7.3 | 7.1 | 12 |
//! | 512 | 4.1 | 15 | 13 | 15 |
//! | 1 KiB | 7.9 | 20 | 26 | 17 |
//! | 4 KiB | 29 | 30 | 100 | 28 |
//! | 16 KiB | 100 | 101 | 395 | 99 |
//! | 64 KiB | 1775 | 1774 | 2296 | 1772 |
//! | 1 MiB | 44339 | 45932 | 54268 | 46431 |
//!
//! With neither side aligned: 7.8 for 8 bytes, 12 for 40 and for 256, 23 for
//! 1 KiB, 50 for 4 KiB (plain 4.6, 4.3, 6.8, 10.5, 36), and in the direction into
//! shared memory 6 more for the odd bytes at the ends. `rep movsb` alone would do
//! as well below 128 bytes here, but not on a processor without FSRM.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::block;
use super::fault;

/// Copies `to.len()` bytes out of memory that another process may be writing.
///
/// # Safety
///
/// `from` is valid for reads of that many bytes, and nothing in this process
/// writes them but by atomics.
#[inline]
pub(super) unsafe fn copy_out(from: *const u8, to: &mut [u8]) {
    // SAFETY: the caller says that `from` is valid for all of `to`, which is private memory.
    let done = unsafe { block::copy(from, to.as_mut_ptr(), to.len()) };
    // SAFETY: as the caller says, for the bytes that are left.
    unsafe { words_out(from.wrapping_add(done), &mut to[done..]) };
}

/// Copies `from` into memory that another process may be reading.
///
/// # Safety
///
/// `to` is valid for writes of that many bytes, all of the aligned words around
/// them are too, and everything else in this process reaches them by 64-bit
/// atomics or by this function.
#[inline]
pub(super) unsafe fn copy_in(from: &[u8], to: *mut u8) {
    // SAFETY: the caller says that `to` is valid for all of `from`, which is private memory.
    let done = unsafe { block::copy(from.as_ptr(), to, from.len()) };
    // SAFETY: as the caller says, for the bytes that are left.
    unsafe { words_in(&from[done..], to.wrapping_add(done)) };
}

/// # Safety
///
/// As [`copy_out`].
#[inline]
unsafe fn words_out(from: *const u8, to: &mut [u8]) {
    let head = to_boundary(from).min(to.len());
    let (head, rest) = to.split_at_mut(head);
    // SAFETY: as the caller says, for its first bytes.
    unsafe { bytes_out(from, head) };
    let mut at = from.wrapping_add(head.len());
    let (words, tail) = rest.as_chunks_mut::<WORD>();
    for word in words {
        // SAFETY: aligned, as the head went up to the boundary, and in the caller's range. A
        // relaxed load of a word may meet any write of another process.
        let shared = unsafe { AtomicU64::from_ptr(at.cast_mut().cast()) };
        *word = shared.load(Relaxed).to_ne_bytes();
        at = at.wrapping_add(WORD);
    }
    // SAFETY: as the caller says, for its last bytes.
    unsafe { bytes_out(at, tail) };
}

/// # Safety
///
/// As [`copy_out`].
#[inline]
unsafe fn bytes_out(from: *const u8, to: &mut [u8]) {
    for (index, byte) in to.iter_mut().enumerate() {
        let at = from.wrapping_add(index);
        // SAFETY: in the caller's range. A relaxed load of a byte may meet any write of another
        // process.
        let shared = unsafe { AtomicU8::from_ptr(at.cast_mut()) };
        *byte = shared.load(Relaxed);
    }
}

/// # Safety
///
/// As [`copy_in`].
#[inline]
unsafe fn words_in(from: &[u8], to: *mut u8) {
    let (head, rest) = from.split_at(to_boundary(to).min(from.len()));
    // SAFETY: as the caller says, for its first bytes.
    unsafe { bytes_in(head, to) };
    let mut at = to.wrapping_add(head.len());
    let (words, tail) = rest.as_chunks::<WORD>();
    for word in words {
        // SAFETY: aligned, as the head went up to the boundary, and in the caller's range; all
        // others use atomics too.
        let shared = unsafe { AtomicU64::from_ptr(at.cast()) };
        shared.store(u64::from_ne_bytes(*word), Relaxed);
        at = at.wrapping_add(WORD);
    }
    // SAFETY: as the caller says, for its last bytes.
    unsafe { bytes_in(fault::tail(tail), at) };
}

/// # Safety
///
/// As [`copy_in`].
#[inline]
unsafe fn bytes_in(from: &[u8], to: *mut u8) {
    for (index, byte) in from.iter().enumerate() {
        // SAFETY: in the caller's range, with the word around it.
        unsafe { block::store_byte(to.wrapping_add(index), *byte) };
    }
}

/// Bytes from `at` to the next aligned word.
#[inline]
fn to_boundary(at: *const u8) -> usize {
    at.addr().wrapping_neg() % WORD
}

const WORD: usize = size_of::<u64>();
