//! The end of a channel that is read, and who accepts them.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use egret_net::rt::Deadline;
use egret_net::sync::Mutex;

use super::delivery::{Delivery, Part};
use super::error::{ChannelError, ReadError};
use crate::Links;
use crate::flow::Depot;
use crate::link::LinkError;
use crate::links::behind::{Waiters, under};
use crate::links::core::{Core, Stopped};
use crate::links::state::State;
use crate::node::NodeId;

/// Accepts the channels that others open to a name; made by
/// [`Links::listen`](crate::Links::listen).
///
/// Dropping it refuses those that come later, and drops those that were not accepted.
pub struct Listener {
    core: Arc<Core>,
    name: String,
    kept: Arc<Kept>,
}

/// The channels that a listener keeps, and who waits for another.
#[derive(Default)]
struct Kept {
    readers: Mutex<Vec<Arc<Reader>>>,
    waiters: Mutex<Waiters>,
}

/// The end of a channel that is read; accepted by a [`Listener`].
///
/// Messages come one after the other, whole or while they are written. What is not read makes the
/// writer wait. Dropping it tells the writer that nobody reads any more.
pub struct Reader {
    pub(super) core: Arc<Core>,
    pub(super) slot: u32,
    pub(super) depot: Arc<Depot>,
    host: String,
    node: OnceLock<NodeId>,
}

impl Links {
    /// Accepts channels of a name, of which at most `backlog` wait to be accepted.
    ///
    /// # Errors
    ///
    /// If somebody accepts them already.
    pub fn listen(&self, name: &str, backlog: usize) -> Result<Listener, ChannelError> {
        let name = name.to_owned();
        if self.core.state.with(|state| state.channels.listen(&name, backlog)) {
            Ok(Listener { core: Arc::clone(&self.core), name, kept: Arc::default() })
        } else {
            Err(ChannelError::Taken { name })
        }
    }
}

impl Listener {
    /// The name it accepts channels by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the next channel.
    ///
    /// # Errors
    ///
    /// If none was opened in time.
    pub fn wait_accept(&self, deadline: impl Into<Deadline>) -> Result<Reader, ReadError> {
        let accepted = self.core.wait(deadline.into(), |state, waker| self.poll(state, waker));
        accepted.map_err(stopped)
    }

    /// The next channel.
    pub async fn accept(&self) -> Reader {
        self.core.step(|state, waker| self.poll(state, waker)).await
    }

    /// The next channel, if one was opened.
    #[must_use]
    pub fn poll_accept(&self) -> Option<Reader> {
        self.core.look(|state, waker| self.poll(state, waker))
    }

    fn poll(&self, state: &mut State, waker: Option<&Waker>) -> Option<Reader> {
        let slot = state.channels.poll_accept(&self.name, waker)?;
        let depot = Arc::clone(&state.fixed.depot);
        let host = state.channels.reader(slot).host.clone();
        let node = OnceLock::new();
        Some(Reader { core: Arc::clone(&self.core), slot, depot, host, node })
    }

    /// Accepts all channels that were opened, and keeps them for whoever reads several together,
    /// by [`Reader::poll_whole`]: all that are kept, in the order in which they were opened. Has a
    /// task woken when another is.
    #[must_use]
    pub fn poll_kept(&self, context: &Context<'_>) -> Vec<Arc<Reader>> {
        let waker = Waker::from(Arc::clone(&self.kept));
        self.core.state.with(|state| {
            self.kept.waiters.lock().wait(Some(context.waker()));
            let mut readers = self.kept.readers.lock();
            while let Some(reader) = self.poll(state, Some(&waker)) {
                readers.push(Arc::new(reader));
            }
            readers.clone()
        })
    }

    /// Keeps a channel no longer. Whether it was kept until now.
    pub fn let_go(&self, reader: &Arc<Reader>) -> bool {
        let mut readers = self.kept.readers.lock();
        let at = readers.iter().position(|it| Arc::ptr_eq(it, reader));
        let reader = at.map(|at| readers.remove(at));
        drop(readers);
        reader.is_some()
    }
}

