//! What a receive port says of its connections.

use super::{PortEnd, SenderId};

/// A change of the connections of a receive port; from [`PortControl::poll_event`](super::PortControl::poll_event), which has an
/// example.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortEvent {
    /// A sender has connected.
    Connected {
        /// The sender.
        sender: SenderId,
    },
    /// A sender has disconnected, and all its messages were received.
    Disconnected {
        /// The sender.
        sender: SenderId,
    },
    /// A connection was lost: what its sender had sent last may not have come.
    Lost {
        /// The sender.
        sender: SenderId,
        /// Why.
        why: PortEnd,
    },
}

impl PortEvent {
    pub(super) fn of_end(sender: SenderId, why: PortEnd) -> Self {
        match why {
            PortEnd::Disconnected => Self::Disconnected { sender },
            why => Self::Lost { sender, why },
        }
    }
}
