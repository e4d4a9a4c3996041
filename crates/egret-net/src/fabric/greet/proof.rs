//! What the sides prove to each other.

use super::fault::{Fault, planted};
use super::talk::push_bytes;
use crate::vi::{Challenge, HASH_BYTES, Nonce, Proof, Secret, SecretError, Side};

/// What a side of a greeting brings along.
#[derive(Debug, Clone)]
pub(crate) struct Stance {
    /// The name of the fabric: a proof for one is none for another.
    fabric: &'static str,
    secret: Secret,
    has_secret: bool,
}

/// What both have said so far.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub connecting: Nonce,
    pub listening: Nonce,
    /// All else, in order.
    pub words: Vec<u8>,
}

impl Stance {
    /// Of a nic of `fabric` that was opened with `secret`; the empty one is none.
    pub(crate) fn new(fabric: &'static str, secret: Secret) -> Self {
        let has_secret = !secret.is_empty();
        Self { fabric, secret, has_secret }
    }

    /// The secret, which may be the empty one.
    pub(in crate::fabric) const fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The flags of this side's opening.
    pub(super) const fn flags(&self) -> u8 {
        if self.has_secret { HAS_SECRET } else { 0 }
    }

    /// Whether the two can agree, if the peer's opening has these `flags`.
    pub(super) const fn check_flags(&self, flags: u8) -> Result<(), SecretError> {
        match (self.has_secret, flags & HAS_SECRET != 0) {
            (true, false) => Err(SecretError::OnlyOurs),
            (false, true) => Err(SecretError::OnlyTheirs),
            _ => Ok(()),
        }
    }

    /// The proof of `side` for all that was said.
    pub(super) fn prove(&self, said: &Said, side: Side) -> Proof {
        self.secret.prove(&self.challenge(said), bound(side))
    }

    /// Whether `proof` is the one that `side` must show.
    pub(super) fn check(&self, said: &Said, side: Side, proof: &Proof) -> Result<(), SecretError> {
        let is_right = self.secret.verify(&self.challenge(said), bound(side), proof);
        if is_right || planted(Fault::ProofUnchecked) {
            return Ok(());
        }
        Err(SecretError::Different)
    }

    fn challenge(&self, said: &Said) -> Challenge {
        let mut context = Vec::with_capacity(2 + self.fabric.len() + said.words.len());
        push_bytes(&mut context, self.fabric.as_bytes());
        if !planted(Fault::WordsUnproven) {
            context.extend(&said.words);
        }
        Challenge { connecting: said.connecting, listening: said.listening, context }
    }
}

/// A nonce of this side's.
pub(super) fn nonce() -> Nonce {
    if planted(Fault::NonceRepeated) { Nonce([0; HASH_BYTES]) } else { Nonce::new() }
}

fn bound(side: Side) -> Side {
    if planted(Fault::SideForgotten) { Side::Connecting } else { side }
}

/// In an opening: the sender has a secret.
pub(super) const HAS_SECRET: u8 = 1;
