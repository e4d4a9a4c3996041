//! The closing frame of a connection, and the errors that cross the wire in it.

use super::bytes::{ByteReader, Malformed, REASON, known, push_kind, push_text, read_kind};
use crate::vi::{AccessError, ViError};

/// Why an end has left the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::fabric) enum CloseReason {
    /// The end was closed.
    Closed,
    /// The nic of the end went down.
    NicDown,
    /// The connection failed, and both ends are to know why.
    Failed(ViError),
}

impl CloseReason {
    /// What to tell the peer about the error of this end.
    pub(in crate::fabric) fn of(error: ViError) -> Self {
        match error {
            ViError::NicDown => Self::NicDown,
            ViError::TooLong { .. }
            | ViError::TypeMismatch { .. }
            | ViError::NotTaken(_)
            | ViError::RemoteAccess(_)
            | ViError::Protocol(_) => Self::Failed(error),
            // Errors of this end alone, or the peer's own doing.
            _ => Self::Closed,
        }
    }

    /// What this end is to make of the peer's closing frame.
    pub(in crate::fabric) fn into_error(self) -> ViError {
        match self {
            Self::Closed => ViError::ClosedByPeer,
            Self::NicDown => ViError::PeerDied { why: "its nic went down" },
            Self::Failed(why) => why,
        }
    }

    pub(in crate::fabric) fn push(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Closed => bytes.push(CLOSED),
            Self::NicDown => bytes.push(NIC_DOWN),
            Self::Failed(why) => push_error(bytes, why),
        }
    }

    pub(in crate::fabric) fn read(reader: &mut ByteReader<'_>) -> Result<Self, Malformed> {
        let why = match reader.u8()? {
            CLOSED => return Ok(Self::Closed),
            NIC_DOWN => return Ok(Self::NicDown),
            TOO_LONG => ViError::TooLong { sent: reader.u64()?, posted: reader.u64()? },
            TYPE_MISMATCH => {
                ViError::TypeMismatch { sent: read_kind(reader)?, posted: read_kind(reader)? }
            }
            ACCESS => ViError::RemoteAccess(read_access(reader)?),
            PROTOCOL => ViError::Protocol(known(reader.text()?)),
            NOT_TAKEN => ViError::NotTaken(reader.text()?.to_owned().into()),
            _ => return Err(Malformed(REASON)),
        };
        Ok(Self::Failed(why))
    }
}

fn push_error(bytes: &mut Vec<u8>, why: &ViError) {
    match why {
        ViError::TooLong { sent, posted } => {
            bytes.push(TOO_LONG);
            bytes.extend(sent.to_le_bytes());
            bytes.extend(posted.to_le_bytes());
        }
        ViError::TypeMismatch { sent, posted } => {
            bytes.push(TYPE_MISMATCH);
            push_kind(bytes, sent);
            push_kind(bytes, posted);
        }
        ViError::RemoteAccess(why) => {
            bytes.push(ACCESS);
            push_access(bytes, *why);
        }
        ViError::Protocol(what) => {
            bytes.push(PROTOCOL);
            push_text(bytes, what);
        }
        ViError::NotTaken(why) => {
            bytes.push(NOT_TAKEN);
            push_text(bytes, why);
        }
        ViError::NicDown => bytes.push(NIC_DOWN),
        // Not made by `CloseReason::of`; the peer has no use for them.
        _ => bytes.push(CLOSED),
    }
}

fn push_access(bytes: &mut Vec<u8>, why: AccessError) {
    match why {
        AccessError::Revoked => bytes.push(1),
        AccessError::OutOfBounds { offset, len, size } => {
            bytes.push(2);
            bytes.extend([offset, len, size].map(u64::to_le_bytes).as_flattened());
        }
        AccessError::Forbidden { asked } => bytes.push(if asked == READ { 3 } else { 4 }),
    }
}

fn read_access(reader: &mut ByteReader<'_>) -> Result<AccessError, Malformed> {
    Ok(match reader.u8()? {
        1 => AccessError::Revoked,
        2 => AccessError::OutOfBounds {
            offset: reader.u64()?,
            len: reader.u64()?,
            size: reader.u64()?,
        },
        3 => AccessError::Forbidden { asked: READ },
        4 => AccessError::Forbidden { asked: WRITE },
        _ => return Err(Malformed(REASON)),
    })
}

const CLOSED: u8 = 0;
const NIC_DOWN: u8 = 1;
const TOO_LONG: u8 = 2;
const TYPE_MISMATCH: u8 = 3;
const ACCESS: u8 = 4;
const PROTOCOL: u8 = 5;
const NOT_TAKEN: u8 = 6;

const READ: &str = "read";
const WRITE: &str = "write";
