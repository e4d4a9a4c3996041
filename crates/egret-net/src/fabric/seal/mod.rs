//! Sealing: the bytes of a connection, encrypted and proven, without any I/O.
//!
//! The handshake leaves each end with two [`SealKeys`], one for each direction. What leaves is sealed
//! with AES-256-GCM, and what comes is opened: bytes that were changed, repeated, left out or put
//! in another order on their way do not open.
//!
//! | file | what it does |
//! |---|---|
//! | `key.rs` | a key, and the key that follows it |
//! | `cipher.rs` | AES-256-GCM, by the implementation that this processor allows |
//! | `epoch.rs` | which records one key seals |
//! | `counted.rs` | for a stream: records are counted by both ends, and no number is sent |
//! | `numbered.rs`, `window.rs` | for datagrams: each says its number, and may be lost or late |
//!
//! # Numbers
//!
//! Every record has a number, from 0 on, and the nonce of a record is its number, as in the
//! transport phase of Noise with AESGCM: four zero bytes and 64 bits, the highest byte first. A key
//! and a nonce are used once together, since a sealer never goes back.
//!
//! # How long a key lasts
//!
//! Both ends take the [next key](SealKey::next) at the same number, each 2²⁰ records, so nothing has to
//! be signalled, and number and key of a record belong together whatever else was lost.
//!
//! A record of a stream holds at most 2¹⁴ + 24 bytes, which are 2¹⁰ + 2 blocks of 16 bytes, and its
//! tag takes two more. One key seals at most 2²⁰ · (2¹⁰ + 4) ≈ 2³⁰ blocks, 16 GiB. Who sees all of
//! that tells the cipher from chance with a probability of at most (2³⁰)² / 2¹²⁹ = 2⁻⁶⁹; at 6 GB/s a
//! key lasts 3 s. Other bytes pass as a record with a probability of at most 2¹¹ / 2¹²⁸ = 2⁻¹¹⁷ for
//! each attempt: on a stream the first that fails is the last, and of datagrams, which are larger by
//! a factor of four at most, 2⁵⁰ attempts, which take three years at ten million in a second, come
//! to 2⁻⁶⁵.
//!
//! A key that is taken from memory opens nothing that was sealed before it, as the step to the next
//! key cannot be undone.

mod cipher;
mod counted;
mod epoch;
mod fault;
mod key;
mod numbered;
#[cfg(test)]
mod tests;
mod window;

use thiserror::Error;

pub(in crate::fabric) use cipher::TAG;
pub(in crate::fabric) use counted::{Opener, Sealer};
#[cfg(test)]
pub(in crate::fabric) use fault::Fault;
#[cfg(any(test, feature = "fuzzing"))]
pub(in crate::fabric) use key::KEY;
pub(in crate::fabric) use key::{SealKey, SealKeys};
pub(in crate::fabric) use numbered::{NumberedOpener, NumberedSealer};

/// The cipher alone, under a key of its own: a limit of the benchmarks, which seals nothing of value.
#[cfg(feature = "limits")]
#[derive(Debug)]
pub struct Alone(cipher::Cipher);

#[cfg(feature = "limits")]
impl Default for Alone {
    fn default() -> Self {
        Self(cipher::Cipher::new(&SealKey::new([0; 32])))
    }
}

#[cfg(feature = "limits")]
impl Alone {
    /// Seals in place, always under the same number.
    pub fn seal(&self, bytes: &mut [u8]) -> cipher::Tag {
        self.0.seal(0, &[], bytes)
    }

    /// Whether what was sealed by the same key is open now.
    pub fn open(&self, bytes: &mut [u8], tag: &cipher::Tag) -> bool {
        self.0.open(0, &[], bytes, tag).is_ok()
    }

    /// The same with the tag at hand.
    pub fn open_of(&self, bytes: &mut [u8], tag: cipher::Tag) -> bool {
        self.open(bytes, &tag)
    }
}

/// Why a record was not sealed, or not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{}", self.text())]
pub(in crate::fabric) enum SealError {
    /// The tag is wrong.
    Forged,
    /// The record was opened before.
    Repeated,
    /// The record is so old that it is unknown whether it was opened before.
    Old,
    /// The number is of a key that is not the next.
    Far,
    /// There is no number left.
    Worn,
}

/// What a connection can end by.
pub(in crate::fabric) const TEXTS: [&str; 5] = [
    SealError::Forged.text(),
    SealError::Repeated.text(),
    SealError::Old.text(),
    SealError::Far.text(),
    SealError::Worn.text(),
];

impl SealError {
    /// In words, which an error of a connection keeps.
    pub(in crate::fabric) const fn text(self) -> &'static str {
        match self {
            Self::Forged => "a sealed record that is not what was sealed, or not in its place",
            Self::Repeated => "a sealed record that came before",
            Self::Old => "a sealed record that is older than those that are kept track of",
            Self::Far => "a sealed record of a time to come",
            Self::Worn => "a connection has sealed as many records as there are numbers",
        }
    }
}
