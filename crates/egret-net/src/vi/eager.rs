//! Eager messages: small ones, out of the sender's hands when sending returns.
//!
//! There is neither a descriptor nor a completion, and the receiver posts nothing: it
//! [drains](Drain). What a lane holds is bounded, and a sender that is ahead of its receiver
//! is told so ([`PostError::LaneFull`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::hub::{Hub, WaitClock};
use super::over_posted::OverPosted;
use super::{PostError, Reliability, ViError, ViId};
use crate::rt::Deadline;

/// Bytes of the largest eager message.
pub const EAGER_MAX: usize = 4096;

/// Which of a connection's two orders a message is in; neither waits for the other.
///
/// A lane holds a bounded amount that the peer has not drained. Over `shm` and `sim` both lanes
/// hold the same, over `tcp` talk holds 256 KiB and bulk 32; where eager messages travel as posted
/// ones, talk holds 32 messages and bulk 4.
/// [`Vi::send_eager`](super::Vi::send_eager) says the amounts, and what to do when a lane is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Lane {
    /// Control and small messages.
    Talk = 0,
    /// Messages that go with large data.
    Bulk = 1,
}

impl Lane {
    /// Both, the more urgent first.
    pub const ALL: [Self; 2] = [Self::Talk, Self::Bulk];
}

/// How far a lane has been written, or has arrived: a count that only grows. Positions of one
/// lane of one connection compare; others do not. A message has arrived when the position that has
/// is not less than the message's; it may be more than that of the last message, for a question
/// how far the peer is takes room, too.
/// [`Drain`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(u64);

impl Position {
    /// The position of this number; for fabrics.
    #[must_use]
    #[inline]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    #[inline]
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The connection that a drained message came by, to answer on.
/// [`Drain`] has an example.
pub trait Reply {
    /// Which connection it is.
    fn vi(&self) -> ViId;
    /// Sends on it, as [`Vi::send_eager`](super::Vi::send_eager).
    ///
    /// # Errors
    ///
    /// See [`PostError`]. Of a message that finds no room the answer is
    /// [`Full`](PostError::LaneFull), too: the function keeps the message, for the thread that drains to send
    /// when the drain is over. Inside a drain nothing may wait.
    fn send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, PostError>;
}

/// What drained messages are passed to: the connection each came by, its tag, its bytes.
/// [`Drain`] has an example.
pub type Sink<'a> = dyn FnMut(&mut dyn Reply, u64, &[u8]) + 'a;

/// Which drain the messages of a connection go to. Never used twice.
/// [`machine`](super::machine), where fabrics receive it, has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrainId(u64);

impl DrainId {
    pub(super) fn unused() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Takes the eager messages of one connection, or of as many of a nic as share it
/// ([`ViOptions::drain`](super::ViOptions::drain)).
///
/// Each message was copied once, into private memory, before the function sees it; a message of
/// one lane never overtakes another of that lane. The function runs inside the drain, with the
/// lock of the nic. What it must not do is to use the nic, or a completion queue of any nic, by
/// other means than the [`Reply`] it is given, or to wait for a thread that does; drains do not
/// nest. If it panics, so does the call that drains: that message is gone, the others are drained
/// by the next call.
///
/// ```
/// use egret_net::fabric::sim::Sim;
/// use egret_net::rt::Deadline;
/// use egret_net::vi::{Address, Lane, ViOptions};
///
/// let sim = Sim::new(1);
/// let (ping, pong) = (sim.nic("ping"), sim.nic("pong"));
/// let options = ViOptions::default();
/// let listener = pong.listen("echo", 0, &options)?;
/// let connecting = ping.connect(&Address::new("pong", "echo", 0), &options, Deadline::DEFAULT);
/// let there = listener.wait_accept(Deadline::DEFAULT)?;
/// let here = ping.block_on(connecting)?;
///
/// here.send_eager(Lane::Talk, 7, &[b"to ", b"you"])?;
/// there.drain().wait(16, Deadline::DEFAULT, |reply, tag, bytes| {
///     reply.send(Lane::Talk, tag + 1, &[bytes]).expect("an empty lane");
/// })?;
/// let mut got = Vec::new();
/// here.drain().wait(16, Deadline::DEFAULT, |_, tag, bytes| got.push((tag, bytes.to_vec())))?;
/// assert_eq!(got, [(8, b"to you".to_vec())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Clones are handles to the same one.
#[derive(Clone)]
pub struct Drain {
    hub: Arc<Hub>,
    id: DrainId,
    /// Eager messages of levels whose eager messages the fabric does not carry itself.
    posted: Option<Arc<OverPosted>>,
    /// Whether it carries some itself.
    is_native: bool,
}

impl Drain {
    pub(super) fn new(hub: Arc<Hub>) -> Self {
        let offers = |level: &Reliability| hub.limits.offers(*level);
        let levels = || Reliability::ALL.into_iter().filter(offers);
        let has_posted = levels().any(|level| !hub.has_eager(level));
        let is_native = levels().any(|level| hub.has_eager(level));
        let posted = has_posted.then(|| Arc::new(OverPosted::new(&hub)));
        Self { hub, id: DrainId::unused(), posted, is_native }
    }

