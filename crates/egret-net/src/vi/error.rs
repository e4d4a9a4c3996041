//! What can go wrong on a virtual interface. The conventions stand in [`rt`](crate::rt).

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

use super::{Address, Descriptor, Reliability};
use crate::buf::{Buf, Kind, RegionError};

/// Why a descriptor failed, and why a [`Vi`](super::Vi) is in the error state.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ViError {
    /// The message was larger than the receive it met.
    #[error("a message of {sent} bytes met a posted receive of {posted} bytes")]
    TooLong {
        /// Bytes sent.
        sent: u64,
        /// Bytes the posted receive could take.
        posted: u64,
    },
    /// The message carried elements of another type than the receive was posted for.
    #[error("a message of {sent} met a receive posted for {posted}")]
    TypeMismatch {
        /// What was sent.
        sent: Kind,
        /// What the receive was posted for.
        posted: Kind,
    },
    /// The receiver has no memory for the message, or does not want it: its
    /// [`Landing`](super::Landing) said so.
    #[error("the receiver does not take the message: {0}")]
    NotTaken(Cow<'static, str>),
    /// A remote read or write was refused by its target.
    #[error("remote access refused: {0}")]
    RemoteAccess(#[from] AccessError),
    /// The peer is gone without having closed the connection. How soon each fabric knows stands
    /// with [`Vi::send_eager`](super::Vi::send_eager).
    #[error("the peer died: {why}")]
    PeerDied {
        /// How that became known.
        why: &'static str,
    },
    /// The peer closed the connection, or dropped its [`Vi`](super::Vi).
    #[error("the peer closed the connection")]
    ClosedByPeer,
    /// This side closed the connection, or dropped the `Vi`.
    #[error("the connection was closed on this side")]
    Closed,
    /// The descriptor was taken back before it began.
    #[error("cancelled before it began")]
    Cancelled,
    /// The nic is gone, and all its connections with it.
    #[error("the nic is down")]
    NicDown,
    /// The peer sent what the protocol does not allow.
    #[error("the peer broke the protocol: {0}")]
    Protocol(&'static str),
}

/// Why the target of a remote read or write refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccessError {
    /// No memory is exposed under this key, or no longer.
    #[error("the key is unknown or was revoked")]
    Revoked,
    /// The range is not inside the exposed memory.
    #[error("bytes {offset}..{} are outside the {size} exposed", offset.saturating_add(*len))]
    OutOfBounds {
        /// First byte asked for.
        offset: u64,
        /// How many bytes were asked for.
        len: u64,
        /// How many are exposed.
        size: u64,
    },
    /// The key does not grant this.
    #[error("the key does not allow to {asked}")]
    Forbidden {
        /// `"read"` or `"write"`.
        asked: &'static str,
    },
}

impl AccessError {
    /// As fabrics write it: a reason, and of the range offset, length and size.
    pub(crate) fn to_words(self) -> [u64; 4] {
        match self {
            Self::Revoked => [1, 0, 0, 0],
            Self::OutOfBounds { offset, len, size } => [2, offset, len, size],
            Self::Forbidden { asked: "read" } => [3, 0, 0, 0],
            Self::Forbidden { .. } => [4, 0, 0, 0],
        }
    }

    /// `None` for what no fabric writes.
    pub(crate) const fn from_words(words: [u64; 4]) -> Option<Self> {
        match words {
            [1, 0, 0, 0] => Some(Self::Revoked),
            [2, offset, len, size] => Some(Self::OutOfBounds { offset, len, size }),
            [3, 0, 0, 0] => Some(Self::Forbidden { asked: "read" }),
            [4, 0, 0, 0] => Some(Self::Forbidden { asked: "write" }),
            _ => None,
        }
    }
}

/// A post that was refused; the descriptor and its buffers are inside.
#[derive(Debug, Error)]
#[error("not posted: {reason}")]
pub struct PostError {
    /// Why.
    pub reason: Refused,
    /// What was to be posted, untouched.
    pub descriptor: Descriptor,
}

/// Why a post was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refused {
    /// As many descriptors are outstanding as the queue holds. An outcome, not
    /// a failure: take a completion and post again.
    #[error("the queue holds its {depth} descriptors already")]
    Full {
        /// How many the queue holds.
        depth: u32,
    },
    /// The completion queue has no room for one more. An outcome as well.
    #[error("the completion queue has promised its {capacity} places already")]
    CompletionsFull {
        /// How many completions the queue holds.
        capacity: usize,
    },
    /// The connection is in the error state, for this reason.
    #[error("the connection is broken: {0}")]
    Broken(ViError),
    /// More segments than the fabric gathers.
    #[error("{have} segments, the fabric takes {max}")]
    TooManySegments {
        /// Segments of the descriptor.
        have: usize,
        /// `limits().segments_max`.
        max: u32,
    },
    /// More bytes than the fabric transfers at once.
    #[error("{len} bytes, the fabric transfers at most {max}")]
    TooLarge {
        /// Bytes of the descriptor.
        len: u64,
        /// `limits().transfer_max`.
        max: u64,
    },
    /// A receive or remote read into memory that others may be reading.
    #[error("a segment cannot be written: it is shared")]
    ReadOnly,
    /// Memory that is made on arrival cannot be sent, and must stand alone; so must
    /// the own memory of a receive with a [`Landing`](super::Landing), and be there.
    #[error("a fresh segment can only be received into, alone")]
    Fresh,
    /// The connection's reliability level has no remote read and write.
    #[error("remote read and write need a reliable connection")]
    Unreliable,
}

