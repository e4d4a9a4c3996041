//! What is sent, and what comes back.

use std::fmt;

use egret_net::buf::{Buf, Held};
use egret_net::vi::{EAGER_MAX, Segment};

use super::request::PLAIN;
use crate::link::{Head, Kind};

/// A message: the handler it is for, up to 16 words, and perhaps bytes or data.
///
/// ```
/// use egret_node::am::Message;
///
/// let short = Message::to(3).words(&[1, 2]);
/// let medium = Message::to(3).words(&[1]).bytes(b"copied");
/// let bulk = Message::to(4).data(vec![1.5_f64; 1000]);
/// let pieces = vec![vec![1_u32; 7].into(), vec![2.5_f64; 1000].into()];
/// let gathered = Message::to(4).gather(pieces);
/// ```
#[derive(Debug)]
#[must_use = "a message does nothing until it is sent"]
pub struct Message<'a> {
    pub(crate) handler: u8,
    pub(crate) words: &'a [u64],
    pub(crate) payload: Payload<'a>,
    pub(crate) is_in_order: bool,
}

#[derive(Debug)]
pub(crate) enum Payload<'a> {
    Copied(&'a [u8]),
    /// The same, to be copied behind each other.
    Pieces(&'a [&'a [u8]]),
    /// Memory that comes back.
    Data(Box<Segment>),
    /// Memory that is dropped when it has gone.
    Gather(Box<[Segment]>),
}

impl Payload<'_> {
    /// Whether it is sent from where it is.
    #[inline]
    pub(crate) const fn is_data(&self) -> bool {
        matches!(self, Self::Data(_) | Self::Gather(_))
    }

    /// Its pieces, as memory of their own.
    pub(crate) fn into_segments(self) -> Vec<Segment> {
        match self {
            Self::Copied(bytes) => vec![bytes.to_vec().into()],
            Self::Pieces(pieces) => vec![pieces.concat().into()],
            Self::Data(data) => vec![*data],
            Self::Gather(pieces) => pieces.into_vec(),
        }
    }
}

impl<'a> Message<'a> {
    /// For the handler of this number.
    pub const fn to(handler: u8) -> Self {
        Self { handler, words: &[], payload: Payload::Copied(&[]), is_in_order: false }
    }

    /// For who asked, and no handler there: [`Request::reply_with`](super::Request::reply_with).
    pub const fn answer() -> Self {
        Self::to(PLAIN)
    }

    /// With these words.
    ///
    /// # Panics
    ///
    /// If there are more than 16.
    #[inline]
    pub const fn words(mut self, words: &'a [u64]) -> Self {
        assert!(words.len() <= Head::WORDS_MAX, "a message has at most 16 words");
        self.words = words;
        self
    }

    /// With these bytes, which are copied: a medium message of at most [`MEDIUM_MAX`]. An answer may
    /// have more, and goes as data then.
    pub fn bytes(mut self, bytes: &'a [u8]) -> Self {
        self.payload = Payload::Copied(bytes);
        self
    }

    /// The head of its frame.
    #[inline]
    pub(crate) fn head(&self, kind: Kind, slot: u32, request: u32) -> Head {
        let words = u8::try_from(self.words.len()).expect("at most 16");
        Head { kind, words, handler: self.handler, slot, request }
    }

    /// Keeps the order also where there is data, which goes by a lane of its own: requests by one
    /// mapping that all keep the order come in the order sent. Without meaning for what
    /// is not answered.
    pub const fn in_order(mut self) -> Self {
        self.is_in_order = true;
        self
    }

    /// With memory that is sent from where it is, and comes back when it is: a bulk message.
    pub fn data(mut self, data: impl Into<Segment>) -> Self {
        self.payload = Payload::Data(Box::new(data.into()));
        self
    }

    /// With memory that is sent from where it is, several pieces of it: one bulk message, in
    /// which they are behind each other, each as long as it is. They are dropped when they
    /// have gone. Of more pieces than the fabric gathers the smallest are copied.
    pub fn gather(mut self, pieces: Vec<Segment>) -> Self {
        self.payload = Payload::Gather(pieces.into());
        self
    }

    /// The memory of a message that was [not sent](super::Unsent); what would have been copied
    /// is.
    #[must_use]
    pub fn into_segments(self) -> Vec<Segment> {
        self.payload.into_segments()
    }
}

impl<'a> From<u8> for Message<'a> {
    fn from(handler: u8) -> Self {
        Self::to(handler)
    }
}

