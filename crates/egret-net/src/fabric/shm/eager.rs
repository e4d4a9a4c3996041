//! One end of a connection: eager messages in and out.

use super::datapath::Conn;
use super::lanes::Behind;
use super::records::Scratch;
use crate::fabric::Drained;
use crate::vi::{Lane, Position, Reply, SendError, Sink, ViError, ViId};

impl Conn {
    /// Sends an eager message, if nothing is against it.
    #[inline]
    pub(super) fn try_send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Option<Behind> {
        let sent = self.lanes.try_send(lane, tag, parts);
        if sent.is_some() {
            self.ring_bell();
        }
        sent
    }

    /// Sends an eager message, or says why not. That may be the end of the connection.
    #[cold]
    pub(super) fn send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<Position, SendError> {
        let sent = self.lanes.send(lane, tag, parts);
        if sent.is_ok() {
            self.ring_bell();
        }
        sent
    }

    /// How much of a lane has arrived; the peer may be asked to say so.
    pub(super) fn arrived(&mut self, lane: Lane, asked: bool) -> Result<Position, SendError> {
        if !asked {
            return self.lanes.arrived_so_far(lane);
        }
        let (position, asked) = self.lanes.arrived(lane)?;
        if asked {
            self.ring_bell();
        }
        Ok(position)
    }

    /// Passes eager messages that are there to `sink`, at most `budget`, and counts them; also
    /// those before an error.
    #[inline]
    pub(super) fn drain(
        &mut self,
        budget: usize,
        scratch: &mut Scratch,
        sink: &mut Sink<'_>,
        drained: &mut Drained,
    ) -> Result<(), Box<ViError>> {
        let published = self.lanes.published();
        while drained.count < budget
            && let Some((tag, bytes)) = self.lanes.take(scratch)?
        {
            let mut answering = Answering { conn: self, answers: false };
            sink(&mut answering, tag, bytes);
            drained.answers |= answering.answers;
            drained.count += 1;
        }
        if self.lanes.published() != published {
            // The peer may sleep until there is room.
            self.ring_bell();
        }
        Ok(())
    }

    /// Whether there are eager messages, or room for them, that nobody was told of.
    #[inline]
    pub(super) fn has_eager_news(&mut self) -> Result<bool, Box<ViError>> {
        self.lanes.has_news()
    }
}

/// The connection that an eager message came by.
struct Answering<'a> {
    conn: &'a mut Conn,
    /// Whether it was answered.
    answers: bool,
}

impl Reply for Answering<'_> {
    fn vi(&self) -> ViId {
        self.conn.lanes.vi
    }

    fn send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, SendError> {
        self.answers = true;
        match self.conn.try_send(lane, tag, parts) {
            Some(behind) => Ok(Position::new(behind.get())),
            None => self.conn.send(lane, tag, parts),
        }
    }
}
