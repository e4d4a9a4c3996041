//! Links between nodes: errors, what is known of undelivered messages, counters.
//! [`Links`](crate::Links) has an example.

mod channel_control;
pub(crate) mod connection;
pub(crate) mod control;
mod counters;
mod error;
pub(crate) mod placement;

pub(crate) use channel_control::{CHANNEL_NAME_MAX, ChannelControl, ChannelRefusal};
pub use counters::LinkCounters;
pub use error::{Fate, LinkError};
