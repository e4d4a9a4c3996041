//! What the messages of a connection say: a head before the bytes. `docs/wire/window.md` has the
//! bytes.

use super::fault::{Fault, planted};
use super::lanes::WindowLane;
use crate::fabric::common::bytes::{ByteReader, Malformed, REASON, UNKNOWN_PACKET, push_text};
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::DrainedUnits;
use crate::vi::{AccessError, Lane, ViError};

/// What a message is. Its tag is that of the program's message, or the number of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowFrame<'a> {
    /// How far its sender is, as [packed](crate::fabric::common::counts::ReceiveCounts::pack), and what it has
    /// drained.
    Counts(u64, DrainedUnits),
    /// Asks how far the peer is.
    Ask,
    /// Asks for bytes of exposed memory.
    Read { secret: u64, offset: u64, len: u64 },
    /// How a write went.
    Written(Result<(), AccessError>),
    /// An eager message, and what its sender has drained.
    Eager(Lane, DrainedUnits),
    /// The sender has left the connection; how far it is, and behind that, why.
    Goodbye(u64),
    /// A posted message, and of which type its elements are; and how far its sender is, if it says so.
    Message(Option<NamedKind<'a>>, Option<ReceiveCounts>),
    /// A write to exposed memory, which may deliver a tag.
    Write { secret: u64, offset: u64, notify: Option<u64> },
    /// Bytes that a read asked for, and where they belong.
    ReadPiece { offset: u64 },
    /// A read is over.
    ReadEnd(Result<(), AccessError>),
}

/// A type: its fingerprint and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NamedKind<'a> {
    pub fingerprint: u64,
    pub name: &'a str,
}

/// Bytes of the longest head.
pub(super) const HEAD_MAX: usize = 1 + 4 * 8 + 256;
/// Bytes of a last word.
pub(super) const GOODBYE_MAX: u64 = 1024;
pub(super) const NONSENSE: ViError = ViError::Protocol("a malformed frame");

const COUNTS: u8 = 1;
const READ: u8 = 2;
const WRITTEN: u8 = 3;
const EAGER: u8 = 4;
const GOODBYE: u8 = 5;
const MESSAGE: u8 = 6;
const TYPED: u8 = 7;
const WRITE: u8 = 8;
const NOTIFY: u8 = 9;
const READ_PIECE: u8 = 10;
const READ_END: u8 = 11;
const EAGER_BULK: u8 = 12;
const ASK: u8 = 13;
const COUNTED: u8 = 14;
const COUNTED_TYPED: u8 = 15;

impl<'a> WindowFrame<'a> {
    /// Of which lane it is.
    pub(super) const fn lane(&self) -> WindowLane {
        match self {
            Self::Counts(..) | Self::Ask | Self::Read { .. } | Self::Written(_) => {
                WindowLane::Control
            }
            Self::Eager(..) | Self::Goodbye(_) => WindowLane::Eager,
            Self::Message(..) | Self::Write { .. } => WindowLane::Posted,
            Self::ReadPiece { .. } | Self::ReadEnd(_) => WindowLane::Answers,
        }
    }

    /// Whether bytes may follow.
    pub(super) const fn has_bytes(&self) -> bool {
        matches!(
            self,
            Self::Eager(..)
                | Self::Goodbye(_)
                | Self::Message(..)
                | Self::Write { .. }
                | Self::ReadPiece { .. }
        )
    }

