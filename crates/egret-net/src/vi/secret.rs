//! A secret that two sides prove to each other and never tell.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::identity::{KEY_BYTES, PublicKey, push_hex, random_key, read_hex};
use crate::buf::Hidden;

/// What the processes that may trust each other know and others do not; for
/// [`NicOptions::secret`](super::NicOptions::secret).
///
/// A secret never leaves the process: it is proven. It is not printed, compared in constant time, left
/// out of core dumps where the system allows that, and wiped when it is dropped. An empty one, which everybody has, opens no nic.
///
/// A secret made of a text that a person chose can be guessed. So a nic on a network proves such a one
/// only to a peer whose key it knows, which [`Address::key`](super::Address::key) or the
/// [key in a secret](Self::with_key) says. A [random](Self::random) one it proves to any peer.
///
/// ```
/// use egret_net::vi::Secret;
///
/// let secret = Secret::from("correct horse");
/// assert_eq!(format!("{secret:?}"), "Secret(..)");
/// assert_eq!(secret, Secret::new(b"correct horse"));
/// assert!(Secret::from("").is_empty());
///
/// let random = Secret::random();
/// assert_ne!(random, Secret::random());
/// // Its text, for the other processes.
/// let text = random.reveal().expect("a random one has a text");
/// assert_eq!(Secret::from(text.as_str()), random);
/// ```
#[derive(Clone)]
pub struct Secret {
    bytes: Hidden<KEY_BYTES>,
    is_random: bool,
    is_empty: bool,
    key: Option<PublicKey>,
}

/// No other use of HMAC with this secret begins so.
const SIGNING: &[u8] = b"egret: who has the secret says this to a group";
const SIGN_BY_SECRET: &[u8] = b"egret: who has the secret knocks";
const COMPARING: &[u8] = b"egret: two secrets are the same";
/// Bytes of a signature.
pub(crate) const SIGNATURE: usize = 16;
/// How the text of a random secret begins.
const TEXT: &str = "egret1.";

impl Secret {
    /// Made of any bytes, which a person may have chosen; the [text](Self::reveal) of a random one
    /// is that one. Of no bytes it is [empty](Self::is_empty): what is opened with that says so,
    /// and is not opened.
    #[must_use]
    pub fn new(bytes: impl AsRef<[u8]>) -> Self {
        let revealed = str::from_utf8(bytes.as_ref()).ok().and_then(Self::read);
        revealed.unwrap_or_else(|| {
            let is_empty = bytes.as_ref().is_empty();
            let bytes = Hidden::new(Sha256::digest(bytes).into());
            Self { bytes, is_random: false, is_empty, key: None }
        })
    }

    /// 32 bytes that cannot be guessed.
    #[must_use]
    pub fn random() -> Self {
        Self::of_random(*random_key())
    }

    /// The same secret with the key of its maker: of a pool, that of its registry.
    #[must_use]
    pub const fn with_key(mut self, key: PublicKey) -> Self {
        self.key = Some(key);
        self
    }

    /// The key in it, if one is.
    #[must_use]
    pub const fn key(&self) -> Option<PublicKey> {
        self.key
    }

    /// The text by which other processes are told a random secret, with its key if it has one. It
    /// *is* the secret: it belongs in a file that no other user can read, or in a pipe. `None` for
    /// one that was made of other bytes, which are not kept.
    #[must_use]
    pub fn reveal(&self) -> Option<Zeroizing<String>> {
        if !self.is_random {
            return None;
        }
        let mut text = Zeroizing::new(String::with_capacity(TEXT.len() + 4 * KEY_BYTES + 1));
        text.push_str(TEXT);
        push_hex(&mut text, &*self.bytes);
        if let Some(key) = self.key {
            text.push('.');
            push_hex(&mut text, &key.0);
        }
        Some(text)
    }

    /// Whether a text is meant to be that of a random secret, and is not.
    #[must_use]
    pub fn is_damaged(text: &str) -> bool {
        text.starts_with(TEXT) && Self::read(text).is_none()
    }

