//! A posted descriptor's way back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::queue::{Inbox, Notices};
use super::{Descriptor, RemoteSlice, Segment, ViError};
use crate::buf::{Buf, CastError, CastReason, Kind, Plain, Typed};

/// A descriptor that came back from the fabric.
#[derive(Debug)]
#[must_use = "it holds the buffers that were posted"]
pub struct Completion {
    /// The connection it was posted on.
    pub vi: ViId,
    /// What posting it returned.
    pub ticket: Ticket,
    /// What it was posted for.
    pub op: OpKind,
    /// Whether it did what it was posted for.
    pub status: Result<(), ViError>,
    /// Bytes transferred.
    pub len: u64,
    /// The message's tag: the sender's for a receive, its own otherwise.
    pub tag: u64,
    /// What the elements are, if the sender said so.
    pub kind: Option<Kind>,
    /// The memory, as it was posted.
    pub descriptor: Descriptor,
}

impl Completion {
    /// The completion if it succeeded.
    ///
    /// # Errors
    ///
    /// Its status. The buffers are dropped, which returns them to their pools.
    pub fn ok(self) -> Result<Self, ViError> {
        match &self.status {
            Ok(()) => Ok(self),
            Err(why) => Err(why.clone()),
        }
    }

    /// Whether it succeeded, for whoever does not need the memory again: it is
    /// dropped, which returns buffers to their pools.
    ///
    /// # Errors
    ///
    /// Its status.
    pub fn done(self) -> Result<(), ViError> {
        self.status
    }

    /// The pool buffer that was posted. Of a receive, its length is what was
    /// received: nothing, if it failed.
    ///
    /// # Panics
    ///
    /// If something other than one pool buffer was posted.
    #[must_use]
    pub fn into_buf(self) -> Buf {
        let received = (self.op == OpKind::Recv).then_some(self.len);
        let mut buf = self.into_segment().into_buf().expect("a pool buffer was posted");
        if let Some(len) = received {
            buf.resize(usize::try_from(len).expect("it fitted the buffer"));
        }
        buf
    }

    /// The buffer that was posted as elements, as many as were transferred.
    ///
    /// # Errors
    ///
    /// If elements of another type were sent, or a message without a type that
    /// is not whole `T`s; the buffer is inside.
    ///
    /// # Panics
    ///
    /// If something other than one buffer was posted.
    pub fn into_typed<T: Plain>(mut self) -> Result<Typed<T>, CastError> {
        match self.kind.take() {
            Some(sent) if sent != T::kind() => {
                let reason = CastReason::OtherType { sent, asked: T::kind() };
                Err(CastError { reason, buf: self.into_buf() })
            }
            _ => self.into_buf().typed(),
        }
    }

    /// The vector that was posted, or was made on arrival (of bytes, by
    /// [`Descriptor::fresh`]). Of a receive it is cut to what was received.
    ///
    /// # Panics
    ///
    /// If something other than one `Vec<T>` was posted.
    #[must_use]
    pub fn into_vec<T: Plain>(self) -> Vec<T> {
        let received = (self.op == OpKind::Recv).then_some(self.len);
        let mut vec = self.into_segment().into_vec::<T>().expect("a vector was posted");
        if let Some(len) = received {
            vec.truncate(usize::try_from(len).expect("it fitted") / size_of::<T>().max(1));
        }
        vec
    }

    fn into_segment(self) -> Segment {
        let mut segments = self.descriptor.into_segments();
        let segment = segments.next().expect("a descriptor with memory was posted");
        assert!(segments.next().is_none(), "the descriptor has several segments");
        segment
    }
}

/// Tells connections apart that share a completion queue. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViId(u64);

impl ViId {
    pub(super) fn unused() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Tells descriptors apart; those of one connection count up with each post.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    vi: ViId,
    number: u64,
}

impl Ticket {
    pub(super) const fn new(vi: ViId, number: u64) -> Self {
        Self { vi, number }
    }
}

/// What a descriptor was posted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpKind {
    /// Sending a message.
    Send,
    /// Receiving a message.
    Recv,
    /// Reading the peer's exposed memory.
    Read,
    /// Writing the peer's exposed memory.
    Write,
}

