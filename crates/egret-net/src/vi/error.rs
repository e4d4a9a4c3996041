//! What can go wrong on a virtual interface. The conventions stand in [`rt`](crate::rt).

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use thiserror::Error;

use super::hello::{HelloError, KeyError, SecretError};
use super::{Address, NicOptions, Reliability};
use crate::buf::Kind;

/// Why a descriptor failed, why a [`Vi`](super::Vi) is in the error state, and why a call that waits
/// for one ended without a result.
///
/// ```
/// use egret_net::fabric::sim::Sim;
/// use egret_net::rt::Deadline;
/// use egret_net::vi::ViError;
///
/// let queue = Sim::new(1).nic("a").completion_queue(8);
/// assert_eq!(queue.wait(Deadline::UntilDead).unwrap_err(), ViError::NothingPosted);
/// ```
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
    /// [`DirectPlacement`](super::DirectPlacement) said so.
    #[error("the receiver does not take the message: {0}")]
    NotTaken(Cow<'static, str>),
    /// A remote read or write was refused by its target.
    #[error("remote access refused: {0}")]
    RemoteAccess(#[from] AccessError),
    /// The peer is gone without having closed the connection. How soon each fabric knows stands
    /// with [`Vi::send_eager`](super::Vi::send_eager).
    #[error("the peer died: {why}; connect again when it is back")]
    PeerDied {
        /// How that became known.
        why: &'static str,
    },
    /// The peer closed the connection, or dropped its [`Vi`](super::Vi).
    #[error("the peer closed the connection")]
    ClosedByPeer,
    /// This side closed the connection, or dropped the `Vi`.
    #[error("this side closed the connection")]
    Closed,
    /// The descriptor was taken back before it began.
    #[error("the operation was cancelled before it began")]
    Cancelled,
    /// The nic is gone, and all its connections with it.
    #[error("the nic is down")]
    NicDown,
    /// The peer sent what the protocol does not allow.
    #[error("the peer broke the protocol: {0}")]
    Protocol(&'static str),
    /// A blocking send or receive was not posted.
    #[error("the operation was not posted: {0}")]
    Refused(Box<PostError>),
    /// A message without a type is not whole elements of the type that it was received as.
    #[error("{bytes} bytes are not whole elements of {element}")]
    PartialElement {
        /// Bytes received.
        bytes: u64,
        /// Bytes of one element.
        element: u64,
    },
    /// The deadline of a blocking send or receive passed. If the transfer had begun, the connection
    /// is in the error state now: half a message cannot be taken back.
    #[error(
        "{doing} {peer} was not done within {waited:?}; the connection {}",
        if *.broken { "was given up" } else { "goes on" }
    )]
    TransferTimedOut {
        /// `"sending to"` or `"receiving from"`.
        doing: &'static str,
        /// The peer's host.
        peer: String,
        /// How long the call waited.
        waited: Duration,
        /// Whether the transfer had begun.
        broken: bool,
    },
    /// The deadline of a wait for a completion passed.
    #[error("no completion within {waited:?}, {outstanding} descriptors outstanding")]
    NoCompletion {
        /// How long the call waited.
        waited: Duration,
        /// Descriptors that are posted and will complete in this queue.
        outstanding: usize,
    },
    /// A wait without a deadline for a completion, while nothing is posted that could complete in
    /// this queue: it would never end.
    #[error("nothing is posted that could complete in this queue; post first")]
    NothingPosted,
    /// The deadline of a wait for eager messages passed.
    #[error("no eager message within {waited:?}")]
    NoEagerMessage {
        /// How long the call waited.
        waited: Duration,
    },
}

impl From<PostError> for ViError {
    fn from(why: PostError) -> Self {
        Self::Refused(Box::new(why))
    }
}

