//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;

/// One way to get the handshake wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The secret does not go into the handshake.
    SecretForgotten,
    /// The key of one handshake is that of all.
    EphemeralRepeated,
    /// What was said before the handshake, and on which fabric, does not go into it.
    PrologueForgotten,
    /// Whoever answers is taken for whom was called.
    KeyUnchecked,
    /// A secret that can be guessed is proven to anybody.
    GuessesAllowed,
    /// Whoever comes is worth a handshake.
    SignUnchecked,
    /// The two sides talk in the clear though only one of them would.
    DowngradeAllowed,
    /// A step of any version is understood.
    VersionIgnored,
    /// A step may be as long as it says.
    LengthUnchecked,
    /// Bytes behind the end of a step are taken too.
    EndOverrun,
    /// Refusals are believed without a proof.
    RefusalBelieved,
    /// An opening is worth a handshake as often as it comes.
    OpeningsForgotten,
    /// One key seals both directions of a connection.
    DirectionsAlike,
    /// Who has said nothing keeps its place as long as who has opened.
    SilentSpared,
}
