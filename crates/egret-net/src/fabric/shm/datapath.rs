//! One end of a connection: post and poll.
//!
//! No clock, no thread, and no system call but the rare control message: a
//! post writes a record, a poll reads one. What travels in the common case of a
//! small message and its answer is one cache line each way: the record carries
//! the bytes and the counts.
//!
//! Posted messages have a ring of records of their own, beside those of the lanes. In one ring
//! with eager messages a posted message that waits for a receive would hold up the eager ones
//! behind it, and one that nobody drains the posted ones, unless all were copied out to wait
//! elsewhere, in memory without a bound. The price of the other ring is one load for each look, of
//! a line that stays in the cache until the peer writes it.
//!
//! The counts have a line of their own too, beside how much of the ring this end is done with, for
//! a peer that does not answer. It is written whenever records were taken, which costs little as long
//! as the peer does not read it: a line that was read has to be fetched back, and a record written
//! after it waits for that. So it is read when the ring, or the peer's receives, seem to be used
//! up, and when the peer has been [silent](SILENCE) for a while.
//!
//! Repeated names: `DataPath`, one in each fabric.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use super::cooperating::{CooperatingSegments, gate::GatePass};
use super::doorbell_socket::DoorbellError;
use super::eager::{EagerLanes, LanePosition, ShmDrain, UndrainedRecords};
use super::fault::{Fault, planted};
use super::foreign::ForeignMemory;
use super::layout::{CHUNK, LEFT, PIECE, PLACED, RECEIVES, REGION_MAX, RING, RING_LINES, TAKEN};
use super::parts::ConnectionParts;
use super::process_memory::PeerMemoryReader;
use super::records::{POSTED_WORDS, RingError, RingReceiver, RingSender, Scratch};
use super::recv::Receiver;
use super::rendezvous::{ControlMessage, ControlSocketError};
use super::send::Sender;
use super::transfer_context::{GONE, ISOLATED, TransferContext};
use super::wire::{DataPlace, PostedItem};
use crate::fabric::common::bytes::Malformed;
use crate::fabric::common::close_reason::CloseReason;
use crate::fabric::common::connection_end::OpenEnd;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::receives::Receives;
use crate::fabric::{Unposted, ViSpec};
use crate::vi::{
    Counters, Keys, Lane, Notices, Op, Position, PostError, Posted, Reply, Ticket, Trust, ViError,
    ViId,
};

#[derive(Debug)]
pub(super) struct DataPath {
    depth: u32,
    pub parts: ConnectionParts,
    /// `Some` if this side can read the memory of the peer's process.
    reach: Option<PeerMemoryReader>,
    pub(super) ring: RingReceiver,
    scratch: Scratch<POSTED_WORDS>,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) lanes: EagerLanes,
    /// Items in their order. The first waits for a receive, or for the next poll to copy the rest
    /// of its bytes. The peer's ring has no room for more items than this.
    waiting: VecDeque<WaitingItem>,
    /// Bytes that this poll may still copy.
    pub(super) bytes_left: u64,
    /// Lines of the peer's ring that this side is done with, ever, without gaps.
    taken: u64,
    /// The counts of this side that the peer knows, from a record or from the counts' line.
    published: ReceiveCounts,
    /// Polls since a record of the peer, or its counts' line, said something new.
    silence: u32,
    /// Whether the last poll found nothing to do, and this side began nothing since.
    pub is_quiet: bool,
    /// Whether a sink of the drain under way has answered a message.
    pub answers: bool,
    /// Whether the counts' line of the peer, and not a record, had the last news: then the peer
    /// receives without answering.
    counts_by_line: bool,
    pub(super) cooperating: Option<CooperatingSegments>,
    /// Why the peer closed, read before everything that it had sent was taken.
    pub(super) closed_by_peer: Option<Box<ViError>>,
    /// Completions and events that are to be delivered.
    pub notices: Notices,
}

