//! Channels: ordered, one-way streams of messages over a link, any number of them.
//!
//! A program has a [`Writer`], which makes [`Message`]s, or a [`Listener`], which accepts
//! [`Reader`]s, which get [`Delivery`]s; a [`Post`] goes by itself. `docs/channels.md` has the rules,
//! `docs/link-wire.md` the bytes on the wire.

mod control;
mod delivery;
mod error;
pub(crate) mod fault;
mod incoming;
mod message;
mod outgoing;
mod posting;
mod reader;
mod reading;
mod state;
pub(crate) mod table;
#[cfg(test)]
mod tests;
mod writer;
mod writing;

pub(crate) use control::Control;
pub use control::Refusal;
pub use delivery::{Delivery, Part};
pub use error::{ChannelError, NotWritten, ReadError, WriteError};
pub use message::Message;
pub use posting::{Post, Posted};
pub use reader::{Listener, Reader};
pub use writer::Writer;
