//! What can go wrong with active messages.

use std::time::Duration;

use thiserror::Error;

use super::Message;
use crate::link::{Fate, LinkError, LinkUpError};

/// Why a message could not be delivered, as the sender is told.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// The endpoint has no such handler.
    #[error("the endpoint has no handler {handler}")]
    NoHandler {
        /// Its number.
        handler: u8,
    },
    /// The endpoint has another tag now.
    #[error("the endpoint has another tag")]
    WrongTag,
    /// The endpoint was closed.
    #[error("the endpoint is gone")]
    EndpointGone,
    /// It needs more bytes than its receiver will ever grant.
    #[error(
        "the data needs {bytes} bytes of buffers, and the receiver takes {most}: its \
         `LinksOptions::budget` (`Config::budget` of a node) raises that"
    )]
    TooLarge {
        /// What its data needs.
        bytes: u64,
        /// Most that the receiver takes.
        most: u64,
    },
    /// The link died.
    #[error("{why}; the message {}", match .fate { Fate::NotDelivered => "was not delivered", Fate::Unknown => "may have been delivered" })]
    Link {
        /// Whether the message may have been delivered.
        fate: Fate,
        /// Why.
        why: LinkError,
    },
}

/// A message that came back, for the [error handler](super::Endpoint::on_error).
#[derive(Debug)]
#[non_exhaustive]
pub struct Undelivered {
    /// Why.
    pub reason: Reason,
    /// The handler it was for.
    pub handler: u8,
    /// Its words.
    pub words: Vec<u64>,
    /// Its bytes or data. Data of more than this side's budget
    /// ([`LinksOptions::budget`](crate::LinksOptions::budget)) could take back does not come, and
    /// this is empty.
    pub bytes: Vec<u8>,
}

/// Why a message was not sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// As many messages are under way as the window allows. An outcome, not a failure.
    #[error(
        "no room in the window of {window} messages: answers, or credit of those that want none, have not come yet"
    )]
    Full {
        /// Messages that may be under way.
        window: u32,
    },
    /// More bytes than a medium message takes, or 4 GiB of data.
    #[error(
        "{bytes} bytes; a message takes {}, and almost 4 GiB as data (`Message::data`)",
        super::MEDIUM_MAX
    )]
    TooLong {
        /// Bytes of the message.
        bytes: u64,
    },
    /// The mapping was given up.
    #[error("the endpoint is not mapped any more")]
    Unmapped,
    /// The endpoint had no segment when it was mapped.
    #[error("the endpoint has no segment")]
    NoSegment,
    /// That is outside of the endpoint's segment.
    #[error("bytes {offset}..{} are outside of the segment of {size}", offset.saturating_add(*len))]
    OutsideSegment {
        /// First byte asked for.
        offset: u64,
        /// How many bytes.
        len: u64,
        /// Bytes of the segment.
        size: u64,
    },
    /// The link is no more.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The deadline passed with the window full.
    #[error("no room in the window of {window} messages for {waited:?}")]
    TimedOut {
        /// Messages that may be under way.
        window: u32,
        /// How long.
        waited: Duration,
    },
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says what answers this,
    /// and what to do instead.
    #[error(
        "a handler may not wait (it answers later, or waits outside: `Request::later`, `outside`)"
    )]
    InHandler,
}

