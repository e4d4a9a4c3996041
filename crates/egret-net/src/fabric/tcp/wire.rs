//! What a frame says: a head of 24 bytes, up to four words that its kind asks for, and its
//! payload. `docs/wire/tcp.md` has the bytes.

use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::DrainedUnits;
use crate::vi::{AccessError, EAGER_MAX, Lane, ViError};

/// What a frame says, without its payload and its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TcpFrame {
    /// A whole message.
    Message { tag: u64, kind: Option<u64> },
    /// A message of `len` bytes begins; pieces follow.
    Begin { tag: u64, kind: Option<u64>, len: u64 },
    /// A piece of the message or write that began last.
    Piece,
    /// Asks for bytes of exposed memory.
    Read { id: u64, secret: u64, offset: u64, len: u64 },
    /// A piece of the answer to a read; these come in order.
    ReadPiece { id: u64 },
    /// A read is over.
    ReadEnd { id: u64, result: Result<(), AccessError> },
    /// A write to exposed memory begins; its pieces follow.
    Write { secret: u64, offset: u64, len: u64 },
    /// The write is over; asks how it went, and may deliver a tag.
    WriteEnd { id: u64, notify: Option<u64> },
    /// How a write went.
    Written { id: u64, result: Result<(), AccessError> },
    /// What elements of this fingerprint are called.
    Kind { fingerprint: u64 },
    /// Nothing but the counts, and what was drained; may ask the same.
    Counts { drained: DrainedUnits, asks: bool },
    /// The sender has left the connection.
    Goodbye,
    /// An eager message, and what was drained.
    Eager { lane: Lane, tag: u64, drained: DrainedUnits },
}

/// A frame, how many bytes of payload follow, and how far its sender is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TcpHead {
    pub frame: TcpFrame,
    pub payload: usize,
    /// As [packed](ReceiveCounts::pack).
    pub counts: u64,
}

/// Bytes before the words.
pub(super) const HEAD: usize = 24;
/// Bytes before the payload, at most.
pub(super) const HEAD_MAX: usize = HEAD + 4 * 8;
/// Bytes of payload that a frame has at most: what has to wait for a frame does not
/// wait for long.
pub(super) const CHUNK: usize = 64 << 10;
/// Bytes of a name or of a closing frame.
pub(super) const CONTROL_MAX: usize = 1024;

const MESSAGE: u8 = 1;
const BEGIN: u8 = 2;
const PIECE: u8 = 3;
const READ: u8 = 4;
const READ_PIECE: u8 = 5;
const READ_END: u8 = 6;
const WRITE: u8 = 7;
const WRITE_END: u8 = 8;
const WRITTEN: u8 = 9;
const KIND: u8 = 10;
pub(super) const COUNTS: u8 = 11;
const GOODBYE: u8 = 12;
pub(super) const EAGER: u8 = 13;

const TYPED: u8 = 1;
const NOTIFY: u8 = 2;
const REFUSED: u8 = 4;
const ASKS: u8 = 8;
const BULK: u8 = 16;

const NONSENSE: ViError = ViError::Protocol("a malformed frame");

impl TcpFrame {
    /// Whether it is counted as taken: all but those that are about counting, that have counts of
    /// their own, or the last.
    pub(super) const fn is_counted(&self) -> bool {
        !matches!(self, Self::Counts { .. } | Self::Goodbye | Self::Eager { .. })
    }

    /// Whether it uses up a receive.
    pub(super) const fn needs_receive(&self) -> bool {
        matches!(
            self,
            Self::Message { .. } | Self::Begin { .. } | Self::WriteEnd { notify: Some(_), .. }
        )
    }

    /// Whether it need not wait for a message that waits for a receive: this side
    /// may be waiting for just that.
    pub(super) const fn overtakes(&self) -> bool {
        matches!(
            self,
            Self::Read { .. }
                | Self::ReadPiece { .. }
                | Self::ReadEnd { .. }
                | Self::Written { .. }
                | Self::Kind { .. }
                | Self::Counts { .. }
                | Self::Goodbye
                | Self::Eager { .. }
        )
    }

