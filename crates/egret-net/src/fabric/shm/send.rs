//! The sending half of one end: descriptors in, records out.
//!
//! A send begins when the peer has a receive posted for it and the ring has
//! room. A few bytes travel in the record. Others that lie in a shareable region stay
//! there: the record names the place and the peer fetches them, and so do many bytes that
//! lie elsewhere, if the peer can [reach](super::process_memory) them. The rest goes through the
//! bounce area, a piece at a time.
//!
//! Repeated names: `Sender`, one in each fabric.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::BorrowedFd;

use super::cooperating::{CooperatingSegments, HandedBuffer};
use super::fault::{self, Fault, planted};
use super::layout::{BOUNCE, CHUNK, CHUNKS, DEPTH, REGIONS_MAX};
use super::process_memory;
use super::records::{self, POSTED_MAX, RingSender, lines_of};
use super::rendezvous::ControlMessage;
use super::transfer_context::{TransferContext, tell};
use super::wire::{DataPlace, INLINE, MESSAGE_AT, PostedItem};
use crate::buf::Region;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::outbox::{Outbox, OutgoingTransfer, OwedAnswer};
use crate::vi::{Op, Posted, Reliability, ViError};

#[derive(Debug)]
pub(super) struct Sender {
    ring: RingSender,
    /// The positions of the records that name the pieces of the bounce area that are in use.
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
    pub peer: ReceiveCounts,
}

impl Sender {
    pub(super) fn new(level: Reliability, ring: RingSender) -> Self {
        Self {
            ring,
            bounced: VecDeque::new(),
            bounces: 0,
            regions: BTreeMap::new(),
            last_region: None,
            kinds: BTreeSet::new(),
            outbox: Outbox::new(level),
            executes: false,
            written: None,
            peer: ReceiveCounts::default(),
        }
    }

    /// Takes a descriptor, and puts what can be put. Whether something was.
    #[inline]
    pub(super) fn push(
        &mut self,
        posted: Posted,
        counts: ReceiveCounts,
        io: &mut TransferContext<'_>,
    ) -> bool {
        let is_first = !self.outbox.has_more() && self.may_begin(&posted);
        let cooperating = io.cooperating.as_deref();
        if !is_first || must_wait(&self.outbox, self.written, &posted, cooperating) {
            self.outbox.push(posted);
            return self.pump(counts, io);
        }
        if let Some(bytes) = small(&posted) {
            self.put_message(posted.descriptor().tag(), bytes, counts);
            self.outbox.messages += 1;
            let len = bytes.len() as u64;
            self.went(posted, len);
            return true;
        }
        let put = self.begin(posted, counts, io);
        if self.outbox.has_more() {
            self.pump(counts, io);
        }
        put
    }

    /// Whether a send or a write has all it takes to begin.
    #[inline]
    pub(super) fn may_begin(&self, posted: &Posted) -> bool {
        let is_short = posted.descriptor().len() <= (records::INLINE - MESSAGE_AT) as u64;
        let lines = if is_short { 1 } else { ROOM };
        self.ring.has_room(lines) && self.outbox.may_begin(posted, self.receives())
    }

    /// Lines that the peer is not done with, as far as it was heard.
    #[inline]
    pub(super) fn lines_under_way(&self) -> u64 {
        self.ring.position() - self.peer.taken
    }

    /// Receives to count on: at the unreliable level there is no waiting for one.
    #[inline]
    fn receives(&self) -> u64 {
        if self.outbox.level().is_reliable() { self.peer.receives } else { u64::MAX }
    }

    /// Puts a whole message without a type. There is room for it.
    #[inline]
    fn put_message(&mut self, tag: u64, bytes: &[u8], counts: ReceiveCounts) {
        let sent = self.ring.send(tag, &[&counts.pack().to_ne_bytes(), bytes]);
        debug_assert!(sent.is_ok(), "there was room: {sent:?}");
    }

    /// Puts an item, and the bytes that it has in its record. There is room for both.
    #[inline]
    fn put(&mut self, item: PostedItem, bytes: &[u8], counts: ReceiveCounts) {
        let words = item.encode(counts);
        let sent = match words.is_whole() {
            true => self.ring.send_words(words.what, &words.words),
            false => self.ring.send_item(words.what, &[words.bytes(), bytes]),
        };
        debug_assert!(sent.is_ok(), "there was room: {sent:?}");
    }

    pub(super) fn answer(&mut self, answer: OwedAnswer) -> Result<(), Box<ViError>> {
        self.outbox.owe(answer, DEPTH as usize)
    }

