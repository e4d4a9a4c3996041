//! A buffer seen as elements of one type.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::buffer::Buf;
use super::class::Reclaim;
use super::held::Held;
use super::plain::Plain;
use super::region::Region;
use super::shared::Shared;

/// A buffer used as `[T]`, by its only owner.
///
/// A typed buffer cannot be seen as two types at once, but its parts can: see
/// [`split_at`](Self::split_at).
///
/// ```
/// use egret_net::buf::Pool;
///
/// let pool = Pool::new(4096, 8)?;
/// let mut message = pool.take(16 + 800)?.typed::<u32>()?;
/// message[..4].copy_from_slice(&[1, 2, 3, 4]);
///
/// // A header of four words, and a body of another type, without a copy.
/// let (header, body) = message.split_at(4);
/// let mut body = body.typed::<f64>()?;
/// body.fill(0.5);
/// assert_eq!((header[3], body.len(), body[99]), (4, 100, 0.5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A view of a second type needs the first one back:
///
/// ```compile_fail,E0382
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let buf = pool.take(64).unwrap();
/// let mut words = buf.typed::<u64>().unwrap();
/// let mut floats = buf.typed::<f32>().unwrap();
/// words[0] = 1;
/// floats[0] = 1.0;
/// ```
///
/// and all its borrows ended:
///
/// ```compile_fail,E0505
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let mut words = pool.take_typed::<u64>(8).unwrap();
/// let first = &mut words[0];
/// let floats = words.into_buf().typed::<f32>().unwrap();
/// *first = 1;
/// ```
///
/// and only plain types will do:
///
/// ```compile_fail,E0277
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let strings = pool.take(64).unwrap().typed::<String>();
/// ```
pub struct Typed<T: Plain> {
    buf: Buf,
    element: PhantomData<T>,
}

impl<T: Plain> Typed<T> {
    /// A buffer that [fits](super::slot::SlotHandle::fits) `T`.
    #[inline]
    pub(super) fn new(buf: Buf) -> Self {
        debug_assert!(buf.slot().fits::<T>(), "the caller has checked");
        Self { buf, element: PhantomData }
    }

    /// Takes the type away.
    #[inline]
    #[must_use]
    pub fn into_buf(self) -> Buf {
        self.buf
    }

    /// Cuts it after `count` elements; the rest is free to get another type.
    ///
    /// # Panics
    ///
    /// If it has fewer elements.
    #[inline]
    #[must_use]
    pub fn split_at(self, count: usize) -> (Self, Buf) {
        assert!(count <= self.len(), "split at element {count} of {}", self.len());
        let (head, rest) = self.buf.split_at(count * size_of::<T>());
        (Self::new(head), rest)
    }

    /// Ends the writing: from now on it can be cloned and read, also by posts
    /// for sending. When the last clone goes it returns to its pool.
    #[inline]
    #[must_use]
    pub fn share(self) -> Shared<T> {
        Shared::new(self.buf, None)
    }

    /// As [`share`](Self::share), but when the last clone goes `reclaim` gets
    /// the buffer. It runs on the thread that dropped the last clone. A thread that has a lock of
    /// links just then runs it when it has given the lock up, like a handler of active messages:
    /// what it calls there answers `InHandler` instead of waiting.
    #[must_use]
    pub fn share_with(self, reclaim: impl FnOnce(Buf) + Send + 'static) -> Shared<T> {
        Shared::new(self.buf, Some(Reclaim(Box::new(reclaim))))
    }

    /// Keeps the data for as long as one likes, without drying up the pool: if
    /// its class has fewer free buffers than its low-water mark, the data is
    /// copied to the heap and the buffer returned, now; else it stays.
    #[must_use]
    pub fn hold(self) -> Held<T> {
        Held::new(self)
    }

    /// The region it lies in.
    #[must_use]
    pub fn region(&self) -> &Region {
        self.buf.region()
    }

    /// Where in [its region](Self::region) it starts.
    #[must_use]
    pub fn offset_in_region(&self) -> usize {
        self.buf.offset_in_region()
    }

    pub(super) fn buf(&self) -> &Buf {
        &self.buf
    }
}

impl<T: Plain> Deref for Typed<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: `new` is given what fits `T`, and neither start nor length
        // changes while it has the type.
        unsafe { self.buf.slot().elements() }
    }
}

impl<T: Plain> DerefMut for Typed<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; and a `Buf` is the only handle to its bytes.
        unsafe { self.buf.slot_mut().elements_mut() }
    }
}

impl<T: Plain> AsRef<[T]> for Typed<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl From<Buf> for Typed<u8> {
    fn from(buf: Buf) -> Self {
        Self::new(buf)
    }
}

impl<T: Plain> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed")
            .field("element", &T::kind().name)
            .field("len", &self.len())
            .field("offset", &self.offset_in_region())
            .finish()
    }
}
