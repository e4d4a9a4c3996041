//! One end of a connection: eager messages in and out.

use super::datapath::Conn;
use super::lanes::Behind;
use super::records::Scratch;
use crate::fabric::After;
use crate::vi::{Lane, Position, Reply, SendError, Sink, ViError, ViId};

/// A drain under way.
pub(super) struct Draining<'a, 'f> {
    pub scratch: &'a mut Scratch,
    pub sink: &'a mut Sink<'f>,
    /// Messages that it may still take.
    pub left: usize,
    /// Whether some were answered there and then.
    pub answers: bool,
    pub after: &'a mut After,
}

impl Conn {
    /// Sends an eager message, if nothing is against it. What is short makes no call, so that
    /// nothing has to be saved around one.
    #[inline(always)]
    pub(super) fn try_send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Option<Behind> {
        let Some(behind) = self.lanes.try_short(lane, tag, parts) else {
            return self.try_send_any(lane, tag, parts);
        };
        match self.parts.ringer.asleep() {
            None => Some(behind),
            Some(word) => self.wake(word, behind),
        }
    }

    #[inline(never)]
    fn try_send_any(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Option<Behind> {
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
    fn wake(&mut self, word: u64, sent: Behind) -> Option<Behind> {
        let _ = self.parts.ringer.pull(word);
        Some(sent)
    }

    /// Sends an eager message, or says why not. That may be the end of the connection.
    #[cold]
    pub(super) fn send_or_say(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<Position, SendError> {
        // It may have to wait for room.
        self.is_quiet = false;
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
        self.is_quiet = false;
        let (position, asked) = self.lanes.arrived(lane)?;
        if asked {
            self.ring_bell();
        }
        Ok(position)
    }

    /// Passes eager messages that are there to the sink, and counts them; also those before an
    /// error.
    #[inline]
    pub(super) fn drain(&mut self, draining: &mut Draining<'_, '_>) -> Result<(), Box<ViError>> {
        let published = self.lanes.published();
        let drained = Drained { conn: self, published };
        while draining.left > 0
            && let Some((tag, bytes)) = drained.conn.lanes.take(draining.scratch)?
        {
            (draining.sink)(&mut *drained.conn, tag, bytes);
            draining.left -= 1;
        }
        draining.answers |= std::mem::take(&mut drained.conn.answers);
        Ok(())
    }

    /// Whether there are eager messages, or room for them, that nobody was told of.
    #[inline]
    pub(super) fn has_eager_news(&mut self) -> Result<bool, Box<ViError>> {
        self.lanes.has_news()
    }
}

/// The end of a drain, also if a sink panics: the peer may sleep until there is room.
struct Drained<'a> {
    conn: &'a mut Conn,
    published: u64,
}

impl Drop for Drained<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.conn.lanes.published() != self.published {
            self.conn.ring_bell();
        }
    }
}

/// The connection that an eager message came by.
impl Reply for Conn {
    fn vi(&self) -> ViId {
        self.lanes.vi
    }

    fn send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, SendError> {
        self.answers = true;
        match self.try_send(lane, tag, parts) {
            Some(behind) => Ok(Position::new(behind.get())),
            None => self.send_or_say(lane, tag, parts),
        }
    }
}
