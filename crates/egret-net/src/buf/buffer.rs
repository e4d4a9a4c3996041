//! A buffer that has no type yet.

use std::fmt;

use super::error::MemoryError;
use super::held::Held;
use super::plain::Plain;
use super::region::Region;
use super::shared::Shared;
use super::slot::SlotHandle;
use super::typed::Typed;
use crate::rt::GivenBack;

/// A buffer of a [`Pool`](super::Pool), or a part of one, owned by the holder of
/// this value. Dropping it returns it to its pool, also after the pool's handles
/// are gone.
///
/// Its bytes are initialised but not cleared: a buffer just taken shows what its
/// last holder left there.
///
/// ```
/// use egret_net::buf::Pool;
///
/// let pool = Pool::new(4096, 8)?;
/// let mut buf = pool.take(100)?;
/// assert_eq!((buf.len(), buf.capacity()), (100, 4096));
/// buf.bytes_mut().fill(7);
///
/// let (head, body) = buf.split_at(36);
/// assert_eq!((head.len(), body.len()), (36, 64));
/// drop(head);
/// assert_eq!(pool.available(4096), 7, "the other part is still out");
/// drop(body);
/// assert_eq!(pool.available(4096), 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A buffer cannot be freed or converted while something borrows from it:
///
/// ```compile_fail,E0505
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let mut buf = pool.take(64).unwrap();
/// let bytes = buf.bytes_mut();
/// drop(buf);
/// bytes[0] = 1;
/// ```
///
/// nor used after it became something else:
///
/// ```compile_fail,E0382
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let buf = pool.take(64).unwrap();
/// let words = buf.typed::<u64>().unwrap();
/// buf.bytes();
/// ```
///
/// nor returned twice:
///
/// ```compile_fail,E0382
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let buf = pool.take(64).unwrap();
/// drop(buf);
/// drop(buf);
/// ```
pub struct Buf {
    slot: SlotHandle,
}

impl Buf {
    /// The buffer of an exclusive handle: no other handle has its bytes.
    #[inline]
    pub(super) fn new(slot: SlotHandle) -> Self {
        Self { slot }
    }

    #[inline]
    pub(super) fn slot(&self) -> &SlotHandle {
        &self.slot
    }

    #[inline]
    pub(super) fn slot_mut(&mut self) -> &mut SlotHandle {
        &mut self.slot
    }

    #[inline]
    pub(super) fn into_slot(self) -> SlotHandle {
        self.slot
    }

    /// The bytes in use.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.slot.len
    }

    /// Whether no byte is in use.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes it could use.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slot.capacity
    }

    /// Uses `len` bytes from now on. Bytes that come into use have whatever
    /// value they had.
    ///
    /// # Panics
    ///
    /// If `len` is more than the [capacity](Self::capacity).
    #[inline]
    pub fn resize(&mut self, len: usize) {
        assert!(len <= self.capacity(), "resize to {len} of {} bytes", self.capacity());
        self.slot.len = len;
    }

    /// The bytes in use.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.slot.bytes()
    }

    /// The bytes in use, to be written.
    #[inline]
    #[must_use]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: a `Buf` is the only handle to its bytes.
        unsafe { self.slot.bytes_mut() }
    }

    /// Cuts it into its first `mid` bytes and the rest, which takes all the
    /// capacity beyond. The slot is free again when both are dropped.
    ///
    /// # Panics
    ///
    /// If `mid` is more than the [length](Self::len).
    #[inline]
    #[must_use]
    pub fn split_at(self, mid: usize) -> (Self, Self) {
        let (head, rest) = self.slot.split(mid);
        (Self::new(head), Self::new(rest))
    }

    /// Puts two parts together that a split has made neighbours.
    ///
    /// # Errors
    ///
    /// Gives both back if `rest` does not begin where `head` ends, or if `head`
    /// was made shorter, so that there would be a gap between the two.
    ///
    /// ```
    /// # use egret_net::buf::{Buf, Pool};
    /// let pool = Pool::new(64, 1)?;
    /// let (head, rest) = pool.take(64)?.split_at(10);
    /// let (rest, head) = Buf::join(rest, head).unwrap_err();
    /// assert_eq!(Buf::join(head, rest).unwrap().len(), 64);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn join(head: Self, rest: Self) -> Result<Self, (Self, Self)> {
        let joined = head.slot.join(rest.slot);
        joined.map(Self::new).map_err(|(head, rest)| (Self::new(head), Self::new(rest)))
    }

    /// Gives it a type.
    ///
    /// # Errors
    ///
    /// Gives it back if it does not start at a multiple of the element's
    /// alignment, or is not a whole number of elements long.
    #[inline]
    pub fn typed<T: Plain>(self) -> Result<Typed<T>, GivenBack<Buf, MemoryError>> {
        if self.slot.fits::<T>() {
            return Ok(Typed::new(self));
        }
        Err(self.misfit::<T>())
    }

    /// Its bytes, to be read by several holders at once; see [`Typed::share`].
    #[must_use]
    pub fn share(self) -> Shared<u8> {
        Typed::from(self).share()
    }

    /// Keeps its bytes; see [`Typed::hold`].
    #[must_use]
    pub fn hold(self) -> Held<u8> {
        Typed::from(self).hold()
    }

    /// The region it lies in.
    #[must_use]
    pub fn region(&self) -> &Region {
        self.slot.region()
    }

    /// Where in [its region](Self::region) it starts.
    #[must_use]
    pub fn offset_in_region(&self) -> usize {
        self.slot.offset_in_region()
    }

    #[cold]
    fn misfit<T: Plain>(self) -> GivenBack<Buf, MemoryError> {
        let (bytes, element) = (self.len(), size_of::<T>());
        let why = if bytes.is_multiple_of(element) {
            let offset = self.offset_in_region();
            MemoryError::Misaligned { offset, align: align_of::<T>() }
        } else {
            MemoryError::Partial { bytes, element }
        };
        GivenBack { why, what: self }
    }
}

impl AsRef<[u8]> for Buf {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl<T: Plain> From<Typed<T>> for Buf {
    fn from(typed: Typed<T>) -> Self {
        typed.into_buf()
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buf")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("offset", &self.offset_in_region())
            .finish()
    }
}
