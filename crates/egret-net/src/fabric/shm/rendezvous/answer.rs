//! The answer to a greeting.
//!
//! The bytes stand in `docs/shm-wire.md`. A refusal reads the same in every
//! version, so that two versions can tell each other that they differ.

use std::os::fd::OwnedFd;

use thiserror::Error;

use super::greeting::{Handles, Terms};
use super::socket::Packet;
use super::trust::{push_agreed, read_agreed};
use crate::fabric::hub::bytes::{Malformed, PACKET_TOO_LONG, REASON, Reader, known, push_text};
use crate::fabric::listens::Listens;
use crate::vi::{Agreed, ConnectError, HelloError, Nonce, PROTOCOL_VERSION, Proof, Reliability};

/// What the listening side says.
#[derive(Debug)]
pub(super) enum Answer {
    Accept(Terms, Agreed, Handles<OwnedFd>),
    /// Not an answer yet: prove it, as I do.
    Challenge(Nonce, Proof),
    Refuse(Refusal),
}

/// Why a greeting was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum Refusal {
    /// Not a final answer: someone may listen soon.
    #[error("nobody listens for this service yet")]
    NotListening,
    /// Not a final answer: someone may listen soon.
    #[error("nobody listens for this tag of the service yet")]
    OtherTag,
    /// The listener has another level.
    #[error("the listener asks for {0}")]
    Reliability(Reliability),
    /// The greeting was not understood, or is of another version. Told from
    /// the side of whoever reads it.
    #[error("{0}")]
    Hello(HelloError),
    /// The host belongs to another user.
    #[error("the host belongs to user {uid}, not to the user of this process")]
    OtherUser {
        /// The host's user.
        uid: u32,
    },
    /// Not a final answer: too many others have not finished their greeting.
    #[error("too many others are knocking; try again")]
    Crowded,
}

impl Answer {
    /// An acceptance; the descriptors go beside it.
    pub(super) fn accept(terms: &Terms, agreed: Agreed) -> Vec<u8> {
        let mut bytes = head(ACCEPT);
        terms.push(&mut bytes);
        push_agreed(&mut bytes, agreed);
        bytes
    }

    pub(super) fn challenge(nonce: &Nonce, proof: &Proof) -> Vec<u8> {
        [head(CHALLENGE).as_slice(), &nonce.0, &proof.0].concat()
    }

    pub(super) fn refuse(refusal: &Refusal) -> Vec<u8> {
        let mut bytes = head(match refusal {
            Refusal::NotListening => NOT_LISTENING,
            Refusal::OtherTag => OTHER_TAG,
            Refusal::Reliability(_) => RELIABILITY,
            Refusal::Hello(_) => HELLO,
            Refusal::OtherUser { .. } => OTHER_USER,
            Refusal::Crowded => CROWDED,
        });
        match refusal {
            Refusal::Reliability(level) => bytes.push(*level as u8),
            Refusal::Hello(why) => push_hello_error(&mut bytes, why),
            Refusal::OtherUser { uid } => bytes.extend(uid.to_le_bytes()),
            Refusal::NotListening | Refusal::OtherTag | Refusal::Crowded => {}
        }
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

impl Refusal {
    fn read(reason: u8, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match reason {
            NOT_LISTENING => Self::NotListening,
            OTHER_TAG => Self::OtherTag,
            RELIABILITY => {
                Self::Reliability(Reliability::from_wire(reader.u8()?).ok_or(Malformed(REASON))?)
            }
            HELLO => Self::Hello(read_hello_error(reader)?),
            OTHER_USER => Self::OtherUser { uid: reader.u32()? },
            CROWDED => Self::Crowded,
            _ => return Err(Malformed(REASON)),
        })
    }

    /// What the host says of the listener.
    pub(crate) const fn listens(&self) -> Listens {
        match self {
            Self::NotListening => Listens::No,
            Self::OtherTag => Listens::OtherTag,
            _ => Listens::Yes,
        }
    }

    /// What the connecting program is told, which asked for `level` as `user`;
    /// `None` if it should knock again.
    pub(crate) fn into_error(self, level: Reliability, user: u32) -> Option<ConnectError> {
        match self {
            Self::NotListening | Self::OtherTag | Self::Crowded => None,
            Self::Reliability(theirs) => {
                Some(ConnectError::ReliabilityMismatch { ours: level, theirs })
            }
            Self::Hello(why) => Some(ConnectError::Hello(why)),
            Self::OtherUser { uid } => Some(ConnectError::OtherUser { ours: user, theirs: uid }),
        }
    }
}

fn head(outcome: u8) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(PROTOCOL_VERSION.to_le_bytes());
    bytes.push(outcome);
    bytes
}

fn push_hello_error(bytes: &mut Vec<u8>, why: &HelloError) {
    match why {
        HelloError::NotEgret => bytes.push(1),
        HelloError::OtherByteOrder => bytes.push(2),
        // Each side puts itself second, so the reader finds them the other way round.
        HelloError::Version { theirs, ours } => {
            bytes.push(3);
            bytes.extend(ours.to_le_bytes());
            bytes.extend(theirs.to_le_bytes());
        }
        HelloError::Malformed(what) => {
            bytes.push(4);
            push_text(bytes, what);
        }
    }
}

fn read_hello_error(reader: &mut Reader<'_>) -> Result<HelloError, Malformed> {
    Ok(match reader.u8()? {
        1 => HelloError::NotEgret,
        2 => HelloError::OtherByteOrder,
        3 => HelloError::Version { theirs: reader.u16()?, ours: reader.u16()? },
        4 => HelloError::Malformed(known(reader.text()?)),
        _ => return Err(Malformed(REASON)),
    })
}

const MAGIC: [u8; 4] = *b"EGRT";
const ACCEPT: u8 = 0;
const NOT_LISTENING: u8 = 1;
const RELIABILITY: u8 = 2;
const HELLO: u8 = 3;
const OTHER_USER: u8 = 4;
const CROWDED: u8 = 5;
const CHALLENGE: u8 = 6;
const OTHER_TAG: u8 = 7;