    /// Writes its head to the end of `out`.
    pub(super) fn push(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Counts(counts, drained) => words(out, COUNTS, &[counts, drained.0]),
            Self::Ask => words(out, ASK, &[]),
            Self::Read { secret, offset, len } => words(out, READ, &[secret, offset, len]),
            Self::Written(result) => with_result(out, WRITTEN, result),
            Self::Eager(Lane::Talk, drained) => words(out, EAGER, &[drained.0]),
            Self::Eager(Lane::Bulk, drained) => words(out, EAGER_BULK, &[drained.0]),
            Self::Goodbye(counts) => words(out, GOODBYE, &[counts]),
            Self::Message(None, None) => words(out, MESSAGE, &[]),
            Self::Message(None, Some(ReceiveCounts { taken, receives, placed })) => {
                words(out, COUNTED, &[taken, receives, placed]);
            }
            Self::Message(Some(NamedKind { fingerprint, name }), counts) => {
                match counts {
                    None => words(out, TYPED, &[fingerprint]),
                    Some(ReceiveCounts { taken, receives, placed }) => {
                        words(out, COUNTED_TYPED, &[taken, receives, placed, fingerprint]);
                    }
                }
                push_text(out, name);
            }
            Self::Write { secret, offset, notify: None } => words(out, WRITE, &[secret, offset]),
            Self::Write { secret, offset, notify: Some(tag) } => {
                words(out, NOTIFY, &[secret, offset, tag]);
            }
            Self::ReadPiece { offset } => words(out, READ_PIECE, &[offset]),
            Self::ReadEnd(result) => with_result(out, READ_END, result),
        }
    }

    /// Reads the head of a message of this lane. What is behind it is left.
    ///
    /// # Errors
    ///
    /// If it makes no sense.
    pub(super) fn read(lane: WindowLane, from: &mut &'a [u8]) -> Result<Self, ViError> {
        let mut reader = ByteReader::new(from);
        let frame = Self::read_any(&mut reader).map_err(|_| NONSENSE)?;
        *from = reader.rest();
        let is_of = frame.lane() == lane || planted(Fault::EagerBehind);
        if is_of { Ok(frame) } else { Err(NONSENSE) }
    }

    fn read_any(reader: &mut ByteReader<'a>) -> Result<Self, Malformed> {
        Ok(match reader.u8()? {
            COUNTS => Self::Counts(reader.u64()?, DrainedUnits(reader.u64()?)),
            ASK => Self::Ask,
            READ => Self::Read { secret: reader.u64()?, offset: reader.u64()?, len: reader.u64()? },
            WRITTEN => Self::Written(read_result(reader)?),
            EAGER => Self::Eager(Lane::Talk, DrainedUnits(reader.u64()?)),
            EAGER_BULK => Self::Eager(Lane::Bulk, DrainedUnits(reader.u64()?)),
            GOODBYE => Self::Goodbye(reader.u64()?),
            MESSAGE => Self::Message(None, None),
            COUNTED => Self::Message(None, Some(read_counts(reader)?)),
            TYPED => Self::Message(Some(read_named(reader)?), None),
            COUNTED_TYPED => {
                let counts = read_counts(reader)?;
                Self::Message(Some(read_named(reader)?), Some(counts))
            }
            WRITE => Self::Write { secret: reader.u64()?, offset: reader.u64()?, notify: None },
            NOTIFY => Self::Write {
                secret: reader.u64()?,
                offset: reader.u64()?,
                notify: Some(reader.u64()?),
            },
            READ_PIECE => Self::ReadPiece { offset: reader.u64()? },
            READ_END => Self::ReadEnd(read_result(reader)?),
            _ => return Err(Malformed(UNKNOWN_PACKET)),
        })
    }
}

fn read_counts(reader: &mut ByteReader<'_>) -> Result<ReceiveCounts, Malformed> {
    Ok(ReceiveCounts { taken: reader.u64()?, receives: reader.u64()?, placed: reader.u64()? })
}

fn read_named<'a>(reader: &mut ByteReader<'a>) -> Result<NamedKind<'a>, Malformed> {
    Ok(NamedKind { fingerprint: reader.u64()?, name: reader.text()? })
}

fn words(head: &mut Vec<u8>, kind: u8, words: &[u64]) {
    head.push(kind);
    words.iter().for_each(|word| head.extend_from_slice(&word.to_le_bytes()));
}

fn with_result(head: &mut Vec<u8>, kind: u8, result: Result<(), AccessError>) {
    head.push(kind);
    let all = result.map_or_else(AccessError::to_words, |()| [0; 4]);
    all.iter().for_each(|word| head.extend_from_slice(&word.to_le_bytes()));
}

