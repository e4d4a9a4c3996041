//! What the two ends of channels tell each other beside their bytes and the
//! [flow](crate::flow::Name) of those, in frames of control of a link.
//!
//! A channel's number is given by who writes it and never used again on the link, so that a
//! frame that comes late is known to be late. Its slot, in the heads of its parts, is.

use egret_stream::Wire;
use thiserror::Error;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub(crate) enum Control {
    /// A channel to whoever accepts them by this name.
    Open { number: u64, name: String },
    /// It is there: its parts go to `slot`, and may cost so much.
    Opened { number: u64, slot: u32, credit: u64 },
    /// It is not.
    Refused { number: u64, why: Refusal },
    /// Nobody reads any more.
    Stop { number: u64 },
}

/// Why a channel is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Wire)]
#[non_exhaustive]
pub enum Refusal {
    /// Nobody accepts channels by this name.
    #[error("nobody accepts channels by this name there")]
    NoListener,
    /// As many are waiting to be accepted as may.
    #[error("too many channels wait to be accepted there")]
    Backlog,
    /// The node holds as much for others as it may.
    #[error(
        "the node there has no memory to spare for another channel: its budget \
         (LinksOptions::budget) is held, or kept for other peers"
    )]
    NoRoom,
}

/// Bytes of the longest name.
pub(crate) const NAME_MAX: usize = 255;