/// What a descriptor is posted for, with what the fabric must know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Send its bytes as one message.
    Send,
    /// Receive one message into it.
    Recv,
    /// Fill it from the peer's memory.
    Read(RemoteSlice),
    /// Copy its bytes to the peer's memory, and with `notify` consume one of
    /// the peer's receives, which gets the descriptor's tag and no bytes.
    Write {
        /// Where to.
        to: RemoteSlice,
        /// Whether the peer's program hears of it.
        notify: bool,
    },
}

impl Op {
    /// Without the details.
    #[must_use]
    pub const fn kind(&self) -> OpKind {
        match self {
            Self::Send => OpKind::Send,
            Self::Recv => OpKind::Recv,
            Self::Read(_) => OpKind::Read,
            Self::Write { .. } => OpKind::Write,
        }
    }
}

/// A descriptor inside a fabric.
///
/// It can only leave through [`complete`](Self::complete) or
/// [`fail`](Self::fail), and a `Posted` that is merely dropped fails with
/// [`ViError::Closed`]: whatever a fabric does, the buffers come back. Nobody
/// knows which locks are held then, so futures are woken at once, and a
/// handler hears of it with the queue's next notice or poll.
#[derive(Debug)]
pub struct Posted {
    ticket: Ticket,
    op: Op,
    /// What the sender said the elements are.
    kind: Option<Kind>,
    /// `None` only once it has left.
    descriptor: Option<Descriptor>,
    inbox: Arc<Inbox>,
}

impl Posted {
    pub(super) fn new(ticket: Ticket, op: Op, descriptor: Descriptor, inbox: Arc<Inbox>) -> Self {
        let kind = descriptor.kind().filter(|_| op != Op::Recv).cloned();
        Self { ticket, op, kind, descriptor: Some(descriptor), inbox }
    }

    /// Its number on its connection.
    #[must_use]
    pub const fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// What it was posted for.
    #[must_use]
    pub const fn op(&self) -> &Op {
        &self.op
    }

    /// The memory.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        self.descriptor.as_ref().expect("present until it leaves")
    }

    /// The memory, to receive into.
    #[must_use]
    pub fn descriptor_mut(&mut self) -> &mut Descriptor {
        self.descriptor.as_mut().expect("present until it leaves")
    }

    /// Whether a message of `len` bytes and elements of `kind` may be received
    /// into it; the completion will say what they are.
    ///
    /// # Errors
    ///
    /// What both sides are to be told.
    pub fn admits(&mut self, len: u64, kind: Option<&Kind>) -> Result<(), ViError> {
        self.kind = kind.cloned();
        let posted = self.descriptor().len();
        if len > posted {
            return Err(ViError::TooLong { sent: len, posted });
        }
        match (kind, self.descriptor().kind()) {
            (Some(sent), Some(posted)) if sent != posted => {
                Err(ViError::TypeMismatch { sent: sent.clone(), posted: posted.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Sends it back as done. The owner of the queue hears of it when
    /// `notices` are given out, which must be after the fabric's locks are free.
    pub fn complete(mut self, len: u64, tag: u64, notices: &mut Notices) {
        self.leave(Ok(()), len, tag);
        notices.add(&self.inbox);
    }

    /// Sends it back as failed.
    pub fn fail(mut self, why: ViError, notices: &mut Notices) {
        let tag = self.descriptor().tag();
        self.leave(Err(why), 0, tag);
        notices.add(&self.inbox);
    }

    /// Takes the descriptor back out, as if it had never been posted.
    pub(super) fn withdraw(mut self) -> Descriptor {
        let descriptor = self.descriptor.take().expect("present until it leaves");
        self.inbox.release();
        descriptor
    }

    fn leave(&mut self, status: Result<(), ViError>, len: u64, tag: u64) {
        let descriptor = self.descriptor.take().expect("present until it leaves");
        let (ticket, op) = (self.ticket, self.op.kind());
        let (vi, kind) = (ticket.vi, self.kind.take());
        self.inbox.push(Completion { vi, ticket, op, status, len, tag, kind, descriptor });
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        if self.descriptor.is_some() {
            let tag = self.descriptor().tag();
            self.leave(Err(ViError::Closed), 0, tag);
            self.inbox.give_quiet_notice();
        }
    }
}
