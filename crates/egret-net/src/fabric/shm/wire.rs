//! What a record of the ring of posted messages says; `docs/wire/shm.md` has the bits.
//!
//! The first word of its payload has the sender's own counts (lines taken, receives posted,
//! messages placed), so that in a conversation no other cache line needs to travel. A *record*
//! is a whole message without a type. Everything else is an *item*, whose tag says what it is.
//!
//! Everything read from a peer is a copy, and is checked after it was copied.

use super::cooperating::HandedBuffer;
use super::cooperating::lent::BufferTicket;
use super::cooperating::returns;
use super::memory::WORD;
use super::records::{INLINE_WORDS, POSTED_MAX, TakenRecord};
use crate::fabric::common::counts::ReceiveCounts;
use crate::vi::AccessError;

/// What a record carries, without its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostedItem {
    /// A whole message.
    Message { tag: u64, kind: Option<u64>, bytes: DataPlace },
    /// A message of several pieces begins; they follow.
    Begin { tag: u64, kind: Option<u64>, len: u64 },
    /// A piece of the message or write that began last.
    Piece { bytes: DataPlace },
    /// A message that is a buffer, handed over as it is.
    HandOver { tag: u64, kind: Option<u64>, handed: HandedBuffer },
    /// Asks for bytes of exposed memory.
    Read { id: u64, secret: u64, offset: u64, len: u64 },
    /// A piece of the answer to a read; these come in order, and read by read.
    ReadPiece { id: u64, bytes: DataPlace },
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
pub(super) enum DataPlace {
    /// In the record itself, from this byte of its payload on. Who writes a record appends them,
    /// wherever that is.
    Inline { at: u16, len: u16 },
    /// In a region of the sender's that it has announced under this number.
    Region { number: u64, offset: u64, len: u64 },
    /// In the sender's bounce area.
    Bounce { offset: u64, len: u64 },
    /// At an address of the sender's process.
    Process { at: u64, len: u64 },
}

/// Bytes that travel in a record at most.
pub(super) const INLINE: usize = POSTED_MAX - INLINE_AT;

/// What an item is written as: the tag of its record, and the words of the payload that come
/// before bytes in the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ItemWords {
    pub what: u64,
    pub words: [u64; INLINE_WORDS],
    /// Whether bytes follow, in the place of the goodbye.
    is_inline: bool,
}

/// Where the bytes of a record that is a message begin in its payload.
pub(super) const MESSAGE_AT: usize = WORD;
/// Where the bytes of an item begin in its payload.
const INLINE_AT: usize = 3 * WORD;

const MESSAGE: u64 = 1;
const BEGIN: u64 = 2;
const PIECE: u64 = 3;
const READ: u64 = 4;
const READ_PIECE: u64 = 5;
const READ_END: u64 = 6;
const WRITE: u64 = 7;
const WRITE_END: u64 = 8;
const WRITTEN: u64 = 9;
const HAND_OVER: u64 = 10;

const TYPED: u64 = 1 << 24;
const NOTIFY: u64 = 2 << 24;
const REFUSED: u64 = 4 << 24;
const BACK: u64 = 8 << 24;

impl ItemWords {
    /// Whether no bytes follow.
    #[inline]
    pub(super) const fn is_whole(&self) -> bool {
        !self.is_inline
    }

    /// The words before bytes in the record.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        let bytes = bytemuck::bytes_of(&self.words);
        if self.is_inline { &bytes[..INLINE_AT] } else { bytes }
    }
}

/// Copies the bytes of a record that is a whole message to where there is room for just them.
#[inline]
pub(super) fn copy_message(taken: &TakenRecord<'_>, to: &mut [u8]) {
    if to.len() > (INLINE_WORDS - 1) * WORD {
        to.copy_from_slice(&taken.payload[MESSAGE_AT..]);
        return;
    }
    let [_, words @ ..] = taken.words;
    let (chunks, rest) = to.as_chunks_mut::<WORD>();
    for (chunk, word) in chunks.iter_mut().zip(&words) {
        *chunk = word.to_ne_bytes();
    }
    if !rest.is_empty() {
        let last = words[chunks.len()].to_ne_bytes();
        match rest.len() {
            4 => rest.copy_from_slice(&last[..4]),
            _ => rest.iter_mut().zip(last).for_each(|(to, from)| *to = from),
        }
    }
}

impl TakenRecord<'_> {
    /// The counts of who sent it; of a record too short for them whatever was there before.
    #[inline]
    pub(super) const fn counts(&self) -> u64 {
        self.words[0]
    }
}

