//! The receives of an end, in their order, and how many were promised to the peer and filled; the same on
//! every fabric.

use std::collections::VecDeque;

use crate::vi::{Notices, Posted, Ticket};

#[derive(Debug, Default)]
pub(super) struct Receives {
    posted: VecDeque<Posted>,
    /// Receives that the peer was promised, ever.
    pub promised: u64,
    /// Promised receives that were cancelled: the receives posted next take their place.
    owed: u64,
    /// Messages placed, ever.
    pub placed: u64,
    pub received: u64,
    pub dropped: u64,
}

impl Receives {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.posted.len()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.posted.is_empty()
    }

    #[inline]
    pub(super) fn push(&mut self, posted: Posted) {
        self.posted.push_back(posted);
        match self.owed {
            0 => self.promised += 1,
            _ => self.owed -= 1,
        }
    }

    /// The oldest, for a message that begins.
    #[inline]
    pub(super) fn next(&mut self) -> Option<Posted> {
        self.posted.pop_front()
    }

    /// Puts a receive back in its place: its message does not begin, or is given up.
    #[inline]
    pub(super) fn put_back(&mut self, posted: Posted) {
        let later = self.posted.iter().position(|other| other.ticket() > posted.ticket());
        self.posted.insert(later.unwrap_or(self.posted.len()), posted);
    }

    /// Completes a receive whose message is whole.
    #[inline]
    pub(super) fn complete(&mut self, posted: Posted, len: u64, tag: u64, notices: &mut Notices) {
        self.placed += 1;
        self.received += 1;
        posted.complete(len, tag, notices);
    }

    /// A refused write was to consume a receive, which is still there, for another message.
    pub(super) fn keep_one(&mut self) {
        self.promised += 1;
    }

    /// Takes back a receive that no message has begun to fill.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        let at = self.posted.iter().position(|posted| posted.ticket() == ticket)?;
        self.owed += 1;
        self.posted.remove(at)
    }

    /// Everything that is not back, in the order it was posted.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Posted> {
        self.posted.drain(..)
    }

    /// Gives back memory that a burst took.
    pub(super) fn trim(&mut self, most: usize) {
        self.posted.shrink_to(most);
    }
}

/// The receives of both classes, for a fabric that carries eager messages as posted ones.
#[derive(Debug, Default)]
pub(super) struct ReceiveSizes {
    pub posted: Receives,
    eager: Receives,
}

impl ReceiveSizes {
    #[inline]
    pub(super) const fn of(&mut self, eager: bool) -> &mut Receives {
        if eager { &mut self.eager } else { &mut self.posted }
    }

    /// Everything that is not back.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Posted> {
        self.posted.drain().chain(self.eager.drain())
    }
}
