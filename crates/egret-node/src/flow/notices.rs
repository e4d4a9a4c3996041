//! What the two ends of a flow of bytes send each other, as it travels in the frames
//! [`SenderNotice` and `ReceiverNotice`](crate::link::control::LinkControl) of a link.

use egret_stream::Wire;

/// A flow, as the end that receives the notice numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(crate) enum FlowName {
    /// Data of messages: the slot of the mapping to its receiver, its number to its sender.
    Requests(u32),
    /// Data of answers: the number of the mapping to its receiver, its slot to its sender.
    Replies(u32),
    /// A channel, by the number that its writer gave it, to both ends.
    Channel(u64),
}

/// From the sender of a flow to its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(crate) enum SenderNotice {
    /// A piece of `len` bytes cannot be sent without credit `upto` there, counted from the
    /// beginning of the flow.
    Want { upto: u64, len: u64 },
    /// Credit that will not be used.
    Unused { bytes: u64 },
    /// What was wanted is not wanted any more.
    Withdraw,
}

/// From the receiver of a flow to its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(crate) enum ReceiverNotice {
    /// More may be sent.
    Grant { bytes: u64 },
    /// The piece that needs credit `upto` there will never get it: none may cost more than `most`.
    Refuse { upto: u64, most: u64 },
    /// Credit beyond this is needed elsewhere, if it is not needed here.
    Recall { keep: u64 },
}
