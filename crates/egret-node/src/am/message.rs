//! What is sent, and what comes back.

use std::fmt;

use egret_net::buf::{Buf, Held};
use egret_net::vi::Segment;

use super::request::PLAIN;
use crate::frame::{FrameHead, FrameKind};

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
    /// A message for the handler of this number.
    pub const fn to(handler: u8) -> Self {
        Self { handler, words: &[], payload: Payload::Copied(&[]), is_in_order: false }
    }

    /// An answer for the call itself, and for no handler at the requester: see
    /// [`Request::reply_with`](super::Request::reply_with).
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
        assert!(words.len() <= FrameHead::WORDS_MAX, "a message has at most 16 words");
        self.words = words;
        self
    }

    /// With these bytes, which are copied: a medium message of at most [`MEDIUM_MAX`](super::MEDIUM_MAX). An answer may
    /// have more, and goes as data then.
    pub fn bytes(mut self, bytes: &'a [u8]) -> Self {
        self.payload = Payload::Copied(bytes);
        self
    }

    /// The head of the frame that carries the message.
    #[inline]
    pub(crate) fn head(&self, kind: FrameKind, slot: u32, request: u32) -> FrameHead {
        let words = u8::try_from(self.words.len()).expect("at most 16");
        FrameHead { kind, words, handler: self.handler, slot, request }
    }

    /// Keeps the order also where there is data, which goes by a lane of its own: requests of one
    /// mapping that all keep the order arrive in the order sent. Messages that are not answered are
    /// not affected.
    pub const fn in_order(mut self) -> Self {
        self.is_in_order = true;
        self
    }

    /// With data, as a bulk message: the memory is sent from where it is, without a copy, and comes
    /// back with the answer ([`CallReply::take_sent`]).
    pub fn data(mut self, data: impl Into<Segment>) -> Self {
        self.payload = Payload::Data(Box::new(data.into()));
        self
    }

    /// With data in several pieces, as one bulk message: the pieces are sent from where they are, and
    /// the receiver finds them one behind the other. They are dropped after they were sent. If there
    /// are more pieces than the fabric gathers, the smallest are copied.
    pub fn gather(mut self, pieces: Vec<Segment>) -> Self {
        self.payload = Payload::Gather(pieces.into());
        self
    }

    /// The memory of a message that was [given back](egret_net::rt::GivenBack); what would have been copied
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

/// The answer to a request. [`Call::wait_reply`](super::Call::wait_reply) has an example.
pub struct CallReply {
    pub(crate) words: ReplyWords,
    pub(crate) payload: Option<Box<ReceivedPayload>>,
    pub(crate) sent: Option<Box<Segment>>,
}

/// The words of an answer. The type is small, since answers are moved.
pub(crate) enum ReplyWords {
    Few(FewWords),
    Many(Box<[u64]>),
}

/// Up to six words of an answer, stored and loaded one by one: a wider load of words that were just
/// stored one by one waits until all of the stores are done.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FewWords {
    count: usize,
    words: [u64; FewWords::MAX],
}

impl FewWords {
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

/// The payload of a message that has arrived.
#[derive(Debug)]
pub(crate) enum ReceivedPayload {
    Copied(Vec<u8>),
    /// The buffer in which it arrived, and the byte at which the payload begins there.
    Buf(Buf, usize),
}

impl ReceivedPayload {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Buf(buf, at) => &buf.bytes()[*at..],
        }
    }

    pub(crate) fn hold(self) -> HeldPayload {
        match self {
            Self::Copied(bytes) => HeldPayload(PayloadStorage::Copied(bytes)),
            Self::Buf(buf, 0) => HeldPayload(PayloadStorage::Held(buf.hold())),
            Self::Buf(buf, at) => HeldPayload(PayloadStorage::Copied(buf.bytes()[at..].to_vec())),
        }
    }
}

/// The bytes or data of a message or an answer, kept by the program: in the buffer in which they
/// arrived, or as a copy if they were short or the buffer pool runs low. Dereferences to `[u8]`.
///
/// ```
/// use std::sync::mpsc;
/// use egret_node::am::{Endpoint, HeldPayload};
///
/// fn collect(endpoint: &Endpoint) -> mpsc::Receiver<HeldPayload> {
///     let (send, receive) = mpsc::channel();
///     endpoint.on(2, move |mut request| drop(send.send(request.hold())));
///     receive
/// }
/// ```
#[derive(Debug)]
pub struct HeldPayload(PayloadStorage);

#[derive(Debug)]
enum PayloadStorage {
    Copied(Vec<u8>),
    Held(Held<u8>),
}

impl HeldPayload {
    /// Whether the payload is still in the buffer in which it arrived.
    #[must_use]
    pub fn is_resident(&self) -> bool {
        matches!(&self.0, PayloadStorage::Held(held) if held.is_resident())
    }

    /// The bytes of the payload as a vector.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            PayloadStorage::Copied(bytes) => bytes,
            PayloadStorage::Held(held) => held.into_vec(),
        }
    }
}

impl std::ops::Deref for HeldPayload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            PayloadStorage::Copied(bytes) => bytes,
            PayloadStorage::Held(held) => held,
        }
    }
}

impl CallReply {
    /// The words of the answer.
    #[must_use]
    #[inline]
    pub fn words(&self) -> &[u64] {
        match &self.words {
            ReplyWords::Few(few) => few.words(),
            ReplyWords::Many(words) => words,
        }
    }

    /// The bytes or data of the answer.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.payload.as_ref().map_or(&[], |payload| payload.bytes())
    }

    /// Keeps the bytes or data of the answer.
    #[must_use]
    pub fn hold(self) -> HeldPayload {
        match self.payload {
            Some(payload) => payload.hold(),
            None => ReceivedPayload::Copied(Vec::new()).hold(),
        }
    }

    /// The memory that the request sent, if it sent any.
    #[must_use]
    pub fn take_sent(&mut self) -> Option<Segment> {
        self.sent.take().map(|sent| *sent)
    }
}

impl fmt::Debug for CallReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("words", &self.words())
            .field("bytes", &self.bytes().len())
            .finish_non_exhaustive()
    }
}