    pub(super) const fn id(&self) -> DrainId {
        self.id
    }

    /// The carrier of the eager messages of this level, if that is not the fabric.
    pub(super) fn posted(&self, level: Reliability) -> Option<&Arc<OverPosted>> {
        self.posted.as_ref().filter(|_| !self.hub.has_eager(level))
    }

    pub(super) fn is_of(&self, hub: &Arc<Hub>) -> bool {
        Arc::ptr_eq(&self.hub, hub)
    }

    /// Passes what has arrived to `sink`, at most `budget` messages, and says how many there
    /// were. Never blocks; lets the fabric make progress if nothing is there.
    pub fn poll(&self, budget: usize, mut sink: impl FnMut(&mut dyn Reply, u64, &[u8])) -> usize {
        if self.posted.is_none() {
            return self.hub.look_and_drain(self.id, budget, &mut sink);
        }
        match self.take(budget, &mut sink) {
            0 => {
                self.hub.progress();
                self.take(budget, &mut sink)
            }
            drained => drained,
        }
    }

    /// Passes what has arrived to `sink`, at most `budget` messages, without letting the fabric
    /// make progress: for a caller that has a lock of its own. Others are told of something only if
    /// a connection ends by it, for its peer lies: who waits for what was posted there.
    #[inline]
    pub fn take(&self, budget: usize, sink: &mut Sink<'_>) -> usize {
        let Some(posted) = &self.posted else { return self.hub.drain(self.id, budget, sink) };
        if !self.is_native {
            return self.drain_posted(posted, budget, sink);
        }
        // In turns: neither kind is to wait for ever for the other to leave something.
        if posted.is_turn() {
            let drained = self.drain_posted(posted, budget, sink);
            return drained + self.hub.drain(self.id, budget - drained, sink);
        }
        let drained = self.hub.drain(self.id, budget, sink);
        drained + self.drain_posted(posted, budget - drained, sink)
    }

    /// Of two threads that drain, one is turned away, and may sleep by the time the other is done
    /// and has left something.
    fn drain_posted(&self, posted: &OverPosted, budget: usize, sink: &mut Sink<'_>) -> usize {
        let drained = posted.drain(budget, sink);
        if drained > 0 && posted.has_turned_away() {
            self.hub.wake();
        }
        drained
    }

    /// Whether what is sent leaves at once and what has come is found, without a poll of the nic: over
    /// `shm`.
    #[must_use]
    #[inline]
    pub fn is_at_once(&self) -> bool {
        self.hub.is_at_once
    }

    /// Whether the fabric carries eager messages itself, and not as posted ones: over `udp` those of
    /// reliable levels.
    #[must_use]
    #[inline]
    pub const fn is_native(&self) -> bool {
        self.is_native
    }

    /// Waits until something arrives, and passes at most `budget` messages to `sink`. How many.
    ///
    /// A connection that ends ends no wait: it may be one of many. Its owner looks at
    /// [`Vi::error`](super::Vi::error), or has a receive posted.
    ///
    /// # Errors
    ///
    /// If the deadline passes.
    pub fn wait(
        &self,
        budget: usize,
        deadline: impl Into<Deadline>,
        mut sink: impl FnMut(&mut dyn Reply, u64, &[u8]),
    ) -> Result<usize, ViError> {
        let (mut spin, mut clock) = (self.hub.spin_for_eager(), WaitClock::of(deadline.into()));
        loop {
            match self.take(budget, &mut sink) {
                0 => {}
                drained => return Ok(drained),
            }
            if spin.again() {
                continue;
            }
            match clock.until(&self.hub) {
                Ok(until) => spin.wait(until),
                Err(waited) => return Err(ViError::NoEagerMessage { waited }),
            }
        }
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("id", &self.id).finish_non_exhaustive()
    }
}
