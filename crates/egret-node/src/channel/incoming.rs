//! The reader's end of a channel, without I/O: what has come and was not taken, and what that
//! means for the writer's credit.

use std::collections::VecDeque;

use egret_net::buf::Buf;

use super::control::Control;
use super::fault::{Fault, planted};
use crate::flow::{Budget, FRAME_BYTES, FlowId, cost};
use crate::link::Kind;

/// The reader's end of one channel.
///
/// What its flow holds of the budget is always `granted - arrived`, the cost of what waits here,
/// and `back`, which was taken and not settled yet.
#[derive(Debug)]
pub(crate) struct Incoming {
    number: u64,
    flow: FlowId,
    granted: u64,
    arrived: u64,
    back: u64,
    /// Taken since credit was granted last.
    used: u64,
    /// The writer was asked for what it does not use, and granted nothing since.
    recalled: bool,
    /// It was granted what a piece needs, and nothing has come since.
    promised: bool,
    items: VecDeque<Item>,
    /// The message that arrives has begun.
    arriving: bool,
    /// The message that is read has begun.
    reading: bool,
    /// The rest of it is not wanted.
    skipping: bool,
    stopped: bool,
    /// Nothing comes any more: what was granted and not used will never be.
    cut: bool,
    ended: bool,
}

/// The bytes of a part, where they are.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Few, copied.
    Small(Vec<u8>),
    /// In the buffer they landed in, from its beginning.
    Landed(Buf),
}

/// What comes next of a message.
#[derive(Debug)]
pub(crate) enum Next {
    /// Bytes, and there are more to come.
    Part(Memory),
    /// The last of its bytes.
    Last(Memory),
    /// The writer has given it up.
    Aborted,
    /// Nothing yet.
    Nothing,
}

/// Whether there is a message to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Its first part is here.
    Message,
    /// Nothing yet.
    Nothing,
    /// There will be no other.
    Ended,
}

// How a peer breaks the rules of channels, in the words that it is told.

/// It sends without credit.
pub(super) const NO_CREDIT: &str = "a part of a channel without credit";
/// It asks for a place in the channel that it cannot have reached.
pub(super) const WANTS_TOO_FAR: &str = "a channel wants what it cannot have reached";
/// It gives back more credit than it has.
pub(super) const NOT_UNUSED: &str = "a channel gives back what it does not have";
/// It aborts what has not begun.
pub(super) const ABORT_OUTSIDE: &str = "the abort of a message that had not begun";
/// The channel ends within a message.
pub(super) const END_INSIDE: &str = "the end of a channel within a message";
/// Something comes after the end.
pub(super) const AFTER_END: &str = "a part after the end of its channel";
/// It opens a channel that is open.
pub(super) const TWICE: &str = "a channel that is open is opened again";
/// There is no such channel.
pub(super) const NO_CHANNEL: &str = "a frame for a channel that there is not";
/// What should be a frame of control is none.
pub(super) const NO_CONTROL: &str = "a frame of control of channels that is none";

#[derive(Debug)]
enum Item {
    Part(Memory),
    Last(Memory),
    Aborted { charged: u64 },
}

impl Incoming {
    /// Of a channel whose writer has been granted what `flow` holds.
    pub(crate) fn new(number: u64, flow: FlowId, budget: &Budget) -> Self {
        Self {
            number,
            flow,
            granted: budget.held(flow),
            arrived: 0,
            back: 0,
            used: 0,
            recalled: false,
            promised: false,
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
    pub(crate) fn hear(&mut self, kind: Kind, memory: Memory) -> Result<(), &'static str> {
        if self.ended {
            return Err(AFTER_END);
        }
        self.promised = false;
        match kind {
            Kind::Part => self.arrive(Item::Part(memory)),
            Kind::Last => self.arrive(Item::Last(memory)),
            Kind::Abort => self.aborted(),
            _ if self.arriving => Err(END_INSIDE),
            _ => {
                self.ended = true;
                self.cut();
                Ok(())
            }
        }
    }

    fn arrive(&mut self, item: Item) -> Result<(), &'static str> {
        let bytes = item.cost();
        if bytes > self.left() && !planted(Fault::Unchecked) {
            return Err(NO_CREDIT);
        }
        self.arrived += bytes;
        self.arriving = matches!(item, Item::Part(_));
        if self.stopped || self.skipping {
            self.skipping &= self.arriving;
            self.drop_unread(bytes);
        } else {
            self.items.push_back(item);
        }
        Ok(())
    }

