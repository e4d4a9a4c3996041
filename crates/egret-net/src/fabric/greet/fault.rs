//! Faults that tests plant here; see [`crate::fault`].

#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;

/// One way to get the greeting wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Any proof passes.
    ProofUnchecked,
    /// A proof does not say who shows it.
    SideForgotten,
    /// Nonces are all the same.
    NonceRepeated,
    /// A proof does not cover what is said beside it.
    WordsUnproven,
    /// A step of any version is understood.
    VersionIgnored,
    /// A step may be as long as it says.
    LengthUnchecked,
    /// Bytes behind the end of a step are taken too.
    EndOverrun,
    /// Refusals are believed without a proof.
    RefusalBelieved,
}