impl Reader {
    /// The host that writes it.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The node that writes it, once somebody has found out.
    #[must_use]
    pub const fn node(&self) -> &OnceLock<NodeId> {
        &self.node
    }

    /// The parts of the next message, when all of it has come; `None`: the writer has ended the
    /// channel. Several may ask: who asks when it is there has it. What has come of a message is
    /// kept meanwhile, and its credit granted again, as long as somebody asks; who reads
    /// [otherwise](Self::next) in between begins with the next message.
    ///
    /// # Errors
    ///
    /// If the message is larger than `most`, or its parts are so small that they take more than
    /// twice as much; or the link is no more and what had come was read.
    pub fn poll_whole(
        &self,
        most: u64,
        context: &Context<'_>,
    ) -> Poll<Result<Option<Vec<Part>>, ReadError>> {
        let slot = self.slot;
        let whole = self.core.state.with(|state| {
            let reading = state.channels.reader(slot);
            let whole = reading.poll_whole(most, Some(context.waker()));
            state.channels.settle_reader(slot, &mut state.inflows);
            state.drain_channels();
            whole
        });
        let part = |memory| Part { memory, depot: Arc::clone(&self.depot) };
        match whole {
            None => Poll::Pending,
            Some(Ok(parts)) => Poll::Ready(Ok(parts.map(|it| it.into_iter().map(part).collect()))),
            Some(Err(why)) => Poll::Ready(Err(why)),
        }
    }

    /// Waits for the next message. `None`: the writer has ended the channel.
    ///
    /// # Errors
    ///
    /// If none has begun in time, or the link is no more and what had come was read.
    pub fn wait_next(
        &mut self,
        deadline: impl Into<Deadline>,
    ) -> Result<Option<Delivery<'_>>, ReadError> {
        let slot = self.slot;
        let begun = self.core.wait(deadline.into(), |state, waker| poll_begin(state, slot, waker));
        let begun = begun.map_err(stopped)??;
        Ok(begun.then(|| Delivery::new(self)))
    }

    /// The next message. `None`: the writer has ended the channel.
    ///
    /// # Errors
    ///
    /// If the link is no more and what had come was read.
    pub async fn next(&mut self) -> Result<Option<Delivery<'_>>, ReadError> {
        let slot = self.slot;
        let begun = self.core.step(move |state, waker| poll_begin(state, slot, waker)).await?;
        Ok(begun.then(|| Delivery::new(self)))
    }

    /// Whether there is a message to read, now; `None`: not yet.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub fn poll_next(&mut self) -> Result<Option<Option<Delivery<'_>>>, ReadError> {
        let slot = self.slot;
        match self.core.look(|state, waker| poll_begin(state, slot, waker)) {
            None => Ok(None),
            Some(begun) => Ok(Some(begun?.then(|| Delivery::new(self)))),
        }
    }
}

impl Wake for Kept {
    fn wake(self: Arc<Self>) {
        under(|| self.waiters.lock().wake());
    }
}

fn poll_begin(
    state: &mut State,
    slot: u32,
    waker: Option<&Waker>,
) -> Option<Result<bool, LinkError>> {
    if state.channels.reader(slot).drop_whole() {
        state.channels.settle_reader(slot, &mut state.inflows);
        state.drain_channels();
    }
    state.channels.reader(slot).poll_begin(waker)
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.core.state.with(|state| {
            state.channels.unlisten(&self.name, &mut state.inflows);
            state.drain_channels();
        });
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.core.state.with(|state| {
            state.channels.drop_reader(self.slot, &mut state.inflows);
            state.drain_channels();
        });
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("slot", &self.slot).finish_non_exhaustive()
    }
}

pub(super) const fn stopped(stopped: Stopped) -> ReadError {
    match stopped {
        Stopped::TimedOut { waited } => ReadError::TimedOut { waited },
        Stopped::InHandler => ReadError::InHandler,
    }
}
