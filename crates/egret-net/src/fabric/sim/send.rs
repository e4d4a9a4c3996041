//! The sending half of one end: descriptors in, items out.
//!
//! Sends and writes go in order; a send begins only when the peer has a
//! receive posted for it. Reads overtake them. Answers to the peer's reads and
//! writes travel on the same stream and go first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::datapath::Out;
use super::planted::Planted;
use super::wire::{Counts, Item};
use crate::rt::Instant;
use crate::vi::{AccessError, Keys, Op, Posted, Reliability, RemoteSlice, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Sender {
    reliability: Reliability,
    /// Sends and writes that have not begun.
    waiting: VecDeque<Posted>,
    /// Reads that have not begun.
    reads: VecDeque<Posted>,
    current: Option<Outgoing>,
    /// Sends whose items are all under way.
    sent: VecDeque<Sent>,
    /// Reads and writes the peer has not answered.
    asked: BTreeMap<u64, Posted>,
    answers: VecDeque<Answer>,
    next_id: u64,
    next_item: u64,
    unacked: VecDeque<Unacked>,
    /// Messages begun, ever: each uses up one of the peer's receives.
    messages: u64,
    peer: Counts,
    pub completed: u64,
}

#[derive(Debug)]
struct Outgoing {
    posted: Posted,
    offset: u64,
}

#[derive(Debug)]
struct Sent {
    posted: Posted,
    last_item: u64,
    message: u64,
}

#[derive(Debug)]
struct Unacked {
    number: u64,
    item: Item,
    since: Instant,
}

/// What the peer is owed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    Read { id: u64, from: RemoteSlice, len: u64, offset: u64 },
    ReadEnd { id: u64, result: Result<(), AccessError> },
    Written { id: u64, result: Result<(), AccessError> },
}

/// Largest piece of a message in one frame.
pub(super) const CHUNK: usize = 64 << 10;
/// Items that may be under way.
const WINDOW: usize = 64;

impl Sender {
    pub(super) fn new(reliability: Reliability) -> Self {
        Self {
            reliability,
            waiting: VecDeque::new(),
            reads: VecDeque::new(),
            current: None,
            sent: VecDeque::new(),
            asked: BTreeMap::new(),
            answers: VecDeque::new(),
            next_id: 0,
            next_item: 0,
            unacked: VecDeque::new(),
            messages: 0,
            peer: Counts::default(),
            completed: 0,
        }
    }

    /// Descriptors that are not back yet.
    pub(super) fn outstanding(&self) -> usize {
        let current = usize::from(self.current.is_some());
        self.waiting.len() + self.reads.len() + current + self.sent.len() + self.asked.len()
    }

    /// Whether an answer of the peer is due.
    pub(super) fn expects(&self) -> bool {
        !self.unacked.is_empty() || self.outstanding() > 0
    }

    pub(super) fn push(&mut self, posted: Posted, out: &mut Out<'_>) {
        match posted.op() {
            Op::Read(_) => self.reads.push_back(posted),
            _ => self.waiting.push_back(posted),
        }
        self.pump(out);
    }

    pub(super) fn answer(&mut self, answer: Answer) {
        self.answers.push_back(answer);
    }

    /// Emits what the window and the peer's receives allow.
    pub(super) fn pump(&mut self, out: &mut Out<'_>) {
        while let Some(item) = self.next(out) {
            let number = self.next_item;
            self.next_item += 1;
            self.unacked.push_back(Unacked { number, item: item.clone(), since: out.now });
            out.items.push((number, item));
        }
    }

    fn next(&mut self, out: &mut Out<'_>) -> Option<Item> {
        // Reads and answers have places of their own: they overtake a message
        // that waits for a receive with all its chunks under way.
        if self.unacked.len() >= 2 * WINDOW {
            return None;
        }
        if let Some(answer) = self.answers.pop_front() {
            return Some(self.next_of_answer(answer, out.keys));
        }
        if let Some(read) = self.reads.pop_front() {
            return Some(self.begin_read(read));
        }
        if self.unacked.len() >= WINDOW {
            return None;
        }
        if let Some(current) = self.current.take() {
            return Some(self.next_of(current, out));
        }
        let may_begin = match self.waiting.front()?.op() {
            Op::Write { notify: false, .. } => true,
            _ => self.messages < self.peer.receives || out.has(Planted::IgnoresReceives),
        };
        let posted = if may_begin { self.waiting.pop_front()? } else { return None };
        Some(self.begin(posted, out))
    }

