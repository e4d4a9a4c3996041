//! The writing end of a channel.

use egret_net::rt::waits;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use egret_net::buf::Plain;
use egret_net::rt::{Deadline, GivenBack};
use egret_net::vi::Segment;

use super::message_writer::MessageWriter;
use crate::Links;
use crate::channel_table::{
    ChannelError, ChannelOpening, ChannelOutflow, Post, PostOutcome, WriteHalt,
};
use crate::flow::SizedPools;
use crate::link::{CHANNEL_NAME_MAX, Fate, LinkError};
use crate::links::clock::DeadlineClock;
use crate::links::core::{LinksCore, WaitStopped};
use crate::links::state::LinksState;
use crate::slots::SlotKey;

/// The writing end of a channel; made by [`Links::channel`](crate::Links::channel).
///
/// Messages are written one after the other, or [posted](Self::post). Dropping the writer ends the
/// channel: the reader gets all messages that were finished or posted, and then the end.
///
/// ```
/// # use egret_net::fabric::{Fabric, shm::ShmFabric};
/// # use egret_net::vi::NicOptions;
/// # use egret_node::{Links, LinksOptions};
/// # let links = |name: &str| -> Result<Links, Box<dyn std::error::Error>> {
/// #     let host = format!("{name}-{}", std::process::id());
/// #     Ok(Links::open(ShmFabric.open(&NicOptions::new(&host))?, LinksOptions::default())?)
/// # };
/// # let (here, there) = (links("writes")?, links("listens")?);
/// use egret_net::rt::Deadline;
///
/// let listener = there.listen("rows", 8)?;
/// let mut writer = here.wait_channel(there.host(), "rows", Deadline::DEFAULT)?;
/// writer.wait_send(vec![1.5_f64, 2.5], Deadline::DEFAULT)?;
///
/// let mut reader = listener.wait_accept(Deadline::DEFAULT)?;
/// let mut message = reader.wait_next(Deadline::DEFAULT)?.expect("a message was sent");
/// assert_eq!(message.wait_array::<f64>(Deadline::DEFAULT)?[..], [1.5, 2.5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChannelWriter {
    pub(super) core: Arc<LinksCore>,
    pub(super) number: u64,
    pub(super) depot: Arc<SizedPools>,
    host: String,
    pub(super) link: SlotKey,
}

impl Links {
    /// Opens a channel to the listener of that [name](Self::listen) at `host`, and waits until it is
    /// accepted.
    ///
    /// # Errors
    ///
    /// If there is no link to the host, the host accepts no channels by this name, or the deadline
    /// passes.
    #[track_caller]
    pub fn wait_channel(
        &self,
        host: &str,
        name: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<ChannelWriter, ChannelError> {
        let _waits = waits::named(self.core.wait_hint("channel", None), name);
        let (core, deadline) = (&self.core, deadline.into());
        check(name)?;
        let mut clock = DeadlineClock::of(deadline);
        clock.start(&core.nic);
        let link = core.link(host, deadline)?;
        let writer = ChannelWriter::begin(core, link, host, name);
        let opened = core.wait_by(&mut clock, &mut |state, waker| writer.poll_opened(state, waker));
        let opened = opened.map_err(|stopped| writer.not_opened(stopped))?;
        writer.opened(name, opened)
    }

    /// Opens a channel to the listener of that [name](Self::listen) at `host`. The deadline is for
    /// the link, if there is none yet.
    ///
    /// # Errors
    ///
    /// If there is no link to the host, or the host accepts no channels by this name.
    pub fn channel<D: Into<Deadline>>(
        &self,
        host: &str,
        name: &str,
        deadline: D,
    ) -> impl Future<Output = Result<ChannelWriter, ChannelError>> + Send + use<D> {
        let (core, host, name) = (Arc::clone(&self.core), host.to_owned(), name.to_owned());
        let deadline = deadline.into();
        async move {
            check(&name)?;
            let link = core.step(|state, waker| state.link_to(&host, deadline, waker)).await?;
            let writer = ChannelWriter::begin(&core, link, &host, &name);
            let opened = core.step(|state, waker| writer.poll_opened(state, waker)).await;
            writer.opened(&name, opened)
        }
    }
}

impl ChannelWriter {
    fn begin(core: &Arc<LinksCore>, link: SlotKey, host: &str, name: &str) -> Self {
        let (number, depot) = core.state.with(|state| {
            let number = state.channels.open(link, name);
            if let Err(why) = state.links.live(link) {
                state.end_channels(link, &why);
            }
            state.drain_channels();
            (number, Arc::clone(&state.fixed.depot))
        });
        Self { core: Arc::clone(core), number, depot, host: host.to_owned(), link }
    }

