//! The writer of one message.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use bytemuck::cast_slice;
use egret_net::buf::{Buf, Plain};
use egret_net::rt::{Deadline, GivenBack};
use egret_net::vi::Segment;

use super::writer::{ChannelWriter, stopped, stopped_lent};
use crate::channel_table::{ChannelError, ChannelOutflow, WriteHalt};
use crate::in_handler::in_handler;
use crate::link::{Fate, LinkError};
use crate::links::clock::DeadlineClock;
use crate::links::core::WaitStopped;
use crate::links::state::LinksState;

/// Writes one message; made by [`ChannelWriter::message`].
///
/// The message is sent while it is written, part by part: small pieces when enough of them are
/// collected, each array as a part of its own. A message that is dropped before it is
/// [finished](Self::wait_finish) is aborted, and its reader is told so.
///
/// ```
/// # use egret_net::fabric::{Fabric, shm::ShmFabric};
/// # use egret_net::vi::NicOptions;
/// # use egret_node::{Links, LinksOptions};
/// # let links = |name: &str| -> Result<Links, Box<dyn std::error::Error>> {
/// #     let host = format!("{name}-{}", std::process::id());
/// #     Ok(Links::open(ShmFabric.open(&NicOptions::new(&host))?, LinksOptions::default())?)
/// # };
/// # let (here, there) = (links("parts-from")?, links("parts-to")?);
/// use egret_net::rt::Deadline;
///
/// let listener = there.listen("parts", 8)?;
/// let mut writer = here.wait_channel(there.host(), "parts", Deadline::DEFAULT)?;
/// let mut message = writer.message();
/// message.wait_write(&[7_u32, 8], Deadline::DEFAULT)?; // copied
/// message.wait_write_owned(vec![0.5_f64; 1000], Deadline::DEFAULT)?; // moved
/// message.wait_finish(Deadline::DEFAULT)?;
///
/// let mut reader = listener.wait_accept(Deadline::DEFAULT)?;
/// let mut message = reader.wait_next(Deadline::DEFAULT)?.expect("a message was written");
/// let mut header = [0_u32; 2];
/// message.wait_read_exact(&mut header, Deadline::DEFAULT)?;
/// assert_eq!(header, [7, 8]);
/// assert_eq!(message.wait_array::<f64>(Deadline::DEFAULT)?.len(), 1000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a message that is dropped before it is finished is aborted"]
pub struct MessageWriter<'w> {
    writer: &'w mut ChannelWriter,
    started: bool,
    held: UnsentTail,
    /// The position in the flow of the channel at which the pushed parts end.
    upto: u64,
    /// The state machine of the channel has the end of the message.
    ended: bool,
    /// Why writing cannot go on.
    broken: Option<ChannelError>,
}

/// The bytes that were written last: held back, since they may turn out to be the last part.
enum UnsentTail {
    Nothing,
    /// Small pieces, and how many bytes of them.
    Chunk(Buf, usize),
    Array(Segment),
}

/// How far a message must have come for a wait to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteGoal {
    /// The state machine of the channel has the held bytes.
    Pushed,
    /// All parts were sent.
    Gone,
    /// All parts and the end were sent.
    Finished,
}

impl<'w> MessageWriter<'w> {
    pub(super) const fn new(writer: &'w mut ChannelWriter) -> Self {
        Self {
            writer,
            started: false,
            held: UnsentTail::Nothing,
            upto: 0,
            ended: false,
            broken: None,
        }
    }

    /// Writes elements. Less than 16 KiB are copied, and sent together with what else is written. 16 KiB
    /// and more are sent at once without a copy, as a part of their own: then the call waits until
    /// the elements are in the memory of the reader's node.
    ///
    /// # Errors
    ///
    /// If the elements cannot be written in time. The message is lost then, unless the elements were to
    /// be copied and the error is [`WriteTimedOut`](ChannelError::WriteTimedOut).
    #[track_caller]
    pub fn wait_write<T: Plain>(
        &mut self,
        data: &[T],
        deadline: impl Into<Deadline>,
    ) -> Result<(), ChannelError> {
        let _waits = self.writer.core.waits("room", Some(self.writer.link));
        self.write_by(cast_slice(data), &mut DeadlineClock::of(deadline.into()))
    }