/// Why a nic was not opened, or cannot accept a connection.
///
/// ```
/// use egret_net::fabric::{Fabrics, OpenError};
///
/// let refused = Fabrics::default().open("smi", "a").unwrap_err();
/// assert!(matches!(refused, OpenError::UnknownFabric { .. }), "{refused}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No fabric of this name.
    #[error("no fabric {name:?}; there are: {known}")]
    UnknownFabric {
        /// The name.
        name: String,
        /// The fabrics that exist, with commas.
        known: String,
    },
    /// Another nic has this name.
    #[error("{host:?} is taken: another process, or another nic of this one, is open there")]
    Taken {
        /// The name.
        host: String,
    },
    /// A process of another user has this name: on one machine any process can take any.
    #[error(
        "process {pid} of user {user} has the name of the nic {host:?}, which any user can take; \
         take another, with something random in it"
    )]
    TakenByOther {
        /// The name.
        host: String,
        /// The process, if it is still there.
        pid: i32,
        /// Its user, as this process sees it.
        user: u32,
    },
    /// The host is neither an address nor an interface of this machine.
    #[error(
        "no nic is opened at {host:?}: that is no address and no interface of this machine, which \
         has: {known}"
    )]
    UnknownAddress {
        /// The host.
        host: String,
        /// The interfaces of this machine, with commas.
        known: String,
    },
    /// The interface has no address, or only one that is not ready.
    #[error(
        "no nic is opened at {host:?}: the interface {interface} has no address that can be used"
    )]
    NoAddress {
        /// The host.
        host: String,
        /// The name of the interface.
        interface: String,
    },
    /// This machine has no address that others can reach.
    #[error("no nic is opened at {host:?}: no address that others can reach: {why}")]
    Unreachable {
        /// The host.
        host: String,
        /// What is in the way of each interface.
        why: String,
    },
    /// The fabric is not to be had under this name on this machine.
    #[error("no nic is opened at {host:?}: {why}")]
    Refused {
        /// The name.
        host: String,
        /// What is in the way.
        why: String,
    },
    /// The secret of the nic is empty.
    #[error(
        "no nic is opened at {host:?}: the secret is empty, and any process has an empty secret; give \
         a random one (Secret::random)"
    )]
    EmptySecret {
        /// The name.
        host: String,
    },
    /// The nic has no secret, and would listen beyond loopback.
    #[error(
        "no nic is opened at {host:?}: it would listen at {at}, beyond loopback, without a secret, \
         and any process that reaches that address could connect; give it a secret (of a node: by \
         EGRET_SECRET_FILE), or say in the program that any process may connect, by \
         insecure_without_secret()"
    )]
    MissingSecret {
        /// The name.
        host: String,
        /// The address at which the nic would listen.
        at: IpAddr,
    },
    /// Another listener has the service and the tag.
    #[error("{service:?} with tag {tag} has a listener already")]
    ServiceTaken {
        /// The service's name.
        service: String,
        /// The tag.
        tag: u64,
    },
    /// No peer connected in time.
    #[error("no peer connected to {service:?} with tag {tag} within {waited:?}")]
    NotConnected {
        /// What was listened for.
        service: String,
        /// Its tag.
        tag: u64,
        /// How long the call waited.
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
    #[error("the completion queue or drain belongs to another nic; use one made by this nic")]
    OtherNic,
    /// The nic is gone.
    #[error("the nic is down")]
    NicDown,
}

impl OpenError {
    /// Whether the nic has a secret that is empty, or none where one is needed.
    #[must_use]
    pub const fn is_secret_refused(&self) -> bool {
        matches!(self, Self::EmptySecret { .. } | Self::MissingSecret { .. })
    }

    /// There is no nic with these options, and this is why.
    pub(crate) fn refused<E: fmt::Display>(options: &NicOptions) -> impl FnOnce(E) -> Self {
        let host = options.host.clone();
        |why| Self::Refused { host, why: why.to_string() }
    }
}

/// Why the target of a remote read or write refused it.
/// [`Exposed`](super::Exposed) has an example.
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