/// An item that waits; `None` in the place of one that overtook the items in front of it.
#[derive(Debug)]
struct WaitingItem {
    item: Option<PostedItem>,
    /// The payload of the record, if the item has bytes there.
    record: Box<[u8]>,
    /// The position behind the record.
    behind: u64,
}

/// Records taken at one poll, so that no connection starves the others.
const BATCH: u64 = 64;
/// Polls without news from the peer after which its counts' line is read, and again whenever the
/// number has doubled: longer than a small answer takes.
const SILENCE: u32 = 256;
/// The same where the counts' line had the last news: a peer that receives and does not answer.
const SILENCE_OF_LISTENER: u32 = 4;
/// The same where many records are under way: the later the line is read, the more of them one
/// read completes.
const SILENCE_OF_MANY: u32 = 64;
/// Lines under way that are not many.
const FEW: u64 = 16;
/// Control messages read at once.
const CONTROL_AT_ONCE: usize = 64;
/// Control messages read for one item: more than a socket holds, so that those sent before the
/// item are among them, and a peer that sends without end is not waited for.
const CONTROL_PER_ITEM: usize = 2048;
const NO_MEMORY: ViError = ViError::Protocol("a region without its memory");

impl DataPath {
    /// `None` if the peer's memory is not as large as it must be, or the kernel
    /// lacks what cooperating takes.
    pub(super) fn new(spec: ViSpec, trust: Trust, parts: ConnectionParts) -> Option<Self> {
        let cooperating = match trust {
            Trust::Cooperating => {
                let process = parts.control.peer().pidfd()?;
                Some(CooperatingSegments::new(&parts.own, &parts.foreign, process, &parts.ringer)?)
            }
            Trust::Isolated => None,
        };
        let ConnectionParts { own, foreign, .. } = &parts;
        let (own, foreign) = (|| own.clone(), || foreign.clone());
        let sender = RingSender::new(own(), RING, RING_LINES, foreign(), TAKEN as u64).ok()?;
        let (first, lines) = (RING as u64, RING_LINES as u64);
        let ring = RingReceiver::new(foreign(), first, lines, own(), TAKEN).ok()?.of_posted();
        Some(Self {
            depth: spec.depth,
            sender: Sender::new(spec.reliability, sender),
            receiver: Receiver::new(spec.reliability),
            lanes: EagerLanes::new(spec, &parts.own, &parts.foreign)?,
            reach: PeerMemoryReader::offer(&parts.own, &parts.foreign, parts.control.peer()),
            parts,
            ring,
            scratch: Scratch::of_posted(),
            waiting: VecDeque::new(),
            bytes_left: 0,
            taken: 0,
            published: ReceiveCounts::default(),
            silence: 0,
            is_quiet: false,
            answers: false,
            counts_by_line: false,
            cooperating,
            closed_by_peer: None,
            notices: Notices::default(),
        })
    }

    /// The peer rang, which has ended the last sleep. An error: it will ring no more.
    pub(super) fn rung(&mut self) -> Result<(), DoorbellError> {
        let ConnectionParts { sleeper, cord, .. } = &mut self.parts;
        cord.rung(sleeper.sleeps())
    }

    /// Accepts a descriptor.
    #[inline]
    pub(super) fn post(&mut self, posted: Posted, keys: &Keys) -> Result<(), Unposted> {
        let receiving = matches!(posted.op(), Op::Recv);
        let outstanding = if receiving {
            self.receiver.incoming.outstanding()
        } else {
            self.sender.outbox.outstanding()
        };
        if outstanding >= self.depth as usize {
            return Err(Unposted::new(PostError::Full { depth: self.depth }, posted));
        }
        if receiving {
            // A peer that knows of no free receive sends nothing.
            let starved = self.published.receives == self.receiver.incoming.receives.placed;
            self.receiver.incoming.receives.push(posted);
            if starved {
                self.publish();
            }
        } else {
            if !self.sender.may_begin(&posted) {
                // The peer may have published more than was read. The next poll reports an error.
                let _ = self.read_peer_counts(keys);
            }
            let counts = self.counts();
            let (sender, _, mut io) = self.split(keys);
            if sender.push(posted, counts, &mut io) {
                self.published = counts;
                self.ring_bell();
            }
        }
        Ok(())
    }