    fn read(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(TEXT)?;
        let (bytes, key) = match rest.split_once('.') {
            None => (rest, None),
            Some((bytes, key)) => (bytes, Some(key.parse().ok()?)),
        };
        let read = Self::of_random(read_hex(bytes)?);
        Some(Self { key, ..read })
    }

    fn of_random(bytes: [u8; KEY_BYTES]) -> Self {
        Self { bytes: Hidden::new(bytes), is_random: true, is_empty: false, key: None }
    }

    /// Whether it was made of no bytes at all, and so is everybody's.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Whether it cannot be guessed: it is [random](Self::random), or was read from such a one's text.
    #[must_use]
    pub const fn is_random(&self) -> bool {
        self.is_random
    }

    /// What both sides prove if neither has a secret.
    pub(crate) fn none() -> Self {
        Self::new([])
    }

    /// What goes into a handshake as the key that both sides have before it.
    pub(crate) fn shared_key(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }

    /// The sign by which a caller shows that it has a secret that cannot be guessed.
    pub(crate) fn sign_mac(&self) -> Hmac<Sha256> {
        self.mac(SIGN_BY_SECRET)
    }

    /// The signature of a datagram to all who have the secret.
    pub(crate) fn sign<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> [u8; SIGNATURE] {
        let hash = self.signing(parts).finalize().into_bytes();
        *hash.first_chunk().expect("it is longer")
    }

    /// Whether one who has the secret signed this, in constant time.
    pub(crate) fn has_signed(&self, bytes: &[u8], signature: &[u8; SIGNATURE]) -> bool {
        self.signing([bytes].into_iter()).verify_truncated_left(signature).is_ok()
    }

    fn signing<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> Hmac<Sha256> {
        let mut mac = self.mac(SIGNING);
        parts.for_each(|part| mac.update(part));
        mac
    }

    fn mac(&self, purpose: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.bytes).expect("a key of any length");
        mac.update(purpose);
        mac
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Self {
        Self::new(bytes)
    }
}

impl PartialEq for Secret {
    /// Whether each proves what the other does; which key is in them does not matter.
    fn eq(&self, other: &Self) -> bool {
        let theirs = other.mac(COMPARING).finalize().into_bytes();
        self.mac(COMPARING).verify_slice(&theirs).is_ok()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Identity;
    use super::*;

    #[test]
    fn a_random_secret_is_read_as_it_is_revealed() {
        let (secret, key) = (Secret::random(), Identity::random().key());
        for secret in [secret.clone(), secret.with_key(key)] {
            let text = secret.reveal().unwrap();
            let read = Secret::new(text.as_bytes());
            assert_eq!((&read, read.key()), (&secret, secret.key()));
            assert!(read.is_random());
            let cut = &text[..text.len() - 1];
            assert!(Secret::is_damaged(cut) && !Secret::is_damaged(&text));
            assert!(!Secret::from(cut).is_random());
        }
    }

    #[test]
    fn a_chosen_secret_is_neither_random_nor_revealed() {
        let secret = Secret::from("correct horse");
        assert!(!secret.is_random() && secret.reveal().is_none());
        assert!(!Secret::is_damaged("correct horse"));
        assert_ne!(secret, Secret::from("correct horsf"));
        assert!(Secret::none().is_empty() && !secret.is_empty());
    }

    #[test]
    fn what_is_signed_is_signed_as_a_whole() {
        let secret = Secret::from("one");
        let parts: [&[u8]; 3] = [b"to", b"", b"gether"];
        let mut signature = secret.sign(parts.into_iter());
        assert!(secret.has_signed(b"together", &signature));
        assert!(!secret.has_signed(b"togethe", &signature));
        assert!(!Secret::from("two").has_signed(b"together", &signature));
        signature[15] ^= 1;
        assert!(!secret.has_signed(b"together", &signature));
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = format!("{:?}", crate::vi::NicOptions::new("a").secret(Secret::from("hush")));
        assert!(shown.contains("Secret(..)") && !shown.contains("hush"), "{shown}");
    }
}
