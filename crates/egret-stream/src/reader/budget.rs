//! The memory that values may take while they are read.

use std::any::type_name;

use super::Reader;
use crate::error::WireError;
use crate::fault::{Fault, planted};
use crate::wire::Stop;

/// The memory that owned values may take, however short the stream is, by default.
pub const MEMORY_BYTES: usize = 4 << 20;

/// How many bytes of memory owned values may take for each byte of the stream, besides
/// [`MEMORY_BYTES`].
pub const MEMORY_FACTOR: usize = 64;

/// What is left of the memory that a reader may take.
pub(super) struct MemoryBudget {
    left: usize,
    /// What there was, with what was added.
    total: usize,
    /// For how many bytes of the stream something was added; [`GIVEN`] if nothing ever is.
    counted: usize,
}

impl MemoryBudget {
    pub(super) const fn new() -> Self {
        Self { left: MEMORY_BYTES, total: MEMORY_BYTES, counted: 0 }
    }

    pub(super) const fn of(bytes: usize) -> Self {
        Self { left: bytes, total: bytes, counted: GIVEN }
    }

    fn lacks(&self, bytes: usize) -> bool {
        bytes > self.left && !planted(Fault::TrustedLength)
    }

    /// Adds what there is for a stream of that many bytes, as far as they are known.
    fn extend(&mut self, stream: usize) {
        let more = stream.saturating_sub(self.counted).saturating_mul(MEMORY_FACTOR);
        self.left = self.left.saturating_add(more);
        self.total = self.total.saturating_add(more);
        self.counted = self.counted.max(stream);
    }
}

const GIVEN: usize = usize::MAX;

impl Reader<'_> {
    /// Takes `bytes` from what the reader has for owned values, before memory is allocated for a
    /// `T` or for its parts.
    ///
    /// A copy of bytes as they lie in the stream need not be counted: all copies together are no
    /// longer than the stream.
    ///
    /// # Errors
    ///
    /// The reader knows why: [`WireError::Memory`].
    #[inline(always)]
    pub fn charge<T: ?Sized>(&mut self, bytes: usize) -> Result<(), Stop> {
        match self.budget.left.checked_sub(bytes) {
            Some(left) => self.budget.left = left,
            None => self.charge_stream(bytes, type_name::<T>)?,
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn charge_stream(&mut self, bytes: usize, name: fn() -> &'static str) -> Result<(), Stop> {
        let stream = self.rest.end + self.rare.as_ref().map_or(0, |rare| rare.left());
        self.budget.extend(stream);
        let (left, budget) = (self.budget.left, self.budget.total);
        if self.budget.lacks(bytes) {
            return Err(self.fail(WireError::Memory { name: name(), needed: bytes, left, budget }));
        }
        self.budget.left = left.saturating_sub(bytes);
        Ok(())
    }
}