/// A message that was not sent; it is inside.
#[derive(Debug, Error)]
#[error("not sent: {reason}")]
pub struct Unsent<'a> {
    /// Why.
    #[source]
    pub reason: SendError,
    /// The message, untouched.
    pub message: Message<'a>,
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CallError {
    /// It was not delivered, or the link died before the answer came.
    #[error(transparent)]
    Undelivered(#[from] Reason),
    /// The handler dropped the request without an answer.
    #[error("the handler gave no answer")]
    NoReply,
    /// The handler panicked.
    #[error("the handler panicked")]
    Panicked,
    /// The handler answered with more data than this side will ever take.
    #[error(
        "the answer needs {bytes} bytes of buffers, and this side takes {most}: its \
         `LinksOptions::budget` (`Config::budget` of a node) raises that"
    )]
    ReplyTooLarge {
        /// What its data needs.
        bytes: u64,
        /// Most that this side takes.
        most: u64,
    },
    /// The segment was taken back, or does not allow this.
    #[error(transparent)]
    Access(#[from] egret_net::vi::AccessError),
    /// The deadline passed. The answer is thrown away when it comes; until then the request keeps
    /// its place in the window.
    #[error("no answer within {waited:?}")]
    TimedOut {
        /// How long.
        waited: Duration,
    },
    /// The answer is not of the type that was agreed on.
    #[error("the answer has {have} bytes, its type {want}")]
    OtherType {
        /// Bytes of the answer.
        have: usize,
        /// Bytes of the type.
        want: usize,
    },
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says what answers this,
    /// and what to do instead.
    #[error(
        "a handler may not wait (it answers later, or waits outside: `Request::later`, `outside`)"
    )]
    InHandler,
    /// It was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// Why an endpoint was not mapped.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MapError {
    /// There is no link to its host.
    #[error(transparent)]
    Up(#[from] LinkUpError),
    /// The link died meanwhile.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Nobody has registered an endpoint of this name there.
    #[error("no endpoint {name:?} at {host}")]
    NoSuchEndpoint {
        /// Where.
        host: String,
        /// Its name.
        name: String,
    },
    /// It has another tag.
    #[error("the endpoint {name:?} at {host} has another tag")]
    WrongTag {
        /// Where.
        host: String,
        /// Its name.
        name: String,
    },
    /// It has no handler of this name.
    #[error("the endpoint {endpoint:?} has no handler {handler:?}")]
    NoSuchHandler {
        /// The endpoint's name.
        endpoint: String,
        /// The handler's.
        handler: String,
    },
    /// Its handler of this name has other types.
    #[error("handler {handler:?}: this side has {ours}, the other {theirs}")]
    OtherTypes {
        /// The handler's name.
        handler: String,
        /// What this side takes it for.
        ours: String,
        /// What it is.
        theirs: String,
    },
    /// Its name and the handlers that are needed are more than can be asked for at once.
    #[error("a name and handlers of {bytes} bytes; at most {most} can be asked for")]
    TooLong {
        /// Bytes of the question.
        bytes: u64,
        /// Most there can be.
        most: u64,
    },
    /// This side has no room for one more.
    #[error(transparent)]
    Budget(crate::flow::NoRoom),
    /// The other side has no room for one more.
    #[error("{host} has no room for the mapping: {why}")]
    NoRoom {
        /// Where.
        host: String,
        /// What it lacks.
        why: String,
    },
    /// The deadline passed.
    #[error(
        "{host} has not answered within {waited:?}{}",
        if *linked { "" } else { ": there is no link to it" }
    )]
    TimedOut {
        /// Where.
        host: String,
        /// How long.
        waited: Duration,
        /// Whether there was a link to the host by then, so that it was asked.
        linked: bool,
    },
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says what answers this,
    /// and what to do instead.
    #[error(
        "a handler may not wait (it answers later, or waits outside: `Request::later`, `outside`)"
    )]
    InHandler,
}

/// Why there is no such endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Another has its name.
    #[error("there is an endpoint {name:?} already")]
    Taken {
        /// The name.
        name: String,
    },
    /// A name is at most 255 bytes.
    #[error("a name of {bytes} bytes; at most 255 fit")]
    NameTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A handler must not wait for others to end; see [`in_handler`](crate::am::in_handler).
    #[error("a handler may not move an endpoint")]
    InHandler,
    /// Another thread moves it just now.
    #[error("the endpoint is being moved already")]
    Moving,
    /// A message to the endpoint is being served for longer than the deadline.
    #[error("the endpoint was in use for {waited:?}")]
    Busy {
        /// How long.
        waited: Duration,
    },
}
