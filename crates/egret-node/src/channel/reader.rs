//! The reading end of a channel, and the listener that accepts channels.

use crate::slots::SlotKey;
use egret_net::rt::waits;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use egret_net::rt::Deadline;
use egret_net::sync::Mutex;

use super::message_reader::{MessageReader, Part};
use crate::Links;
use crate::channel_table::ChannelError;
use crate::flow::SizedPools;
use crate::link::LinkError;
use crate::links::core::{LinksCore, WaitStopped};
use crate::links::state::LinksState;
use crate::pool::NodeId;
use crate::wakers::{WakerList, under};

/// Accepts the channels that other nodes open by a name; made by
/// [`Links::listen`](crate::Links::listen). [`ChannelWriter`](super::ChannelWriter) has an example.
///
/// Dropping the listener refuses later channels, and drops those that were not accepted.
pub struct ChannelListener {
    core: Arc<LinksCore>,
    name: String,
    kept: Arc<SharedReaders>,
}

/// The channels that a listener has accepted for several readers, and the tasks that wait for another.
#[derive(Default)]
struct SharedReaders {
    readers: Mutex<Vec<Arc<ChannelReader>>>,
    waiters: Mutex<WakerList>,
}

/// The reading end of a channel; accepted by a [`ChannelListener`].
///
/// Messages are read one after the other, whole or while they are written. A writer waits while its
/// messages are not read. Dropping the reader tells the writer so, whose messages fail then.
///
/// ```
/// # use egret_net::fabric::{Fabric, shm::ShmFabric};
/// # use egret_net::vi::NicOptions;
/// # use egret_node::{Links, LinksOptions};
/// # let links = |name: &str| -> Result<Links, Box<dyn std::error::Error>> {
/// #     let host = format!("{name}-{}", std::process::id());
/// #     Ok(Links::open(ShmFabric.open(&NicOptions::new(&host))?, LinksOptions::default())?)
/// # };
/// # let (here, there) = (links("reader-from")?, links("reader-to")?);
/// use egret_net::rt::Deadline;
///
/// let listener = there.listen("lines", 8)?;
/// let mut writer = here.wait_channel(there.host(), "lines", Deadline::DEFAULT)?;
/// writer.wait_send_slice(b"a line", Deadline::DEFAULT)?;
/// drop(writer);
///
/// let mut reader = listener.wait_accept(Deadline::DEFAULT)?;
/// while let Some(mut message) = reader.wait_next(Deadline::DEFAULT)? {
///     let part = message.wait_next_part(Deadline::DEFAULT)?.expect("it has one part");
///     assert_eq!(part.bytes(), b"a line");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChannelReader {
    pub(super) core: Arc<LinksCore>,
    pub(super) slot: u32,
    pub(super) depot: Arc<SizedPools>,
    host: String,
    node: OnceLock<NodeId>,
    pub(super) link: SlotKey,
}

impl Links {
    /// Listens for channels by a name, of which at most `backlog` wait to be accepted.
    ///
    /// # Errors
    ///
    /// If there is a listener of this name already.
    pub fn listen(&self, name: &str, backlog: usize) -> Result<ChannelListener, ChannelError> {
        let name = name.to_owned();
        if self.core.state.with(|state| state.channels.listen(&name, backlog)) {
            Ok(ChannelListener { core: Arc::clone(&self.core), name, kept: Arc::default() })
        } else {
            Err(ChannelError::Taken { name })
        }
    }
}

impl ChannelListener {
    /// The name by which channels are opened.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for the next channel.
    ///
    /// # Errors
    ///
    /// If no channel was opened in time.
    #[track_caller]
    pub fn wait_accept(
        &self,
        deadline: impl Into<Deadline>,
    ) -> Result<ChannelReader, ChannelError> {
        let _waits = waits::named(self.core.wait_hint("channel", None), &self.name);
        let accepted = self.core.wait(deadline.into(), |state, waker| self.poll(state, waker));
        accepted.map_err(stopped)
    }

    /// The next channel.
    pub async fn accept(&self) -> ChannelReader {
        self.core.step(|state, waker| self.poll(state, waker)).await
    }

    /// The next channel, if one was opened.
    #[must_use]
    pub fn poll_accept(&self) -> Option<ChannelReader> {
        self.core.look(|state, waker| self.poll(state, waker))
    }

    fn poll(&self, state: &mut LinksState, waker: Option<&Waker>) -> Option<ChannelReader> {
        let slot = state.channels.poll_accept(&self.name, waker)?;
        let depot = Arc::clone(&state.fixed.depot);
        let (host, link) = {
            let reader = state.channels.reader(slot);
            (reader.host.clone(), reader.link)
        };
        let node = OnceLock::new();
        Some(ChannelReader { core: Arc::clone(&self.core), slot, depot, host, node, link })
    }

