//! A message that is being written.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use bytemuck::cast_slice;
use egret_net::buf::{Buf, Plain};
use egret_net::rt::Deadline;
use egret_net::vi::Segment;

use super::error::{NotWritten, WriteError};
use super::outgoing::{Halt, Outgoing};
use super::writer::{Writer, stopped, stopped_lent};
use crate::am::in_handler;
use crate::link::{Fate, LinkError};
use crate::links::clock::Clock;
use crate::links::core::Stopped;
use crate::links::state::State;

/// A message that is being written; made by [`Writer::message`].
///
/// It goes while it is written, part by part: small pieces when enough of them are collected,
/// each array as a part of its own. Unless it is [finished](Self::wait_finish) it is aborted when
/// it is dropped, and its reader hears so.
#[must_use = "dropped without being finished, it is aborted"]
pub struct Message<'w> {
    writer: &'w mut Writer,
    started: bool,
    held: Held,
    /// Where in the channel what was pushed ends.
    upto: u64,
    /// Its end is with the machine.
    ended: bool,
    /// It cannot be gone on with.
    broken: Option<WriteError>,
}

/// What was written last and has not gone, as it may turn out to be the end.
enum Held {
    Nothing,
    /// Small pieces, so many bytes of them.
    Chunk(Buf, usize),
    Array(Segment),
}

/// How far a message is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// What is held is with the machine.
    Pushed,
    /// All of it has gone.
    Gone,
    /// All of it has gone, and its end.
    Finished,
}

impl<'w> Message<'w> {
    pub(super) const fn new(writer: &'w mut Writer) -> Self {
        Self { writer, started: false, held: Held::Nothing, upto: 0, ended: false, broken: None }
    }

    /// Writes elements. A few are copied and go with what else is written; many (16 KiB and more)
    /// go at once, as a part of their own, from where they lie: then the call waits until they
    /// are in the memory of the reader's node.
    ///
    /// # Errors
    ///
    /// If they cannot be written in time. If they were not copied, or something else is wrong, the
    /// message is lost.
    pub fn wait_write<T: Plain>(
        &mut self,
        data: &[T],
        deadline: impl Into<Deadline>,
    ) -> Result<(), WriteError> {
        self.write_by(cast_slice(data), &mut Clock::of(deadline.into()))
    }

    /// Writes elements that are copied.
    ///
    /// # Errors
    ///
    /// If the message is lost.
    pub async fn write<T: Plain>(&mut self, data: &[T]) -> Result<(), WriteError> {
        self.usable()?;
        let mut bytes = cast_slice::<T, u8>(data);
        while self.collect(&mut bytes)? {
            self.on(Goal::Pushed).await?;
        }
        Ok(())
    }

    /// Writes elements that are copied, as many as can be now; how many bytes those are.
    ///
    /// # Errors
    ///
    /// If the message is lost, or nothing more can be taken now.
    pub fn try_write<T: Plain>(&mut self, data: &[T]) -> Result<usize, WriteError> {
        self.usable()?;
        let all = cast_slice::<T, u8>(data);
        let mut bytes = all;
        while self.collect(&mut bytes)? {
            match self.try_on(Goal::Pushed) {
                Err(WriteError::Full) if bytes.len() < all.len() => break,
                other => other?,
            }
        }
        Ok(all.len() - bytes.len())
    }

    /// Writes an array, which is given away: it is a part of its own, goes from where it lies, and
    /// lands in one buffer. It goes when something else is written, or by
    /// [`wait_flush`](Self::wait_flush).
    ///
    /// # Errors
    ///
    /// With the array, if it was not taken.
    pub fn wait_write_owned(
        &mut self,
        memory: impl Into<Segment>,
        deadline: impl Into<Deadline>,
    ) -> Result<(), NotWritten> {
        let ready = self.wait_on(Goal::Pushed, &mut Clock::of(deadline.into()));
        self.hold(memory.into(), ready)
    }

    /// The same, without a thread.
    ///
    /// # Errors
    ///
    /// With the array, if the message is lost.
    pub async fn write_owned(&mut self, memory: impl Into<Segment>) -> Result<(), NotWritten> {
        let memory = memory.into();
        let ready = self.on(Goal::Pushed).await;
        self.hold(memory, ready)
    }

    /// The same, if that can be now.
    ///
    /// # Errors
    ///
    /// With the array, if it was not taken.
    pub fn try_write_owned(&mut self, memory: impl Into<Segment>) -> Result<(), NotWritten> {
        let ready = self.try_on(Goal::Pushed);
        self.hold(memory.into(), ready)
    }

