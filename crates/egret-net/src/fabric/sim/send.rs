//! The sending half of one end: descriptors in, items out.
//!
//! The order is the [outbox](crate::fabric::outbox)'s. What left is kept until the
//! peer says that it has taken it.
//!
//! Repeated names: `Sender`, one in each fabric.

use std::collections::VecDeque;
use std::sync::Arc;

use super::datapath::EndOutput;
use super::eager::EagerRecord;
use super::fault::Fault;
use super::wire::{SimCounts, StreamItem};
use crate::fabric::outbox::{Outbox, OutgoingTransfer, OwedAnswer};
use crate::rt::Instant;
use crate::vi::{Keys, Op, Posted, Reliability, ViError};

#[derive(Debug)]
pub(super) struct Sender {
    pub outbox: Outbox,
    next_item: u64,
    unacked: VecDeque<Unacked>,
    peer: SimCounts,
    /// Eager messages that wait for bulk, which they do by a planted fault alone.
    held: Vec<EagerRecord>,
}

#[derive(Debug)]
struct Unacked {
    number: u64,
    item: StreamItem,
    since: Instant,
}

/// Largest piece of a message in one frame.
pub(super) const CHUNK: usize = 64 << 10;
/// Items that may be under way.
const WINDOW: usize = 64;

impl Sender {
    pub(super) fn new(reliability: Reliability) -> Self {
        let (outbox, peer) = (Outbox::new(reliability), SimCounts::default());
        Self { outbox, next_item: 0, unacked: VecDeque::new(), peer, held: Vec::new() }
    }

    /// Whether an answer of the peer is due.
    pub(super) fn expects(&self) -> bool {
        !self.unacked.is_empty() || self.outbox.outstanding() > 0
    }

    pub(super) fn push(&mut self, posted: Posted, out: &mut EndOutput<'_>) {
        self.outbox.push(posted);
        self.pump(out);
    }

    /// Emits an eager message, which has a window of its own.
    pub(super) fn push_eager(&mut self, record: EagerRecord, out: &mut EndOutput<'_>) {
        if self.must_hold(out) {
            return self.held.push(record);
        }
        self.emit(StreamItem::Eager(record), out);
    }

    /// Whether an eager message waits: never, unless a fault is planted.
    fn must_hold(&self, out: &EndOutput<'_>) -> bool {
        let is_bulk = self.outbox.current.is_some() || !self.held.is_empty();
        is_bulk && out.has(Fault::TalkWaits)
    }

    fn emit(&mut self, item: StreamItem, out: &mut EndOutput<'_>) {
        let number = self.next_item;
        self.next_item += 1;
        self.unacked.push_back(Unacked { number, item: item.clone(), since: out.now });
        out.items.push((number, item));
    }

    pub(super) fn answer(&mut self, answer: OwedAnswer) {
        self.outbox.answers.push_back(answer);
    }

    /// Emits what the window and the peer's receives allow.
    pub(super) fn pump(&mut self, out: &mut EndOutput<'_>) {
        while let Some(item) = self.next(out) {
            self.emit(item, out);
        }
        if self.outbox.outstanding() == 0 {
            for record in std::mem::take(&mut self.held) {
                self.emit(StreamItem::Eager(record), out);
            }
        }
    }

    fn next(&mut self, out: &mut EndOutput<'_>) -> Option<StreamItem> {
        // Reads and answers have places of their own: they overtake a message
        // that waits for a receive with all its chunks under way.
        if self.unacked.len() >= 2 * WINDOW {
            return None;
        }
        if let Some(answer) = self.outbox.answers.pop_front() {
            return Some(self.next_of_answer(answer, out.keys));
        }
        if let Some((id, from, len)) = self.outbox.next_read() {
            return Some(StreamItem::Read { id, from, len });
        }
        if self.unacked.len() >= WINDOW {
            return None;
        }
        if let Some(current) = self.outbox.current.take() {
            return Some(self.next_of(current, out));
        }
        let receives = out.receives(self.peer.receives);
        let posted = self.outbox.next_waiting(|outbox, next| outbox.may_begin(next, receives))?;
        Some(self.begin(posted, out))
    }

    fn begin(&mut self, posted: Posted, out: &mut EndOutput<'_>) -> StreamItem {
        let descriptor = posted.descriptor();
        let len = descriptor.len();
        if let Op::Write { to, notify } = posted.op() {
            self.outbox.messages += u64::from(*notify);
            let item = StreamItem::Write { to: *to, len };
            self.outbox.current = Some(OutgoingTransfer { posted, offset: 0 });
            return item;
        }
        self.outbox.messages += 1;
        let tag = out.tag(descriptor.tag());
        let bytes = piece(&posted, 0);
        let item = StreamItem::Begin {
            len,
            tag,
            kind: descriptor.kind().cloned(),
            bytes: Arc::clone(&bytes),
        };
        self.went(OutgoingTransfer { posted, offset: bytes.len() as u64 }, out);
        item
    }

