//! What types that read themselves use of a reader.

use std::any::type_name;

use super::{Reader, ReaderExtras};
use crate::depth;
use crate::dynamic::Names;
use crate::error::{Invalid, WireError};
use crate::fault;
use crate::share::ReadShares;
use crate::wire::{Bulk, FromWire, Stop};
use crate::writer::{LONG, padding};

/// For types that read themselves.
impl<'a> Reader<'a> {
    /// Notes why reading stops.
    #[cold]
    pub fn fail(&mut self, why: impl Into<WireError>) -> Stop {
        let why = why.into();
        self.rare().why.get_or_insert(why);
        Stop::new()
    }

    /// Reads bytes as they are.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline(always)]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        if let Some((head, rest)) = self.rest.bytes.split_first_chunk::<N>() {
            self.rest.bytes = rest;
            return Ok(*head);
        }
        self.array_split()
    }

    #[cold]
    #[inline(never)]
    pub(super) fn array_split<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut array = [0; N];
        array.copy_from_slice(match self.is_pulling() {
            true => self.run_pulled(N)?,
            false => self.run_split(N)?,
        });
        Ok(array)
    }

    /// `bytes` that follow, for values of a fixed size.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline(always)]
    pub fn run(&mut self, bytes: usize) -> Result<&[u8], Stop> {
        if let Some((head, rest)) = self.rest.bytes.split_at_checked(bytes) {
            self.rest.bytes = rest;
            return Ok(head);
        }
        self.run_split(bytes)
    }

    /// A run over the end of a chunk, put together, or one that is waited for.
    #[cold]
    #[inline(never)]
    pub(super) fn run_split(&mut self, bytes: usize) -> Result<&[u8], Stop> {
        if self.is_pulling() {
            return self.run_pulled(bytes);
        }
        self.has(bytes)?;
        let mut joined = std::mem::take(&mut self.rare().joined);
        joined.clear();
        while joined.len() < bytes {
            let part = self.part(bytes - joined.len());
            assert!(!part.is_empty(), "what is left was counted");
            joined.extend_from_slice(part);
        }
        let rare = self.rare();
        rare.joined = joined;
        Ok(&rare.joined)
    }

    /// The next bytes that lie together, at most `max` and at least one.
    pub(super) fn part(&mut self, max: usize) -> &'a [u8] {
        while self.rest.bytes.is_empty() {
            let Some(rare) = &mut self.rare else { break };
            let Some((next, more)) = rare.more.split_first() else { break };
            rare.more = more;
            rare.more_bytes -= next.len();
            self.rest.bytes = fault::chunk(next, self.rest.end);
            self.rest.end += next.len();
        }
        let (part, rest) = self.rest.bytes.split_at(max.min(self.rest.bytes.len()));
        self.rest.bytes = rest;
        part
    }

    /// Fails unless `bytes` are left, or may still arrive.
    #[inline]
    pub(super) fn has(&mut self, bytes: usize) -> Result<(), Stop> {
        let left = self.left();
        if bytes <= left || !self.is_short_of(bytes) {
            return Ok(());
        }
        Err(self.fail(WireError::End { needed: bytes, left }))
    }

    /// Reads a value of a fixed size, with one look at what is left.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline(always)]
    pub fn fixed<T: FromWire<'a>>(&mut self) -> Result<T, Stop> {
        debug_assert!(T::SIZE.is_fixed);
        let mut run = self.run(T::SIZE.min)?;
        match T::read_fixed(&mut run) {
            Ok(value) => Ok(value),
            Err(invalid) => Err(self.fail(invalid)),
        }
    }

    /// Reads the number of elements of a sequence, each of `each` bytes or more, and
    /// checks it against what is left.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline(always)]
    pub fn length(&mut self, each: usize) -> Result<usize, Stop> {
        let short = u32::from_le_bytes(self.array()?);
        let len = if short == LONG { self.long_length()? } else { short as usize };
        let bytes = len.saturating_mul(each);
        if bytes > self.rest.bytes.len() {
            self.has(bytes)?;
        }
        Ok(len)
    }

    #[cold]
    pub(super) fn long_length(&mut self) -> Result<usize, Stop> {
        let long = u64::from_le_bytes(self.array()?);
        match usize::try_from(long) {
            Ok(len) if long >= u64::from(LONG) => Ok(len),
            _ => Err(self.fail(Invalid::new("length"))),
        }
    }

    /// `bytes` that lie together, in place; `None` if they lie in two chunks.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline]
    pub fn whole(&mut self, bytes: usize) -> Result<Option<&'a [u8]>, Stop> {
        if self.rest.bytes.is_empty() && bytes > 0 {
            self.rest.bytes = self.part(usize::MAX);
        }
        if let Some((head, rest)) = self.rest.bytes.split_at_checked(bytes) {
            self.rest.bytes = rest;
            return Ok(Some(head));
        }
        self.has(bytes)?;
        Ok(None)
    }

    /// Reads a list of elements that travel as the bytes they are, in place.
    ///
    /// # Errors
    ///
    /// As of [`in_place`](Self::in_place).
    #[inline]
    pub fn list_in_place<T: Bulk>(&mut self) -> Result<&'a [T], Stop> {
        if let Some(elements) = self.rest.list() {
            return Ok(elements);
        }
        let len = self.length(size_of::<T>())?;
        self.in_place(len)
    }

    /// Reads a list of elements that travel as the bytes they are, in place if it lies
    /// so.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline]
    pub fn try_list<T: Bulk>(&mut self) -> Result<Result<&'a [T], Vec<T>>, Stop> {
        if let Some(elements) = self.rest.list() {
            return Ok(Ok(elements));
        }
        let len = self.length(size_of::<T>())?;
        self.try_in_place(len)
    }

    /// Reads a list of elements that travel as the bytes they are.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline]
    pub fn list<T: Bulk>(&mut self) -> Result<Vec<T>, Stop> {
        if let Some(elements) = self.rest.list() {
            return Ok(elements.to_vec());
        }
        self.list_in_parts()
    }

    #[inline(never)]
    fn list_in_parts<T: Bulk>(&mut self) -> Result<Vec<T>, Stop> {
        let len = self.length(size_of::<T>())?;
        self.bulk(len)
    }

    /// `len` elements in place.
    ///
    /// # Errors
    ///
    /// The reader knows why; [`WireError::Split`] and [`WireError::Misaligned`] are
    /// only about reading in place.
    pub fn in_place<T: Bulk>(&mut self, len: usize) -> Result<&'a [T], Stop> {
        // None at all lie nowhere, and so never wrong.
        if len == 0 {
            return Ok(&[]);
        }
        self.skip_padding::<T>(len)?;
        let Some(bytes) = self.whole(len.saturating_mul(size_of::<T>()))? else {
            return Err(self.fail(WireError::Split(type_name::<[T]>())));
        };
        match bytemuck::try_cast_slice(bytes) {
            Ok(elements) => Ok(elements),
            Err(_) => Err(self.fail(WireError::Misaligned(type_name::<[T]>()))),
        }
    }

    /// `len` elements in place if they lie so.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline]
    pub fn try_in_place<T: Bulk>(&mut self, len: usize) -> Result<Result<&'a [T], Vec<T>>, Stop> {
        self.skip_padding::<T>(len)?;
        let size = len.saturating_mul(size_of::<T>());
        let whole = self.whole(size)?;
        if let Some(Ok(elements)) = whole.map(bytemuck::try_cast_slice) {
            return Ok(Ok(elements));
        }
        self.copied(len, whole).map(Err)
    }

    /// `len` elements, owned.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline]
    pub fn bulk<T: Bulk>(&mut self, len: usize) -> Result<Vec<T>, Stop> {
        Ok(match self.try_in_place(len)? {
            Ok(elements) => elements.to_vec(),
            Err(elements) => elements,
        })
    }

    /// One plain value, owned.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline]
    pub fn plain<T: Bulk>(&mut self) -> Result<T, Stop> {
        self.skip_padding::<T>(1)?;
        let run = self.run(size_of::<T>())?;
        Ok(bytemuck::pod_read_unaligned(run))
    }

    /// A copy of `len` elements that do not lie together or are not aligned; they are there, or
    /// waited for.
    #[cold]
    pub(super) fn copied<T: Bulk>(
        &mut self,
        len: usize,
        whole: Option<&[u8]>,
    ) -> Result<Vec<T>, Stop> {
        if whole.is_none() && self.is_pulling() {
            return self.bulk_pulled(len);
        }
        let mut elements = vec![T::zeroed(); len];
        let to: &mut [u8] = bytemuck::cast_slice_mut(&mut elements);
        match whole {
            Some(bytes) => to.copy_from_slice(bytes),
            None => self.fill(to)?,
        }
        Ok(elements)
    }

    /// Fills `to` with the next bytes.
    pub(super) fn fill(&mut self, mut to: &mut [u8]) -> Result<(), Stop> {
        if self.is_pulling() {
            return self.fill_pulled(to);
        }
        while !to.is_empty() {
            let part = self.part(to.len());
            assert!(!part.is_empty(), "what is left was counted");
            let (head, rest) = to.split_at_mut(part.len());
            head.copy_from_slice(part);
            to = rest;
        }
        Ok(())
    }

    /// Passes the zeros before an element of `T`, if there is one.
    #[inline]
    pub(super) fn skip_padding<T>(&mut self, len: usize) -> Result<(), Stop> {
        let pad = if len == 0 { 0 } else { padding::<T>(self.position()) };
        if self.run(pad)?.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        Err(self.fail(Invalid::new("padding")))
    }

    /// Reads `len` elements one after the other, of fixed size with one look at what
    /// is left.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline]
    pub fn elements<T: FromWire<'a>>(&mut self, len: usize) -> Result<Vec<T>, Stop> {
        let mut ready = self.batch::<T>(0, len);
        self.charge::<[T]>(ready.saturating_mul(size_of::<T>()))?;
        let mut elements = Vec::with_capacity(ready);
        loop {
            if const { T::SIZE.is_fixed && T::SIZE.min > 0 } {
                self.fixed_elements(&mut elements, ready)?;
            } else {
                for _ in elements.len()..ready {
                    elements.push(self.element()?);
                }
            }
            if ready == len {
                return Ok(elements);
            }
            let more = self.batch::<T>(ready, len);
            self.charge::<[T]>(more.saturating_mul(size_of::<T>()))?;
            elements.reserve_exact(more);
            ready += more;
        }
    }

    /// Reads elements until there are `len`. Those that do not lie together are put together few at
    /// a time.
    fn fixed_elements<T: FromWire<'a>>(
        &mut self,
        elements: &mut Vec<T>,
        len: usize,
    ) -> Result<(), Stop> {
        while elements.len() < len {
            let left = len - elements.len();
            let together = self.rest.bytes.len() / T::SIZE.min;
            let now = if left <= together { left } else { left.min(per_run(T::SIZE.min)) };
            let mut run = self.run(now * T::SIZE.min)?;
            for _ in 0..now {
                match T::read_fixed(&mut run) {
                    Ok(element) => elements.push(element),
                    Err(invalid) => return Err(self.fail(invalid)),
                }
            }
        }
        Ok(())
    }

    /// Reads one element of a sequence.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline(always)]
    pub fn element<T: FromWire<'a>>(&mut self) -> Result<T, Stop> {
        if const { T::SIZE.min == 0 } && self.array::<1>()? != [0] {
            return Err(self.fail(Invalid::new("element without bytes")));
        }
        T::read(self)
    }

    /// Goes one level deeper, to a `T`.
    ///
    /// # Errors
    ///
    /// The reader knows why.
    #[inline(always)]
    pub fn nested<T: ?Sized, R, E: From<Stop>>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<R, E>,
    ) -> Result<R, E> {
        if !self.floor.is_below(depth::here()) {
            return Err(self.fail(WireError::TooDeep(type_name::<T>())).into());
        }
        read(self)
    }

    #[inline]
    pub(crate) fn shared(&mut self) -> &mut ReadShares {
        self.rare().shared.get_or_insert_default()
    }

    pub(crate) fn names(&mut self) -> &mut Names {
        self.rare().names.get_or_insert_default()
    }

    #[inline]
    pub(super) fn rare(&mut self) -> &mut ReaderExtras<'a> {
        self.rare.get_or_insert_default()
    }
}

/// How many elements of so many bytes are put together at a time.
const fn per_run(bytes: usize) -> usize {
    let count = RUN_BYTES / bytes;
    if count == 0 { 1 } else { count }
}

const RUN_BYTES: usize = 16 << 10;
