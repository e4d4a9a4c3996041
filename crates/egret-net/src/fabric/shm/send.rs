//! The sending half of one end: descriptors in, slots out.
//!
//! A send begins when the peer has a receive posted for it and the ring has
//! room. Bytes that lie in a shareable region stay there: the slot names the
//! place and the peer fetches them. A few bytes travel in the slot. Others go
//! through the bounce area, a piece at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::datapath::Io;
use super::layout::{BOUNCE, CHUNK, CHUNKS, DEPTH, REGIONS_MAX, SLOTS};
use super::memory::Own;
use super::rendezvous::Message;
use super::ring::Producer;
use super::wire::{Counts, INLINE, Place, Slot};
use crate::buf::Region;
use crate::vi::{AccessError, Descriptor, Op, Posted, Reliability, RemoteSlice, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Sender {
    level: Reliability,
    ring: Producer,
    /// Slots put, ever.
    slots: u64,
    /// Which slots name the pieces of the bounce area that are in use.
    bounced: VecDeque<u64>,
    bounces: usize,
    /// Regions the peer was told of, with their numbers. They stay mapped, so
    /// that no other can have their place.
    regions: BTreeMap<usize, (u32, Region)>,
    kinds: BTreeSet<u64>,
    waiting: VecDeque<Posted>,
    reads: VecDeque<Posted>,
    current: Option<Outgoing>,
    sent: VecDeque<Sent>,
    asked: BTreeMap<u64, Posted>,
    answers: VecDeque<Answer>,
    next_id: u64,
    /// Messages begun, ever: each uses up one of the peer's receives.
    messages: u64,
    pub peer: Peer,
    pub completed: u64,
}

/// How far the peer is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peer {
    pub taken: u64,
    pub receives: u64,
    pub placed: u64,
}

#[derive(Debug)]
struct Outgoing {
    posted: Posted,
    offset: u64,
}

#[derive(Debug)]
struct Sent {
    posted: Posted,
    last_slot: u64,
    message: u64,
}

/// What the peer is owed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    Read { id: u64, from: RemoteSlice, len: u64, offset: u64 },
    ReadEnd { id: u64, result: Result<(), AccessError> },
    Written { id: u64, result: Result<(), AccessError> },
}

impl Sender {
    pub(super) fn new(level: Reliability, ring: Producer) -> Self {
        Self {
            level,
            ring,
            slots: 0,
            bounced: VecDeque::new(),
            bounces: 0,
            regions: BTreeMap::new(),
            kinds: BTreeSet::new(),
            waiting: VecDeque::new(),
            reads: VecDeque::new(),
            current: None,
            sent: VecDeque::new(),
            asked: BTreeMap::new(),
            answers: VecDeque::new(),
            next_id: 0,
            messages: 0,
            peer: Peer::default(),
            completed: 0,
        }
    }

    /// Descriptors that are not back yet.
    pub(super) fn outstanding(&self) -> usize {
        let current = usize::from(self.current.is_some());
        self.waiting.len() + self.reads.len() + current + self.sent.len() + self.asked.len()
    }

    /// Whether the peer's counts could set something free.
    pub(super) fn is_waiting(&self) -> bool {
        !self.sent.is_empty()
            || !self.waiting.is_empty()
            || self.current.is_some()
            || !self.answers.is_empty()
            || !self.reads.is_empty()
    }

    pub(super) fn push(&mut self, posted: Posted, counts: Counts, io: &mut Io<'_>) {
        match posted.op() {
            Op::Read(_) => self.reads.push_back(posted),
            _ => self.waiting.push_back(posted),
        }
        self.pump(counts, io);
    }

    pub(super) fn answer(&mut self, answer: Answer) -> Result<(), ViError> {
        if self.answers.len() >= DEPTH as usize {
            return Err(ViError::Protocol("more requests than may be outstanding"));
        }
        self.answers.push_back(answer);
        Ok(())
    }

    /// Puts what the ring, the bounce area and the peer's receives allow.
    pub(super) fn pump(&mut self, counts: Counts, io: &mut Io<'_>) -> bool {
        let before = self.slots;
        while self.slots - self.peer.taken < SLOTS as u64 {
            let Some(slot) = self.next(io) else { break };
            let (head, words) = slot.encode(counts);
            self.ring.put(head, &words);
            self.slots += 1;
        }
        self.slots != before
    }

    fn next(&mut self, io: &mut Io<'_>) -> Option<Slot> {
        if let Some(answer) = self.answers.pop_front() {
            return self.next_of_answer(answer, io);
        }
        if let Some(read) = self.reads.pop_front() {
            return Some(self.begin_read(read));
        }
        if let Some(current) = self.current.take() {
            return self.next_of(current, io);
        }
        let may_begin = match self.waiting.front()?.op() {
            Op::Write { notify: false, .. } => true,
            _ => self.level == Reliability::Unreliable || self.messages < self.peer.receives,
        };
        let posted = if may_begin { self.waiting.pop_front()? } else { return None };
        Some(self.begin(posted, io))
    }

