//! How two processes greet each other over a network, without any I/O.
//!
//! Each side says one step at a time: over a stream as bytes in any
//! pieces, over datagrams as one datagram each. Who uses it feeds what came,
//! sends what is outgoing, and keeps the deadline.
//!
//! ```text
//!   Caller                                                Callee
//!   Opening: version, byte order, sign, e ───────────────▶ feed
//!   feed ◀──────────────── Opening: e, its key, or Refusal
//!   Asking: its key, secret, hello, terms ───────────────▶ feed: News::Hello
//!   feed: News::Welcome ◀──── Welcome: terms, or Refusal: why
//! ```
//!
//! The cryptography is that of the Noise Protocol, by the crate `snow`; `noise.rs` says which.
//!
//! What always holds here:
//!
//! * Nothing of a peer's is believed before it is proven. What is proven is bound to both keys,
//!   one connection (the key pairs that each side makes for it), one fabric, one version, and all
//!   that both have said. Who has the session can seal the bytes that follow.
//! * A secret that somebody could guess is proven only to the callee whose key the caller
//!   expects, so whoever is called or calls has nothing to guess from.
//! * Whatever arrives costs at most one step of memory, 1,024 bytes. What is not a greeting is
//!   known by its first bytes; who knows neither the key nor the secret of this side, by one or
//!   two hashes.
//! * The same bytes have the same outcome in whatever pieces they come, and the
//!   bytes behind the end of a greeting are left alone.
//! * A refusal reads the same in every version, so that two versions can tell each
//!   other that they differ.
//!
//! The bytes stand in `docs/greeting.md`.

mod admission;
mod callee;
mod caller;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod noise;
mod openings;
mod primitives;
mod stance;
mod step;
mod talk;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub(in crate::fabric) use self::noise::{Known, Session};
pub(crate) use self::{
    admission::{Admission, DISPLACED, Room, Source, Stage, UnderWay},
    callee::Callee,
    caller::{Caller, Wanted},
    stance::Stance,
    step::STEP_MAX,
    talk::{Greeter, News, Speaker},
};
use crate::fabric::hub::Refusal;
use crate::fabric::hub::bytes::{CHANGED, Malformed};
use crate::vi::{ConnectError, HelloError, KeyError, Reliability, SecretError};

/// Why a greeting came to nothing. A last step may be outgoing that tells the
/// peer: it is worth one try.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum GreetError {
    /// The peer was not understood, or speaks another version.
    #[error("{0}")]
    Hello(#[from] HelloError),
    /// The peer has another secret, or only one of the two has one.
    #[error("{0}")]
    Secret(#[from] SecretError),
    /// The peer is not the one that was called, or there is no telling.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// The peer's opening was answered before. It is told to make a new one.
    #[error("its opening was heard before: somebody has recorded it, or it came late")]
    Repeated,
    /// The peer says no.
    #[error("the peer refused: {0}")]
    Refused(Refusal),
}

impl From<Malformed> for GreetError {
    fn from(why: Malformed) -> Self {
        Self::Hello(why.into())
    }
}

impl GreetError {
    /// What the connecting program is told, which asked for `level`; `None` if it
    /// should try again.
    pub(crate) fn into_error(self, level: Reliability) -> Option<ConnectError> {
        match self {
            // Somebody in between may have changed it, and may not the next time.
            Self::Hello(HelloError::Malformed(CHANGED)) => None,
            Self::Hello(why) => Some(ConnectError::Hello(why)),
            Self::Secret(why) => Some(ConnectError::Secret(why)),
            Self::Key(why) => Some(ConnectError::Key(why)),
            Self::Repeated => None,
            Self::Refused(refusal) => refusal.into_error(level),
        }
    }
}
