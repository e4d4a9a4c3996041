//! One end of a connection: eager messages in and out.

use super::datapath::DataPath;
use super::send::Flushed;
use crate::fabric::common::eager::{EagerEnd, EagerIn};
use crate::vi::{Keys, Lane, Position, PostError};

impl DataPath {
    /// Sends an eager message. Whether the nic has something to do.
    #[inline]
    pub(super) fn send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        keys: &Keys,
    ) -> Result<(Position, bool), PostError> {
        let is_alone = self.sender.eager.is_alone();
        let (position, len) = self.put(lane, tag, parts)?;
        Ok((position, self.queue(len as u64, is_alone, keys)))
    }

    /// Sends an eager message if there is room and nothing can complete with it: its position, and
    /// whether the nic has something to do.
    #[inline]
    pub(super) fn try_send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        keys: &Keys,
    ) -> Option<(Position, bool)> {
        let has_room = self.sender.eager.has_room(lane, PostError::check_eager(parts).ok()?);
        // At the unreliable level what is written with it is complete.
        if !has_room || !self.sender.outbox.level().is_reliable() {
            return None;
        }
        self.send(lane, tag, parts, keys).ok()
    }

    /// Takes an eager message, which is written later. Its position, and its bytes.
    #[inline]
    fn put(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<(Position, usize), PostError> {
        let len = PostError::check_eager(parts)?;
        let Self { sender, receiver, .. } = self;
        let is_reliable = sender.outbox.level().is_reliable();
        let Some(position) = sender.eager.admit(lane, len, is_reliable)? else {
            return Ok((sender.eager.sent(lane), 0));
        };
        sender.drained = receiver.eager.drained();
        let counts = self.counts();
        self.sender.push_eager((lane, tag), len, parts, counts);
        Ok((position, len))
    }

    /// How much of a lane has arrived, and whether the nic has something to do: the peer may be
    /// asked.
    pub(super) fn arrived(&mut self, lane: Lane, asked: bool, keys: &Keys) -> (Position, bool) {
        let position = self.sender.eager.arrived(lane);
        if !asked || !self.sender.eager.ask(lane) {
            return (position, false);
        }
        self.sender.asks = true;
        (position, self.queue(0, true, keys))
    }

    /// Whether eager messages have come, or there is room for them, that was not yet reported.
    #[inline]
    pub(super) fn take_news(&mut self) -> bool {
        let came = std::mem::take(&mut self.receiver.eager.has_news);
        std::mem::take(&mut self.sender.eager.has_news) | came
    }

    /// A drain is over: what it answered leaves in one call, and the peer is told if it should know.
    /// Whether the nic has something to do.
    #[inline]
    pub(super) fn settle(&mut self, keys: &Keys) -> bool {
        if self.is_full {
            return false;
        }
        if self.is_broken {
            return true;
        }
        if self.sender.has_more() && self.flush(keys) != Flushed::All {
            return true;
        }
        if self.receiver.eager.is_due(self.sender.drained_sent) {
            self.tell(keys);
        }
        self.has_rest
    }
}

impl EagerEnd for DataPath {
    #[inline]
    fn eager(&mut self) -> &mut EagerIn {
        &mut self.receiver.eager
    }

    fn answer(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, PostError> {
        self.put(lane, tag, parts).map(|(position, _)| position)
    }

    fn answered(&mut self) {
        self.has_rest = true;
    }
}
