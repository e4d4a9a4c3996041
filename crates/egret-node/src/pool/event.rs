//! Events of a pool, in one order for all nodes.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use egret_net::rt::waits::{self, WaitHint};
use egret_net::rt::{self, Deadline};
use egret_stream::Wire;

use super::log::BoundedLog;
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
    /// A node has entered a [view](super::View).
    Entered {
        /// The name of the view.
        view: String,
        /// The node.
        node: NodeId,
        /// The epoch of the view from here on.
        epoch: u64,
    },
    /// A node is not in a view any more: it has exited, left the pool, or died.
    Exited {
        /// The name of the view.
        view: String,
        /// The node.
        node: NodeId,
        /// The epoch of the view from here on.
        epoch: u64,
    },
    /// Another member of a view is its first: the winner, if the view is an election. Or the view has no member any
    /// more: what needs a winner waits for the next one, whose epoch is higher.
    Elected {
        /// The name of the view.
        view: String,
        /// The first member; `None` if the view is empty: the last member has exited, left or died.
        winner: Option<NodeId>,
        /// The epoch from which on it is the first: the fencing token. If there is none, the epoch from which on
        /// there is none.
        epoch: u64,
    },
    /// A node has sent a signal to this one.
    Signal {
        /// The node.
        from: NodeId,
        /// The bytes that it sent.
        bytes: Vec<u8>,
    },
    /// A node has closed the pool: no node joins any more.
    Closed {
        /// The node.
        by: NodeId,
    },
    /// A node has declared that the work of the pool is done.
    Terminated {
        /// The node.
        by: NodeId,
    },
    /// Events are missing here, for the entries of the pool's log from one number up to below another are not
    /// kept any more. A program looks at [`members`](crate::node::NodeHandle::members),
    /// [`view`](crate::node::NodeHandle::view), [`elected`](crate::node::NodeHandle::elected), [`closed_by`](crate::node::NodeHandle::closed_by) and
    /// [`terminated_by`](crate::node::NodeHandle::terminated_by) anew; signals among these events are lost.
    Resync {
        /// The number of the entry that would have come next; the first entry of a pool has 0.
        from: u64,
        /// The number of the entry that comes next.
        to: u64,
    },
    /// This node has lost the registry, or the registry has declared this node dead while they had no link: no event
    /// follows.
    RegistryLost {
        /// How that became known.
        why: String,
    },
}

impl Event {
    /// About how many bytes of memory the event takes.
    pub(crate) fn weight(&self) -> usize {
        let more = match self {
            Self::Joined(member) => {
                let offers = member.fabrics.iter();
                let offers = offers.map(|it| it.fabric.len() + it.host.len() + 128);
                member.machine.len() + offers.sum::<usize>()
            }
            Self::Died { why, .. } | Self::RegistryLost { why } => why.len(),
            Self::Entered { view, .. } | Self::Exited { view, .. } | Self::Elected { view, .. } => {
                view.len()
            }
            Self::Signal { bytes, .. } => bytes.len(),
            Self::Left(_) | Self::Closed { .. } | Self::Terminated { .. } | Self::Resync { .. } => {
                0
            }
        };
        size_of::<Self>() + more
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
///
/// The newest 65,536 events are kept, and 4 MiB of them. Who has not taken those before, and who joins so late
/// that they are not kept, gets [`Event::Resync`] in their place.
#[derive(Clone)]
pub struct Events {
    source: Arc<dyn EventSource>,
    next: EventPlace,
}

/// A place in the events of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct EventPlace {
    /// The number among the events.
    event: u64,
    /// The entry of the pool's log that comes next.
    entry: u64,
}

/// Where events come from.
pub(crate) trait EventSource: Send + Sync {
    /// The event at this place, if there is one yet, and the place behind it: [`Event::Resync`] if it is
    /// not kept any more.
    fn event(&self, at: EventPlace) -> Option<(Event, EventPlace)>;
    /// Why no event follows those that there are, if that is so.
    fn end(&self) -> Option<NodeError>;
    /// The number of the links.
    fn links(&self) -> u32;
    /// Drives the links until `done` or the deadline; returns whether it is done.
    fn drive(&self, deadline: Deadline, done: &mut dyn FnMut() -> bool) -> bool;
}

/// Events that happened, each with the number of its entry in the pool's log. An entry may be several events.
#[derive(Debug)]
pub(crate) struct EventLog(BoundedLog<(u64, Event)>);

impl EventLog {
    pub(crate) const fn new() -> Self {
        Self(BoundedLog::beginning_at(0))
    }

    /// Appends an event of the entry of this number.
    pub(crate) fn push(&mut self, entry: u64, event: Event) {
        let weight = event.weight();
        self.0.push((entry, event), weight);
    }

