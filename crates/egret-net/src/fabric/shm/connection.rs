//! A connection as its nic owns it: open, or ended with what is still to be drained.
//!
//! Repeated names: `Connection`, one in each fabric.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::datapath::DataPath;
use super::doorbell::DoorbellSleeper;
use super::eager::{LanePosition, ShmDrain, UndrainedRecords};
use super::nic_context::{CONTROL, DOORBELL, DOORBELL_FLAGS, ENDED, ShmNicContext};
use super::transfer_context::GONE;
use crate::fabric::common::connection_end::{ConnectionEnd, EndedReply};
use crate::fabric::common::epoll::{self, token};
use crate::fabric::{Unposted, ViSpec};
use crate::vi::{DrainId, Keys, Lane, Notices, Position, PostError, Posted, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Connection {
    pub id: u64,
    pub drain: DrainId,
    pub attention: Attention,
    pub end: ConnectionEnd<DataPath>,
    /// Eager messages that were not drained when the connection ended.
    undrained: Option<UndrainedRecords>,
    /// How much of each lane had arrived when the connection ended.
    arrived: [Position; 2],
}

/// Whether a nic looks at a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attention {
    /// The connection is polled; holds the last turn that found something.
    Awake(u32),
    Resting,
    /// The connection has ended, and waiting threads know.
    Ended,
}

/// What came of polling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShmPollOutcome {
    Nothing,
    Something,
    /// Something, and there is more: a waiting thread looks at its deadline in between.
    Unfinished,
    /// Eager messages can be drained, or there is room to send more.
    Eager,
    Gone,
}

impl ShmPollOutcome {
    /// Whether waits end although no operation completed.
    pub(super) const fn is_news(self) -> bool {
        matches!(self, Self::Unfinished | Self::Eager | Self::Gone)
    }
}

impl Connection {
    pub(super) fn new(id: u64, spec: ViSpec, conn: DataPath) -> Self {
        let arrived = [Position::default(); 2];
        let (drain, attention) = (spec.drain, Attention::Awake(0));
        Self { id, drain, attention, end: ConnectionEnd::new(conn), undrained: None, arrived }
    }

