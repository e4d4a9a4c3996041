//! One piece of memory that a descriptor names.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};

use super::lend::{Lender, LentSlice};
use crate::buf::{Buf, Plain, Region, Shared, Typed};

/// Memory owned by a [`Descriptor`](super::Descriptor): a pool buffer, a
/// shared one, or memory of the heap.
///
/// Whatever it was made of comes out of the completion again.
#[derive(Debug)]
pub struct Segment(SegmentMemory);

#[derive(Debug)]
enum SegmentMemory {
    Buf(Buf),
    Shared(Shared<u8>),
    Heap(Box<dyn HeapMemory>),
    /// Memory made when the message arrives and its length is known.
    Fresh {
        max: u64,
        make: fn(usize) -> Box<dyn HeapMemory>,
        /// Whether a buffer that is handed over may take its place.
        handed: bool,
    },
    /// Memory a blocking call lends for as long as it blocks.
    Lent(LentSlice),
    /// Some of the bytes of memory that others have too.
    Part(Arc<Segment>, Range<usize>),
}

impl Segment {
    /// Memory that is made on arrival, for the message's length, at most `max`
    /// bytes; it completes as a `Vec<T>`.
    #[must_use]
    pub fn fresh<T: Plain>(max: u64) -> Self {
        const { assert!(size_of::<T>() > 0, "elements without size hold no bytes") };
        let make = |len: usize| -> Box<dyn HeapMemory> {
            Box::new(vec![T::zeroed(); len.div_ceil(size_of::<T>())])
        };
        Self(SegmentMemory::Fresh { max, make, handed: false })
    }

    pub(super) fn handed(max: u64) -> Self {
        let make = |len: usize| -> Box<dyn HeapMemory> { Box::new(vec![0_u8; len]) };
        Self(SegmentMemory::Fresh { max, make, handed: true })
    }

    /// Whether a buffer that is handed over may take its place.
    pub(super) const fn is_for_handed(&self) -> bool {
        matches!(self.0, SegmentMemory::Fresh { handed: true, .. })
    }

    pub(super) const fn lent(lent: LentSlice) -> Self {
        Self(SegmentMemory::Lent(lent))
    }

    /// Lends bytes to `body` as a segment that can be sent. The bytes must be back when `body`
    /// returns or unwinds: the fabric has dropped the segment, which the function that `body`
    /// gets says.
    ///
    /// If they are not, the process is aborted, for nothing else would keep somebody from
    /// reading memory that is gone.
    ///
    /// ```
    /// use egret_net::vi::Segment;
    ///
    /// let sum: u32 = Segment::lend(&[1, 2, 3], |segment, is_back| {
    ///     assert!(!is_back());
    ///     segment.bytes().iter().map(|byte| u32::from(*byte)).sum()
    /// });
    /// assert_eq!(sum, 6);
    /// ```
    pub fn lend<R>(bytes: &[u8], body: impl FnOnce(Self, &mut dyn FnMut() -> bool) -> R) -> R {
        let (mut lender, lent) = Lender::read(bytes);
        body(Self::lent(lent), &mut || lender.is_returned())
    }

    /// Lends several pieces at once, each as a segment, as [`lend`](Self::lend) does one: all of
    /// them must be back when `body` returns or unwinds.
    pub fn lend_all<R>(
        pieces: &[&[u8]],
        body: impl FnOnce(Vec<Self>, &mut dyn FnMut() -> bool) -> R,
    ) -> R {
        let (mut lender, lent) = Lender::read_all(pieces);
        body(lent.into_iter().map(Self::lent).collect(), &mut || lender.is_returned())
    }

    /// Some of the bytes of memory that is kept, to be sent from where it lies. When all such
    /// parts are dropped the memory is its owner's alone.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use egret_net::vi::Segment;
    ///
    /// let kept = Arc::new(Segment::from(vec![1_u8, 2, 3]));
    /// let part = Segment::part_of(&kept, 1..3);
    /// assert_eq!(part.bytes(), [2, 3]);
    /// drop(part);
    /// assert_eq!(Arc::into_inner(kept).unwrap().into_vec::<u8>().unwrap(), [1, 2, 3]);
    /// ```
    ///
    /// # Panics
    ///
    /// If it does not have these bytes.
    #[must_use]
    pub fn part_of(kept: &Arc<Self>, range: Range<usize>) -> Self {
        let len = kept.bytes().len();
        assert!(range.start <= range.end && range.end <= len, "{range:?} of {len} bytes");
        Self(SegmentMemory::Part(Arc::clone(kept), range))
    }

