//! Why a link is no more, or was not made.

use std::time::Duration;

use egret_net::vi::{ConnectError, ListenError, ViError};
use thiserror::Error;

/// What became of a message that the peer has not acknowledged when its link died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The peer has never seen it.
    NotDelivered,
    /// The peer may have seen it, and may have acted on it.
    Unknown,
}

/// Why a link is no more.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The peer is gone without having closed the link.
    #[error("{peer} died: {why}")]
    PeerDied {
        /// Its host.
        peer: String,
        /// How that became known.
        why: &'static str,
    },
    /// The peer closed the link.
    #[error("{peer} closed the link")]
    ClosedByPeer {
        /// Its host.
        peer: String,
    },
    /// The peer closed the link, and said that it has failed; or this side knows so and
    /// [ended](crate::Links::end_link) it.
    #[error("{peer} failed: {why}")]
    PeerFailed {
        /// Its host.
        peer: String,
        /// What is said of it.
        why: String,
    },
    /// This side closed it.
    #[error("the link was closed on this side")]
    Closed,
    /// The peer did what no honest one does, and was cut off.
    #[error("{peer} was cut off: {why}")]
    CutOff {
        /// Its host.
        peer: String,
        /// What it did.
        why: String,
    },
    /// The peer called again, in a new life or because its side of the link had died.
    #[error("{peer} has made a new link")]
    Replaced {
        /// Its host.
        peer: String,
    },
    /// The connection failed in another way.
    #[error("the connection to {peer} failed: {why}")]
    Failed {
        /// Its host.
        peer: String,
        /// How.
        why: Box<ViError>,
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

/// Why no link was made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkUpError {
    /// The peer cannot be reached. What is inside tells apart that there is no such host
    /// ([`UnknownHost`](ConnectError::UnknownHost)), that nobody has links there
    /// ([`NotListening`](ConnectError::NotListening)), and that it does not accept
    /// ([`NotAccepted`](ConnectError::NotAccepted)), as far as the fabric knows.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// It was reached, and the link ended before it was up.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The deadline passed, and the fabric does not know more.
    #[error("{peer} has not answered within {waited:?}")]
    TimedOut {
        /// Its host.
        peer: String,
        /// How long.
        waited: Duration,
    },
    /// The peer has as many links as it takes, and all of them are used:
    /// [`LinksOptions::peers_max`](crate::LinksOptions::peers_max), which follows from the
    /// size of the pool.
    #[error("{peer} takes {links} links (LinksOptions::peers_max), and all of them are used")]
    Full {
        /// Its host.
        peer: String,
        /// How many it takes.
        links: u32,
    },
    /// The host is no member of the pool, as far as this node knows.
    #[error("{peer} is no member of the pool: the registry has told of no node there")]
    NotMember {
        /// Its host.
        peer: String,
    },
    /// A node has no link to itself, so that its endpoints cannot map each other.
    #[error(
        "a node has no link to itself: its endpoints cannot map each other, and call each other's \
         functions instead"
    )]
    Oneself,
    /// A handler must not wait: [`in_handler`](crate::am::in_handler) says what answers this,
    /// and what to do instead.
    #[error("a handler may not wait for a link")]
    InHandler,
}

/// Why the links of a nic were not opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Somebody else has opened them, or the nic is down.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The fabric has no memory to receive into.
    #[error(transparent)]
    Pool(#[from] egret_net::buf::PoolError),
    /// The nic has no reliable level, and links lose nothing. A fabric that loses opens nics with a
    /// [window](egret_net::fabric::window).
    #[error("the nic has no reliable level")]
    Unreliable,
    /// The operating system gives no thread to drive them in the background.
    #[error("no thread to drive the links in the background: {0}")]
    Thread(std::io::Error),
}
