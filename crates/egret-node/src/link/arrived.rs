//! A frame that has arrived.

use egret_net::buf::Buf;
use egret_net::vi::{Completion, Descriptor};

use super::{Head, Lane};

/// A frame and the memory it lies in: a receive's own, and before it perhaps a buffer that
/// was chosen for it. It is moved about, and small for that.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) head: Head,
    /// Whether its memory is a receive, to be received into again.
    borrowed: bool,
    /// Whether its first bytes are in a buffer of their own, which is still there.
    landed: bool,
    /// Whether that buffer was supplied by the endpoint it is for.
    pub(crate) supplied: bool,
    memory: Descriptor,
    /// Bytes in that buffer, also once it was taken out.
    came: usize,
    /// Bytes in the receive's own memory.
    own: usize,
}

impl Arrived {
    /// What a receive of a reliable connection got.
    #[inline]
    pub(crate) fn from_completion(head: Head, completion: Completion) -> Self {
        let len = usize::try_from(completion.len).unwrap_or(usize::MAX);
        let memory = completion.into_descriptor();
        let landed = memory.is_landed();
        let came = if landed { memory.bytes().len() } else { 0 };
        Self { head, borrowed: true, landed, supplied: false, memory, came, own: len - came }
    }

    /// What was drained, in memory of at least its length.
    #[inline]
    pub(crate) fn from_eager(head: Head, bytes: &[u8], mut memory: Descriptor) -> Self {
        let own = bytes.len();
        memory.bytes_mut().expect("memory of its own")[..own].copy_from_slice(bytes);
        let (landed, supplied, came) = (false, false, 0);
        Self { head, borrowed: true, landed, supplied, memory, came, own }
    }

    /// What a window has put together.
    pub(crate) fn from_parts(head: Head, landed: Option<Buf>, own: Vec<u8>) -> Self {
        let (came, len) = (landed.as_ref().map_or(0, Buf::len), own.len());
        let landed_at_all = landed.is_some();
        let memory = match landed {
            Some(buf) => Descriptor::new(buf).and(own),
            None => Descriptor::new(own),
        };
        let (borrowed, supplied) = (false, false);
        Self { head, borrowed, landed: landed_at_all, supplied, memory, came, own: len }
    }

    /// What is in the receive's own memory.
    #[inline]
    fn own(&self) -> &[u8] {
        if !self.landed {
            return &self.memory.bytes()[..self.own];
        }
        self.memory.segments().nth(1).map_or(&[], |own| &own.bytes()[..self.own])
    }

    /// The buffer that was chosen, if one was.
    fn chosen(&self) -> Option<&[u8]> {
        self.landed.then(|| self.memory.bytes())
    }

    /// The bytes of its words, and its payload. `None` if it is shorter than its words.
    #[inline]
    pub(crate) fn parts(&self) -> Option<(&[u8], &[u8])> {
        let words = usize::from(self.head.words) * 8;
        if self.head.kind.lane() == Lane::Bulk {
            let own = self.own();
            let (tail, words) = own.split_at_checked(own.len().checked_sub(words)?)?;
            return Some((words, self.chosen().unwrap_or(tail)));
        }
        self.bytes().split_at_checked(words)
    }

    /// All of it, words and payload; not of the bulk lane.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.landed { self.memory.bytes() } else { self.own() }
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
        (self.own + self.came - words.min(self.own)) as u64
    }

    /// Whether memory was chosen for it.
    pub(crate) const fn has_landed(&self) -> bool {
        self.landed
    }

    /// Takes out the memory that was chosen for it.
    pub(crate) fn take_landed(&mut self) -> Option<Buf> {
        if !self.landed {
            return None;
        }
        self.landed = false;
        if self.borrowed {
            return self.memory.take_landed();
        }
        let mut segments = std::mem::take(&mut self.memory).into_segments();
        let buf = segments.next().and_then(|first| first.into_buf().ok());
        self.memory = segments.next().map_or_else(Descriptor::empty, Descriptor::new);
        buf
    }

    /// Copies it out of the receive, which is given back to be posted again.
    pub(crate) fn detach(&mut self) -> Option<Descriptor> {
        if !self.borrowed {
            return None;
        }
        self.borrowed = false;
        let own = self.own().to_vec();
        let landed = if self.landed { self.memory.take_landed() } else { None };
        let copy = match landed {
            Some(buf) => Descriptor::new(buf).and(own),
            None => Descriptor::new(own),
        };
        Some(std::mem::replace(&mut self.memory, copy))
    }

    /// Whether it is in a receive.
    #[inline]
    pub(crate) const fn is_borrowed(&self) -> bool {
        self.borrowed
    }

    /// Gives back its receive, to be posted again.
    #[inline]
    pub(crate) fn release(self) -> Option<Descriptor> {
        if self.borrowed { Some(self.memory) } else { None }
    }
}