    /// Writes elements by copying them.
    ///
    /// # Errors
    ///
    /// If the message is lost.
    pub async fn write<T: Plain>(&mut self, data: &[T]) -> Result<(), ChannelError> {
        self.usable()?;
        let mut bytes = cast_slice::<T, u8>(data);
        while self.collect(&mut bytes)? {
            self.on(WriteGoal::Pushed).await?;
        }
        Ok(())
    }

    /// Copies as many of the elements as there is room for now. Returns how many bytes those are.
    ///
    /// # Errors
    ///
    /// If the message is lost, or nothing more can be taken now.
    pub fn try_write<T: Plain>(&mut self, data: &[T]) -> Result<usize, ChannelError> {
        self.usable()?;
        let all = cast_slice::<T, u8>(data);
        let mut bytes = all;
        while self.collect(&mut bytes)? {
            match self.try_on(WriteGoal::Pushed) {
                Err(ChannelError::Full) if bytes.len() < all.len() => break,
                other => other?,
            }
        }
        Ok(all.len() - bytes.len())
    }

    /// Writes an array without a copy: the array is moved in, is a part of its own, and arrives in one
    /// buffer. It is sent when something else is written, or by [`wait_flush`](Self::wait_flush).
    ///
    /// # Errors
    ///
    /// With the array, if it was not written.
    #[track_caller]
    pub fn wait_write_owned(
        &mut self,
        memory: impl Into<Segment>,
        deadline: impl Into<Deadline>,
    ) -> Result<(), GivenBack<Option<Segment>, ChannelError>> {
        let _waits = self.writer.core.waits("room", Some(self.writer.link));
        let ready = self.wait_on(WriteGoal::Pushed, &mut DeadlineClock::of(deadline.into()));
        self.hold(memory.into(), ready)
    }

    /// Writes an array as [`wait_write_owned`](Self::wait_write_owned) does, without blocking a thread.
    ///
    /// # Errors
    ///
    /// With the array, if the message is lost.
    pub async fn write_owned(
        &mut self,
        memory: impl Into<Segment>,
    ) -> Result<(), GivenBack<Option<Segment>, ChannelError>> {
        let memory = memory.into();
        let ready = self.on(WriteGoal::Pushed).await;
        self.hold(memory, ready)
    }

    /// Writes an array as [`wait_write_owned`](Self::wait_write_owned) does, if there is room now.
    ///
    /// # Errors
    ///
    /// With the array, if it was not written.
    pub fn try_write_owned(
        &mut self,
        memory: impl Into<Segment>,
    ) -> Result<(), GivenBack<Option<Segment>, ChannelError>> {
        let ready = self.try_on(WriteGoal::Pushed);
        self.hold(memory.into(), ready)
    }

    /// Sends everything that was written so far.
    ///
    /// # Errors
    ///
    /// If not all of it was sent in time, or the message is lost.
    #[track_caller]
    pub fn wait_flush(&mut self, deadline: impl Into<Deadline>) -> Result<(), ChannelError> {
        let _waits = self.writer.core.waits("room", Some(self.writer.link));
        self.wait_on(WriteGoal::Gone, &mut DeadlineClock::of(deadline.into()))
    }

    /// Sends everything that was written so far, without blocking a thread.
    ///
    /// # Errors
    ///
    /// If the message is lost.
    pub async fn flush(&mut self) -> Result<(), ChannelError> {
        self.on(WriteGoal::Gone).await
    }

    /// Ends the message, and waits until all of it was handed to the link.
    ///
    /// # Errors
    ///
    /// If not all of it was sent in time, or the message is lost. The message is aborted then.
    #[track_caller]
    pub fn wait_finish(mut self, deadline: impl Into<Deadline>) -> Result<(), ChannelError> {
        let _waits = self.writer.core.waits("room", Some(self.writer.link));
        self.wait_on(WriteGoal::Finished, &mut DeadlineClock::of(deadline.into()))
    }