    /// What waits of a message that is no more is dropped; its reader is told in its place.
    fn aborted(&mut self) -> Result<(), &'static str> {
        if !std::mem::take(&mut self.arriving) {
            return Err(ABORT_OUTSIDE);
        }
        if self.stopped || std::mem::take(&mut self.skipping) {
            return Ok(());
        }
        let ends = self.items.iter().rposition(|item| !matches!(item, Item::Part(_)));
        let dropped = self.items.drain(ends.map_or(0, |at| at + 1)..);
        let bytes: u64 = dropped.map(|item| item.cost()).sum();
        let charged = bytes.min(FRAME_BYTES);
        self.drop_unread(bytes - charged);
        if planted(Fault::LateAbort) {
            self.arriving = true;
        }
        self.items.push_back(Item::Aborted { charged });
        Ok(())
    }

    /// Whether there is a message to read, which then is the one that is read.
    pub(crate) fn begin(&mut self) -> Begin {
        debug_assert!(!self.reading, "one message at a time");
        if self.skipping {
            return Begin::Nothing;
        }
        if !self.items.is_empty() {
            self.reading = true;
            return Begin::Message;
        }
        if self.ended { Begin::Ended } else { Begin::Nothing }
    }

    /// Takes what comes next of the message that is read.
    pub(crate) fn next(&mut self) -> Next {
        let Some(item) = self.items.pop_front() else { return Next::Nothing };
        self.back += item.cost();
        self.used += item.cost();
        self.reading = matches!(item, Item::Part(_));
        match item {
            Item::Part(memory) => Next::Part(memory),
            Item::Last(memory) => Next::Last(memory),
            Item::Aborted { .. } => Next::Aborted,
        }
    }

    /// The rest of the message that is read is not wanted.
    pub(crate) fn skip(&mut self) {
        while self.reading {
            match self.next() {
                Next::Nothing => {
                    self.reading = false;
                    self.skipping = true;
                }
                Next::Part(_) | Next::Last(_) | Next::Aborted => {}
            }
        }
    }

    /// Nobody will read any more.
    pub(crate) fn stop(&mut self) -> Option<Control<'static>> {
        if std::mem::replace(&mut self.stopped, true) {
            return None;
        }
        (self.reading, self.skipping) = (false, false);
        let bytes = self.items.drain(..).map(|item| item.cost()).sum();
        self.drop_unread(bytes);
        (!self.ended).then_some(Control::Stop { number: self.number })
    }

    /// The link is no more: nothing will come.
    pub(crate) fn cut(&mut self) {
        self.cut = true;
        self.back += self.left();
        self.granted = self.arrived;
    }

    /// Tells the budget what was taken; what the writer is granted for it.
    pub(crate) fn settle(&mut self, budget: &mut Budget) -> Option<Control<'static>> {
        let back = std::mem::take(&mut self.back);
        if self.stopped || self.cut {
            budget.retire(self.flow, back);
            return None;
        }
        if back == 0 {
            return None;
        }
        let keen = self.items.is_empty() && self.used >= self.left();
        self.granted(budget.taken(self.flow, back, keen))
    }

    /// The writer asks for what a part of `len` bytes needs, credit `upto` there.
    pub(crate) fn want(
        &mut self,
        (upto, len): (u64, u64),
        budget: &mut Budget,
    ) -> Result<Option<Control<'static>>, &'static str> {
        let bytes = cost(len);
        let granted = self.granted;
        if upto.checked_sub(bytes).is_none_or(|start| start > granted) {
            return Err(WANTS_TOO_FAR);
        }
        let lacking = upto.saturating_sub(granted);
        if lacking == 0 || self.stopped || self.ended || planted(Fault::WantForgotten) {
            return Ok(None);
        }
        let number = self.number;
        match budget.want(self.flow, bytes, lacking) {
            Ok(bytes) => Ok(self.promise(bytes)),
            Err(never) => Ok(Some(Control::TooLarge { number, upto, most: never.most })),
        }
    }

    /// The writer does not need what it asked for.
    pub(crate) fn withdraw(&mut self, budget: &mut Budget) {
        self.promised = false;
        budget.withdraw(self.flow);
    }

    /// The budget has granted this for a piece that was asked for. It is not asked back before
    /// something comes: what is asked back as soon as it is granted crosses what the writer asks for
    /// next, and neither piece would ever be sent.
    pub(crate) fn promise(&mut self, bytes: u64) -> Option<Control<'static>> {
        let control = self.granted(bytes);
        self.promised |= control.is_some() && !planted(Fault::AskedBack);
        control
    }

    fn granted(&mut self, bytes: u64) -> Option<Control<'static>> {
        if bytes == 0 {
            return None;
        }
        self.granted += bytes;
        (self.used, self.recalled) = (0, false);
        Some(Control::Credit { number: self.number, bytes })
    }

    /// The writer gives back credit.
    pub(crate) fn unused(&mut self, bytes: u64, budget: &mut Budget) -> Result<(), &'static str> {
        if bytes > self.left() {
            return Err(NOT_UNUSED);
        }
        self.granted -= bytes;
        budget.unused(self.flow, bytes);
        Ok(())
    }

    /// Asks the writer for what it does not use beyond the guarantee, if others wait for it.
    pub(crate) fn recall(&mut self, budget: &Budget) -> Option<Control<'static>> {
        let waits = budget.first_waiting()?;
        let keep = budget.terms().guarantee;
        if waits == self.flow
            || self.left() <= keep
            || self.recalled
            || self.promised
            || self.stopped
        {
            return None;
        }
        self.recalled = !planted(Fault::NotRecalled);
        self.recalled.then_some(Control::Recall { number: self.number, keep })
    }

    /// What the writer may still send.
    pub(crate) const fn left(&self) -> u64 {
        self.granted - self.arrived
    }

    /// Whether the end has come.
    pub(crate) const fn is_ended(&self) -> bool {
        self.ended
    }

    /// Its flow, to be closed when it is done.
    pub(crate) const fn flow(&self) -> FlowId {
        self.flow
    }

    /// What its flow holds, as this end knows it.
    #[cfg(test)]
    pub(crate) fn holds(&self) -> u64 {
        self.left() + self.back + self.items.iter().map(Item::cost).sum::<u64>()
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

impl Item {
    fn cost(&self) -> u64 {
        match self {
            Self::Part(memory) | Self::Last(memory) => cost(memory.len() as u64),
            Self::Aborted { charged } => *charged,
        }
    }
}

impl Memory {
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
