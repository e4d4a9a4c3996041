//! A message that is being read.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use bytemuck::cast_slice_mut;
use egret_net::buf::{Buf, Held, Plain, Typed};
use egret_net::rt::Deadline;

use super::error::ReadError;
use super::incoming::{Memory, Next};
use super::reader::{Reader, stopped};
use crate::flow::Depot;
use crate::links::clock::Clock;
use crate::links::state::State;

/// A message that is being read; got from a [`Reader`].
///
/// It may still be written. What of it is not read when it is dropped is skipped.
#[must_use = "dropped, the rest of the message is skipped"]
pub struct Delivery<'r> {
    reader: &'r mut Reader,
    /// A part of which this many bytes were read.
    rest: Option<(Part, usize)>,
    over: bool,
}

/// A part of a message, in the memory it landed in.
pub struct Part {
    pub(super) memory: Memory,
    pub(super) depot: Arc<Depot>,
}

impl<'r> Delivery<'r> {
    pub(super) const fn new(reader: &'r mut Reader) -> Self {
        Self { reader, rest: None, over: false }
    }

    /// Waits for the next part. An array that was written as one is one. `None`: that was all.
    ///
    /// # Errors
    ///
    /// If it did not come in time, or never will.
    pub fn wait_next_part(
        &mut self,
        deadline: impl Into<Deadline>,
    ) -> Result<Option<Part>, ReadError> {
        self.next_part_by(&mut Clock::of(deadline.into()))
    }

