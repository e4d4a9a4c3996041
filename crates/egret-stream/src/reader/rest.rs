//! Values that take one look at what is left.

use super::Reader;
use crate::error::WireError;
use crate::wire::{Bulk, FromWire};
use crate::writer::{LONG, padding};

/// What is left of a chunk, for short values: those of a fixed size, and lists of
/// elements that travel as the bytes they are. They are read as a whole or not at all.
/// [`FromWire`] has an example.
#[derive(Debug, Clone, Copy)]
pub struct ShortReader<'a> {
    pub(super) bytes: &'a [u8],
    /// Where in the stream the chunk ends.
    pub(super) end: usize,
}

impl<'a> ShortReader<'a> {
    /// All of a stream.
    #[inline(always)]
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, end: bytes.len() }
    }

    /// Reads a value of a fixed size.
    #[inline(always)]
    pub fn fixed<T: FromWire<'a>>(&mut self) -> Option<T> {
        if !T::SIZE.is_fixed {
            return None;
        }
        let (mut run, rest) = self.bytes.split_at_checked(T::SIZE.min)?;
        let value = T::read_fixed(&mut run).ok()?;
        self.bytes = rest;
        Some(value)
    }

    /// Reads a list where it lies, if it has elements and is aligned.
    #[inline(always)]
    pub fn list<T: Bulk>(&mut self) -> Option<&'a [T]> {
        let (head, rest) = self.bytes.split_first_chunk()?;
        let len = u32::from_le_bytes(*head);
        let bytes = (len as usize).checked_mul(size_of::<T>())?;
        if len == 0 || len == LONG {
            return None;
        }
        let pad = padding::<T>(self.end - rest.len());
        let elements = rest.get(pad..)?.get(..bytes)?;
        if !begins_with_zeros::<T>(rest, pad) {
            return None;
        }
        let elements = bytemuck::try_cast_slice(elements).ok()?;
        self.bytes = &rest[pad + bytes..];
        Some(elements)
    }
}

/// Reads the only value of a buffer.
///
/// ```
/// let message = [3, 0, 0, 0, b't', b'e', b'a'];
/// assert_eq!(egret_stream::read::<&str>(&message)?, "tea");
/// # Ok::<(), egret_stream::WireError>(())
/// ```
///
/// # Errors
///
/// See [`WireError`].
#[inline]
pub fn read<'a, T: FromWire<'a>>(bytes: &'a [u8]) -> Result<T, WireError> {
    let mut rest = ShortReader::new(bytes);
    match T::read_short(&mut rest) {
        Some(value) if rest.bytes.is_empty() => Ok(value),
        _ => read_long(bytes),
    }
}

#[inline(never)]
fn read_long<'a, T: FromWire<'a>>(bytes: &'a [u8]) -> Result<T, WireError> {
    Reader::new(bytes).read_last()
}

/// Whether the first `pad` bytes of `rest` are zeros. What is aligned to eight bytes or
/// less takes one look, as an element of `T` follows.
#[inline(always)]
fn begins_with_zeros<T>(rest: &[u8], pad: usize) -> bool {
    let word = match const { align_of::<T>() } {
        1 => return true,
        2 => rest.first_chunk().map(|word| u64::from(u16::from_le_bytes(*word))),
        4 => rest.first_chunk().map(|word| u64::from(u32::from_le_bytes(*word))),
        8 => rest.first_chunk().map(|word| u64::from_le_bytes(*word)),
        _ => return rest[..pad].iter().all(|&byte| byte == 0),
    };
    word.is_some_and(|word| word & ((1 << (8 * pad)) - 1) == 0)
}
