//! The head of a frame: the tag of one message of a virtual interface.
//!
//! | bits | |
//! |---|---|
//! | 60–63 | what it is |
//! | 55–59 | how many words of arguments are at its end |
//! | 47–54 | the handler |
//! | 24–46 | the slot: a mapping or a channel, numbered by who receives |
//! | 0–23 | the request that it is or answers |

use egret_net::buf::Buf;
use egret_net::vi::EAGER_MAX;

/// The kind and receiver of a frame, in the 64 bits that travel with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    /// What it is.
    pub(crate) kind: FrameKind,
    /// Words of arguments at the end of its bytes, at most [`Self::WORDS_MAX`].
    pub(crate) words: u8,
    /// The handler it is for.
    pub(crate) handler: u8,
    /// The mapping or channel it belongs to, as its receiver numbers them.
    pub(crate) slot: u32,
    /// The request it is or answers.
    pub(crate) request: u32,
}

/// Of which of a link's three lanes a frame is. None of them waits for those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum LinkLane {
    /// What keeps the link itself going.
    Control = 0,
    /// Short and medium messages.
    Talk = 1,
    /// Everything that may be large.
    Bulk = 2,
}

impl LinkLane {
    /// All of them, the most urgent first.
    pub(crate) const ALL: [Self; 3] = [Self::Control, Self::Talk, Self::Bulk];
}

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// Between the two sides of a link: what `handler` says, in bytes.
    Control = 0,
    /// A message that is answered.
    Request = 1,
    /// A message that is not.
    OneWay = 2,
    /// The answer to a request.
    Reply = 3,
    /// The answer that there will be none, with the reason.
    NoReply = 4,
    /// A message that could not be delivered, sent back.
    Returned = 5,
    /// The place of a request with data, which comes by its own lane.
    Place = 6,
    /// A request with data does not come: its place is given up.
    NoPlace = 7,
    /// A message with data, answered or not.
    Bulk = 8,
    /// The answer to a request, with data.
    BulkReply = 9,
    /// Bytes of a channel, and more of the same message will follow.
    Part = 10,
    /// The last bytes of a channel's message.
    Last = 11,
    /// A channel's message ends here and is not to be used.
    Abort = 12,
    /// A channel ends.
    End = 13,
}

impl FrameKind {
    /// Every kind there is, each at its number.
    pub(crate) const ALL: [Self; 14] = [
        Self::Control,
        Self::Request,
        Self::OneWay,
        Self::Reply,
        Self::NoReply,
        Self::Returned,
        Self::Place,
        Self::NoPlace,
        Self::Bulk,
        Self::BulkReply,
        Self::Part,
        Self::Last,
        Self::Abort,
        Self::End,
    ];

    /// The lane it goes by.
    #[inline]
    pub(crate) const fn lane(self) -> LinkLane {
        match self as u8 {
            0 => LinkLane::Control,
            1..=7 => LinkLane::Talk,
            _ => LinkLane::Bulk,
        }
    }
}

impl FrameHead {
    /// Most words of arguments.
    pub(crate) const WORDS_MAX: usize = 16;
    /// Mappings and channels that a link can have in one direction.
    pub(crate) const SLOTS: u32 = 1 << 23;
    /// Requests that a link can have under way in one direction.
    pub(crate) const REQUESTS: u32 = 1 << 24;

    /// A frame of this kind for a slot.
    #[inline]
    pub(crate) const fn of(kind: FrameKind, slot: u32) -> Self {
        Self { kind, words: 0, handler: 0, slot, request: 0 }
    }

    /// As it travels.
    ///
    /// # Panics
    ///
    /// If a number does not fit its bits.
    #[inline]
    pub(crate) const fn to_bits(self) -> u64 {
        assert!(self.words as usize <= Self::WORDS_MAX && self.slot < Self::SLOTS);
        assert!(self.request < Self::REQUESTS);
        (self.kind as u64) << 60
            | (self.words as u64) << 55
            | (self.handler as u64) << 47
            | (self.slot as u64) << 24
            | self.request as u64
    }

    /// Reads it back. `None` if there is no such kind, or it says more words than there can be.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "that many bits are taken")]
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        let kind = *FrameKind::ALL.get((bits >> 60) as usize)?;
        let words = (bits >> 55) as u8 & 0x1f;
        if words as usize > Self::WORDS_MAX {
            return None;
        }
        let handler = (bits >> 47) as u8;
        let slot = (bits >> 24) as u32 & (Self::SLOTS - 1);
        Some(Self { kind, words, handler, slot, request: bits as u32 & (Self::REQUESTS - 1) })
    }
}

