//! What the two ends of channels tell each other beside their bytes and the
//! [flow](crate::flow::FlowName) of those, in frames of control of a link.
//!
//! A channel's number is given by who writes it and never used again on the link, so that a
//! frame that comes late is known to be late. Its slot, in the heads of its parts, is.

use egret_stream::Wire;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) enum ChannelControl {
    /// A channel to the listener of this name.
    Open { number: u64, name: String },
    /// The channel is open: its parts go to `slot`, and may cost so much.
    Opened { number: u64, slot: u32, credit: u64 },
    /// The channel was refused.
    Refused { number: u64, why: ChannelRefusal },
    /// The reader was dropped.
    Stop { number: u64 },
}

/// Why a channel is refused; `ChannelError` has the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(crate) enum ChannelRefusal {
    /// No listener accepts channels by this name.
    NoListener,
    /// As many channels wait to be accepted as may.
    Backlog,
    /// The node holds as much for others as it may.
    NoRoom,
}

/// Bytes of the longest name.
pub(crate) const CHANNEL_NAME_MAX: usize = 255;
