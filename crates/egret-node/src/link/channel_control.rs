//! What the two ends of channels tell each other beside their bytes and the
//! [flow](crate::flow::FlowName) of those, in frames of control of a link.
//!
//! A channel's number is given by who writes it and never used again on the link, so that a
//! frame that comes late is known to be late. Its slot, in the heads of its parts, is.

use egret_stream::Wire;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) enum ChannelControl {
    /// A channel to whoever accepts them by this name.
    Open { number: u64, name: String },
    /// It is there: its parts go to `slot`, and may cost so much.
    Opened { number: u64, slot: u32, credit: u64 },
    /// It is not.
    Refused { number: u64, why: ChannelRefusal },
    /// Nobody reads any more.
    Stop { number: u64 },
}

/// Why a channel is refused; `ChannelError` has the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Wire)]
pub(crate) enum ChannelRefusal {
    /// Nobody accepts channels by this name.
    NoListener,
    /// As many channels wait to be accepted as may.
    Backlog,
    /// The node holds as much for others as it may.
    NoRoom,
}

/// Bytes of the longest name.
pub(crate) const CHANNEL_NAME_MAX: usize = 255;
