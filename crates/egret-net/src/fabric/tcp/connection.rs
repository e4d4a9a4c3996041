//! An end of a connection, as its nic owns it.
//!
//! Repeated names: `Connection`, one in each fabric.

use rustix::io::Errno;

use super::datapath::{DataPath, EndedConnection, TcpClosing};
use super::nic_context::{CONNECTION, TcpNicContext};
use super::send::Flushed;
use crate::fabric::Unposted;
use crate::fabric::common::connection_end::ConnectionEnd;
use crate::fabric::common::eager::{self, EagerEnd};
use crate::fabric::common::epoll::token;
use crate::vi::{DrainId, Lane, Notices, Position, PostError, Posted, Sink, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Connection {
    pub id: u64,
    pub end: ConnectionEnd<DataPath>,
    /// What remains of a connection that is closed.
    left: Option<EndedConnection>,
    /// Whether the connection is in the nic's queue of those to be drained.
    is_queued_to_drain: bool,
}

/// The result of a drain of one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct DrainOutcome {
    /// Whether some messages were answered during the drain.
    pub answers: bool,
    /// Whether the nic has something to do.
    pub is_dirty: bool,
    /// Whether an acknowledgement of drained messages is owed.
    pub owes: bool,
    pub has_more: bool,
}

/// The result of a poll of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPoll {
    Nothing,
    Something,
    Gone,
}

impl Connection {
    pub(super) fn new(id: u64, conn: DataPath) -> Self {
        Self { id, end: ConnectionEnd::new(conn), left: None, is_queued_to_drain: false }
    }

    /// Has epoll watch the socket.
    pub(super) fn watch(&mut self, fixed: &TcpNicContext) -> Result<(), Errno> {
        let Some(conn) = self.end.open() else { return Ok(()) };
        conn.stream.watch(&fixed.set, token(CONNECTION, self.id), conn.flags())
    }

    /// Stops watching the socket.
    pub(super) fn unwatch(&mut self, fixed: &TcpNicContext) {
        if let Some(conn) = self.end.open() {
            conn.stream.forget(&fixed.set);
        }
    }

    /// Takes a descriptor. Whether the nic has something to do.
    #[inline]
    pub(super) fn post(
        &mut self,
        posted: Posted,
        fixed: &TcpNicContext,
        notices: &mut Notices,
    ) -> Result<bool, Unposted> {
        let (conn, posted) = self.end.admit(posted)?;
        let dirty = conn.post(posted, &fixed.keys)?;
        if !conn.notices.is_empty() {
            conn.notices.move_to(notices);
        }
        Ok(dirty)
    }

    /// Reads what has arrived and writes what may leave.
    #[inline]
    pub(super) fn poll(
        &mut self,
        fixed: &TcpNicContext,
        notices: &mut Notices,
        staging: &mut [u8],
    ) -> ConnectionPoll {
        match self.work(notices, |conn| conn.poll(&fixed.keys, staging)) {
            None => ConnectionPoll::Gone,
            Some(true) => ConnectionPoll::Something,
            Some(false) => ConnectionPoll::Nothing,
        }
    }

    /// Whether the last poll has left something to write, and the nic was not told so before.
    #[inline]
    pub(super) fn is_newly_dirty(&mut self) -> bool {
        self.end.open().is_some_and(DataPath::is_newly_dirty)
    }

    /// Takes bytes that arrived with the handshake, behind it.
    pub(super) fn take_first(
        &mut self,
        bytes: &[u8],
        fixed: &TcpNicContext,
        notices: &mut Notices,
        staging: &mut [u8],
    ) {
        self.work(notices, |conn| conn.take_first(bytes, &fixed.keys, staging));
    }

    /// Writes what was posted; [thoroughly](DataPath::push) before a sleep. `None` if it is
    /// over.
    pub(super) fn push(
        &mut self,
        fixed: &TcpNicContext,
        notices: &mut Notices,
        thorough: bool,
    ) -> Option<Flushed> {
        self.work(notices, |conn| conn.push(&fixed.keys, thorough))
    }

