//! A secret that two sides prove to each other and never tell.
//!
//! Challenge and response, without any I/O. Each side contributes a [`Nonce`] to
//! a [`Challenge`] and shows a [`Proof`] for it: an HMAC with SHA-256 over the
//! side, both nonces, and what the fabric knows of the connection. So a proof is
//! of no use on another connection, at another time, or to the side it was shown
//! to.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::rt;

/// What the processes that may trust each other know and others do not; for
/// [`NicOptions::secret`](super::NicOptions::secret).
///
/// It never leaves the process: it is proven. Take 16 random bytes or more; a
/// peer that was shown a proof can try guesses at its leisure. It is not
/// printed, compared in constant time, and wiped when it is dropped. An empty
/// one, which everybody has, opens no nic.
///
/// ```
/// use egret_net::vi::Secret;
///
/// let secret = Secret::from("correct horse");
/// assert_eq!(format!("{secret:?}"), "Secret(..)");
/// assert_eq!(secret, Secret::new(b"correct horse"));
/// assert_ne!(Secret::random(), Secret::random());
/// assert!(Secret::from("").is_empty());
/// ```
#[derive(Clone)]
pub struct Secret(Zeroizing<[u8; HASH_BYTES]>);

/// A number used once: random, and new for every connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nonce(pub [u8; HASH_BYTES]);

/// Shows that its maker has the secret.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(test, derive(PartialEq, Eq))]
pub(crate) struct Proof(pub [u8; HASH_BYTES]);

/// Who shows a proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Side {
    Connecting = 1,
    Listening = 2,
}

/// What a proof is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Challenge {
    /// The nonce of the connecting side.
    pub connecting: Nonce,
    /// The nonce of the listening side.
    pub listening: Nonce,
    /// What both sides know of this connection without being told by the other.
    pub context: Vec<u8>,
}

pub(crate) const HASH_BYTES: usize = 32;
/// No other use of HMAC with this secret begins so.
const PURPOSE: &[u8] = b"egret: a side of a connection has the secret";
const SIGNING: &[u8] = b"egret: who has the secret says this to a group";
/// Bytes of a signature.
pub(crate) const SIGNATURE: usize = 16;

impl Secret {
    /// Made of any bytes. Of none it is [empty](Self::is_empty): what is opened with
    /// that says so, and is not opened.
    #[must_use]
    pub fn new(bytes: impl AsRef<[u8]>) -> Self {
        Self(Zeroizing::new(Sha256::digest(bytes).into()))
    }

    /// One that nobody else has: for nics and nodes of one process.
    #[must_use]
    pub fn random() -> Self {
        Self::new(Nonce::new().0)
    }

    /// Whether it was made of no bytes at all, and so is everybody's.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::none()
    }

    /// What both sides prove if neither has a secret.
    pub(crate) fn none() -> Self {
        Self::new([])
    }

    /// The proof that `side` shows.
    pub(crate) fn prove(&self, challenge: &Challenge, side: Side) -> Proof {
        Proof(self.mac(challenge, side).finalize().into_bytes().into())
    }

    /// Whether `proof` is the one that `side` must show, in constant time.
    pub(crate) fn verify(&self, challenge: &Challenge, side: Side, proof: &Proof) -> bool {
        self.mac(challenge, side).verify_slice(&proof.0).is_ok()
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
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.0).expect("a key of any length");
        mac.update(SIGNING);
        parts.for_each(|part| mac.update(part));
        mac
    }

    /// What varies in length comes last, so that no two challenges read the same.
    fn mac(&self, challenge: &Challenge, side: Side) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&*self.0).expect("a key of any length");
        mac.update(PURPOSE);
        mac.update(&[side as u8]);
        mac.update(&challenge.connecting.0);
        mac.update(&challenge.listening.0);
        mac.update(&challenge.context);
        mac
    }
}

impl Nonce {
    pub(crate) fn new() -> Self {
        let mut bytes = [0; HASH_BYTES];
        for word in bytes.as_chunks_mut().0 {
            *word = rt::random().to_ne_bytes();
        }
        Self(bytes)
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
    /// Whether each proves what the other does.
    fn eq(&self, other: &Self) -> bool {
        let nonce = Nonce([0; HASH_BYTES]);
        let same = Challenge { connecting: nonce, listening: nonce, context: Vec::new() };
        self.verify(&same, Side::Connecting, &other.prove(&same, Side::Connecting))
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
    use proptest::prelude::*;

    use super::*;

    fn challenge() -> Challenge {
        let (connecting, listening) = (Nonce::new(), Nonce::new());
        Challenge { connecting, listening, context: b"here".to_vec() }
    }

    #[test]
    fn who_has_the_secret_proves_it() {
        let (secret, challenge) = (Secret::from("one"), challenge());
        for side in [Side::Connecting, Side::Listening] {
            let proof = secret.prove(&challenge, side);
            assert!(Secret::new(b"one").verify(&challenge, side, &proof));
            assert!(!Secret::from("two").verify(&challenge, side, &proof));
            assert!(!Secret::none().verify(&challenge, side, &proof));
        }
    }

    #[test]
    fn a_proof_is_for_one_side_one_time_and_one_place() {
        let (secret, now) = (Secret::from("one"), challenge());
        let proof = secret.prove(&now, Side::Listening);
        assert!(!secret.verify(&now, Side::Connecting, &proof), "shown back");
        let swapped =
            Challenge { connecting: now.listening, listening: now.connecting, ..now.clone() };
        let elsewhere = Challenge { context: b"there".to_vec(), ..now.clone() };
        let later = Challenge { listening: Nonce::new(), ..now.clone() };
        let to_another = Challenge { connecting: Nonce::new(), ..now };
        for other in [swapped, elsewhere, later, to_another] {
            assert!(!secret.verify(&other, Side::Listening, &proof), "{other:?}");
        }
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

    /// Made with Python's `hmac` and `hashlib`.
    #[test]
    fn the_proof_is_this_for_ever() {
        let (connecting, listening) = (Nonce([1; 32]), Nonce([2; 32]));
        let challenge = Challenge { connecting, listening, context: b"c".to_vec() };
        let Proof(proof) = Secret::from("egret").prove(&challenge, Side::Connecting);
        let shown: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown, "15aada05187272f6c6c371accccbd78f84fc506df67367d5faf3c03776f0260b");
    }

    #[test]
    fn nonces_differ_and_secrets_are_not_shown() {
        assert_ne!(Nonce::new(), Nonce::new());
        let shown = format!("{:?}", crate::vi::NicOptions::new("a").secret(Secret::from("hush")));
        assert!(shown.contains("Secret(..)") && !shown.contains("hush"), "{shown}");
    }

    proptest! {
        #[test]
        fn one_flipped_bit_is_no_proof(bit in 0..256_usize, text in "\\PC{0,20}") {
            let (secret, challenge) = (Secret::from(text.as_str()), challenge());
            let mut proof = secret.prove(&challenge, Side::Connecting);
            prop_assert!(secret.verify(&challenge, Side::Connecting, &proof));
            proof.0[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!secret.verify(&challenge, Side::Connecting, &proof));
        }
    }
}
