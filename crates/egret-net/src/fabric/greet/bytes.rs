//! Reading and writing the fields of steps. Numbers are little-endian.

use crate::vi::HelloError;

/// What is left of a step's body.
#[derive(Debug)]
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], HelloError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(HelloError::Malformed(TOO_SHORT))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, HelloError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, HelloError> {
        self.array().map(u16::from_le_bytes)
    }

    /// At most 65,535 bytes, after their number.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], HelloError> {
        let len = usize::from(self.u16()?);
        let (taken, rest) = self.0.split_at_checked(len).ok_or(HelloError::Malformed(TOO_SHORT))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Nothing may be left.
    pub(super) const fn end(&self) -> Result<(), HelloError> {
        if self.0.is_empty() { Ok(()) } else { Err(HelloError::Malformed(TOO_LONG)) }
    }
}

/// Appends `bytes` after their number, which the caller keeps small.
pub(super) fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("a part of a step");
    out.extend(len.to_le_bytes());
    out.extend(bytes);
}

/// The text among [`TEXTS`] that a peer sent. One that this version does not know
/// is replaced: errors keep their texts as constants.
pub(super) fn known(text: &[u8]) -> &'static str {
    TEXTS.iter().find(|known| known.as_bytes() == text).copied().unwrap_or(UNKNOWN)
}

pub(super) const TOO_SHORT: &str = "too short";
pub(super) const TOO_LONG: &str = "bytes after its end";
pub(super) const LENGTH: &str = "a step of a length that it cannot have";
pub(super) const STEP: &str = "an unknown kind of step";
pub(super) const TURN: &str = "a step that is not the next one";
pub(super) const FLAGS: &str = "unknown flags";
pub(super) const REASON: &str = "an unknown reason";
pub(super) const UNPROVEN: &str = "a refusal without a proof";
pub(super) const TERMS: &str = "terms that are too long";
const UNKNOWN: &str = "for a reason that this version has no words for";

/// What is said about greetings, in [`Hello`](crate::vi::Hello) and here.
pub(super) const TEXTS: &[&str] = &[
    "reliability level",
    "length of the service name",
    "service name",
    TOO_SHORT,
    TOO_LONG,
    LENGTH,
    STEP,
    TURN,
    FLAGS,
    REASON,
    UNPROVEN,
    TERMS,
];