/// A frame, in memory that is its own.
#[derive(Debug)]
pub(crate) struct ArrivedFrame {
    pub(crate) head: FrameHead,
    /// Whether its data lies in a buffer that the endpoint it is for has supplied.
    pub(crate) supplied: bool,
    /// The buffer that was chosen for its first bytes, unless it was taken out.
    landed: Option<Buf>,
    /// Bytes in that buffer, also once it was taken out.
    came: usize,
    /// The bytes behind those, or all.
    own: Vec<u8>,
}

impl ArrivedFrame {
    #[inline]
    pub(crate) fn from_parts(head: FrameHead, landed: Option<Buf>, own: Vec<u8>) -> Self {
        let came = landed.as_ref().map_or(0, Buf::len);
        Self { head, supplied: false, landed, came, own }
    }

    /// The bytes of its words, and its payload. `None` if it is shorter than its words.
    #[inline]
    pub(crate) fn parts(&self) -> Option<(&[u8], &[u8])> {
        let words = usize::from(self.head.words) * 8;
        if self.head.kind.lane() != LinkLane::Bulk {
            return self.bytes().split_at_checked(words);
        }
        // The words are the last of its own bytes.
        let (data, words) = self.own.split_at_checked(self.own.len().checked_sub(words)?)?;
        Some((words, self.landed.as_ref().map_or(data, Buf::bytes)))
    }

    /// All of it, words and payload; not of the bulk lane.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.landed.as_ref().map_or(&self.own, Buf::bytes)
    }

    /// Copies the words to `to`, and says how many there are.
    #[inline]
    pub(crate) fn read_words(&self, to: &mut [u64; FrameHead::WORDS_MAX]) -> usize {
        let words = self.parts().map_or(&[][..], |parts| parts.0);
        for (to, from) in to.iter_mut().zip(words.chunks_exact(8)) {
            *to = u64::from_le_bytes(from.try_into().expect("eight bytes"));
        }
        words.len() / 8
    }

    /// Bytes of the data behind which its words are, also once it was taken out; of the
    /// bulk lane.
    pub(crate) fn data_len(&self) -> u64 {
        let words = usize::from(self.head.words) * 8;
        (self.came + self.own.len().saturating_sub(words)) as u64
    }

    /// Whether memory was chosen for it.
    pub(crate) const fn has_landed(&self) -> bool {
        self.landed.is_some()
    }

    /// Takes out the memory that was chosen for it.
    #[inline]
    pub(crate) const fn take_landed(&mut self) -> Option<Buf> {
        self.landed.take()
    }

    /// Whether it holds nothing but a little memory of its own.
    #[inline]
    pub(crate) const fn is_short(&self) -> bool {
        self.landed.is_none() && !matches!(self.head.kind.lane(), LinkLane::Bulk)
    }

    /// Takes the frame out, and leaves one without memory.
    #[inline]
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::from_parts(self.head, None, Vec::new()))
    }

    /// Becomes another short frame, in the same memory.
    #[inline]
    pub(crate) fn reuse(&mut self, head: FrameHead, bytes: &[u8]) {
        self.own.clear();
        self.own.extend_from_slice(bytes);
        (self.head, self.supplied, self.landed, self.came) = (head, false, None, 0);
    }

    /// Its own memory, for another.
    #[inline]
    pub(crate) fn into_own(self) -> Vec<u8> {
        self.own
    }
}

/// Most bytes of a medium message: with 16 words, and a word that says why it comes back if it
/// does, what an eager message takes.
pub const MEDIUM_MAX: usize = EAGER_MAX - 8 * (FrameHead::WORDS_MAX + 1);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(bits: u64) {
            let (kind, words) = (bits >> 60, bits >> 55 & 0x1f);
            match FrameHead::from_bits(bits) {
                Some(head) => prop_assert_eq!(head.to_bits(), bits),
                None => prop_assert!(kind >= FrameKind::ALL.len() as u64 || words > 16),
            }
        }
    }

    #[test]
    fn a_head_is_these_bits() {
        let head =
            FrameHead { kind: FrameKind::Request, words: 3, handler: 7, slot: 5, request: 9 };
        assert_eq!(head.to_bits(), 0x1183_8000_0500_0009);
        assert_eq!(FrameHead::from_bits(head.to_bits()), Some(head));
    }

    #[test]
    fn every_kind_has_its_number() {
        for (number, kind) in FrameKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }
}
