//! A frame that has arrived.

use egret_net::buf::Buf;
use egret_net::vi::{Completion, Descriptor};

use super::{Head, Lane};

/// A frame and the memory it lies in. It is moved about, and small for that.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) head: Head,
    /// Whether its data lies in a buffer that the endpoint it is for has supplied.
    pub(crate) supplied: bool,
    memory: Memory,
}

#[derive(Debug)]
enum Memory {
    /// All bytes of a short frame.
    Short(Vec<u8>),
    Long(Long),
}

/// A receive's own memory, and before it perhaps a buffer that was chosen for the frame.
#[derive(Debug)]
struct Long {
    memory: Descriptor,
    /// Whether its memory is a receive, to be received into again.
    borrowed: bool,
    /// Whether its first bytes are in a buffer of their own, which is still there.
    landed: bool,
    /// Bytes in that buffer, also once it was taken out.
    came: usize,
    /// Bytes in the receive's own memory.
    own: usize,
}

/// What a frame gives back when it is done with.
#[derive(Debug)]
pub(crate) enum Spare {
    /// Memory for another short frame.
    Short(Vec<u8>),
    /// A receive of the bulk lane, to be posted again.
    Receive(Descriptor),
    Nothing,
}

impl Arrived {
    /// What a receive of a reliable connection got.
    #[inline]
    pub(crate) fn from_completion(head: Head, completion: Completion) -> Self {
        let len = usize::try_from(completion.len).unwrap_or(usize::MAX);
        let memory = completion.into_descriptor();
        let landed = memory.is_landed();
        let came = if landed { memory.bytes().len() } else { 0 };
        let long = Long { memory, borrowed: true, landed, came, own: len - came };
        Self { head, supplied: false, memory: Memory::Long(long) }
    }

    /// What was drained.
    #[inline]
    pub(crate) const fn short(head: Head, bytes: Vec<u8>) -> Self {
        Self { head, supplied: false, memory: Memory::Short(bytes) }
    }

    /// What a window has put together.
    pub(crate) fn from_parts(head: Head, landed: Option<Buf>, own: Vec<u8>) -> Self {
        let (came, len) = (landed.as_ref().map_or(0, Buf::len), own.len());
        let (memory, landed) = match landed {
            Some(buf) => (Descriptor::new(buf).and(own), true),
            None if head.kind.lane() != Lane::Bulk => return Self::short(head, own),
            None => (Descriptor::new(own), false),
        };
        let long = Long { memory, borrowed: false, landed, came, own: len };
        Self { head, supplied: false, memory: Memory::Long(long) }
    }

    /// The bytes of its words, and its payload. `None` if it is shorter than its words.
    #[inline]
    pub(crate) fn parts(&self) -> Option<(&[u8], &[u8])> {
        let words = usize::from(self.head.words) * 8;
        match &self.memory {
            Memory::Short(bytes) => bytes.split_at_checked(words),
            Memory::Long(long) if self.head.kind.lane() == Lane::Bulk => long.parts(words),
            Memory::Long(long) => long.bytes().split_at_checked(words),
        }
    }

    /// All of it, words and payload; not of the bulk lane.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Short(bytes) => bytes,
            Memory::Long(long) => long.bytes(),
        }
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
        let (own, came) = match &self.memory {
            Memory::Short(bytes) => (bytes.len(), 0),
            Memory::Long(long) => (long.own, long.came),
        };
        (own + came - words.min(own)) as u64
    }

    /// Whether memory was chosen for it.
    pub(crate) const fn has_landed(&self) -> bool {
        matches!(&self.memory, Memory::Long(long) if long.landed)
    }

    /// Takes out the memory that was chosen for it.
    #[inline]
    pub(crate) fn take_landed(&mut self) -> Option<Buf> {
        match &mut self.memory {
            Memory::Long(long) if long.landed => long.take_landed(),
            _ => None,
        }
    }

    /// Copies it out of its receive, which is given back to be posted again.
    pub(crate) fn detach(&mut self) -> Option<Descriptor> {
        match &mut self.memory {
            Memory::Long(long) if long.borrowed => Some(long.detach()),
            _ => None,
        }
    }

    /// Whether it is in a receive.
    #[inline]
    pub(crate) const fn is_borrowed(&self) -> bool {
        matches!(&self.memory, Memory::Long(long) if long.borrowed)
    }

    /// Whether it was drained, and is in memory of its own.
    #[inline]
    pub(crate) const fn is_short(&self) -> bool {
        matches!(self.memory, Memory::Short(_))
    }

    /// Becomes another short frame, in the same memory. `false` if it is not short.
    #[inline]
    pub(crate) fn reuse(&mut self, head: Head, bytes: &[u8]) -> bool {
        let Memory::Short(memory) = &mut self.memory else { return false };
        memory.clear();
        memory.extend_from_slice(bytes);
        (self.head, self.supplied) = (head, false);
        true
    }

    /// Gives back its memory.
    #[inline]
    pub(crate) fn release(self) -> Spare {
        match self.memory {
            Memory::Short(bytes) => Spare::Short(bytes),
            Memory::Long(Long { borrowed: true, memory, .. }) => Spare::Receive(memory),
            Memory::Long(_) => Spare::Nothing,
        }
    }
}

impl Long {
    /// What is in the receive's own memory.
    fn own(&self) -> &[u8] {
        if !self.landed {
            return &self.memory.bytes()[..self.own];
        }
        self.memory.segments().nth(1).map_or(&[], |own| &own.bytes()[..self.own])
    }

    fn bytes(&self) -> &[u8] {
        if self.landed { self.memory.bytes() } else { self.own() }
    }

    /// The words, which are the last of its own bytes, and the data.
    fn parts(&self, words: usize) -> Option<(&[u8], &[u8])> {
        let own = self.own();
        let (tail, words) = own.split_at_checked(own.len().checked_sub(words)?)?;
        Some((words, if self.landed { self.memory.bytes() } else { tail }))
    }

    fn take_landed(&mut self) -> Option<Buf> {
        self.landed = false;
        if self.borrowed {
            return self.memory.take_landed();
        }
        let mut segments = std::mem::take(&mut self.memory).into_segments();
        let buf = segments.next().and_then(|first| first.into_buf().ok());
        self.memory = segments.next().map_or_else(Descriptor::empty, Descriptor::new);
        buf
    }

    fn detach(&mut self) -> Descriptor {
        self.borrowed = false;
        let own = self.own().to_vec();
        let landed = if self.landed { self.memory.take_landed() } else { None };
        let copy = match landed {
            Some(buf) => Descriptor::new(buf).and(own),
            None => Descriptor::new(own),
        };
        std::mem::replace(&mut self.memory, copy)
    }
}
