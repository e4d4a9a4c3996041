//! Memory lent to the fabric by a call that blocks until it is given back.
//!
//! A [`LentSlice`] is a pointer into a slice that some blocking call borrowed. The
//! rule that makes it sound, in the words of scoped threads: the call does not
//! return, and does not unwind, before the `LentSlice` is *dropped*. That the fabric
//! reported a completion is not enough, for a completion could name another
//! descriptor; the drop of the only object holding the pointer is.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::buf::Region;

/// Borrowed memory without its lifetime. The only handle to it; not clonable.
pub(super) struct LentSlice {
    start: NonNull<u8>,
    len: usize,
    writable: bool,
    /// The shareable region it lies in, and where, if it is worth to know.
    place: Option<(Region, usize)>,
    /// Held as long as this exists; [`Lender`] watches the count.
    _lease: Arc<()>,
}

// SAFETY: A `LentSlice` stands for a `&[u8]` or `&mut [u8]`, both of which are `Send`.
unsafe impl Send for LentSlice {}
// SAFETY: Through `&LentSlice` only `&[u8]` is reached, which is `Sync`.
unsafe impl Sync for LentSlice {}

impl LentSlice {
    /// The shareable region it lies in, and where, if it is large.
    #[inline]
    pub(super) fn place(&self) -> Option<(&Region, usize)> {
        self.place.as_ref().map(|(region, at)| (region, *at))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `Lender` keeps the borrow alive until this object is dropped,
        // and a lender of writable memory has given up every other access.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(super) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        if !self.writable {
            return None;
        }
        // SAFETY: As in `bytes`, and `writable` says it was made of a `&mut [u8]`.
        Some(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) })
    }
}

impl fmt::Debug for LentSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes lent", self.len)
    }
}

/// The lending side: holds the borrow, and does not let go before it is back.
///
/// Dropping it while the memory is still out aborts the process: there is no
/// other way left to keep the promise. The blocking calls wait first.
pub(super) struct Lender<'a> {
    lease: Arc<()>,
    _borrow: PhantomData<&'a mut [u8]>,
}

impl<'a> Lender<'a> {
    /// Lends memory to be read.
    pub(super) fn read(bytes: &'a [u8]) -> (Self, LentSlice) {
        let (lender, lent) = Self::lend(NonNull::from(bytes).cast(), bytes.len(), false);
        (lender, LentSlice { place: place(bytes), ..lent })
    }

    /// Lends several pieces of memory to be read, which all must come back.
    pub(super) fn read_all(pieces: &'a [&'a [u8]]) -> (Self, Vec<LentSlice>) {
        let lease = Arc::new(());
        let lent = pieces.iter().map(|piece| LentSlice {
            start: NonNull::from(*piece).cast(),
            len: piece.len(),
            writable: false,
            place: place(piece),
            _lease: Arc::clone(&lease),
        });
        let lent = lent.collect();
        (Self { lease, _borrow: PhantomData }, lent)
    }

    /// Lends memory to be written.
    pub(super) fn write(bytes: &'a mut [u8]) -> (Self, LentSlice) {
        let len = bytes.len();
        Self::lend(NonNull::from(bytes).cast(), len, true)
    }

    fn lend(start: NonNull<u8>, len: usize, writable: bool) -> (Self, LentSlice) {
        let lease = Arc::new(());
        let lent = LentSlice { start, len, writable, place: None, _lease: Arc::clone(&lease) };
        (Self { lease, _borrow: PhantomData }, lent)
    }

    /// Whether the memory is back.
    pub(super) fn is_returned(&mut self) -> bool {
        Arc::get_mut(&mut self.lease).is_some()
    }
}

impl Drop for Lender<'_> {
    fn drop(&mut self) {
        if !self.is_returned() {
            std::process::abort();
        }
    }
}

/// Where memory to be read lies, if a fabric would not rather copy it.
fn place(bytes: &[u8]) -> Option<(Region, usize)> {
    if bytes.len() < PLACED_LEAST { None } else { Region::holding(bytes) }
}

/// From so many bytes on it is looked whether memory that is lent lies in a region that can be
/// shared: less is copied faster than it is found.
pub(crate) const PLACED_LEAST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_back_when_the_lent_is_dropped() {
        let mut memory = [1, 2, 3];
        let (mut lender, mut lent) = Lender::write(&mut memory);
        assert!(!lender.is_returned());
        lent.bytes_mut().unwrap()[1] = 9;
        assert_eq!(lent.bytes(), [1, 9, 3]);
        drop(lent);
        assert!(lender.is_returned());
        drop(lender);
        assert_eq!(memory, [1, 9, 3]);
    }

    #[test]
    fn pieces_are_back_when_the_last_is_dropped() {
        let (mut lender, mut lent) = Lender::read_all(&[b"abc", b"", b"de"]);
        assert_eq!(lent.iter().map(|lent| lent.bytes().len()).collect::<Vec<_>>(), [3, 0, 2]);
        while let Some(last) = lent.pop() {
            assert!(!lender.is_returned());
            drop(last);
        }
        assert!(lender.is_returned());
    }

    #[test]
    fn memory_of_a_shareable_pool_is_known_as_such() {
        let place = |bytes: &[u8]| {
            let (_lender, lent) = Lender::read(bytes);
            lent.place().map(|(region, at)| (region.id(), at))
        };
        let shared = |sharing: bool| {
            let pool = crate::buf::Pool::builder().class(3 * PLACED_LEAST, 2);
            let pool = if sharing { pool.shareable() } else { pool };
            pool.build().unwrap()
        };
        let (pool, private) = (shared(true), shared(false));
        let buf = pool.take(3 * PLACED_LEAST).unwrap();
        let (region, at) = (buf.region().id(), buf.offset_in_region());
        assert_eq!(place(buf.bytes()), Some((region, at)));
        assert_eq!(place(&buf.bytes()[100..]), Some((region, at + 100)));
        assert_eq!(place(&buf.bytes()[..PLACED_LEAST - 1]), None, "too little of it");
        assert_eq!(place(private.take(2 * PLACED_LEAST).unwrap().bytes()), None);
        assert_eq!(place(&vec![0; 2 * PLACED_LEAST]), None);
        // What is mapped where it was is another's.
        drop((buf, pool));
        let pools: Vec<_> = (0..8).map(|_| shared(false)).collect();
        let lies = |pool: &crate::buf::Pool| place(pool.take(2 * PLACED_LEAST).unwrap().bytes());
        assert!(pools.iter().all(|pool| lies(pool).is_none()));
    }

    #[test]
    fn memory_lent_to_read_is_not_written() {
        let (lender, mut lent) = Lender::read(b"abc");
        assert!(lent.bytes_mut().is_none());
        drop(lent);
        drop(lender);
    }
}