    /// Puts what the ring, the bounce area and the peer's receives allow.
    pub(super) fn pump(&mut self, counts: ReceiveCounts, io: &mut TransferContext<'_>) -> bool {
        let before = self.ring.position();
        while self.ring.has_room(ROOM) && self.put_next(counts, io) {}
        self.ring.position() != before
    }

    /// Puts one record, if there is one to put.
    fn put_next(&mut self, counts: ReceiveCounts, io: &mut TransferContext<'_>) -> bool {
        if let Some(answer) = self.outbox.answers.pop_front() {
            return self.put_answer(answer, counts, io);
        }
        if let Some((id, from, len)) = self.outbox.next_read() {
            let (secret, offset) = (from.key.secret(), from.offset);
            self.put(PostedItem::Read { id, secret, offset, len }, &[], counts);
            return true;
        }
        if let Some(current) = self.outbox.current.take() {
            return self.put_piece(current, counts, io);
        }
        let (receives, written) = (self.receives(), self.written);
        loop {
            let cooperating = io.cooperating.as_deref();
            let posted = self.outbox.next_waiting(|outbox, next| {
                outbox.may_begin(next, receives) && !must_wait(outbox, written, next, cooperating)
            });
            let Some(posted) = posted else { return false };
            if self.begin(posted, counts, io) {
                return true;
            }
        }
    }

    /// Begins what was posted. `false`: it is done, and there was nothing to put.
    fn begin(
        &mut self,
        mut posted: Posted,
        counts: ReceiveCounts,
        io: &mut TransferContext<'_>,
    ) -> bool {
        let descriptor = posted.descriptor();
        let (len, tag) = (descriptor.len(), descriptor.tag());
        if let Op::Write { to, notify } = *posted.op() {
            let direct = io.cooperating.as_deref_mut().map(|cooperating| &mut cooperating.direct);
            let done = direct.is_some_and(|direct| direct.write(&to, descriptor));
            if done && !notify {
                posted.complete(len, tag, io.notices);
                return false;
            }
            self.outbox.messages += u64::from(notify);
            self.executes = !done;
            // What is there already needs but its notice: a write of nothing has it.
            let (offset, len) = if done { (len, 0) } else { (0, len) };
            self.outbox.current = Some(OutgoingTransfer { posted, offset });
            self.put(
                PostedItem::Write { secret: to.key.secret(), offset: to.offset, len },
                &[],
                counts,
            );
            return true;
        }
        self.outbox.messages += 1;
        let kind = self.named(&posted, io);
        if let Some(handed) = self.handed(&mut posted, io) {
            self.put(PostedItem::HandOver { tag, kind, handed }, &[], counts);
        } else if len <= INLINE as u64 {
            with_bytes(&posted, 0, len, |bytes| match kind {
                None => self.put_message(tag, bytes, counts),
                Some(_) => {
                    let place = DataPlace::appended(bytes.len());
                    self.put(PostedItem::Message { tag, kind, bytes: place }, bytes, counts);
                }
            });
        } else if let Some(bytes) = self.placed(&posted, io) {
            self.put(PostedItem::Message { tag, kind, bytes }, &[], counts);
        } else {
            self.put(PostedItem::Begin { tag, kind, len }, &[], counts);
            self.outbox.current = Some(OutgoingTransfer { posted, offset: 0 });
            return true;
        }
        self.went(posted, len);
        true
    }

    /// What the elements of a message are. The peer is told the name before it is used.
    fn named(&mut self, posted: &Posted, io: &TransferContext<'_>) -> Option<u64> {
        let kind = posted.descriptor().kind()?;
        let is_new = !self.kinds.contains(&kind.fingerprint);
        if is_new && io.tell(&ControlMessage::Kind(kind.clone()), &[]) {
            self.kinds.insert(kind.fingerprint);
        }
        Some(kind.fingerprint)
    }

    /// The buffer of a hand-over, if it can change hands; otherwise it is sent
    /// like any other.
    #[inline]
    fn handed(
        &mut self,
        posted: &mut Posted,
        io: &mut TransferContext<'_>,
    ) -> Option<HandedBuffer> {
        if !posted.gives() {
            return None;
        }
        let cooperating = io.cooperating.as_deref_mut()?;
        let buf = posted.descriptor_mut().take_buf()?;
        let control = io.control;
        let tell = |message: &ControlMessage, fd: BorrowedFd<'_>| tell(control, message, &[fd]);
        cooperating.give(buf, tell).map_err(|buf| posted.descriptor_mut().put_buf(buf)).ok()
    }

    /// Where all of a message lies, if that is one place.
    fn placed(&mut self, posted: &Posted, io: &mut TransferContext<'_>) -> Option<DataPlace> {
        if posted.descriptor().segment_count() > 1 {
            return None;
        }
        let found = self.in_region(posted, 0, io).or_else(|| self.in_process(posted, 0, io));
        found.map(|(place, _)| place)
    }

