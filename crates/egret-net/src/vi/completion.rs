//! A posted descriptor's way back.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::cast_slice_mut;

use super::inbox::CompletionInbox;
use super::{Descriptor, Handed, Notices, RemoteSlice, Segment, ViError};
use crate::buf::{Buf, Kind, MemoryError, Plain, Typed};
use crate::rt::GivenBack;

/// A descriptor that came back from the fabric, with the [`Report`] of what
/// became of it: `completion.tag` is the report's.
/// The [module](super) has an example.
#[must_use = "it holds the buffers that were posted"]
pub struct Completion(Descriptor);

/// What became of a descriptor that was posted.
/// The [module](super) has an example.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
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
}

impl Deref for Completion {
    type Target = Report;

    #[inline]
    fn deref(&self) -> &Report {
        &self.0.note().report
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Completion").field(&**self).field(&self.0).finish()
    }
}

impl Completion {
    /// The completion if it succeeded.
    ///
    /// # Errors
    ///
    /// Its status. The buffers are dropped, which returns them to their pools.
    #[inline]
    pub fn ok(self) -> Result<Self, ViError> {
        match &self.status {
            Ok(()) => Ok(self),
            Err(why) => Err(why.clone()),
        }
    }

    /// Whether it succeeded, for a caller that does not need the memory again: it is
    /// dropped, which returns buffers to their pools.
    ///
    /// # Errors
    ///
    /// Its status.
    pub fn done(self) -> Result<(), ViError> {
        self.status.clone()
    }

    /// The memory, as it was posted.
    #[must_use]
    pub fn descriptor(&self) -> &Descriptor {
        &self.0
    }

    /// The descriptor, to be posted again.
    #[must_use]
    pub fn into_descriptor(self) -> Descriptor {
        self.0
    }

    /// The bytes that were transferred, of the first segment, where they are.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.0.bytes();
        let len = usize::try_from(self.len).map_or(bytes.len(), |len| len.min(bytes.len()));
        &bytes[..len]
    }

    /// The pool buffer that was posted. Of a receive, its length is what was
    /// received: nothing, if it failed.
    ///
    /// # Panics
    ///
    /// If something other than one pool buffer was posted. What a receive that was posted as
    /// [`Descriptor::handed`] or [`Descriptor::landing`] completes with is for the peer to
    /// decide: it is taken by [`into_handed`](Self::into_handed), and by
    /// [`Descriptor::take_landed`].
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
    pub fn into_typed<T: Plain>(mut self) -> Result<Typed<T>, GivenBack<Buf, MemoryError>> {
        match self.0.note_mut().report.kind.take() {
            Some(sent) if sent != T::kind() => {
                let (sent, asked) = (Box::new(sent), Box::new(T::kind()));
                let why = MemoryError::OtherType { sent, asked };
                Err(GivenBack { why, what: self.into_buf() })
            }
            _ => self.into_buf().typed(),
        }
    }

    /// What was handed over, received by [`Descriptor::handed`]; the bytes of anything else
    /// that was posted, as a copy. Of a receive that failed, and of a write with notice, which
    /// brings no bytes, it is empty.
    #[must_use]
    pub fn into_handed(mut self) -> Handed {
        let len = usize::try_from(self.len).expect("it fitted memory of this process");
        match self.0.take_buf() {
            Some(mut buf) => {
                buf.resize(len);
                Handed::Buffer(buf)
            }
            None => Handed::Copy(self.into_vec()),
        }
    }

    /// The vector that was posted, or was made on arrival (by [`Descriptor::fresh`] or
    /// [`Segment::fresh`]). Of a receive it is cut to what was received: it is empty if the
    /// receive failed, and if it is told of a write, which brings no bytes.
    ///
    /// What lies in other memory than one `Vec<T>`, which may be for the peer to decide (a
    /// buffer that was handed over, a message that [landed](Self::landed)), is copied, as whole
    /// `T`s.
    #[must_use]
    pub fn into_vec<T: Plain>(mut self) -> Vec<T> {
        let received = (self.op == OpKind::Recv).then_some(self.len);
        let len = received.unwrap_or_else(|| self.0.len());
        let count = usize::try_from(len).expect("it fitted") / size_of::<T>().max(1);
        if let Some(mut vec) = self.0.take_vec::<T>() {
            vec.truncate(count);
            return vec;
        }
        let mut vec = vec![T::zeroed(); if self.0.has_fresh() { 0 } else { count }];
        self.0.gather(0, cast_slice_mut(&mut vec));
        vec
    }

    fn into_segment(self) -> Segment {
        let mut segments = self.0.into_segments();
        let segment = segments.next().expect("a descriptor with memory was posted");
        assert!(segments.next().is_none(), "the descriptor has several segments");
        segment
    }
}

