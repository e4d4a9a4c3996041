//! A message that is being written.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use bytemuck::cast_slice;
use egret_net::buf::{Buf, Plain};
use egret_net::rt::{Deadline, Instant};
use egret_net::vi::Segment;

use super::error::{NotWritten, WriteError};
use super::outgoing::{Halt, Outgoing};
use super::writer::{Writer, left_of, stopped, stopped_lent};
use crate::am::in_handler;
use crate::link::{Fate, LinkError};
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
        let deadline = deadline.into();
        self.usable()?;
        let (started, mut bytes) = (self.now(), cast_slice::<T, u8>(data));
        if bytes.len() >= LENT_MIN {
            self.wait_push_held(false, deadline)?;
            return self.lend(bytes, false, left_of(deadline, self.waited_since(started)));
        }
        while self.collect(&mut bytes)? {
            self.wait_push_held(false, left_of(deadline, self.waited_since(started)))?;
        }
        Ok(())
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
            self.push_held(false).await?;
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
            match self.try_push_held(false) {
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
        let deadline = deadline.into();
        let ready = self.usable().and_then(|()| self.wait_push_held(false, deadline));
        self.hold(memory.into(), ready)
    }

    /// The same, without a thread.
    ///
    /// # Errors
    ///
    /// With the array, if the message is lost.
    pub async fn write_owned(&mut self, memory: impl Into<Segment>) -> Result<(), NotWritten> {
        let memory = memory.into();
        let ready = match self.usable() {
            Ok(()) => self.push_held(false).await,
            Err(why) => Err(why),
        };
        self.hold(memory, ready)
    }

    /// The same, if that can be now.
    ///
    /// # Errors
    ///
    /// With the array, if it was not taken.
    pub fn try_write_owned(&mut self, memory: impl Into<Segment>) -> Result<(), NotWritten> {
        let ready = self.usable().and_then(|()| self.try_push_held(false));
        self.hold(memory.into(), ready)
    }

    /// Has everything that was written so far go.
    ///
    /// # Errors
    ///
    /// If it cannot in time, or the message is lost.
    pub fn wait_flush(&mut self, deadline: impl Into<Deadline>) -> Result<(), WriteError> {
        let deadline = deadline.into();
        self.usable()?;
        let started = self.now();
        self.wait_push_held(false, deadline)?;
        self.wait_gone(left_of(deadline, self.waited_since(started)))
    }

    /// The same, without a thread.
    ///
    /// # Errors
    ///
    /// If the message is lost.
    pub async fn flush(&mut self) -> Result<(), WriteError> {
        self.usable()?;
        self.push_held(false).await?;
        self.gone().await
    }

    /// Ends the message. It has gone then: the link has it.
    ///
    /// # Errors
    ///
    /// If it cannot in time, or the message is lost. It is aborted then.
    pub fn wait_finish(mut self, deadline: impl Into<Deadline>) -> Result<(), WriteError> {
        let deadline = deadline.into();
        self.usable()?;
        let started = self.now();
        self.wait_push_held(true, deadline)?;
        self.wait_gone(left_of(deadline, self.waited_since(started)))
    }

    /// The same, without a thread.
    ///
    /// # Errors
    ///
    /// If the message is lost.
    pub async fn finish(mut self) -> Result<(), WriteError> {
        self.usable()?;
        self.push_held(true).await?;
        self.gone().await
    }

    /// Ends the message, and says whether it has gone: call it again while it is
    /// [`Full`](WriteError::Full).
    ///
    /// # Errors
    ///
    /// If it has not gone yet, or the message is lost.
    pub fn try_finish(&mut self) -> Result<(), WriteError> {
        self.usable()?;
        if !self.ended {
            self.try_push_held(true)?;
            self.ended = true;
        }
        let (core, gone) = (Arc::clone(&self.writer.core), (self.writer.number, self.upto));
        core.look(|state, waker| poll_gone(state, gone, waker)).unwrap_or(Err(WriteError::Full))
    }

    /// Gives the message up: what has not gone never will, and its reader hears of it.
    pub fn abort(self) {}

    pub(super) fn wait_last<T: Plain>(
        mut self,
        data: &[T],
        deadline: Deadline,
    ) -> Result<(), WriteError> {
        let bytes = cast_slice::<T, u8>(data);
        if bytes.len() >= LENT_MIN {
            return self.lend(bytes, true, deadline);
        }
        let started = self.now();
        self.wait_write(bytes, deadline)?;
        let left = left_of(deadline, self.waited_since(started));
        self.wait_finish(left)
    }

    fn now(&self) -> Instant {
        self.writer.core.nic.now()
    }

    pub(super) fn waited_since(&self, started: Instant) -> Duration {
        self.now() - started
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

    fn wait_push_held(&mut self, last: bool, deadline: Deadline) -> Result<(), WriteError> {
        if let Some(mut piece) = self.piece(last) {
            let core = Arc::clone(&self.writer.core);
            let pushed = core.wait(deadline, |state, waker| piece.poll_push(state, waker));
            self.pushed(piece, pushed.map_err(stopped))?;
        }
        Ok(())
    }

    async fn push_held(&mut self, last: bool) -> Result<(), WriteError> {
        if let Some(mut piece) = self.piece(last) {
            let core = Arc::clone(&self.writer.core);
            let pushed = core.step(|state, waker| piece.poll_push(state, waker)).await;
            self.pushed(piece, Ok(pushed))?;
        }
        Ok(())
    }

    fn try_push_held(&mut self, last: bool) -> Result<(), WriteError> {
        if let Some(mut piece) = self.piece(last) {
            let core = Arc::clone(&self.writer.core);
            let pushed = core.look(|state, waker| piece.poll_push(state, waker));
            self.pushed(piece, pushed.ok_or(WriteError::Full))?;
        }
        Ok(())
    }

    /// What is held, to be pushed. Nothing, if there is nothing and it is not the end.
    fn piece(&mut self, last: bool) -> Option<Piece> {
        let memory = match std::mem::replace(&mut self.held, Held::Nothing) {
            Held::Nothing if !last => return None,
            Held::Nothing => None,
            Held::Array(memory) => Some(memory),
            Held::Chunk(mut buf, filled) => {
                buf.resize(filled);
                Some(buf.into())
            }
        };
        Some(Piece { number: self.writer.number, started: self.started, memory, last, upto: 0 })
    }

    /// What became of a piece. One that could not be pushed now is held again.
    fn pushed(
        &mut self,
        piece: Piece,
        pushed: Result<Result<(), WriteError>, WriteError>,
    ) -> Result<(), WriteError> {
        self.started |= piece.started;
        match pushed {
            Ok(Ok(())) => {
                self.upto = piece.upto;
                Ok(())
            }
            Ok(Err(why)) => {
                self.broken = Some(why.clone());
                Err(why)
            }
            Err(why) => {
                self.held = piece.memory.map_or(Held::Nothing, Held::Array);
                Err(why)
            }
        }
    }

    fn wait_gone(&mut self, deadline: Deadline) -> Result<(), WriteError> {
        let (core, gone) = (Arc::clone(&self.writer.core), (self.writer.number, self.upto));
        let gone = core.wait(deadline, |state, waker| poll_gone(state, gone, waker));
        gone.map_err(stopped)?
    }

    async fn gone(&mut self) -> Result<(), WriteError> {
        let gone = (self.writer.number, self.upto);
        self.writer.core.step(move |state, waker| poll_gone(state, gone, waker)).await
    }

    /// Sends borrowed memory, and does not return before it is back.
    fn lend(&mut self, bytes: &[u8], last: bool, deadline: Deadline) -> Result<(), WriteError> {
        if in_handler() {
            return Err(stopped(Stopped::InHandler));
        }
        let (core, number) = (Arc::clone(&self.writer.core), self.writer.number);
        let mut piece = Piece { number, started: self.started, memory: None, last, upto: 0 };
        let sent = Segment::lend(bytes, |memory, is_back| {
            piece.memory = Some(memory);
            let sent = core.wait(deadline, |state, waker| {
                if piece.memory.is_some() {
                    match piece.poll_push(state, waker)? {
                        Ok(()) => {}
                        Err(why) => return Some(Err(why)),
                    }
                }
                if is_back() {
                    return Some(poll_gone(state, (number, piece.upto), None).unwrap_or(Ok(())));
                }
                state.channels.writer(number).wait(waker);
                None
            });
            piece.memory = None;
            match sent {
                Ok(sent) => sent,
                Err(why) => Err(stopped_lent(why, self.bring_back(is_back))),
            }
        });
        self.started |= piece.started;
        self.broken = sent.clone().err();
        sent
    }

    /// Gets memory back whose time is over; whether that took the link.
    fn bring_back(&self, is_back: &mut dyn FnMut() -> bool) -> bool {
        let (core, number) = (&self.writer.core, self.writer.number);
        core.state.with(|state| {
            drop(Writer::with(state, number, Outgoing::abort));
        });
        if is_back() {
            return false;
        }
        core.state.with(|state| {
            let link = state.channels.writer(number).link();
            state.end(link, |_| LinkError::Closed);
        });
        while !is_back() {
            core.poll();
        }
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

/// A part on its way to the machine.
struct Piece {
    number: u64,
    started: bool,
    memory: Option<Segment>,
    last: bool,
    /// Where in the channel it ends, once it is pushed.
    upto: u64,
}

impl Piece {
    fn poll_push(
        &mut self,
        state: &mut State,
        waker: Option<&Waker>,
    ) -> Option<Result<(), WriteError>> {
        let writing = state.channels.writer(self.number);
        let outgoing = match writing.machine() {
            Ok(outgoing) => outgoing,
            Err(why) => return Some(Err(not_delivered(why))),
        };
        if !self.started && outgoing.is_flushed() {
            outgoing.begin();
            self.started = true;
        }
        if let Some(halt) = outgoing.halted().filter(|_| self.started) {
            return Some(Err(halt.into()));
        }
        if !self.started || !outgoing.has_room() {
            writing.wait(waker);
            return None;
        }
        Some(self.push(state))
    }

    fn push(&mut self, state: &mut State) -> Result<(), WriteError> {
        let (memory, last) = (self.memory.take(), self.last);
        let pushed = Writer::with(state, self.number, |outgoing| {
            match memory {
                Some(memory) if !last => outgoing.part(memory).map_err(|(halt, _)| halt)?,
                memory => outgoing.last(memory).map_err(|(halt, _)| halt)?,
            }
            Ok::<_, Halt>(outgoing.sent().1)
        });
        self.upto = pushed.map_err(not_delivered)??;
        Ok(())
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
        Ok(outgoing) if outgoing.sent().0 >= upto => return Some(Ok(())),
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
