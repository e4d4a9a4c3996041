//! The identity of a process: a key pair that it makes when it begins and keeps to itself.

use std::fmt;
use std::str::FromStr;

use curve25519_dalek::MontgomeryPoint;
use thiserror::Error;
use zeroize::Zeroizing;

use crate::buf::Hidden;
use crate::rt;

/// The key pair of one life of a process, for [`NicOptions::identity`](super::NicOptions::identity).
///
/// A peer that connects with a nic learns the nic's [public key](Self::key), and that the nic has the
/// private half. A nic that is given no identity makes one; nics that are given the same one are
/// known to be of one process, whatever their fabric. The private half is not printed, left out of
/// core dumps where the system allows that, and wiped when the last copy is dropped.
///
/// ```
/// use egret_net::vi::Identity;
///
/// let (one, other) = (Identity::random(), Identity::random());
/// assert_ne!(one.key(), other.key());
/// assert_eq!(one.clone(), one);
/// assert_eq!(one.key().to_string().parse(), Ok(one.key()));
/// ```
#[derive(Clone)]
pub struct Identity {
    private: Hidden<KEY_BYTES>,
    public: PublicKey,
}

/// What a process is known by: the public half of its [`Identity`], written as 64 hexadecimal
/// digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey(pub(crate) [u8; KEY_BYTES]);

/// A text that is no key.
///
/// ```
/// use egret_net::vi::{NoKey, PublicKey};
///
/// let error: NoKey = "0123".parse::<PublicKey>().unwrap_err();
/// assert_eq!(error.to_string(), "a key is 64 hexadecimal digits");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a key is 64 hexadecimal digits")]
#[non_exhaustive]
pub struct NoKey;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;

impl Identity {
    /// A new one.
    ///
    /// # Panics
    ///
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn random() -> Self {
        Self::of_private(&random_key())
    }

    /// The identity with this private key.
    #[must_use]
    pub fn of_private(private: &[u8; 32]) -> Self {
        let public = PublicKey(MontgomeryPoint::mul_base_clamped(*private).to_bytes());
        Self { private: Hidden::new(*private), public }
    }

    /// What others know it by.
    #[must_use]
    pub const fn key(&self) -> PublicKey {
        self.public
    }

    /// The private key as 64 hexadecimal digits, to be written where no other user can read it;
    /// [`str::parse`] makes the identity of them again.
    #[must_use]
    pub fn reveal(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(2 * KEY_BYTES));
        push_hex(&mut text, &*self.private);
        text
    }

    /// The private key.
    pub(crate) fn private(&self) -> Zeroizing<[u8; KEY_BYTES]> {
        Zeroizing::new(*self.private)
    }
}

/// 32 random bytes.
pub(crate) fn random_key() -> Zeroizing<[u8; KEY_BYTES]> {
    let mut bytes = Zeroizing::new([0; KEY_BYTES]);
    for word in bytes.as_chunks_mut().0 {
        *word = rt::random().to_ne_bytes();
    }
    bytes
}

impl PublicKey {
    /// Its bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 32] {
        self.0
    }

    /// The key of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// Bytes as hexadecimal digits.
pub(super) fn push_hex(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        out.extend(
            [byte >> 4, byte & 15].map(|digit| char::from(b"0123456789abcdef"[digit as usize])),
        );
    }
}

/// The bytes of 64 hexadecimal digits.
pub(super) fn read_hex(text: &str) -> Option<[u8; KEY_BYTES]> {
    let mut bytes = [0; KEY_BYTES];
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != KEY_BYTES || !rest.is_empty() {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(pairs) {
        for digit in digits {
            let value = char::from(*digit).to_digit(16)?;
            *byte = *byte << 4 | u8::try_from(value).ok()?;
        }
    }
    Some(bytes)
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(2 * KEY_BYTES);
        push_hex(&mut text, &self.0);
        f.write_str(&text)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

impl FromStr for PublicKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        read_hex(text).map(Self).ok_or(NoKey)
    }
}

impl FromStr for Identity {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        let private = Zeroizing::new(read_hex(text).ok_or(NoKey)?);
        Ok(Self::of_private(&private))
    }
}

impl PartialEq for Identity {
    /// Whether both have the same key.
    fn eq(&self, other: &Self) -> bool {
        self.public == other.public
    }
}

impl Eq for Identity {}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with another implementation, Python's `cryptography`.
    #[test]
    fn the_public_key_is_that_of_the_curve() {
        let private = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let public = "8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f";
        assert_eq!(Identity::of_private(&private).key().to_string(), public);
    }

    #[test]
    fn a_key_is_read_as_it_is_written() {
        let key = Identity::random().key();
        let text = key.to_string();
        assert_eq!((text.len(), text.parse()), (64, Ok(key)));
        for wrong in [&text[1..], &format!("{text}0"), &text.replace(&text[..1], "g"), ""] {
            assert_eq!(wrong.parse::<PublicKey>(), Err(NoKey), "{wrong}");
        }
    }

    #[test]
    fn the_private_half_is_not_shown() {
        let identity = Identity::random();
        let private = identity.reveal();
        assert!(!format!("{identity:?}").contains(&*private));
        assert_eq!(private.parse::<Identity>(), Ok(identity.clone()));
        assert_eq!(Identity::of_private(&identity.private()), identity);
    }
}
