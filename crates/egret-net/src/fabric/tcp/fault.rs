//! Faults that tests plant here; see [`crate::fault`].
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

#[cfg(test)]
pub(super) use crate::fault::caught;
pub(super) use crate::fault::planted;

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
    /// A peer may say that it has taken what was never sent.
    CountsBelieved,
    /// A socket is closed while the peer still sends.
    NoLinger,
    /// A connection request may take as long as it likes to finish a handshake.
    LorisAwaited,
    /// As many handshakes are begun at once as there are callers.
    HandshakesUnbounded,
    /// A handshake that comes to nothing does not count as begun.
    LostUncounted,
    /// Who has said something that this turn does not hear gives way as if it had said nothing.
    UnheardDisplaced,
    /// All chunks of a transfer go before anything else does.
    ChunksInARow,
    /// Chunks of which the kernel took nothing go before anything else does.
    ChunksKept,
    /// Chunks of which the kernel took nothing count as written.
    CutCounted,
    /// The nic does not hear of a message that waits for company.
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

// The faults of hot functions, by name, so that those functions read as the protocol.

#[inline]
pub(super) fn partial_writes_are_forgotten() -> bool {
    planted(Fault::RestForgotten)
}

#[inline]
pub(super) fn chunks_are_kept() -> bool {
    planted(Fault::ChunksKept)
}

#[inline]
pub(super) fn cut_frames_are_counted() -> bool {
    planted(Fault::CutCounted)
}

#[inline]
pub(super) fn chunks_go_in_a_row() -> bool {
    planted(Fault::ChunksInARow)
}

#[inline]
pub(super) fn counts_are_unchecked() -> bool {
    planted(Fault::CountsBelieved)
}

#[inline]
pub(super) fn receives_are_unchecked() -> bool {
    planted(Fault::ReceivesIgnored)
}

#[inline]
pub(super) fn answers_are_misplaced() -> bool {
    planted(Fault::AnswerMisplaced)
}

#[inline]
pub(super) fn lengths_are_unchecked() -> bool {
    planted(Fault::LengthIgnored)
}

#[inline]
pub(super) fn eager_messages_are_held() -> bool {
    planted(Fault::EagerHeld)
}

#[inline]
pub(super) fn partial_heads_are_forgotten() -> bool {
    planted(Fault::HeadForgotten)
}