/// Why a descriptor was not posted, or an eager message not sent: nothing of it has left. A refused
/// post gives the descriptor back, inside [`GivenBack`](crate::rt::GivenBack). What a lane holds, and
/// when the end of a peer is known, stands with [`Vi::send_eager`](super::Vi::send_eager).
///
/// ```
/// # use egret_net::rt::Instant;
/// # use egret_net::vi::{Lane, Position, PostError, Sink, Vi};
/// fn send(
///     vi: &Vi,
///     bytes: &[u8],
///     until: Instant,
///     sink: &mut Sink<'_>,
/// ) -> Result<Position, PostError> {
///     loop {
///         // The poll finds the end of the peer, the drain finds room.
///         let seen = vi.nic().poll();
///         let drained = vi.drain().take(16, sink);
///         match vi.send_eager(Lane::Talk, 0, &[bytes]) {
///             Err(PostError::LaneFull) if vi.nic().now() < until => {
///                 if drained == 0 {
///                     vi.nic().wait(seen, Some(until));
///                 }
///             }
///             sent => return sent,
///         }
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PostError {
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
    /// The connection is in the error state, for this reason: the peer has
    /// [closed](ViError::ClosedByPeer) it or [died](ViError::PeerDied), this side has
    /// [closed](ViError::Closed) it, or something else went wrong. A nic finds the end of a peer
    /// when it is driven; until then eager messages leave, or the lane is [full](Self::LaneFull).
    #[error("the connection is broken: {0}")]
    Broken(ViError),
    /// More segments than the fabric gathers.
    #[error("the descriptor has {have} segments and the fabric takes at most {max}; gather fewer")]
    TooManySegments {
        /// Segments of the descriptor.
        have: usize,
        /// `limits().segments_max`.
        max: u32,
    },
    /// More bytes than the fabric transfers at once.
    #[error(
        "the descriptor has {len} bytes and the fabric transfers at most {max}; transfer it in parts"
    )]
    TooLarge {
        /// Bytes of the descriptor.
        len: u64,
        /// `limits().transfer_max`.
        max: u64,
    },
    /// A receive or remote read into memory that others may be reading.
    #[error("a shared segment cannot be received into; use memory with one owner")]
    ReadOnly,
    /// Memory that is made on arrival cannot be sent, and must stand alone; so must
    /// the own memory of a receive with a [`DirectPlacement`](super::DirectPlacement), and be there.
    #[error("memory made on arrival must be the only segment of a receive")]
    Fresh,
    /// The connection's reliability level has no remote read and write.
    #[error("remote read and write need a reliable connection")]
    Unreliable,
    /// The lane holds as much as it can until the peer drains. An outcome, not a failure: drain,
    /// wait, and send again. A wait of the nic ends when there may be room; over `shm` that is when
    /// the peer has drained a quarter of the lane. Over fabrics that do not
    /// [carry](super::Drain::is_native) eager messages this side hears of the room when it drains:
    /// for a program that only polls and sends, the lane stays full. Two sides that flood each other
    /// both drain, or neither gets room.
    #[error("the lane is full: the peer has not drained what was sent before")]
    LaneFull,
    /// More bytes than an eager message has.
    #[error("a message of {len} bytes; an eager one has at most {max}: post it")]
    EagerTooLarge {
        /// Bytes of the parts together.
        len: usize,
        /// [`EAGER_MAX`](super::EAGER_MAX).
        max: usize,
    },
}

impl PostError {
    /// The bytes of `parts` together, if an eager message can have as many.
    ///
    /// # Errors
    ///
    /// If they are too many.
    #[inline]
    pub fn check_eager(parts: &[&[u8]]) -> Result<usize, Self> {
        let len = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
        let max = super::EAGER_MAX;
        if len > max { Err(Self::EagerTooLarge { len, max }) } else { Ok(len) }
    }
}