    /// Has everything that was written so far go.
    ///
    /// # Errors
    ///
    /// If it cannot in time, or the message is lost.
    pub fn wait_flush(&mut self, deadline: impl Into<Deadline>) -> Result<(), WriteError> {
        self.wait_on(Goal::Gone, &mut Clock::of(deadline.into()))
    }

    /// The same, without a thread.
    ///
    /// # Errors
    ///
    /// If the message is lost.
    pub async fn flush(&mut self) -> Result<(), WriteError> {
        self.on(Goal::Gone).await
    }

    /// Ends the message. It has gone then: the link has it.
    ///
    /// # Errors
    ///
    /// If it cannot in time, or the message is lost. It is aborted then.
    pub fn wait_finish(mut self, deadline: impl Into<Deadline>) -> Result<(), WriteError> {
        self.wait_on(Goal::Finished, &mut Clock::of(deadline.into()))
    }

    /// The same, without a thread.
    ///
    /// # Errors
    ///
    /// If the message is lost.
    pub async fn finish(mut self) -> Result<(), WriteError> {
        self.on(Goal::Finished).await
    }

    /// Ends the message, and says whether it has gone: call it again while it is
    /// [`Full`](WriteError::Full).
    ///
    /// # Errors
    ///
    /// If it has not gone yet, or the message is lost.
    pub fn try_finish(&mut self) -> Result<(), WriteError> {
        self.try_on(Goal::Finished)
    }

    /// Gives the message up: what has not gone never will, and its reader hears of it.
    pub fn abort(self) {}

    pub(super) fn wait_last<T: Plain>(
        mut self,
        data: &[T],
        deadline: Deadline,
    ) -> Result<(), WriteError> {
        let (bytes, mut clock) = (cast_slice(data), Clock::of(deadline));
        if bytes.len() >= LENT_MIN {
            return self.lend(bytes, Goal::Finished, &mut clock);
        }
        self.write_by(bytes, &mut clock)?;
        self.wait_on(Goal::Finished, &mut clock)
    }

    fn write_by(&mut self, mut bytes: &[u8], clock: &mut Clock) -> Result<(), WriteError> {
        self.usable()?;
        if bytes.len() >= LENT_MIN {
            self.wait_on(Goal::Pushed, clock)?;
            return self.lend(bytes, Goal::Pushed, clock);
        }
        while self.collect(&mut bytes)? {
            self.wait_on(Goal::Pushed, clock)?;
        }
        Ok(())
    }

    fn usable(&self) -> Result<(), WriteError> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn hold(&mut self, memory: Segment, ready: Result<(), WriteError>) -> Result<(), NotWritten> {
        match ready {
            Ok(()) => {
                self.held = Held::Array(memory);
                Ok(())
            }
            Err(why) => Err(NotWritten { why, memory: Some(memory) }),
        }
    }

    /// Takes bytes into the chunk. Whether that has no room for what is left.
    fn collect(&mut self, bytes: &mut &[u8]) -> Result<bool, WriteError> {
        if bytes.is_empty() {
            return Ok(false);
        }
        if matches!(self.held, Held::Nothing) {
            self.held = Held::Chunk(self.new_chunk()?, 0);
        }
        let Held::Chunk(buf, filled) = &mut self.held else { return Ok(true) };
        let now = bytes.len().min(buf.len() - *filled);
        buf.bytes_mut()[*filled..*filled + now].copy_from_slice(&bytes[..now]);
        *filled += now;
        *bytes = &bytes[now..];
        Ok(!bytes.is_empty())
    }

    fn new_chunk(&self) -> Result<Buf, WriteError> {
        let number = self.writer.number;
        let bytes = self.writer.core.state.with(|state| {
            state.channels.writer(number).machine().map(|outgoing| outgoing.chunk_bytes())
        });
        let bytes = bytes.map_err(not_delivered)?;
        self.writer.depot.take(bytes).map_err(|_| WriteError::NoMemory)
    }

    /// Waits until the message has come so far.
    fn wait_on(&mut self, goal: Goal, clock: &mut Clock) -> Result<(), WriteError> {
        if self.is_at(goal)? {
            return Ok(());
        }
        let core = Arc::clone(&self.writer.core);
        core.wait_by(clock, &mut |state, waker| self.poll_on(goal, state, waker))
            .map_err(stopped)?
    }