    fn begin(&mut self, posted: Posted, out: &mut Out<'_>) -> Item {
        let descriptor = posted.descriptor();
        let len = descriptor.len();
        if let Op::Write { to, notify } = posted.op() {
            self.messages += u64::from(*notify);
            let item = Item::Write { to: *to, len };
            self.current = Some(Outgoing { posted, offset: 0 });
            return item;
        }
        self.messages += 1;
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
                let id = self.ask(posted);
                let tag = self.asked[&id].descriptor().tag();
                Item::WriteEnd { id, notify: notify.then_some(tag) }
            }
            Op::Write { .. } => {
                self.current = Some(Outgoing { posted, offset: end });
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
            self.current = Some(Outgoing { posted, offset });
        } else if out.has(Planted::CompletesEarly) {
            let (len, tag) = (posted.descriptor().len(), posted.descriptor().tag());
            posted.complete(len, tag, out.notices);
        } else {
            let (last_item, message) = (self.next_item, self.messages);
            self.sent.push_back(Sent { posted, last_item, message });
        }
    }

    fn begin_read(&mut self, posted: Posted) -> Item {
        let Op::Read(from) = *posted.op() else { unreachable!("only reads are queued there") };
        let len = posted.descriptor().len();
        let id = self.ask(posted);
        Item::Read { id, from, len }
    }

    fn ask(&mut self, posted: Posted) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, posted);
        id
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
                self.answers.push_back(left);
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
        while let Some(Sent { last_item, message, .. }) = self.sent.front() {
            let done = match self.reliability {
                Reliability::Reception => *message <= self.peer.placed,
                _ => *last_item < self.peer.taken,
            };
            let Some(sent) = done.then(|| self.sent.pop_front()).flatten() else { break };
            let (len, tag) = (sent.posted.descriptor().len(), sent.posted.descriptor().tag());
            self.completed += 1;
            sent.posted.complete(len, tag, out.notices);
        }
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
        let unasked = ViError::Protocol("an answer to no read");
        let read = self.asked.get_mut(&id).ok_or(unasked)?;
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > read.descriptor().len()) {
            return Err(ViError::Protocol("more bytes than the read asked for"));
        }
        read.descriptor_mut().scatter(offset, bytes);
        Ok(())
    }

    /// A read or write was answered.
    pub(super) fn answered(
        &mut self,
        id: u64,
        result: Result<(), AccessError>,
        out: &mut Out<'_>,
    ) -> Result<(), ViError> {
        let unasked = ViError::Protocol("an answer to no request");
        let posted = self.asked.remove(&id).ok_or(unasked)?;
        match result {
            Ok(()) => {
                let (len, tag) = (posted.descriptor().len(), posted.descriptor().tag());
                posted.complete(len, tag, out.notices);
            }
            Err(why) => posted.fail(why.into(), out.notices),
        }
        Ok(())
    }

    /// Takes back what has not begun.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        for queue in [&mut self.waiting, &mut self.reads] {
            if let Some(at) = queue.iter().position(|posted| posted.ticket() == ticket) {
                return queue.remove(at);
            }
        }
        None
    }

    /// Everything that is not back, in the order it was posted.
    pub(super) fn drain(&mut self) -> Vec<Posted> {
        let mut all: Vec<Posted> = self.sent.drain(..).map(|sent| sent.posted).collect();
        all.extend(self.current.take().map(|current| current.posted));
        all.extend(self.waiting.drain(..));
        all.extend(self.reads.drain(..));
        all.extend(std::mem::take(&mut self.asked).into_values());
        all.sort_by_key(Posted::ticket);
        all
    }
}

/// The next bytes of a descriptor, at most a chunk.
fn piece(posted: &Posted, offset: u64) -> Arc<[u8]> {
    let left = posted.descriptor().len() - offset;
    let mut bytes = vec![0; usize::try_from(left).unwrap_or(CHUNK).min(CHUNK)];
    posted.descriptor().gather(offset, &mut bytes);
    bytes.into()
}