    /// Ends the message as [`wait_finish`](Self::wait_finish) does, without blocking a thread.
    ///
    /// # Errors
    ///
    /// If the message is lost.
    pub async fn finish(mut self) -> Result<(), ChannelError> {
        self.on(WriteGoal::Finished).await
    }

    /// Ends the message if there is room now. Call it again while it returns
    /// [`Full`](ChannelError::Full).
    ///
    /// # Errors
    ///
    /// If not all of the message was sent yet, or the message is lost.
    pub fn try_finish(&mut self) -> Result<(), ChannelError> {
        self.try_on(WriteGoal::Finished)
    }

    /// Aborts the message: what was not sent never will be, and its reader is told so.
    pub fn abort(self) {}

    /// Waits until the messages before have gone, and begins this one, for which the reader is to wait at a place among other messages.
    pub(crate) fn wait_place(&mut self, deadline: Deadline) -> Result<(), ChannelError> {
        let (core, number) = (Arc::clone(&self.writer.core), self.writer.number);
        let begun = core.wait(deadline, |state, waker| {
            let writing = state.channels.writer(number);
            let has_posts = writing.has_posts();
            match writing.machine() {
                Err(why) => return Some(Err(not_delivered(why))),
                Ok(outgoing) if !has_posts && outgoing.is_flushed() => {
                    outgoing.begin();
                    if let Some(halt) = outgoing.halted() {
                        return Some(Err(halt.into()));
                    }
                    outgoing.place();
                    return Some(Ok(()));
                }
                Ok(_) => {}
            }
            writing.wait(waker);
            None
        });
        begun.map_err(stopped)??;
        self.started = true;
        Ok(())
    }

    /// The reader was not told of the place: nothing is left of the message.
    pub(crate) fn leave_place(mut self) {
        self.started = false;
        let number = self.writer.number;
        let unplaced = self
            .writer
            .core
            .state
            .with(|state| ChannelWriter::with(state, number, ChannelOutflow::unplace));
        drop(unplaced);
    }

    pub(super) fn wait_last<T: Plain>(
        mut self,
        data: &[T],
        deadline: Deadline,
    ) -> Result<(), ChannelError> {
        let (bytes, mut clock) = (cast_slice(data), DeadlineClock::of(deadline));
        if bytes.len() >= LENT_MIN {
            return self.lend(bytes, WriteGoal::Finished, &mut clock);
        }
        self.write_by(bytes, &mut clock)?;
        self.wait_on(WriteGoal::Finished, &mut clock)
    }

    fn write_by(
        &mut self,
        mut bytes: &[u8],
        clock: &mut DeadlineClock,
    ) -> Result<(), ChannelError> {
        self.usable()?;
        if bytes.len() >= LENT_MIN {
            self.wait_on(WriteGoal::Pushed, clock)?;
            return self.lend(bytes, WriteGoal::Pushed, clock);
        }
        while self.collect(&mut bytes)? {
            self.wait_on(WriteGoal::Pushed, clock)?;
        }
        Ok(())
    }

    fn usable(&self) -> Result<(), ChannelError> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn hold(
        &mut self,
        memory: Segment,
        ready: Result<(), ChannelError>,
    ) -> Result<(), GivenBack<Option<Segment>, ChannelError>> {
        match ready {
            Ok(()) => {
                self.held = UnsentTail::Array(memory);
                Ok(())
            }
            Err(why) => Err(GivenBack { why, what: Some(memory) }),
        }
    }

