//! An end of a connection, as its nic owns it.

use rustix::io::Errno;

use super::datapath::{Conn, Leaving, Left};
use super::driver::Fixed;
use super::send::Flushed;
use super::token::LINK;
use crate::fabric::Unposted;
use crate::fabric::hub::eager::{self, Drains};
use crate::fabric::hub::end::End;
use crate::fabric::hub::set::token;
use crate::vi::{DrainId, Lane, Notices, Position, Posted, SendError, Sink, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Link {
    pub id: u64,
    pub end: End<Conn>,
    /// What is left of a connection that has ended.
    left: Option<Left>,
    /// Whether the nic has it among those whose eager messages are to be drained.
    is_heard: bool,
}

/// What came of draining.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pulled {
    /// Whether some messages were answered there and then.
    pub answers: bool,
    /// Whether the nic has something to do.
    pub is_dirty: bool,
    /// Whether the peer does not know what was drained.
    pub owes: bool,
    pub has_more: bool,
}

/// What came of polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Polled {
    Nothing,
    Something,
    Gone,
}

impl Link {
    pub(super) fn new(id: u64, conn: Conn) -> Self {
        Self { id, end: End::new(conn), left: None, is_heard: false }
    }

    /// Has the set say what there is to do.
    pub(super) fn watch(&mut self, fixed: &Fixed) -> Result<(), Errno> {
        let Some(conn) = self.end.open() else { return Ok(()) };
        conn.stream.watch(&fixed.set, token(LINK, self.id), conn.flags())
    }

    /// Has the set say nothing more.
    pub(super) fn unwatch(&mut self, fixed: &Fixed) {
        if let Some(conn) = self.end.open() {
            conn.stream.forget(&fixed.set);
        }
    }

    /// Takes a descriptor. Whether the nic has something to do.
    #[inline]
    pub(super) fn post(
        &mut self,
        posted: Posted,
        fixed: &Fixed,
        notices: &mut Notices,
    ) -> Result<bool, Unposted> {
        let (conn, posted) = self.end.admit(posted)?;
        let dirty = conn.post(posted, &fixed.keys)?;
        if !conn.notices.is_empty() {
            conn.notices.move_to(notices);
        }
        Ok(dirty)
    }

    /// Takes what came and sends what can go.
    #[inline]
    pub(super) fn poll(
        &mut self,
        fixed: &Fixed,
        notices: &mut Notices,
        staging: &mut [u8],
    ) -> Polled {
        match self.work(notices, |conn| conn.poll(&fixed.keys, staging)) {
            None => Polled::Gone,
            Some(true) => Polled::Something,
            Some(false) => Polled::Nothing,
        }
    }

    /// Whether the nic is to come by for what the last poll left, and was not told so.
    #[inline]
    pub(super) fn is_newly_dirty(&mut self) -> bool {
        self.end.open().is_some_and(Conn::is_newly_dirty)
    }

    /// Takes bytes that came already, behind the greeting.
    pub(super) fn take_first(
        &mut self,
        bytes: &[u8],
        fixed: &Fixed,
        notices: &mut Notices,
        staging: &mut [u8],
    ) {
        self.work(notices, |conn| conn.take_first(bytes, &fixed.keys, staging));
    }

    /// Writes what was posted; [thoroughly](Conn::push) before a sleep. `None` if it is
    /// over.
    pub(super) fn push(
        &mut self,
        fixed: &Fixed,
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
        fixed: &Fixed,
        notices: &mut Notices,
    ) -> (Result<Position, SendError>, bool) {
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
            // What is to be drained has left, or will.
            Err(why) => (Err(why), conn.sender.has_more() && !conn.is_full),
        }
    }

    /// Sends an eager message [if nothing is against it](Conn::try_send).
    #[inline]
    pub(super) fn try_send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        fixed: &Fixed,
    ) -> Option<(Position, bool)> {
        self.end.open()?.try_send(lane, tag, parts, &fixed.keys)
    }

    /// Writes eager messages that wait for company: they are out of the program's hands.
    pub(super) fn write_eager(&mut self, fixed: &Fixed) {
        if let Some(conn) = self.end.open()
            && !conn.sender.eager.is_alone()
            && conn.sender.has_more()
            && !conn.is_full
        {
            while conn.flush(&fixed.keys) == Flushed::More && !conn.is_broken {}
        }
    }

    /// How much of a lane has arrived, and whether the nic has something to do.
    pub(super) fn arrived(&mut self, lane: Lane, asked: bool, fixed: &Fixed) -> (Position, bool) {
        match (self.end.open(), &self.left) {
            (Some(conn), _) => conn.arrived(lane, asked, &fixed.keys),
            (None, Some(left)) => (left.arrived[lane as usize], false),
            (None, None) => (Position::default(), false),
        }
    }

    /// Whether eager messages, or room for them, are there that nobody was told of; and whether the
    /// link is newly among those to be drained.
    #[inline]
    pub(super) fn take_news(&mut self) -> (bool, bool) {
        let (has_news, eager) = match (self.end.open(), &self.left) {
            (Some(conn), _) => (conn.take_news(), &*conn.eager()),
            // They came with its end.
            (None, Some(left)) => (true, &*left.eager),
            (None, None) => return (false, false),
        };
        let is_heard = has_news && !eager.is_empty();
        (has_news, is_heard && !std::mem::replace(&mut self.is_heard, true))
    }

    /// Passes eager messages for a drain to the sink, at most `left`. `None` if they are for another.
    #[inline]
    pub(super) fn drain(
        &mut self,
        drain: DrainId,
        left: &mut usize,
        sink: &mut Sink<'_>,
        fixed: &Fixed,
        notices: &mut Notices,
    ) -> Option<Pulled> {
        let Some(conn) = self.end.open() else { return self.drain_left(drain, left, sink) };
        if conn.eager().drain != drain {
            return None;
        }
        let answers = eager::drain(conn, left, sink);
        let is_dirty = conn.settle(&fixed.keys);
        if !conn.notices.is_empty() {
            conn.notices.move_to(notices);
        }
        self.is_heard = !conn.eager().is_empty();
        let owes = conn.owes_drained();
        Some(Pulled { answers, is_dirty, owes, has_more: self.is_heard })
    }

    /// The same of a connection that has ended.
    #[cold]
    fn drain_left(
        &mut self,
        drain: DrainId,
        left: &mut usize,
        sink: &mut Sink<'_>,
    ) -> Option<Pulled> {
        let why = self.end.error().unwrap_or(ViError::Closed);
        let eager = &mut self.left.as_mut()?.eager;
        if eager.drain != drain {
            return None;
        }
        eager::drain_left(eager, why, left, sink);
        self.is_heard = !eager.is_empty();
        Some(Pulled { answers: false, is_dirty: false, owes: false, has_more: self.is_heard })
    }

    /// What a connection that has ended has still to say.
    pub(super) fn take_leaving(&mut self) -> Option<Leaving> {
        self.left.as_mut()?.leaving.take()
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

    /// Works on an open end; an error is the end of it.
    #[inline]
    fn work<R>(
        &mut self,
        notices: &mut Notices,
        body: impl FnOnce(&mut Conn) -> Result<R, Box<ViError>>,
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
impl Link {
    /// Bytes written, ever.
    pub(super) fn written(&mut self) -> u64 {
        self.end.open().map_or(0, |conn| conn.sender.written)
    }
}