    /// For [`EventSource::event`].
    pub(crate) fn event(&self, at: EventPlace) -> Option<(Event, EventPlace)> {
        let first = self.0.first();
        if let Some((to, _)) = self.0.get(first).filter(|_| at.event < first) {
            let event = Event::Resync { from: at.entry.min(*to), to: *to };
            return Some((event, EventPlace { event: first, entry: *to }));
        }
        let (entry, event) = self.0.get(at.event)?;
        let entry = if let Event::Resync { to, .. } = event { *to } else { entry + 1 };
        Some((event.clone(), EventPlace { event: at.event + 1, entry }))
    }
}

impl Default for EventLog {
    fn default() -> Self {
        Self::new()
    }
}

impl Events {
    pub(crate) fn new(source: Arc<dyn EventSource>) -> Self {
        Self { source, next: EventPlace::default() }
    }

    /// The next event, if it has happened: for a program that looks between two pieces of its work.
    ///
    /// ```
    /// use egret_node::node::Event;
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// let (mut events, mut joined) = (pool[0].events(), 0);
    /// while let Some(event) = events.try_next() {
    ///     joined += usize::from(matches!(event, Event::Joined(_)));
    /// }
    /// assert_eq!(joined, 2);
    /// # Ok::<(), egret_node::node::JoinError>(())
    /// ```
    pub fn try_next(&mut self) -> Option<Event> {
        let (event, next) = self.source.event(self.next)?;
        self.next = next;
        Some(event)
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// [`NodeError::NoEvent`] if nothing happens within the deadline; at once in a handler, which may not wait. Behind the
    /// last event why it is the last: [`NodeError::RegistryLost`], [`NodeError::Fenced`], or [`NodeError::NotMember`] if the
    /// node has left.
    #[track_caller]
    pub fn wait_next(&mut self, deadline: impl Into<Deadline>) -> Result<Event, NodeError> {
        let _waits = waits::scope(WaitHint::of("event", self.source.links()));
        let started = rt::now();
        let (source, at) = (Arc::clone(&self.source), self.next);
        let is_some = || source.event(at).is_some();
        drive(&*source, deadline.into(), &mut || is_some() || source.end().is_some());
        let late = || NodeError::NoEvent { waited: rt::now() - started };
        self.try_next().ok_or_else(|| source.end().unwrap_or_else(late))
    }

    /// Calls `each` with each event, one after the other, on a thread of its own; those that have happened before come
    /// first. It may wait and call other nodes. The calls end when the returned value is dropped, when the node leaves,
    /// and behind [`Event::RegistryLost`]; one that is under way then goes on.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use std::time::Duration;
    /// use egret_node::node::Event;
    ///
    /// let pool = egret_node::local::pool(2)?;
    /// let (tell, told) = channel();
    /// let calls = pool[0].events().call_each(move |event| {
    ///     if let Event::Signal { from, bytes } = event {
    ///         _ = tell.send((from, bytes));
    ///     }
    /// })?;
    /// pool[1].signal(&[pool[0].id()], b"ready")?;
    /// assert_eq!(told.recv_timeout(Duration::from_secs(20))?, (pool[1].id(), b"ready".to_vec()));
    /// drop(calls);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no thread to be had.
    #[track_caller]
    pub fn call_each(self, each: impl FnMut(Event) + Send + 'static) -> io::Result<EventCalls> {
        let is_over = Arc::new(AtomicBool::new(false));
        let hint = WaitHint::of(CALLS_WAIT, self.source.links());
        let calls = EventCalls { is_over: Arc::clone(&is_over) };
        drop(rt::spawn("egret events", move || self.call_until(hint, &is_over, each))?);
        Ok(calls)
    }

    fn call_until(
        mut self,
        hint: WaitHint,
        is_over: &AtomicBool,
        mut each: impl FnMut(Event) + Send + 'static,
    ) {
        loop {
            let (source, at) = (Arc::clone(&self.source), self.next);
            let wait = waits::scope(hint);
            drive(&*source, Deadline::UntilDead, &mut || {
                is_over.load(Ordering::Relaxed)
                    || source.event(at).is_some()
                    || source.end().is_some()
            });
            drop(wait);
            let event = self.try_next().filter(|_| !is_over.load(Ordering::Relaxed));
            let Some(event) = event else { return };
            each(event);
        }
    }
}

/// Calls of a function with each event of a pool ([`Events::call_each`]); they end when this is dropped.
#[derive(Debug)]
#[must_use = "dropped, the calls end"]
pub struct EventCalls {
    is_over: Arc<AtomicBool>,
}

impl Drop for EventCalls {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
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

/// The kind of the wait of a thread that calls a function with each event.
pub(crate) const CALLS_WAIT: &str = "event to call a function with";
/// How often a waiting thread checks what changes without a message.
pub(crate) const GLANCE: Duration = Duration::from_millis(100);