    /// Copies bytes into the chunk. Whether it has no room for the rest of them.
    fn collect(&mut self, bytes: &mut &[u8]) -> Result<bool, ChannelError> {
        if bytes.is_empty() {
            return Ok(false);
        }
        if matches!(self.held, UnsentTail::Nothing) {
            self.held = UnsentTail::Chunk(self.new_chunk()?, 0);
        }
        let UnsentTail::Chunk(buf, filled) = &mut self.held else { return Ok(true) };
        let now = bytes.len().min(buf.len() - *filled);
        buf.bytes_mut()[*filled..*filled + now].copy_from_slice(&bytes[..now]);
        *filled += now;
        *bytes = &bytes[now..];
        Ok(!bytes.is_empty())
    }

    fn new_chunk(&self) -> Result<Buf, ChannelError> {
        let number = self.writer.number;
        let bytes = self.writer.core.state.with(|state| {
            state.channels.writer(number).machine().map(|outgoing| outgoing.chunk_bytes())
        });
        let bytes = bytes.map_err(not_delivered)?;
        self.writer.depot.take(bytes).map_err(|_| ChannelError::NoMemory { bytes })
    }

    /// Waits until the message has come as far as the goal.
    fn wait_on(&mut self, goal: WriteGoal, clock: &mut DeadlineClock) -> Result<(), ChannelError> {
        if self.is_at(goal)? {
            return Ok(());
        }
        let core = Arc::clone(&self.writer.core);
        core.wait_by(clock, &mut |state, waker| self.poll_on(goal, state, waker))
            .map_err(stopped)?
    }

    /// Waits as `wait_on` does, without blocking a thread.
    async fn on(&mut self, goal: WriteGoal) -> Result<(), ChannelError> {
        if self.is_at(goal)? {
            return Ok(());
        }
        let core = Arc::clone(&self.writer.core);
        core.step(|state, waker| self.poll_on(goal, state, waker)).await
    }

    /// Succeeds if the message has come as far as the goal, or can now.
    fn try_on(&mut self, goal: WriteGoal) -> Result<(), ChannelError> {
        if self.is_at(goal)? {
            return Ok(());
        }
        let core = Arc::clone(&self.writer.core);
        let come = core.look(|state, waker| self.poll_on(goal, state, waker));
        come.unwrap_or(Err(ChannelError::Full))
    }

    /// Whether the message has come as far as the goal, as far as is known without the lock.
    fn is_at(&self, goal: WriteGoal) -> Result<bool, ChannelError> {
        self.usable()?;
        Ok(goal == WriteGoal::Pushed && matches!(self.held, UnsentTail::Nothing))
    }

    fn poll_on(
        &mut self,
        goal: WriteGoal,
        state: &mut LinksState,
        waker: Option<&Waker>,
    ) -> Option<Result<(), ChannelError>> {
        match self.poll_push(goal, state, waker)? {
            Ok(()) if goal != WriteGoal::Pushed => {
                poll_gone(state, (self.writer.number, self.upto), waker)
            }
            pushed => Some(pushed),
        }
    }

    /// Moves the held bytes to the state machine of the channel once it has room, and the end of the
    /// message if that is the goal.
    fn poll_push(
        &mut self,
        goal: WriteGoal,
        state: &mut LinksState,
        waker: Option<&Waker>,
    ) -> Option<Result<(), ChannelError>> {
        let last = goal == WriteGoal::Finished;
        let is_pushed = if last { self.ended } else { matches!(self.held, UnsentTail::Nothing) };
        if is_pushed {
            return Some(Ok(()));
        }
        let writing = state.channels.writer(self.writer.number);
        let has_posts = writing.has_posts();
        let pushed = match writing.machine() {
            Err(why) => Err(not_delivered(why)),
            Ok(outgoing) => {
                if !self.started && !has_posts && outgoing.is_flushed() {
                    outgoing.begin();
                    self.started = true;
                }
                match outgoing.halted().filter(|_| self.started) {
                    Some(halt) => Err(halt.into()),
                    None if self.started && outgoing.has_room() => self.push(last, state),
                    None => {
                        writing.wait(waker);
                        return None;
                    }
                }
            }
        };
        self.broken = pushed.clone().err();
        Some(pushed)
    }