impl<'a, const N: usize> From<(u8, &'a [u64; N])> for Message<'a> {
    fn from((handler, words): (u8, &'a [u64; N])) -> Self {
        Self::to(handler).words(words)
    }
}

impl<'a> From<(u8, &'a [u64])> for Message<'a> {
    fn from((handler, words): (u8, &'a [u64])) -> Self {
        Self::to(handler).words(words)
    }
}

/// The answer to a request.
pub struct Reply {
    pub(crate) words: Words,
    pub(crate) payload: Option<Box<Landed>>,
    pub(crate) sent: Option<Box<Segment>>,
}

/// The words of an answer, which is moved about and small for that.
pub(crate) enum Words {
    Few(Few),
    Many(Box<[u64]>),
}

/// Words of an answer that are kept where they were written: to move more than a word at a time of
/// what was just written word by word is slow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Few {
    count: usize,
    words: [u64; Few::MAX],
}

impl Few {
    pub(crate) const MAX: usize = 6;

    #[inline]
    pub(crate) const fn new() -> Self {
        Self { count: 0, words: [0; Self::MAX] }
    }

    /// Words of which there are no more than [`MAX`](Self::MAX).
    #[inline]
    pub(crate) fn of(words: &[u64]) -> Self {
        let mut few = Self::new();
        few.set(words);
        few
    }

    /// Takes words, of which there are no more than [`MAX`](Self::MAX).
    #[inline]
    pub(crate) fn set(&mut self, words: &[u64]) {
        self.count = words.len().min(Self::MAX);
        self.words.iter_mut().zip(words).for_each(|(to, word)| *to = *word);
    }

    /// Takes words as they travel.
    #[inline]
    pub(crate) fn set_bytes(&mut self, bytes: &[u8]) {
        self.count = (bytes.len() / 8).min(Self::MAX);
        for (to, from) in self.words.iter_mut().zip(bytes.chunks_exact(8)) {
            *to = u64::from_le_bytes(from.try_into().expect("eight bytes"));
        }
    }

    #[inline]
    pub(crate) fn words(&self) -> &[u64] {
        &self.words[..self.count]
    }
}

/// A payload that is kept.
#[derive(Debug)]
pub(crate) enum Landed {
    Copied(Vec<u8>),
    /// A buffer; the payload begins there at this byte.
    Buf(Buf, usize),
}

impl Landed {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Buf(buf, at) => &buf.bytes()[*at..],
        }
    }

    pub(crate) fn hold(self) -> Kept {
        match self {
            Self::Copied(bytes) => Kept(Keeps::Copied(bytes)),
            Self::Buf(buf, 0) => Kept(Keeps::Held(buf.hold())),
            Self::Buf(buf, at) => Kept(Keeps::Copied(buf.bytes()[at..].to_vec())),
        }
    }
}

/// Data that a program keeps: where it arrived, or a copy if it was short or its pool
/// runs low.
#[derive(Debug)]
pub struct Kept(Keeps);

#[derive(Debug)]
enum Keeps {
    Copied(Vec<u8>),
    Held(Held<u8>),
}

impl Kept {
    /// Whether it is still in the memory it arrived in.
    #[must_use]
    pub fn is_resident(&self) -> bool {
        matches!(&self.0, Keeps::Held(held) if held.is_resident())
    }

    /// Its bytes as a vector of their own.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Keeps::Copied(bytes) => bytes,
            Keeps::Held(held) => held.into_vec(),
        }
    }
}

impl std::ops::Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Keeps::Copied(bytes) => bytes,
            Keeps::Held(held) => held,
        }
    }
}

impl Reply {
    /// Its words.
    #[must_use]
    #[inline]
    pub fn words(&self) -> &[u64] {
        match &self.words {
            Words::Few(few) => few.words(),
            Words::Many(words) => words,
        }
    }

    /// Its bytes or data.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.payload.as_ref().map_or(&[], |payload| payload.bytes())
    }

    /// Keeps its bytes or data.
    #[must_use]
    pub fn hold(self) -> Kept {
        match self.payload {
            Some(payload) => payload.hold(),
            None => Landed::Copied(Vec::new()).hold(),
        }
    }

    /// The memory that the request sent, if it sent any.
    #[must_use]
    pub fn take_sent(&mut self) -> Option<Segment> {
        self.sent.take().map(|sent| *sent)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("words", &self.words())
            .field("bytes", &self.bytes().len())
            .finish_non_exhaustive()
    }
}

/// Most bytes of a medium message: with 16 words, and a word that says why it comes back if it
/// does, what an eager message takes.
pub const MEDIUM_MAX: usize = EAGER_MAX - 8 * (Head::WORDS_MAX + 1);
