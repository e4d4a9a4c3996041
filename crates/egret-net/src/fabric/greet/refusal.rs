//! Why a callee says no.

use thiserror::Error;

use super::bytes::{REASON, Reader, known, push_bytes};
use crate::fabric::listens::Listens;
use crate::vi::{ConnectError, HelloError, Reliability, SecretError};

/// Why a greeting was refused, told from the side of whoever reads it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
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
    /// The greeting was not understood, or is of another version.
    #[error("{0}")]
    Hello(HelloError),
    /// Not a final answer: too many others have not finished their greeting.
    #[error("too many others are greeting; try again")]
    Crowded,
    /// The secrets differ.
    #[error("{0}")]
    Secret(SecretError),
    /// The nic goes down.
    #[error("the nic went down")]
    NicDown,
}

impl Refusal {
    /// What the connecting program is told, which asked for `level`; `None` if it
    /// should try again.
    pub(crate) fn into_error(self, level: Reliability) -> Option<ConnectError> {
        match self {
            Self::NotListening | Self::OtherTag | Self::Crowded => None,
            Self::Reliability(theirs) => {
                Some(ConnectError::ReliabilityMismatch { ours: level, theirs })
            }
            Self::Hello(why) => Some(ConnectError::Hello(why)),
            Self::Secret(why) => Some(ConnectError::Secret(why)),
            Self::NicDown => Some(ConnectError::NicDown),
        }
    }

    /// What the host says of the listener.
    pub(crate) const fn listens(&self) -> Listens {
        match self {
            Self::NotListening => Listens::No,
            Self::OtherTag => Listens::OtherTag,
            _ => Listens::Yes,
        }
    }

    /// Whether a callee may say this to who has not proven anything, and cannot
    /// prove it either.
    pub(super) const fn goes_unproven(&self) -> bool {
        matches!(self, Self::Hello(_) | Self::Secret(_))
    }

    /// Whether a callee may say this before it knows what is asked.
    pub(super) const fn goes_unasked(&self) -> bool {
        self.goes_unproven() || matches!(self, Self::Crowded | Self::NicDown)
    }

    pub(super) fn push(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::NotListening => bytes.push(NOT_LISTENING),
            Self::OtherTag => bytes.push(OTHER_TAG),
            Self::Reliability(level) => bytes.extend([RELIABILITY, *level as u8]),
            Self::Hello(why) => {
                bytes.push(HELLO);
                push_hello_error(bytes, why);
            }
            Self::Crowded => bytes.push(CROWDED),
            // Each side puts itself first, so the reader finds them the other way round.
            Self::Secret(why) => bytes.extend([
                SECRET,
                match why {
                    SecretError::Different => SECRET_DIFFERENT,
                    SecretError::OnlyOurs => SECRET_WRITERS,
                    SecretError::OnlyTheirs => SECRET_READERS,
                },
            ]),
            Self::NicDown => bytes.push(NIC_DOWN),
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, HelloError> {
        Ok(match reader.u8()? {
            NOT_LISTENING => Self::NotListening,
            OTHER_TAG => Self::OtherTag,
            RELIABILITY => {
                let level = Reliability::from_wire(reader.u8()?);
                Self::Reliability(level.ok_or(HelloError::Malformed(REASON))?)
            }
            HELLO => Self::Hello(read_hello_error(reader)?),
            CROWDED => Self::Crowded,
            SECRET => Self::Secret(match reader.u8()? {
                SECRET_DIFFERENT => SecretError::Different,
                SECRET_WRITERS => SecretError::OnlyTheirs,
                SECRET_READERS => SecretError::OnlyOurs,
                _ => return Err(HelloError::Malformed(REASON)),
            }),
            NIC_DOWN => Self::NicDown,
            _ => return Err(HelloError::Malformed(REASON)),
        })
    }
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
            push_bytes(bytes, what.as_bytes());
        }
    }
}

fn read_hello_error(reader: &mut Reader<'_>) -> Result<HelloError, HelloError> {
    Ok(match reader.u8()? {
        1 => HelloError::NotEgret,
        2 => HelloError::OtherByteOrder,
        3 => HelloError::Version { theirs: reader.u16()?, ours: reader.u16()? },
        4 => HelloError::Malformed(known(reader.bytes()?)),
        _ => return Err(HelloError::Malformed(REASON)),
    })
}

const NOT_LISTENING: u8 = 1;
const RELIABILITY: u8 = 2;
const HELLO: u8 = 3;
const CROWDED: u8 = 5;
const SECRET: u8 = 6;
const NIC_DOWN: u8 = 7;
const OTHER_TAG: u8 = 8;
const SECRET_DIFFERENT: u8 = 1;
const SECRET_WRITERS: u8 = 2;
const SECRET_READERS: u8 = 3;
