//! All channels of a node without I/O: both ends of each, their table, and messages that were posted.

mod error;
pub(crate) mod fault;
mod inflow;
mod outflow;
mod post;
mod reader_state;
mod table;
#[cfg(test)]
mod tests;
mod writer_state;

pub use error::ChannelError;
pub(crate) use inflow::{NextPart, PartMemory};
pub(crate) use outflow::{ChannelOutflow, WriteHalt};
pub use post::{Post, PostOutcome};
pub(crate) use table::{ChannelOutput, ChannelTable};
pub(crate) use writer_state::ChannelOpening;
