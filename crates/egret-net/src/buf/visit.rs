//! The pool of another process, as far as its buffers were handed to this one.
//!
//! The pool is cut as its home says and owns no slot: all are away until they
//! [arrive](PoolVisit::arrived), and then make a buffer like any other. The count of
//! a slot's handles says where it is, 0 for away. The last handle of one that
//! is here tells the [`VisitHost`]; nothing is ever taken from here.
//!
//! The memory stays mapped until the visit *and* the last buffer are gone. As in
//! a closed pool that is a balance: a buffer that is dropped takes one off, and
//! the end of the visit adds as many as came and were not given back.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use thiserror::Error;

use super::buffer::Buf;
use super::class::{PoolCore, VisitHost};
use super::counts::{arrive, depart};
use super::fault;
use super::lent::LendError;
use super::plan::PoolPlan;
use super::region::Region;
use crate::atomics::Word;

/// Another process's pool, seen from here.
#[derive(Debug)]
pub(crate) struct PoolVisit {
    core: NonNull<PoolCore>,
    /// How many came, less those that were given back.
    met: u64,
}

/// What the home of a slot said about it, and cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum VisitError {
    /// Its plan has no such slot.
    #[error("slot {number} of class {class} was handed over, which its pool does not have")]
    NoSlot { class: u16, number: u32 },
    /// Not a length of a buffer of this class.
    #[error("a buffer of {len} bytes was handed over in a slot of {bytes}")]
    TooLong { len: u64, bytes: usize },
    /// The slot was handed over before and is still here.
    #[error("slot {number} of class {class} was handed over twice")]
    Twice { class: u16, number: u32 },
}

impl PoolVisit {
    /// A visit to the pool that `plan` tells of.
    ///
    /// # Panics
    ///
    /// If the plan was [read](PoolPlan::read) for a region of another length.
    pub(crate) fn new(region: Region, plan: &PoolPlan, host: Box<dyn VisitHost>) -> Self {
        let checked = PoolPlan::read(&plan.words(), region.len()).map(drop);
        assert_eq!(checked, Ok(()), "the plan was checked for this region");
        Self { core: PoolCore::visit(region, plan.layouts(), host), met: 0 }
    }

    /// A slot was handed over to this process, with `len` bytes in use.
    pub(crate) fn arrived(&mut self, class: u16, number: u32, len: u64) -> Result<Buf, VisitError> {
        let no_slot = VisitError::NoSlot { class, number };
        let to = self.core().classes.get(usize::from(class)).ok_or(no_slot)?;
        if number as usize >= to.slots.list().count() {
            return Err(no_slot);
        }
        let fits = usize::try_from(len).ok().filter(|len| *len <= to.bytes);
        let fits = fits.ok_or(VisitError::TooLong { len, bytes: to.bytes })?;
        if !arrive(to.handles(number)) {
            return Err(VisitError::Twice { class, number });
        }
        let buf = Buf::new(to.slot(number, fits));
        self.met += 1;
        Ok(buf)
    }

    /// Where in its region a slot lies that is not here, if it has `len` bytes.
    pub(crate) fn away(&self, class: u16, number: u32, len: u64) -> Option<(&Region, usize)> {
        let core = self.core();
        let of = core.classes.get(usize::from(class))?;
        let is_there = (number as usize) < of.slots.list().count();
        let fits = usize::try_from(len).is_ok_and(|len| len <= of.bytes);
        if !is_there || !fits || is_here(of.handles(number)) {
            return None;
        }
        let layout = of.layout(&core.region);
        Some((&core.region, layout.offset + number as usize * layout.stride))
    }

    /// Whether the buffer is one that arrived here.
    pub(crate) fn has(&self, buf: &Buf) -> bool {
        buf.slot().class().core() == self.core
    }

    /// Ends a buffer that arrived here, without a word to the host: the caller
    /// tells its home. Its class, its number and its length.
    pub(crate) fn give_back(&mut self, buf: Buf) -> Result<(u16, u32, u64), (Buf, LendError)> {
        if !self.has(&buf) {
            return Err((buf, LendError::Visiting));
        }
        if !buf.slot().is_whole() {
            return Err((buf, LendError::Part));
        }
        let slot = ManuallyDrop::new(buf.into_slot());
        let (class, number, len) = (slot.class().index(), slot.number, slot.len as u64);
        self.met -= 1;
        depart(slot.class().handles(number), || ());
        Ok((class, number, len))
    }

    /// The classes and numbers of the slots that are here.
    pub(crate) fn here(&self) -> impl Iterator<Item = (u16, u32)> {
        let classes = self.core().classes.iter();
        classes.flat_map(|class| {
            let count = u32::try_from(class.slots.list().count()).expect("at most 2^24");
            let is_here = |number: &u32| is_here(class.handles(*number));
            (0..count).filter(is_here).map(|number| (class.index(), number))
        })
    }

    fn core(&self) -> &PoolCore {
        // SAFETY: freed only after it is left.
        unsafe { self.core.as_ref() }
    }
}

/// Whether a slot is here. If not, all that was done with it here is known.
pub(crate) fn is_here<W: Word>(handles: &W) -> bool {
    handles.load(std::sync::atomic::Ordering::Acquire) != 0
}

impl Drop for PoolVisit {
    fn drop(&mut self) {
        // SAFETY: made by `visit`, and this is the end of it. What came and was not given back
        // has told the host and the balance, or will.
        unsafe { PoolCore::leave(self.core, fault::met(self.met)) };
    }
}

// SAFETY: the core is `Sync`: everything in it that changes is atomic or locked.
unsafe impl Send for PoolVisit {}
// SAFETY: as for `Send`; what `&PoolVisit` can do is to read.
unsafe impl Sync for PoolVisit {}
