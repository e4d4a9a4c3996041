//! The eager messages of one end: a ring of [records](super::records) in each direction for
//! each lane.
//!
//! To send is to write a record and, if the peer's end sleeps, to wake it. To drain is to copy
//! records out. A lone message and its answer are one cache line each way, and neither side
//! reads how far the other is before a ring seems full.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use super::fault::{Fault, planted};
use super::foreign::Foreign;
use super::layout::{CONSUMED, LANE_LINES, LANES};
use super::memory::Own;
use super::records::{Lie, NotSent, RingReceiver, RingSender, Scratch};
use crate::fabric::ViSpec;
use crate::vi::{EAGER_MAX, Lane, Position, SendError, ViError, ViId};

#[derive(Debug)]
pub(super) struct Lanes {
    pub vi: ViId,
    is_reliable: bool,
    senders: [RingSender; 2],
    receivers: [RingReceiver; 2],
    /// Whether who waits was told of what is there to be drained.
    told: bool,
    /// What the peer had consumed of each lane when somebody began to wait for more.
    awaited: [Option<u64>; 2],
    /// Messages that there was no room for, at the unreliable level.
    pub dropped: u64,
}

/// What a connection that has ended had received and nobody had drained.
#[derive(Debug)]
pub(super) struct Undrained {
    vi: ViId,
    records: VecDeque<(u64, Vec<u8>)>,
    /// How far the peer had said that it was, of each lane.
    pub arrived: [Position; 2],
}

/// The position behind a record: never zero.
pub(super) type Behind = NonZeroU64;

const LIE: ViError = ViError::Protocol("a ring of records that makes no sense");