    /// Registers the descriptors of the connection with the sets of its nic.
    pub(super) fn watch(&mut self, fixed: &ShmNicContext) -> Result<(), Errno> {
        let Some(conn) = self.end.open() else { return Ok(()) };
        epoll::watch(
            &fixed.set,
            conn.parts.doorbell_fd(),
            token(DOORBELL, self.id),
            DOORBELL_FLAGS,
        )?;
        let watch =
            |fd, kind| epoll::watch(&fixed.sockets, fd, token(kind, self.id), EventFlags::IN);
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

    /// Takes items that waited for the receives which were posted, and moves the notices out.
    #[cold]
    pub(super) fn resume(&mut self, keys: &Keys, notices: &mut Notices) -> ShmPollOutcome {
        self.work(
            notices,
            |conn| {
                if conn.is_held_up() { conn.poll(keys, false) } else { Ok(false) }
            },
        )
    }

    /// Takes what has arrived and sends what can be sent; see [`DataPath::poll`].
    #[inline]
    pub(super) fn poll(
        &mut self,
        keys: &Keys,
        notices: &mut Notices,
        thorough: bool,
    ) -> ShmPollOutcome {
        let mut eager = false;
        let polled = self.work(notices, |conn| {
            let polled = conn.poll(keys, thorough)?;
            eager = conn.has_eager_news()?;
            conn.is_quiet = !polled && conn.can_be_quiet();
            Ok(polled)
        });
        if eager && polled != ShmPollOutcome::Gone { ShmPollOutcome::Eager } else { polled }
    }

    /// Whether a poll could find something to do.
    #[inline(always)]
    pub(super) fn may_have_work(&self) -> bool {
        match &self.end {
            ConnectionEnd::Open(conn) => conn.may_have_work(),
            ConnectionEnd::Gone(_) => true,
        }
    }

    /// Whether the connection rests, so that polls skip it.
    #[inline(always)]
    pub(super) fn rests(&self) -> bool {
        self.attention == Attention::Resting
    }

    /// The doorbell word that says whether this end sleeps.
    pub(super) fn sleeper(&self) -> Option<&DoorbellSleeper> {
        match &self.end {
            ConnectionEnd::Open(conn) => Some(&conn.parts.sleeper),
            ConnectionEnd::Gone(_) => None,
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
    pub(super) fn control_ready(&mut self, keys: &Keys, notices: &mut Notices) -> ShmPollOutcome {
        self.work(notices, |conn| {
            conn.read_control().inspect_err(|_| conn.take_rest(keys))?;
            Ok(true)
        })
    }

    /// The peer's process has ended. A child of that process may hold the socket open.
    pub(super) fn process_ended(&mut self, keys: &Keys, notices: &mut Notices) -> ShmPollOutcome {
        self.work(notices, |conn| {
            let why = conn.read_control().err().unwrap_or_else(|| GONE.into());
            conn.take_rest(keys);
            Err(why)
        })
    }

    /// The peer rang the doorbell, which has ended the last sleep.
    pub(super) fn rung(&mut self) {
        if let Some(conn) = self.end.open() {
            // An error means that the peer is gone; its control socket reports that too.
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

    /// Closes the connection from this side; drops what was received and not drained.
    pub(super) fn close(&mut self, why: &ViError, notices: &mut Notices) {
        self.work(notices, |_| Err(why.clone().into()));
        self.undrained = None;
    }

    /// Sends an eager message, if nothing is against it.
    #[inline(always)]
    pub(super) fn try_send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Option<LanePosition> {
        self.end.open()?.try_send(lane, tag, parts)
    }

    /// Sends an eager message, or says why it cannot. A protocol error of the peer ends the connection.
    #[cold]
    pub(super) fn send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
        notices: &mut Notices,
    ) -> Result<Position, PostError> {
        let sent = self.end.live()?.send_or_say(lane, tag, parts);
        if let Err(PostError::Broken(why)) = &sent {
            self.work(notices, |_| Err(why.clone().into()));
        }
        sent
    }

    /// How much of a lane has arrived; asks the peer to publish that, if `asked`.
    pub(super) fn arrived(&mut self, lane: Lane, asked: bool, notices: &mut Notices) -> Position {
        let known = self.arrived[lane as usize];
        let arrived = self.end.open().map_or(Ok(known), |conn| conn.arrived(lane, asked));
        arrived.unwrap_or_else(|why| {
            if let PostError::Broken(why) = why {
                self.work(notices, |_| Err(why.into()));
            }
            known
        })
    }

    /// Whether there are eager messages.
    #[inline(always)]
    pub(super) fn has_eager(&self) -> bool {
        match &self.end {
            ConnectionEnd::Open(conn) => conn.lanes.is_ready(),
            ConnectionEnd::Gone(_) => self.undrained.is_some(),
        }
    }

    /// Passes eager messages that are there to the sink. Whether it may have to be drained once
    /// more, because the drain has had as many as it may, or the connection has ended.
    #[inline(always)]
    pub(super) fn drain(&mut self, draining: &mut ShmDrain<'_, '_>) -> bool {
        if draining.left == 0 {
            return true;
        }
        match &mut self.end {
            ConnectionEnd::Open(conn) => match conn.drain(draining) {
                Ok(()) => draining.left == 0,
                Err(why) => self.fail(why, draining),
            },
            ConnectionEnd::Gone(_) => self.drain_rest(draining),
        }
    }

    #[cold]
    #[inline(never)]
    fn fail(&mut self, why: Box<ViError>, draining: &mut ShmDrain<'_, '_>) -> bool {
        self.work(&mut draining.after.notices, |_| Err(why));
        draining.after.happened = true;
        true
    }

    /// Passes what is left of a connection that has ended to the sink.
    #[cold]
    fn drain_rest(&mut self, draining: &mut ShmDrain<'_, '_>) -> bool {
        draining.after.happened = true;
        let Some(why) = self.end.error() else { return false };
        let Some(undrained) = &mut self.undrained else { return false };
        let mut ended = EndedReply { vi: undrained.vi(), why };
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
        matches!(self.end, ConnectionEnd::Gone(_))
    }

    /// Works on an open end; an error is the end of it.
    #[inline]
    fn work(
        &mut self,
        notices: &mut Notices,
        body: impl FnOnce(&mut DataPath) -> Result<bool, Box<ViError>>,
    ) -> ShmPollOutcome {
        let Some(conn) = self.end.open() else { return ShmPollOutcome::Gone };
        conn.is_quiet = false;
        match body(conn) {
            Ok(busy) => {
                if !conn.notices.is_empty() {
                    conn.notices.move_to(notices);
                }
                match busy {
                    true if conn.is_unfinished() => ShmPollOutcome::Unfinished,
                    true => ShmPollOutcome::Something,
                    false => ShmPollOutcome::Nothing,
                }
            }
            Err(why) => {
                if let Some(undrained) = self.end.end(&why, notices) {
                    self.arrived = undrained.arrived;
                    self.undrained = (!undrained.is_empty()).then_some(undrained);
                }
                ShmPollOutcome::Gone
            }
        }
    }
}
