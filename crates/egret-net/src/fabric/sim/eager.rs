//! Eager messages of one end, without clock or I/O: what may be sent, and what has arrived and
//! was not drained.
//!
//! They travel as items of the reliable stream, which overtake a message that waits for a
//! receive, or as datagrams. Each has its position in its lane with it. How far was drained is one
//! of the counts of every frame; a sender that wants to know asks, as for anything else that the
//! peer owes. The sender that asks says how far it has sent: at the unreliable level what is not here by
//! then is lost, or was overtaken.

use std::collections::VecDeque;
use std::sync::Arc;

use super::datapath::EndOutput;
use super::fault::Fault;
use crate::vi::{DrainId, Lane, Position, PostError, ViId};

#[derive(Debug)]
pub(super) struct SimEager {
    pub vi: ViId,
    pub drain: DrainId,
    lanes: [SimLane; 2],
    /// Whether this side waits for the peer to drain.
    pub waits: bool,
    pub dropped: u64,
}

/// A lane in both directions. Neither lane waits for the other.
#[derive(Debug, Default)]
struct SimLane {
    /// The position of the last message that was sent.
    sent: u64,
    /// The highest position that the peer has drained, as far as it has said so.
    heard: u64,
    /// The highest position of the peer that was drained.
    drained: u64,
    /// How far the peer had sent when it asked last, at the unreliable level.
    asked: u64,
    arrived: VecDeque<EagerRecord>,
}

/// A message.
#[derive(Debug, Clone)]
pub(super) struct EagerRecord {
    pub lane: Lane,
    pub position: u64,
    pub tag: u64,
    pub bytes: Arc<[u8]>,
}

/// Messages of a lane that the peer has not drained, at most.
const WINDOW: u64 = 256;

impl SimEager {
    pub(super) fn new(vi: ViId, drain: DrainId) -> Self {
        Self { vi, drain, lanes: Default::default(), waits: false, dropped: 0 }
    }

    /// A message is sent, if there is room. Its position.
    pub(super) fn send(&mut self, lane: Lane, is_reliable: bool) -> Result<u64, PostError> {
        let lane = &mut self.lanes[lane as usize];
        if is_reliable && lane.sent - lane.heard >= WINDOW {
            self.waits = true;
            return Err(PostError::LaneFull);
        }
        lane.sent += 1;
        Ok(lane.sent)
    }

    /// How far the peer has drained, which may be asked.
    pub(super) const fn arrived(&mut self, lane: Lane, asked: bool) -> Position {
        let lane = &self.lanes[lane as usize];
        self.waits |= asked && lane.heard < lane.sent;
        Position::new(lane.heard)
    }

    /// The highest position of the peer that was drained, of each lane.
    pub(super) const fn drained(&self) -> [u64; 2] {
        [self.lanes[0].drained, self.lanes[1].drained]
    }

    /// The position of the last message sent, of each lane.
    pub(super) const fn sent(&self) -> [u64; 2] {
        [self.lanes[0].sent, self.lanes[1].sent]
    }

    /// The peer asks, and says how far it has sent, at the unreliable level.
    pub(super) fn asked(&mut self, sent: [u64; 2]) {
        for (lane, sent) in self.lanes.iter_mut().zip(sent) {
            lane.asked = lane.asked.max(sent);
            lane.settle();
        }
    }

    /// The peer says how far it has drained.
    pub(super) fn hear(&mut self, drained: [u64; 2], planted: Option<Fault>) {
        for (lane, drained) in self.lanes.iter_mut().zip(drained) {
            lane.hear(drained, planted);
        }
        self.waits &= self.lanes.iter().any(|lane| lane.heard < lane.sent);
    }

    /// A message has arrived. Without room for it, which an unreliable peer does not ask for,
    /// it is dropped.
    pub(super) fn arrive(&mut self, record: EagerRecord, out: &mut EndOutput<'_>) {
        let lane = &mut self.lanes[out.lane(record.lane)];
        if lane.arrived.len() as u64 >= WINDOW {
            self.dropped += out.dropped(1);
            return;
        }
        lane.push(record, out);
        out.arrived = true;
    }

    /// Talk first.
    fn lanes_in_order(&mut self, planted: Option<Fault>) -> [&mut SimLane; 2] {
        let [talk, bulk] = &mut self.lanes;
        if Fault::BulkFirst.is_in(planted) { [bulk, talk] } else { [talk, bulk] }
    }

    /// The oldest message that was not drained, of the more urgent lane first.
    pub(super) fn take(&mut self, planted: Option<Fault>) -> Option<EagerRecord> {
        self.lanes_in_order(planted).into_iter().find_map(|lane| {
            let record = lane.arrived.pop_front()?;
            lane.drain(record.position, planted);
            lane.settle();
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

impl SimLane {
    /// The peer says how far it has drained, perhaps by a frame that was overtaken.
    fn hear(&mut self, drained: u64, planted: Option<Fault>) {
        let before = if Fault::DrainedFalls.is_in(planted) { 0 } else { self.heard };
        self.heard = before.max(drained.min(self.sent));
    }

    /// The message with this position is drained.
    fn drain(&mut self, position: u64, planted: Option<Fault>) {
        let counts = Fault::CountsDrained.is_in(planted);
        self.drained = if counts { self.drained + 1 } else { self.drained.max(position) };
    }

    fn push(&mut self, record: EagerRecord, out: &EndOutput<'_>) {
        if out.has(Fault::DrainedEarly) {
            self.drained = self.drained.max(record.position);
        }
        match out.has(Fault::LaneTurned) {
            true => self.arrived.push_front(record),
            false => self.arrived.push_back(record),
        }
    }

    /// With nothing left to drain, the peer hears that it need not wait for what it had sent when
    /// it asked.
    fn settle(&mut self) {
        if self.arrived.is_empty() {
            self.drained = self.drained.max(self.asked);
        }
    }
}
