//! The sending half of one end: descriptors in, items out.
//!
//! The order is the [outbox](crate::fabric::outbox)'s. What left is kept until the
//! peer says that it has taken it.

use std::collections::VecDeque;
use std::sync::Arc;

use super::datapath::Out;
use super::eager::Record;
use super::planted::Planted;
use super::wire::{Counts, Item};
use crate::fabric::outbox::{Answer, Outbox, Outgoing};
use crate::rt::Instant;
use crate::vi::{Keys, Op, Posted, Reliability, ViError};

#[derive(Debug)]
pub(super) struct Sender {
    pub outbox: Outbox,
    next_item: u64,
    unacked: VecDeque<Unacked>,
    peer: Counts,
    /// Eager messages that wait for bulk, which they do by a planted fault alone.
    held: Vec<Record>,
}

#[derive(Debug)]
struct Unacked {
    number: u64,
    item: Item,
    since: Instant,
}

/// Largest piece of a message in one frame.
pub(super) const CHUNK: usize = 64 << 10;
/// Items that may be under way.
const WINDOW: usize = 64;

impl Sender {
    pub(super) fn new(reliability: Reliability) -> Self {
        let (outbox, peer) = (Outbox::new(reliability), Counts::default());
        Self { outbox, next_item: 0, unacked: VecDeque::new(), peer, held: Vec::new() }
    }

    /// Whether an answer of the peer is due.
    pub(super) fn expects(&self) -> bool {
        !self.unacked.is_empty() || self.outbox.outstanding() > 0
    }

    pub(super) fn push(&mut self, posted: Posted, out: &mut Out<'_>) {
        self.outbox.push(posted);
        self.pump(out);
    }

    /// Emits an eager message, which has a window of its own.
    pub(super) fn push_eager(&mut self, record: Record, out: &mut Out<'_>) {
        let is_bulk = self.outbox.current.is_some() || !self.held.is_empty();
        if is_bulk && out.has(Planted::TalkWaits) {
            return self.held.push(record);
        }
        self.emit(Item::Eager(record), out);
    }

    fn emit(&mut self, item: Item, out: &mut Out<'_>) {
        let number = self.next_item;
        self.next_item += 1;
        self.unacked.push_back(Unacked { number, item: item.clone(), since: out.now });
        out.items.push((number, item));
    }

    pub(super) fn answer(&mut self, answer: Answer) {
        self.outbox.answers.push_back(answer);
    }

    /// Emits what the window and the peer's receives allow.
    pub(super) fn pump(&mut self, out: &mut Out<'_>) {
        while let Some(item) = self.next(out) {
            self.emit(item, out);
        }
        if self.outbox.outstanding() == 0 {
            for record in std::mem::take(&mut self.held) {
                self.emit(Item::Eager(record), out);
            }
        }
    }

    fn next(&mut self, out: &mut Out<'_>) -> Option<Item> {
        // Reads and answers have places of their own: they overtake a message
        // that waits for a receive with all its chunks under way.
        if self.unacked.len() >= 2 * WINDOW {
            return None;
        }
        if let Some(answer) = self.outbox.answers.pop_front() {
            return Some(self.next_of_answer(answer, out.keys));
        }
        if let Some((id, from, len)) = self.outbox.next_read() {
            return Some(Item::Read { id, from, len });
        }
        if self.unacked.len() >= WINDOW {
            return None;
        }
        if let Some(current) = self.outbox.current.take() {
            return Some(self.next_of(current, out));
        }
        let receives =
            if out.has(Planted::IgnoresReceives) { u64::MAX } else { self.peer.receives };
        let posted = self.outbox.next_waiting(|outbox, next| outbox.may_begin(next, receives))?;
        Some(self.begin(posted, out))
    }

    fn begin(&mut self, posted: Posted, out: &mut Out<'_>) -> Item {
        let descriptor = posted.descriptor();
        let len = descriptor.len();
        if let Op::Write { to, notify } = posted.op() {
            self.outbox.messages += u64::from(*notify);
            let item = Item::Write { to: *to, len };
            self.outbox.current = Some(Outgoing { posted, offset: 0 });
            return item;
        }
        self.outbox.messages += 1;
        let tag = if out.has(Planted::ShortTag) {
            descriptor.tag() & 0xffff_ffff
        } else {
            descriptor.tag()
        };
        let bytes = piece(&posted, 0);
        let item =
            Item::Begin { len, tag, kind: descriptor.kind().cloned(), bytes: Arc::clone(&bytes) };
        self.went(Outgoing { posted, offset: bytes.len() as u64 }, out);
        item
    }

    fn next_of(&mut self, current: Outgoing, out: &mut Out<'_>) -> Item {
        let Outgoing { posted, offset } = current;
        let bytes = piece(&posted, offset);
        let end = offset + bytes.len() as u64;
        match *posted.op() {
            Op::Write { notify, .. } if bytes.is_empty() => {
                let tag = posted.descriptor().tag();
                let id = self.outbox.ask(posted);
                Item::WriteEnd { id, notify: notify.then_some(tag) }
            }
            Op::Write { .. } => {
                self.outbox.current = Some(Outgoing { posted, offset: end });
                Item::WriteChunk { offset, bytes }
            }
            _ => {
                self.went(Outgoing { posted, offset: end }, out);
                Item::Chunk { bytes }
            }
        }
    }

    /// Notes that a send's bytes up to `offset` are in the item about to leave.
    fn went(&mut self, Outgoing { posted, offset }: Outgoing, out: &mut Out<'_>) {
        if offset < posted.descriptor().len() {
            self.outbox.current = Some(Outgoing { posted, offset });
        } else if out.has(Planted::CompletesEarly) {
            let (len, tag) = (posted.descriptor().len(), posted.descriptor().tag());
            posted.complete(len, tag, out.notices);
        } else {
            self.outbox.went(posted, offset, self.next_item);
        }
    }

    /// The next item of an answer; what is left of it waits for its turn.
    fn next_of_answer(&mut self, answer: Answer, keys: &Keys) -> Item {
        match answer {
            Answer::Read { id, len, offset, .. } if offset == len => {
                Item::ReadEnd { id, result: Ok(()) }
            }
            Answer::Read { id, from, len, offset } => {
                let n = usize::try_from(len - offset).unwrap_or(CHUNK).min(CHUNK);
                let mut bytes = vec![0; n];
                let place = from.key.at(from.offset + offset);
                // The key may have been revoked since the read was admitted.
                if let Err(why) = keys.read(&place, &mut bytes) {
                    return Item::ReadEnd { id, result: Err(why) };
                }
                // Last in the queue: reads take turns, so a short one overtakes a long one.
                let left = Answer::Read { id, from, len, offset: offset + n as u64 };
                self.outbox.answers.push_back(left);
                Item::ReadChunk { id, offset, bytes: bytes.into() }
            }
            Answer::ReadEnd { id, result } => Item::ReadEnd { id, result },
            Answer::Written { id, result } => Item::Written { id, result },
        }
    }

    /// The peer says how far it is.
    pub(super) fn hear(&mut self, counts: Counts, out: &mut Out<'_>) {
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
    pub(super) fn retransmit(&mut self, since: Instant, out: &mut Out<'_>) -> bool {
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