    /// The same, without a thread.
    async fn on(&mut self, goal: Goal) -> Result<(), WriteError> {
        if self.is_at(goal)? {
            return Ok(());
        }
        let core = Arc::clone(&self.writer.core);
        core.step(|state, waker| self.poll_on(goal, state, waker)).await
    }

    /// The same, if that can be now.
    fn try_on(&mut self, goal: Goal) -> Result<(), WriteError> {
        if self.is_at(goal)? {
            return Ok(());
        }
        let core = Arc::clone(&self.writer.core);
        let come = core.look(|state, waker| self.poll_on(goal, state, waker));
        come.unwrap_or(Err(WriteError::Full))
    }

    /// Whether the message has come so far, as can be seen without the machine.
    fn is_at(&self, goal: Goal) -> Result<bool, WriteError> {
        self.usable()?;
        Ok(goal == Goal::Pushed && matches!(self.held, Held::Nothing))
    }

    fn poll_on(
        &mut self,
        goal: Goal,
        state: &mut State,
        waker: Option<&Waker>,
    ) -> Option<Result<(), WriteError>> {
        match self.poll_push(goal, state, waker)? {
            Ok(()) if goal != Goal::Pushed => {
                poll_gone(state, (self.writer.number, self.upto), waker)
            }
            pushed => Some(pushed),
        }
    }

    /// Gives the machine what is held, and the end if that is the goal, once the machine has room.
    fn poll_push(
        &mut self,
        goal: Goal,
        state: &mut State,
        waker: Option<&Waker>,
    ) -> Option<Result<(), WriteError>> {
        let last = goal == Goal::Finished;
        let is_pushed = if last { self.ended } else { matches!(self.held, Held::Nothing) };
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

    fn push(&mut self, last: bool, state: &mut State) -> Result<(), WriteError> {
        let memory = match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Nothing => None,
            Held::Array(memory) => Some(memory),
            Held::Chunk(mut buf, filled) => {
                buf.resize(filled);
                Some(buf.into())
            }
        };
        let pushed = Writer::with(state, self.writer.number, |outgoing| {
            match memory {
                Some(memory) if !last => outgoing.part(memory).map_err(|(halt, _)| halt)?,
                memory => outgoing.last(memory).map_err(|(halt, _)| halt)?,
            }
            Ok::<_, Halt>(outgoing.flow.sent().1)
        });
        self.upto = pushed.map_err(not_delivered)??;
        self.ended |= last;
        Ok(())
    }

    /// Sends borrowed memory, and does not return before it is back.
    fn lend(&mut self, bytes: &[u8], goal: Goal, clock: &mut Clock) -> Result<(), WriteError> {
        if in_handler() {
            return Err(stopped(Stopped::InHandler));
        }
        let (core, number) = (Arc::clone(&self.writer.core), self.writer.number);
        let sent = Segment::lend(bytes, |memory, is_back| {
            self.held = Held::Array(memory);
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
            self.held = Held::Nothing;
            match sent {
                Ok(sent) => sent,
                Err(why) => Err(stopped_lent(why, self.bring_back(is_back))),
            }
        });
        self.broken = sent.clone().err();
        sent
    }

    /// Gets memory back whose time is over; whether that took the link.
    fn bring_back(&self, is_back: &mut dyn FnMut() -> bool) -> bool {
        let (core, number) = (&self.writer.core, self.writer.number);
        // Before it has started, what the machine has is somebody's post.
        if self.started {
            core.state.with(|state| drop(Writer::with(state, number, Outgoing::abort)));
        }
        if is_back() {
            return false;
        }
        self.writer.end_until(is_back);
        true
    }
}

impl Drop for Message<'_> {
    fn drop(&mut self) {
        if self.started {
            let number = self.writer.number;
            self.writer.core.state.with(|state| drop(Writer::with(state, number, Outgoing::abort)));
        }
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("writer", &self.writer).finish_non_exhaustive()
    }
}

/// Whether what was pushed to a channel, up to there, has gone or never will.
fn poll_gone(
    state: &mut State,
    (number, upto): (u64, u64),
    waker: Option<&Waker>,
) -> Option<Result<(), WriteError>> {
    let writing = state.channels.writer(number);
    match writing.machine() {
        // It was handed to the link, which does not say any more how far it got;
        // `Writer::lost` does.
        Err(why) => return Some(Err(WriteError::Link { why, fate: Fate::Unknown })),
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

const fn not_delivered(why: LinkError) -> WriteError {
    WriteError::Link { why, fate: Fate::NotDelivered }
}

/// From so many bytes on, borrowed memory goes from where it lies.
const LENT_MIN: usize = 16 << 10;
