//! Memory lent to the fabric by a call that blocks until it is given back.
//!
//! A [`Lent`] is a pointer into a slice that some blocking call borrowed. The
//! rule that makes it sound, in the words of scoped threads: the call does not
//! return, and does not unwind, before the `Lent` is *dropped*. That the fabric
//! reported a completion is not enough, for a completion could name another
//! descriptor; the drop of the only object holding the pointer is.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

/// Borrowed memory without its lifetime. The only handle to it; not clonable.
pub(super) struct Lent {
    start: NonNull<u8>,
    len: usize,
    writable: bool,
    /// Held as long as this exists; [`Lender`] watches the count.
    _lease: Arc<()>,
}

// SAFETY: A `Lent` stands for a `&[u8]` or `&mut [u8]`, both of which are `Send`.
unsafe impl Send for Lent {}
// SAFETY: Through `&Lent` only `&[u8]` is reached, which is `Sync`.
unsafe impl Sync for Lent {}

impl Lent {
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `Lender` keeps the borrow alive until this object is dropped,
        // and whoever lent it writable has given up every other access.
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

impl fmt::Debug for Lent {
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
    pub(super) fn read(bytes: &'a [u8]) -> (Self, Lent) {
        Self::lend(NonNull::from(bytes).cast(), bytes.len(), false)
    }

    /// Lends several pieces of memory to be read, which all must come back.
    pub(super) fn read_all(pieces: &'a [&'a [u8]]) -> (Self, Vec<Lent>) {
        let lease = Arc::new(());
        let lent = pieces.iter().map(|piece| Lent {
            start: NonNull::from(*piece).cast(),
            len: piece.len(),
            writable: false,
            _lease: Arc::clone(&lease),
        });
        let lent = lent.collect();
        (Self { lease, _borrow: PhantomData }, lent)
    }

    /// Lends memory to be written.
    pub(super) fn write(bytes: &'a mut [u8]) -> (Self, Lent) {
        let len = bytes.len();
        Self::lend(NonNull::from(bytes).cast(), len, true)
    }

    fn lend(start: NonNull<u8>, len: usize, writable: bool) -> (Self, Lent) {
        let lease = Arc::new(());
        let lent = Lent { start, len, writable, _lease: Arc::clone(&lease) };
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
    fn memory_lent_to_read_is_not_written() {
        let (lender, mut lent) = Lender::read(b"abc");
        assert!(lent.bytes_mut().is_none());
        drop(lent);
        drop(lender);
    }
}
