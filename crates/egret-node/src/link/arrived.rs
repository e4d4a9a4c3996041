//! A frame that has arrived.

use egret_net::buf::Buf;

use super::{Head, Lane};

/// A frame, in memory that is its own.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) head: Head,
    /// Whether its data lies in a buffer that the endpoint it is for has supplied.
    pub(crate) supplied: bool,
    /// The buffer that was chosen for its first bytes, unless it was taken out.
    landed: Option<Buf>,
    /// Bytes in that buffer, also once it was taken out.
    came: usize,
    /// The bytes behind those, or all.
    own: Vec<u8>,
}

impl Arrived {
    #[inline]
    pub(crate) fn from_parts(head: Head, landed: Option<Buf>, own: Vec<u8>) -> Self {
        let came = landed.as_ref().map_or(0, Buf::len);
        Self { head, supplied: false, landed, came, own }
    }

    /// The bytes of its words, and its payload. `None` if it is shorter than its words.
    #[inline]
    pub(crate) fn parts(&self) -> Option<(&[u8], &[u8])> {
        let words = usize::from(self.head.words) * 8;
        if self.head.kind.lane() != Lane::Bulk {
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
    pub(crate) fn read_words(&self, to: &mut [u64; Head::WORDS_MAX]) -> usize {
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
        self.landed.is_none() && !matches!(self.head.kind.lane(), Lane::Bulk)
    }

    /// Becomes another short frame, in the same memory.
    #[inline]
    pub(crate) fn reuse(&mut self, head: Head, bytes: &[u8]) {
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