/// Why a connection was not made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody accepted in time.
    #[error("nobody accepted {to} within {waited:?}")]
    NotAccepted {
        /// Where to.
        to: Box<Address>,
        /// How long.
        waited: Duration,
    },
    /// The host is there, and nobody listened for this service in time.
    #[error("nobody listened for {to} within {waited:?}: its host has no such service")]
    NotListening {
        /// Where to.
        to: Box<Address>,
        /// How long.
        waited: Duration,
    },
    /// The host is there, and in time the service was listened for with other tags only.
    #[error(
        "nobody listened for {to} within {waited:?}: its host has the service with another tag"
    )]
    OtherTag {
        /// Where to.
        to: Box<Address>,
        /// How long.
        waited: Duration,
    },
    /// No such host on this fabric.
    #[error("no host {host} on this fabric")]
    UnknownHost {
        /// Its name.
        host: String,
    },
    /// The two sides ask for different levels.
    #[error("this side asks for {ours}, the other for {theirs}")]
    ReliabilityMismatch {
        /// Of the connecting side.
        ours: Reliability,
        /// Of the listening side.
        theirs: Reliability,
    },
    /// The fabric does not offer this level.
    #[error("the fabric does not offer {0}")]
    Unsupported(Reliability),
    /// A service name is at most 255 bytes.
    #[error("a service name of {bytes} bytes; at most 255 fit")]
    NameTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A completion queue, or a drain, of another nic would wait for this one in vain.
    #[error("a completion queue or a drain of another nic")]
    OtherNic,
    /// The other side's greeting cannot be understood.
    #[error("the greeting was refused: {0}")]
    Hello(#[from] super::HelloError),
    /// The two sides do not have the same secret.
    #[error("the secret was refused: {0}")]
    Secret(#[from] SecretError),
    /// The other side is not known to be the one that was called.
    #[error("the key was refused: {0}")]
    Key(#[from] KeyError),
    /// The host is a process of another user of this machine.
    #[error("the host belongs to user {theirs}, this process to user {ours}; they share no memory")]
    OtherUser {
        /// The user of the connecting process.
        ours: u32,
        /// The user of the host.
        theirs: u32,
    },
    /// The host is a process of a user with the same number in another user namespace, or may be.
    #[error(
        "the host shows user {user}, as this process does, and the two are not known to be in one \
         user namespace; they share no memory"
    )]
    OtherNamespace {
        /// What both show.
        user: u32,
    },
    /// This nic, or the peer's, went down meanwhile.
    #[error("the nic went down")]
    NicDown,
}

impl ConnectError {
    /// Of a host that shows the user `theirs`, and is not of this process's user.
    pub(crate) fn other_user(theirs: u32) -> Self {
        match rustix::process::geteuid().as_raw() {
            ours if ours == theirs => Self::OtherNamespace { user: ours },
            ours => Self::OtherUser { ours, theirs },
        }
    }
}

/// What is wrong with the secrets of two sides. Neither has told its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SecretError {
    /// They have different ones.
    #[error("the peer has another one")]
    Different,
    /// They have different ones, or the peer's key is not the one that the caller expects.
    #[error("the peer has another one, or another key than this side expects")]
    Stranger,
    /// The peer has none.
    #[error("this side has one and the peer has none")]
    OnlyOurs,
    /// This side has none.
    #[error("the peer has one and this side has none")]
    OnlyTheirs,
}

