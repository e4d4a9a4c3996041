//! The eager messages of one end: a ring of [records](super::records) in each direction for
//! each lane.
//!
//! To send is to write a record and, if the peer's end sleeps, to wake it. To drain is to copy
//! records out. A lone message and its answer are one cache line each way, and neither side
//! reads how far the other is before a ring seems full.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use super::fault::{self, Fault, planted};
use super::foreign::ForeignMemory;
use super::layout::{CONSUMED, LANE_LINES, LANES};
use super::memory::OwnMemory;
use super::records::{RingError, RingReceiver, RingSender, Scratch, SendRecordError};
use crate::fabric::{After, ViSpec};
use crate::vi::{EAGER_MAX, Lane, Position, PostError, Sink, ViError, ViId};

#[derive(Debug)]
pub(super) struct EagerLanes {
    pub vi: ViId,
    is_reliable: bool,
    senders: [RingSender; 2],
    receivers: [RingReceiver; 2],
    /// Whether waiting threads were told of the records that are there to be drained.
    announced: bool,
    /// Per lane: what the peer had consumed when a sender began to wait for more.
    awaited: [Option<u64>; 2],
    /// Messages dropped for lack of room, at the unreliable level.
    pub dropped: u64,
}

/// A drain under way.
pub(super) struct ShmDrain<'a, 'f> {
    pub scratch: &'a mut Scratch,
    pub sink: &'a mut Sink<'f>,
    /// Messages that this drain may still take.
    pub left: usize,
    /// Whether a sink answered some of them.
    pub answers: bool,
    pub after: &'a mut After,
}

/// Records that a connection had received when it ended, and that were not drained.
#[derive(Debug)]
pub(super) struct UndrainedRecords {
    vi: ViId,
    records: VecDeque<(u64, Vec<u8>)>,
    /// Per lane: the position up to which the peer had said that everything arrived.
    pub arrived: [Position; 2],
}

/// The position behind a record: never zero.
pub(super) type LanePosition = NonZeroU64;

const BAD_RING: ViError = ViError::Protocol("a malformed ring of records");

impl EagerLanes {
    /// `None` if the peer's memory is not as large as it must be.
    pub(super) fn new(spec: ViSpec, own: &OwnMemory, foreign: &ForeignMemory) -> Option<Self> {
        let sender = |lane: usize| {
            let consumed = CONSUMED[fault::lane_of_consumed(lane)] as u64;
            let first = LANES[lane];
            RingSender::new(own.clone(), first, LANE_LINES, foreign.clone(), consumed).ok()
        };
        let receiver = |lane: usize| {
            let (first, lines) = (LANES[lane] as u64, LANE_LINES as u64);
            RingReceiver::new(foreign.clone(), first, lines, own.clone(), CONSUMED[lane]).ok()
        };
        Some(Self {
            vi: spec.vi,
            is_reliable: spec.reliability.is_reliable(),
            senders: [sender(0)?, sender(1)?],
            receivers: [receiver(0)?, receiver(1)?],
            announced: false,
            awaited: [None; 2],
            dropped: 0,
        })
    }

