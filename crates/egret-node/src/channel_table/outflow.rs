//! The writer's end of a channel, without I/O: what its frames are, and what becomes of them.

use egret_net::vi::{Descriptor, Segment};
use thiserror::Error;

use super::fault::{Fault, planted};
use crate::flow::{NeverFits, Outflow, ReceiverNotice};
use crate::frame::{FrameHead, FrameKind};

/// The writer's end of one channel.
///
/// Pieces go in their order, each when there is credit for it. What has gone belongs to the link.
#[derive(Debug)]
pub(crate) struct ChannelOutflow {
    slot: u32,
    /// Which message is sent, counted from 0.
    message: u32,
    pub(crate) flow: Outflow,
    /// The reader has parts of a message whose end was not sent.
    begun: bool,
    /// The program has given parts of a message, and not its end.
    inside: bool,
    /// The reader waits for the message at its place, and has nothing of it.
    placed: bool,
    /// The message that the program is at, or was last, is lost.
    refused: Option<NeverFits>,
    stopped: bool,
    ended: bool,
}

/// Why nothing more can be given to a channel, or not to this message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum WriteHalt {
    #[error("the reader of the channel was dropped")]
    Stopped,
    #[error(transparent)]
    Refused(#[from] NeverFits),
}

impl ChannelOutflow {
    /// Of a channel that was opened: its parts go to `slot` and may cost `credit`.
    pub(crate) fn new(slot: u32, credit: u64) -> Self {
        Self {
            slot,
            message: 0,
            flow: Outflow::new(credit),
            begun: false,
            inside: false,
            placed: false,
            refused: None,
            stopped: false,
            ended: false,
        }
    }

    /// Takes a piece of the message in progress, or begins one with it.
    pub(crate) fn part(&mut self, memory: Segment) -> Result<(), (WriteHalt, Segment)> {
        match self.halted() {
            Some(halt) => Err((halt, memory)),
            None => {
                self.inside = true;
                self.flow.push(self.frame(FrameKind::Part, Some(memory)));
                Ok(())
            }
        }
    }

    /// Takes the end of the message, with its last bytes if there are any.
    pub(crate) fn last(
        &mut self,
        memory: Option<Segment>,
    ) -> Result<(), (WriteHalt, Option<Segment>)> {
        match self.halted() {
            Some(halt) => Err((halt, memory)),
            None => {
                self.inside = false;
                self.flow.push(self.frame(FrameKind::Last, memory));
                Ok(())
            }
        }
    }

    /// Another message begins, once all of the last has gone; what became of it is forgotten.
    pub(crate) fn begin(&mut self) {
        debug_assert!(!self.inside && !self.flow.has_charged(), "one message at a time");
        self.refused = None;
    }

    /// The message that has begun has a place among other messages, at which the reader waits for it: if the message is given up
    /// before anything of it has gone, an empty one goes instead.
    pub(crate) const fn place(&mut self) {
        self.placed = true;
    }

    /// The reader was not told of the place.
    pub(crate) const fn unplace(&mut self) {
        self.placed = false;
    }

    /// The message in progress, or one that is finished and has not gone, is given up. What of it
    /// has not gone never will.
    pub(crate) fn abort(&mut self) {
        if self.stopped {
            return;
        }
        if std::mem::take(&mut self.inside) || self.flow.has_charged() {
            self.flow.withdraw();
            self.drop_unsent();
            self.give_up();
        }
        if std::mem::take(&mut self.placed) && !planted(Fault::PlaceEmpty) {
            self.flow.push(self.frame(FrameKind::Last, None));
        }
    }

    fn drop_unsent(&mut self) {
        if !planted(Fault::AbortedSent) {
            self.flow.drop_charged();
        }
    }

    /// There will be no other message.
    pub(crate) fn end(&mut self) {
        if self.inside {
            self.abort();
        }
        if !std::mem::replace(&mut self.ended, true) {
            self.flow.push(self.frame(FrameKind::End, None));
        }
    }

    fn frame(&self, kind: FrameKind, memory: Option<Segment>) -> Descriptor {
        let tag = FrameHead::of(kind, self.slot).to_bits();
        memory.map_or_else(Descriptor::empty, Descriptor::new).with_tag(tag)
    }

    /// The next frame, if there is credit for it.
    pub(crate) fn poll_frame(&mut self) -> Option<Descriptor> {
        let frame = self.flow.poll_frame()?;
        let head = FrameHead { request: self.message, ..head(&frame) };
        self.begun = head.kind == FrameKind::Part;
        self.placed = false;
        if matches!(head.kind, FrameKind::Last | FrameKind::Abort) {
            self.message = (self.message + 1) % FrameHead::REQUESTS;
        }
        Some(frame.with_tag(head.to_bits()))
    }

    /// The reader says something. If it will never grant what was asked for, that message is lost.
    ///
    /// # Errors
    ///
    /// What no honest reader says.
    pub(crate) fn hear(&mut self, tell: ReceiverNotice) -> Result<(), &'static str> {
        if let Some(never) = self.flow.hear(tell)? {
            self.flow.drop_charged();
            self.leave_message();
            self.give_up();
            self.refused = Some(never);
        }
        Ok(())
    }

    /// The program gives nothing more to the message.
    fn leave_message(&mut self) {
        self.inside = planted(Fault::RefusalKept);
    }

    /// Has the reader told, if it has any of the message, before the end if that waits.
    fn give_up(&mut self) {
        let is_told = self.flow.first().is_some_and(|first| head(first).kind == FrameKind::Abort);
        if self.begun && !is_told {
            self.flow.push_free(self.frame(FrameKind::Abort, None));
        }
    }

    /// The reader was dropped: drops what waits and ends the channel.
    pub(crate) fn stop(&mut self) {
        if std::mem::replace(&mut self.stopped, true) || self.is_over() {
            return;
        }
        drop(self.flow.drain());
        (self.inside, self.ended) = (false, true);
        self.give_up();
        self.flow.push(self.frame(FrameKind::End, None));
    }

    /// Whether all that was given has gone.
    pub(crate) fn is_flushed(&self) -> bool {
        self.flow.len() == 0
    }

    /// Whether another piece may be given without more of them waiting than should.
    pub(crate) fn has_room(&self) -> bool {
        self.flow.len() < WAITING_MAX
    }

    /// Whether its end has gone.
    pub(crate) fn is_over(&self) -> bool {
        self.ended && self.is_flushed()
    }

    /// Why the message that the program is at, or was last, did not get there.
    pub(crate) fn halted(&self) -> Option<WriteHalt> {
        if self.stopped { Some(WriteHalt::Stopped) } else { self.refused.map(WriteHalt::Refused) }
    }

    /// Bytes of a chunk that are worth collecting before they are sent, given what may be.
    pub(crate) fn chunk_bytes(&self) -> usize {
        let half = usize::try_from(self.flow.credit() / 2).unwrap_or(usize::MAX);
        let bytes = half.clamp(CHUNK_MIN, CHUNK_MAX);
        1 << bytes.ilog2()
    }
}

fn head(frame: &Descriptor) -> FrameHead {
    FrameHead::from_bits(frame.tag()).expect("of this side")
}

/// Pieces that wait for credit.
const WAITING_MAX: usize = 2;
const CHUNK_MIN: usize = 4 << 10;
/// The most that is collected before it is sent.
pub(crate) const CHUNK_MAX: usize = 64 << 10;
