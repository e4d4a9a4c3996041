//! Faults that tests plant here; see [`crate::fault`].

#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;

/// One way to get the rendezvous wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Whoever knocks is let in.
    UserUnchecked,
    /// Descriptors beyond those declared stay open.
    SurplusLeaked,
    /// A greeting of any version is understood.
    VersionIgnored,
    /// The end of a connection looks like silence.
    EndIsSilence,
    /// A reset hides what the peer said before it left.
    ResetIsEnd,
    /// Whoever runs anything passes for one that runs the same.
    ExecutableUnchecked,
    /// Any proof passes.
    SecretUnchecked,
    /// A side's own yes passes for both sides'.
    VerdictIgnored,
    /// A proof does not say who shows it.
    RoleForgotten,
    /// Challenges are all the same.
    NonceRepeated,
    /// A proof is good between any two processes.
    ProcessesForgotten,
}
