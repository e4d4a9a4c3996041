//! Why a link ended, was not made, or cannot be used.

use std::time::Duration;

use egret_net::vi::{ConnectError, OpenError, ViError};
use thiserror::Error;

/// What is known of a message that the peer had not acknowledged when its link ended.
///
/// ```
/// use egret_node::link::Fate;
///
/// // A request that never entered its link has not run, and can be sent again.
/// let can_send_again = |fate| fate == Fate::NotDelivered;
/// assert!(can_send_again(Fate::NotDelivered) && !can_send_again(Fate::Unknown));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The message never entered the link: the peer has not received it.
    NotDelivered,
    /// The message entered the link: the peer may have received it, and may have run its handler.
    Unknown,
}

/// Why a link ended, was not made, or cannot be used; and the same of [paths](crate::Path) and of
/// [`Links::open`](crate::Links::open).
///
/// ```
/// use egret_node::link::LinkError;
///
/// let why = LinkError::PeerDied { peer: "node-7".to_owned(), why: "its connection was reset" };
/// assert_eq!(why.to_string(), "node-7 died: its connection was reset; link again when it is back");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The peer is gone without having closed the link.
    #[error("{peer} died: {why}; link again when it is back")]
    PeerDied {
        /// Host of the peer.
        peer: String,
        /// How that became known.
        why: &'static str,
    },
    /// The peer closed the link.
    #[error("{peer} closed the link")]
    ClosedByPeer {
        /// Host of the peer.
        peer: String,
    },
    /// The peer closed the link and sent a reason why it failed; or this side knows that the peer
    /// failed and [ended](crate::Links::end_link) the link.
    #[error("{peer} failed: {why}")]
    PeerFailed {
        /// Host of the peer.
        peer: String,
        /// The reason, as the peer sent it or this side knows it.
        why: String,
    },
    /// This side closed the link.
    #[error("this side closed the link")]
    Closed,
    /// The peer broke the protocol, and this side ended the link.
    #[error("{peer} was cut off: {why}")]
    CutOff {
        /// Host of the peer.
        peer: String,
        /// What the peer did.
        why: String,
    },
    /// The peer made another link, in a new life or because its side of this link had died.
    #[error("{peer} has made a new link in place of this one")]
    Replaced {
        /// Host of the peer.
        peer: String,
    },
    /// The connection of the link failed in another way.
    #[error("the connection to {peer} failed: {why}")]
    Failed {
        /// Host of the peer.
        peer: String,
        /// How the connection failed.
        why: Box<ViError>,
    },
    /// No link was made: the peer cannot be reached. The error inside tells apart that there is no
    /// such host ([`UnknownHost`](ConnectError::UnknownHost)), that no links are open there
    /// ([`NotListening`](ConnectError::NotListening)), and that the host does not accept
    /// ([`NotAccepted`](ConnectError::NotAccepted)), as far as the fabric knows.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// No link was made before the deadline passed, and the fabric does not know why.
    #[error("{peer} has not answered within {waited:?}")]
    TimedOut {
        /// Host of the peer.
        peer: String,
        /// How long this side waited.
        waited: Duration,
    },
    /// No link was made: the peer speaks another version of the protocol of links.
    #[error(
        "{peer} speaks version {theirs} of egret's links, this side {ours}: build both programs with the same version of \
         egret"
    )]
    OtherVersion {
        /// Host of the peer.
        peer: String,
        /// The version that the peer speaks.
        theirs: u16,
        /// The version that this side speaks.
        ours: u16,
    },
    /// No link was made: the peer has as many links as it accepts, and all of them are in use. The
    /// limit is [`LinksOptions::peers_max`](crate::LinksOptions::peers_max) of the peer, which
    /// follows from the size of the pool.
    #[error("{peer} takes {links} links (LinksOptions::peers_max), and all of them are used")]
    Full {
        /// Host of the peer.
        peer: String,
        /// How many links the peer accepts.
        links: u32,
    },
    /// No link was made: the host is no member of the pool, as far as this node knows.
    #[error("{peer} is no member of the pool: the registry lists no node there")]
    NotMember {
        /// Host of the peer.
        peer: String,
    },
    /// A node has no link to itself, so its endpoints cannot map each other.
    #[error(
        "a node has no link to itself: its endpoints cannot map each other, and call each other's \
         functions instead"
    )]
    Oneself,
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says which calls return this
    /// error, and what to do instead.
    #[error("a handler may not wait for a link")]
    InHandler,
    /// The [path](crate::Path) has ended, mostly with its link, for the reason inside.
    /// [`Links::wait_path`](crate::Links::wait_path) makes another.
    #[error("the path has ended: {0}")]
    PathEnded(Box<Self>),
    /// The message has more bytes than a message of a [path](crate::Path) can have.
    #[error("a message of {len} bytes; one of a path has at most {max}")]
    PathTooLarge {
        /// Bytes of the parts together.
        len: usize,
        /// [`PATH_MAX`](crate::PATH_MAX).
        max: usize,
    },
    /// The links of the nic were not opened: they are open already, or the nic is down.
    #[error(transparent)]
    Listen(#[from] OpenError),
    /// The links of the nic were not opened: the nic has no reliable level, and links lose nothing.
    /// A fabric that loses messages opens nics with a [window](egret_net::fabric::window).
    #[error("the nic has no reliable level, which links need")]
    Unreliable,
    /// The links of the nic were not opened: the operating system gives no thread to drive them in
    /// the background.
    #[error("no thread to drive the links in the background: {why}")]
    Thread {
        /// What the operating system said.
        why: String,
    },
}

impl LinkError {
    /// What an error of a connection means for its link.
    pub(crate) fn of(peer: &str, why: &ViError) -> Self {
        let peer = peer.to_owned();
        match why {
            ViError::PeerDied { why } => Self::PeerDied { peer, why },
            ViError::ClosedByPeer => Self::ClosedByPeer { peer },
            ViError::Closed => Self::Closed,
            ViError::Protocol(why) => Self::CutOff { peer, why: (*why).to_owned() },
            ViError::NotTaken(why) => Self::CutOff { peer, why: why.to_string() },
            why => Self::Failed { peer, why: Box::new(why.clone()) },
        }
    }
}