    /// The place of the segment at `offset` of the message, from there to its
    /// end, if the peer can read it there.
    fn in_region(
        &mut self,
        posted: &Posted,
        offset: u64,
        io: &mut TransferContext<'_>,
    ) -> Option<(DataPlace, u64)> {
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
            return Some((DataPlace::Region { number: number.into(), offset, len }, len));
        }
        None
    }

    /// The same, if the peer can read it in this process.
    fn in_process(
        &self,
        posted: &Posted,
        offset: u64,
        io: &TransferContext<'_>,
    ) -> Option<(DataPlace, u64)> {
        let (at, len) = process_memory::place(posted.descriptor(), offset)?;
        let offered = self.outbox.level().is_reliable() && process_memory::is_offered(io.foreign);
        offered.then_some((DataPlace::Process { at, len }, len))
    }

    /// The number of a region, which the peer is told of before its first use.
    #[inline]
    fn announced(&mut self, region: &Region, io: &TransferContext<'_>) -> Option<u32> {
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
    fn announce(&mut self, region: &Region, io: &TransferContext<'_>) -> Option<u32> {
        let fd = fd_for_all(region)?;
        if let Some((number, _)) = self.regions.get(&region.id()) {
            return Some(*number);
        }
        let number = u32::try_from(self.regions.len()).ok().filter(|n| *n < REGIONS_MAX)?;
        io.tell(&ControlMessage::Region { number }, &[fd]).then(|| {
            self.regions.insert(region.id(), (number, region.clone()));
            number
        })
    }

    /// Puts the next piece of what is under way, or the end of a write.
    fn put_piece(
        &mut self,
        current: OutgoingTransfer,
        counts: ReceiveCounts,
        io: &mut TransferContext<'_>,
    ) -> bool {
        let OutgoingTransfer { posted, offset } = current;
        let len = posted.descriptor().len();
        if offset == len {
            let Op::Write { notify, .. } = *posted.op() else {
                unreachable!("a send is gone by now")
            };
            let tag = posted.descriptor().tag();
            let id = self.outbox.ask(posted);
            self.written = if self.executes { Some(id) } else { self.written };
            self.put(PostedItem::WriteEnd { id, notify: notify.then_some(tag) }, &[], counts);
            return true;
        }
        let Some(bytes) = self.piece(&posted, offset, io) else {
            self.outbox.current = Some(OutgoingTransfer { posted, offset });
            return false;
        };
        let (item, n) = (PostedItem::Piece { bytes }, bytes.len());
        match bytes {
            DataPlace::Inline { .. } => {
                with_bytes(&posted, offset, n, |bytes| self.put(item, bytes, counts));
            }
            _ => self.put(item, &[], counts),
        }
        if offset + n == len && matches!(posted.op(), Op::Send) {
            self.went(posted, len);
        } else {
            self.outbox.current = Some(OutgoingTransfer { posted, offset: offset + n });
        }
        true
    }

    /// The next piece of a message: in place, in the record, or by the bounce area.
    fn piece(
        &mut self,
        posted: &Posted,
        offset: u64,
        io: &mut TransferContext<'_>,
    ) -> Option<DataPlace> {
        let in_region = self.in_region(posted, offset, io);
        if let Some((place, _)) = in_region.or_else(|| self.in_process(posted, offset, io)) {
            return Some(place);
        }
        let left = process_memory::run(posted.descriptor(), offset);
        if left <= INLINE as u64 {
            return Some(DataPlace::appended(usize::try_from(left).expect("a few bytes")));
        }
        let n = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        let at = self.bounce()?;
        io.gather(at, posted.descriptor(), offset, n);
        Some(DataPlace::Bounce { offset: at as u64, len: n as u64 })
    }

    /// The next piece of the bounce area, if it is free.
    fn bounce(&mut self) -> Option<usize> {
        while self.bounced.front().is_some_and(|position| *position < self.peer.taken) {
            self.bounced.pop_front();
        }
        if self.bounced.len() == CHUNKS {
            return None;
        }
        let at = BOUNCE + self.bounces % CHUNKS * CHUNK;
        self.bounces += 1;
        self.bounced.push_back(self.ring.position());
        Some(at)
    }

    /// Notes that the record put last is the last of a send of so many bytes, which a hand-over
    /// has no more.
    #[inline]
    fn went(&mut self, posted: Posted, len: u64) {
        let len = fault::len_sent(len, &posted);
        self.outbox.went(posted, len, self.ring.position() - 1);
    }

    /// Puts the next record of an answer; what is left of it goes back to the front.
    fn put_answer(
        &mut self,
        answer: OwedAnswer,
        counts: ReceiveCounts,
        io: &mut TransferContext<'_>,
    ) -> bool {
        let item = match answer {
            OwedAnswer::Read { id, len, offset, .. } if offset == len => {
                PostedItem::ReadEnd { id, result: Ok(()) }
            }
            OwedAnswer::Read { .. } => return self.put_read(answer, counts, io),
            OwedAnswer::ReadEnd { id, result } => PostedItem::ReadEnd { id, result },
            OwedAnswer::Written { id, result } => PostedItem::Written { id, result },
        };
        self.put(item, &[], counts);
        true
    }

    /// Puts the next bytes that a read asked for.
    fn put_read(
        &mut self,
        answer: OwedAnswer,
        counts: ReceiveCounts,
        io: &mut TransferContext<'_>,
    ) -> bool {
        let OwedAnswer::Read { id, from, len, offset } = answer else { return false };
        let left = usize::try_from(len - offset).unwrap_or(CHUNK);
        let is_inline = left <= INLINE;
        let n = if is_inline { left } else { left.min(CHUNK) };
        let bounce = if is_inline { None } else { self.bounce() };
        if !is_inline && bounce.is_none() {
            self.outbox.answers.push_front(answer);
            return false;
        }
        let mut bytes = vec![0; n];
        // The key may have been revoked since the read was admitted.
        if let Err(why) = io.keys.read(&from.key.at(from.offset + offset), &mut bytes) {
            self.put(PostedItem::ReadEnd { id, result: Err(why) }, &[], counts);
            return true;
        }
        match bounce {
            Some(at) => {
                io.own.copy_in(at, &bytes);
                let place = DataPlace::Bounce { offset: at as u64, len: n as u64 };
                self.put(PostedItem::ReadPiece { id, bytes: place }, &[], counts);
            }
            None => self.put(
                PostedItem::ReadPiece { id, bytes: DataPlace::appended(n) },
                &bytes,
                counts,
            ),
        }
        let offset = offset + n as u64;
        self.outbox.answers.push_front(OwedAnswer::Read { id, from, len, offset });
        true
    }

    /// Applies the peer's counts. Counts that cannot be are a protocol error.
    #[inline]
    pub(super) fn peer_counts(
        &mut self,
        peer: ReceiveCounts,
        io: &mut TransferContext<'_>,
    ) -> Result<(), Box<ViError>> {
        if peer == self.peer {
            return Ok(());
        }
        let taken = self.peer.taken.max(peer.taken);
        if peer.placed > self.outbox.messages || self.ring.hear(taken).is_err() {
            return Err(
                ViError::Protocol("an acknowledgement of frames that were never sent").into()
            );
        }
        self.peer.taken = taken;
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
    cooperating: Option<&CooperatingSegments>,
) -> bool {
    let (Op::Write { to, .. }, Some(cooperating)) = (posted.op(), cooperating) else {
        return false;
    };
    written.is_some_and(|id| outbox.has_asked(id))
        && cooperating.direct.leads_to(to, posted.descriptor().len())
        && !planted(Fault::WriteOvertakes)
}

/// The file of a region, if every peer may have it.
fn fd_for_all(region: &Region) -> Option<BorrowedFd<'_>> {
    if planted(Fault::FileForAll) { region.cooperating_fd() } else { region.fd() }
}