impl DataPlace {
    /// So many bytes in a record, which are appended to what is written there.
    ///
    /// # Panics
    ///
    /// If they are more than fit.
    pub(super) fn appended(len: usize) -> Self {
        assert!(len <= INLINE, "{len} bytes in a record");
        Self::inline(INLINE_AT, len).expect("a few")
    }

    fn inline(at: usize, len: usize) -> Option<Self> {
        Some(Self::Inline { at: u16::try_from(at).ok()?, len: u16::try_from(len).ok()? })
    }

    pub(super) const fn len(&self) -> u64 {
        match self {
            Self::Inline { len, .. } => *len as u64,
            Self::Region { len, .. } | Self::Bounce { len, .. } | Self::Process { len, .. } => *len,
        }
    }

    /// Whether the bytes are in the record.
    pub(super) const fn is_inline(self) -> bool {
        matches!(self, Self::Inline { .. })
    }

    /// Whether the bytes are in memory that the sender has other uses for.
    pub(super) const fn is_lent(&self) -> bool {
        matches!(self, Self::Region { .. } | Self::Process { .. })
    }

    /// The first `most` of its bytes, of which it has more, and the others. A peer may have
    /// said anything: what lies outside its memory is found when it is read.
    const fn split_at(self, most: u64) -> [Self; 2] {
        let left = self.len().saturating_sub(most);
        match self {
            // No more than a record holds, which is less than anybody cuts at.
            Self::Inline { at, .. } => [self, Self::Inline { at, len: 0 }],
            Self::Region { number, offset, .. } => [
                Self::Region { number, offset, len: most },
                Self::Region { number, offset: offset.saturating_add(most), len: left },
            ],
            Self::Bounce { offset, .. } => [
                Self::Bounce { offset, len: most },
                Self::Bounce { offset: offset.saturating_add(most), len: left },
            ],
            Self::Process { at, .. } => [
                Self::Process { at, len: most },
                Self::Process { at: at.wrapping_add(most), len: left },
            ],
        }
    }