/// Why a connection was not made.
/// [`Nic::wait_connect`](super::Nic::wait_connect) has an example.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host did not accept in time.
    #[error("{to} was not accepted within {waited:.1?}")]
    NotAccepted {
        /// Where to.
        to: Box<Address>,
        /// How long.
        waited: Duration,
    },
    /// The host is there, and had no listener for this service in time.
    #[error("{to} had no listener within {waited:.1?}: its host has no such service")]
    NotListening {
        /// Where to.
        to: Box<Address>,
        /// How long.
        waited: Duration,
    },
    /// The host is there, and in time the service was listened for with other tags only.
    #[error("{to} had no listener within {waited:.1?}: its host has the service with another tag")]
    OtherTag {
        /// Where to.
        to: Box<Address>,
        /// How long.
        waited: Duration,
    },
    /// No such host on this fabric, or none that was reached in time.
    #[error("host {host} was not reached{}: {why}", within(*waited))]
    UnknownHost {
        /// Its name.
        host: String,
        /// How long.
        waited: Duration,
        /// What was in the way last: what the system said, or what is wrong with the name.
        why: String,
    },
    /// The two sides ask for different levels.
    #[error("the reliability levels differ: this side requests {ours}, the other {theirs}")]
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
    #[error("the completion queue or drain belongs to another nic; use one made by this nic")]
    OtherNic,
    /// The other side does not begin as an egret peer does.
    #[error("the handshake was refused: {}", HelloError::NotEgret)]
    NotEgret,
    /// The peer's machine orders its bytes the other way.
    #[error("the handshake was refused: {}", HelloError::OtherByteOrder)]
    OtherByteOrder,
    /// The peer speaks another protocol version.
    #[error(
        "the handshake was refused: {}",
        HelloError::Version { theirs: *.theirs, ours: *.ours }
    )]
    OtherVersion {
        /// The peer's version.
        theirs: u16,
        /// This side's version.
        ours: u16,
    },
    /// The other side's handshake is too short, too long, or has a field out of its range.
    #[error("the handshake was refused: {}", HelloError::Malformed(.0))]
    MalformedHandshake(&'static str),
    /// The two sides have different secrets.
    #[error("the secret was refused: {}", SecretError::Different)]
    OtherSecret,
    /// The two sides have different secrets, or the peer has another key than the caller expects.
    #[error("the secret was refused: {}", SecretError::Stranger)]
    OtherSecretOrKey,
    /// This side has a secret and the peer has none.
    #[error("the secret was refused: {}", SecretError::OnlyOurs)]
    PeerWithoutSecret,
    /// The peer has a secret and this side has none.
    #[error("the secret was refused: {}", SecretError::OnlyTheirs)]
    WithoutSecret,
    /// The peer has another key than the address, or the secret, says: another process answers there.
    #[error("the key was refused: {}", KeyError::Other)]
    OtherKey,
    /// Which key the peer should have is not known, and the process that answers could guess the secret.
    #[error("the key was refused: {}", KeyError::Unknown)]
    UnknownKey,
    /// A group has no key to prove, and the secret could be guessed by a host that receives what members
    /// sign.
    #[error("the key was refused: {}", KeyError::Group)]
    GuessableGroupSecret,
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

/// For how long something was tried, unless that was at once.
fn within(waited: Duration) -> String {
    if waited < Duration::from_millis(1) { String::new() } else { format!(" within {waited:.1?}") }
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

impl ConnectError {
    /// Whether the two sides do not have the same secret: [`OtherSecret`](Self::OtherSecret),
    /// [`OtherSecretOrKey`](Self::OtherSecretOrKey), [`PeerWithoutSecret`](Self::PeerWithoutSecret)
    /// or [`WithoutSecret`](Self::WithoutSecret).
    #[must_use]
    pub const fn is_secret_refused(&self) -> bool {
        matches!(
            self,
            Self::OtherSecret
                | Self::OtherSecretOrKey
                | Self::PeerWithoutSecret
                | Self::WithoutSecret
        )
    }

    /// Whether the other side is not known to be the one that was called:
    /// [`OtherKey`](Self::OtherKey), [`UnknownKey`](Self::UnknownKey) or
    /// [`GuessableGroupSecret`](Self::GuessableGroupSecret).
    #[must_use]
    pub const fn is_key_refused(&self) -> bool {
        matches!(self, Self::OtherKey | Self::UnknownKey | Self::GuessableGroupSecret)
    }
}

impl From<HelloError> for ConnectError {
    fn from(why: HelloError) -> Self {
        match why {
            HelloError::NotEgret => Self::NotEgret,
            HelloError::OtherByteOrder => Self::OtherByteOrder,
            HelloError::Version { theirs, ours } => Self::OtherVersion { theirs, ours },
            HelloError::Malformed(what) => Self::MalformedHandshake(what),
        }
    }
}

impl From<SecretError> for ConnectError {
    fn from(why: SecretError) -> Self {
        match why {
            SecretError::Different => Self::OtherSecret,
            SecretError::Stranger => Self::OtherSecretOrKey,
            SecretError::OnlyOurs => Self::PeerWithoutSecret,
            SecretError::OnlyTheirs => Self::WithoutSecret,
        }
    }
}

impl From<KeyError> for ConnectError {
    fn from(why: KeyError) -> Self {
        match why {
            KeyError::Other => Self::OtherKey,
            KeyError::Unknown => Self::UnknownKey,
            KeyError::Group => Self::GuessableGroupSecret,
        }
    }
}