    /// Appends its head and words, for a payload of so many bytes.
    #[inline]
    pub(super) fn push(self, payload: usize, counts: ReceiveCounts, bytes: &mut Vec<u8>) {
        let (kind, flags, first, words) = self.parts();
        let words = words.as_slice();
        #[expect(clippy::cast_possible_truncation, reason = "at most four words")]
        let count = words.len() as u8;
        #[expect(clippy::cast_possible_truncation, reason = "at most a chunk")]
        let payload = payload as u32;
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(&[kind, flags, count, 0]);
        head[4..8].copy_from_slice(&payload.to_le_bytes());
        head[8..16].copy_from_slice(&first.to_le_bytes());
        head[16..].copy_from_slice(&counts.pack().to_le_bytes());
        bytes.extend_from_slice(&head);
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// What it is, its flags, bytes 8–15, and its words.
    #[inline]
    fn parts(self) -> (u8, u8, u64, HeadWords) {
        match self {
            Self::Message { tag, kind: None } => (MESSAGE, 0, tag, HeadWords::default()),
            Self::Message { tag, kind: Some(kind) } => (MESSAGE, TYPED, tag, HeadWords::of([kind])),
            Self::Begin { tag, kind: None, len } => (BEGIN, 0, tag, HeadWords::of([len])),
            Self::Begin { tag, kind: Some(kind), len } => {
                (BEGIN, TYPED, tag, HeadWords::of([len, kind]))
            }
            Self::Piece => (PIECE, 0, 0, HeadWords::default()),
            Self::Read { id, secret, offset, len } => {
                (READ, 0, id, HeadWords::of([secret, offset, len]))
            }
            Self::ReadPiece { id } => (READ_PIECE, 0, id, HeadWords::default()),
            Self::ReadEnd { id, result } => with_result(READ_END, id, result),
            Self::Write { secret, offset, len } => {
                (WRITE, 0, 0, HeadWords::of([secret, offset, len]))
            }
            Self::WriteEnd { id, notify: None } => (WRITE_END, 0, id, HeadWords::default()),
            Self::WriteEnd { id, notify: Some(tag) } => {
                (WRITE_END, NOTIFY, id, HeadWords::of([tag]))
            }
            Self::Written { id, result } => with_result(WRITTEN, id, result),
            Self::Kind { fingerprint } => (KIND, 0, fingerprint, HeadWords::default()),
            Self::Counts { drained, asks } => {
                (COUNTS, if asks { ASKS } else { 0 }, 0, HeadWords::of([drained.0]))
            }
            Self::Goodbye => (GOODBYE, 0, 0, HeadWords::default()),
            Self::Eager { lane: Lane::Talk, tag, drained } => {
                (EAGER, 0, tag, HeadWords::of([drained.0]))
            }
            Self::Eager { lane: Lane::Bulk, tag, drained } => {
                (EAGER, BULK, tag, HeadWords::of([drained.0]))
            }
        }
    }
}

impl TcpHead {
    /// How long the head is with its words, from its first bytes.
    ///
    /// # Errors
    ///
    /// If it cannot be one.
    #[inline]
    pub(super) fn len(first: &[u8; HEAD]) -> Result<usize, ViError> {
        let [kind, flags, words, zero, ..] = *first;
        let expected = match (kind, flags) {
            (MESSAGE | PIECE | READ_PIECE | KIND | GOODBYE, 0)
            | (READ_END | WRITE_END | WRITTEN, 0) => 0,
            (MESSAGE, TYPED) | (BEGIN, 0) | (WRITE_END, NOTIFY) => 1,
            (COUNTS, 0 | ASKS) | (EAGER, 0 | BULK) => 1,
            (BEGIN, TYPED) => 2,
            (READ | WRITE, 0) => 3,
            (READ_END | WRITTEN, REFUSED) => 4,
            _ => return Err(NONSENSE),
        };
        if words != expected || zero != 0 {
            return Err(NONSENSE);
        }
        Ok(HEAD + 8 * usize::from(expected))
    }

