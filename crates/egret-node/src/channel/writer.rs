//! The end of a channel that is written.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use egret_net::buf::Plain;
use egret_net::rt::Deadline;
use egret_net::vi::Segment;

use super::control::NAME_MAX;
use super::error::{ChannelError, NotWritten, WriteError};
use super::message::Message;
use super::outgoing::{Halt, Outgoing};
use super::posting::{Post, Posted};
use super::writing::Opened;
use crate::Links;
use crate::flow::Depot;
use crate::link::{Fate, LinkError};
use crate::links::clock::Clock;
use crate::links::core::{Core, Stopped};
use crate::links::slots::Key;
use crate::links::state::State;

/// The end of a channel that is written; made by [`Links::channel`](crate::Links::channel).
///
/// Messages are written one after the other, or [posted](Self::post). Dropping it ends the channel:
/// its reader gets what was finished or posted, and then hears that there is no more.
pub struct Writer {
    pub(super) core: Arc<Core>,
    pub(super) number: u64,
    pub(super) depot: Arc<Depot>,
    host: String,
}

impl Links {
    /// Waits for a channel to whoever [listens](Self::listen) by that name at `host`.
    ///
    /// # Errors
    ///
    /// If there is no link to it, nobody accepts such channels there, or not in time.
    pub fn wait_channel(
        &self,
        host: &str,
        name: &str,
        deadline: impl Into<Deadline>,
    ) -> Result<Writer, ChannelError> {
        let (core, deadline) = (&self.core, deadline.into());
        check(name)?;
        let mut clock = Clock::of(deadline);
        clock.start(&core.nic);
        let link = core.link(host, deadline)?;
        let writer = Writer::begin(core, link, host, name);
        let opened = core.wait_by(&mut clock, &mut |state, waker| writer.poll_opened(state, waker));
        let opened = opened.map_err(|stopped| writer.not_opened(stopped))?;
        writer.opened(name, opened)
    }

    /// A channel to whoever [listens](Self::listen) by that name at `host`. The deadline is for
    /// the link, if there is none yet.
    ///
    /// # Errors
    ///
    /// If there is no link to it, or nobody accepts such channels there.
    pub fn channel<D: Into<Deadline>>(
        &self,
        host: &str,
        name: &str,
        deadline: D,
    ) -> impl Future<Output = Result<Writer, ChannelError>> + Send + use<D> {
        let (core, host, name) = (Arc::clone(&self.core), host.to_owned(), name.to_owned());
        let deadline = deadline.into();
        async move {
            check(&name)?;
            let link = core.step(|state, waker| state.link_to(&host, deadline, waker)).await?;
            let writer = Writer::begin(&core, link, &host, &name);
            let opened = core.step(|state, waker| writer.poll_opened(state, waker)).await;
            writer.opened(&name, opened)
        }
    }
}

impl Writer {
    fn begin(core: &Arc<Core>, link: Key, host: &str, name: &str) -> Self {
        let (number, depot) = core.state.with(|state| {
            let number = state.channels.open(link, name);
            if let Err(why) = state.live(link) {
                state.end_channels(link, &why);
            }
            state.drain_channels();
            (number, Arc::clone(&state.fixed.depot))
        });
        Self { core: Arc::clone(core), number, depot, host: host.to_owned() }
    }

    fn poll_opened(&self, state: &mut State, waker: Option<&Waker>) -> Option<Opened> {
        state.channels.writer(self.number).poll_opened(waker)
    }

    fn opened(self, name: &str, opened: Opened) -> Result<Self, ChannelError> {
        match opened {
            Opened::Yes => Ok(self),
            Opened::Died(why) => Err(why.into()),
            Opened::Refused(why) => {
                let (host, name) = (self.host.clone(), name.to_owned());
                Err(ChannelError::Refused { host, name, why })
            }
        }
    }

    fn not_opened(&self, stopped: Stopped) -> ChannelError {
        match stopped {
            Stopped::TimedOut { waited } => {
                ChannelError::TimedOut { host: self.host.clone(), waited }
            }
            Stopped::InHandler => ChannelError::InHandler,
        }
    }

