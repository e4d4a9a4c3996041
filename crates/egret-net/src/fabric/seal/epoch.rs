//! Which records one key seals.

use super::cipher::Cipher;
use super::key::SealKey;

/// A key and the records that it seals: those whose numbers begin with `number`.
#[derive(Debug)]
pub(super) struct KeyEpoch {
    pub number: u64,
    key: SealKey,
    pub cipher: Cipher,
}

/// Bits of a number that count the records of one key.
const RECORD_BITS: u32 = 20;
/// Records that one key seals; the [module](super) has the arithmetic.
#[cfg(test)]
pub(super) const RECORDS: u64 = 1 << RECORD_BITS;

impl KeyEpoch {
    pub(super) fn first(key: SealKey) -> Self {
        Self { number: 0, cipher: Cipher::new(&key), key }
    }

    /// Once in 2²⁰ records.
    #[cold]
    pub(super) fn next(&self) -> Self {
        let key = self.key.next(&self.cipher);
        Self { number: self.number + 1, cipher: Cipher::new(&key), key }
    }
}

/// The epoch of a record.
#[inline]
pub(super) const fn of(number: u64) -> u64 {
    number >> RECORD_BITS
}