    /// Writes the counts' line, if the counts have changed since the peer was told.
    #[inline]
    fn publish(&mut self) {
        let counts = self.counts();
        if counts != self.published {
            self.parts.own.word(PLACED).store(counts.placed, Release);
            self.parts.own.word(RECEIVES).store(counts.receives, Release);
            self.ring.release(counts.taken);
            self.published = counts;
            self.ring_bell();
        }
    }

    /// Whether an item waits for a receive.
    pub(super) fn is_held_up(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a poll could find something to do.
    #[inline(always)]
    pub(super) fn may_have_work(&self) -> bool {
        !self.is_quiet || self.ring.is_ready() || self.lanes.has_unannounced()
    }

    /// Whether a poll that has found nothing will find nothing until the peer writes something, or
    /// this side begins something.
    pub(super) fn can_be_quiet(&self) -> bool {
        let is_held_up =
            || self.is_held_up() || self.receiver.is_copying() || self.closed_by_peer.is_some();
        let has_lent = || self.cooperating.as_ref().is_some_and(CooperatingSegments::has_lent);
        // First what is so while a posted message is under way.
        !self.sender.outbox.is_waiting()
            && !self.lanes.is_awaited()
            && !is_held_up()
            && !has_lent()
            && self.notices.is_empty()
    }

    /// Whether the last poll left bytes that it could have copied to the next.
    pub(super) const fn is_unfinished(&self) -> bool {
        self.bytes_left == 0
    }

    /// Takes records, reads the peer's counts, puts records, and wakes the peer if there is
    /// something new for it to look at. Whether there was anything to do.
    #[inline]
    pub(super) fn poll(&mut self, keys: &Keys, thorough: bool) -> Result<bool, Box<ViError>> {
        let took = self.take_records(keys, PIECE)?;
        if !took && let Some(why) = self.closed_by_peer.take() {
            return Err(why);
        }
        if took {
            (self.silence, self.counts_by_line) = (0, false);
        } else if self.sender.outbox.is_waiting() {
            self.silence = self.silence.saturating_add(1);
            let most = match (self.counts_by_line, self.sender.lines_under_way()) {
                (false, _) => SILENCE,
                (true, ..FEW) => SILENCE_OF_LISTENER,
                (true, _) => SILENCE_OF_MANY,
            };
            let is_long = self.silence >= most && self.silence.is_power_of_two();
            if thorough || is_long {
                self.read_peer_counts(keys)?;
            }
        }
        let home = self.poll_returns(took);
        let mut put = false;
        if self.sender.outbox.has_more() {
            let counts = self.counts();
            let (sender, _, mut io) = self.split(keys);
            put = sender.pump(counts, &mut io);
            if put {
                self.published = counts;
                self.ring_bell();
            }
        }
        if took || thorough {
            self.publish();
        }
        Ok(took || put || home)
    }

    /// Takes back the buffers that the peer has dropped, also in a poll that took messages. Whether
    /// there were any.
    #[inline]
    fn poll_returns(&mut self, took: bool) -> bool {
        let is_late = took && planted(Fault::ReturnsLate);
        !is_late && self.cooperating.as_mut().is_some_and(CooperatingSegments::poll)
    }

    /// Wakes the peer if it sleeps. An error means that the peer is gone, which its control socket
    /// reports too.
    #[inline]
    pub(super) fn ring_bell(&mut self) {
        let _ = self.parts.ringer.ring();
    }

    #[inline]
    fn take_records(&mut self, keys: &Keys, bytes_max: u64) -> Result<bool, Box<ViError>> {
        self.bytes_left = bytes_max;
        let mut took = 0;
        while took < BATCH && self.may_take() && self.take_record(keys)? {
            took += 1;
        }
        Ok(took > 0)
    }

    #[inline]
    fn may_take(&self) -> bool {
        let is_over = planted(Fault::FarewellFirst) && self.closed_by_peer.is_some();
        self.bytes_left > 0 && !self.receiver.torn && !is_over
    }

    /// Takes the next record: a waiting one, or the next of the ring. `false` if there is none.
    #[inline]
    fn take_record(&mut self, keys: &Keys) -> Result<bool, Box<ViError>> {
        if self.receiver.is_copying() {
            let most = self.bytes_left.max(CHUNK as u64);
            let (_, receiver, mut io) = self.split(keys);
            let copied = receiver.copy_on(most, &mut io);
            self.bytes_left = self.bytes_left.saturating_sub(copied);
            return Ok(true);
        }
        if !self.waiting.is_empty() && self.take_waiting(keys)? {
            return Ok(true);
        }
        match self.next_record(keys)? {
            NextRecord::Nothing => Ok(false),
            NextRecord::Placed => {
                self.taken = self.ring.position();
                Ok(true)
            }
            NextRecord::Item(item) => self.take_any(item, keys),
        }
    }

    fn take_any(&mut self, item: PostedItem, keys: &Keys) -> Result<bool, Box<ViError>> {
        let behind = self.ring.position();
        if self.waiting.is_empty() && !self.receiver.holds_up(&item) {
            match self.apply(item, None, keys)? {
                // Only here: an item that ends the connection counts as not taken.
                None => self.taken = behind,
                rest => {
                    self.waiting.push_back(WaitingItem {
                        item: rest,
                        record: Box::default(),
                        behind,
                    });
                }
            }
            return Ok(true);
        }
        if behind - self.taken > RING_LINES as u64 {
            return Err(ViError::Protocol("more records than the ring has").into());
        }
        let item = if item.overtakes() { self.apply(item, None, keys)? } else { Some(item) };
        let record = self.kept_bytes(item);
        self.waiting.push_back(WaitingItem { item, record, behind });
        Ok(true)
    }

    /// What is in scratch, if an item that waits has its bytes there.
    fn kept_bytes(&self, item: Option<PostedItem>) -> Box<[u8]> {
        let place = item.and_then(|item| item.place().copied());
        let has_bytes = place.is_some_and(DataPlace::is_inline) && !planted(Fault::KeptForgotten);
        if has_bytes { self.scratch.payload().into() } else { Box::default() }
    }

    /// Takes the oldest waiting item, if it need not wait any more.
    #[cold]
    fn take_waiting(&mut self, keys: &Keys) -> Result<bool, Box<ViError>> {
        while let Some(front) = self.waiting.front() {
            if front.item.is_some_and(|item| self.receiver.holds_up(&item)) {
                break;
            }
            let Some(WaitingItem { item, record, behind }) = self.waiting.pop_front() else {
                break;
            };
            if let Some(item) = item
                && let Some(rest) = self.apply(item, Some(&record), keys)?
            {
                self.waiting.push_front(WaitingItem { item: Some(rest), record, behind });
                return Ok(true);
            }
            self.taken = behind;
            if item.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Applies an item, as far as this poll may copy: its bytes are in the record in scratch, or in
    /// a record that was kept. The rest of the item, if it was cut.
    #[inline]
    fn apply(
        &mut self,
        item: PostedItem,
        kept: Option<&[u8]>,
        keys: &Keys,
    ) -> Result<Option<PostedItem>, Box<ViError>> {
        if !self.knows(&item) {
            self.await_announcement(&item);
        }
        let (now, rest) = item.cut(self.bytes_left.max(CHUNK as u64));
        let bytes = now.place().map_or(0, DataPlace::len);
        let (sender, receiver, mut io) = self.split(keys);
        io.record = kept.unwrap_or(io.record);
        receiver.take(now, sender, &mut io)?;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        Ok(rest)
    }

    /// Whether what an item refers to was announced.
    #[inline]
    pub(super) fn knows(&self, item: &PostedItem) -> bool {
        let knows_buffer = match (item, &self.cooperating) {
            (PostedItem::HandOver { handed, .. }, Some(cooperating)) => cooperating.knows(handed),
            _ => true,
        };
        knows_buffer && self.receiver.knows(item)
    }

    /// Takes the next record of the peer's ring, and applies the counts that it carries.
    #[inline]
    fn next_record(&mut self, keys: &Keys) -> Result<NextRecord, Box<ViError>> {
        let Self { ring, scratch, sender, receiver, notices, parts, .. } = self;
        let Some(taken) = ring.take_posted(scratch).map_err(protocol_error)? else {
            return Ok(NextRecord::Nothing);
        };
        let nonsense = ViError::Protocol("a malformed record");
        let ConnectionParts { own, foreign, control, .. } = parts;
        let mut io = TransferContext {
            keys,
            notices,
            own,
            foreign,
            control,
            reach: None,
            record: &[],
            cooperating: None,
        };
        sender.peer_counts(sender.peer.advanced(taken.counts()), &mut io)?;
        let can_be_placed = !taken.is_item && self.waiting.is_empty();
        if can_be_placed && receiver.place(&taken, &mut io) {
            return Ok(NextRecord::Placed);
        }
        Ok(NextRecord::Item(PostedItem::decode(&taken).ok_or(nonsense)?))
    }

    fn read_peer_counts(&mut self, keys: &Keys) -> Result<(), Box<ViError>> {
        let load = |at: usize| {
            let word = self.parts.foreign.load(at as u64, Acquire);
            word.expect("the region has the layout's size")
        };
        let (taken, receives, placed) = (load(TAKEN), load(RECEIVES), load(PLACED));
        // Records may have carried newer counts than the line.
        let known = self.sender.peer;
        let peer = ReceiveCounts {
            taken: taken.max(known.taken),
            receives: receives.max(known.receives),
            placed: placed.max(known.placed),
        };
        if peer != known {
            (self.silence, self.counts_by_line) = (0, true);
        }
        let (sender, _, mut io) = self.split(keys);
        sender.peer_counts(peer, &mut io)
    }

    /// Sends an eager message, if there is room for it. A short one makes no call, so that no register
    /// has to be saved around one.
    #[inline(always)]
    pub(super) fn try_send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Option<LanePosition> {
        let Some(behind) = self.lanes.try_short(lane, tag, parts) else {
            return self.try_send_any(lane, tag, parts);
        };
        match self.parts.ringer.asleep() {
            None => Some(behind),
            Some(word) => self.wake(word, behind),
        }
    }

    #[inline(never)]
    fn try_send_any(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Option<LanePosition> {
        let sent = self.lanes.try_long(lane, tag, parts);
        let sent = sent.or_else(|| self.lanes.try_send(lane, tag, parts));
        if sent.is_some() {
            self.ring_bell();
        }
        sent
    }

    /// Wakes a peer that sleeps. A peer that cannot be woken is gone, which its socket says too.
    #[cold]
    #[inline(never)]
    fn wake(&mut self, word: u64, sent: LanePosition) -> Option<LanePosition> {
        let _ = self.parts.ringer.pull(word);
        Some(sent)
    }

    /// Sends an eager message, or says why it cannot. A protocol error ends the connection.
    #[cold]
    pub(super) fn send_or_say(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<Position, PostError> {
        // The sender may have to wait for room.
        self.is_quiet = false;
        let sent = self.lanes.send(lane, tag, parts);
        if sent.is_ok() {
            self.ring_bell();
        }
        sent
    }

    /// How much of a lane has arrived; asks the peer to publish that, if `asked`.
    pub(super) fn arrived(&mut self, lane: Lane, asked: bool) -> Result<Position, PostError> {
        if !asked {
            return self.lanes.arrived_so_far(lane);
        }
        self.is_quiet = false;
        let (position, asked) = self.lanes.arrived(lane)?;
        if asked {
            self.ring_bell();
        }
        Ok(position)
    }

    /// Passes eager messages to the sink, and counts them; also those before an error.
    #[inline]
    pub(super) fn drain(&mut self, draining: &mut ShmDrain<'_, '_>) -> Result<(), Box<ViError>> {
        let published = self.lanes.published();
        let drained = RingAfterDrain { conn: self, published };
        while draining.left > 0
            && let Some((tag, bytes)) = drained.conn.lanes.take(draining.scratch)?
        {
            (draining.sink)(&mut *drained.conn, tag, bytes);
            draining.left -= 1;
        }
        draining.answers |= std::mem::take(&mut drained.conn.answers);
        Ok(())
    }

    /// Whether there are eager messages, or room for them, that waiting threads were not told of.
    #[inline]
    pub(super) fn has_eager_news(&mut self) -> Result<bool, Box<ViError>> {
        self.lanes.has_news()
    }

    pub(super) fn cancel(&mut self, ticket: Ticket) -> bool {
        let taken =
            self.receiver.incoming.cancel(ticket).or_else(|| self.sender.outbox.cancel(ticket));
        let Some(posted) = taken else { return false };
        posted.fail(ViError::Cancelled, &mut self.notices);
        true
    }

    /// Takes everything that the peer sent before it left.
    pub(super) fn take_rest(&mut self, keys: &Keys) {
        // At most as much as the ring holds: a hostile peer could go on for ever.
        for _ in 0..=RING_LINES as u64 / BATCH {
            if !matches!(self.take_records(keys, u64::MAX), Ok(true)) {
                break;
            }
        }
        let _ = self.read_peer_counts(keys);
    }

    /// Reads control messages until what an item refers to is announced: the announcement was sent
    /// before the item. A type may stay without its name.
    #[cold]
    pub(super) fn await_announcement(&mut self, item: &PostedItem) {
        for _ in 0..CONTROL_PER_ITEM {
            if self.closed_by_peer.is_some() || self.knows(item) {
                break;
            }
            match self.read_control_message() {
                Ok(true) => {}
                Ok(false) => break,
                // Items may have been sent before that.
                Err(why) => self.closed_by_peer = Some(why),
            }
        }
    }

    /// Takes the control messages that are there.
    ///
    /// # Errors
    ///
    /// If one of them is the last.
    pub(super) fn read_control(&mut self) -> Result<(), Box<ViError>> {
        if let Some(why) = self.closed_by_peer.take() {
            return Err(why);
        }
        for _ in 0..CONTROL_AT_ONCE {
            if !self.read_control_message()? {
                break;
            }
        }
        Ok(())
    }

    /// Takes one control message. `false`: there is none.
    fn read_control_message(&mut self) -> Result<bool, Box<ViError>> {
        let received = self.parts.control.poll().map_err(|error| match error {
            ControlSocketError::PeerGone { .. } => GONE,
            ControlSocketError::Protocol { why: Malformed(what), .. } => ViError::Protocol(what),
            ControlSocketError::System { .. } => ViError::PeerDied { why: "its socket failed" },
        })?;
        let Some((message, fds)) = received else { return Ok(false) };
        match message {
            ControlMessage::Region { number } => {
                let fd = fds.into_iter().next().ok_or(NO_MEMORY)?;
                let region = ForeignMemory::map(fd, REGION_MAX)
                    .map_err(|_| ViError::Protocol("a region that cannot be mapped safely"))?;
                self.receiver.add_region(number.into(), region)?;
            }
            ControlMessage::CooperatingRegion { number, plan } => {
                let fd = fds.into_iter().next().ok_or(NO_MEMORY)?;
                self.cooperating.as_mut().ok_or(ISOLATED)?.add(number, &fd, &plan)?;
            }
            ControlMessage::DirectWrite { secret, gate, number, place, len } => {
                let cooperating = self.cooperating.as_mut().ok_or(ISOLATED)?;
                cooperating.learn(secret, GatePass { gate, number }, (place, len))?;
            }
            ControlMessage::Kind(kind) => self.receiver.incoming.learn(kind),
            ControlMessage::Close(reason) => return Err(reason.into_error().into()),
        }
        Ok(true)
    }

    /// The counts of this side.
    #[inline]
    fn counts(&self) -> ReceiveCounts {
        let Receives { promised: receives, placed, .. } = self.receiver.incoming.receives;
        ReceiveCounts { taken: self.done_with(), receives, placed }
    }

    /// The position up to which no record is needed any more.
    #[inline]
    fn done_with(&self) -> u64 {
        if planted(Fault::ReleasedEarly) { self.ring.position() } else { self.taken }
    }

    #[inline]
    fn split<'a>(
        &'a mut self,
        keys: &'a Keys,
    ) -> (&'a mut Sender, &'a mut Receiver, TransferContext<'a>) {
        let Self { sender, receiver, parts, reach, notices, cooperating, scratch, .. } = self;
        let ConnectionParts { own, foreign, control, .. } = parts;
        let (reach, cooperating, record) =
            (reach.as_ref(), cooperating.as_mut(), scratch.payload());
        (
            sender,
            receiver,
            TransferContext { keys, notices, own, foreign, control, reach, record, cooperating },
        )
    }
}

impl OpenEnd for DataPath {
    type Remainder = UndrainedRecords;

    fn counters(&self) -> Counters {
        Counters {
            sent: self.sender.outbox.completed,
            received: self.receiver.incoming.receives.received,
            dropped: self.receiver.incoming.receives.dropped + self.lanes.dropped,
        }
    }

    /// The peer is told why.
    fn fail(mut self, why: &ViError, notices: &mut Notices) -> UndrainedRecords {
        self.notices.move_to(notices);
        // What was taken before counts for the peer, too.
        self.publish();
        self.lanes.publish();
        let undrained = self.lanes.undrained(!matches!(why, ViError::Closed | ViError::NicDown));
        self.parts.own.word(LEFT).store(1, Relaxed);
        // Before the buffers are anybody's: pairs with the fence in `peer_left`.
        fence(Release);
        // A peer that is gone, or does not listen, sees the socket close.
        let close = ControlMessage::Close(CloseReason::of(why.clone()));
        let _ = self.parts.control.send(&close, &[]);
        for posted in self.sender.outbox.drain().into_iter().chain(self.receiver.incoming.drain()) {
            posted.fail(why.clone(), notices);
        }
        undrained
    }
}

/// Rings at the end of a drain, also if a sink panics: the peer may sleep until there is room.
struct RingAfterDrain<'a> {
    conn: &'a mut DataPath,
    published: u64,
}

impl Drop for RingAfterDrain<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.conn.lanes.published() != self.published {
            self.conn.ring_bell();
        }
    }
}

/// The connection that an eager message came by.
impl Reply for DataPath {
    fn vi(&self) -> ViId {
        self.lanes.vi
    }

    fn send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, PostError> {
        self.answers = true;
        match self.try_send(lane, tag, parts) {
            Some(behind) => Ok(Position::new(behind.get())),
            None => self.send_or_say(lane, tag, parts),
        }
    }
}

/// What the peer's ring had.
enum NextRecord {
    Nothing,
    /// A small message, which is in its place already.
    Placed,
    Item(PostedItem),
}

#[cold]
fn protocol_error(error: RingError) -> Box<ViError> {
    tracing::warn!(%error, "a peer's ring of posted messages");
    ViError::Protocol("a malformed record").into()
}
