//! How a peer can violate the protocol of a window.

use thiserror::Error;

use super::lane::WindowLane;

/// How a peer broke the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(in crate::fabric::window) enum WindowViolation {
    /// The checksum of the datagram is right and its bytes are malformed.
    #[error("a malformed datagram: {0}")]
    Malformed(&'static str),
    /// An acknowledgement of what was never sent.
    #[error("{lane:?}: acknowledged piece {number}, but only {sent} were sent")]
    NeverSent {
        /// Of this lane.
        lane: WindowLane,
        /// What it acknowledged.
        number: u64,
        /// What had been sent.
        sent: u64,
    },
    /// What it had acknowledged it misses again.
    #[error("{lane:?}: misses piece {number}, which it had acknowledged")]
    TakenBack {
        /// Of this lane.
        lane: WindowLane,
        /// What it misses.
        number: u64,
    },
    /// A piece that the window does not allow yet, or of before the beginning.
    #[error("{lane:?}: piece {number} is outside of the window")]
    Outside {
        /// Of this lane.
        lane: WindowLane,
        /// Its number as it travelled.
        number: u32,
    },
    /// More bytes wait for a missing piece than may be under way.
    #[error("{lane:?}: more than {max} bytes are under way")]
    TooMuch {
        /// Of this lane.
        lane: WindowLane,
        /// As agreed.
        max: u64,
    },
    /// A piece does not have the bytes that belong at its place.
    #[error("{lane:?}: a piece of {len} bytes where {due} belong")]
    Size {
        /// Of this lane.
        lane: WindowLane,
        /// What it has.
        len: u64,
        /// What it should have.
        due: u64,
    },
    /// A message begins in the middle of another.
    #[error("{0:?}: a message begins in the middle of another")]
    Interrupts(WindowLane),
    /// A message has no beginning.
    #[error("{0:?}: a message without a beginning")]
    Headless(WindowLane),
    /// The receiver has no memory for such a message.
    #[cfg(any(test, feature = "fuzzing"))]
    #[error("{lane:?}: a message of {len} bytes: {why}")]
    Refused {
        /// Of this lane.
        lane: WindowLane,
        /// Its length.
        len: u64,
        /// What the receiver says.
        why: &'static str,
    },
}
