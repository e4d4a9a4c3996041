//! Faults that tests plant here; see [`crate::fault`].

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
    /// A number has come although its tag was wrong.
    MarkedUnproven,
    /// The key before is not kept.
    KeyDropped,
}
