//! Channels: ordered, one-way streams of messages over a link, any number of them.
//!
//! The sender has a [`ChannelWriter`], whose [`MessageWriter`]s write one message each; a [`Post`] is
//! a message that is sent without waiting. The receiver has a [`ChannelListener`], which accepts
//! [`ChannelReader`]s, whose [`MessageReader`]s read one message each. `docs/design/channels.md` has the
//! rules, `docs/wire/link.md` the bytes on the wire.

mod message_reader;
mod message_writer;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use message_reader::{MessageReader, Part};
pub use message_writer::MessageWriter;
pub use reader::{ChannelListener, ChannelReader};
pub use writer::ChannelWriter;

pub use crate::channel_table::{ChannelError, Post, PostOutcome};