    /// How many bytes it holds or can take.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u64 {
        match &self.0 {
            SegmentMemory::Fresh { max, .. } => *max,
            _ => self.bytes().len() as u64,
        }
    }

    /// Whether it holds no bytes and can take none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes to send. Empty for memory not made yet.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.0 {
            SegmentMemory::Buf(buf) => buf.bytes(),
            SegmentMemory::Shared(shared) => shared,
            SegmentMemory::Heap(heap) => heap.bytes(),
            SegmentMemory::Fresh { .. } => &[],
            SegmentMemory::Lent(lent) => lent.bytes(),
            SegmentMemory::Part(kept, range) => &kept.bytes()[range.clone()],
        }
    }

    /// The bytes to receive into, or `None` if others may be reading them.
    #[inline]
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.0 {
            SegmentMemory::Buf(buf) => Some(buf.bytes_mut()),
            SegmentMemory::Heap(heap) => heap.bytes_mut(),
            SegmentMemory::Lent(lent) => lent.bytes_mut(),
            SegmentMemory::Shared(_) | SegmentMemory::Fresh { .. } | SegmentMemory::Part(..) => {
                None
            }
        }
    }

    /// The region it lies in, and where, if it is memory of a pool; of memory that was lent, if
    /// that is shareable and there are some pages of it.
    #[must_use]
    #[inline]
    pub fn place(&self) -> Option<(&Region, usize)> {
        match &self.0 {
            SegmentMemory::Buf(buf) => Some((buf.region(), buf.offset_in_region())),
            SegmentMemory::Shared(shared) => Some((shared.region(), shared.offset_in_region())),
            SegmentMemory::Part(kept, range) => {
                kept.place().map(|(region, at)| (region, at + range.start))
            }
            SegmentMemory::Lent(lent) => lent.place(),
            SegmentMemory::Heap(_) | SegmentMemory::Fresh { .. } => None,
        }
    }

    #[inline]
    pub(super) const fn is_fresh(&self) -> bool {
        matches!(self.0, SegmentMemory::Fresh { .. })
    }

    /// Makes fresh memory for a message of `len` bytes; others stay as they are.
    pub(super) fn make(&mut self, len: usize) {
        if let SegmentMemory::Fresh { make, .. } = self.0 {
            self.0 = SegmentMemory::Heap(make(len));
        }
    }

    /// Sets its length, if it is a pool buffer of that capacity.
    #[inline]
    pub(super) fn resize(&mut self, len: usize) -> bool {
        match &mut self.0 {
            SegmentMemory::Buf(buf) if len <= buf.capacity() => {
                buf.resize(len);
                true
            }
            _ => false,
        }
    }

    /// The pool buffer, if that is what it is.
    ///
    /// # Errors
    ///
    /// The segment, if it is something else.
    pub fn into_buf(self) -> Result<Buf, Self> {
        match self.0 {
            SegmentMemory::Buf(buf) => Ok(buf),
            other => Err(Self(other)),
        }
    }

    /// The shared buffer, if that is what it is.
    ///
    /// # Errors
    ///
    /// The segment, if it is something else.
    pub fn into_shared(self) -> Result<Shared<u8>, Self> {
        match self.0 {
            SegmentMemory::Shared(shared) => Ok(shared),
            other => Err(Self(other)),
        }
    }

    /// The vector, if it was made of a `Vec<T>` (or fresh, for `u8`).
    ///
    /// # Errors
    ///
    /// The segment, if it is something else.
    pub fn into_vec<T: Plain>(self) -> Result<Vec<T>, Self> {
        self.into_heap::<Vec<T>>()
    }

    /// The slice, if it was made of an `Arc<[T]>`.
    ///
    /// # Errors
    ///
    /// The segment, if it is something else.
    pub fn into_arc<T: Plain>(self) -> Result<Arc<[T]>, Self> {
        self.into_heap::<Arc<[T]>>()
    }

    fn into_heap<H: HeapMemory>(self) -> Result<H, Self> {
        match self.0 {
            SegmentMemory::Heap(heap) if heap.as_any().is::<H>() => {
                Ok(*heap.into_any().downcast::<H>().expect("checked just now"))
            }
            other => Err(Self(other)),
        }
    }
}

impl From<Buf> for Segment {
    fn from(buf: Buf) -> Self {
        Self(SegmentMemory::Buf(buf))
    }
}

impl<T: Plain> From<Typed<T>> for Segment {
    fn from(typed: Typed<T>) -> Self {
        Self(SegmentMemory::Buf(typed.into_buf()))
    }
}

impl<T: Plain> From<Shared<T>> for Segment {
    fn from(shared: Shared<T>) -> Self {
        Self(SegmentMemory::Shared(shared.erase()))
    }
}

impl<T: Plain> From<Vec<T>> for Segment {
    fn from(vec: Vec<T>) -> Self {
        Self(SegmentMemory::Heap(Box::new(vec)))
    }
}

impl<T: Plain> From<Arc<[T]>> for Segment {
    fn from(arc: Arc<[T]>) -> Self {
        Self(SegmentMemory::Heap(Box::new(arc)))
    }
}

/// Memory of the heap whose element type is forgotten until it comes back.
trait HeapMemory: Send + Sync + 'static {
    fn bytes(&self) -> &[u8];
    fn bytes_mut(&mut self) -> Option<&mut [u8]>;
    fn as_any(&self) -> &dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl<T: Plain> HeapMemory for Vec<T> {
    fn bytes(&self) -> &[u8] {
        cast_slice(self)
    }
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        Some(cast_slice_mut(self))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl<T: Plain> HeapMemory for Arc<[T]> {
    fn bytes(&self) -> &[u8] {
        cast_slice(self)
    }
    fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        None
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl fmt::Debug for dyn HeapMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes().len())
    }
}
