//! Values that take one look at the room.

use super::{LONG, Writer};
use crate::error::WireError;
use crate::fault::{Fault, planted};
use crate::wire::{Bulk, Wire};

/// Room for short values: those of a fixed size, and lists that are copied. They are
/// written as a whole or not at all, and nothing but room is needed.
/// [`FromWire`](crate::FromWire) has an example.
#[derive(Debug)]
pub struct ShortWriter<'r> {
    pub(super) buf: &'r mut [u8],
    pub(super) at: usize,
    /// Bytes of the stream before `buf`.
    pub(super) ahead: usize,
    /// How long a short list may be.
    pub(super) short_max: usize,
}

impl<'r> ShortWriter<'r> {
    /// What of `buf`, in which a stream begins, is behind its first `at` bytes.
    #[inline(always)]
    pub(crate) fn behind(buf: &'r mut [u8], at: usize) -> Self {
        Self { buf, at, ahead: 0, short_max: SHORT_MAX }
    }

    /// How much of the stream is written.
    #[inline(always)]
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    /// Writes a value of a fixed size.
    #[inline(always)]
    pub fn fixed<T: Wire + ?Sized>(&mut self, value: &T) -> bool {
        let run = self.buf.get_mut(self.at..).and_then(|room| room.get_mut(..T::SIZE.min));
        let (true, Some(mut run)) = (T::SIZE.is_fixed, run) else { return false };
        self.at += T::SIZE.min;
        value.write_fixed(&mut run);
        true
    }

    /// Writes elements that travel as the bytes they are, with their number.
    #[inline(always)]
    pub fn list<T: Bulk>(&mut self, elements: &[T]) -> bool {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        // Neither none nor many: by a step below zero it is one comparison.
        if bytes.len().wrapping_sub(1) >= self.short_max {
            return false;
        }
        let pad = padding::<T>(self.ahead + self.at + 4);
        let whole = 4 + pad + bytes.len();
        let room = self.buf.get_mut(self.at..).and_then(|room| room.get_mut(..whole));
        let Some((head, rest)) = room.and_then(|room| room.split_first_chunk_mut()) else {
            return false;
        };
        self.at += whole;
        #[expect(clippy::cast_possible_truncation, reason = "no more than `SHORT_MAX`")]
        let len = elements.len() as u32;
        *head = len.to_le_bytes();
        // All that may be zeros, which takes one instruction; then the elements.
        if const { align_of::<T>() > 1 } {
            rest[..align_of::<T>()].fill(0);
        }
        rest[pad..].copy_from_slice(bytes);
        true
    }
}

/// Writes a value to the front of `to`, all of it copied, and says how many bytes it
/// took.
///
/// ```
/// let mut memory = [0; 64];
/// let len = egret_stream::write(&("tea", 3_u8), &mut memory)?;
/// assert_eq!(egret_stream::read::<(&str, u8)>(&memory[..len])?, ("tea", 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// See [`WireError`]; `to` may then have been written to.
#[inline]
pub fn write<T: Wire + ?Sized>(value: &T, to: &mut [u8]) -> Result<usize, WireError> {
    let mut room = ShortWriter::behind(to, 0);
    if value.write_short(&mut room) {
        return Ok(room.at);
    }
    write_long(value, to)
}

#[inline(never)]
fn write_long<T: Wire + ?Sized>(value: &T, to: &mut [u8]) -> Result<usize, WireError> {
    let mut writer = Writer::new();
    writer.within(0, to.len(), value)?;
    writer.copy_to(to);
    Ok(writer.len())
}

/// How many zeros stand at `position` before an element of `T`.
#[inline(always)]
pub(crate) fn padding<T>(position: usize) -> usize {
    if planted(Fault::NoPadding) {
        return 0;
    }
    position.wrapping_neg() % const { align_of::<T>() }
}

/// The same, for an alignment out of a schema.
pub(crate) const fn padding_to(position: usize, align: usize) -> usize {
    position.wrapping_neg() % align
}

/// The longest list whose length takes four bytes, if elements have one.
pub(super) const SHORT_MAX: usize = LONG as usize - 1;
