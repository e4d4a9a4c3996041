//! What types that write themselves use of a writer.

use std::any::type_name;

use super::room::{ShortWriter, padding};
use super::{GROW_BYTES_MIN, LONG, PieceMemory, Writer, WriterBuffer, WriterExtras, WriterPiece};
use crate::depth::{self, Floor};
use crate::dynamic::Names;
use crate::error::WireError;
use crate::share::WrittenShares;
use crate::wire::{Bulk, Stop, Wire, WireSize, Written};

/// For types that write themselves.
impl<'w> Writer<'w> {
    /// Notes why writing stops.
    #[cold]
    pub fn fail(&mut self, why: WireError) -> Stop {
        self.own.rare().why.get_or_insert(why);
        Stop::new()
    }

    /// Writes by `work` what does not live as long as the writer: it is copied.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    pub fn copied<'s, R>(
        &mut self,
        work: impl FnOnce(&mut Writer<'s>) -> Result<R, Stop>,
    ) -> Result<R, Stop>
    where
        'w: 's,
    {
        let own = std::mem::replace(&mut self.own, WriterBuffer::nothing());
        let mut short = Writer::of(own, usize::MAX);
        short.sink.clone_from(&self.sink);
        short.context = self.context;
        let done = work(&mut short);
        debug_assert!(short.pieces.is_empty(), "everything was copied");
        self.own = short.own;
        done
    }

