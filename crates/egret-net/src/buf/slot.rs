//! One handle to a slot of a pool, or to a part of it: what every state of a
//! buffer is made of.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use super::buffer::Buf;
use super::class::{BufferClass, PoolCore, Reclaim};
use super::counts::{RECLAIMED, count_join, count_split, let_go};
use super::fault::{Fault, planted};
use super::plain::Plain;
use super::region::Region;
use crate::atomics::Word;

/// A counted handle to `capacity` bytes of a slot, of which `len` are in use.
///
/// Invariants, kept by the functions here and by `BufferClass::slot`: the bytes
/// belong to the slot; the slot's count includes this handle, so the pool
/// lives; no two handles overlap, except those made by [`another`](Self::another).
pub(super) struct SlotHandle {
    pub(super) class: NonNull<BufferClass>,
    pub(super) start: NonNull<u8>,
    pub(super) len: usize,
    pub(super) capacity: usize,
    pub(super) number: u32,
}

impl SlotHandle {
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes are this handle's, or shared among readers only,
        // and initialised since the kernel mapped them.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// # Safety
    ///
    /// No handle made by [`another`](Self::another) is left but this one.
    #[inline]
    pub(super) unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the bytes are this handle's alone, as the caller promised,
        // and initialised since the kernel mapped them.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// # Safety
    ///
    /// [`fits`](Self::fits) has said yes to `T`.
    #[inline]
    pub(super) unsafe fn elements<T: Plain>(&self) -> &[T] {
        let count = self.len / size_of::<T>();
        // SAFETY: as for `bytes`; any bytes are a `T`, and the start is aligned
        // and the length whole, as the caller promised.
        unsafe { slice::from_raw_parts(self.start.as_ptr().cast(), count) }
    }

    /// # Safety
    ///
    /// As for [`elements`](Self::elements) and for [`bytes_mut`](Self::bytes_mut).
    #[inline]
    pub(super) unsafe fn elements_mut<T: Plain>(&mut self) -> &mut [T] {
        let count = self.len / size_of::<T>();
        // SAFETY: as for `bytes_mut`; any bytes are a `T` and the other way
        // round, and start and length fit, as the caller promised.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr().cast(), count) }
    }

    /// Whether the bytes in use are whole, aligned elements of `T`.
    #[inline]
    pub(super) fn fits<T: Plain>(&self) -> bool {
        const { assert!(size_of::<T>() > 0, "an element of a buffer has at least one byte") };
        self.start.cast::<T>().is_aligned() && self.len.is_multiple_of(size_of::<T>())
    }

    #[inline]
    pub(super) fn class(&self) -> &BufferClass {
        // SAFETY: the pool lives while this handle counts.
        unsafe { self.class.as_ref() }
    }

    pub(super) fn core(&self) -> &PoolCore {
        // SAFETY: the pool lives while this handle counts.
        unsafe { self.class().core().as_ref() }
    }

    pub(super) fn region(&self) -> &Region {
        &self.core().region
    }

    pub(super) fn offset_in_region(&self) -> usize {
        self.start.as_ptr().addr() - self.region().base().as_ptr().addr()
    }

    /// Cuts the handle in two: the first `mid` bytes, and the rest.
    pub(super) fn split(self, mid: usize) -> (Self, Self) {
        assert!(mid <= self.len, "split at byte {mid} of {}", self.len);
        count_split(self.handles());
        let whole = ManuallyDrop::new(self);
        let head = Self { len: mid, capacity: mid, ..*whole };
        // SAFETY: `mid` is at most the length, so the start stays in the slot.
        let start = unsafe { whole.start.add(mid) };
        let (len, capacity) = (whole.len - mid, whole.capacity - mid);
        (head, Self { start, len, capacity, ..*whole })
    }

    /// Undoes [`split`](Self::split), if `self` is full and `rest` follows it.
    pub(super) fn join(mut self, rest: Self) -> Result<Self, (Self, Self)> {
        let follows = self.start.as_ptr().wrapping_add(self.capacity) == rest.start.as_ptr();
        let same = self.class == rest.class && self.number == rest.number;
        if !(same && follows && self.len == self.capacity) {
            return Err((self, rest));
        }
        self.len += rest.len;
        self.capacity += rest.capacity;
        let rest = ManuallyDrop::new(rest);
        count_join(rest.handles());
        Ok(self)
    }

    /// Another handle to the same bytes.
    ///
    /// # Safety
    ///
    /// Nothing is written through either while both live.
    pub(super) unsafe fn another(&self) -> Self {
        self.handles().fetch_add(1, Relaxed);
        ManuallyDrop::into_inner(self.same())
    }

    /// Whether no other handle to the slot is left. If so, none can appear.
    pub(super) fn is_only(&self) -> bool {
        self.handles().load(Acquire) & !RECLAIMED == 1
    }

    /// Whether it is all of its slot, and no other handle has a part.
    pub(super) fn is_whole(&self) -> bool {
        (self.is_only() && self.capacity == self.class().bytes) || planted(Fault::LendParts)
    }

    /// Leaves `reclaim` for the last handle to run. Only for the only handle.
    pub(super) fn set_reclaim(&self, reclaim: Reclaim) {
        debug_assert!(self.is_only(), "the callback is the slot's, not a part's");
        self.class().swap_reclaim(self.number, Some(reclaim));
        self.handles().store(1 | RECLAIMED, Relaxed);
    }

    /// Takes a callback back unrun. Only for the only handle.
    pub(super) fn unset_reclaim(&self) -> Option<Reclaim> {
        debug_assert!(self.is_only(), "others may rely on the callback");
        self.handles().store(1, Relaxed);
        self.class().swap_reclaim(self.number, None)
    }

    #[inline]
    fn handles(&self) -> &impl Word {
        self.class().handles(self.number)
    }

    /// The same handle once more; the caller sees to the count.
    fn same(&self) -> ManuallyDrop<Self> {
        let Self { class, start, len, capacity, number } = *self;
        ManuallyDrop::new(Self { class, start, len, capacity, number })
    }

    #[cold]
    fn reclaim(&mut self) {
        let reclaim = self.class().swap_reclaim(self.number, None);
        let buf = Buf::new(ManuallyDrop::into_inner(self.same()));
        // By now the slot is in the state of any exclusive buffer, so a
        // callback that panics drops the buffer like any other.
        if let Some(reclaim) = reclaim {
            reclaim.run(buf);
        }
    }
}

impl Drop for SlotHandle {
    #[inline]
    fn drop(&mut self) {
        match let_go(self.handles()) {
            None => {}
            // SAFETY: the last handle, and it ends here.
            Some(0) => unsafe { BufferClass::give(self.class, self.number) },
            Some(_) => self.reclaim(),
        }
    }
}

// SAFETY: a handle is its bytes' owner, or one of several readers; the bytes
// are plain and the count is atomic, so it may be used and let go anywhere.
unsafe impl Send for SlotHandle {}
// SAFETY: through `&SlotHandle` the bytes are only read, and the count is atomic.
unsafe impl Sync for SlotHandle {}

impl fmt::Debug for SlotHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot")
            .field("len", &self.len)
            .field("capacity", &self.capacity)
            .field("offset", &self.offset_in_region())
            .finish()
    }
}
