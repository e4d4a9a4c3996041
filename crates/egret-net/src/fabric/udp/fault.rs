//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// What a datagram says of its own length is believed.
    LengthIgnored,
    /// A piece that comes twice counts twice.
    DoubleCounted,
    /// A message that is over may begin again.
    OverForgotten,
    /// Pieces of one number are taken for one message, whatever they say of it.
    LiesBelieved,
    /// The receive of a message that is given up is not given back.
    GivenUpKept,
    /// Whoever knows a connection's number may use it.
    SourceIgnored,
    /// A handshake is heard whatever token it shows.
    TokenIgnored,
    /// A handshake is begun with whoever comes, also if there is no place for it.
    CrowdHeard,
    /// A caller shows its opening before it has a token.
    OpeningShown,
    /// A caller takes what is said to another for what is said to itself.
    AnswersMixed,
    /// A peer that is silent is never taken for dead.
    SilenceIgnored,
    /// Any member's message is heard, signed or not.
    SignatureIgnored,
    /// What is not sealed is believed though the connection is sealed.
    PlainBelieved,
    /// A datagram of a window that has found no room is sealed again.
    SealedTwice,
    /// No fault: the path carries 1,400 bytes.
    NarrowPath,
}

// The faults of hot functions, by name, so that those functions read as the protocol.

#[inline]
pub(super) fn pieces_are_unchecked() -> bool {
    planted(Fault::LiesBelieved)
}

#[inline]
pub(super) fn pieces_count_twice() -> bool {
    planted(Fault::DoubleCounted)
}

#[inline]
pub(super) fn given_up_receives_are_kept() -> bool {
    planted(Fault::GivenUpKept)
}

#[inline]
pub(super) fn sources_are_unchecked() -> bool {
    planted(Fault::SourceIgnored)
}
