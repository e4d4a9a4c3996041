//! The sending half of one end: descriptors in, slots out.
//!
//! A send begins when the peer has a receive posted for it and the ring has
//! room. Bytes that lie in a shareable region stay there: the slot names the
//! place and the peer fetches them, and so do many bytes that lie elsewhere, if
//! the peer can [reach](super::reach) them. A few bytes travel in the slot. Others
//! go through the bounce area, a piece at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::BorrowedFd;

use super::commons::{Commons, Handed};
use super::fault::{Fault, planted};
use super::io::{Io, tell};
use super::layout::{BOUNCE, CHUNK, CHUNKS, DEPTH, REGIONS_MAX, SLOTS};
use super::reach;
use super::rendezvous::Message;
use super::ring::Producer;
use super::wire::{INLINE, Place, Slot, Small, Words};
use crate::buf::Region;
use crate::fabric::hub::counts::Counts;
use crate::fabric::outbox::{Answer, Outbox, Outgoing};
use crate::vi::{Op, Posted, Reliability, ViError};

#[derive(Debug)]
pub(super) struct Sender {
    ring: Producer,
    /// Slots put, ever.
    slots: u64,
    /// Which slots name the pieces of the bounce area that are in use.
    bounced: VecDeque<u64>,
    bounces: usize,
    /// Regions the peer was told of, with their numbers. They stay mapped, so
    /// that no other can have their place.
    regions: BTreeMap<usize, (u32, Region)>,
    /// The region that was named last, and its number.
    last_region: Option<(usize, u32)>,
    kinds: BTreeSet<u64>,
    pub outbox: Outbox,
    /// Whether the peer executes the current write, and the last that it does.
    executes: bool,
    written: Option<u64>,
    /// How far the peer is.
    pub peer: Counts,
}

impl Sender {
    pub(super) fn new(level: Reliability, ring: Producer) -> Self {
        Self {
            ring,
            slots: 0,
            bounced: VecDeque::new(),
            bounces: 0,
            regions: BTreeMap::new(),
            last_region: None,
            kinds: BTreeSet::new(),
            outbox: Outbox::new(level),
            executes: false,
            written: None,
            peer: Counts::default(),
        }
    }

    /// Takes a descriptor, and puts what can be put. Whether something was.
    #[inline]
    pub(super) fn push(&mut self, posted: Posted, counts: Counts, io: &mut Io<'_>) -> bool {
        let is_first = !self.outbox.has_more() && self.may_begin(&posted);
        let commons = io.commons.as_deref();
        if is_first && !must_wait(&self.outbox, self.written, &posted, commons) {
            if let Some((head, words)) = small(&posted, counts) {
                self.ring.put(head, &words);
                self.outbox.messages += 1;
                let len = posted.descriptor().len();
                self.went(posted, len);
                self.slots += 1;
                return true;
            }
            let Some(slot) = self.begin(posted, io) else { return false };
            self.put(slot, counts);
            if self.outbox.has_more() {
                self.pump(counts, io);
            }
            return true;
        }
        self.outbox.push(posted);
        self.pump(counts, io)
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.slots - self.peer.taken < SLOTS as u64
    }

    /// Whether a send or a write has all it takes to begin.
    #[inline]
    pub(super) fn may_begin(&self, posted: &Posted) -> bool {
        self.has_room() && self.outbox.may_begin(posted, self.receives())
    }

    /// Receives to count on: at the unreliable level there is no waiting for one.
    #[inline]
    fn receives(&self) -> u64 {
        if self.outbox.level().is_reliable() { self.peer.receives } else { u64::MAX }
    }

    #[inline]
    fn put(&mut self, slot: Slot, counts: Counts) {
        let (head, words) = slot.encode(counts);
        self.ring.put(head, &words);
        self.slots += 1;
    }

    pub(super) fn answer(&mut self, answer: Answer) -> Result<(), Box<ViError>> {
        if self.outbox.answers.len() >= DEPTH as usize {
            return Err(ViError::Protocol("more requests than may be outstanding").into());
        }
        self.outbox.answers.push_back(answer);
        Ok(())
    }

    /// Puts what the ring, the bounce area and the peer's receives allow.
    pub(super) fn pump(&mut self, counts: Counts, io: &mut Io<'_>) -> bool {
        let before = self.slots;
        while self.has_room() {
            let Some(slot) = self.next(io) else { break };
            self.put(slot, counts);
        }
        self.slots != before
    }

