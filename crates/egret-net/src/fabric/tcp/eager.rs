//! One end of a connection: eager messages in and out.

use super::datapath::Conn;
use super::lanes::{EagerIn, Records};
use super::send::Flushed;
use crate::vi::{Keys, Lane, Position, Reply, SendError, Sink, ViId};

impl Conn {
    /// Sends an eager message. Whether the nic has something to do.
    #[inline]
    pub(super) fn send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        keys: &Keys,
    ) -> Result<(Position, bool), SendError> {
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
        let has_room = self.sender.eager.has_room(lane, SendError::check(parts).ok()?);
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
    ) -> Result<(Position, usize), SendError> {
        let len = SendError::check(parts)?;
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

    /// Passes eager messages that have come to the sink, at most `left`, which is counted down, those
    /// of talk first. Whether some were answered.
    pub(super) fn drain(&mut self, left: &mut usize, sink: &mut Sink<'_>) -> bool {
        let mut answering = Answering { conn: self, answers: false };
        for lane in Lane::ALL {
            let mut taken = Taken {
                records: answering.conn.receiver.eager.take(lane),
                lane,
                answering: &mut answering,
            };
            while *left > 0
                && let Some((tag, at)) = taken.records.pop()
            {
                *left -= 1;
                taken.answering.conn.receiver.eager.drained_one(lane, at.len());
                sink(&mut *taken.answering, tag, taken.records.bytes(at));
            }
        }
        answering.answers
    }

    /// Whether eager messages have come, or there is room for them, that nobody was told of.
    #[inline]
    pub(super) fn take_news(&mut self) -> bool {
        let came = std::mem::take(&mut self.receiver.eager.has_news);
        std::mem::take(&mut self.sender.eager.has_news) | came
    }

    #[inline]
    pub(super) fn eager(&self) -> &EagerIn {
        &self.receiver.eager
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
        if self.receiver.eager.is_due(self.sender.told_drained) {
            self.tell(keys);
        }
        self.has_rest
    }
}

/// The connection that a drained message came by.
struct Answering<'a> {
    conn: &'a mut Conn,
    answers: bool,
}

impl Reply for Answering<'_> {
    fn vi(&self) -> ViId {
        self.conn.receiver.eager.vi
    }

    fn send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, SendError> {
        self.answers = true;
        self.conn.put(lane, tag, parts).map(|(position, _)| position)
    }
}

/// What was answered before a sink panicked is still to be written.
impl Drop for Answering<'_> {
    #[inline]
    fn drop(&mut self) {
        self.conn.has_rest |= self.answers;
    }
}

/// Messages of a lane during a drain: put back at its end, also if the sink panics.
struct Taken<'a, 'c> {
    records: Records,
    lane: Lane,
    answering: &'a mut Answering<'c>,
}

impl Drop for Taken<'_, '_> {
    fn drop(&mut self) {
        let records = std::mem::take(&mut self.records);
        self.answering.conn.receiver.eager.put_back(self.lane, records);
    }
}
