//! What a slot of the ring says.
//!
//! A slot is a head of 32 bits and seven words. The last word carries the
//! sender's own counts (slots taken, receives posted, messages placed), so that
//! in a conversation no other cache line needs to travel.
//!
//! | bits of the head | |
//! |---|---|
//! | 0–7 | what it is |
//! | 8–15 | where its bytes are: 0 nowhere, 1 in the slot, 2 in a region of the sender's, 3 in its bounce area, 4 in its process |
//! | 16–23 | bytes in the slot |
//! | 24–31 | flags: 1 typed, 2 notify, 4 refused, 8 back |
//!
//! | word | message, piece | read, write | answer |
//! |---|---|---|---|
//! | 0 | tag, or number of the read | number | number |
//! | 1 | fingerprint of the element type | secret of the key | reason |
//! | 2 | bytes 0–7, or number of the region | offset | offset |
//! | 3 | bytes 8–15, or offset, or address | length | length |
//! | 4 | bytes 16–23, or length | | size |
//! | 5 | bytes 24–31 | | |
//! | 6 | counts | counts | counts |
//!
//! Everything read from a peer is a copy, and is checked after it was copied.

use super::commons::Handed;
use super::loans::Ticket;
use super::returns;
use crate::fabric::hub::counts::Counts;
use crate::vi::AccessError;

/// What a slot carries, without its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    /// A whole message.
    Message { tag: u64, kind: Option<u64>, bytes: Place },
    /// A message of several pieces begins; they follow.
    Begin { tag: u64, kind: Option<u64>, len: u64 },
    /// A piece of the message or write that began last.
    Piece { bytes: Place },
    /// A message that is a buffer, handed over as it is.
    HandOver { tag: u64, kind: Option<u64>, handed: Handed },
    /// Asks for bytes of exposed memory.
    Read { id: u64, secret: u64, offset: u64, len: u64 },
    /// A piece of the answer to a read; these come in order, and read by read.
    ReadPiece { id: u64, bytes: Place },
    /// A read is over.
    ReadEnd { id: u64, result: Result<(), AccessError> },
    /// A write to exposed memory begins; its pieces follow.
    Write { secret: u64, offset: u64, len: u64 },
    /// The write is over; asks how it went, and may deliver a tag.
    WriteEnd { id: u64, notify: Option<u64> },
    /// How a write went.
    Written { id: u64, result: Result<(), AccessError> },
}

/// Where bytes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the slot itself.
    Inline { bytes: [u8; INLINE], len: u8 },
    /// In a region of the sender's that it has announced under this number.
    Region { number: u64, offset: u64, len: u64 },
    /// In the sender's bounce area.
    Bounce { offset: u64, len: u64 },
    /// At an address of the sender's process.
    Process { at: u64, len: u64 },
}

/// Bytes that travel in the slot.
pub(super) const INLINE: usize = 32;

/// A head and seven words.
pub(super) type Words = (u32, [u64; 7]);

const MESSAGE: u32 = 1;
const BEGIN: u32 = 2;
const PIECE: u32 = 3;
const READ: u32 = 4;
const READ_PIECE: u32 = 5;
const READ_END: u32 = 6;
const WRITE: u32 = 7;
const WRITE_END: u32 = 8;
const WRITTEN: u32 = 9;
const HAND_OVER: u32 = 10;

const TYPED: u32 = 1 << 24;
const NOTIFY: u32 = 2 << 24;
const REFUSED: u32 = 4 << 24;
const BACK: u32 = 8 << 24;

const REVOKED: u64 = 1;
const OUT_OF_BOUNDS: u64 = 2;
const NO_READ: u64 = 3;
const NO_WRITE: u64 = 4;

/// The word of a slot that carries the counts.
pub(super) const COUNTS: usize = 6;

/// A whole message of a few bytes without a type: what most slots are. The same
/// as [`Slot::Message`], without a detour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Small {
    pub tag: u64,
    pub len: usize,
    words: [u64; INLINE / 8],
}

impl Small {
    const HEAD: u32 = MESSAGE | 1 << 8;

    /// What is sent.
    ///
    /// # Panics
    ///
    /// If there are more bytes than fit.
    #[inline]
    pub(super) fn encode(tag: u64, bytes: &[u8], counts: Counts) -> Words {
        assert!(bytes.len() <= INLINE, "{} bytes in a slot", bytes.len());
        let (chunks, rest) = bytes.as_chunks::<8>();
        let mut words = [tag, 0, 0, 0, 0, 0, counts.pack()];
        for (word, chunk) in words[2..].iter_mut().zip(chunks) {
            *word = u64::from_le_bytes(*chunk);
        }
        if !rest.is_empty() {
            words[2 + chunks.len()] =
                rest.iter().rev().fold(0, |word, b| word << 8 | u64::from(*b));
        }
        #[expect(clippy::cast_possible_truncation, reason = "a few")]
        let len = bytes.len() as u32;
        (Self::HEAD | len << 16, words)
    }