    fn poll_opened(&self, state: &mut LinksState, waker: Option<&Waker>) -> Option<ChannelOpening> {
        state.channels.writer(self.number).poll_opened(waker)
    }

    fn opened(self, name: &str, opened: ChannelOpening) -> Result<Self, ChannelError> {
        match opened {
            ChannelOpening::Yes => Ok(self),
            ChannelOpening::Died(why) => Err(why.into()),
            ChannelOpening::Refused(why) => Err(ChannelError::refused(why, &self.host, name)),
        }
    }

    fn not_opened(&self, stopped: WaitStopped) -> ChannelError {
        match stopped {
            WaitStopped::TimedOut { waited } => {
                ChannelError::OpenTimedOut { host: self.host.clone(), waited }
            }
            WaitStopped::InHandler => ChannelError::InHandler,
        }
    }

    /// The host of the reader.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Begins a message.
    pub fn message(&mut self) -> MessageWriter<'_> {
        MessageWriter::new(self)
    }

    /// Writes a message of one array, without a copy: the array is moved in, and arrives as one part.
    ///
    /// # Errors
    ///
    /// If the message was not written. The array is given back if the channel had ended before. It is
    /// dropped, which returns a buffer to its pool, if the message was begun and aborted.
    #[track_caller]
    pub fn wait_send(
        &mut self,
        memory: impl Into<Segment>,
        deadline: impl Into<Deadline>,
    ) -> Result<(), GivenBack<Option<Segment>, ChannelError>> {
        let _waits = self.core.waits("room", Some(self.link));
        let deadline = deadline.into();
        let mut message = self.message();
        // The first of a message is only held.
        message.wait_write_owned(memory, deadline)?;
        message.wait_finish(deadline).map_err(|why| GivenBack { why, what: None })
    }

    /// Writes a message of one array as [`wait_send`](Self::wait_send) does, without blocking a thread.
    ///
    /// # Errors
    ///
    /// As [`wait_send`](Self::wait_send).
    pub async fn send(
        &mut self,
        memory: impl Into<Segment>,
    ) -> Result<(), GivenBack<Option<Segment>, ChannelError>> {
        let mut message = self.message();
        message.write_owned(memory).await?;
        message.finish().await.map_err(|why| GivenBack { why, what: None })
    }

    /// Writes a message of one borrowed array, without a copy if it is large (16 KiB and more), and
    /// returns when the array is not needed any more.
    ///
    /// # Errors
    ///
    /// As [`MessageWriter::wait_write`].
    #[track_caller]
    pub fn wait_send_slice<T: Plain>(
        &mut self,
        data: &[T],
        deadline: impl Into<Deadline>,
    ) -> Result<(), ChannelError> {
        let _waits = self.core.waits("room", Some(self.link));
        let deadline = deadline.into();
        self.message().wait_last(data, deadline)
    }

    /// Waits until all finished messages are in the memory of the reader's node.
    ///
    /// # Errors
    ///
    /// If the link ended, with what is known of the last message, or the deadline passed.
    #[track_caller]
    pub fn wait_arrived(&mut self, deadline: impl Into<Deadline>) -> Result<(), ChannelError> {
        let _waits = self.core.waits("room", Some(self.link));
        let core = Arc::clone(&self.core);
        let number = self.number;
        core.wait(deadline.into(), |state, waker| poll_arrived(state, number, waker))
            .map_err(stopped)?
    }

    /// Waits as [`wait_arrived`](Self::wait_arrived) does, without blocking a thread.
    ///
    /// # Errors
    ///
    /// If the link ended.
    pub async fn arrived(&mut self) -> Result<(), ChannelError> {
        let number = self.number;
        self.core.step(move |state, waker| poll_arrived(state, number, waker)).await
    }

