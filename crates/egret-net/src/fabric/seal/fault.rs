//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;

/// One way to get sealing wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fabric) enum Fault {
    /// Any tag passes.
    TagUnchecked,
    /// All records have the same number.
    NumberKept,
    /// One key seals all records.
    KeyKept,
    /// A datagram opens twice.
    RepeatTaken,
    /// A number counts as received before its tag is verified.
    MarkedUnproven,
    /// The previous key is not kept.
    KeyDropped,
}

/// How far the number of the next record is from that of this one.
#[inline]
pub(super) fn advance(step: u64) -> u64 {
    if planted(Fault::NumberKept) { 0 } else { step }
}
