//! The credentials of one side of a handshake, and the sign by which a callee tells callers from strangers.

use std::net::IpAddr;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::answered_openings::AnsweredOpenings;
use super::fault::{Fault, planted};
use crate::vi::{Encrypt, Identity, KEY_BYTES, KeyError, PublicKey, Secret, SecretError};

/// The credentials of one side of a handshake: secret, identity, and whether to encrypt.
#[derive(Debug, Clone)]
pub(crate) struct Credentials {
    /// The name of the fabric: a handshake on one is void on another.
    pub(super) fabric: &'static str,
    pub(super) secret: Secret,
    pub(super) identity: Identity,
    has_secret: bool,
    encrypt: Encrypt,
    /// Whether the kernel says that both ends are processes of one user of this machine.
    is_local: bool,
    /// What was answered in the name of this credentials, and of its clones.
    pub(super) openings: Arc<AnsweredOpenings>,
    #[cfg(any(test, feature = "fuzzing"))]
    ephemeral: Option<[u8; KEY_BYTES]>,
}

/// How a caller shows before anything else that it may be worth a handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sign(pub [u8; SIGN]);

/// Bytes of a sign.
pub(super) const SIGN: usize = 16;
/// No other use of HMAC begins so.
const SIGN_BY_KEY: &[u8] = b"egret: who knows the key knocks";

impl Credentials {
    /// Of a nic of `fabric` that was opened with `secret`; the empty one is none.
    pub(crate) fn new(
        fabric: &'static str,
        secret: Secret,
        identity: Identity,
        encrypt: Encrypt,
    ) -> Self {
        let has_secret = !secret.is_empty();
        Self {
            fabric,
            secret,
            identity,
            has_secret,
            encrypt,
            is_local: false,
            openings: Arc::default(),
            #[cfg(any(test, feature = "fuzzing"))]
            ephemeral: None,
        }
    }

    /// One for tests and fuzzers, whose private key is this byte again and again.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(in crate::fabric) fn of_byte(fabric: &'static str, secret: Secret, byte: u8) -> Self {
        let identity = Identity::of_private(&[byte; KEY_BYTES]);
        Self::new(fabric, secret, identity, Encrypt::default())
    }

    /// The same as a nic has it that has answered no caller yet.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(in crate::fabric) fn unanswered(mut self) -> Self {
        self.openings = Arc::default();
        self
    }

    /// The same where the kernel sees to it that both ends are of one user.
    pub(in crate::fabric) const fn local(mut self) -> Self {
        self.is_local = true;
        self
    }

    /// The same with a key of its handshakes that is known beforehand.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(in crate::fabric) const fn with_ephemeral(mut self, private: [u8; KEY_BYTES]) -> Self {
        self.ephemeral = Some(private);
        self
    }

    /// The private key of the next handshake, if it is to be this one.
    pub(super) fn ephemeral(&self) -> Option<[u8; KEY_BYTES]> {
        #[cfg(any(test, feature = "fuzzing"))]
        let known = self.ephemeral;
        #[cfg(not(any(test, feature = "fuzzing")))]
        let known = None;
        if planted(Fault::EphemeralRepeated) { Some([7; KEY_BYTES]) } else { known }
    }

    /// The secret, which may be the empty one.
    pub(in crate::fabric) const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The key that this side proves.
    pub(in crate::fabric) const fn key(&self) -> PublicKey {
        self.identity.key()
    }

    /// Whether this side would have the bytes of a connection with a peer at this address go as
    /// they are. They do if both sides would.
    pub(in crate::fabric) const fn is_plain_to(&self, at: IpAddr) -> bool {
        match self.encrypt {
            Encrypt::Always => false,
            Encrypt::Never => true,
            Encrypt::BetweenMachines => at.to_canonical().is_loopback(),
        }
    }

    /// The flag of an opening that says whether this side has a secret.
    pub(super) const fn flags(&self) -> u8 {
        if self.has_secret { HAS_SECRET } else { 0 }
    }

    /// Whether the two can agree, if the caller's opening has these `flags`.
    pub(super) const fn check_flags(&self, flags: u8) -> Result<(), SecretError> {
        match (self.has_secret, flags & HAS_SECRET != 0) {
            (true, false) => Err(SecretError::OnlyOurs),
            (false, true) => Err(SecretError::OnlyTheirs),
            _ => Ok(()),
        }
    }

    /// Whether the secret may be proven to the holder of this key. A secret that a person chose could be
    /// guessed by a peer that is shown a proof of it, so it is not shown to a stranger.
    pub(in crate::fabric) fn check_callee(
        &self,
        expected: Option<PublicKey>,
    ) -> Result<(), KeyError> {
        let is_safe = !self.has_secret || self.secret.is_random() || self.is_local;
        if expected.is_some() || is_safe || planted(Fault::GuessesAllowed) {
            return Ok(());
        }
        Err(KeyError::Unknown)
    }

    /// The sign of a caller that says `words` to whom it expects to have this key.
    pub(super) fn sign(&self, expected: Option<PublicKey>, words: &[u8]) -> Sign {
        let mac = expected.map_or_else(|| self.secret_sign(), |key| key_sign(&key));
        let hash = mac.chain_update(words).finalize().into_bytes();
        Sign(*hash.first_chunk().expect("it is longer"))
    }

    /// Whether a caller with this sign knows the key of this side, or has the secret if that
    /// cannot be guessed; without a secret everybody may call. Costs two hashes, where a handshake
    /// costs a hundred times as much.
    pub(super) fn admits(&self, sign: &Sign, words: &[u8]) -> bool {
        let is_right =
            |mac: Hmac<Sha256>| mac.chain_update(words).verify_truncated_left(&sign.0).is_ok();
        let by_secret = !self.has_secret || self.secret.is_random() || self.is_local;
        is_right(key_sign(&self.key()))
            || by_secret && is_right(self.secret_sign())
            || planted(Fault::SignUnchecked)
    }

    /// How many handshakes it has begun as a callee.
    #[cfg(test)]
    pub(in crate::fabric) fn handshakes(&self) -> u64 {
        self.openings.count()
    }

    fn secret_sign(&self) -> Hmac<Sha256> {
        // What a secret that can be guessed signs is a hint to it.
        if self.has_secret && self.secret.is_random() {
            return self.secret.sign_mac();
        }
        key_sign(&PublicKey([0; KEY_BYTES]))
    }
}

fn key_sign(key: &PublicKey) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(&key.0).expect("a key of any length");
    mac.chain_update(SIGN_BY_KEY)
}

/// In an opening: the sender has a secret.
pub(super) const HAS_SECRET: u8 = 1;
/// In an opening: the sender would have the bytes of the connection go as they are.
pub(super) const PLAIN: u8 = 2;
