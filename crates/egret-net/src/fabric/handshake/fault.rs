//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

use std::time::Duration;

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
    /// The version, the flags and the fabric do not go into the handshake.
    PrologueForgotten,
    /// The key of the callee is not compared with the expected one.
    KeyUnchecked,
    /// A secret that can be guessed is proven to any callee.
    GuessesAllowed,
    /// The sign of a caller is not checked.
    SignUnchecked,
    /// The bytes go plain although only one side permits that.
    DowngradeAllowed,
    /// A step of any version is understood.
    VersionIgnored,
    /// A step may be as long as it says.
    LengthUnchecked,
    /// Bytes behind the end of a step are taken too.
    EndOverrun,
    /// A refusal needs no proof.
    RefusalBelieved,
    /// An opening is worth a handshake as often as it comes.
    OpeningsForgotten,
    /// One key seals both directions of a connection.
    DirectionsAlike,
    /// A silent caller keeps its place as long as one that has opened.
    SilentSpared,
}

// What follows returns the value that it is given first, unless a fault is planted.

/// The secret that goes into a handshake.
pub(super) fn secret<'a, T>(secret: &'a T, none: &'a T) -> &'a T {
    if planted(Fault::SecretForgotten) { none } else { secret }
}

/// What both sides know before a handshake.
pub(super) fn prologue(known: Vec<u8>) -> Vec<u8> {
    if planted(Fault::PrologueForgotten) { Vec::new() } else { known }
}

/// The key by which the callee seals.
pub(super) fn callees_key<T>(callees: T, callers: T) -> T {
    if planted(Fault::DirectionsAlike) { callers } else { callees }
}

/// Bytes of the input that belong to a step.
pub(super) fn consumed(consumed: usize, input: &[u8]) -> usize {
    if planted(Fault::EndOverrun) { input.len() } else { consumed }
}

/// How long one that is silent has its place.
pub(super) fn patience_with_the_silent(silent: Duration, opened: Duration) -> Duration {
    if planted(Fault::SilentSpared) { opened } else { silent }
}