    fn encode(self, words: &mut [u64; 5]) -> u64 {
        match self {
            Self::Inline { .. } => IN_RECORD,
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

    /// Where an item says that its bytes are, of which so many could be in its record.
    fn decode(what: u64, words: &[u64; 5], len: usize) -> Option<Self> {
        match what >> 8 & 0xff {
            1 => Self::inline(INLINE_AT, len),
            2 => Some(Self::Region { number: words[2], offset: words[3], len: words[4] }),
            3 => Some(Self::Bounce { offset: words[3], len: words[4] }),
            4 => Some(Self::Process { at: words[3], len: words[4] }),
            _ => None,
        }
    }
}

const IN_RECORD: u64 = 1 << 8;

impl PostedItem {
    #[inline]
    pub(super) fn encode(self, counts: ReceiveCounts) -> ItemWords {
        let mut words = [0; 5];
        let what = match self {
            Self::Message { tag, kind, bytes } => {
                [words[0], words[1]] = [tag, kind.unwrap_or(0)];
                MESSAGE | bytes.encode(&mut words) | typed(kind)
            }
            Self::Begin { tag, kind, len } => {
                [words[0], words[1], words[4]] = [tag, kind.unwrap_or(0), len];
                BEGIN | typed(kind)
            }
            Self::Piece { bytes } => PIECE | bytes.encode(&mut words),
            Self::HandOver { tag, kind, handed: HandedBuffer { ticket, back } } => {
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
        let [a, b, c, d, e] = words;
        let is_inline = what & 0xff << 8 == IN_RECORD;
        ItemWords { what, words: [counts.pack(), a, b, c, d, e], is_inline }
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
    pub(super) const fn place(&self) -> Option<&DataPlace> {
        match self {
            Self::Message { bytes, .. } | Self::Piece { bytes } | Self::ReadPiece { bytes, .. } => {
                Some(bytes)
            }
            _ => None,
        }
    }

    /// The item, if it brings no more than `most` bytes; otherwise two that say the same one
    /// after the other.
    pub(super) fn cut(self, most: u64) -> (Self, Option<Self>) {
        if self.place().is_none_or(|bytes| bytes.len() <= most) {
            return (self, None);
        }
        match self {
            Self::Message { tag, kind, bytes } => {
                (Self::Begin { tag, kind, len: bytes.len() }, Some(Self::Piece { bytes }))
            }
            Self::Piece { bytes } => {
                let [now, later] = bytes.split_at(most).map(|bytes| Self::Piece { bytes });
                (now, Some(later))
            }
            Self::ReadPiece { id, bytes } => {
                let piece = |bytes| Self::ReadPiece { id, bytes };
                let [now, later] = bytes.split_at(most).map(piece);
                (now, Some(later))
            }
            other => (other, None),
        }
    }

    /// What a peer's record says beside the counts; `None` if it makes no sense.
    pub(super) fn decode(taken: &TakenRecord<'_>) -> Option<Self> {
        let TakenRecord { is_item, tag, payload, words } = *taken;
        if !is_item {
            let bytes = DataPlace::inline(MESSAGE_AT, payload.len().checked_sub(MESSAGE_AT)?)?;
            return Some(Self::Message { tag, kind: None, bytes });
        }
        let [_, words @ ..] = words;
        let (head, [w0, w1, w2, w3, w4]) = (tag, words);
        let len = payload.len().checked_sub(INLINE_AT)?;
        let kind = (head & TYPED != 0).then_some(w1);
        let refused = || AccessError::from_words([w1, w2, w3, w4]).map(Err);
        let result = if head & REFUSED == 0 { Some(Ok(())) } else { refused() };
        Some(match head & 0xff {
            MESSAGE => {
                Self::Message { tag: w0, kind, bytes: DataPlace::decode(head, &words, len)? }
            }
            BEGIN => Self::Begin { tag: w0, kind, len: w4 },
            PIECE => Self::Piece { bytes: DataPlace::decode(head, &words, len)? },
            HAND_OVER => {
                let ticket = BufferTicket { place: returns::SlotPlace::decode(w2)?, len: w3 };
                let back = head & BACK != 0;
                Self::HandOver { tag: w0, kind, handed: HandedBuffer { ticket, back } }
            }
            READ => Self::Read { id: w0, secret: w1, offset: w2, len: w3 },
            READ_PIECE => Self::ReadPiece { id: w0, bytes: DataPlace::decode(head, &words, len)? },
            READ_END => Self::ReadEnd { id: w0, result: result? },
            WRITE => Self::Write { secret: w1, offset: w2, len: w3 },
            WRITE_END => Self::WriteEnd { id: w0, notify: (head & NOTIFY != 0).then_some(w1) },
            WRITTEN => Self::Written { id: w0, result: result? },
            _ => return None,
        })
    }
}

const fn typed(kind: Option<u64>) -> u64 {
    if kind.is_some() { TYPED } else { 0 }
}

fn answer(id: u64, result: Result<(), AccessError>, words: &mut [u64; 5]) -> u64 {
    words[0] = id;
    let Err(why) = result else { return 0 };
    words[1..].copy_from_slice(&why.to_words());
    REFUSED
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a peer makes of an item with these bytes in its record.
    fn decoded(item: PostedItem, bytes: &[u8], counts: ReceiveCounts) -> (u64, Option<PostedItem>) {
        let words = item.encode(counts);
        let payload = [words.bytes(), bytes].concat();
        let taken = taken(true, words.what, &payload);
        (taken.counts(), PostedItem::decode(&taken))
    }

    /// A record as it is taken.
    fn taken(is_item: bool, tag: u64, payload: &[u8]) -> TakenRecord<'_> {
        let mut words = [0; INLINE_WORDS];
        let first = payload.len().min(size_of_val(&words));
        bytemuck::bytes_of_mut(&mut words)[..first].copy_from_slice(&payload[..first]);
        TakenRecord { is_item, tag, payload, words }
    }

    #[test]
    fn items_are_these_words() {
        let counts = ReceiveCounts { taken: 3, receives: 1, placed: 2 };
        let packed = 3 << 42 | 1 << 21 | 2;
        let typed = PostedItem::Message { tag: 7, kind: Some(9), bytes: DataPlace::appended(5) };
        let words = typed.encode(counts);
        assert_eq!((words.what, words.words), (0x0100_0101, [packed, 7, 9, 0, 0, 0]));
        assert_eq!(words.bytes().len(), 24, "the bytes follow");
        let bytes = DataPlace::Region { number: 3, offset: 4, len: 5 };
        let words = PostedItem::Message { tag: 7, kind: None, bytes }.encode(counts);
        assert_eq!((words.what, words.words), (0x0201, [packed, 7, 0, 3, 4, 5]));
        assert_eq!(words.bytes().len(), 48);
    }

    #[test]
    fn a_record_is_a_message_behind_its_counts() {
        let payload = [&5_u64.to_ne_bytes()[..], b"egret"].concat();
        let record = taken(false, 7, &payload);
        let bytes = DataPlace::Inline { at: 8, len: 5 };
        assert_eq!(record.counts(), 5);
        assert_eq!(
            PostedItem::decode(&record),
            Some(PostedItem::Message { tag: 7, kind: None, bytes })
        );
        assert_eq!(PostedItem::decode(&taken(false, 7, &payload[..7])), None);
        for len in 0..100_u8 {
            let sent: Vec<u8> = (0..len).collect();
            let payload = [&[0; 8][..], &sent].concat();
            let mut came = vec![0; sent.len()];
            copy_message(&taken(false, 7, &payload), &mut came);
            assert_eq!(came, sent);
        }
    }

    #[test]
    fn the_parts_say_what_the_whole_said() {
        let bytes = DataPlace::Region { number: 3, offset: 100, len: 2_500 };
        let mut item = PostedItem::Message { tag: 7, kind: None, bytes };
        assert_eq!(item.cut(2_500), (item, None), "small enough");
        let mut parts = Vec::new();
        while let (now, Some(later)) = item.cut(1_000) {
            parts.push(now);
            item = later;
        }
        parts.push(item);
        let piece =
            |offset, len| PostedItem::Piece { bytes: DataPlace::Region { number: 3, offset, len } };
        let begin = PostedItem::Begin { tag: 7, kind: None, len: 2_500 };
        assert_eq!(parts, [begin, piece(100, 1_000), piece(1_100, 1_000), piece(2_100, 500)]);
    }

    fn places() -> impl Strategy<Value = DataPlace> {
        prop_oneof![
            (0..=INLINE).prop_map(DataPlace::appended),
            any::<(u64, u64, u64)>().prop_map(|(number, offset, len)| DataPlace::Region {
                number,
                offset,
                len
            }),
            any::<(u64, u64)>().prop_map(|(offset, len)| DataPlace::Bounce { offset, len }),
            any::<(u64, u64)>().prop_map(|(at, len)| DataPlace::Process { at, len }),
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

    fn items() -> impl Strategy<Value = PostedItem> {
        let kind = any::<Option<u64>>();
        prop_oneof![
            (any::<u64>(), kind, places()).prop_map(|(tag, kind, bytes)| PostedItem::Message {
                tag,
                kind,
                bytes
            }),
            any::<(u64, Option<u64>, u64)>().prop_map(|(tag, kind, len)| PostedItem::Begin {
                tag,
                kind,
                len
            }),
            places().prop_map(|bytes| PostedItem::Piece { bytes }),
            any::<(u64, Option<u64>, u64, u64, bool)>().prop_filter_map(
                "a place",
                |(tag, kind, place, len, back)| {
                    let ticket = BufferTicket { place: returns::SlotPlace::decode(place)?, len };
                    Some(PostedItem::HandOver { tag, kind, handed: HandedBuffer { ticket, back } })
                }
            ),
            any::<(u64, u64, u64, u64)>().prop_map(|(id, secret, offset, len)| PostedItem::Read {
                id,
                secret,
                offset,
                len
            }),
            (any::<u64>(), places()).prop_map(|(id, bytes)| PostedItem::ReadPiece { id, bytes }),
            (any::<u64>(), results()).prop_map(|(id, result)| PostedItem::ReadEnd { id, result }),
            any::<(u64, u64, u64)>().prop_map(|(secret, offset, len)| PostedItem::Write {
                secret,
                offset,
                len
            }),
            any::<(u64, Option<u64>)>()
                .prop_map(|(id, notify)| PostedItem::WriteEnd { id, notify }),
            (any::<u64>(), results()).prop_map(|(id, result)| PostedItem::Written { id, result }),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(item in items(), taken: u64, receives: u64, placed: u64) {
            let counts = ReceiveCounts { taken, receives, placed };
            let len = item.place().filter(|place| place.is_inline()).map_or(0, DataPlace::len);
            let bytes = vec![1; usize::try_from(len).unwrap()];
            prop_assert_eq!(decoded(item, &bytes, counts), (counts.pack(), Some(item)));
        }

        #[test]
        fn any_words_are_an_answer(
            is_item: bool,
            tag: u64,
            payload in proptest::collection::vec(any::<u8>(), 0..=POSTED_MAX),
        ) {
            if let Some(item) = PostedItem::decode(&taken(is_item, tag, &payload)) {
                let end = match item.place() {
                    Some(DataPlace::Inline { at, len }) => usize::from(*at) + usize::from(*len),
                    _ => 0,
                };
                prop_assert!(end <= payload.len(), "{item:?} of {} bytes", payload.len());
            }
        }
    }
}