    /// The host that reads it.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Begins a message.
    pub fn message(&mut self) -> Message<'_> {
        Message::new(self)
    }

    /// Writes a message of one array, which is given away: it lands as one part.
    ///
    /// # Errors
    ///
    /// If it was not written. The array is inside if the channel had ended before, and is
    /// dropped, which returns a buffer to its pool, if the message was begun and given up.
    pub fn wait_send(
        &mut self,
        memory: impl Into<Segment>,
        deadline: impl Into<Deadline>,
    ) -> Result<(), NotWritten> {
        let deadline = deadline.into();
        let mut message = self.message();
        // The first of a message is only held.
        message.wait_write_owned(memory, deadline)?;
        message.wait_finish(deadline).map_err(NotWritten::without)
    }

    /// The same, without a thread.
    ///
    /// # Errors
    ///
    /// As [`wait_send`](Self::wait_send).
    pub async fn send(&mut self, memory: impl Into<Segment>) -> Result<(), NotWritten> {
        let mut message = self.message();
        message.write_owned(memory).await?;
        message.finish().await.map_err(NotWritten::without)
    }

    /// Writes a message of one array, which is borrowed for as long as that takes: from where it
    /// lies, if it is large.
    ///
    /// # Errors
    ///
    /// As [`Message::wait_write`].
    pub fn wait_send_slice<T: Plain>(
        &mut self,
        data: &[T],
        deadline: impl Into<Deadline>,
    ) -> Result<(), WriteError> {
        let deadline = deadline.into();
        self.message().wait_last(data, deadline)
    }

    /// Waits until all messages that were finished are in the memory of the reader's node.
    ///
    /// # Errors
    ///
    /// If the link died, with what became of the last of them, or the deadline passed.
    pub fn wait_arrived(&mut self, deadline: impl Into<Deadline>) -> Result<(), WriteError> {
        let core = Arc::clone(&self.core);
        let number = self.number;
        core.wait(deadline.into(), |state, waker| poll_arrived(state, number, waker))
            .map_err(stopped)?
    }

    /// The same, without a thread.
    ///
    /// # Errors
    ///
    /// If the link died.
    pub async fn arrived(&mut self) -> Result<(), WriteError> {
        let number = self.number;
        self.core.step(move |state, waker| poll_arrived(state, number, waker)).await
    }

    /// Posts a message, which goes by itself behind all that were finished or posted before:
    /// whoever drives the links goes on with it. A message that is [written](Self::message) waits
    /// until all that were posted have gone.
    pub fn post(&self, post: Post) {
        self.core.state.with(|state| {
            state.channels.writer(self.number).post(post);
            state.channels.pump_writer(self.number);
            state.drain_channels();
        });
    }

    /// Takes a message back that was posted, unless all of it has gone: its [`Posted`] says
    /// [`Withdrawn`](WriteError::Withdrawn) then.
    pub fn withdraw(&self, posted: &Posted) {
        self.core.state.with(|state| {
            state.channels.writer(self.number).withdraw(posted);
            state.channels.pump_writer(self.number);
            state.drain_channels();
        });
    }

    /// Gets memory back that was lent for messages of this channel and has gone, by ending the link:
    /// returns when the memory is back, as `is_back` says.
    pub fn end_until(&self, is_back: &mut dyn FnMut() -> bool) {
        self.core.state.with(|state| {
            let link = state.channels.writer(self.number).link();
            state.end(link, |_| LinkError::Closed);
        });
        while !is_back() {
            self.core.poll();
        }
    }

    /// How many messages were finished and have gone.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.core.state.with(|state| state.channels.writer(self.number).messages().0)
    }

    /// What became of the messages, counted from 1, that are not known to have arrived, after the
    /// link died.
    #[must_use]
    pub fn lost(&self) -> Vec<(u64, Fate)> {
        let mut lost =
            self.core.state.with(|state| state.channels.writer(self.number).lost().to_vec());
        lost.sort_unstable_by_key(|(message, _)| *message);
        lost
    }

    /// Runs `work` on the machine; then sends what may be.
    pub(super) fn with<T>(
        state: &mut State,
        number: u64,
        work: impl FnOnce(&mut Outgoing) -> T,
    ) -> Result<T, LinkError> {
        let done = work(state.channels.writer(number).machine()?);
        state.channels.pump_writer(number);
        state.drain_channels();
        Ok(done)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.core.state.with(|state| {
            state.channels.drop_writer(self.number);
            state.drain_channels();
        });
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        f.debug_struct("Writer").field("host", &self.host).field("number", &number).finish()
    }
}

fn poll_arrived(
    state: &mut State,
    number: u64,
    waker: Option<&Waker>,
) -> Option<Result<(), WriteError>> {
    let writing = state.channels.writer(number);
    if writing.messages().1 == 0 {
        let lost = writing.lost().last().map(|(_, fate)| *fate);
        return Some(match (lost, writing.machine()) {
            (Some(fate), Err(why)) => Err(WriteError::Link { why, fate }),
            _ => Ok(()),
        });
    }
    writing.wait(waker);
    None
}

fn check(name: &str) -> Result<(), ChannelError> {
    if name.len() > NAME_MAX { Err(ChannelError::Name { bytes: name.len() }) } else { Ok(()) }
}

pub(super) const fn stopped(stopped: Stopped) -> WriteError {
    match stopped {
        Stopped::TimedOut { waited } => WriteError::TimedOut { waited, broken: false },
        Stopped::InHandler => WriteError::InHandler,
    }
}

/// The same of a wait for memory that was lent.
pub(super) fn stopped_lent(why: Stopped, took_link: bool) -> WriteError {
    match stopped(why) {
        WriteError::TimedOut { waited, .. } => WriteError::TimedOut { waited, broken: took_link },
        other => other,
    }
}

impl From<Halt> for WriteError {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Stopped => Self::Stopped,
            Halt::Refused(never) => Self::TooLarge(never),
        }
    }
}
