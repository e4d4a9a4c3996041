//! What can go wrong with a channel.

use std::time::Duration;

use thiserror::Error;

use crate::flow::NeverFits;
use crate::link::{CHANNEL_NAME_MAX, ChannelRefusal, Fate, LinkError};

/// Why a channel was not opened, or a message was not written or not read.
///
/// ```
/// # use egret_net::fabric::{Fabric, shm::ShmFabric};
/// # use egret_net::rt::Deadline;
/// # use egret_net::vi::NicOptions;
/// # use egret_node::{Links, LinksOptions};
/// # let links = |name: &str| -> Result<Links, Box<dyn std::error::Error>> {
/// #     let host = format!("{name}-{}", std::process::id());
/// #     Ok(Links::open(ShmFabric.open(&NicOptions::new(&host))?, LinksOptions::default())?)
/// # };
/// # let (here, there) = (links("refused")?, links("refuses")?);
/// use egret_node::channel::ChannelError;
///
/// let refused = here.wait_channel(there.host(), "nobody", Deadline::DEFAULT).unwrap_err();
/// assert!(matches!(refused, ChannelError::NoListener { .. }), "{refused}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// There is no link to the host, or the link ended: before the channel was opened, or before a
    /// message to read had come.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The channel was not opened: the host accepts no channels by this name.
    #[error("channel {name:?} to {host}: no listener accepts channels by this name there")]
    NoListener {
        /// The host.
        host: String,
        /// The name of the channel.
        name: String,
    },
    /// The channel was not opened: as many wait to be accepted as may.
    #[error("channel {name:?} to {host}: too many channels wait to be accepted there")]
    Backlog {
        /// The host.
        host: String,
        /// The name of the channel.
        name: String,
    },
    /// The channel was not opened: the node at the host holds as much for others as it may.
    #[error(
        "channel {name:?} to {host}: the node there has no memory to spare for another channel: its \
         budget (LinksOptions::budget) is held, or kept for other peers"
    )]
    NoRoom {
        /// The host.
        host: String,
        /// The name of the channel.
        name: String,
    },
    /// The name of a channel is too long.
    #[error("the name of a channel has at most {CHANNEL_NAME_MAX} bytes, not {bytes}")]
    Name {
        /// Bytes of the name.
        bytes: usize,
    },
    /// This node accepts channels of this name already.
    #[error("channels by the name of {name:?} are accepted already")]
    Taken {
        /// The name.
        name: String,
    },
    /// The host did not answer in time whether it accepts the channel.
    #[error("{host} has not answered within {waited:?}")]
    OpenTimedOut {
        /// The host.
        host: String,
        /// How long this side waited.
        waited: Duration,
    },
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says which calls return this
    /// error, and what to do instead.
    #[error("a handler may not wait for a channel, or for its reader or writer")]
    InHandler,
    /// The message was not written: the reader was dropped. No message of the channel can be
    /// delivered any more.
    #[error("the reader of the channel was dropped")]
    ReaderGone,
    /// The message was not written: one part of it is larger than the reader's node ever accepts.
    /// The next message can be written.
    #[error(
        "a piece that needs {bytes} bytes, and the receiver takes at most {most}: raise \
         LinksOptions::budget of the receiver (Config::budget of its node), or send smaller pieces"
    )]
    PartTooLarge {
        /// Bytes that the part needs.
        bytes: u64,
        /// Bytes that the channel can have at most.
        most: u64,
    },
    /// The message was posted and withdrawn before it was sent, or never posted.
    #[error("the program withdrew the message before it was sent")]
    Withdrawn,
    /// The link ended while the message was written.
    #[error("{why} ({})", fate_text(*fate))]
    Lost {
        /// Why the link ended.
        why: LinkError,
        /// What is known of the message.
        fate: Fate,
    },
    /// The message was not written in time: the reader granted too little. Writing can go on, unless
    /// `broken` is set.
    #[error("the reader has not granted enough within {waited:?}{}", broken_text(*broken))]
    WriteTimedOut {
        /// How long this side waited.
        waited: Duration,
        /// Whether the link had to be ended, to get borrowed memory back from the fabric.
        broken: bool,
    },
    /// The reader has not granted enough yet: nothing more can be written now.
    #[error("the reader has not granted enough yet")]
    Full,
    /// There is no memory to collect small pieces in, or to copy a small part to.
    #[error("no memory for a buffer of {bytes} bytes of a message")]
    NoMemory {
        /// Bytes of the buffer.
        bytes: usize,
    },
    /// The writer aborted the message. The next message is not affected.
    #[error("the writer has given up the message")]
    Aborted,
    /// The message ended before as many bytes were read as asked for.
    #[error("the message ends {missing} bytes before what was asked for")]
    MessageEnded {
        /// How many bytes are missing.
        missing: usize,
    },
    /// The next part is not an array of such elements.
    #[error("a part of {bytes} bytes is not a whole number of elements of {element}")]
    NotWhole {
        /// Bytes of the part.
        bytes: usize,
        /// Bytes of an element.
        element: usize,
    },
    /// The message is larger than its reader accepts, and was skipped. The next is not affected.
    #[error("the message has {bytes} bytes or more, and the reader takes at most {most}")]
    MessageTooLarge {
        /// Bytes of the message that have come.
        bytes: u64,
        /// Bytes that the reader accepts at most.
        most: u64,
    },
    /// No channel was opened, or no message or part has come, in time.
    #[error("no channel, message or part has arrived within {waited:?}")]
    ReadTimedOut {
        /// How long this side waited.
        waited: Duration,
    },
}

impl ChannelError {
    pub(crate) fn refused(why: ChannelRefusal, host: &str, name: &str) -> Self {
        let (host, name) = (host.to_owned(), name.to_owned());
        match why {
            ChannelRefusal::NoListener => Self::NoListener { host, name },
            ChannelRefusal::Backlog => Self::Backlog { host, name },
            ChannelRefusal::NoRoom => Self::NoRoom { host, name },
        }
    }
}

impl From<NeverFits> for ChannelError {
    fn from(NeverFits { bytes, most }: NeverFits) -> Self {
        Self::PartTooLarge { bytes, most }
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