    fn next_of(&mut self, current: OutgoingTransfer, out: &mut EndOutput<'_>) -> StreamItem {
        let OutgoingTransfer { posted, offset } = current;
        let bytes = piece(&posted, offset);
        let end = offset + bytes.len() as u64;
        match *posted.op() {
            Op::Write { notify, .. } if bytes.is_empty() => {
                let tag = posted.descriptor().tag();
                let id = self.outbox.ask(posted);
                StreamItem::WriteEnd { id, notify: notify.then_some(tag) }
            }
            Op::Write { .. } => {
                self.outbox.current = Some(OutgoingTransfer { posted, offset: end });
                StreamItem::WriteChunk { offset, bytes }
            }
            _ => {
                self.went(OutgoingTransfer { posted, offset: end }, out);
                StreamItem::Chunk { bytes }
            }
        }
    }

    /// Notes that a send's bytes up to `offset` are in the item about to leave.
    fn went(
        &mut self,
        OutgoingTransfer { posted, offset }: OutgoingTransfer,
        out: &mut EndOutput<'_>,
    ) {
        if offset < posted.descriptor().len() {
            self.outbox.current = Some(OutgoingTransfer { posted, offset });
        } else {
            self.wait_for_counts(posted, out);
        }
    }

    /// A send completes when the peer's counts say that it may.
    fn wait_for_counts(&mut self, posted: Posted, out: &mut EndOutput<'_>) {
        let (len, tag) = (posted.descriptor().len(), posted.descriptor().tag());
        if out.has(Fault::CompletesEarly) {
            return posted.complete(len, tag, out.notices);
        }
        self.outbox.went(posted, len, self.next_item);
    }

    /// The next item of an answer; what is left of it waits for its turn.
    fn next_of_answer(&mut self, answer: OwedAnswer, keys: &Keys) -> StreamItem {
        match answer {
            OwedAnswer::Read { id, len, offset, .. } if offset == len => {
                StreamItem::ReadEnd { id, result: Ok(()) }
            }
            OwedAnswer::Read { id, from, len, offset } => {
                let n = usize::try_from(len - offset).unwrap_or(CHUNK).min(CHUNK);
                let mut bytes = vec![0; n];
                let place = from.key.at(from.offset + offset);
                // The key may have been revoked since the read was admitted.
                if let Err(why) = keys.read(&place, &mut bytes) {
                    return StreamItem::ReadEnd { id, result: Err(why) };
                }
                // Last in the queue: reads take turns, so a short one overtakes a long one.
                let left = OwedAnswer::Read { id, from, len, offset: offset + n as u64 };
                self.outbox.answers.push_back(left);
                StreamItem::ReadChunk { id, offset, bytes: bytes.into() }
            }
            OwedAnswer::ReadEnd { id, result } => StreamItem::ReadEnd { id, result },
            OwedAnswer::Written { id, result } => StreamItem::Written { id, result },
        }
    }

    /// The peer says how far it is.
    pub(super) fn hear(&mut self, counts: SimCounts, out: &mut EndOutput<'_>) {
        self.peer.taken = self.peer.taken.max(counts.taken);
        self.peer.receives = self.peer.receives.max(counts.receives);
        self.peer.placed = self.peer.placed.max(counts.placed);
        while self.unacked.front().is_some_and(|item| item.number < self.peer.taken) {
            self.unacked.pop_front();
        }
        self.outbox.heard(self.peer.taken, self.peer.placed, out.notices);
        self.pump(out);
    }

    /// The oldest item again, if it has been under way since before `since`.
    pub(super) fn retransmit(&mut self, since: Instant, out: &mut EndOutput<'_>) -> bool {
        let now = out.now;
        let Some(oldest) = self.unacked.front_mut().filter(|item| item.since <= since) else {
            return false;
        };
        oldest.since = now;
        out.items.push((oldest.number, oldest.item.clone()));
        true
    }

    /// Bytes that a read asked for.
    pub(super) fn read_chunk(&mut self, id: u64, offset: u64, bytes: &[u8]) -> Result<(), ViError> {
        let read = self.outbox.read_mut(id)?;
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > read.descriptor().len()) {
            return Err(ViError::Protocol("more bytes than the read asked for"));
        }
        read.descriptor_mut().scatter(offset, bytes);
        Ok(())
    }
}

/// The next bytes of a descriptor, at most a chunk.
fn piece(posted: &Posted, offset: u64) -> Arc<[u8]> {
    let left = posted.descriptor().len() - offset;
    let mut bytes = vec![0; usize::try_from(left).unwrap_or(CHUNK).min(CHUNK)];
    posted.descriptor().gather(offset, &mut bytes);
    bytes.into()
}