    fn begin(&mut self, posted: Posted, io: &mut Io<'_>) -> Slot {
        let descriptor = posted.descriptor();
        let (len, tag) = (descriptor.len(), descriptor.tag());
        if let Op::Write { to, notify } = posted.op() {
            self.messages += u64::from(*notify);
            let slot = Slot::Write { secret: to.key.secret(), offset: to.offset, len };
            self.current = Some(Outgoing { posted, offset: 0 });
            return slot;
        }
        self.messages += 1;
        let kind = descriptor.kind().map(|kind| {
            if self.kinds.insert(kind.fingerprint) {
                io.tell(&Message::Kind(kind.clone()), &[]);
            }
            kind.fingerprint
        });
        let slot = match self.whole(&posted, io) {
            Some(bytes) => Slot::Message { tag, kind, bytes },
            None => {
                self.current = Some(Outgoing { posted, offset: 0 });
                return Slot::Begin { tag, kind, len };
            }
        };
        self.went(posted);
        slot
    }

    /// Where all of a message lies, if that is one place.
    fn whole(&mut self, posted: &Posted, io: &mut Io<'_>) -> Option<Place> {
        let descriptor = posted.descriptor();
        if descriptor.len() <= INLINE as u64 {
            let len = usize::try_from(descriptor.len()).expect("a few bytes");
            return Some(Place::inline(|to| descriptor.gather(0, to), len));
        }
        if descriptor.segment_count() > 1 {
            return None;
        }
        self.in_region(posted, 0, io).map(|(place, _)| place)
    }

    /// The place of the segment at `offset` of the message, from there to its
    /// end, if the peer can read it there.
    fn in_region(&mut self, posted: &Posted, offset: u64, io: &mut Io<'_>) -> Option<(Place, u64)> {
        let mut skip = offset;
        for segment in posted.descriptor().segments() {
            if skip >= segment.len() {
                skip -= segment.len();
                continue;
            }
            let (region, start) = segment.place()?;
            let number = self.announced(region, io)?;
            let len = segment.len() - skip;
            let offset = start as u64 + skip;
            return Some((Place::Region { number: number.into(), offset, len }, len));
        }
        None
    }

    /// The number of a region, which the peer is told of before its first use.
    fn announced(&mut self, region: &Region, io: &Io<'_>) -> Option<u32> {
        let fd = region.fd()?;
        if let Some((number, _)) = self.regions.get(&region.id()) {
            return Some(*number);
        }
        let number = u32::try_from(self.regions.len()).ok().filter(|n| *n < REGIONS_MAX)?;
        io.tell(&Message::Region { number }, &[fd]).then(|| {
            self.regions.insert(region.id(), (number, region.clone()));
            number
        })
    }

    fn next_of(&mut self, current: Outgoing, io: &mut Io<'_>) -> Option<Slot> {
        let Outgoing { posted, offset } = current;
        let len = posted.descriptor().len();
        if offset == len {
            let Op::Write { notify, .. } = *posted.op() else {
                unreachable!("a send is gone by now")
            };
            let tag = posted.descriptor().tag();
            let id = self.ask(posted);
            return Some(Slot::WriteEnd { id, notify: notify.then_some(tag) });
        }
        let Some((bytes, n)) = self.piece(&posted, offset, io) else {
            self.current = Some(Outgoing { posted, offset });
            return None;
        };
        if offset + n == len && matches!(posted.op(), Op::Send) {
            self.went(posted);
        } else {
            self.current = Some(Outgoing { posted, offset: offset + n });
        }
        Some(Slot::Piece { bytes })
    }

    /// The next piece of a message: in place, in the slot, or by the bounce area.
    fn piece(&mut self, posted: &Posted, offset: u64, io: &mut Io<'_>) -> Option<(Place, u64)> {
        if let Some(found) = self.in_region(posted, offset, io) {
            return Some(found);
        }
        let left = posted.descriptor().len() - offset;
        if left <= INLINE as u64 {
            let len = usize::try_from(left).expect("a few bytes");
            let place = Place::inline(|to| posted.descriptor().gather(offset, to), len);
            return Some((place, left));
        }
        let n = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let at = self.bounce()?;
        gather_into(io.own, at, posted.descriptor(), offset, n);
        Some((Place::Bounce { offset: at as u64, len: n as u64 }, n as u64))
    }

    /// The next piece of the bounce area, if it is free.
    fn bounce(&mut self) -> Option<usize> {
        while self.bounced.front().is_some_and(|slot| *slot < self.peer.taken) {
            self.bounced.pop_front();
        }
        if self.bounced.len() == CHUNKS {
            return None;
        }
        let at = BOUNCE + self.bounces % CHUNKS * CHUNK;
        self.bounces += 1;
        self.bounced.push_back(self.slots);
        Some(at)
    }

