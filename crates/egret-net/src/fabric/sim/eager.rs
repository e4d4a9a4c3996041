//! Eager messages of one end, without clock or I/O: what may be sent, and what has arrived and
//! was not drained.
//!
//! They travel as items of the reliable stream, which overtake a message that waits for a
//! receive, or as datagrams. How many were drained is one of the counts of every frame; a
//! sender that wants to know asks, as for anything else that the peer owes.

use std::collections::VecDeque;
use std::sync::Arc;

use super::planted::Planted;
use crate::vi::{DrainId, Lane, Position, SendError, ViId};

#[derive(Debug)]
pub(super) struct Eager {
    pub vi: ViId,
    pub drain: DrainId,
    lanes: [LaneState; 2],
    /// Whether this side waits for the peer to drain.
    pub waits: bool,
    pub dropped: u64,
}

/// A lane in both directions. Neither lane waits for the other.
#[derive(Debug, Default)]
struct LaneState {
    /// Messages sent, ever.
    sent: u64,
    /// Of these, what the peer has drained.
    heard: u64,
    /// Messages of the peer drained, ever.
    drained: u64,
    arrived: VecDeque<Record>,
}

/// A message that has arrived.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub tag: u64,
    pub bytes: Arc<[u8]>,
}

/// Messages of a lane that the peer has not drained, at most.
const WINDOW: u64 = 256;

impl Eager {
    pub(super) fn new(vi: ViId, drain: DrainId) -> Self {
        Self { vi, drain, lanes: Default::default(), waits: false, dropped: 0 }
    }

    /// A message is sent, if there is room.
    pub(super) fn send(&mut self, lane: Lane, is_reliable: bool) -> Result<Position, SendError> {
        let lane = &mut self.lanes[lane as usize];
        if is_reliable && lane.sent - lane.heard >= WINDOW {
            self.waits = true;
            return Err(SendError::Full);
        }
        lane.sent += 1;
        Ok(Position::new(lane.sent))
    }

    /// How much has arrived at the peer, which may be asked.
    pub(super) const fn arrived(&mut self, lane: Lane, asked: bool) -> Position {
        let lane = &self.lanes[lane as usize];
        self.waits |= asked && lane.heard < lane.sent;
        Position::new(lane.heard)
    }

    /// Messages of the peer drained, ever.
    pub(super) const fn drained(&self) -> [u64; 2] {
        [self.lanes[0].drained, self.lanes[1].drained]
    }

    /// The peer says how much it has drained.
    pub(super) fn hear(&mut self, drained: [u64; 2], planted: Option<Planted>) {
        for (lane, drained) in self.lanes.iter_mut().zip(drained) {
            let before = if Planted::DrainedFalls.is_in(planted) { 0 } else { lane.heard };
            lane.heard = before.max(drained.min(lane.sent));
        }
        self.waits &= self.lanes.iter().any(|lane| lane.heard < lane.sent);
    }

    /// A message has arrived. Without room for it, which an unreliable peer does not ask for,
    /// it is dropped.
    pub(super) fn arrive(&mut self, lane: Lane, record: Record, planted: Option<Planted>) -> bool {
        let is_mistaken = Planted::LaneMistaken.is_in(planted);
        let lane = &mut self.lanes[lane as usize ^ usize::from(is_mistaken)];
        let has_room = (lane.arrived.len() as u64) < WINDOW;
        lane.drained += u64::from(Planted::DrainedEarly.is_in(planted));
        if has_room && Planted::LaneTurned.is_in(planted) {
            lane.arrived.push_front(record);
        } else if has_room {
            lane.arrived.push_back(record);
        } else {
            self.dropped += 1;
        }
        has_room
    }

    /// The oldest message that was not drained, of the more urgent lane first.
    pub(super) fn take(&mut self, planted: Option<Planted>) -> Option<Record> {
        let [talk, bulk] = &mut self.lanes;
        let is_turned = Planted::BulkFirst.is_in(planted);
        let lanes = if is_turned { [bulk, talk] } else { [talk, bulk] };
        lanes.into_iter().find_map(|lane| {
            let record = lane.arrived.pop_front()?;
            lane.drained += u64::from(!Planted::DrainedEarly.is_in(planted));
            Some(record)
        })
    }

    /// What is left of it when its connection has ended, with or without what has arrived.
    pub(super) fn leave(&mut self, keeps: bool) -> Self {
        let mut left = std::mem::replace(self, Self::new(self.vi, self.drain));
        if !keeps {
            left.lanes.iter_mut().for_each(|lane| lane.arrived.clear());
        }
        left
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.arrived.is_empty())
    }
}
