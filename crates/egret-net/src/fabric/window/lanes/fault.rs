//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fabric::window) enum Fault {
    /// Checksums are not looked at.
    Unchecked,
    /// A datagram has the number of the one before it.
    NumberAgain,
    /// A message that comes twice is delivered twice.
    #[cfg(any(test, feature = "fuzzing"))]
    Twice,
    /// A message is delivered when it comes, not when it is its turn.
    #[cfg(any(test, feature = "fuzzing"))]
    Overtaken,
    /// A piece that comes again is not acknowledged.
    QuietDoubles,
    /// What was not acknowledged in time is not sent again.
    Unrepeated,
    /// What is not acknowledged is repeated for ever.
    NeverSilent,
    /// After silence everything is repeated at once.
    Storm,
    /// An acknowledgement is acknowledged.
    #[cfg(any(test, feature = "fuzzing"))]
    AckOfAck,
    /// An acknowledgement of anything is believed.
    AnyAck,
    /// The peer is not told that a message waits for its turn.
    HeldUntold,
    /// A piece that came early cannot be missing again because its message has to wait.
    HeldTakenBack,
    /// Pieces may lie outside of the window, and early ones take any memory.
    Boundless,
    /// A piece may have any number of bytes.
    AnySize,
}

/// How many pieces may be under way after silence: so many, unless the fault is planted.
pub(super) fn window_after_silence(window: u32, max: u32) -> u32 {
    if planted(Fault::Storm) { max } else { window }
}
