//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Eager messages go behind posted ones.
    EagerBehind,
    /// A message begins whether the peer has a receive for it or not.
    ReceivesIgnored,
    /// A connection that is closed leaves at once, without its last messages.
    LeavesAtOnce,
    /// Who leaves does not hear that the peer leaves as well.
    DeafToGoodbye,
    /// Who leaves waits as long as the peer likes.
    LingersOn,
    /// Any number of connections is waited for.
    LingerAll,
    /// All answers to writes are with the window.
    AnswersUnbounded,
    /// Any number of eager messages is kept for a peer.
    EagerUnbounded,
    /// A last word says no more of how far its sender is than was said before.
    GoodbyeUncounted,
    /// The answers to writes are not given any more when a connection ends.
    AnswersDropped,
    /// What was acknowledged right before the end does not come back.
    AcknowledgedLost,
    /// What a peer says that it has taken is believed.
    CountsBelieved,
    /// The peer is not told how far this side is.
    CountsUntold,
    /// A nic that is shut spares the network.
    ShutsCongested,
    /// What stands behind a send that was taken back waits for something else to happen.
    CancelUnmarked,
    /// A sleeper is not told of a moment that comes sooner.
    SleepsOn,
}
