//! The answer to a greeting.
//!
//! The bytes stand in `docs/shm-wire.md`.

use std::os::fd::OwnedFd;

use super::greeting::{Handles, Terms};
use super::socket::Packet;
use super::trust::{push_agreed, read_agreed};
use crate::fabric::hub::Refusal;
use crate::fabric::hub::bytes::{PACKET_TOO_LONG, Reader};
use crate::vi::{Agreed, HelloError, Nonce, PROTOCOL_VERSION, Proof};

/// What the listening side says.
#[derive(Debug)]
pub(super) enum Answer {
    Accept(Terms, Agreed, Handles<OwnedFd>),
    /// Not an answer yet: prove it, as I do.
    Challenge(Nonce, Proof),
    Refuse(Refusal),
}

impl Answer {
    /// An acceptance; the descriptors go beside it.
    pub(super) fn accept(terms: &Terms, agreed: Agreed) -> Vec<u8> {
        let mut bytes = head();
        bytes.push(ACCEPT);
        terms.push(&mut bytes);
        push_agreed(&mut bytes, agreed);
        bytes
    }

    pub(super) fn challenge(nonce: &Nonce, proof: &Proof) -> Vec<u8> {
        [head().as_slice(), &[CHALLENGE], &nonce.0, &proof.0].concat()
    }

    pub(super) fn refuse(refusal: &Refusal) -> Vec<u8> {
        let mut bytes = head();
        refusal.push(&mut bytes);
        bytes
    }

    /// Reads what the listening side sent.
    pub(super) fn decode(mut packet: Packet) -> Result<Self, HelloError> {
        let bytes = std::mem::take(&mut packet.bytes);
        let mut reader = Reader::new(&bytes);
        if reader.array()? != MAGIC {
            return Err(HelloError::NotEgret);
        }
        let theirs = reader.u16()?;
        let outcome = reader.u8()?;
        if packet.cut_off {
            return Err(HelloError::Malformed(PACKET_TOO_LONG));
        }
        if matches!(outcome, ACCEPT | CHALLENGE) && theirs != PROTOCOL_VERSION {
            return Err(HelloError::Version { theirs, ours: PROTOCOL_VERSION });
        }
        let answer = match outcome {
            ACCEPT => {
                let (terms, handles) = Terms::read(&mut reader, &mut packet)?;
                Self::Accept(terms, read_agreed(&mut reader)?, handles)
            }
            CHALLENGE => Self::Challenge(Nonce(reader.array()?), Proof(reader.array()?)),
            outcome => Self::Refuse(Refusal::read(outcome, &mut reader)?),
        };
        reader.end()?;
        Ok(answer)
    }
}

fn head() -> Vec<u8> {
    [&MAGIC[..], &PROTOCOL_VERSION.to_le_bytes()].concat()
}

const MAGIC: [u8; 4] = *b"EGRT";
/// Outcomes; the others are the reasons of refusals.
const ACCEPT: u8 = 0;
const CHALLENGE: u8 = 9;
