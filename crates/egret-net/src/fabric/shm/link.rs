//! An end of a connection, as its nic owns it.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::bell::Sleeper;
use super::datapath::{Conn, GONE};
use super::driver::Fixed;
use super::eager::Draining;
use super::lanes::{Behind, Undrained};
use super::rounds::Attention;
use super::token::{CONTROL, CORD, CORD_FLAGS, ENDED};
use crate::fabric::hub::end::{End, Ended};
use crate::fabric::hub::set::{self, token};
use crate::fabric::{Unposted, ViSpec};
use crate::vi::{DrainId, Keys, Lane, Notices, Position, Posted, SendError, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Link {
    pub id: u64,
    pub drain: DrainId,
    pub attention: Attention,
    pub end: End<Conn>,
    /// Eager messages that a connection which has ended left.
    undrained: Option<Undrained>,
    /// How much of each lane had arrived at its end.
    arrived: [Position; 2],
}

/// What came of polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Polled {
    Nothing,
    Something,
    /// Something, and there is more of it: who waits looks at its deadline in between.
    Unfinished,
    /// Eager messages are there to be drained, or room for them.
    Eager,
    Gone,
}

impl Polled {
    /// Whether waits are to end, though nothing completed.
    pub(super) const fn is_news(self) -> bool {
        matches!(self, Self::Unfinished | Self::Eager | Self::Gone)
    }
}

impl Link {
    pub(super) fn new(id: u64, spec: ViSpec, conn: Conn) -> Self {
        let arrived = [Position::default(); 2];
        let (drain, attention) = (spec.drain, Attention::Awake(0));
        Self { id, drain, attention, end: End::new(conn), undrained: None, arrived }
    }

    /// Has the sets wake up for it.
    pub(super) fn watch(&mut self, fixed: &Fixed) -> Result<(), Errno> {
        let Some(conn) = self.end.open() else { return Ok(()) };
        set::watch(&fixed.set, conn.parts.cord_fd(), token(CORD, self.id), CORD_FLAGS)?;
        let watch = |fd, kind| set::watch(&fixed.sockets, fd, token(kind, self.id), EventFlags::IN);
        watch(conn.parts.control_fd(), CONTROL)?;
        conn.parts.process_fd().map_or(Ok(()), |fd| watch(fd, ENDED))
    }

    /// Takes a descriptor. Whether to [resume](Self::resume) then.
    #[inline]
    pub(super) fn post(&mut self, posted: Posted, keys: &Keys) -> Result<bool, Unposted> {
        let (conn, posted) = self.end.admit(posted)?;
        conn.is_quiet = false;
        conn.post(posted, keys)?;
        Ok(conn.is_held_up() || !conn.notices.is_empty())
    }

    /// Takes slots that waited for what was posted, and says whom to tell.
    #[cold]
    pub(super) fn resume(&mut self, keys: &Keys, notices: &mut Notices) -> Polled {
        self.work(
            notices,
            |conn| {
                if conn.is_held_up() { conn.poll(keys, false) } else { Ok(false) }
            },
        )
    }

    /// Takes what came and sends what can go; see [`Conn::poll`].
    #[inline]
    pub(super) fn poll(&mut self, keys: &Keys, notices: &mut Notices, thorough: bool) -> Polled {
        let mut eager = false;
        let polled = self.work(notices, |conn| {
            let polled = conn.poll(keys, thorough)?;
            eager = conn.has_eager_news()?;
            conn.is_quiet = !polled && conn.can_be_quiet();
            Ok(polled)
        });
        if eager && polled != Polled::Gone { Polled::Eager } else { polled }
    }

    /// Whether a poll could find something to do.
    #[inline(always)]
    pub(super) fn may_have_work(&self) -> bool {
        match &self.end {
            End::Open(conn) => conn.may_have_work(),
            End::Gone(_) => true,
        }
    }

    /// Whether no look comes to it.
    #[inline(always)]
    pub(super) fn rests(&self) -> bool {
        self.attention == Attention::Resting
    }

    /// Who says whether this end sleeps.
    pub(super) fn sleeper(&self) -> Option<&Sleeper> {
        match &self.end {
            End::Open(conn) => Some(&conn.parts.sleeper),
            End::Gone(_) => None,
        }
    }

    /// Says that this end sleeps.
    pub(super) fn doze(&mut self) {
        if let Some(conn) = self.end.open() {
            conn.parts.sleeper.doze();
        }
    }

    /// Says that this end is awake.
    pub(super) fn wake(&mut self) {
        if let Some(conn) = self.end.open() {
            conn.parts.sleeper.disarm();
        }
    }

    /// The peer said something over its socket, or left.
    pub(super) fn hear(&mut self, keys: &Keys, notices: &mut Notices) -> Polled {
        self.work(notices, |conn| {
            conn.hear_all().inspect_err(|_| conn.last_look(keys))?;
            Ok(true)
        })
    }

