//! Why a listening side says no, and what that says of the listener.
//!
//! A refusal reads the same in every version, so that two versions can tell each other that they
//! differ.

use thiserror::Error;

use super::bytes::{ByteReader, Malformed, REASON, known, push_text};
use crate::vi::{ConnectError, HelloError, Reliability, SecretError};

/// Why a handshake was refused, from the point of view of the side that reads this.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ConnectRefusal {
    /// The answer is not final: a listener may come soon.
    #[error("this service has no listener yet")]
    NotListening,
    /// The answer is not final: a listener may come soon.
    #[error("this tag of the service has no listener yet")]
    OtherTag,
    /// The listener has another level.
    #[error("the listener requires {0}")]
    Reliability(Reliability),
    /// The handshake was not understood, or is of another version.
    #[error("{0}")]
    Hello(HelloError),
    /// The host belongs to another user.
    #[error("the host belongs to user {uid}, not to the user of this process")]
    OtherUser {
        /// The host's user.
        uid: u32,
    },
    /// Not a final answer: too many others have not finished their handshake.
    #[error("too many handshakes are under way; try again")]
    Crowded,
    /// The secrets differ.
    #[error("{0}")]
    Secret(SecretError),
    /// The nic goes down.
    #[error("the nic went down")]
    NicDown,
}

/// What the host says of its listeners for a service and a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fabric) enum ListenState {
    Yes,
    /// For the service, and not with this tag.
    OtherTag,
    No,
}

impl ConnectRefusal {
    /// What the connecting program is told, which asked for `level`; `None` if it
    /// should try again.
    pub(in crate::fabric) fn into_error(self, level: Reliability) -> Option<ConnectError> {
        match self {
            Self::NotListening | Self::OtherTag | Self::Crowded => None,
            Self::Reliability(theirs) => {
                Some(ConnectError::ReliabilityMismatch { ours: level, theirs })
            }
            Self::Hello(why) => Some(why.into()),
            Self::OtherUser { uid } => Some(ConnectError::other_user(uid)),
            Self::Secret(why) => Some(why.into()),
            Self::NicDown => Some(ConnectError::NicDown),
        }
    }

    /// What the host says of the listener.
    pub(in crate::fabric) const fn listens(&self) -> ListenState {
        match self {
            Self::NotListening => ListenState::No,
            Self::OtherTag => ListenState::OtherTag,
            _ => ListenState::Yes,
        }
    }

    /// Whether a callee may say this to who has not proven anything, and cannot
    /// prove it either.
    pub(in crate::fabric) const fn goes_unproven(&self) -> bool {
        matches!(self, Self::Hello(_) | Self::Secret(_))
    }

    /// Whether a callee may say this before it knows what is asked.
    pub(in crate::fabric) const fn goes_unasked(&self) -> bool {
        self.goes_unproven()
            || matches!(self, Self::Crowded | Self::NicDown | Self::OtherUser { .. })
    }

    pub(in crate::fabric) fn push(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::NotListening => bytes.push(NOT_LISTENING),
            Self::OtherTag => bytes.push(OTHER_TAG),
            Self::Reliability(level) => bytes.extend([RELIABILITY, *level as u8]),
            Self::Hello(why) => {
                bytes.push(HELLO);
                push_hello_error(bytes, why);
            }
            Self::OtherUser { uid } => {
                bytes.push(OTHER_USER);
                bytes.extend(uid.to_le_bytes());
            }
            Self::Crowded => bytes.push(CROWDED),
            // Each side puts itself first, so the reader finds them the other way round.
            Self::Secret(why) => bytes.extend([
                SECRET,
                match why {
                    SecretError::Different => SECRET_DIFFERENT,
                    SecretError::Stranger => SECRET_STRANGER,
                    SecretError::OnlyOurs => SECRET_WRITERS,
                    SecretError::OnlyTheirs => SECRET_READERS,
                },
            ]),
            Self::NicDown => bytes.push(NIC_DOWN),
        }
    }

    /// Reads what stands behind the first byte, the `reason`.
    pub(in crate::fabric) fn read(
        reason: u8,
        reader: &mut ByteReader<'_>,
    ) -> Result<Self, Malformed> {
        Ok(match reason {
            NOT_LISTENING => Self::NotListening,
            OTHER_TAG => Self::OtherTag,
            RELIABILITY => {
                let level = Reliability::from_wire(reader.u8()?);
                Self::Reliability(level.ok_or(Malformed(REASON))?)
            }
            HELLO => Self::Hello(read_hello_error(reader)?),
            OTHER_USER => Self::OtherUser { uid: reader.u32()? },
            CROWDED => Self::Crowded,
            SECRET => Self::Secret(match reader.u8()? {
                SECRET_DIFFERENT => SecretError::Different,
                SECRET_STRANGER => SecretError::Stranger,
                SECRET_WRITERS => SecretError::OnlyTheirs,
                SECRET_READERS => SecretError::OnlyOurs,
                _ => return Err(Malformed(REASON)),
            }),
            NIC_DOWN => Self::NicDown,
            _ => return Err(Malformed(REASON)),
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
            push_text(bytes, what);
        }
    }
}

fn read_hello_error(reader: &mut ByteReader<'_>) -> Result<HelloError, Malformed> {
    Ok(match reader.u8()? {
        1 => HelloError::NotEgret,
        2 => HelloError::OtherByteOrder,
        3 => HelloError::Version { theirs: reader.u16()?, ours: reader.u16()? },
        4 => HelloError::Malformed(known(reader.text()?)),
        _ => return Err(Malformed(REASON)),
    })
}

const NOT_LISTENING: u8 = 1;
const RELIABILITY: u8 = 2;
const HELLO: u8 = 3;
const OTHER_USER: u8 = 4;
const CROWDED: u8 = 5;
const SECRET: u8 = 6;
const NIC_DOWN: u8 = 7;
const OTHER_TAG: u8 = 8;
const SECRET_DIFFERENT: u8 = 1;
const SECRET_WRITERS: u8 = 2;
const SECRET_READERS: u8 = 3;
const SECRET_STRANGER: u8 = 4;