    /// What came, if it is one.
    #[inline]
    pub(super) fn decode(head: u32, words: &[u64; 7]) -> Option<Self> {
        let len = (head >> 16 & 0xff) as usize;
        let is_small = head & !(0xff << 16) == Self::HEAD && len <= INLINE;
        let [tag, _, a, b, c, d, _] = *words;
        is_small.then_some(Self { tag, len, words: [a, b, c, d] })
    }

    /// Copies its bytes to where there is room for just them.
    #[inline]
    pub(super) fn copy_to(&self, to: &mut [u8]) {
        let (chunks, rest) = to.as_chunks_mut::<8>();
        for (chunk, word) in chunks.iter_mut().zip(&self.words) {
            *chunk = word.to_le_bytes();
        }
        if !rest.is_empty() {
            let mut word = self.words[chunks.len()];
            for byte in rest {
                *byte = word.to_le_bytes()[0];
                word >>= 8;
            }
        }
    }
}

impl Place {
    /// A few bytes for the slot.
    ///
    /// # Panics
    ///
    /// If they are more than fit.
    pub(super) fn inline(from: impl FnOnce(&mut [u8]), len: usize) -> Self {
        let mut bytes = [0; INLINE];
        from(&mut bytes[..len]);
        Self::Inline { bytes, len: u8::try_from(len).expect("it fits the slot") }
    }

    pub(super) const fn len(&self) -> u64 {
        match self {
            Self::Inline { len, .. } => *len as u64,
            Self::Region { len, .. } | Self::Bounce { len, .. } | Self::Process { len, .. } => *len,
        }
    }

    /// Whether the bytes are in memory that the sender has other uses for.
    pub(super) const fn is_lent(&self) -> bool {
        matches!(self, Self::Region { .. } | Self::Process { .. })
    }

    fn encode(self, words: &mut [u64; 7]) -> u32 {
        match self {
            Self::Inline { bytes, len } => {
                for (word, bytes) in words[2..6].iter_mut().zip(bytes.chunks_exact(8)) {
                    *word = u64::from_le_bytes(bytes.try_into().expect("eight"));
                }
                1 << 8 | u32::from(len) << 16
            }
            Self::Region { number, offset, len } => {
                [words[2], words[3], words[4]] = [number, offset, len];
                2 << 8
            }
            Self::Bounce { offset, len } => {
                [words[3], words[4]] = [offset, len];
                3 << 8
            }
            Self::Process { at, len } => {
                [words[3], words[4]] = [at, len];
                4 << 8
            }
        }
    }

    fn decode(head: u32, words: &[u64; 7]) -> Option<Self> {
        match head >> 8 & 0xff {
            1 => {
                let len = (head >> 16 & 0xff) as u8;
                let mut bytes = [0; INLINE];
                for (word, bytes) in words[2..6].iter().zip(bytes.chunks_exact_mut(8)) {
                    bytes.copy_from_slice(&word.to_le_bytes());
                }
                (usize::from(len) <= INLINE).then_some(Self::Inline { bytes, len })
            }
            2 => Some(Self::Region { number: words[2], offset: words[3], len: words[4] }),
            3 => Some(Self::Bounce { offset: words[3], len: words[4] }),
            4 => Some(Self::Process { at: words[3], len: words[4] }),
            _ => None,
        }
    }
}