    /// Writes a record of one part and one line, if that takes [nothing
    /// else](RingSender::try_short). The caller wakes the peer.
    #[inline(always)]
    pub(super) fn try_short(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Option<LanePosition> {
        self.senders[lane as usize].try_short(tag, parts).and_then(LanePosition::new)
    }

    /// The same of more [lines](RingSender::try_long).
    #[inline]
    pub(super) fn try_long(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Option<LanePosition> {
        self.senders[fault::lane_of_long(lane as usize)]
            .try_long(tag, parts)
            .and_then(LanePosition::new)
    }

    /// Writes a record, if there is room for it. The caller wakes the peer.
    ///
    /// The result fits a register: a result that is built in memory and then moved as a whole waits
    /// until all stores before it are done, the record's among them, which takes longer than all
    /// the rest.
    #[inline(never)]
    pub(super) fn try_send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Option<LanePosition> {
        let sent = self.senders[lane as usize].send(tag, parts);
        sent.ok().and_then(LanePosition::new)
    }

    /// Writes a record, or says why it cannot.
    #[cold]
    pub(super) fn send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<Position, PostError> {
        let why = match self.senders[lane as usize].send(tag, parts) {
            Ok(position) => return Ok(Position::new(position)),
            Err(why) => why,
        };
        match why {
            SendRecordError::TooLarge { len } => {
                Err(PostError::EagerTooLarge { len, max: EAGER_MAX })
            }
            SendRecordError::Full if self.is_reliable => {
                // The count that the attempt saw: any later one is news.
                let seen = self.senders[lane as usize].consumed();
                self.awaited[lane as usize].get_or_insert(seen);
                Err(PostError::LaneFull)
            }
            SendRecordError::Full => {
                self.dropped += 1;
                Ok(Position::new(self.senders[lane as usize].position()))
            }
            SendRecordError::Ring(_) => Err(PostError::Broken(BAD_RING)),
        }
    }

    /// How much of a lane the peer has consumed, as far as it has published that.
    pub(super) fn arrived_so_far(&mut self, lane: Lane) -> Result<Position, PostError> {
        let arrived = self.senders[lane as usize].arrived();
        arrived.map(Position::new).map_err(|_| PostError::Broken(BAD_RING))
    }

    /// How much of a lane the peer has consumed; if that is not all, asks the peer to publish it.
    /// Also whether the peer must be woken for that.
    pub(super) fn arrived(&mut self, lane: Lane) -> Result<(Position, bool), PostError> {
        let sender = &mut self.senders[lane as usize];
        let arrived = sender.arrived().map_err(|_| PostError::Broken(BAD_RING))?;
        let is_behind = arrived < sender.position();
        if is_behind {
            // An older count that a waiter waits on stays: it becomes news sooner.
            self.awaited[lane as usize].get_or_insert(arrived);
        }
        let before = sender.position();
        let asked = is_behind && sender.ask() && sender.position() != before;
        Ok((Position::new(arrived), asked))
    }

    /// Whether there is something that waiting threads were not told of: records, or room that
    /// a sender waits for.
    #[inline]
    pub(super) fn has_news(&mut self) -> Result<bool, Box<ViError>> {
        let is_ready = self.has_unannounced();
        self.announced |= is_ready;
        Ok(is_ready || self.is_awaited() && self.has_room()?)
    }

    /// Whether there are records that waiting threads were not told of.
    #[inline(always)]
    pub(super) fn has_unannounced(&self) -> bool {
        !self.announced && self.is_ready()
    }

    /// Whether a sender waits for room.
    #[inline(always)]
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited[0].is_some() || self.awaited[1].is_some()
    }

    /// Whether there are records to be drained.
    #[inline(always)]
    pub(super) fn is_ready(&self) -> bool {
        self.receivers[0].is_ready() || self.receivers[1].is_ready()
    }

    #[cold]
    fn has_room(&mut self) -> Result<bool, Box<ViError>> {
        let mut news = false;
        for (awaited, sender) in self.awaited.iter_mut().zip(&mut self.senders) {
            let Some(known) = *awaited else { continue };
            if sender.arrived().map_err(protocol_error)? != known {
                (*awaited, news) = (None, true);
            }
        }
        Ok(news)
    }

    /// The next record of either lane, talk first. The caller has processed it before it takes
    /// another.
    #[inline(always)]
    pub(super) fn take<'s>(
        &mut self,
        scratch: &'s mut Scratch,
    ) -> Result<Option<(u64, &'s [u8])>, Box<ViError>> {
        self.announce_later();
        let [talk, bulk] = self.receivers_in_order();
        let taken = match talk.take_len(scratch).map_err(protocol_error)? {
            None => bulk.take_len(scratch).map_err(protocol_error)?,
            taken => taken,
        };
        Ok(taken.map(|(tag, len)| (tag, scratch.payload_of(len))))
    }

    /// Talk first.
    #[inline(always)]
    fn receivers_in_order(&mut self) -> [&mut RingReceiver; 2] {
        let [talk, bulk] = &mut self.receivers;
        if planted(Fault::BulkFirst) { [bulk, talk] } else { [talk, bulk] }
    }

    /// Has waiting threads told of the records that come after those taken now.
    #[inline(always)]
    fn announce_later(&mut self) {
        self.announced &= planted(Fault::ToldForGood);
    }

    /// Records consumed, as far as this side has published that to the peer.
    #[inline]
    pub(super) fn published(&self) -> u64 {
        let [talk, bulk] = &self.receivers;
        talk.published() + if planted(Fault::BulkRoomSilent) { 0 } else { bulk.published() }
    }

    /// Publishes how far this side is.
    pub(super) fn publish(&mut self) {
        self.receivers.iter_mut().for_each(RingReceiver::publish);
    }

    /// Records that the peer has written and that were not drained, as many as its rings hold; none
    /// unless the program `wants` them: then they have not arrived.
    pub(super) fn undrained(&mut self, wants: bool) -> UndrainedRecords {
        let (mut scratch, mut records) = (Scratch::new(), VecDeque::new());
        for receiver in self.receivers.iter_mut().filter(|_| wants) {
            receiver.silence();
            let end = receiver.position() + LANE_LINES as u64;
            while receiver.position() < end
                && let Ok(Some((tag, bytes))) = receiver.take(&mut scratch)
            {
                records.push_back((tag, bytes.to_vec()));
            }
        }
        let arrived = Lane::ALL.map(|lane| self.arrived_at_last(lane));
        UndrainedRecords { vi: self.vi, records, arrived }
    }

    /// How much of a lane the peer has consumed, as far as is known when the connection ends.
    fn arrived_at_last(&mut self, lane: Lane) -> Position {
        if planted(Fault::ArrivedForgotten) {
            return Position::default();
        }
        let known = Position::new(self.senders[lane as usize].consumed());
        self.arrived_so_far(lane).unwrap_or(known)
    }
}

impl UndrainedRecords {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) const fn vi(&self) -> ViId {
        self.vi
    }

    pub(super) fn take(&mut self) -> Option<(u64, Vec<u8>)> {
        if planted(Fault::KeptTurned) { self.records.pop_back() } else { self.records.pop_front() }
    }
}

#[cold]
fn protocol_error(error: RingError) -> Box<ViError> {
    tracing::warn!(%error, "a peer's ring of records");
    BAD_RING.into()
}
