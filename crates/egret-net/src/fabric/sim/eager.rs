//! Eager messages of one end, without clock or I/O: what may be sent, and what has arrived and
//! was not drained.
//!
//! They travel as items of the reliable stream, which overtake a message that waits for a
//! receive, or as datagrams. How many were drained is one of the counts of every frame; a
//! sender that wants to know asks, as for anything else that the peer owes.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::vi::{DrainId, Position, SendError, ViId};

#[derive(Debug)]
pub(super) struct Eager {
    pub vi: ViId,
    pub drain: DrainId,
    /// Messages sent, ever.
    sent: u64,
    /// Of these, what the peer has drained.
    heard: u64,
    /// Messages of the peer drained, ever.
    pub drained: u64,
    /// Whether this side waits for the peer to drain.
    pub waits: bool,
    arrived: VecDeque<Record>,
    pub dropped: u64,
}

/// A message that has arrived.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub tag: u64,
    pub bytes: Arc<[u8]>,
}

/// Messages that the peer has not drained, at most.
const WINDOW: u64 = 256;

impl Eager {
    pub(super) const fn new(vi: ViId, drain: DrainId) -> Self {
        let arrived = VecDeque::new();
        Self { vi, drain, sent: 0, heard: 0, drained: 0, waits: false, arrived, dropped: 0 }
    }

    /// A message is sent, if there is room.
    pub(super) fn send(&mut self, is_reliable: bool) -> Result<Position, SendError> {
        if is_reliable && self.sent - self.heard >= WINDOW {
            self.waits = true;
            return Err(SendError::Full);
        }
        self.sent += 1;
        Ok(Position::new(self.sent))
    }

    /// How much has arrived at the peer, which may be asked.
    pub(super) const fn arrived(&mut self, asked: bool) -> Position {
        self.waits |= asked && self.heard < self.sent;
        Position::new(self.heard)
    }

    /// The peer says how much it has drained.
    pub(super) fn hear(&mut self, drained: u64) {
        self.heard = self.heard.max(drained.min(self.sent));
        self.waits &= self.heard < self.sent;
    }

    /// A message has arrived. Without room for it, which an unreliable peer does not ask for,
    /// it is dropped.
    pub(super) fn arrive(&mut self, record: Record) -> bool {
        let has_room = (self.arrived.len() as u64) < WINDOW;
        if has_room {
            self.arrived.push_back(record);
        } else {
            self.dropped += 1;
        }
        has_room
    }

    /// The oldest message that was not drained.
    pub(super) fn take(&mut self) -> Option<Record> {
        let record = self.arrived.pop_front()?;
        self.drained += 1;
        Some(record)
    }

    /// What is left of it when its connection has ended, with or without what has arrived.
    pub(super) fn leave(&mut self, keeps: bool) -> Self {
        let mut left = std::mem::replace(self, Self::new(self.vi, self.drain));
        if !keeps {
            left.arrived.clear();
        }
        left
    }

    pub(super) fn is_empty(&self) -> bool {
        self.arrived.is_empty()
    }
}