impl Slot {
    #[inline]
    pub(super) fn encode(self, counts: Counts) -> Words {
        let mut words = [0; 7];
        words[6] = counts.pack();
        let head = match self {
            Self::Message { tag, kind, bytes } => {
                [words[0], words[1]] = [tag, kind.unwrap_or(0)];
                MESSAGE | bytes.encode(&mut words) | typed(kind)
            }
            Self::Begin { tag, kind, len } => {
                [words[0], words[1], words[4]] = [tag, kind.unwrap_or(0), len];
                BEGIN | typed(kind)
            }
            Self::Piece { bytes } => PIECE | bytes.encode(&mut words),
            Self::HandOver { tag, kind, handed: Handed { ticket, back } } => {
                [words[0], words[1]] = [tag, kind.unwrap_or(0)];
                [words[2], words[3]] = [ticket.place.encode(), ticket.len];
                HAND_OVER | typed(kind) | if back { BACK } else { 0 }
            }
            Self::Read { id, secret, offset, len } => {
                words[..4].copy_from_slice(&[id, secret, offset, len]);
                READ
            }
            Self::ReadPiece { id, bytes } => {
                words[0] = id;
                READ_PIECE | bytes.encode(&mut words)
            }
            Self::ReadEnd { id, result } => READ_END | answer(id, result, &mut words),
            Self::Write { secret, offset, len } => {
                words[..4].copy_from_slice(&[0, secret, offset, len]);
                WRITE
            }
            Self::WriteEnd { id, notify } => {
                [words[0], words[1]] = [id, notify.unwrap_or(0)];
                WRITE_END | if notify.is_some() { NOTIFY } else { 0 }
            }
            Self::Written { id, result } => WRITTEN | answer(id, result, &mut words),
        };
        (head, words)
    }

    /// Whether it needs a posted receive.
    pub(super) const fn needs_receive(&self) -> bool {
        matches!(
            self,
            Self::Message { .. }
                | Self::Begin { .. }
                | Self::HandOver { .. }
                | Self::WriteEnd { notify: Some(_), .. }
        )
    }

    /// Whether it may overtake a message that waits for a receive: what belongs
    /// to remote reads, and answers. The side that holds the message up may be
    /// waiting for just that.
    pub(super) const fn overtakes(&self) -> bool {
        matches!(
            self,
            Self::Read { .. }
                | Self::ReadPiece { .. }
                | Self::ReadEnd { .. }
                | Self::Written { .. }
        )
    }

    /// The bytes that lie somewhere.
    pub(super) const fn place(&self) -> Option<&Place> {
        match self {
            Self::Message { bytes, .. } | Self::Piece { bytes } | Self::ReadPiece { bytes, .. } => {
                Some(bytes)
            }
            _ => None,
        }
    }

    /// What a peer's slot says beside the counts; `None` if it makes no sense.
    pub(super) fn decode((head, words): &Words) -> Option<Self> {
        let (head, [w0, w1, w2, w3, w4, ..]) = (*head, *words);
        let kind = (head & TYPED != 0).then_some(w1);
        let result = if head & REFUSED == 0 { Some(Ok(())) } else { reason(w1, w2, w3, w4) };
        Some(match head & 0xff {
            MESSAGE => Self::Message { tag: w0, kind, bytes: Place::decode(head, words)? },
            BEGIN => Self::Begin { tag: w0, kind, len: w4 },
            PIECE => Self::Piece { bytes: Place::decode(head, words)? },
            HAND_OVER => {
                let ticket = Ticket { place: returns::Place::decode(w2)?, len: w3 };
                let back = head & BACK != 0;
                Self::HandOver { tag: w0, kind, handed: Handed { ticket, back } }
            }
            READ => Self::Read { id: w0, secret: w1, offset: w2, len: w3 },
            READ_PIECE => Self::ReadPiece { id: w0, bytes: Place::decode(head, words)? },
            READ_END => Self::ReadEnd { id: w0, result: result? },
            WRITE => Self::Write { secret: w1, offset: w2, len: w3 },
            WRITE_END => Self::WriteEnd { id: w0, notify: (head & NOTIFY != 0).then_some(w1) },
            WRITTEN => Self::Written { id: w0, result: result? },
            _ => return None,
        })
    }
}

const fn typed(kind: Option<u64>) -> u32 {
    if kind.is_some() { TYPED } else { 0 }
}

fn answer(id: u64, result: Result<(), AccessError>, words: &mut [u64; 7]) -> u32 {
    words[0] = id;
    let Err(why) = result else { return 0 };
    let (code, details) = match why {
        AccessError::Revoked => (REVOKED, [0; 3]),
        AccessError::OutOfBounds { offset, len, size } => (OUT_OF_BOUNDS, [offset, len, size]),
        AccessError::Forbidden { asked: "write" } => (NO_WRITE, [0; 3]),
        AccessError::Forbidden { .. } => (NO_READ, [0; 3]),
    };
    words[1] = code;
    words[2..5].copy_from_slice(&details);
    REFUSED
}

