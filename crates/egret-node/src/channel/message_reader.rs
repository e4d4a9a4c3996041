//! The reader of one message.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use bytemuck::cast_slice_mut;
use egret_net::buf::{Buf, Held, Plain, Typed};
use egret_net::rt::Deadline;

use super::reader::{ChannelReader, stopped};
use crate::channel_table::{ChannelError, NextPart, PartMemory};
use crate::flow::SizedPools;
use crate::links::clock::DeadlineClock;
use crate::links::state::LinksState;

/// Reads one message; returned by a [`ChannelReader`], which has an example.
///
/// The message may still be being written. The unread rest of a message that is dropped is skipped.
#[must_use = "the rest of a message that is dropped is skipped"]
pub struct MessageReader<'r> {
    reader: &'r mut ChannelReader,
    /// The part that was read last, and how many bytes of it were read.
    rest: Option<(Part, usize)>,
    over: bool,
}

/// A part of a message, in the memory in which it arrived. [`ChannelWriter`](super::ChannelWriter) and
/// [`ChannelReader`] have examples.
pub struct Part {
    pub(super) memory: PartMemory,
    pub(super) depot: Arc<SizedPools>,
}

impl<'r> MessageReader<'r> {
    pub(super) const fn new(reader: &'r mut ChannelReader) -> Self {
        Self { reader, rest: None, over: false }
    }

    /// Waits for the next part; `None` at the end of the message. An array that was written as one
    /// part arrives as one part.
    ///
    /// # Errors
    ///
    /// If the part did not arrive in time, or never will.
    #[track_caller]
    pub fn wait_next_part(
        &mut self,
        deadline: impl Into<Deadline>,
    ) -> Result<Option<Part>, ChannelError> {
        let _waits = self.reader.core.waits("message", Some(self.reader.link));
        self.next_part_by(&mut DeadlineClock::of(deadline.into()))
    }

    fn next_part_by(&mut self, clock: &mut DeadlineClock) -> Result<Option<Part>, ChannelError> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let slot = self.reader.slot;
        let core = &self.reader.core;
        let next = core.wait_by(clock, &mut |state, waker| poll_next(state, slot, waker));
        self.part(next.map_err(stopped)?)
    }

    /// The next part; `None` at the end of the message.
    ///
    /// # Errors
    ///
    /// If the part will never arrive.
    pub async fn next_part(&mut self) -> Result<Option<Part>, ChannelError> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let slot = self.reader.slot;
        let next = self.reader.core.step(move |state, waker| poll_next(state, slot, waker)).await;
        self.part(next)
    }

    /// The next part, if it has arrived, or the end of the message; the outer `None` if neither has.
    ///
    /// # Errors
    ///
    /// If the part will never arrive.
    pub fn poll_next_part(&mut self) -> Result<Option<Option<Part>>, ChannelError> {
        if let Some(known) = self.known() {
            return Ok(Some(known));
        }
        let slot = self.reader.slot;
        let next = self.reader.core.look(|state, waker| poll_next(state, slot, waker));
        next.map(|next| self.part(next)).transpose()
    }

    /// Waits for the next part as an array.
    ///
    /// # Errors
    ///
    /// If the next part is no array of such elements, there is none, or it did not arrive in time.
    #[track_caller]
    pub fn wait_array<T: Plain>(
        &mut self,
        deadline: impl Into<Deadline>,
    ) -> Result<Typed<T>, ChannelError> {
        let _waits = self.reader.core.waits("message", Some(self.reader.link));
        let part = self.wait_next_part(deadline)?;
        part.ok_or(ChannelError::MessageEnded { missing: size_of::<T>() })?.into_typed()
    }

    /// The next part as an array.
    ///
    /// # Errors
    ///
    /// If the next part is no array of such elements, or there is none.
    pub async fn array<T: Plain>(&mut self) -> Result<Typed<T>, ChannelError> {
        let part = self.next_part().await?;
        part.ok_or(ChannelError::MessageEnded { missing: size_of::<T>() })?.into_typed()
    }

    /// Waits until `into` is filled by copying the next bytes, across parts.
    ///
    /// # Errors
    ///
    /// If the message ends before, or the bytes did not arrive in time.
    #[track_caller]
    pub fn wait_read_exact<T: Plain>(
        &mut self,
        into: &mut [T],
        deadline: impl Into<Deadline>,
    ) -> Result<(), ChannelError> {
        let _waits = self.reader.core.waits("message", Some(self.reader.link));
        let (mut into, mut clock) =
            (cast_slice_mut::<T, u8>(into), DeadlineClock::of(deadline.into()));
        while !self.fill(&mut into) {
            let part = self.next_part_by(&mut clock)?;
            self.rest = Some((part.ok_or(ChannelError::MessageEnded { missing: into.len() })?, 0));
        }
        Ok(())
    }

    /// Fills `into` by copying the next bytes, across parts.
    ///
    /// # Errors
    ///
    /// If the message ends before.
    pub async fn read_exact<T: Plain>(&mut self, into: &mut [T]) -> Result<(), ChannelError> {
        let mut into = cast_slice_mut::<T, u8>(into);
        while !self.fill(&mut into) {
            let part = self.next_part().await?;
            self.rest = Some((part.ok_or(ChannelError::MessageEnded { missing: into.len() })?, 0));
        }
        Ok(())
    }

    /// Waits for the rest of the message, copied to the end of `to`.
    ///
    /// # Errors
    ///
    /// If the rest did not arrive in time, or never will.
    #[track_caller]
    pub fn wait_read_to_end(
        &mut self,
        to: &mut Vec<u8>,
        deadline: impl Into<Deadline>,
    ) -> Result<(), ChannelError> {
        let _waits = self.reader.core.waits("message", Some(self.reader.link));
        let mut clock = DeadlineClock::of(deadline.into());
        while let Some(part) = self.next_part_by(&mut clock)? {
            to.extend_from_slice(part.bytes());
        }
        Ok(())
    }

    /// The rest of the part that was read last, or the end; the outer `None` if the channel must be asked.
    fn known(&mut self) -> Option<Option<Part>> {
        match self.rest.take() {
            Some((part, read)) if read < part.bytes().len() => Some(Some(part.without(read))),
            _ if self.over => Some(None),
            _ => None,
        }
    }

    fn part(&mut self, next: Result<NextPart, ChannelError>) -> Result<Option<Part>, ChannelError> {
        let (memory, over) = match next {
            Ok(NextPart::Part(memory)) => (memory, false),
            Ok(NextPart::Last(memory)) => (memory, true),
            Ok(NextPart::Aborted | NextPart::Nothing) => {
                self.over = true;
                return Err(ChannelError::Aborted);
            }
            Err(why) => return Err(why),
        };
        self.over = over;
        if over && memory.len() == 0 {
            return Ok(None);
        }
        Ok(Some(Part { memory, depot: Arc::clone(&self.reader.depot) }))
    }

    /// Copies what is left of the part that was read last. Whether `into` is full.
    fn fill(&mut self, into: &mut &mut [u8]) -> bool {
        if let Some((part, read)) = &mut self.rest {
            let bytes = &part.bytes()[*read..];
            let now = bytes.len().min(into.len());
            into[..now].copy_from_slice(&bytes[..now]);
            *read += now;
            *into = &mut std::mem::take(into)[now..];
        }
        into.is_empty()
    }
}

