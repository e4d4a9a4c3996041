//! The reader's end of a channel, without I/O: what has come and was not taken.

use std::collections::VecDeque;

use egret_net::buf::Buf;

use super::fault::{Fault, planted};
use crate::flow::{FRAME_BYTES, FlowId, Inflows, cost};
use crate::frame::FrameKind;

/// The reader's end of one channel.
///
/// What its flow holds of what has come is always the cost of what waits here, and `back`, which
/// was taken and not settled yet.
#[derive(Debug)]
pub(crate) struct ChannelInflow {
    flow: FlowId,
    back: u64,
    items: VecDeque<QueuedPart>,
    /// The message that arrives has begun.
    arriving: bool,
    /// The message that is read has begun.
    reading: bool,
    /// The rest of it is not wanted.
    skipping: bool,
    stopped: bool,
    /// Nothing comes any more.
    cut: bool,
    ended: bool,
}

/// The bytes of a part, where they are.
#[derive(Debug)]
pub(crate) enum PartMemory {
    /// Few, copied.
    Small(Vec<u8>),
    /// In the buffer they landed in, from its beginning.
    Landed(Buf),
}

/// What comes next of a message.
#[derive(Debug)]
pub(crate) enum NextPart {
    /// Bytes, and there are more to come.
    Part(PartMemory),
    /// The last of its bytes.
    Last(PartMemory),
    /// The writer has given it up.
    Aborted,
    /// Nothing yet.
    Nothing,
}

/// Whether there is a message to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageBegin {
    /// Its first part is here.
    Message,
    /// Nothing yet.
    Nothing,
    /// There will be no other.
    Ended,
}

// How a peer breaks the rules of channels, in the words that it is told.

/// The peer aborts a message that has not begun.
pub(super) const ABORT_OUTSIDE: &str = "the abort of a message that had not begun";
/// The channel ends within a message.
pub(super) const END_INSIDE: &str = "the end of a channel within a message";
/// Something comes after the end.
pub(super) const AFTER_END: &str = "a part after the end of its channel";
/// The peer opens a channel that is open.
pub(super) const TWICE: &str = "a channel that is open is opened again";
/// There is no such channel.
pub(super) const NO_CHANNEL: &str = "a frame for a channel that there is not";

#[derive(Debug)]
enum QueuedPart {
    Part(PartMemory),
    Last(PartMemory),
    Aborted { charged: u64 },
}

impl ChannelInflow {
    /// Of a channel whose bytes come by `flow`.
    pub(crate) const fn new(flow: FlowId) -> Self {
        Self {
            flow,
            back: 0,
            items: VecDeque::new(),
            arriving: false,
            reading: false,
            skipping: false,
            stopped: false,
            cut: false,
            ended: false,
        }
    }