/// The bytes of a send of one small segment without a type.
#[inline]
fn small(posted: &Posted) -> Option<&[u8]> {
    let descriptor = posted.descriptor();
    let simple = matches!(posted.op(), Op::Send) && descriptor.kind().is_none() && !posted.gives();
    let whole = simple && descriptor.segment_count() == 1;
    Some(descriptor.bytes()).filter(|bytes| whole && bytes.len() <= INLINE)
}

/// Passes so many bytes of a descriptor, from `offset` on, in one row. They are few.
fn with_bytes(posted: &Posted, offset: u64, len: u64, body: impl FnOnce(&[u8])) {
    let descriptor = posted.descriptor();
    if descriptor.segment_count() == 1 && offset == 0 && descriptor.len() == len {
        return body(descriptor.bytes());
    }
    with_row(posted, offset, len, body);
}

/// The same of several segments: memory for the row is cleared before it is used.
#[inline(never)]
fn with_row(posted: &Posted, offset: u64, len: u64, body: impl FnOnce(&[u8])) {
    let mut row = [0; INLINE];
    let row = &mut row[..usize::try_from(len).expect("a few bytes")];
    posted.descriptor().gather(offset, row);
    body(row);
}

/// Lines that a record of any length, and what it skips, take at most.
const ROOM: u64 = 2 * lines_of(POSTED_MAX) - 1;