    fn next(&mut self, io: &mut Io<'_>) -> Option<Slot> {
        if let Some(answer) = self.outbox.answers.pop_front() {
            return self.next_of_answer(answer, io);
        }
        if let Some((id, from, len)) = self.outbox.next_read() {
            return Some(Slot::Read { id, secret: from.key.secret(), offset: from.offset, len });
        }
        if let Some(current) = self.outbox.current.take() {
            return self.next_of(current, io);
        }
        let (receives, written) = (self.receives(), self.written);
        loop {
            let commons = io.commons.as_deref();
            let posted = self.outbox.next_waiting(|outbox, next| {
                outbox.may_begin(next, receives) && !must_wait(outbox, written, next, commons)
            })?;
            let slot = self.begin(posted, io);
            if slot.is_some() {
                return slot;
            }
        }
    }

    /// Begins what was posted. `None`: it is done.
    fn begin(&mut self, mut posted: Posted, io: &mut Io<'_>) -> Option<Slot> {
        let descriptor = posted.descriptor();
        let (len, tag) = (descriptor.len(), descriptor.tag());
        if let Op::Write { to, notify } = *posted.op() {
            let direct = io.commons.as_deref_mut().map(|commons| &mut commons.direct);
            let done = direct.is_some_and(|direct| direct.write(&to, descriptor));
            if done && !notify {
                posted.complete(len, tag, io.notices);
                return None;
            }
            self.outbox.messages += u64::from(notify);
            self.executes = !done;
            // What is there already needs but its notice: a write of nothing has it.
            let (offset, len) = if done { (len, 0) } else { (0, len) };
            self.outbox.current = Some(Outgoing { posted, offset });
            return Some(Slot::Write { secret: to.key.secret(), offset: to.offset, len });
        }
        self.outbox.messages += 1;
        let kind = descriptor.kind().map(|kind| {
            let is_new = !self.kinds.contains(&kind.fingerprint);
            if is_new && io.tell(&Message::Kind(kind.clone()), &[]) {
                self.kinds.insert(kind.fingerprint);
            }
            kind.fingerprint
        });
        let slot = match self.handed(&mut posted, io) {
            Some(handed) => Slot::HandOver { tag, kind, handed },
            None => match self.placed(&posted, io) {
                Some(bytes) => Slot::Message { tag, kind, bytes },
                None => {
                    self.outbox.current = Some(Outgoing { posted, offset: 0 });
                    return Some(Slot::Begin { tag, kind, len });
                }
            },
        };
        self.went(posted, len);
        Some(slot)
    }

    /// The buffer of a hand-over, if it can change hands; otherwise it is sent
    /// like any other.
    #[inline]
    fn handed(&mut self, posted: &mut Posted, io: &mut Io<'_>) -> Option<Handed> {
        if !posted.gives() {
            return None;
        }
        let commons = io.commons.as_deref_mut()?;
        let buf = posted.descriptor_mut().take_buf()?;
        let control = io.control;
        let tell = |message: &Message, fd: BorrowedFd<'_>| tell(control, message, &[fd]);
        commons.give(buf, tell).map_err(|buf| posted.descriptor_mut().put_buf(buf)).ok()
    }

    /// Where all of a message lies, if that is one place.
    fn placed(&mut self, posted: &Posted, io: &mut Io<'_>) -> Option<Place> {
        let descriptor = posted.descriptor();
        if descriptor.len() <= INLINE as u64 {
            let len = usize::try_from(descriptor.len()).expect("a few bytes");
            return Some(Place::inline(|to| descriptor.gather(0, to), len));
        }
        if descriptor.segment_count() > 1 {
            return None;
        }
        let found = self.in_region(posted, 0, io).or_else(|| self.in_process(posted, 0, io));
        found.map(|(place, _)| place)
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

    /// The same, if the peer can read it in this process.
    fn in_process(&self, posted: &Posted, offset: u64, io: &Io<'_>) -> Option<(Place, u64)> {
        let (at, len) = reach::place(posted.descriptor(), offset)?;
        let offered = self.outbox.level().is_reliable() && reach::is_offered(io.foreign);
        offered.then_some((Place::Process { at, len }, len))
    }

    /// The number of a region, which the peer is told of before its first use.
    #[inline]
    fn announced(&mut self, region: &Region, io: &Io<'_>) -> Option<u32> {
        match self.last_region {
            Some((id, number)) if id == region.id() => Some(number),
            _ => {
                let number = self.announce(region, io)?;
                self.last_region = Some((region.id(), number));
                Some(number)
            }
        }
    }

    #[cold]
    fn announce(&mut self, region: &Region, io: &Io<'_>) -> Option<u32> {
        let fd = match region.fd() {
            None if planted(Fault::FileForAll) => region.cooperating_fd()?,
            fd => fd?,
        };
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
            let id = self.outbox.ask(posted);
            self.written = if self.executes { Some(id) } else { self.written };
            return Some(Slot::WriteEnd { id, notify: notify.then_some(tag) });
        }
        let Some((bytes, n)) = self.piece(&posted, offset, io) else {
            self.outbox.current = Some(Outgoing { posted, offset });
            return None;
        };
        if offset + n == len && matches!(posted.op(), Op::Send) {
            self.went(posted, len);
        } else {
            self.outbox.current = Some(Outgoing { posted, offset: offset + n });
        }
        Some(Slot::Piece { bytes })
    }

