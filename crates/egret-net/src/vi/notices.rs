//! Completions and wakers to deliver after the lock is released.

use std::sync::Arc;

use super::Completion;
use super::inbox::CompletionInbox;

/// Completions on their way to their queues, and the queues that are to be told
/// once no lock is held, at the latest when this is dropped.
///
/// A connection keeps one for good: it remembers the queues it delivered to
/// last, so that delivering costs no reference count.
/// The [module](super::machine) has an example.
#[derive(Debug, Default)]
pub struct Notices {
    /// Queues that have someone to tell: a future, a handler, a file descriptor.
    waiting: Vec<Arc<CompletionInbox>>,
    delivered: bool,
    /// Completions delivered to queues that were dropped.
    unwanted: Vec<Completion>,
    /// One for what is sent and one for what is received, as a rule.
    known: [Option<Arc<CompletionInbox>>; 2],
}

impl Notices {
    #[inline]
    pub(super) fn deliver(&mut self, completion: Completion) {
        let at = self.place_of(completion.inbox());
        let Some(inbox) = &self.known[at] else { unreachable!("set just now") };
        self.delivered = true;
        match inbox.push(completion) {
            Ok(false) => {}
            Ok(true) => {
                if !self.waiting.iter().any(|known| Arc::ptr_eq(known, inbox)) {
                    self.waiting.push(Arc::clone(inbox));
                }
            }
            Err(unwanted) => self.unwanted.push(unwanted),
        }
    }

    #[inline]
    fn place_of(&mut self, inbox: &Arc<CompletionInbox>) -> usize {
        let is_it = |known: &Option<Arc<CompletionInbox>>| {
            known.as_ref().is_some_and(|known| Arc::ptr_eq(known, inbox))
        };
        match self.known.iter().position(is_it) {
            Some(at) => at,
            None => self.remember(inbox),
        }
    }

    #[cold]
    fn remember(&mut self, inbox: &Arc<CompletionInbox>) -> usize {
        self.known.rotate_right(1);
        self.known[0] = Some(Arc::clone(inbox));
        0
    }

    /// Whether nothing was delivered.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        !self.delivered && self.waiting.is_empty() && self.unwanted.is_empty()
    }

    /// What was delivered is news no more; who waits for it is still to be told.
    #[inline]
    pub const fn counted(&mut self) {
        self.delivered = false;
    }

    /// Leaves it to `other` to tell.
    #[inline]
    pub fn move_to(&mut self, other: &mut Self) {
        other.delivered |= std::mem::take(&mut self.delivered);
        if !self.waiting.is_empty() {
            other.waiting.append(&mut self.waiting);
        }
        if !self.unwanted.is_empty() {
            other.unwanted.append(&mut self.unwanted);
        }
    }

    /// Wakes futures, runs handlers, makes file descriptors readable. Call it
    /// with no lock of the fabric held: a handler may post.
    pub fn give(mut self) {
        self.give_all();
    }

    fn give_all(&mut self) {
        while let Some(inbox) = self.waiting.pop() {
            inbox.give_notice();
        }
        self.unwanted.clear();
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        self.give_all();
    }
}
