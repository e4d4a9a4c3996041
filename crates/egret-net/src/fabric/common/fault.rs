//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

pub(super) use crate::fault::planted;

/// A fault in what the fabrics share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fabric) enum Fault {
    /// A lane holds as much as anybody sends.
    LaneBoundless,
    /// A peer may say that it has drained what was never sent.
    DrainedBelieved,
    /// What was drained is not told to a peer that waits for it.
    DrainedUntold,
    /// What is missing at the end of a packet reads as zeros.
    TruncatedAccepted,
}

// The faults of hot functions, by name, so that those functions read as the protocol.

#[inline]
pub(super) fn lanes_are_unbounded() -> bool {
    planted(Fault::LaneBoundless)
}

#[inline]
pub(super) fn acknowledgements_are_unchecked() -> bool {
    planted(Fault::DrainedBelieved)
}

#[inline]
pub(super) fn acknowledgements_are_kept_back() -> bool {
    planted(Fault::DrainedUntold)
}