    /// Sends an eager message. Whether the nic has something to do.
    #[inline]
    pub(super) fn send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        fixed: &TcpNicContext,
        notices: &mut Notices,
    ) -> (Result<Position, PostError>, bool) {
        let conn = match self.end.live() {
            Ok(conn) => conn,
            Err(why) => return (Err(why), false),
        };
        let sent = conn.send(lane, tag, parts, &fixed.keys);
        if !conn.notices.is_empty() {
            conn.notices.move_to(notices);
        }
        match sent {
            Ok((position, is_dirty)) => (Ok(position), is_dirty),
            // The peer has been, or will be, sent what it is to drain.
            Err(why) => (Err(why), conn.sender.has_more() && !conn.is_full),
        }
    }

    /// Sends an eager message [if nothing is against it](DataPath::try_send).
    #[inline]
    pub(super) fn try_send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        fixed: &TcpNicContext,
    ) -> Option<(Position, bool)> {
        self.end.open()?.try_send(lane, tag, parts, &fixed.keys)
    }

    /// Writes eager messages that wait for a batch: the program has given them away.
    pub(super) fn write_eager(&mut self, fixed: &TcpNicContext) {
        if let Some(conn) = self.end.open()
            && !conn.sender.eager.is_alone()
            && conn.sender.has_more()
            && !conn.is_full
        {
            while conn.flush(&fixed.keys) == Flushed::More && !conn.is_broken {}
        }
    }

    /// How much of a lane has arrived, and whether the nic has something to do.
    pub(super) fn arrived(
        &mut self,
        lane: Lane,
        asked: bool,
        fixed: &TcpNicContext,
    ) -> (Position, bool) {
        match (self.end.open(), &self.left) {
            (Some(conn), _) => conn.arrived(lane, asked, &fixed.keys),
            (None, Some(left)) => (left.arrived[lane as usize], false),
            (None, None) => (Position::default(), false),
        }
    }

    /// Whether eager messages have arrived, or room for them, since the last call; and whether the connection
    /// is newly to be drained.
    #[inline]
    pub(super) fn take_news(&mut self) -> (bool, bool) {
        let (has_news, eager) = match (self.end.open(), &self.left) {
            (Some(conn), _) => (conn.take_news(), &*conn.eager()),
            // These messages arrived with the end of the connection.
            (None, Some(left)) => (true, &*left.eager),
            (None, None) => return (false, false),
        };
        let is_queued_to_drain = has_news && !eager.is_empty();
        (has_news, is_queued_to_drain && !std::mem::replace(&mut self.is_queued_to_drain, true))
    }

    /// Passes eager messages for a drain to the sink, at most `left`. `None` if they are for another.
    #[inline]
    pub(super) fn drain(
        &mut self,
        drain: DrainId,
        left: &mut usize,
        sink: &mut Sink<'_>,
        fixed: &TcpNicContext,
        notices: &mut Notices,
    ) -> Option<DrainOutcome> {
        let Some(conn) = self.end.open() else { return self.drain_left(drain, left, sink) };
        if conn.eager().drain != drain {
            return None;
        }
        let answers = eager::drain(conn, left, sink);
        let is_dirty = conn.settle(&fixed.keys);
        if !conn.notices.is_empty() {
            conn.notices.move_to(notices);
        }
        self.is_queued_to_drain = !conn.eager().is_empty();
        let owes = conn.owes_drained();
        Some(DrainOutcome { answers, is_dirty, owes, has_more: self.is_queued_to_drain })
    }

    /// Drains a connection that is closed.
    #[cold]
    fn drain_left(
        &mut self,
        drain: DrainId,
        left: &mut usize,
        sink: &mut Sink<'_>,
    ) -> Option<DrainOutcome> {
        let why = self.end.error().unwrap_or(ViError::Closed);
        let eager = &mut self.left.as_mut()?.eager;
        if eager.drain != drain {
            return None;
        }
        eager::drain_left(eager, why, left, sink);
        self.is_queued_to_drain = !eager.is_empty();
        Some(DrainOutcome {
            answers: false,
            is_dirty: false,
            owes: false,
            has_more: self.is_queued_to_drain,
        })
    }

    /// The goodbye that a closed connection has still to send.
    pub(super) fn take_closing(&mut self) -> Option<TcpClosing> {
        self.left.as_mut()?.closing.take()
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        let Some(conn) = self.end.open() else { return false };
        let cancelled = conn.cancel(ticket);
        conn.notices.move_to(notices);
        cancelled
    }

    pub(super) fn close(&mut self, why: &ViError, notices: &mut Notices) {
        self.work(notices, |_| Err::<(), _>(why.clone().into()));
    }

    /// Runs `body` on an open end; an error closes it.
    #[inline]
    fn work<R>(
        &mut self,
        notices: &mut Notices,
        body: impl FnOnce(&mut DataPath) -> Result<R, Box<ViError>>,
    ) -> Option<R> {
        let conn = self.end.open()?;
        match body(conn) {
            Ok(result) => {
                if !conn.notices.is_empty() {
                    conn.notices.move_to(notices);
                }
                Some(result)
            }
            Err(why) => {
                self.left = self.end.end(&why, notices).or(self.left.take());
                None
            }
        }
    }
}

#[cfg(test)]
impl Connection {
    /// Bytes written, ever.
    pub(super) fn written(&mut self) -> u64 {
        self.end.open().map_or(0, |conn| conn.sender.written)
    }
}