const fn reason(code: u64, offset: u64, len: u64, size: u64) -> Option<Result<(), AccessError>> {
    Some(Err(match code {
        REVOKED => AccessError::Revoked,
        OUT_OF_BOUNDS => AccessError::OutOfBounds { offset, len, size },
        NO_READ => AccessError::Forbidden { asked: "read" },
        NO_WRITE => AccessError::Forbidden { asked: "write" },
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_small_message_is_these_words() {
        let bytes = Place::inline(|bytes| bytes.copy_from_slice(b"egret"), 5);
        let slot = Slot::Message { tag: 7, kind: Some(9), bytes };
        let (head, words) = slot.encode(Counts { taken: 3, receives: 1, placed: 2 });
        assert_eq!(head, 0x0105_0101);
        let counts = 3 << 42 | 1 << 21 | 2;
        assert_eq!(words, [7, 9, u64::from_le_bytes(*b"egret\0\0\0"), 0, 0, 0, counts]);
    }

    fn places() -> impl Strategy<Value = Place> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..=INLINE)
                .prop_map(|bytes| Place::inline(|to| to.copy_from_slice(&bytes), bytes.len())),
            any::<(u64, u64, u64)>().prop_map(|(number, offset, len)| Place::Region {
                number,
                offset,
                len
            }),
            any::<(u64, u64)>().prop_map(|(offset, len)| Place::Bounce { offset, len }),
            any::<(u64, u64)>().prop_map(|(at, len)| Place::Process { at, len }),
        ]
    }

    fn results() -> impl Strategy<Value = Result<(), AccessError>> {
        prop_oneof![
            Just(Ok(())),
            Just(Err(AccessError::Revoked)),
            Just(Err(AccessError::Forbidden { asked: "read" })),
            Just(Err(AccessError::Forbidden { asked: "write" })),
            any::<(u64, u64, u64)>().prop_map(|(offset, len, size)| {
                Err(AccessError::OutOfBounds { offset, len, size })
            }),
        ]
    }

    fn slots() -> impl Strategy<Value = Slot> {
        let kind = any::<Option<u64>>();
        prop_oneof![
            (any::<u64>(), kind, places()).prop_map(|(tag, kind, bytes)| Slot::Message {
                tag,
                kind,
                bytes
            }),
            any::<(u64, Option<u64>, u64)>().prop_map(|(tag, kind, len)| Slot::Begin {
                tag,
                kind,
                len
            }),
            places().prop_map(|bytes| Slot::Piece { bytes }),
            any::<(u64, Option<u64>, u64, u64, bool)>().prop_filter_map(
                "a place",
                |(tag, kind, place, len, back)| {
                    let ticket = Ticket { place: returns::Place::decode(place)?, len };
                    Some(Slot::HandOver { tag, kind, handed: Handed { ticket, back } })
                }
            ),
            any::<(u64, u64, u64, u64)>().prop_map(|(id, secret, offset, len)| Slot::Read {
                id,
                secret,
                offset,
                len
            }),
            (any::<u64>(), places()).prop_map(|(id, bytes)| Slot::ReadPiece { id, bytes }),
            (any::<u64>(), results()).prop_map(|(id, result)| Slot::ReadEnd { id, result }),
            any::<(u64, u64, u64)>().prop_map(|(secret, offset, len)| Slot::Write {
                secret,
                offset,
                len
            }),
            any::<(u64, Option<u64>)>().prop_map(|(id, notify)| Slot::WriteEnd { id, notify }),
            (any::<u64>(), results()).prop_map(|(id, result)| Slot::Written { id, result }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(slot in slots(), taken: u64, receives: u64, placed: u64) {
            let counts = Counts { taken, receives, placed };
            prop_assert_eq!(Slot::decode(&slot.encode(counts)), Some(slot));
            prop_assert_eq!(slot.encode(counts).1[COUNTS], counts.pack());
        }

        #[test]
        fn a_small_message_is_a_message(
            tag: u64, taken: u64,
            sent in proptest::collection::vec(any::<u8>(), 0..=INLINE),
        ) {
            let counts = Counts { taken, ..Counts::default() };
            let (head, words) = Small::encode(tag, &sent, counts);
            let bytes = Place::inline(|to| to.copy_from_slice(&sent), sent.len());
            prop_assert_eq!((head, words), Slot::Message { tag, kind: None, bytes }.encode(counts));
            let small = Small::decode(head, &words).unwrap();
            let mut got = vec![0; small.len];
            small.copy_to(&mut got);
            prop_assert_eq!((small.tag, got), (tag, sent));
        }

        #[test]
        fn any_words_are_an_answer(head: u32, words: [u64; 7]) {
            if let Some(slot) = Slot::decode(&(head, words)) {
                prop_assert_eq!(Slot::decode(&slot.encode(Counts::default())), Some(slot));
            }
        }
    }
}
