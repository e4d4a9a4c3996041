//! What can go wrong with a channel.

use std::fmt;
use std::time::Duration;

use egret_net::vi::Segment;
use thiserror::Error;

use super::Refusal;
use crate::flow::NeverFits;
use crate::link::{Fate, LinkError, LinkUpError};

/// Why a channel is not open.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// There is no link to the host.
    #[error(transparent)]
    Link(#[from] LinkUpError),
    /// The link died before the other side answered.
    #[error(transparent)]
    Died(#[from] LinkError),
    /// The other side does not want it.
    #[error("channel {name:?} to {host}: {why}")]
    Refused {
        /// The host.
        host: String,
        /// The name.
        name: String,
        /// Why.
        why: Refusal,
    },
    /// The name is too long.
    #[error("the name of a channel has at most 255 bytes, not {bytes}")]
    Name {
        /// What it has.
        bytes: usize,
    },
    /// Channels of this name are accepted already.
    #[error("channels by the name of {name:?} are accepted already")]
    Taken {
        /// The name.
        name: String,
    },
    /// The other side did not answer in time.
    #[error("{host} has not answered within {waited:?}")]
    TimedOut {
        /// The host.
        host: String,
        /// How long that was.
        waited: Duration,
    },
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says what answers this,
    /// and what to do instead.
    #[error("a handler may not wait for a channel")]
    InHandler,
}

/// Why a message was not written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The reader was dropped. No message of the channel can get there.
    #[error("nobody reads the channel any more")]
    Stopped,
    /// One piece of it is larger than the reader's node takes. This message is lost, the next may
    /// be written.
    #[error(transparent)]
    TooLarge(#[from] NeverFits),
    /// The message was posted and withdrawn before it had gone, or never posted.
    #[error("the message was withdrawn before it had gone")]
    Withdrawn,
    /// The link is no more.
    #[error("{why} ({})", fate_text(*fate))]
    Link {
        /// Why.
        why: LinkError,
        /// What became of the message in progress.
        fate: Fate,
    },
    /// The reader granted too little until the deadline. The message may be gone on with, unless
    /// it is broken.
    #[error("the reader has not granted enough within {waited:?}{}", broken_text(*broken))]
    TimedOut {
        /// How long that was.
        waited: Duration,
        /// Memory that was lent had to be got back from the fabric, at the cost of the link.
        broken: bool,
    },
    /// More cannot be taken now.
    #[error("the reader has not granted enough yet")]
    Full,
    /// There is no memory to collect small pieces in.
    #[error("no memory to write to")]
    NoMemory,
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says what answers this,
    /// and what to do instead.
    #[error("a handler may not wait for a reader")]
    InHandler,
}

/// Memory that was not taken, and why.
#[derive(Error)]
#[error("{why}")]
pub struct NotWritten {
    /// Why.
    #[source]
    pub why: WriteError,
    /// What was to be written, if it was not taken.
    pub memory: Option<Segment>,
}

impl NotWritten {
    pub(super) const fn without(why: WriteError) -> Self {
        Self { why, memory: None }
    }
}

/// Why a message was not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The writer gave it up. The next is not affected.
    #[error("the writer has given up the message")]
    Aborted,
    /// It ended before as much was read as asked for.
    #[error("the message ends {missing} bytes before what was asked for")]
    Ended {
        /// What is missing.
        missing: usize,
    },
    /// The next part is not an array of such elements.
    #[error("a part of {bytes} bytes is no array of elements of {element}")]
    NotWhole {
        /// What the part has.
        bytes: usize,
        /// What an element has.
        element: usize,
    },
    /// It is larger than its reader wants, and was skipped. The next is not affected.
    #[error("a message of {bytes} bytes or more, and at most {most} are taken")]
    TooLarge {
        /// What has come of it.
        bytes: u64,
        /// Most there may be.
        most: u64,
    },
    /// The link is no more.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Nothing came until the deadline.
    #[error("nothing has come within {waited:?}")]
    TimedOut {
        /// How long that was.
        waited: Duration,
    },
    /// There is no memory to read to.
    #[error("no memory to read to")]
    NoMemory,
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says what answers this,
    /// and what to do instead.
    #[error("a handler may not wait for a writer")]
    InHandler,
}

impl fmt::Debug for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotWritten").field("why", &self.why).finish_non_exhaustive()
    }
}

const fn fate_text(fate: Fate) -> &'static str {
    match fate {
        Fate::NotDelivered => "the message was not delivered",
        Fate::Unknown => "whether the message arrived is not known",
    }
}

const fn broken_text(broken: bool) -> &'static str {
    if broken { ", and memory that was lent had to be got back by ending the link" } else { "" }
}
