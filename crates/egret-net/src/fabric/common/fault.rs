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

/// The window of a lane: so much, unless the fault is planted.
#[inline]
pub(super) fn window(units: u64) -> u64 {
    if planted(Fault::LaneBoundless) { u64::MAX } else { units }
}
