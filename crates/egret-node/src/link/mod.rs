//! Links: what two nodes send each other, once and in order while the link lives, with an
//! account of everything when it dies.

pub(crate) mod arrived;
pub(crate) mod carrier;
pub(crate) mod control;
mod counters;
mod error;
mod head;
mod kept;
pub(crate) mod lands;

pub use counters::LinkCounters;
pub use error::{Fate, LinkError, LinkUpError, OpenError};
pub(crate) use head::{Head, Kind, Lane};

/// What a fuzzer calls: bytes that become frames of a link. Not for use.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    /// A peer sends any frames.
    pub fn frames(input: &[u8]) {
        crate::links::fuzzing::frames(input);
    }
}