    /// Posts a message without waiting. The message is sent after all messages that were finished or
    /// posted before, by the thread that drives the links. A message that is
    /// [written](Self::message) waits until all posted messages were sent.
    pub fn post(&self, post: Post) {
        self.core.state.with(|state| {
            state.channels.writer(self.number).post(post);
            state.channels.pump_writer(self.number);
            state.drain_channels();
        });
    }

    /// Withdraws a posted message, unless all of it was sent: its [`PostOutcome`] is
    /// [`Withdrawn`](ChannelError::Withdrawn) then.
    pub fn withdraw(&self, posted: &PostOutcome) {
        self.core.state.with(|state| {
            state.channels.writer(self.number).withdraw(posted);
            state.channels.pump_writer(self.number);
            state.drain_channels();
        });
    }

    /// Ends the link, to get borrowed memory of messages of this channel back from the fabric. Returns
    /// when `is_back` returns true.
    pub fn end_until(&self, is_back: &mut dyn FnMut() -> bool) {
        self.core.state.with(|state| {
            let link = state.channels.writer(self.number).link();
            state.end(link, |_| LinkError::Closed);
        });
        while !is_back() {
            self.core.poll();
        }
    }

    /// How many finished or posted messages were sent.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.core.state.with(|state| state.channels.writer(self.number).messages().0)
    }

    /// The messages that are not known to have arrived, after the link ended: their numbers, counted
    /// from 1, and what is known of each.
    #[must_use]
    pub fn lost(&self) -> Vec<(u64, Fate)> {
        let mut lost =
            self.core.state.with(|state| state.channels.writer(self.number).lost().to_vec());
        lost.sort_unstable_by_key(|(message, _)| *message);
        lost
    }

    /// Runs `work` on the state machine of the channel; then sends what there is credit for.
    pub(super) fn with<T>(
        state: &mut LinksState,
        number: u64,
        work: impl FnOnce(&mut ChannelOutflow) -> T,
    ) -> Result<T, LinkError> {
        let done = work(state.channels.writer(number).machine()?);
        state.channels.pump_writer(number);
        state.drain_channels();
        Ok(done)
    }
}

impl Drop for ChannelWriter {
    fn drop(&mut self) {
        self.core.state.with(|state| {
            state.channels.drop_writer(self.number);
            state.drain_channels();
        });
    }
}

impl fmt::Debug for ChannelWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        f.debug_struct("ChannelWriter").field("host", &self.host).field("number", &number).finish()
    }
}

fn poll_arrived(
    state: &mut LinksState,
    number: u64,
    waker: Option<&Waker>,
) -> Option<Result<(), ChannelError>> {
    let writing = state.channels.writer(number);
    if writing.messages().1 == 0 {
        let lost = writing.lost().last().map(|(_, fate)| *fate);
        return Some(match (lost, writing.machine()) {
            (Some(fate), Err(why)) => Err(ChannelError::Lost { why, fate }),
            _ => Ok(()),
        });
    }
    writing.wait(waker);
    None
}

fn check(name: &str) -> Result<(), ChannelError> {
    if name.len() > CHANNEL_NAME_MAX {
        Err(ChannelError::Name { bytes: name.len() })
    } else {
        Ok(())
    }
}

pub(super) const fn stopped(stopped: WaitStopped) -> ChannelError {
    match stopped {
        WaitStopped::TimedOut { waited } => ChannelError::WriteTimedOut { waited, broken: false },
        WaitStopped::InHandler => ChannelError::InHandler,
    }
}

/// The error of a wait for borrowed memory.
pub(super) fn stopped_lent(why: WaitStopped, took_link: bool) -> ChannelError {
    match stopped(why) {
        ChannelError::WriteTimedOut { waited, .. } => {
            ChannelError::WriteTimedOut { waited, broken: took_link }
        }
        other => other,
    }
}

impl From<WriteHalt> for ChannelError {
    fn from(halt: WriteHalt) -> Self {
        match halt {
            WriteHalt::Stopped => Self::ReaderGone,
            WriteHalt::Refused(never) => never.into(),
        }
    }
}