    /// Notes that the slot about to be put is a send's last.
    fn went(&mut self, posted: Posted) {
        let (last_slot, message) = (self.slots, self.messages);
        self.sent.push_back(Sent { posted, last_slot, message });
    }

    fn begin_read(&mut self, posted: Posted) -> Slot {
        let Op::Read(from) = *posted.op() else { unreachable!("only reads are queued there") };
        let len = posted.descriptor().len();
        let id = self.ask(posted);
        Slot::Read { id, secret: from.key.secret(), offset: from.offset, len }
    }

    fn ask(&mut self, posted: Posted) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, posted);
        id
    }

    /// The next slot of an answer; what is left of it goes back to the front.
    fn next_of_answer(&mut self, answer: Answer, io: &mut Io<'_>) -> Option<Slot> {
        match answer {
            Answer::Read { id, len, offset, .. } if offset == len => {
                Some(Slot::ReadEnd { id, result: Ok(()) })
            }
            Answer::Read { id, from, len, offset } => {
                let n = usize::try_from(len - offset).unwrap_or(CHUNK).min(CHUNK);
                let Some(at) = self.bounce() else {
                    self.answers.push_front(answer);
                    return None;
                };
                let place = from.key.at(from.offset + offset);
                let mut bytes = vec![0; n];
                // The key may have been revoked since the read was admitted.
                if let Err(why) = io.keys.read(&place, &mut bytes) {
                    return Some(Slot::ReadEnd { id, result: Err(why) });
                }
                io.own.copy_in(at, &bytes);
                let offset = offset + n as u64;
                self.answers.push_front(Answer::Read { id, from, len, offset });
                let bytes = Place::Bounce { offset: at as u64, len: n as u64 };
                Some(Slot::ReadPiece { id, bytes })
            }
            Answer::ReadEnd { id, result } => Some(Slot::ReadEnd { id, result }),
            Answer::Written { id, result } => Some(Slot::Written { id, result }),
        }
    }

    /// The peer says how far it is. What it cannot be is a lie.
    pub(super) fn hear(&mut self, peer: Peer, io: &mut Io<'_>) -> Result<(), ViError> {
        if peer.taken > self.slots || peer.placed > self.messages {
            return Err(ViError::Protocol("it has taken what was never sent"));
        }
        self.peer.taken = self.peer.taken.max(peer.taken);
        self.peer.receives = self.peer.receives.max(peer.receives);
        self.peer.placed = self.peer.placed.max(peer.placed);
        while let Some(Sent { last_slot, message, .. }) = self.sent.front() {
            let done = match self.level {
                Reliability::Reception => *message <= self.peer.placed,
                _ => *last_slot < self.peer.taken,
            };
            let Some(sent) = done.then(|| self.sent.pop_front()).flatten() else { break };
            let (len, tag) = (sent.posted.descriptor().len(), sent.posted.descriptor().tag());
            self.completed += 1;
            sent.posted.complete(len, tag, io.notices);
        }
        Ok(())
    }

    /// The memory of a read that is being answered.
    pub(super) fn read_mut(&mut self, id: u64) -> Result<&mut Posted, ViError> {
        let read = self.asked.get_mut(&id).filter(|posted| matches!(posted.op(), Op::Read(_)));
        read.ok_or(ViError::Protocol("an answer to no read"))
    }

    /// A read or write was answered.
    pub(super) fn answered(
        &mut self,
        id: u64,
        result: Result<(), AccessError>,
        io: &mut Io<'_>,
    ) -> Result<(), ViError> {
        let unasked = ViError::Protocol("an answer to no request");
        let posted = self.asked.remove(&id).ok_or(unasked)?;
        match result {
            Ok(()) => {
                let (len, tag) = (posted.descriptor().len(), posted.descriptor().tag());
                posted.complete(len, tag, io.notices);
            }
            Err(why) => posted.fail(why.into(), io.notices),
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

/// Copies `n` bytes of a descriptor from `offset` on to byte `at` of our memory.
fn gather_into(own: &Own, mut at: usize, descriptor: &Descriptor, offset: u64, n: usize) {
    let (mut skip, mut left) = (offset, n);
    for segment in descriptor.segments() {
        let bytes = segment.bytes();
        let passed = usize::try_from(skip).map_or(bytes.len(), |skip| skip.min(bytes.len()));
        skip -= passed as u64;
        let now = (bytes.len() - passed).min(left);
        own.copy_in(at, &bytes[passed..passed + now]);
        (at, left) = (at + now, left - now);
    }
    debug_assert!(left == 0, "the descriptor has these bytes");
}