    fn next_part_by(&mut self, clock: &mut Clock) -> Result<Option<Part>, ReadError> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let slot = self.reader.slot;
        let core = &self.reader.core;
        let next = core.wait_by(clock, &mut |state, waker| poll_next(state, slot, waker));
        self.part(next.map_err(stopped)?)
    }

    /// The next part. `None`: that was all.
    ///
    /// # Errors
    ///
    /// If it never will come.
    pub async fn next_part(&mut self) -> Result<Option<Part>, ReadError> {
        if let Some(known) = self.known() {
            return Ok(known);
        }
        let slot = self.reader.slot;
        let next = self.reader.core.step(move |state, waker| poll_next(state, slot, waker)).await;
        self.part(next)
    }

    /// The next part, if it is there; `None`: not yet.
    ///
    /// # Errors
    ///
    /// If it never will come.
    pub fn poll_next_part(&mut self) -> Result<Option<Option<Part>>, ReadError> {
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
    /// If the next part is not one of whole elements, there is none, or not in time.
    pub fn wait_array<T: Plain>(
        &mut self,
        deadline: impl Into<Deadline>,
    ) -> Result<Typed<T>, ReadError> {
        let part = self.wait_next_part(deadline)?;
        part.ok_or(ReadError::Ended { missing: size_of::<T>() })?.into_typed()
    }

    /// The next part as an array.
    ///
    /// # Errors
    ///
    /// If the next part is not one of whole elements, or there is none.
    pub async fn array<T: Plain>(&mut self) -> Result<Typed<T>, ReadError> {
        let part = self.next_part().await?;
        part.ok_or(ReadError::Ended { missing: size_of::<T>() })?.into_typed()
    }

    /// Waits until `into` is filled, by copies, whatever the parts are.
    ///
    /// # Errors
    ///
    /// If the message ends before, or it did not come in time.
    pub fn wait_read_exact<T: Plain>(
        &mut self,
        into: &mut [T],
        deadline: impl Into<Deadline>,
    ) -> Result<(), ReadError> {
        let (mut into, mut clock) = (cast_slice_mut::<T, u8>(into), Clock::of(deadline.into()));
        while !self.fill(&mut into) {
            let part = self.next_part_by(&mut clock)?;
            self.rest = Some((part.ok_or(ReadError::Ended { missing: into.len() })?, 0));
        }
        Ok(())
    }

    /// Fills `into`, by copies, whatever the parts are.
    ///
    /// # Errors
    ///
    /// If the message ends before.
    pub async fn read_exact<T: Plain>(&mut self, into: &mut [T]) -> Result<(), ReadError> {
        let mut into = cast_slice_mut::<T, u8>(into);
        while !self.fill(&mut into) {
            let part = self.next_part().await?;
            self.rest = Some((part.ok_or(ReadError::Ended { missing: into.len() })?, 0));
        }
        Ok(())
    }

    /// Waits for the rest of the message, copied to the end of `to`.
    ///
    /// # Errors
    ///
    /// If it did not come in time, or never will.
    pub fn wait_read_to_end(
        &mut self,
        to: &mut Vec<u8>,
        deadline: impl Into<Deadline>,
    ) -> Result<(), ReadError> {
        let mut clock = Clock::of(deadline.into());
        while let Some(part) = self.next_part_by(&mut clock)? {
            to.extend_from_slice(part.bytes());
        }
        Ok(())
    }

    /// What is known without asking: the rest of a part, or that there is none.
    fn known(&mut self) -> Option<Option<Part>> {
        match self.rest.take() {
            Some((part, read)) if read < part.bytes().len() => Some(Some(part.without(read))),
            _ if self.over => Some(None),
            _ => None,
        }
    }

    fn part(&mut self, next: Result<Next, ReadError>) -> Result<Option<Part>, ReadError> {
        let (memory, over) = match next {
            Ok(Next::Part(memory)) => (memory, false),
            Ok(Next::Last(memory)) => (memory, true),
            Ok(Next::Aborted | Next::Nothing) => {
                self.over = true;
                return Err(ReadError::Aborted);
            }
            Err(why) => return Err(why),
        };
        self.over = over;
        if over && memory.len() == 0 {
            return Ok(None);
        }
        Ok(Some(Part { memory, depot: Arc::clone(&self.reader.depot) }))
    }

    /// Copies what is left of a part. Whether that was enough.
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
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes()
    }

    /// The buffer it landed in, whole and from its beginning. A few bytes are copied into one.
    ///
    /// # Errors
    ///
    /// If there is no memory for that.
    pub fn into_buf(self) -> Result<Buf, ReadError> {
        match self.memory {
            Memory::Landed(buf) => Ok(buf),
            Memory::Small(bytes) => {
                let mut buf = self.depot.take(bytes.len()).map_err(|_| ReadError::NoMemory)?;
                buf.bytes_mut().copy_from_slice(&bytes);
                Ok(buf)
            }
        }
    }

    /// Its elements, in the buffer it landed in.
    ///
    /// # Errors
    ///
    /// If it does not have whole ones.
    pub fn into_typed<T: Plain>(self) -> Result<Typed<T>, ReadError> {
        let bytes = self.bytes().len();
        let not_whole = |_| ReadError::NotWhole { bytes, element: size_of::<T>() };
        self.into_buf()?.typed().map_err(not_whole)
    }

    /// Its bytes, to be kept for as long as one likes.
    ///
    /// # Errors
    ///
    /// If there is no memory for that.
    pub fn hold(self) -> Result<Held<u8>, ReadError> {
        self.into_buf().map(Buf::hold)
    }

    /// What is behind the first `read` bytes.
    fn without(self, read: usize) -> Self {
        if read == 0 {
            return self;
        }
        let memory = match self.memory {
            Memory::Small(bytes) => Memory::Small(bytes[read..].to_vec()),
            Memory::Landed(buf) => Memory::Landed(buf.split_at(read).1),
        };
        Self { memory, depot: self.depot }
    }
}

impl Drop for Delivery<'_> {
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

impl fmt::Debug for Delivery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("over", &self.over).finish_non_exhaustive()
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a part of {} bytes", self.bytes().len())
    }
}

fn poll_next(
    state: &mut State,
    slot: u32,
    waker: Option<&Waker>,
) -> Option<Result<Next, ReadError>> {
    let next = state.channels.reader(slot).poll_next(waker)?;
    state.channels.settle_reader(slot, &mut state.inflows);
    state.drain_channels();
    Some(next.map_err(ReadError::Link))
}
