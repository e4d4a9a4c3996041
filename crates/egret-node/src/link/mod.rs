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
pub(crate) mod window;
pub(crate) mod windowed;

pub use counters::LinkCounters;
pub use error::{Fate, LinkError, LinkUpError, OpenError};
pub(crate) use head::{Head, Kind, Lane};

/// What a fuzzer calls: bytes that become datagrams of a link. Not for use.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    /// A peer sends any datagrams.
    pub fn datagrams(input: &[u8]) {
        super::window::fuzzing::datagrams(input);
    }

    /// A peer sends any frames.
    pub fn frames(input: &[u8]) {
        crate::links::fuzzing::frames(input);
    }

    /// Two windows talk over a network that does anything.
    pub fn conversation(input: &[u8]) {
        super::window::fuzzing::conversation(input);
    }
}