/// What is wrong with the key of the side that was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// It has another than the address, or the secret, says: somebody else answers there.
    #[error(
        "the peer has another key than was expected; somebody else answers there, or it has begun \
         another life"
    )]
    Other,
    /// Which one it should have is not known, and the secret could be guessed by whoever answers.
    #[error(
        "which key the peer should have is not known, and whoever answers could guess this secret; \
         give the address the peer's key, or take a random secret"
    )]
    Unknown,
    /// A group has no key to prove, and the secret could be guessed by whoever hears what members
    /// sign.
    #[error(
        "whoever hears the group could guess this secret, by which its members sign; take a random \
         secret (Secret::random, or `egret secret FILE`)"
    )]
    Group,
}

/// Why a nic is not opened with the secret that it was given, or without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NicSecretError {
    /// It was given an empty one.
    #[error(
        "the secret is empty, and an empty secret is everybody's; give a random one (Secret::random)"
    )]
    Empty,
    /// It has none, and would listen beyond loopback.
    #[error(
        "it would listen at {at}, beyond loopback, without a secret, and whoever reaches that \
         address could connect; give it a secret (of a node: by EGRET_SECRET_FILE), or say in \
         the program that everybody may connect, by insecure_without_secret()"
    )]
    Missing {
        /// Where.
        at: IpAddr,
    },
}

/// Why nobody can be accepted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Someone listens there already.
    #[error("{service:?} with tag {tag} has a listener already")]
    Taken {
        /// The service's name.
        service: String,
        /// The tag.
        tag: u64,
    },
    /// Nobody connected in time.
    #[error("nobody connected to {service:?} with tag {tag} within {waited:?}")]
    TimedOut {
        /// What was listened for.
        service: String,
        /// Its tag.
        tag: u64,
        /// How long.
        waited: Duration,
    },
    /// A service name is at most 255 bytes.
    #[error("a service name of {bytes} bytes; at most 255 fit")]
    NameTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The fabric does not offer this level.
    #[error("the fabric does not offer {0}")]
    Unsupported(Reliability),
    /// A completion queue, or a drain, of another nic would wait for this one in vain.
    #[error("a completion queue or a drain of another nic")]
    OtherNic,
    /// The nic is gone.
    #[error("the nic is down")]
    NicDown,
}

/// Why a wait for a completion ended without one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The deadline passed.
    #[error("no completion within {waited:?}, {outstanding} descriptors outstanding")]
    TimedOut {
        /// How long.
        waited: Duration,
        /// Descriptors that will complete here some time.
        outstanding: usize,
    },
    /// Nothing is posted that could complete here, so waiting for ever would
    /// last for ever.
    #[error("nothing is posted that could complete here")]
    NothingPosted,
}

/// Why a blocking send or receive failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TransferError {
    /// It was not even posted.
    #[error("not posted: {0}")]
    Refused(#[from] Refused),
    /// It was posted and failed.
    #[error(transparent)]
    Failed(#[from] ViError),
    /// The message came without a type, and is not whole elements of this one.
    #[error("{bytes} bytes are not whole elements of {element}")]
    Partial {
        /// Bytes received.
        bytes: u64,
        /// Bytes of one element.
        element: u64,
    },
    /// The deadline passed. If the transfer had begun, the connection is in
    /// the error state now: half a message cannot be taken back.
    #[error("{doing} {peer} was not done within {waited:?}; the connection {}", if *.broken { "was given up" } else { "goes on" })]
    TimedOut {
        /// `"sending to"` or `"receiving from"`.
        doing: &'static str,
        /// The peer's host.
        peer: String,
        /// How long.
        waited: Duration,
        /// Whether the transfer had begun.
        broken: bool,
    },
}

/// Why memory was not registered.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// More than the nic takes.
    #[error("{bytes} bytes more, of {registered} registered and {max} allowed by the fabric")]
    TooMuch {
        /// Bytes of the region.
        bytes: u64,
        /// Bytes registered already.
        registered: u64,
        /// `limits().registrable_max`.
        max: u64,
    },
    /// The operating system would not pin it.
    #[error(transparent)]
    Pin(#[from] RegionError),
    /// A key must grant something.
    #[error("neither read nor write asked for")]
    NoAccess,
}

/// A buffer that was not exposed; it is inside.
#[derive(Debug, Error)]
#[error("not exposed: {reason}")]
pub struct ExposeError {
    /// Why.
    #[source]
    pub reason: RegisterError,
    /// The buffer, untouched.
    pub buf: Buf,
}