    /// Accepts all channels that were opened, and returns all that were accepted by this method, in the
    /// order in which they were opened: for a task that reads several channels, by
    /// [`ChannelReader::poll_whole`]. Wakes the task when another channel is opened.
    #[must_use]
    pub fn poll_kept(&self, context: &Context<'_>) -> Vec<Arc<ChannelReader>> {
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

    /// Removes a channel from those that [`poll_kept`](Self::poll_kept) returns. Whether it was one.
    pub fn let_go(&self, reader: &Arc<ChannelReader>) -> bool {
        let mut readers = self.kept.readers.lock();
        let at = readers.iter().position(|it| Arc::ptr_eq(it, reader));
        let reader = at.map(|at| readers.remove(at));
        drop(readers);
        reader.is_some()
    }
}

impl ChannelReader {
    /// The host of the writer.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The link that the channel came by.
    pub(crate) const fn peer_link(&self) -> SlotKey {
        self.link
    }

    /// The node of the writer, once the program has set it.
    #[must_use]
    pub const fn node(&self) -> &OnceLock<NodeId> {
        &self.node
    }

    /// The parts of the next message, once all of it has arrived; `None` when the writer has ended the
    /// channel. Several tasks may poll: one of them gets the message. The parts that have arrived
    /// are kept meanwhile, and their credit is granted again, as long as a task polls. Reading by
    /// [`next`](Self::next) in between begins with the next message.
    ///
    /// # Errors
    ///
    /// If the message is larger than `most`, or its parts are so small that they take more than
    /// twice as much memory; or the link has ended and what had arrived was read.
    pub fn poll_whole(
        &self,
        most: u64,
        context: &Context<'_>,
    ) -> Poll<Result<Option<Vec<Part>>, ChannelError>> {
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

    /// Waits for the next message; `None` when the writer has ended the channel.
    ///
    /// # Errors
    ///
    /// If no message has begun in time, or the link has ended and what had arrived was read.
    #[track_caller]
    pub fn wait_next(
        &mut self,
        deadline: impl Into<Deadline>,
    ) -> Result<Option<MessageReader<'_>>, ChannelError> {
        let _waits = self.core.waits("message", Some(self.link));
        let slot = self.slot;
        let begun = self.core.wait(deadline.into(), |state, waker| poll_begin(state, slot, waker));
        let begun = begun.map_err(stopped)??;
        Ok(begun.then(|| MessageReader::new(self)))
    }

    /// The next message; `None` when the writer has ended the channel.
    ///
    /// # Errors
    ///
    /// If the link has ended and what had arrived was read.
    pub async fn next(&mut self) -> Result<Option<MessageReader<'_>>, ChannelError> {
        let slot = self.slot;
        let begun = self.core.step(move |state, waker| poll_begin(state, slot, waker)).await?;
        Ok(begun.then(|| MessageReader::new(self)))
    }

    /// The next message, if it has begun to arrive, or the end of the channel; the outer `None` if
    /// neither has.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub fn poll_next(&mut self) -> Result<Option<Option<MessageReader<'_>>>, ChannelError> {
        let slot = self.slot;
        match self.core.look(|state, waker| poll_begin(state, slot, waker)) {
            None => Ok(None),
            Some(begun) => Ok(Some(begun?.then(|| MessageReader::new(self)))),
        }
    }
}

impl Wake for SharedReaders {
    fn wake(self: Arc<Self>) {
        under(|| self.waiters.lock().wake());
    }
}

fn poll_begin(
    state: &mut LinksState,
    slot: u32,
    waker: Option<&Waker>,
) -> Option<Result<bool, LinkError>> {
    if state.channels.reader(slot).drop_whole() {
        state.channels.settle_reader(slot, &mut state.inflows);
        state.drain_channels();
    }
    state.channels.reader(slot).poll_begin(waker)
}

impl Drop for ChannelListener {
    fn drop(&mut self) {
        self.core.state.with(|state| {
            state.channels.unlisten(&self.name, &mut state.inflows);
            state.drain_channels();
        });
    }
}

impl Drop for ChannelReader {
    fn drop(&mut self) {
        self.core.state.with(|state| {
            state.channels.drop_reader(self.slot, &mut state.inflows);
            state.drain_channels();
        });
    }
}

impl fmt::Debug for ChannelListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelListener").field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for ChannelReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelReader").field("slot", &self.slot).finish_non_exhaustive()
    }
}

pub(super) const fn stopped(stopped: WaitStopped) -> ChannelError {
    match stopped {
        WaitStopped::TimedOut { waited } => ChannelError::ReadTimedOut { waited },
        WaitStopped::InHandler => ChannelError::InHandler,
    }
}
