//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

use super::keep_alive::DEAD;
use crate::fabric::handshake::HandshakeLimits;
#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;
use crate::vi::Posted;

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The length that a datagram states is not checked.
    LengthIgnored,
    /// A piece that comes twice counts twice.
    DoubleCounted,
    /// A message that is over may begin again.
    OverForgotten,
    /// Pieces of one number are taken for one message, whatever they say of it.
    LiesBelieved,
    /// The receive of a message that is given up is not given back.
    GivenUpKept,
    /// The datagrams of a connection may come from any address.
    SourceIgnored,
    /// A handshake is accepted with any token.
    TokenIgnored,
    /// Any number of handshakes is under way.
    CrowdHeard,
    /// A caller shows its opening before it has a token.
    OpeningShown,
    /// A caller processes answers to another attempt.
    AnswersMixed,
    /// A peer that is silent is never taken for dead.
    SilenceIgnored,
    /// Messages of a group are accepted without a signature.
    SignatureIgnored,
    /// A sealed connection accepts plain datagrams.
    PlainBelieved,
    /// A datagram of a window that has found no room is sealed again.
    SealedTwice,
    /// No fault: the path carries 1,400 bytes.
    NarrowPath,
}

// What follows returns the value that it is given, or does what it is named for, unless a fault is
// planted.

/// Bytes of a piece that is the rest of a datagram.
#[inline]
pub(super) fn bytes_due(due: Option<usize>, rest: usize) -> Option<usize> {
    if planted(Fault::LengthIgnored) { Some(rest) } else { due }
}

/// Whether a piece has come before.
#[inline]
pub(super) fn has_come(has_come: bool) -> bool {
    has_come && !planted(Fault::DoubleCounted)
}

/// Gives the receive of a message back that is given up.
pub(super) fn put_back(posted: Posted, put_back: impl FnOnce(Posted)) {
    if planted(Fault::GivenUpKept) { std::mem::forget(posted) } else { put_back(posted) }
}

/// How many handshakes may be under way.
pub(super) fn limits(limits: HandshakeLimits) -> HandshakeLimits {
    let boundless = HandshakeLimits { all: usize::MAX, of_one: usize::MAX };
    if planted(Fault::CrowdHeard) { boundless } else { limits }
}

/// Bytes that a path carries.
pub(super) fn room(room: usize) -> usize {
    if planted(Fault::NarrowPath) { 1400 } else { room }
}

/// Ticks for which nothing was heard of a peer.
pub(super) fn quiet(ticks: u32) -> u32 {
    if planted(Fault::SilenceIgnored) { ticks.min(DEAD - 1) } else { ticks }
}