    /// Room for `bytes` that follow.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline(always)]
    pub fn claim(&mut self, bytes: usize) -> Result<&mut [u8], Stop> {
        if self.own.fits(bytes) {
            return Ok(self.own.advance(bytes));
        }
        self.claim_more(bytes)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn claim_more(&mut self, bytes: usize) -> Result<&mut [u8], Stop> {
        if self.own.chunk > 0 {
            self.hand_over()?;
        }
        let left = self.own.limit - self.own.ahead - self.own.at;
        if bytes > left {
            return Err(self.fail(WireError::Full { needed: bytes, left }));
        }
        let own = &mut self.own;
        let end = own.at + bytes;
        if end > own.buf.len() {
            let len = end.max(own.buf.len().saturating_mul(2)).max(GROW_BYTES_MIN);
            own.buf.resize(len.min(own.limit - own.ahead), 0);
        }
        let at = std::mem::replace(&mut own.at, end);
        Ok(&mut own.buf[at..end])
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline(always)]
    pub fn array<const N: usize>(&mut self, bytes: [u8; N]) -> Written {
        self.run(N, |run| {
            run.copy_from_slice(&bytes);
            *run = &mut [];
        })
    }

    /// Writes a value of a fixed size, with one look at what room there is.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline(always)]
    pub fn fixed<T: Wire + ?Sized>(&mut self, value: &T) -> Written {
        debug_assert!(T::SIZE.is_fixed);
        self.run(T::SIZE.min, |run| value.write_fixed(run))
    }

    /// Lets `write` fill exactly `bytes`.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline(always)]
    pub fn run(&mut self, bytes: usize, write: impl FnOnce(&mut &mut [u8])) -> Written {
        if self.own.fits(bytes) {
            write(&mut self.own.advance(bytes));
            return Ok(());
        }
        self.run_more(bytes, write)
    }

    #[cold]
    #[inline(never)]
    pub(super) fn run_more(&mut self, bytes: usize, write: impl FnOnce(&mut &mut [u8])) -> Written {
        write(&mut self.claim_more(bytes)?);
        Ok(())
    }

    /// Writes the number of elements of a sequence.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline(always)]
    pub fn length(&mut self, len: usize) -> Written {
        match u32::try_from(len) {
            Ok(short) if short != LONG => self.array(short.to_le_bytes()),
            _ => self.run(12, |run| {
                run[..4].copy_from_slice(&LONG.to_le_bytes());
                run[4..].copy_from_slice(&(len as u64).to_le_bytes());
                *run = &mut [];
            }),
        }
    }

    /// Writes bytes that may be left where they are.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline]
    pub fn bytes(&mut self, bytes: &'w [u8]) -> Written {
        if bytes.len() >= self.threshold {
            return self.leave(PieceMemory::Lent(bytes));
        }
        self.copy(bytes)
    }

    /// Writes a copy of bytes, however many.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline]
    pub fn copy(&mut self, bytes: &[u8]) -> Written {
        if self.own.chunk > 0 && !self.own.fits(bytes.len()) {
            return bytes.chunks(self.own.chunk).try_for_each(|part| {
                self.claim(part.len())?.copy_from_slice(part);
                Ok(())
            });
        }
        self.claim(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// Writes a slice of elements that travel as the bytes they are: their number, and
    /// the [elements](Self::bulk).
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline]
    pub fn list<T: Bulk>(&mut self, elements: &'w [T]) -> Written {
        if self.short(|room| room.list(elements)) {
            return Ok(());
        }
        self.list_in_parts(elements)
    }

    /// Lets `write` have the room there is. What it writes counts if it says so.
    #[inline(always)]
    pub(super) fn short(&mut self, write: impl FnOnce(&mut ShortWriter<'_>) -> bool) -> bool {
        let WriterBuffer { buf, at, ahead, .. } = &mut self.own;
        let mut room = ShortWriter { buf, at: *at, ahead: *ahead, short_max: self.short_max };
        let is_written = write(&mut room);
        if is_written {
            *at = room.at;
        }
        is_written
    }

    #[inline(never)]
    fn list_in_parts<T: Bulk>(&mut self, elements: &'w [T]) -> Written {
        self.length(elements.len())?;
        self.bulk(elements)
    }

    /// Writes elements as the bytes they are, aligned, and may leave them where they
    /// are.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline]
    pub fn bulk<T: Bulk>(&mut self, elements: &'w [T]) -> Written {
        self.pad_for::<T>(elements.len())?;
        self.bytes(bytemuck::cast_slice(elements))
    }

    /// Zeros up to where an element of `T` may stand, if there is one.
    #[inline]
    pub(super) fn pad_for<T>(&mut self, len: usize) -> Written {
        let pad = if len == 0 { 0 } else { padding::<T>(self.len()) };
        self.claim(pad)?.fill(0);
        Ok(())
    }

    /// Writes elements one after the other, of fixed size with one look at the room.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline]
    pub fn elements<T: Wire>(&mut self, slice: &'w [T]) -> Written {
        if const { T::SIZE.is_fixed && T::SIZE.min > 0 } {
            // No more at a time than a chunk has room for.
            let now = match self.own.chunk {
                0 => slice.len(),
                chunk => slice.len().min((chunk / T::SIZE.min).max(1)),
            };
            for part in slice.chunks(now.max(1)) {
                let mut run = self.claim(part.len() * T::SIZE.min)?;
                part.iter().for_each(|element| element.write_fixed(&mut run));
            }
            return Ok(());
        }
        for element in slice {
            self.element(|w| element.write(w), T::SIZE)?;
        }
        Ok(())
    }

    /// Writes one element of a sequence: one without bytes of its own takes one.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline(always)]
    pub fn element(&mut self, write: impl FnOnce(&mut Self) -> Written, size: WireSize) -> Written {
        if size.min == 0 {
            self.array([0])?;
        }
        write(self)
    }

    /// Goes one level deeper, to a `T`.
    ///
    /// # Errors
    ///
    /// The writer knows why.
    #[inline(always)]
    pub fn nested<T: ?Sized, E: From<Stop>>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.own.floor.is_below(depth::called()) {
            return Err(self.fail(WireError::TooDeep(type_name::<T>())).into());
        }
        write(self)
    }

    #[inline(never)]
    pub(super) fn leave(&mut self, memory: PieceMemory<'w>) -> Written {
        let piece = WriterPiece { own_before: self.own.at, memory };
        let len = piece.bytes().len();
        let left = self.own.limit - self.own.ahead - self.own.at;
        if len > left {
            return Err(self.fail(WireError::Full { needed: len, left }));
        }
        self.own.rare();
        let own = &mut self.own;
        own.ahead += len;
        // What is left in place is room that the writer's own bytes cannot have.
        own.buf.truncate(own.limit - own.ahead);
        self.pieces.push(piece);
        if self.own.chunk > 0 {
            self.hand_over()?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.own.buf.capacity()
    }

    pub(super) fn hand_over(&mut self) -> Written {
        if let Some(why) = self.own.broken() {
            return Err(self.fail(why));
        }
        let Some(sink) = &self.sink else { return Ok(()) };
        let list = self.gather();
        let answer = if list.is_empty() { Ok(()) } else { sink(&list) };
        self.pieces.clear();
        self.own.ahead += self.own.at;
        self.own.at = 0;
        self.own.buf.truncate(self.own.chunk);
        answer.map_err(|why| {
            self.own.break_off(&WireError::Refused(why.clone()));
            self.fail(WireError::Refused(why))
        })
    }

    /// Writes `value` alone, as if it stood at `base` of a stream that ends at
    /// `limit`.
    pub(crate) fn within<T: Wire + ?Sized>(
        &mut self,
        base: usize,
        limit: usize,
        value: &'w T,
    ) -> Result<(), WireError> {
        self.own.ahead = base;
        self.own.at = 0;
        self.own.limit = limit;
        self.own.buf.truncate(limit - base);
        self.write(value)
    }

    /// Its memory, for another one.
    pub(crate) fn recycled(mut self) -> Writer<'static> {
        self.pieces.clear();
        self.own.at = 0;
        let own = std::mem::replace(&mut self.own, WriterBuffer::nothing());
        Writer::of(own, self.threshold)
    }

    pub(crate) fn shared(&mut self) -> &mut WrittenShares {
        self.own.rare().shared.get_or_insert_default()
    }

    pub(crate) fn names(&mut self) -> &mut Names {
        self.own.rare().names.get_or_insert_default()
    }
}

impl WriterBuffer {
    pub(super) const fn nothing() -> Self {
        Self {
            buf: Vec::new(),
            at: 0,
            ahead: 0,
            limit: 0,
            floor: Floor::new(),
            rare: None,
            chunk: 0,
        }
    }

    #[inline(always)]
    pub(super) fn fits(&self, bytes: usize) -> bool {
        self.buf.len().checked_sub(self.at).is_some_and(|room| room >= bytes)
    }

    /// The next `bytes`, which [fit](Self::fits).
    #[inline(always)]
    pub(super) fn advance(&mut self, bytes: usize) -> &mut [u8] {
        let run = &mut self.buf[self.at..][..bytes];
        self.at += bytes;
        run
    }

    #[inline]
    pub(super) fn forget_value(&mut self) {
        self.floor.forget();
        if let Some(rare) = &mut self.rare {
            rare.shared = None;
        }
    }

    /// Nothing more can be written: there is no room, and what asks for more fails for that reason.
    #[cold]
    pub(super) fn break_off(&mut self, why: &WireError) {
        self.rare().broken.get_or_insert_with(|| why.clone());
        self.buf.clear();
        self.at = 0;
    }

    fn broken(&self) -> Option<WireError> {
        self.rare.as_ref()?.broken.clone()
    }

    #[inline]
    pub(super) fn names(&mut self) -> Option<&mut Names> {
        self.rare.as_mut()?.names.as_deref_mut()
    }

    pub(super) fn rare(&mut self) -> &mut WriterExtras {
        self.rare.get_or_insert_default()
    }
}
