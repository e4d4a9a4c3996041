//! What can go wrong with active messages.

use std::time::Duration;

use egret_net::vi::AccessError;
use thiserror::Error;

use crate::flow::FlowNoRoom;
use crate::link::{Fate, LinkError};

/// Why a message was not sent, was not delivered or has no answer, or why an endpoint was not
/// registered, mapped or moved.
///
/// | variants | the operation | what has happened |
/// |---|---|---|
/// | `Full` to `NoRoomInTime` | any send | the message was not sent |
/// | `NoHandler` to `LinkLost` | any send | the message was sent and not delivered; after [`LinkLost`](Self::LinkLost) that is certain only if it says so |
/// | `NoReply` to `TimedOut` | waits for an answer | the request was delivered, but for [`TimedOut`](Self::TimedOut) |
/// | `NoLink` to `NotMappedInTime` | [`Endpoint::map`](super::Endpoint::map) and its variants | nothing is mapped |
/// | `NameTaken` to `Busy` | [`register`](super::Endpoint::register), [`wait_move_to`](super::Endpoint::wait_move_to) | the endpoint is as it was |
///
/// ```
/// use egret_node::am::{MessageError, RemoteEndpoint};
///
/// fn tell(remote: &RemoteEndpoint) -> Result<bool, MessageError> {
///     match remote.try_send((3, &[1, 2])) {
///         Ok(()) => Ok(true),
///         Err(unsent) if matches!(unsent.why, MessageError::Full { .. }) => Ok(false),
///         Err(unsent) => Err(unsent.why),
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MessageError {
    /// As many messages are under way as the window allows. An outcome, not a failure.
    #[error(
        "no room in the window of {window} messages: answers, or credit of those that want none, have not come yet"
    )]
    Full {
        /// Messages that may be under way.
        window: u32,
    },
    /// The message has more bytes than a medium message takes, or 4 GiB of data.
    #[error(
        "{bytes} bytes; a message takes {}, and almost 4 GiB as data (`Message::data`)",
        super::MEDIUM_MAX
    )]
    TooLong {
        /// Bytes of the message.
        bytes: u64,
    },
    /// The mapping was given up.
    #[error("the mapping of the endpoint was given up; map the endpoint again")]
    Unmapped,
    /// The endpoint had no segment when it was mapped.
    #[error("the endpoint had no segment when it was mapped; give it one, then map it again")]
    NoSegment,
    /// The bytes to read or write are outside of the endpoint's segment.
    #[error("bytes {offset}..{} are outside of the segment of {size}", offset.saturating_add(*len))]
    OutsideSegment {
        /// First byte to read or write.
        offset: u64,
        /// How many bytes.
        len: u64,
        /// Bytes of the segment.
        size: u64,
    },
    /// The link had ended before: nothing was sent, or mapped.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The deadline passed with the window full.
    #[error("no room in the window of {window} messages for {waited:?}")]
    NoRoomInTime {
        /// Messages that may be under way.
        window: u32,
        /// How long was waited.
        waited: Duration,
    },
    /// The endpoint has no such handler.
    #[error("the endpoint has no handler {handler}")]
    NoHandler {
        /// The number of the handler.
        handler: u8,
    },
    /// The endpoint has another tag than when it was mapped.
    #[error("the endpoint has another tag than when it was mapped; map it again with the new tag")]
    TagChanged,
    /// The endpoint was closed.
    #[error("the endpoint was closed; map another one")]
    EndpointGone,
    /// The data needs more bytes than its receiver will ever grant.
    #[error(
        "the data needs {bytes} bytes of buffers, and the receiver takes {most}: its \
         `LinksOptions::budget` (`Config::budget` of a node) raises that"
    )]
    TooLarge {
        /// What the data needs.
        bytes: u64,
        /// Most that the receiver takes.
        most: u64,
    },
    /// The link ended while the message was under way.
    #[error("{why}; the message {}", match .fate { Fate::NotDelivered => "was not delivered", Fate::Unknown => "may have been delivered" })]
    LinkLost {
        /// Whether the message may have been delivered.
        fate: Fate,
        /// Why the link ended.
        why: LinkError,
    },
    /// The handler dropped the request without an answer.
    #[error("the handler dropped the request without an answer")]
    NoReply,
    /// The handler panicked.
    #[error(
        "the handler of the request panicked, and has run in part; correct the handler: its process has printed \
         where it panicked"
    )]
    Panicked,
    /// The handler answered with more data than this side will ever take.
    #[error(
        "the answer needs {bytes} bytes of buffers, and this side takes {most}: its \
         `LinksOptions::budget` (`Config::budget` of a node) raises that"
    )]
    ReplyTooLarge {
        /// What the data of the answer needs.
        bytes: u64,
        /// Most that this side takes.
        most: u64,
    },
    /// The segment was taken back, or does not allow this access.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The answer is not of the type that was agreed on.
    #[error("the answer has {have} bytes and its type has {want}; use one type on both sides")]
    OtherType {
        /// Bytes of the answer.
        have: usize,
        /// Bytes of the type.
        want: usize,
    },
    /// The deadline passed before the answer came. The answer is thrown away when it comes; until
    /// then the request keeps its place in the window.
    #[error("no answer within {waited:?}")]
    TimedOut {
        /// How long was waited.
        waited: Duration,
    },
    /// There is no link to the host of the endpoint.
    #[error(transparent)]
    NoLink(LinkError),
    /// No endpoint of this name is registered at the host.
    #[error("no endpoint {name:?} at {host}")]
    NoSuchEndpoint {
        /// The host.
        host: String,
        /// The name of the endpoint.
        name: String,
    },
    /// The endpoint has another tag than the one it was to be mapped by.
    #[error("the endpoint {name:?} at {host} has another tag")]
    OtherTag {
        /// The host.
        host: String,
        /// The name of the endpoint.
        name: String,
    },
    /// The endpoint has no handler of this name.
    #[error("the endpoint {endpoint:?} has no handler {handler:?}")]
    NoSuchHandler {
        /// The name of the endpoint.
        endpoint: String,
        /// The name of the handler.
        handler: String,
    },
    /// The handler of this name has other types.
    #[error("handler {handler:?}: this side has {ours}, the other {theirs}")]
    OtherTypes {
        /// The name of the handler.
        handler: String,
        /// Its types as this side has them.
        ours: String,
        /// Its types as the other side has them.
        theirs: String,
    },
    /// The name of the endpoint and the handlers that are needed do not fit one question.
    #[error("a name and handlers of {bytes} bytes; at most {most} can be asked for")]
    MapTooLong {
        /// Bytes of the question.
        bytes: u64,
        /// Most there can be.
        most: u64,
    },
    /// This side has no room for one more mapping.
    #[error(transparent)]
    Budget(FlowNoRoom),
    /// The other side has no room for one more mapping.
    #[error("{host} has no room for the mapping: {why}")]
    NoRoom {
        /// The host.
        host: String,
        /// What it lacks.
        why: String,
    },
    /// The deadline passed before the endpoint was mapped.
    #[error(
        "{host} has not answered within {waited:?}{}",
        if *linked { "" } else { ": there is no link to it" }
    )]
    NotMappedInTime {
        /// The host.
        host: String,
        /// How long was waited.
        waited: Duration,
        /// Whether there was a link to the host by then, so that it was asked.
        linked: bool,
    },
    /// Another endpoint of these links has the name.
    #[error("there is an endpoint {name:?} already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// A name is at most 255 bytes.
    #[error("a name of {bytes} bytes; at most 255 fit")]
    NameTooLong {
        /// Bytes of the name.
        bytes: usize,
    },
    /// Another thread moves the endpoint just now.
    #[error("another thread is moving the endpoint; wait until that is done")]
    Moving,
    /// A message to the endpoint was being served for longer than the deadline.
    #[error("the endpoint was in use for {waited:?}")]
    Busy {
        /// How long was waited.
        waited: Duration,
    },
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says what returns this error,
    /// and what to do instead. Nothing was sent, mapped or moved.
    #[error(
        "a handler may not wait (it answers later, or waits outside: `Request::later`, `outside`)"
    )]
    InHandler,
}

/// A message that came back, for the [error handler](super::Endpoint::on_error).
///
/// ```
/// use egret_node::am::Endpoint;
///
/// fn log_undelivered(endpoint: &Endpoint) {
///     endpoint.on_error(|back| eprintln!("to handler {}: {}", back.handler, back.reason));
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Undelivered {
    /// Why it was not delivered: `NoHandler`, `TagChanged`, `EndpointGone`, `TooLarge` or `LinkLost`.
    pub reason: MessageError,
    /// The number of the handler it was for.
    pub handler: u8,
    /// Its words.
    pub words: Vec<u64>,
    /// Its bytes or data. Data of more than this side's budget
    /// ([`LinksOptions::budget`](crate::LinksOptions::budget)) could take back does not come, and
    /// this is empty.
    pub bytes: Vec<u8>,
}
