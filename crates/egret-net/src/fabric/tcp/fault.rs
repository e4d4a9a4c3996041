//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

use super::recv::PayloadTarget;
#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;
use crate::vi::ViError;

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A head that comes in two parts is read from its second one.
    HeadForgotten,
    /// What the kernel did not take of a batch is not sent any more.
    RestForgotten,
    /// A peer may send more bytes than it announced.
    LengthIgnored,
    /// A peer may send messages that no receive is there for.
    ReceivesIgnored,
    /// A peer may acknowledge frames that were never sent.
    CountsBelieved,
    /// A socket is closed while the peer still sends.
    NoLinger,
    /// A handshake has no deadline.
    LorisAwaited,
    /// A turn begins any number of handshakes.
    HandshakesUnbounded,
    /// A handshake that fails does not count as begun.
    LostUncounted,
    /// A caller that has sent something which this turn does not read gives way like a silent one.
    UnheardDisplaced,
    /// All chunks of a transfer go before anything else does.
    ChunksInARow,
    /// Chunks of which the kernel took nothing go before anything else does.
    ChunksKept,
    /// Chunks of which the kernel took nothing count as written.
    CutCounted,
    /// The nic is not told of a message that waits to leave together with others.
    SentUnmarked,
    /// Eager messages that come while a message waits for a receive wait, too.
    EagerHeld,
    /// Bytes of a read's answer count for the message that began last.
    AnswerMisplaced,
    /// What the kernel did not take of sealed records is not sent any more.
    UnsentForgotten,
    /// A stream is shut with sealed records that the kernel has not taken.
    UnsentShut,
    /// Records that have come with others wait until the socket has something to read.
    ReadyForgotten,
    /// A record has the length that was expected of it.
    GuessBelieved,
    /// The end of a stream is taken for a goodbye.
    EndBelieved,
}

// What follows returns the value that it is given, unless a fault is planted.

/// How much a handshake that has just begun counts: one, whatever it comes to.
pub(super) fn begun<T, E>(heard: &Result<T, E>) -> usize {
    let is_counted = heard.is_ok() || !planted(Fault::LostUncounted);
    usize::from(is_counted && !planted(Fault::HandshakesUnbounded))
}

/// What a connection ends with whose stream has ended.
pub(super) fn end_of_stream(why: ViError) -> ViError {
    if planted(Fault::EndBelieved) { ViError::ClosedByPeer } else { why }
}

/// Whether the nic hears of a message.
#[inline]
pub(super) fn must_mark(is_dirty: bool) -> bool {
    is_dirty && !planted(Fault::SentUnmarked)
}

/// Where the answer of a read goes.
#[inline]
pub(super) fn target_of_answer(target: PayloadTarget) -> PayloadTarget {
    if planted(Fault::AnswerMisplaced) { PayloadTarget::Current } else { target }
}

/// Chunks that the kernel did not take at all.
pub(super) fn chunks_cut(chunks: usize) -> usize {
    if planted(Fault::ChunksKept) { 0 } else { chunks }
}

/// Frames that do not count as written.
pub(super) fn frames_cut(frames: usize) -> usize {
    if planted(Fault::CutCounted) { 0 } else { frames }
}
