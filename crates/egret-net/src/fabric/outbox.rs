//! What the sending half of an end keeps on every fabric: descriptors in their
//! order, what the peer was asked, and what it is owed.
//!
//! Sends and writes go in order; a message begins only when the peer has a
//! receive posted for it. Reads overtake them. Answers to the peer's reads and
//! writes travel the same way and go first.

use std::collections::{BTreeMap, VecDeque};

use crate::vi::{AccessError, Notices, Op, Posted, Reliability, RemoteSlice, Ticket, ViError, Way};

#[derive(Debug)]
pub(super) struct Outbox {
    level: Reliability,
    /// Sends and writes that have not begun.
    waiting: VecDeque<Posted>,
    /// Reads that have not begun.
    reads: VecDeque<Posted>,
    /// The send or write that is under way in pieces.
    pub current: Option<Outgoing>,
    /// Sends that are under way as a whole, each with its [`Way`]. Not beside it: what is
    /// written word by word and then moved as a whole waits for all writes before it, the
    /// one to the peer's cache line among them, which is longer than all the rest takes.
    sent: VecDeque<Posted>,
    /// Reads and writes the peer has not answered.
    asked: BTreeMap<u64, Posted>,
    /// What the peer is owed.
    pub answers: VecDeque<Answer>,
    next_id: u64,
    /// Messages begun, ever: each uses up one of the peer's receives.
    pub messages: u64,
    /// Messages completed, ever.
    pub completed: u64,
}

/// A descriptor of which the bytes up to `offset` are under way.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub posted: Posted,
    pub offset: u64,
}

/// What the peer is owed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
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

    /// Whether what the peer says of itself could set something free.
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

    /// Whether a send or a write has all it takes to begin, if the peer has
    /// posted so many receives.
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

    /// The peer will answer, by this number.
    pub(super) fn ask(&mut self, posted: Posted) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, posted);
        id
    }

    /// The number by which the peer will answer what is [put](Self::asked) there later.
    pub(super) const fn number(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// The peer has all that was asked by this number.
    pub(super) fn asked(&mut self, id: u64, posted: Posted) {
        self.asked.insert(id, posted);
    }

    /// The peer is owed one more answer, of at most so many.
    pub(super) fn owe(&mut self, answer: Answer, most: usize) -> Result<(), Box<ViError>> {
        if self.answers.len() >= most {
            return Err(ViError::Protocol("more requests than may be outstanding").into());
        }
        self.answers.push_back(answer);
        Ok(())
    }

    /// Whether the peer has not answered yet.
    pub(super) fn has_asked(&self, id: u64) -> bool {
        self.asked.contains_key(&id)
    }

    /// All of a send of `len` bytes is under way, the last of it with the `last`th.
    #[inline]
    pub(super) fn went(&mut self, mut posted: Posted, len: u64, last: u64) {
        *posted.way_mut() = Way { len, last, message: self.messages };
        self.sent.push_back(posted);
    }

    /// The peer has taken so much and placed so many messages: what was sent may
    /// be complete.
    #[inline]
    pub(super) fn heard(&mut self, taken: u64, placed: u64, notices: &mut Notices) {
        while let Some(front) = self.sent.front() {
            let &Way { len, last, message } = front.way();
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
        read.ok_or(ViError::Protocol("an answer to no read"))
    }

    /// A read or write was answered.
    pub(super) fn answered(
        &mut self,
        id: u64,
        result: Result<(), AccessError>,
        notices: &mut Notices,
    ) -> Result<(), ViError> {
        let unasked = ViError::Protocol("an answer to no request");
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

    /// Gives back memory that a burst took, when there is nothing to do.
    pub(super) fn trim(&mut self, most: usize) {
        self.waiting.shrink_to(most);
        self.reads.shrink_to(most);
        self.sent.shrink_to(most);
        self.answers.shrink_to(most);
    }

    /// Everything that is not back, in the order it was posted.
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
