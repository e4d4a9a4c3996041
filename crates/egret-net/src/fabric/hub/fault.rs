//! Faults that tests plant here; see [`crate::fault`].

pub(super) use crate::fault::planted;

/// One way to get eager messages wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fabric) enum Fault {
    /// A lane holds as much as anybody sends.
    LaneBoundless,
    /// A peer may say that it has drained what was never sent.
    DrainedBelieved,
    /// What was drained is not told to a peer that waits for it.
    DrainedUntold,
}
