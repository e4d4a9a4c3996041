//! The queues of the sending half of an end, the same on every fabric: descriptors in their order,
//! requests that the peer has not answered, and answers that the peer is owed.
//!
//! Sends and writes go in order; a message begins only when the peer has a
//! receive posted for it. Reads overtake them. Answers to the peer's reads and
//! writes travel the same way and go first.

use std::collections::{BTreeMap, VecDeque};

use crate::vi::{
    AccessError, Notices, Op, Posted, Reliability, RemoteSlice, SendProgress, Ticket, ViError,
};

#[derive(Debug)]
pub(super) struct Outbox {
    level: Reliability,
    /// Sends and writes that have not begun.
    waiting: VecDeque<Posted>,
    /// Reads that have not begun.
    reads: VecDeque<Posted>,
    /// The send or write that is under way in pieces.
    pub current: Option<OutgoingTransfer>,
    /// Sends that are under way as a whole, each with its [`SendProgress`]. Not beside it: what is
    /// written word by word and then moved as a whole waits for all writes before it, the
    /// one to the peer's cache line among them, which is longer than all the rest takes.
    sent: VecDeque<Posted>,
    /// Reads and writes that the peer has not answered, by number.
    asked: BTreeMap<u64, Posted>,
    /// Answers to the peer's reads and writes.
    pub answers: VecDeque<OwedAnswer>,
    next_id: u64,
    /// Messages begun, ever: each uses up one of the peer's receives.
    pub messages: u64,
    /// Messages completed, ever.
    pub completed: u64,
}

/// A descriptor of which the bytes up to `offset` are under way.
#[derive(Debug)]
pub(super) struct OutgoingTransfer {
    pub posted: Posted,
    pub offset: u64,
}

/// An answer to a read or a write of the peer.
#[derive(Debug, Clone, Copy)]
pub(super) enum OwedAnswer {
    Read { id: u64, from: RemoteSlice, len: u64, offset: u64 },
    ReadEnd { id: u64, result: Result<(), AccessError> },
    Written { id: u64, result: Result<(), AccessError> },
}

impl Outbox {
    pub(super) const fn new(level: Reliability) -> Self {
        Self {
            level,
            waiting: VecDeque::new(),
            reads: VecDeque::new(),
            current: None,
            sent: VecDeque::new(),
            asked: BTreeMap::new(),
            answers: VecDeque::new(),
            next_id: 0,
            messages: 0,
            completed: 0,
        }
    }

    pub(super) const fn level(&self) -> Reliability {
        self.level
    }

    /// Descriptors that are not back yet.
    #[inline]
    pub(super) fn outstanding(&self) -> usize {
        let current = usize::from(self.current.is_some());
        self.waiting.len() + self.reads.len() + current + self.sent.len() + self.asked.len()
    }