    /// The peer's process has ended. A child of its may hold the socket open.
    pub(super) fn ended(&mut self, keys: &Keys, notices: &mut Notices) -> Polled {
        self.work(notices, |conn| {
            let why = conn.hear_all().err().unwrap_or_else(|| GONE.into());
            conn.last_look(keys);
            Err(why)
        })
    }

    /// The peer rang, which has ended the last sleep.
    pub(super) fn rung(&mut self) {
        if let Some(conn) = self.end.open() {
            // Whether the peer is gone its socket tells.
            let _ = conn.rung();
        }
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        let Some(conn) = self.end.open() else { return false };
        conn.is_quiet = false;
        let cancelled = conn.cancel(ticket);
        conn.notices.move_to(notices);
        cancelled
    }

    /// This side closes it: what came and was not drained is nobody's any more.
    pub(super) fn close(&mut self, why: &ViError, notices: &mut Notices) {
        self.work(notices, |_| Err(why.clone().into()));
        self.undrained = None;
    }

    /// Sends an eager message, if nothing is against it.
    #[inline(always)]
    pub(super) fn try_send(&mut self, lane: Lane, tag: u64, parts: &[&[u8]]) -> Option<Behind> {
        self.end.open()?.try_send(lane, tag, parts)
    }

    /// Sends an eager message, or says why not. A peer that is not to be believed is left.
    #[cold]
    pub(super) fn send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        notices: &mut Notices,
    ) -> Result<Position, SendError> {
        let sent = self.end.live()?.send_or_say(lane, tag, parts);
        if let Err(SendError::Closed(why)) = &sent {
            self.work(notices, |_| Err(why.clone().into()));
        }
        sent
    }

    /// How much of a lane has arrived; the peer may be asked to say so.
    pub(super) fn arrived(&mut self, lane: Lane, asked: bool, notices: &mut Notices) -> Position {
        let known = self.arrived[lane as usize];
        let arrived = self.end.open().map_or(Ok(known), |conn| conn.arrived(lane, asked));
        arrived.unwrap_or_else(|why| {
            if let SendError::Closed(why) = why {
                self.work(notices, |_| Err(why.into()));
            }
            known
        })
    }

    /// Whether there are eager messages.
    #[inline(always)]
    pub(super) fn has_eager(&self) -> bool {
        match &self.end {
            End::Open(conn) => conn.lanes.is_ready(),
            End::Gone(_) => self.undrained.is_some(),
        }
    }

    /// Passes eager messages that are there to the sink. Whether it may have to be drained once
    /// more, because the drain has had as many as it may, or the connection has ended.
    #[inline(always)]
    pub(super) fn drain(&mut self, draining: &mut Draining<'_, '_>) -> bool {
        if draining.left == 0 {
            return true;
        }
        match &mut self.end {
            End::Open(conn) => match conn.drain(draining) {
                Ok(()) => draining.left == 0,
                Err(why) => self.fail(why, draining),
            },
            End::Gone(_) => self.drain_rest(draining),
        }
    }

    #[cold]
    #[inline(never)]
    fn fail(&mut self, why: Box<ViError>, draining: &mut Draining<'_, '_>) -> bool {
        self.work(&mut draining.after.notices, |_| Err(why));
        draining.after.happened = true;
        true
    }

    /// Passes what is left of a connection that has ended to the sink.
    #[cold]
    fn drain_rest(&mut self, draining: &mut Draining<'_, '_>) -> bool {
        draining.after.happened = true;
        let Some(why) = self.end.error() else { return false };
        let Some(undrained) = &mut self.undrained else { return false };
        let mut ended = Ended { vi: undrained.vi(), why };
        while draining.left > 0
            && let Some((tag, bytes)) = undrained.take()
        {
            (draining.sink)(&mut ended, tag, &bytes);
            draining.left -= 1;
        }
        if undrained.is_empty() {
            self.undrained = None;
        }
        self.undrained.is_some()
    }

    /// Whether it is in the error state.
    #[inline]
    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.end, End::Gone(_))
    }

    /// Works on an open end; an error is the end of it.
    #[inline]
    fn work(
        &mut self,
        notices: &mut Notices,
        body: impl FnOnce(&mut Conn) -> Result<bool, Box<ViError>>,
    ) -> Polled {
        let Some(conn) = self.end.open() else { return Polled::Gone };
        conn.is_quiet = false;
        match body(conn) {
            Ok(busy) => {
                if !conn.notices.is_empty() {
                    conn.notices.move_to(notices);
                }
                match busy {
                    true if conn.is_unfinished() => Polled::Unfinished,
                    true => Polled::Something,
                    false => Polled::Nothing,
                }
            }
            Err(why) => {
                if let Some(undrained) = self.end.end(&why, notices) {
                    self.arrived = undrained.arrived;
                    self.undrained = (!undrained.is_empty()).then_some(undrained);
                }
                Polled::Gone
            }
        }
    }
}
