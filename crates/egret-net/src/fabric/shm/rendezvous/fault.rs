//! Faults that tests plant here; see [`crate::fault`].

#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;

/// One way to get the rendezvous wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Whoever knocks is let in.
    UserUnchecked,
    /// A user is known by its number alone.
    NamespaceUnchecked,
    /// Descriptors beyond those declared stay open.
    SurplusLeaked,
    /// The end of a connection looks like silence.
    EndIsSilence,
    /// A reset hides what the peer said before it left.
    ResetIsEnd,
    /// Whoever runs anything passes for one that runs the same.
    ExecutableUnchecked,
    /// A side's own yes passes for both sides'.
    VerdictIgnored,
    /// Somebody in between is taken for the other end.
    ProcessesForgotten,
    /// One process may take all places of those who greet.
    SharesForgotten,
    /// As many handshakes are begun at once as there are callers.
    HandshakesUnbounded,
    /// A handshake that comes to nothing does not count as begun.
    LostUncounted,
    /// Not of the rendezvous, but of the system: it watches nobody more.
    WatchRefused,
}
