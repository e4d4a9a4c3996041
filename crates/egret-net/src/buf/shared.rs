//! A buffer that is only read, by any number of holders.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use super::buffer::Buf;
use super::class::Reclaim;
use super::plain::Plain;
use super::region::Region;
use super::slot::SlotHandle;
use super::typed::Typed;

/// A buffer that is not written any more: clone it, read it, post it for sending
/// any number of times at once.
///
/// When the last clone goes the buffer returns to its pool, or to the callback
/// given to [`Typed::share_with`]. A callback that panics does so out of the
/// drop of that last clone; the buffer is returned all the same.
///
/// ```
/// use std::sync::mpsc;
///
/// use egret_net::buf::Pool;
///
/// let pool = Pool::new(64, 1)?;
/// let (back, reclaimed) = mpsc::channel();
/// let mut data = pool.take_typed::<u16>(2)?;
/// data.copy_from_slice(&[7, 8]);
/// let shared = data.share_with(move |buf| back.send(buf).unwrap());
///
/// let reader = shared.clone();
/// assert_eq!(reader[..], [7, 8]);
/// drop(shared);
/// assert!(reclaimed.try_recv().is_err(), "one reader is left");
/// drop(reader);
/// assert_eq!(reclaimed.try_recv()?.len(), 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A shared buffer cannot be written:
///
/// ```compile_fail,E0594
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let mut shared = pool.take_typed::<u16>(2).unwrap().share();
/// shared[0] = 1;
/// ```
///
/// nor freed while borrowed from:
///
/// ```compile_fail,E0505
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let shared = pool.take_typed::<u16>(2).unwrap().share();
/// let first = &shared[0];
/// drop(shared);
/// assert_eq!(*first, 0);
/// ```
///
/// nor written through what it was made of:
///
/// ```compile_fail,E0382
/// # let pool = egret_net::buf::Pool::new(64, 1).unwrap();
/// let mut data = pool.take_typed::<u16>(2).unwrap();
/// let shared = data.share();
/// data[0] = 1;
/// ```
pub struct Shared<T: Plain> {
    owner: CloneCount,
    element: PhantomData<T>,
}

/// Where the clones are counted.
#[derive(Debug)]
enum CloneCount {
    /// The slot itself: this is all of it that is still out.
    Slot(SlotHandle),
    /// A count of its own: other parts of the slot are out, and have other
    /// owners.
    Part(Arc<SharedPart>),
}

#[derive(Debug)]
struct SharedPart {
    /// There until taken out.
    slot: Option<SlotHandle>,
    reclaim: Mutex<Option<Reclaim>>,
}

impl<T: Plain> Shared<T> {
    /// Shares a buffer that [fits](SlotHandle::fits) `T`.
    pub(super) fn new(buf: Buf, reclaim: Option<Reclaim>) -> Self {
        let slot = buf.into_slot();
        let owner = if slot.is_only() {
            if let Some(reclaim) = reclaim {
                slot.set_reclaim(reclaim);
            }
            CloneCount::Slot(slot)
        } else {
            let part = SharedPart { slot: Some(slot), reclaim: Mutex::new(reclaim) };
            CloneCount::Part(Arc::new(part))
        };
        Self { owner, element: PhantomData }
    }

    /// Makes it writable again, if this is the last clone. A reclaim callback is
    /// then dropped without being run: the caller has the buffer.
    ///
    /// # Errors
    ///
    /// Gives it back if other clones are left.
    pub fn try_unique(self) -> Result<Typed<T>, Self> {
        match self.owner.try_unique() {
            Ok(slot) => Ok(Typed::new(Buf::new(slot))),
            Err(owner) => Err(Self { owner, element: PhantomData }),
        }
    }

    /// The same data as bytes; a reclaim callback stays.
    #[must_use]
    pub fn erase(self) -> Shared<u8> {
        Shared { owner: self.owner, element: PhantomData }
    }

    /// The region it lies in.
    #[must_use]
    pub fn region(&self) -> &Region {
        self.owner.slot().region()
    }

    /// Where in [its region](Self::region) it starts.
    #[must_use]
    pub fn offset_in_region(&self) -> usize {
        self.owner.slot().offset_in_region()
    }
}

impl CloneCount {
    #[inline]
    fn slot(&self) -> &SlotHandle {
        match self {
            Self::Slot(slot) => slot,
            Self::Part(part) => part.slot.as_ref().expect("taken out only with the last owner"),
        }
    }

    fn try_unique(self) -> Result<SlotHandle, Self> {
        match self {
            Self::Slot(slot) if slot.is_only() => {
                drop(slot.unset_reclaim());
                Ok(slot)
            }
            Self::Slot(slot) => Err(Self::Slot(slot)),
            Self::Part(part) => match Arc::try_unwrap(part) {
                Ok(mut part) => Ok(part.slot.take().expect("taken out only with the last owner")),
                Err(part) => Err(Self::Part(part)),
            },
        }
    }
}

impl Drop for SharedPart {
    fn drop(&mut self) {
        let reclaim = self.reclaim.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(slot), Some(reclaim)) = (self.slot.take(), reclaim) {
            reclaim.run(Buf::new(slot));
        }
    }
}

impl<T: Plain> Clone for Shared<T> {
    fn clone(&self) -> Self {
        let owner = match &self.owner {
            // SAFETY: a `Shared` never writes, and becomes something that does
            // only as the last handle.
            CloneCount::Slot(slot) => CloneCount::Slot(unsafe { slot.another() }),
            CloneCount::Part(part) => CloneCount::Part(Arc::clone(part)),
        };
        Self { owner, element: PhantomData }
    }
}

impl<T: Plain> Deref for Shared<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: made of a `Typed<T>`, which fits `T`, or by `erase`, and
        // anything fits `u8`; neither start nor length changes while shared.
        unsafe { self.owner.slot().elements() }
    }
}

impl<T: Plain> AsRef<[T]> for Shared<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Plain> From<Typed<T>> for Shared<T> {
    fn from(typed: Typed<T>) -> Self {
        typed.share()
    }
}

impl<T: Plain> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("element", &T::kind().name)
            .field("len", &self.len())
            .field("offset", &self.offset_in_region())
            .finish()
    }
}