/// Tells connections apart that share a completion queue. Never used twice.
/// The [module](super) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViId(u64);

impl ViId {
    pub(crate) fn unused() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Tells descriptors apart; those of one connection count up with each post.
///
/// ```
/// use egret_net::rt::Deadline;
/// use egret_net::vi::{Address, Descriptor, ViError, ViOptions};
///
/// # let sim = egret_net::fabric::sim::Sim::new(1);
/// # let (a, b) = (sim.nic("a"), sim.nic("b"));
/// # let listener = b.listen("x", 0, &ViOptions::default())?;
/// # let to = Address::new("b", "x", 0);
/// # let connecting = a.connect(&to, &ViOptions::default(), Deadline::DEFAULT);
/// # let there = listener.wait_accept(Deadline::DEFAULT)?;
/// # let here = a.block_on(connecting)?;
/// let ticket = here.post_send(Descriptor::new(vec![7_u8; 100]))?;
/// assert!(here.cancel(ticket), "no receive is posted for it, so it has not begun");
/// let back = here.send_queue().wait(Deadline::DEFAULT)?;
/// assert_eq!((back.ticket, &back.status), (ticket, &Err(ViError::Cancelled)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    vi: ViId,
    number: u64,
}

impl Ticket {
    /// Receives and everything else are numbered apart: by the queue they
    /// complete in.
    pub(super) const fn new(vi: ViId, number: u64, receives: bool) -> Self {
        Self { vi, number: number << 1 | receives as u64 }
    }
}

/// What a descriptor was posted for.
/// The [module](super) has an example.
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
/// [`Fabric`](crate::fabric::Fabric) and [`machine`](super::machine) have examples.
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

impl Note {
    pub(super) const fn set_gives(&mut self, gives: bool) {
        self.gives = gives;
    }

    pub(super) const fn set_eager(&mut self) {
        self.eager = true;
    }
}

/// What is noted of a descriptor from the post to the completion.
pub(super) struct Note {
    op: Op,
    /// Whether the memory is given away.
    gives: bool,
    /// Whether it is of the eager class.
    eager: bool,
    progress: SendProgress,
    /// Where it completes. It stays, so that posting it again costs no count.
    inbox: Option<Arc<CompletionInbox>>,
    report: Report,
}

impl Default for Note {
    fn default() -> Self {
        let (vi, op) = (ViId(0), OpKind::Send);
        let ticket = Ticket { vi, number: 0 };
        let report = Report { vi, ticket, op, status: Ok(()), len: 0, tag: 0, kind: None };
        Self {
            op: Op::Send,
            gives: false,
            eager: false,
            progress: SendProgress::default(),
            inbox: None,
            report,
        }
    }
}

/// What a fabric keeps of a message that is under way: its bytes, the number of
/// what the last of them went with, and which message it is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SendProgress {
    pub len: u64,
    pub last: u64,
    pub message: u64,
}

/// A descriptor inside a fabric.
///
/// A `Posted` can only leave through [`complete`](Self::complete) or
/// [`fail`](Self::fail), and a `Posted` that is merely dropped fails with
/// [`ViError::Closed`]: whatever a fabric does, the buffers come back. Nobody
/// knows which locks are held then, so futures are woken at once, and a
/// handler hears of it with the queue's next notice or poll.
#[derive(Debug)]
pub struct Posted {
    /// `None` only once it has left.
    descriptor: Option<Descriptor>,
}

impl Posted {
    #[inline]
    pub(super) fn new(
        ticket: Ticket,
        op: Op,
        mut descriptor: Descriptor,
        inbox: &Arc<CompletionInbox>,
    ) -> Self {
        let kind = if op == Op::Recv { None } else { descriptor.kind().cloned() };
        let note = descriptor.note_mut();
        let report = &mut note.report;
        (report.vi, report.ticket, report.op) = (ticket.vi, ticket, op.kind());
        if report.status.is_err() {
            report.status = Ok(());
        }
        if report.kind.is_some() || kind.is_some() {
            report.kind = kind;
        }
        if note.op != op {
            note.op = op;
        }
        if !note.inbox.as_ref().is_some_and(|known| Arc::ptr_eq(known, inbox)) {
            note.inbox = Some(Arc::clone(inbox));
        }
        Self { descriptor: Some(descriptor) }
    }

    /// Its number on its connection.
    #[must_use]
    #[inline]
    pub fn ticket(&self) -> Ticket {
        self.note().report.ticket
    }