    /// Whether counts of the peer could complete something, or let something begin.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        !self.sent.is_empty() || self.has_more()
    }

    /// Whether there is something that is not yet under way.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        !self.waiting.is_empty()
            || self.current.is_some()
            || !self.answers.is_empty()
            || !self.reads.is_empty()
    }

    /// Takes a descriptor that cannot begin at once.
    pub(super) fn push(&mut self, posted: Posted) {
        match posted.op() {
            Op::Read(_) => self.reads.push_back(posted),
            _ => self.waiting.push_back(posted),
        }
    }

    /// Whether a send or a write may begin, if the peer has posted so many receives.
    #[inline]
    pub(super) fn may_begin(&self, posted: &Posted, receives: u64) -> bool {
        match posted.op() {
            Op::Read(_) => false,
            Op::Write { notify: false, .. } => true,
            _ => self.messages < receives,
        }
    }

    /// The oldest send or write, if it `may_begin`.
    pub(super) fn next_waiting(
        &mut self,
        may_begin: impl FnOnce(&Self, &Posted) -> bool,
    ) -> Option<Posted> {
        let front = self.waiting.front()?;
        if may_begin(self, front) { self.waiting.pop_front() } else { None }
    }

    /// The oldest read: its number, where from, how much.
    pub(super) fn next_read(&mut self) -> Option<(u64, RemoteSlice, u64)> {
        let read = self.reads.pop_front()?;
        let Op::Read(from) = *read.op() else { unreachable!("only reads are queued there") };
        let len = read.descriptor().len();
        Some((self.ask(read), from, len))
    }

    /// Keeps a request until the peer answers; returns its number.
    pub(super) fn ask(&mut self, posted: Posted) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, posted);
        id
    }

    /// Reserves the number of a request that is [added](Self::asked) later.
    pub(super) const fn number(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Keeps a request under a number that was reserved.
    pub(super) fn asked(&mut self, id: u64, posted: Posted) {
        self.asked.insert(id, posted);
    }

    /// Queues an answer; a protocol error if that makes more than `most`.
    pub(super) fn owe(&mut self, answer: OwedAnswer, most: usize) -> Result<(), Box<ViError>> {
        if self.answers.len() >= most {
            return Err(ViError::Protocol("more requests than may be outstanding").into());
        }
        self.answers.push_back(answer);
        Ok(())
    }

    /// Whether the peer has not answered this request.
    pub(super) fn has_asked(&self, id: u64) -> bool {
        self.asked.contains_key(&id)
    }

    /// Notes that all of a send of `len` bytes has left, its last piece in frame or record `last`.
    #[inline]
    pub(super) fn went(&mut self, mut posted: Posted, len: u64, last: u64) {
        *posted.progress_mut() = SendProgress { len, last, message: self.messages };
        self.sent.push_back(posted);
    }

    /// Completes sends: the peer has taken so many frames or records, and placed so many messages.
    #[inline]
    pub(super) fn heard(&mut self, taken: u64, placed: u64, notices: &mut Notices) {
        while let Some(front) = self.sent.front() {
            let &SendProgress { len, last, message } = front.progress();
            let done = match self.level {
                Reliability::Reception => message <= placed,
                _ => last < taken,
            };
            let Some(posted) = done.then(|| self.sent.pop_front()).flatten() else { break };
            self.completed += 1;
            let tag = posted.descriptor().tag();
            posted.complete(len, tag, notices);
        }
    }

    /// The memory of a read that is being answered.
    pub(super) fn read_mut(&mut self, id: u64) -> Result<&mut Posted, ViError> {
        let read = self.asked.get_mut(&id).filter(|posted| matches!(posted.op(), Op::Read(_)));
        read.ok_or(ViError::Protocol("an answer to a read that was not requested"))
    }

    /// Completes a read or a write that the peer has answered.
    pub(super) fn answered(
        &mut self,
        id: u64,
        result: Result<(), AccessError>,
        notices: &mut Notices,
    ) -> Result<(), ViError> {
        let unasked = ViError::Protocol("an answer to a request that was not made");
        let posted = self.asked.remove(&id).ok_or(unasked)?;
        match result {
            Ok(()) => {
                let (len, tag) = (posted.descriptor().len(), posted.descriptor().tag());
                posted.complete(len, tag, notices);
            }
            Err(why) => posted.fail(why.into(), notices),
        }
        Ok(())
    }

    /// Takes back what has not begun.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        for queue in [&mut self.waiting, &mut self.reads] {
            if let Some(at) = queue.iter().position(|posted| posted.ticket() == ticket) {
                return queue.remove(at);
            }
        }
        None
    }

    /// Releases the memory of a burst, when there is nothing to do.
    pub(super) fn trim(&mut self, most: usize) {
        self.waiting.shrink_to(most);
        self.reads.shrink_to(most);
        self.sent.shrink_to(most);
        self.answers.shrink_to(most);
    }

    /// Takes all descriptors, in the order they were posted.
    pub(super) fn drain(&mut self) -> Vec<Posted> {
        let mut all: Vec<Posted> = self.sent.drain(..).collect();
        all.extend(self.current.take().map(|current| current.posted));
        all.extend(self.waiting.drain(..));
        all.extend(self.reads.drain(..));
        all.extend(std::mem::take(&mut self.asked).into_values());
        all.sort_by_key(Posted::ticket);
        all
    }
}
