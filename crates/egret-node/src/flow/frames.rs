//! What the two ends of a flow of bytes tell each other, as it travels in the frames
//! [`Ask` and `Tell`](crate::link::control::Control) of a link.

use egret_stream::Wire;

/// A flow, as the end that hears of it numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(crate) enum Name {
    /// Data of messages: the slot of the mapping to its receiver, its number to its sender.
    Requests(u32),
    /// Data of answers: the number of the mapping to its receiver, its slot to its sender.
    Replies(u32),
    /// A channel, by the number that its writer gave it, to both ends.
    Channel(u64),
}

/// To the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(crate) enum Ask {
    /// A piece of `len` bytes cannot be sent without credit `upto` there, counted from the
    /// beginning of the flow.
    Want { upto: u64, len: u64 },
    /// Credit that will not be used.
    Unused { bytes: u64 },
    /// What was wanted is not any more.
    Withdraw,
}

/// To the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(crate) enum Tell {
    /// More may be sent.
    Grant { bytes: u64 },
    /// The piece that needs credit `upto` there will never get it: none may cost more than `most`.
    Refuse { upto: u64, most: u64 },
    /// Credit beyond this is needed elsewhere, if it is not needed here.
    Recall { keep: u64 },
}
