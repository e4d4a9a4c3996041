//! The handshake of two processes, without any I/O.
//!
//! Each side sends one step at a time: over a stream as bytes in any pieces, over datagrams as one datagram
//! each. The fabric feeds the bytes that arrive, sends those that are outgoing, and keeps the deadline.
//!
//! ```text
//!   Caller                                                Callee
//!   Opening: version, byte order, sign, e ───────────────▶ feed
//!   feed ◀──────────────── Opening: e, its key, or Refusal
//!   Asking: its key, secret, hello, terms ───────────────▶ feed: HandshakeEvent::Hello
//!   feed: HandshakeEvent::Welcome ◀──── Welcome: terms, or Refusal: why
//! ```
//!
//! The cryptography is that of the Noise Protocol, by the crate `snow`; `noise.rs` says which.
//!
//! What always holds here:
//!
//! * Nothing of a peer's is believed before it is proven. What is proven is bound to both keys,
//!   one connection (the key pairs that each side makes for it), one fabric, one version, and all
//!   that both have said. Who has the session can seal the bytes that follow.
//! * A secret that a peer could guess is proven only to the callee whose key the caller
//!   expects, so no stranger that is called or calls has anything to guess from.
//! * Whatever arrives costs at most one step of memory, 1,024 bytes. What is not a handshake is
//!   known by its first bytes; who knows neither the key nor the secret of this side, by one or
//!   two hashes.
//! * The same bytes have the same outcome in whatever pieces they come, and the
//!   bytes behind the end of a handshake are left alone.
//! * A refusal reads the same in every version, so that two versions can tell each
//!   other that they differ.
//!
//! The bytes stand in `docs/wire/handshake.md`.

mod admission;
mod answered_openings;
mod callee;
mod caller;
mod credentials;
mod exchange;
mod fault;
#[cfg(any(test, feature = "fuzzing"))]
#[path = "../../../../../fuzz/models/egret-net/fabric/handshake/fuzzing.rs"]
pub mod fuzzing;
mod noise;
mod primitives;
mod step;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub(in crate::fabric) use self::noise::{PeerProof, Session};
pub(crate) use self::{
    admission::{
        Admission, CallerSource, DISPLACED, HandshakeLimits, HandshakeStage, PendingHandshake,
    },
    callee::Callee,
    caller::{Caller, CallerRequest},
    credentials::Credentials,
    exchange::{Handshake, HandshakeEvent, HandshakeSide},
    step::STEP_MAX,
};
use crate::fabric::common::ConnectRefusal;
use crate::fabric::common::bytes::{CHANGED, Malformed};
use crate::fabric::common::connect_retry::ConnectRetry;
use crate::rt::Instant;
use crate::vi::{ConnectError, HelloError, KeyError, Reliability, SecretError};

/// Why a handshake has failed. A last step may be outgoing that tells the peer: it is worth one try.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum HandshakeError {
    /// The peer was not understood, or speaks another version.
    #[error("{0}")]
    Hello(#[from] HelloError),
    /// The peer has another secret, or only one of the two has one.
    #[error("{0}")]
    Secret(#[from] SecretError),
    /// The peer is not the one that was called, or there is no telling.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// The peer's opening was answered before. The peer is told to make a new one.
    #[error("its opening was received before: it is a recording, or arrived late")]
    Repeated,
    /// The peer refuses.
    #[error("the peer refused: {0}")]
    Refused(ConnectRefusal),
}

impl From<Malformed> for HandshakeError {
    fn from(why: Malformed) -> Self {
        Self::Hello(why.into())
    }
}

impl HandshakeError {
    /// The error for the program whose connector this is, unless another attempt may succeed.
    pub(in crate::fabric) fn final_error(
        self,
        retry: &mut ConnectRetry,
        now: Instant,
    ) -> Option<ConnectError> {
        match self {
            Self::Refused(refusal) => retry.refused(refusal, now),
            why => why.into_error(retry.request.spec.reliability),
        }
    }

    /// What the connecting program is told, which asked for `level`; `None` if it
    /// should try again.
    pub(crate) fn into_error(self, level: Reliability) -> Option<ConnectError> {
        match self {
            // The step may have been changed on its way, and may not be the next time.
            Self::Hello(HelloError::Malformed(CHANGED)) => None,
            Self::Hello(why) => Some(why.into()),
            Self::Secret(why) => Some(why.into()),
            Self::Key(why) => Some(why.into()),
            Self::Repeated => None,
            Self::Refused(refusal) => refusal.into_error(level),
        }
    }
}
