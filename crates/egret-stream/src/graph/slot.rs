//! The place of an object: a header, and the value behind it.
//!
//! ```text
//!   object   header 8 │ value, filled up to a multiple of 8
//!   slice    header 8 │ where its elements begin, in words: 4 │ how many: 4
//!
//!   header   bits 0..24 stamp │ 24..32 class │ 32 empty │ all others 0
//! ```

use egret_net::buf::Ref;

/// How objects are aligned at most.
pub(super) const ALIGN: usize = 8;
/// Bytes of a header.
pub(super) const HEADER: usize = 8;
/// Bytes from one slot to the next of slices and texts.
pub(super) const SPAN_STRIDE: usize = 16;
/// In the header of a slot that has no object.
pub(super) const EMPTY: u64 = 1 << 32;

/// Bytes from one slot to the next of values that have `size` bytes.
pub(super) const fn stride(size: usize) -> usize {
    HEADER + size.next_multiple_of(ALIGN)
}

/// The header of a slot that begins here.
#[inline]
pub(super) fn header(slot: &[u8]) -> Option<u64> {
    slot.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Whether it is the header of an object of `class`, with a stamp.
#[inline]
pub(super) fn is_object(header: u64, class: usize) -> bool {
    let first = (class as u64) << 24 | 1;
    header.wrapping_sub(first) < u64::from(STAMP_MAX)
}

/// Whether it is the header of an empty slot of `class`.
pub(super) fn is_empty(header: u64, class: usize) -> bool {
    header & EMPTY != 0 && is_object(header & !EMPTY, class)
}

/// The stamp in a header.
pub(super) fn stamp(header: u64) -> u32 {
    (header & 0xff_ffff) as u32
}

/// Where the elements of a slice are: a multiple of eight bytes, and their number.
#[inline]
pub(super) fn span(slot: &[u8]) -> Option<(usize, usize)> {
    let words = slot.get(HEADER..HEADER + 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    let count = slot.get(HEADER + 4..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
    Some((words? as usize * ALIGN, count? as usize))
}

pub(super) const STAMP_MAX: u32 = Ref::<()>::STAMP_MAX;
