//! Records of a stream: both ends count, and the number is not sent.

use super::SealError;
use super::cipher::Tag;
use super::epoch::{self, KeyEpoch};
use super::fault::{self, Fault, planted};
use super::key::SealKey;

/// Seals one record after the other.
#[derive(Debug)]
pub(in crate::fabric) struct Sealer(RecordCounter);

/// Opens them in the same order.
#[derive(Debug)]
pub(in crate::fabric) struct Opener(RecordCounter);

#[derive(Debug)]
struct RecordCounter {
    epoch: KeyEpoch,
    /// The number of the next record.
    next: u64,
}

impl Sealer {
    pub(in crate::fabric) fn new(key: SealKey) -> Self {
        Self(RecordCounter::new(key))
    }

    /// Seals the next record in place; the tag shows also that it goes with what is `beside` it.
    #[inline]
    pub(in crate::fabric) fn seal(
        &mut self,
        beside: &[u8],
        bytes: &mut [u8],
    ) -> Result<Tag, SealError> {
        let number = self.0.take()?;
        Ok(self.0.epoch.cipher.seal(number, beside, bytes))
    }
}

impl Opener {
    pub(in crate::fabric) fn new(key: SealKey) -> Self {
        Self(RecordCounter::new(key))
    }

    /// Opens the next record in place. One that does not open is the end of the stream: none
    /// behind it does.
    #[inline]
    pub(in crate::fabric) fn open(
        &mut self,
        beside: &[u8],
        bytes: &mut [u8],
        tag: &Tag,
    ) -> Result<(), SealError> {
        let number = self.0.take()?;
        self.0.epoch.cipher.open(number, beside, bytes, tag)
    }
}

impl RecordCounter {
    fn new(key: SealKey) -> Self {
        Self { epoch: KeyEpoch::first(key), next: 0 }
    }

    #[inline]
    fn is_of_next_key(&self, number: u64) -> bool {
        epoch::of(number) != self.epoch.number && !planted(Fault::KeyKept)
    }

    /// The number of the next record, whose key is in place then.
    #[inline]
    fn take(&mut self) -> Result<u64, SealError> {
        let number = self.next;
        if number == u64::MAX {
            return Err(SealError::Worn);
        }
        if self.is_of_next_key(number) {
            self.epoch = self.epoch.next();
        }
        self.next += fault::advance(1);
        Ok(number)
    }
}

#[cfg(test)]
impl Sealer {
    /// As if it had sealed all records before this one, whose key it has.
    pub(in crate::fabric) fn skip_to(&mut self, number: u64) {
        self.0.skip_to(number);
    }
}

#[cfg(test)]
impl Opener {
    pub(super) fn skip_to(&mut self, number: u64) {
        self.0.skip_to(number);
    }
}

#[cfg(test)]
impl RecordCounter {
    fn skip_to(&mut self, number: u64) {
        self.next = number;
        // Not all of them: that is more than a lifetime.
        self.epoch.number = epoch::of(number);
    }
}
