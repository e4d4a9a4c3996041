//! Events of a pool, in one order for all nodes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_stream::Wire;

use super::wire::LogEntry;
use super::{Member, NodeError, NodeId};
use crate::in_handler::in_handler;

/// An event of the pool. All nodes see the same events in the same order. The [module](crate::node) has an
/// example.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A node is a member now.
    Joined(Member),
    /// A node has left.
    Left(NodeId),
    /// A node has died: it is gone without having left.
    Died {
        /// The node.
        node: NodeId,
        /// How that became known; the message of the panic if the node panicked.
        why: String,
    },
    /// This node has lost the registry: no event follows.
    RegistryLost {
        /// How that became known.
        why: String,
    },
}

impl From<LogEntry> for Event {
    fn from(entry: LogEntry) -> Self {
        match entry {
            LogEntry::Joined(member) => Self::Joined(member),
            LogEntry::Left(node) => Self::Left(node),
            LogEntry::Died { node, why } => Self::Died { node, why },
        }
    }
}

/// How a node came to be no member any more ([`NodeHandle::fate`](crate::node::NodeHandle::fate)).
///
/// ```
/// use egret_net::rt::Deadline;
/// use egret_node::node::Departure;
///
/// let (_registry, mut nodes) = egret_node::local::pool(2)?.into_parts();
/// let (leaving, staying) = (nodes.pop().unwrap(), nodes.pop().unwrap());
/// let id = leaving.id();
/// leaving.leave(Deadline::DEFAULT)?;
/// assert_eq!(staying.wait_fate(id, Deadline::DEFAULT), Some(Departure::Left));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Wire)]
pub enum Departure {
    /// The node has left.
    Left,
    /// The node has died.
    Died {
        /// How that became known.
        why: String,
    },
}

impl Departure {
    /// The reason, in words.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Self::Left => "it has left",
            Self::Died { why } => why,
        }
    }
}

impl fmt::Display for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("it has left"),
            Self::Died { why } => write!(f, "it died: {why}"),
        }
    }
}

/// The events of a pool, from the beginning; each clone goes on by itself. The [module](crate::node) has an
/// example.
#[derive(Clone)]
pub struct Events {
    source: Arc<dyn EventSource>,
    next: usize,
}

/// Where events come from.
pub(crate) trait EventSource: Send + Sync {
    /// The event of this number, if there is one yet.
    fn entry(&self, at: usize) -> Option<Event>;
    /// Drives the links until `done` or the deadline; returns whether it is done.
    fn drive(&self, deadline: Deadline, done: &mut dyn FnMut() -> bool) -> bool;
}

impl Events {
    pub(crate) const fn new(source: Arc<dyn EventSource>) -> Self {
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
    /// [`NodeError::NoEvent`] if nothing happens within the deadline; at once in a handler, which may not wait.
    pub fn wait_next(&mut self, deadline: impl Into<Deadline>) -> Result<Event, NodeError> {
        let started = rt::now();
        let (source, at) = (Arc::clone(&self.source), self.next);
        drive(&*source, deadline.into(), &mut || source.entry(at).is_some());
        self.try_next().ok_or_else(|| NodeError::NoEvent { waited: rt::now() - started })
    }
}

/// Drives until `done`, which may become true without a message.
pub(crate) fn drive(
    source: &dyn EventSource,
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

/// How often a waiting thread checks what changes without a message.
pub(crate) const GLANCE: Duration = Duration::from_millis(100);
