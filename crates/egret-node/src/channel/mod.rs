//! Channels: ordered, one-way streams of messages over a link, any number of them.
//!
//! The sender has a [`ChannelWriter`], whose [`MessageWriter`]s write one message each; a [`Post`] is
//! a message that is sent without waiting. The receiver has a [`ChannelListener`], which accepts
//! [`ChannelReader`]s, whose [`MessageReader`]s read one message each. `docs/design/channels.md` has the
//! rules, `docs/wire/link.md` the bytes on the wire.

mod control;
mod error;
pub(crate) mod fault;
mod inflow;
mod message_reader;
mod message_writer;
mod outflow;
mod post;
mod reader;
mod reader_state;
mod state;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod writer;
mod writer_state;

pub(crate) use control::ChannelControl;
#[cfg(test)]
pub(crate) use control::ChannelRefusal;
pub use error::ChannelError;
pub use message_reader::{MessageReader, Part};
pub use message_writer::MessageWriter;
pub use post::{Post, PostOutcome};
pub use reader::{ChannelListener, ChannelReader};
pub use writer::ChannelWriter;