    /// Reads a whole head with its words; lengths of payload are checked.
    ///
    /// # Errors
    ///
    /// If it makes no sense.
    #[inline]
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, ViError> {
        let (first, rest) = bytes.split_first_chunk::<HEAD>().ok_or(NONSENSE)?;
        if bytes.len() != Self::len(first)? {
            return Err(NONSENSE);
        }
        let [kind, flags, _, _, p0, p1, p2, p3, ..] = *first;
        let payload = u32::from_le_bytes([p0, p1, p2, p3]) as usize;
        let word = |at: usize| {
            let chunk = rest.as_chunks::<8>().0.get(at);
            chunk.map_or(0, |word| u64::from_le_bytes(*word))
        };
        let (id, counts) = (word_at(first, 8), word_at(first, 16));
        let typed = |at: usize| (flags & TYPED != 0).then(|| word(at));
        let frame = match kind {
            MESSAGE => TcpFrame::Message { tag: id, kind: typed(0) },
            BEGIN => TcpFrame::Begin { tag: id, kind: typed(1), len: word(0) },
            PIECE => TcpFrame::Piece,
            READ => TcpFrame::Read { id, secret: word(0), offset: word(1), len: word(2) },
            READ_PIECE => TcpFrame::ReadPiece { id },
            READ_END => TcpFrame::ReadEnd { id, result: result(flags, [0, 1, 2, 3].map(word))? },
            WRITE => TcpFrame::Write { secret: word(0), offset: word(1), len: word(2) },
            WRITE_END => TcpFrame::WriteEnd { id, notify: (flags & NOTIFY != 0).then(|| word(0)) },
            WRITTEN => TcpFrame::Written { id, result: result(flags, [0, 1, 2, 3].map(word))? },
            KIND => TcpFrame::Kind { fingerprint: id },
            COUNTS => TcpFrame::Counts { drained: DrainedUnits(word(0)), asks: flags & ASKS != 0 },
            EAGER => {
                let lane = if flags & BULK == 0 { Lane::Talk } else { Lane::Bulk };
                TcpFrame::Eager { lane, tag: id, drained: DrainedUnits(word(0)) }
            }
            _ => TcpFrame::Goodbye,
        };
        if matches!(kind, PIECE | WRITE | COUNTS | GOODBYE) && id != 0 {
            return Err(NONSENSE);
        }
        let head = Self { frame, payload, counts };
        if head.has_fit_payload() { Ok(head) } else { Err(NONSENSE) }
    }

    fn has_fit_payload(&self) -> bool {
        match self.frame {
            TcpFrame::Message { .. } => self.payload <= CHUNK,
            TcpFrame::Begin { len, .. } => {
                (1..=CHUNK).contains(&self.payload) && len > self.payload as u64
            }
            TcpFrame::Piece | TcpFrame::ReadPiece { .. } => (1..=CHUNK).contains(&self.payload),
            TcpFrame::Kind { .. } | TcpFrame::Goodbye => self.payload <= CONTROL_MAX,
            TcpFrame::Eager { .. } => self.payload <= EAGER_MAX,
            _ => self.payload == 0,
        }
    }
}

/// At most four words.
#[derive(Debug, Clone, Copy, Default)]
struct HeadWords {
    words: [u64; 4],
    len: usize,
}

impl HeadWords {
    fn of<const N: usize>(some: [u64; N]) -> Self {
        let mut words = [0; 4];
        words[..N].copy_from_slice(&some);
        Self { words, len: N }
    }

    fn as_slice(&self) -> &[u64] {
        &self.words[..self.len]
    }
}

fn word_at(bytes: &[u8; HEAD], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("inside the head"))
}

fn with_result(kind: u8, id: u64, result: Result<(), AccessError>) -> (u8, u8, u64, HeadWords) {
    match result {
        Ok(()) => (kind, 0, id, HeadWords::default()),
        Err(why) => (kind, REFUSED, id, HeadWords::of(why.to_words())),
    }
}

fn result(flags: u8, words: [u64; 4]) -> Result<Result<(), AccessError>, ViError> {
    if flags & REFUSED == 0 {
        return Ok(Ok(()));
    }
    AccessError::from_words(words).map(Err).ok_or(NONSENSE)
}