fn read_result(reader: &mut ByteReader<'_>) -> Result<Result<(), AccessError>, Malformed> {
    let words = [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?];
    match words {
        [0, 0, 0, 0] => Ok(Ok(())),
        words => AccessError::from_words(words).map(Err).ok_or(Malformed(REASON)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(frame: &WindowFrame<'_>) -> Vec<u8> {
        let mut head = Vec::new();
        frame.push(&mut head);
        head
    }

    #[test]
    fn heads_are_these_for_ever() {
        let named = Some(NamedKind { fingerprint: 3, name: "f64" });
        let refused = Err(AccessError::OutOfBounds { offset: 1, len: 2, size: 3 });
        let counts = Some(ReceiveCounts { taken: 1, receives: 2, placed: 3 });
        let frames: [(WindowFrame<'_>, &[&[u8]]); 15] = [
            (WindowFrame::Counts(7, DrainedUnits(5)), &[b"\x01\x07", b"\x05"]),
            (WindowFrame::Ask, &[]),
            (WindowFrame::Read { secret: 1, offset: 2, len: 3 }, &[b"\x02\x01", b"\x02", b"\x03"]),
            (WindowFrame::Written(Ok(())), &[b"\x03\0", b"\0", b"\0", b"\0"]),
            (WindowFrame::Eager(Lane::Talk, DrainedUnits(9)), &[b"\x04\x09"]),
            (WindowFrame::Eager(Lane::Bulk, DrainedUnits(9)), &[b"\x0c\x09"]),
            (WindowFrame::Goodbye(7), &[b"\x05\x07"]),
            (WindowFrame::Message(None, None), &[]),
            (WindowFrame::Message(None, counts), &[b"\x0e\x01", b"\x02", b"\x03"]),
            (WindowFrame::Message(named, None), &[]),
            (WindowFrame::Message(named, counts), &[]),
            (WindowFrame::Write { secret: 1, offset: 2, notify: None }, &[b"\x08\x01", b"\x02"]),
            (
                WindowFrame::Write { secret: 1, offset: 2, notify: Some(3) },
                &[b"\x09\x01", b"\x02", b"\x03"],
            ),
            (WindowFrame::ReadPiece { offset: 9 }, &[b"\x0a\x09"]),
            (WindowFrame::ReadEnd(refused), &[b"\x0b\x02", b"\x01", b"\x02", b"\x03"]),
        ];
        for (frame, expected) in frames {
            let head = head(&frame);
            assert!(head.len() <= HEAD_MAX);
            let mut left = &head[..];
            assert_eq!(WindowFrame::read(frame.lane(), &mut left), Ok(frame));
            assert!(left.is_empty());
            let zeros = |word: &&[u8], len: usize| [*word, &vec![0; len - word.len()]].concat();
            let mut bytes = Vec::new();
            for (at, word) in expected.iter().enumerate() {
                bytes.extend(zeros(word, if at == 0 { 9 } else { 8 }));
            }
            if !expected.is_empty() {
                assert_eq!(head, bytes, "{frame:?}");
            }
            for len in 0..head.len() {
                assert_eq!(WindowFrame::read(frame.lane(), &mut &head[..len]), Err(NONSENSE));
            }
        }
        assert_eq!(
            [WindowFrame::Ask, WindowFrame::Message(None, None)].map(|it| head(&it)),
            [[13], [6]]
        );
        let typed = b"\x03\0\0\0\0\0\0\0\x03f64";
        assert_eq!(head(&WindowFrame::Message(named, None)), [&b"\x07"[..], typed].concat());
        let counted = head(&WindowFrame::Message(None, counts));
        let expected = [&b"\x0f"[..], &counted[1..], typed].concat();
        assert_eq!(head(&WindowFrame::Message(named, counts)), expected);
    }

    #[test]
    fn a_frame_of_another_lane_makes_no_sense() {
        let eager = head(&WindowFrame::Eager(Lane::Talk, DrainedUnits(0)));
        for lane in WindowLane::ALL {
            let is_of = WindowFrame::read(lane, &mut &eager[..]).is_ok();
            assert_eq!(is_of, lane == WindowLane::Eager);
        }
    }
}