    /// Takes a frame.
    pub(crate) fn hear(
        &mut self,
        kind: FrameKind,
        memory: PartMemory,
        inflows: &mut Inflows,
    ) -> Result<(), &'static str> {
        if self.ended {
            return Err(AFTER_END);
        }
        let is_free = matches!(kind, FrameKind::Abort | FrameKind::End);
        inflows.arrive(self.flow, if is_free { 0 } else { cost(memory.len() as u64) })?;
        match kind {
            FrameKind::Part => self.arrive(QueuedPart::Part(memory)),
            FrameKind::Last => self.arrive(QueuedPart::Last(memory)),
            FrameKind::Abort => return self.aborted(),
            _ if self.arriving => return Err(END_INSIDE),
            _ => (self.ended, self.cut) = (true, true),
        }
        Ok(())
    }

    fn arrive(&mut self, item: QueuedPart) {
        self.arriving = matches!(item, QueuedPart::Part(_));
        if self.stopped || self.skipping {
            self.skipping &= self.arriving;
            self.drop_unread(item.cost());
        } else {
            self.items.push_back(item);
        }
    }

    /// What waits of a message that is no more is dropped; its reader is told in its place.
    fn aborted(&mut self) -> Result<(), &'static str> {
        if !std::mem::take(&mut self.arriving) {
            return Err(ABORT_OUTSIDE);
        }
        if self.stopped || std::mem::take(&mut self.skipping) {
            return Ok(());
        }
        let ends = self.items.iter().rposition(|item| !matches!(item, QueuedPart::Part(_)));
        let dropped = self.items.drain(ends.map_or(0, |at| at + 1)..);
        let bytes: u64 = dropped.map(|item| item.cost()).sum();
        let charged = bytes.min(FRAME_BYTES);
        self.drop_unread(bytes - charged);
        self.push_abort(charged);
        Ok(())
    }

    fn push_abort(&mut self, charged: u64) {
        self.arriving = planted(Fault::LateAbort);
        self.items.push_back(QueuedPart::Aborted { charged });
    }

    /// Whether there is a message to read, which then is the one that is read.
    pub(crate) fn begin(&mut self) -> MessageBegin {
        debug_assert!(!self.reading, "one message at a time");
        if self.skipping {
            return MessageBegin::Nothing;
        }
        if !self.items.is_empty() {
            self.reading = true;
            return MessageBegin::Message;
        }
        if self.ended { MessageBegin::Ended } else { MessageBegin::Nothing }
    }

    /// Takes what comes next of the message that is read.
    pub(crate) fn next(&mut self) -> NextPart {
        let Some(item) = self.items.pop_front() else { return NextPart::Nothing };
        self.back += item.cost();
        self.reading = matches!(item, QueuedPart::Part(_));
        match item {
            QueuedPart::Part(memory) => NextPart::Part(memory),
            QueuedPart::Last(memory) => NextPart::Last(memory),
            QueuedPart::Aborted { .. } => NextPart::Aborted,
        }
    }

    /// The rest of the message that is read is not wanted.
    pub(crate) fn skip(&mut self) {
        while self.reading {
            match self.next() {
                NextPart::Nothing => {
                    self.reading = false;
                    self.skipping = true;
                }
                NextPart::Part(_) | NextPart::Last(_) | NextPart::Aborted => {}
            }
        }
    }

    /// Ends the reading. Whether the writer must still be told.
    pub(crate) fn stop(&mut self) -> bool {
        if std::mem::replace(&mut self.stopped, true) {
            return false;
        }
        (self.reading, self.skipping) = (false, false);
        let bytes = self.items.drain(..).map(|item| item.cost()).sum();
        self.drop_unread(bytes);
        !self.ended
    }

    /// The link is no more: nothing will come.
    pub(crate) const fn cut(&mut self) {
        self.cut = true;
    }

    /// Tells the flow what was taken.
    pub(crate) fn settle(&mut self, inflows: &mut Inflows) {
        if self.cut {
            inflows.cut(self.flow);
        } else if self.stopped {
            inflows.stop(self.flow);
        }
        inflows.taken(self.flow, std::mem::take(&mut self.back), self.items.is_empty());
    }

    /// Whether the end has come.
    pub(crate) const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Its flow, to be closed when it is done.
    pub(crate) const fn flow(&self) -> FlowId {
        self.flow
    }

    /// What its flow holds of what has come, as this end knows it.
    #[cfg(test)]
    pub(crate) fn holds(&self) -> u64 {
        self.back + self.items.iter().map(QueuedPart::cost).sum::<u64>()
    }

    /// Whether a message has begun to be read, and not ended.
    #[cfg(test)]
    pub(crate) const fn is_reading(&self) -> bool {
        self.reading
    }

    fn drop_unread(&mut self, bytes: u64) {
        if !planted(Fault::DroppedCharged) {
            self.back += bytes;
        }
    }
}

impl QueuedPart {
    fn cost(&self) -> u64 {
        match self {
            Self::Part(memory) | Self::Last(memory) => cost(memory.len() as u64),
            Self::Aborted { charged } => *charged,
        }
    }
}

impl PartMemory {
    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Landed(buf) => buf.bytes(),
        }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.bytes().len()
    }
}
