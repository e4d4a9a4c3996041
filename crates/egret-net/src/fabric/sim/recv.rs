//! The receiving half of one end: items in, completions out.
//!
//! Repeated names: `Receiver`, one in each fabric.

use std::collections::{BTreeMap, VecDeque};

use super::datapath::EndOutput;
use super::eager::SimEager;
use super::fault::Fault;
use super::send::Sender;
use super::wire::{SimDatagram, StreamItem};
use crate::buf::Kind;
use crate::fabric::outbox::OwedAnswer;
use crate::fabric::receives::Receives;
use crate::vi::{AccessError, Posted, RemoteSlice, ViError};

#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub receives: Receives,
    /// Items taken, in order.
    pub taken: u64,
    /// Items that came before their turn, or found no receive posted.
    early: BTreeMap<u64, StreamItem>,
    incoming: Option<IncomingMessage>,
    /// Messages that have reached the fabric, and not yet the program. `None`
    /// stands for a refused notice: there is nothing to place in its turn.
    placing: VecDeque<Option<IncomingMessage>>,
    write: Option<IncomingWrite>,
}

#[derive(Debug)]
struct IncomingMessage {
    posted: Posted,
    len: u64,
    tag: u64,
    got: u64,
}

/// A peer's write that is under way.
#[derive(Debug)]
struct IncomingWrite {
    to: RemoteSlice,
    result: Result<(), AccessError>,
}

/// How far ahead of its turn an item is kept.
const EARLY_MAX: u64 = 512;

impl Receiver {
    pub(super) fn outstanding(&self) -> usize {
        self.receives.len()
            + usize::from(self.incoming.is_some())
            + self.placing.iter().flatten().count()
    }

    /// An item arrived. Out of turn it is kept, twice it is ignored.
    pub(super) fn arrive(&mut self, number: u64, item: StreamItem, out: &EndOutput<'_>) {
        let number = out.turn(number, self.taken);
        if (self.taken..self.taken + EARLY_MAX).contains(&number) {
            self.early.entry(number).or_insert(item);
        }
    }

    /// Takes the items whose turn it is, up to one that needs a receive and
    /// finds none.
    pub(super) fn take(
        &mut self,
        sender: &mut Sender,
        eager: &mut SimEager,
        out: &mut EndOutput<'_>,
    ) -> Result<(), ViError> {
        while let Some(item) = self.early.get(&self.taken) {
            let needs_receive = matches!(
                item,
                StreamItem::Begin { .. } | StreamItem::WriteEnd { notify: Some(_), .. }
            );
            if needs_receive && self.receives.is_empty() {
                if self.drops_unreceived(out) {
                    continue;
                }
                return self.overtake(sender, eager, out);
            }
            let Some(item) = self.early.remove(&self.taken) else { return Ok(()) };
            self.taken += 1;
            self.apply(item, sender, eager, out)?;
        }
        Ok(())
    }

    /// Whether an item is dropped that needs a receive: never, unless a fault is planted.
    fn drops_unreceived(&mut self, out: &EndOutput<'_>) -> bool {
        let drops = out.has(Fault::IgnoresReceives);
        if drops {
            self.early.remove(&self.taken);
            self.taken += 1;
        }
        drops
    }

    /// A message waits for a receive. Eager messages, and what belongs to remote reads and
    /// writes, do not wait with it: this side may be waiting for just that.
    fn overtake(
        &mut self,
        sender: &mut Sender,
        eager: &mut SimEager,
        out: &mut EndOutput<'_>,
    ) -> Result<(), ViError> {
        let mut number = self.taken + 1;
        while let Some(item) = self.early.get_mut(&number) {
            let overtakes = matches!(
                item,
                StreamItem::Eager(_)
                    | StreamItem::Read { .. }
                    | StreamItem::ReadChunk { .. }
                    | StreamItem::ReadEnd { .. }
                    | StreamItem::Written { .. }
            );
            if overtakes {
                let item = std::mem::replace(item, StreamItem::Overtook);
                self.apply(item, sender, eager, out)?;
            }
            number += 1;
        }
        Ok(())
    }

    fn apply(
        &mut self,
        item: StreamItem,
        sender: &mut Sender,
        eager: &mut SimEager,
        out: &mut EndOutput<'_>,
    ) -> Result<(), ViError> {
        match item {
            StreamItem::Begin { len, tag, kind, bytes } => {
                self.begin(len, tag, kind.as_ref(), &bytes, out)
            }
            StreamItem::Chunk { bytes } => self.chunk(&bytes, out),
            StreamItem::Eager(record) => {
                eager.arrive(record, out);
                Ok(())
            }
            StreamItem::Read { id, from, len } => {
                sender.answer(match out.keys.check(&from, len, false) {
                    Ok(()) => OwedAnswer::Read { id, from, len, offset: 0 },
                    Err(why) => OwedAnswer::ReadEnd { id, result: Err(why) },
                });
                Ok(())
            }
            StreamItem::ReadChunk { id, offset, bytes } => sender.read_chunk(id, offset, &bytes),
            StreamItem::ReadEnd { id, result } | StreamItem::Written { id, result } => {
                sender.outbox.answered(id, result, out.notices)
            }
            StreamItem::Write { to, len } => {
                let result = out.access(out.keys.check(&to, len, true));
                self.write = Some(IncomingWrite { to, result });
                Ok(())
            }
            StreamItem::Overtook => Ok(()),
            StreamItem::WriteChunk { offset, bytes } => self.write_chunk(offset, &bytes, out),
            StreamItem::WriteEnd { id, notify } => self.write_end((id, notify), sender, out),
        }
    }