impl Part {
    /// The bytes of the part.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// The buffer in which the part arrived, from its beginning. A small part is copied into a buffer.
    ///
    /// # Errors
    ///
    /// If there is no memory for that buffer.
    pub fn into_buf(self) -> Result<Buf, ChannelError> {
        match self.memory {
            PartMemory::Landed(buf) => Ok(buf),
            PartMemory::Small(bytes) => {
                let no_memory = ChannelError::NoMemory { bytes: bytes.len() };
                let mut buf = self.depot.take(bytes.len()).map_err(|_| no_memory)?;
                buf.bytes_mut().copy_from_slice(&bytes);
                Ok(buf)
            }
        }
    }

    /// The elements of the part, in the buffer in which it arrived.
    ///
    /// # Errors
    ///
    /// If the part is no array of such elements.
    pub fn into_typed<T: Plain>(self) -> Result<Typed<T>, ChannelError> {
        let bytes = self.bytes().len();
        let not_whole = |_| ChannelError::NotWhole { bytes, element: size_of::<T>() };
        self.into_buf()?.typed().map_err(not_whole)
    }

    /// The bytes of the part, which can be kept for any time.
    ///
    /// # Errors
    ///
    /// If there is no memory for the buffer of a small part.
    pub fn hold(self) -> Result<Held<u8>, ChannelError> {
        self.into_buf().map(Buf::hold)
    }

    /// The part without its first `read` bytes.
    fn without(self, read: usize) -> Self {
        if read == 0 {
            return self;
        }
        let memory = match self.memory {
            PartMemory::Small(bytes) => PartMemory::Small(bytes[read..].to_vec()),
            PartMemory::Landed(buf) => PartMemory::Landed(buf.split_at(read).1),
        };
        Self { memory, depot: self.depot }
    }
}

impl Drop for MessageReader<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let slot = self.reader.slot;
        self.reader.core.state.with(|state| {
            state.channels.reader(slot).skip();
            state.channels.settle_reader(slot, &mut state.inflows);
            state.drain_channels();
        });
    }
}

impl fmt::Debug for MessageReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageReader").field("over", &self.over).finish_non_exhaustive()
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a part of {} bytes", self.bytes().len())
    }
}

fn poll_next(
    state: &mut LinksState,
    slot: u32,
    waker: Option<&Waker>,
) -> Option<Result<NextPart, ChannelError>> {
    let next = state.channels.reader(slot).poll_next(waker)?;
    state.channels.settle_reader(slot, &mut state.inflows);
    state.drain_channels();
    Some(next.map_err(ChannelError::Link))
}