impl Lanes {
    /// `None` if the peer's memory is not as large as it must be.
    pub(super) fn new(spec: ViSpec, own: &Own, foreign: &Foreign) -> Option<Self> {
        let sender = |lane: usize| {
            let read_at = lane ^ usize::from(planted(Fault::ConsumedCrossed));
            let (first, consumed) = (LANES[lane], CONSUMED[read_at] as u64);
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
            told: false,
            awaited: [None; 2],
            dropped: 0,
        })
    }

    /// Writes a record of one part and one line, if that takes [nothing
    /// else](RingSender::try_short). The caller wakes the peer.
    #[inline(always)]
    pub(super) fn try_short(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Option<Behind> {
        self.senders[lane as usize].try_short(tag, parts).and_then(Behind::new)
    }

    /// The same of more [lines](RingSender::try_long).
    #[inline]
    pub(super) fn try_long(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Option<Behind> {
        let lane = lane as usize ^ usize::from(planted(Fault::LaneMistaken));
        self.senders[lane].try_long(tag, parts).and_then(Behind::new)
    }

    /// Writes a record, if nothing is against it. The caller wakes the peer.
    ///
    /// The answer fits a register: one that is built in memory and then moved as a whole waits
    /// until all stores before it are done, the record's among them, which takes longer than all
    /// the rest.
    #[inline(never)]
    pub(super) fn try_send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Option<Behind> {
        let sent = self.senders[lane as usize].send(tag, parts);
        sent.ok().and_then(Behind::new)
    }

    /// Writes a record, or says why not.
    #[cold]
    pub(super) fn send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<Position, SendError> {
        let why = match self.senders[lane as usize].send(tag, parts) {
            Ok(position) => return Ok(Position::new(position)),
            Err(why) => why,
        };
        match why {
            NotSent::TooLarge { len } => Err(SendError::TooLarge { len, max: EAGER_MAX }),
            NotSent::Full if self.is_reliable => {
                // As the attempt saw it: what has come since is news.
                let seen = self.senders[lane as usize].consumed();
                self.awaited[lane as usize].get_or_insert(seen);
                Err(SendError::Full)
            }
            NotSent::Full => {
                self.dropped += 1;
                Ok(Position::new(self.senders[lane as usize].position()))
            }
            NotSent::Lie(_) => Err(SendError::Closed(LIE)),
        }
    }

    /// How much of a lane the peer has consumed, as far as it has said so.
    pub(super) fn arrived_so_far(&mut self, lane: Lane) -> Result<Position, SendError> {
        let arrived = self.senders[lane as usize].arrived();
        arrived.map(Position::new).map_err(|_| SendError::Closed(LIE))
    }

    /// How much of a lane the peer has consumed; it is asked to say so. Whether it must be
    /// woken for that.
    pub(super) fn arrived(&mut self, lane: Lane) -> Result<(Position, bool), SendError> {
        let sender = &mut self.senders[lane as usize];
        let arrived = sender.arrived().map_err(|_| SendError::Closed(LIE))?;
        let is_behind = arrived < sender.position();
        if is_behind {
            // What others wait for stays: it is older, and news the sooner.
            self.awaited[lane as usize].get_or_insert(arrived);
        }
        let before = sender.position();
        let asked = is_behind && sender.ask() && sender.position() != before;
        Ok((Position::new(arrived), asked))
    }

    /// Whether there is something that who waits was not told of: records, or room that
    /// somebody waits for.
    #[inline]
    pub(super) fn has_news(&mut self) -> Result<bool, Box<ViError>> {
        let is_ready = self.has_untold();
        self.told |= is_ready;
        Ok(is_ready || self.is_awaited() && self.has_room()?)
    }

    /// Whether there are records that who waits was not told of.
    #[inline(always)]
    pub(super) fn has_untold(&self) -> bool {
        !self.told && self.is_ready()
    }

    /// Whether somebody waits for room.
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
            if sender.arrived().map_err(lie)? != known {
                (*awaited, news) = (None, true);
            }
        }
        Ok(news)
    }

    /// The next record of either lane, talk first. The caller has answered it before it takes
    /// another.
    #[inline(always)]
    pub(super) fn take<'s>(
        &mut self,
        scratch: &'s mut Scratch,
    ) -> Result<Option<(u64, &'s [u8])>, Box<ViError>> {
        self.told &= planted(Fault::ToldForGood);
        let [talk, bulk] = &mut self.receivers;
        let [talk, bulk] = if planted(Fault::BulkFirst) { [bulk, talk] } else { [talk, bulk] };
        let taken = match talk.take_len(scratch).map_err(lie)? {
            None => bulk.take_len(scratch).map_err(lie)?,
            taken => taken,
        };
        Ok(taken.map(|(tag, len)| (tag, scratch.payload_of(len))))
    }

    /// What the peer can know of how far this side is: it changes when that is published.
    #[inline]
    pub(super) fn published(&self) -> u64 {
        let bulk = if planted(Fault::BulkRoomSilent) { 0 } else { self.receivers[1].published() };
        self.receivers[0].published() + bulk
    }

    /// Says how far this side is.
    pub(super) fn publish(&mut self) {
        self.receivers.iter_mut().for_each(RingReceiver::publish);
    }

    /// What the peer has written and nobody has drained, as much as its rings hold; nothing if
    /// nobody `wants` it: then it has not arrived.
    pub(super) fn undrained(&mut self, wants: bool) -> Undrained {
        let (mut scratch, mut records) = (Scratch::new(), VecDeque::new());
        for receiver in self.receivers.iter_mut().filter(|_| wants) {
            if !planted(Fault::KeptArrived) {
                receiver.silence();
            }
            let end = receiver.position() + LANE_LINES as u64;
            while receiver.position() < end
                && let Ok(Some((tag, bytes))) = receiver.take(&mut scratch)
            {
                records.push_back((tag, bytes.to_vec()));
            }
        }
        let arrived = Lane::ALL.map(|lane| {
            let known = Position::new(self.senders[lane as usize].consumed());
            let forgotten = planted(Fault::ArrivedForgotten).then(Position::default);
            forgotten.unwrap_or_else(|| self.arrived_so_far(lane).unwrap_or(known))
        });
        Undrained { vi: self.vi, records, arrived }
    }
}

impl Undrained {
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
fn lie(lie: Lie) -> Box<ViError> {
    tracing::warn!(%lie, "a peer's ring of records");
    LIE.into()
}