    fn begin(
        &mut self,
        len: u64,
        tag: u64,
        kind: Option<&Kind>,
        bytes: &[u8],
        out: &mut EndOutput<'_>,
    ) -> Result<(), ViError> {
        if self.incoming.is_some() {
            return Err(ViError::Protocol("a message inside a message"));
        }
        let mut posted = self.receives.next().expect("there is one, or it would not be its turn");
        if let Err(why) = posted.begin(len, tag, kind) {
            // It fails with the connection, after what arrived before it.
            self.receives.put_back(posted);
            return Err(why);
        }
        self.incoming = Some(IncomingMessage { posted, len, tag, got: 0 });
        self.chunk(bytes, out)
    }

    fn chunk(&mut self, bytes: &[u8], out: &mut EndOutput<'_>) -> Result<(), ViError> {
        let stray = ViError::Protocol("bytes of no message");
        let incoming = self.incoming.as_mut().ok_or(stray)?;
        let left = incoming.len - incoming.got;
        if bytes.len() as u64 > left {
            return Err(ViError::Protocol("more bytes than the message announced"));
        }
        incoming.posted.descriptor_mut().scatter(incoming.got, out.chunk(bytes));
        incoming.got += bytes.len() as u64;
        if incoming.got == incoming.len {
            self.placing.push_back(self.incoming.take());
            out.placing += 1;
        }
        Ok(())
    }

    fn write_chunk(
        &mut self,
        offset: u64,
        bytes: &[u8],
        out: &EndOutput<'_>,
    ) -> Result<(), ViError> {
        let stray = ViError::Protocol("bytes of no write");
        let IncomingWrite { to, result } = self.write.as_mut().ok_or(stray)?;
        if result.is_ok() {
            let place = to.key.at(to.offset.saturating_add(offset));
            *result = out.access(out.keys.write(&place, bytes));
        }
        Ok(())
    }

    fn write_end(
        &mut self,
        (id, notify): (u64, Option<u64>),
        sender: &mut Sender,
        out: &mut EndOutput<'_>,
    ) -> Result<(), ViError> {
        let stray = ViError::Protocol("the end of a write that has not begun");
        let IncomingWrite { result, .. } = self.write.take().ok_or(stray)?;
        sender.answer(OwedAnswer::Written { id, result });
        match notify {
            Some(tag) if result.is_ok() => {
                let posted =
                    self.receives.next().expect("there is one, or it would not be its turn");
                self.placing.push_back(Some(IncomingMessage { posted, len: 0, tag, got: 0 }));
                out.placing += 1;
            }
            Some(_) => {
                self.receives.keep_one();
                self.placing.push_back(None);
                out.placing += 1;
            }
            None => {}
        }
        Ok(())
    }

    /// Hands the oldest whole message to the program.
    pub(super) fn place(&mut self, out: &mut EndOutput<'_>) {
        let Some(next) = self.placing.pop_front() else { return };
        match next {
            Some(IncomingMessage { posted, len, tag, .. }) => {
                self.receives.complete(posted, len, tag, out.notices);
            }
            None => self.receives.placed += 1,
        }
    }

    /// Hands over all whole messages, because there is no later.
    pub(super) fn place_all(&mut self, out: &mut EndOutput<'_>) {
        while !self.placing.is_empty() {
            self.place(out);
        }
    }

    /// A message of the unreliable level.
    pub(super) fn datagram(&mut self, datagram: &SimDatagram, out: &mut EndOutput<'_>) {
        let Some(mut posted) = self.receives.next() else {
            self.receives.dropped += 1;
            return;
        };
        let len = datagram.bytes.len() as u64;
        if let Err(why) = posted.begin(len, datagram.tag, datagram.kind.as_ref()) {
            posted.fail(why, out.notices);
            return;
        }
        posted.descriptor_mut().scatter(0, &datagram.bytes);
        self.receives.complete(posted, len, datagram.tag, out.notices);
    }

    /// Everything that is not back, in the order it was posted.
    pub(super) fn drain(&mut self) -> Vec<Posted> {
        let begun = self.placing.drain(..).flatten().chain(self.incoming.take());
        begun.map(|incoming| incoming.posted).chain(self.receives.drain()).collect()
    }
}