    /// The next piece of a message: in place, in the slot, or by the bounce area.
    fn piece(&mut self, posted: &Posted, offset: u64, io: &mut Io<'_>) -> Option<(Place, u64)> {
        let in_region = self.in_region(posted, offset, io);
        if let Some(found) = in_region.or_else(|| self.in_process(posted, offset, io)) {
            return Some(found);
        }
        let left = reach::run(posted.descriptor(), offset);
        if left <= INLINE as u64 {
            let len = usize::try_from(left).expect("a few bytes");
            let place = Place::inline(|to| posted.descriptor().gather(offset, to), len);
            return Some((place, left));
        }
        let n = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let at = self.bounce()?;
        io.gather(at, posted.descriptor(), offset, n);
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

    /// Notes that the slot about to be put is the last of a send of so many bytes,
    /// which a hand-over has no more.
    #[inline]
    fn went(&mut self, posted: Posted, len: u64) {
        let len = if planted(Fault::HandedLength) { posted.descriptor().len() } else { len };
        self.outbox.went(posted, len, self.slots);
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
                    self.outbox.answers.push_front(answer);
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
                self.outbox.answers.push_front(Answer::Read { id, from, len, offset });
                let bytes = Place::Bounce { offset: at as u64, len: n as u64 };
                Some(Slot::ReadPiece { id, bytes })
            }
            Answer::ReadEnd { id, result } => Some(Slot::ReadEnd { id, result }),
            Answer::Written { id, result } => Some(Slot::Written { id, result }),
        }
    }

    /// The peer says how far it is. What it cannot be is a lie.
    #[inline]
    pub(super) fn hear(&mut self, peer: Counts, io: &mut Io<'_>) -> Result<(), Box<ViError>> {
        if peer == self.peer {
            return Ok(());
        }
        if peer.taken > self.slots || peer.placed > self.outbox.messages {
            return Err(ViError::Protocol("it has taken what was never sent").into());
        }
        self.peer.taken = self.peer.taken.max(peer.taken);
        self.peer.receives = self.peer.receives.max(peer.receives);
        self.peer.placed = self.peer.placed.max(peer.placed);
        self.outbox.heard(self.peer.taken, self.peer.placed, io.notices);
        Ok(())
    }
}

/// Whether a write that needs nobody must wait for others, up to `written`, that
/// the peer executes.
#[inline]
fn must_wait(
    outbox: &Outbox,
    written: Option<u64>,
    posted: &Posted,
    commons: Option<&Commons>,
) -> bool {
    let (Op::Write { to, .. }, Some(commons)) = (posted.op(), commons) else { return false };
    written.is_some_and(|id| outbox.has_asked(id))
        && commons.direct.leads_to(to, posted.descriptor().len())
        && !planted(Fault::WriteOvertakes)
}

/// The words of a send of one small segment without a type.
#[inline]
fn small(posted: &Posted, counts: Counts) -> Option<Words> {
    let descriptor = posted.descriptor();
    let simple = matches!(posted.op(), Op::Send) && descriptor.kind().is_none() && !posted.gives();
    let bytes = Some(descriptor.bytes()).filter(|bytes| bytes.len() <= INLINE)?;
    let whole = simple && descriptor.segment_count() == 1;
    whole.then(|| Small::encode(descriptor.tag(), bytes, counts))
}
