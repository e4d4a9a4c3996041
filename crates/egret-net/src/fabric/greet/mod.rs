//! How two processes greet each other over a network, without any I/O.
//!
//! Each side says one step at a time: over a stream as bytes in any
//! pieces, over datagrams as one datagram each. Who uses it feeds what came,
//! sends what is outgoing, and keeps the deadline.
//!
//! ```text
//!   Caller                                                Callee
//!   Opening: version, byte order, nonce ────────────────▶ feed
//!   feed ◀──────────────── Opening: the same of its own, or Refusal
//!   Asking: proof, hello, terms ────────────────────────▶ feed: News::Hello
//!   feed: News::Welcome ◀──── Welcome: proof, terms, or Refusal: proof, why
//! ```
//!
//! What always holds here:
//!
//! * Nothing of a peer's is believed before its proof is checked. A proof is for
//!   one side, one connection (both nonces), one fabric, and all that both have
//!   said; the secret itself is not told. The bytes that follow a greeting are
//!   not covered by it.
//! * Whatever arrives costs at most one step of memory, 1,024 bytes, and at
//!   most one proof to check. What is not a greeting is known by its first bytes.
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
mod proof;
mod step;
mod talk;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub(crate) use self::{
    admission::{Admission, DISPLACED, Room, Source, UnderWay},
    callee::Callee,
    caller::Caller,
    proof::Stance,
    step::STEP_MAX,
    talk::{Greeter, News, Speaker},
};
use crate::fabric::hub::Refusal;
use crate::fabric::hub::bytes::Malformed;
use crate::vi::{ConnectError, HelloError, Reliability, SecretError};

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
            Self::Hello(why) => Some(ConnectError::Hello(why)),
            Self::Secret(why) => Some(ConnectError::Secret(why)),
            Self::Refused(refusal) => refusal.into_error(level),
        }
    }
}