    /// What it was posted for.
    #[must_use]
    #[inline]
    pub fn op(&self) -> &Op {
        &self.note().op
    }

    /// Whether it is a hand-over: a send that gives its memory away. A fabric that
    /// cannot hand memory over sends it like any other.
    #[must_use]
    #[inline]
    pub fn gives(&self) -> bool {
        self.note().gives
    }

    /// Whether it is of the eager class, whose messages take receives of that class only. Such
    /// a message has at most [`EAGER_MAX`](super::EAGER_MAX) bytes and a few more.
    #[must_use]
    #[inline]
    pub fn is_eager(&self) -> bool {
        self.note().eager
    }

    /// The memory.
    #[must_use]
    #[inline]
    pub fn descriptor(&self) -> &Descriptor {
        self.descriptor.as_ref().expect("present until it leaves")
    }

    /// The memory, to receive into.
    #[must_use]
    #[inline]
    pub fn descriptor_mut(&mut self) -> &mut Descriptor {
        self.descriptor.as_mut().expect("present until it leaves")
    }

    #[inline]
    fn note(&self) -> &Note {
        self.descriptor().note()
    }

    #[inline]
    pub(crate) fn progress(&self) -> &SendProgress {
        &self.note().progress
    }

    #[inline]
    pub(crate) fn progress_mut(&mut self) -> &mut SendProgress {
        &mut self.descriptor_mut().note_mut().progress
    }

    /// Whether a message of `len` bytes and elements of `kind` may be received
    /// into it; the completion will say what they are.
    ///
    /// # Errors
    ///
    /// What both sides are to be told.
    #[inline]
    pub fn admits(&mut self, len: u64, kind: Option<&Kind>) -> Result<(), ViError> {
        if kind.is_some() {
            self.descriptor_mut().note_mut().report.kind = kind.cloned();
        }
        let posted = self.descriptor().room();
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

    /// A message begins to arrive: [`admits`](Self::admits) it, and has the memory for
    /// it [made](Descriptor::make).
    ///
    /// # Errors
    ///
    /// What both sides are to be told.
    #[inline]
    pub fn begin(&mut self, len: u64, tag: u64, kind: Option<&Kind>) -> Result<(), ViError> {
        self.admits(len, kind)?;
        let len = usize::try_from(len).expect("it fits memory of this process");
        self.descriptor_mut().make(len, tag)
    }

    /// Sends it back as done. The owner of the queue hears of it when
    /// `notices` are given out, which must be after the fabric's locks are free.
    #[inline]
    pub fn complete(mut self, len: u64, tag: u64, notices: &mut Notices) {
        if let Some(mut descriptor) = self.descriptor.take() {
            let report = &mut descriptor.note_mut().report;
            (report.len, report.tag) = (len, tag);
            if descriptor.note().gives {
                descriptor.give_away();
            }
            notices.deliver(Completion(descriptor));
        }
    }

    /// Sends it back as failed.
    pub fn fail(mut self, why: ViError, notices: &mut Notices) {
        if let Some(completion) = self.failed(why) {
            notices.deliver(completion);
        }
    }

    /// Takes the descriptor back out, as if it had never been posted.
    pub(super) fn withdraw(mut self) -> Descriptor {
        let descriptor = self.descriptor.take().expect("present until it leaves");
        Completion::inbox_of(&descriptor).release();
        descriptor
    }

    fn failed(&mut self, why: ViError) -> Option<Completion> {
        let mut descriptor = self.descriptor.take()?;
        let tag = descriptor.tag();
        descriptor.note_mut().set_gives(false);
        let report = &mut descriptor.note_mut().report;
        (report.status, report.len, report.tag) = (Err(why), 0, tag);
        Some(Completion(descriptor))
    }
}

impl Posted {
    #[cold]
    fn forgotten(&mut self) {
        if let Some(completion) = self.failed(ViError::Closed) {
            let inbox = Arc::clone(completion.inbox());
            let unwanted = inbox.push(completion).err();
            inbox.give_quiet_notice();
            drop(unwanted);
        }
    }
}

impl Completion {
    /// Where it goes.
    #[inline]
    pub(super) fn inbox(&self) -> &Arc<CompletionInbox> {
        Self::inbox_of(&self.0)
    }

    #[inline]
    fn inbox_of(descriptor: &Descriptor) -> &Arc<CompletionInbox> {
        descriptor.note().inbox.as_ref().expect("it was posted")
    }
}

impl Drop for Posted {
    #[inline]
    fn drop(&mut self) {
        if self.descriptor.is_some() {
            self.forgotten();
        }
    }
}
