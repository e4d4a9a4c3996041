//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

use super::lanes::WindowLane;
use crate::fabric::common::counts::ReceiveCounts;
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
    /// A connection that closes does not process the goodbye of its peer.
    DeafToGoodbye,
    /// A connection that closes waits for its peer without a limit.
    LingersOn,
    /// A nic waits for any number of connections that close.
    LingerAll,
    /// The window holds any number of answers to writes.
    AnswersUnbounded,
    /// Any number of eager messages is kept for a peer.
    EagerUnbounded,
    /// A goodbye does not say how far its sender is.
    GoodbyeUncounted,
    /// The answers to writes are not given any more when a connection ends.
    AnswersDropped,
    /// Sends that were acknowledged right before the end do not complete.
    AcknowledgedLost,
    /// The counts of a peer are not checked.
    CountsBelieved,
    /// The peer is not told how far this side is.
    CountsUntold,
    /// A nic that goes down keeps to its congestion window.
    ShutsCongested,
    /// Sends behind a cancelled one wait for another event.
    CancelUnmarked,
    /// A sleeping thread is not woken for a deadline that is sooner than its own.
    SleepsOn,
}

// What follows returns the value that it is given, unless a fault is planted.

/// The lane by which eager messages go.
#[inline]
pub(super) fn lane_of_eager(lane: WindowLane) -> WindowLane {
    if planted(Fault::EagerBehind) { WindowLane::Posted } else { lane }
}

/// What a last word says of how far its sender is.
pub(super) fn counts_of_goodbye(counts: ReceiveCounts, told: ReceiveCounts) -> ReceiveCounts {
    if planted(Fault::GoodbyeUncounted) { told } else { counts }
}

/// The receives that the peer has.
#[inline]
pub(super) fn receives(said: u64) -> u64 {
    if planted(Fault::ReceivesIgnored) { u64::MAX } else { said }
}

/// Whether the answer to one more write may be with the window.
pub(super) fn may_answer(has_room: bool) -> bool {
    has_room || planted(Fault::AnswersUnbounded)
}

/// Whether others may go because of a send that was cancelled.
pub(super) fn lets_others_go(is_cancelled: bool) -> bool {
    is_cancelled && !planted(Fault::CancelUnmarked)
}

/// What the peer sends while its connection closes.
pub(super) fn last_pieces<T>(pieces: Option<T>) -> Option<T> {
    pieces.filter(|_| !planted(Fault::DeafToGoodbye))
}
