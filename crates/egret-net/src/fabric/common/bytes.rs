//! Reading and writing the fields of packets, steps and datagrams. Numbers are little-endian.

use std::borrow::Cow;

use thiserror::Error;

use super::fault::{Fault, planted};
use crate::buf::Kind;
use crate::fabric::seal;
use crate::vi::HelloError;

/// A packet, step or datagram that is not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0}")]
pub(in crate::fabric) struct Malformed(pub &'static str);

/// What is left of a packet, step or datagram.
#[derive(Debug)]
pub(in crate::fabric) struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    pub(in crate::fabric) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    #[inline]
    pub(in crate::fabric) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        match self.0.split_first_chunk() {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(*taken)
            }
            None if planted(Fault::TruncatedAccepted) => Ok([0; N]),
            None => Err(Malformed(TOO_SHORT)),
        }
    }

    pub(in crate::fabric) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub(in crate::fabric) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    #[inline]
    pub(in crate::fabric) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    #[inline]
    pub(in crate::fabric) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(in crate::fabric) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Malformed(TOO_SHORT))?;
        self.0 = rest;
        Ok(taken)
    }

    /// What stands at the end.
    pub(in crate::fabric) fn last<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        let (rest, last) = self.0.split_last_chunk().ok_or(Malformed(TOO_SHORT))?;
        self.0 = rest;
        Ok(last)
    }

    /// All that is left, to be read again.
    #[inline]
    pub(in crate::fabric) const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Text of at most 255 bytes, after its length.
    pub(in crate::fabric) fn text(&mut self) -> Result<&'a str, Malformed> {
        let len = self.u8()?;
        str::from_utf8(self.bytes(len.into())?).map_err(|_| Malformed(NOT_TEXT))
    }

    /// All that is left, as words.
    pub(in crate::fabric) fn words(&mut self) -> Result<Vec<u64>, Malformed> {
        let (words, rest) = self.0.as_chunks();
        let words = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        self.0 = rest;
        Ok(words)
    }

    /// Nothing may be left.
    pub(in crate::fabric) fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed(TOO_LONG)) }
    }
}

/// Appends `text`, as much of it as fits in 255 bytes, after its length.
pub(in crate::fabric) fn push_text(bytes: &mut Vec<u8>, text: &str) {
    let fits = (0..=TEXT_MAX.min(text.len())).rev().find(|len| text.is_char_boundary(*len));
    let text = &text[..fits.unwrap_or(0)];
    bytes.push(u8::try_from(text.len()).expect("at most 255 bytes"));
    bytes.extend(text.as_bytes());
}

/// Appends a type: its fingerprint and its name.
pub(in crate::fabric) fn push_kind(bytes: &mut Vec<u8>, kind: &Kind) {
    bytes.extend(kind.fingerprint.to_le_bytes());
    push_text(bytes, &kind.name);
}

pub(in crate::fabric) fn read_kind(reader: &mut ByteReader<'_>) -> Result<Kind, Malformed> {
    let fingerprint = reader.u64()?;
    Ok(Kind { fingerprint, name: Cow::Owned(reader.text()?.to_owned()) })
}

impl From<Malformed> for HelloError {
    fn from(Malformed(what): Malformed) -> Self {
        Self::Malformed(what)
    }
}

/// Bytes of a text on the wire.
pub(in crate::fabric) const TEXT_MAX: usize = 255;

/// The text among [`TEXTS`], [`DATAPATH`] and those of sealed records that a peer sent. One that this version does not
/// know is replaced: errors keep their texts as constants.
pub(in crate::fabric) fn known(text: &str) -> &'static str {
    let mut texts = TEXTS.iter().chain(DATAPATH).chain(&seal::TEXTS);
    texts.find(|known| **known == text).copied().unwrap_or(UNKNOWN)
}

pub(in crate::fabric) const TOO_SHORT: &str = "too short";
pub(in crate::fabric) const TOO_LONG: &str = "bytes after its end";
pub(in crate::fabric) const NOT_TEXT: &str = "a text that is not UTF-8";
pub(in crate::fabric) const PACKET_TOO_LONG: &str = "a packet of more than 4096 bytes";
pub(in crate::fabric) const UNKNOWN_PACKET: &str = "an unknown kind of packet";
pub(in crate::fabric) const FLAGS: &str = "unknown flags";
pub(in crate::fabric) const ROLES: &str = "roles of descriptors, each of which must stand once";
pub(in crate::fabric) const MISSING: &str = "fewer descriptors than declared";
pub(in crate::fabric) const REASON: &str = "an unknown reason";
pub(in crate::fabric) const NOT_AGREED: &str = "a level of trust that the two did not agree on";
pub(in crate::fabric) const LENGTH: &str = "a step of a length that it cannot have";
pub(in crate::fabric) const STEP: &str = "an unknown kind of step";
pub(in crate::fabric) const TURN: &str = "a step that is not the next one";
pub(in crate::fabric) const UNPROVEN: &str = "a refusal without a proof";
pub(in crate::fabric) const CHANGED: &str = "a step that was changed on its way";
pub(in crate::fabric) const TERMS: &str = "terms that are too long";
const UNKNOWN: &str = "for a reason that this version has no words for";

/// What is said about packets and steps, in [`Hello`](crate::vi::Hello) and here.
pub(in crate::fabric) const TEXTS: &[&str] = &[
    "reliability level",
    "length of the service name",
    "service name",
    TOO_SHORT,
    TOO_LONG,
    NOT_TEXT,
    PACKET_TOO_LONG,
    UNKNOWN_PACKET,
    FLAGS,
    ROLES,
    MISSING,
    REASON,
    NOT_AGREED,
    LENGTH,
    STEP,
    TURN,
    UNPROVEN,
    CHANGED,
    TERMS,
];

/// What the fabrics say of their peers' memory, rings, frames and messages. A test
/// compares this with the sources.
pub(in crate::fabric) const DATAPATH: &[&str] = &[
    "a buffer that the peer does not hold",
    "a control message of cooperating peers on an isolated connection",
    "a data record outside a message",
    "a malformed datagram",
    "a malformed frame",
    "a malformed record",
    "a malformed ring of records",
    "a message longer than any may be",
    "a message or write inside another one",
    "a message that there is no receive for",
    "a region it never announced",
    "a region that cannot be mapped safely",
    "a region without its memory",
    "an acknowledgement of eager messages that were never sent",
    "an acknowledgement of frames that were never sent",
    "an acknowledgement of what was never sent",
    "an address, which this side did not ask for",
    "an answer to a read that was not requested",
    "an answer to a request that was not made",
    "buffers that cannot be had safely",
    "bytes outside the peer's memory",
    "fewer bytes than were announced",
    "fewer bytes than were asked for",
    "host",
    "memory or a bell that cannot be used safely",
    "memory that may no longer be read",
    "more bytes than were announced",
    "more bytes than were asked for",
    "more eager messages than its window",
    "more records than the ring has",
    "more regions than this side maps",
    "more requests than may be outstanding",
    "more than may be outstanding",
    "the end of a write that has not begun",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut bytes = Vec::new();
        push_text(&mut bytes, &"é".repeat(200));
        assert_eq!((bytes.len(), bytes[0]), (255, 254));
        let mut reader = ByteReader::new(&bytes);
        assert_eq!(reader.text(), Ok("é".repeat(127).as_str()));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn only_texts_of_this_version_are_repeated() {
        assert_eq!(known("too short"), TOO_SHORT);
        assert_eq!(known("anything"), UNKNOWN);
    }
}
