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
    Twice,
    /// A message is delivered when it comes, not when it is its turn.
    Overtaken,
    /// Nobody acknowledges what has come before.
    QuietDoubles,
    /// What was not acknowledged in time is not sent again.
    Unrepeated,
    /// What is not acknowledged is repeated for ever.
    NeverSilent,
    /// After silence everything is repeated at once.
    Storm,
    /// An acknowledgement is acknowledged.
    AckOfAck,
    /// An acknowledgement of anything is believed.
    AnyAck,
    /// A message that waits for its place is taken for one that never came.
    HeldUntold,
    /// A message that came early and then waits for its place was acknowledged by a liar.
    HeldTakenBack,
    /// Nobody looks where a piece is in the window.
    Boundless,
    /// A piece has the bytes it has.
    AnySize,
}