    fn push(&mut self, last: bool, state: &mut LinksState) -> Result<(), ChannelError> {
        let memory = match std::mem::replace(&mut self.held, UnsentTail::Nothing) {
            UnsentTail::Nothing => None,
            UnsentTail::Array(memory) => Some(memory),
            UnsentTail::Chunk(mut buf, filled) => {
                buf.resize(filled);
                Some(buf.into())
            }
        };
        let pushed = ChannelWriter::with(state, self.writer.number, |outgoing| {
            match memory {
                Some(memory) if !last => outgoing.part(memory).map_err(|(halt, _)| halt)?,
                memory => outgoing.last(memory).map_err(|(halt, _)| halt)?,
            }
            Ok::<_, WriteHalt>(outgoing.flow.sent().1)
        });
        self.upto = pushed.map_err(not_delivered)??;
        self.ended |= last;
        Ok(())
    }

    /// Sends borrowed memory, and does not return before the fabric has given it back.
    fn lend(
        &mut self,
        bytes: &[u8],
        goal: WriteGoal,
        clock: &mut DeadlineClock,
    ) -> Result<(), ChannelError> {
        if in_handler() {
            return Err(stopped(WaitStopped::InHandler));
        }
        let (core, number) = (Arc::clone(&self.writer.core), self.writer.number);
        let sent = Segment::lend(bytes, |memory, is_back| {
            self.held = UnsentTail::Array(memory);
            let sent = core.wait_by(clock, &mut |state, waker| {
                if let Err(why) = self.poll_push(goal, state, waker)? {
                    return Some(Err(why));
                }
                if is_back() {
                    return Some(poll_gone(state, (number, self.upto), None).unwrap_or(Ok(())));
                }
                state.channels.writer(number).wait(waker);
                None
            });
            self.held = UnsentTail::Nothing;
            match sent {
                Ok(sent) => sent,
                Err(why) => Err(stopped_lent(why, self.bring_back(is_back))),
            }
        });
        self.broken = sent.clone().err();
        sent
    }

    /// Gets borrowed memory back after the deadline. Whether the link had to be ended for that.
    fn bring_back(&self, is_back: &mut dyn FnMut() -> bool) -> bool {
        let (core, number) = (&self.writer.core, self.writer.number);
        // Before this message has started, the state machine is at a posted one.
        if self.started {
            core.state
                .with(|state| drop(ChannelWriter::with(state, number, ChannelOutflow::abort)));
        }
        if is_back() {
            return false;
        }
        self.writer.end_until(is_back);
        true
    }
}

impl Drop for MessageWriter<'_> {
    fn drop(&mut self) {
        if self.started {
            let number = self.writer.number;
            self.writer
                .core
                .state
                .with(|state| drop(ChannelWriter::with(state, number, ChannelOutflow::abort)));
        }
    }
}

impl fmt::Debug for MessageWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageWriter").field("writer", &self.writer).finish_non_exhaustive()
    }
}

/// Whether a channel was sent up to a position, or never will be.
fn poll_gone(
    state: &mut LinksState,
    (number, upto): (u64, u64),
    waker: Option<&Waker>,
) -> Option<Result<(), ChannelError>> {
    let writing = state.channels.writer(number);
    match writing.machine() {
        // It was handed to the link, which does not say any more how far it got;
        // `ChannelWriter::lost` does.
        Err(why) => return Some(Err(ChannelError::Lost { why, fate: Fate::Unknown })),
        Ok(outgoing) if outgoing.flow.sent().0 >= upto => return Some(Ok(())),
        Ok(outgoing) => {
            if let Some(halt) = outgoing.halted() {
                return Some(Err(halt.into()));
            }
        }
    }
    writing.wait(waker);
    None
}

const fn not_delivered(why: LinkError) -> ChannelError {
    ChannelError::Lost { why, fate: Fate::NotDelivered }
}

/// From so many bytes on, borrowed memory is sent without a copy.
const LENT_MIN: usize = 16 << 10;
