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
    /// A number has come although its tag was wrong.
    MarkedUnproven,
    /// The key before is not kept.
    KeyDropped,
}

// The faults of hot functions, by name, so that those functions read as the protocol.

#[inline]
pub(super) fn repeats_are_opened() -> bool {
    planted(Fault::RepeatTaken)
}

#[inline]
pub(super) fn unproven_numbers_are_marked() -> bool {
    planted(Fault::MarkedUnproven)
}

#[inline]
pub(super) fn previous_key_is_dropped() -> bool {
    planted(Fault::KeyDropped)
}
