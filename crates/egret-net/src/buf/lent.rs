//! A buffer of ours that another process has.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use thiserror::Error;

use super::buffer::Buf;
use super::plan::CLASSES_MAX;
use super::region::Region;
use super::slot::SlotHandle;

/// A slot of a cooperating pool whose bytes are a peer's for now.
///
/// A lent buffer counts as out, so the pool lives, and nothing reads or writes through it.
/// One that is dropped stays out for ever: the part that knows that the peer has let go
/// calls [`home`](Self::home) or [`back`](Self::back).
#[must_use = "a slot that is not called back stays out for ever"]
pub(crate) struct LentBuf(ManuallyDrop<SlotHandle>);

/// Why a buffer was not handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum LendError {
    /// Its memory is not for cooperating peers.
    #[error("the buffer's pool was not built `cooperating`")]
    Private,
    /// A part of a slot, or others have parts of it.
    #[error("only a whole buffer changes hands, and this is a part of one")]
    Part,
    /// The buffer is lent to this process.
    #[error("the buffer belongs to another process, and only that gets it without a copy")]
    Visiting,
    /// The peer could not be told how the pool is cut.
    #[error("the buffer's pool has more than {CLASSES_MAX} classes")]
    Classes,
    /// As many are lent as can be.
    #[error("the peer has {most} buffers already: it must drop some, or hand them back")]
    TooMany {
        /// How many can be.
        most: usize,
    },
    /// The peer's process is gone, or has left.
    #[error("the peer is gone")]
    Gone,
}

impl Buf {
    /// Makes it a peer's, to which the caller tells its place. Nobody is told
    /// here, so it can be called [back](LentBuf::back) until then.
    pub(crate) fn lend(self) -> Result<LentBuf, (Self, LendError)> {
        match self.why_not() {
            Some(why) => Err((self, why)),
            None => Ok(LentBuf(ManuallyDrop::new(self.into_slot()))),
        }
    }

    fn why_not(&self) -> Option<LendError> {
        let (slot, core) = (self.slot(), self.slot().core());
        if core.is_visit() {
            Some(LendError::Visiting)
        } else if core.region.cooperating_fd().is_none() {
            Some(LendError::Private)
        } else if !slot.is_whole() {
            Some(LendError::Part)
        } else if core.classes.len() > CLASSES_MAX {
            Some(LendError::Classes)
        } else {
            None
        }
    }
}

impl LentBuf {
    /// Its class, and its number there.
    pub(crate) fn place(&self) -> (u16, u32) {
        (self.0.class().index(), self.0.number)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len
    }

    /// The most bytes it can come back with.
    pub(crate) fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// Its first byte, valid for [`capacity`](Self::capacity) bytes and the whole
    /// words around them while this lives. The peer may write them.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.0.start
    }

    pub(crate) fn region(&self) -> &Region {
        self.0.region()
    }

    /// The peer has let go of it: it is free.
    pub(crate) fn home(self) {
        drop(self.into_slot());
    }

    /// The peer has handed it back, with `len` bytes in use.
    ///
    /// # Panics
    ///
    /// If that is more than its [capacity](Self::capacity).
    pub(crate) fn back(self, len: usize) -> Buf {
        assert!(len <= self.capacity(), "{len} of {} bytes came back", self.capacity());
        let mut slot = self.into_slot();
        slot.len = len;
        Buf::new(slot)
    }

    fn into_slot(self) -> SlotHandle {
        ManuallyDrop::into_inner(self.0)
    }
}

impl fmt::Debug for LentBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, number) = self.place();
        f.debug_struct("Lent").field("class", &class).field("number", &number).finish()
    }
}
