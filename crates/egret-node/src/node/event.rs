//! What happens in a pool, in one order for all.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_stream::Wire;
use thiserror::Error;

use super::{Member, NodeId};
use crate::am::in_handler;
use crate::registry::wire::Entry;

/// Something that happened to the pool. All nodes see the same, in the same order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A node is a member now.
    Joined(Member),
    /// A node has left by itself.
    Left(NodeId),
    /// A node is gone without having left.
    Died {
        /// Which.
        node: NodeId,
        /// How that became known; the message of its panic if it panicked.
        why: String,
    },
    /// This node has lost the registry, and knows no more: the last event there is.
    RegistryLost {
        /// How.
        why: String,
    },
}

impl From<Entry> for Event {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Joined(member) => Self::Joined(member),
            Entry::Left(node) => Self::Left(node),
            Entry::Died { node, why } => Self::Died { node, why },
        }
    }
}

/// How a node came to be no member any more.
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub enum Fate {
    /// It has left.
    Left,
    /// It has died.
    Died {
        /// How that became known.
        why: String,
    },
}

impl Fate {
    /// How, in words.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Self::Left => "it has left",
            Self::Died { why } => why,
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("it has left"),
            Self::Died { why } => write!(f, "it died: {why}"),
        }
    }
}

/// The events of a pool, from the beginning; each handle has all of them.
#[derive(Clone)]
pub struct Events {
    source: Arc<dyn Follow>,
    next: usize,
}

/// Where events come from.
pub(crate) trait Follow: Send + Sync {
    /// The event of this number, if there is one yet.
    fn entry(&self, at: usize) -> Option<Event>;
    /// Has others say something until `done`; whether it is.
    fn drive(&self, deadline: Deadline, done: &mut dyn FnMut() -> bool) -> bool;
}

/// No event came in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("nothing has happened for {waited:?}")]
pub struct NoEvent {
    /// How long was waited.
    pub waited: Duration,
}

impl Events {
    pub(crate) const fn new(source: Arc<dyn Follow>) -> Self {
        Self { source, next: 0 }
    }

    /// The next event, if it has happened.
    pub fn try_next(&mut self) -> Option<Event> {
        let event = self.source.entry(self.next)?;
        self.next += 1;
        Some(event)
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// If nothing happens within the deadline; at once in a handler, which may not wait.
    pub fn wait_next(&mut self, deadline: impl Into<Deadline>) -> Result<Event, NoEvent> {
        let started = rt::now();
        let (source, at) = (Arc::clone(&self.source), self.next);
        drive(&*source, deadline.into(), &mut || source.entry(at).is_some());
        self.try_next().ok_or_else(|| NoEvent { waited: rt::now() - started })
    }
}

/// Drives until `done`, which others may bring about without a message.
pub(crate) fn drive(
    source: &dyn Follow,
    deadline: Deadline,
    done: &mut dyn FnMut() -> bool,
) -> bool {
    let until = deadline.until();
    loop {
        let now = rt::now();
        let left = until.map_or(GLANCE, |until| GLANCE.min(until.since(now)));
        if source.drive(Deadline::In(left), done) {
            return true;
        }
        // A handler may not wait.
        if in_handler() || until.is_some_and(|until| rt::now() >= until) {
            return false;
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("next", &self.next).finish_non_exhaustive()
    }
}

/// How often is looked at what comes without a message.
pub(super) const GLANCE: Duration = Duration::from_millis(100);
