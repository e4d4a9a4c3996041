//! An end of a connection, as its nic owns it: open, leaving, or gone.
//!
//! Repeated names: `Connection`, one in each fabric.

use std::time::Duration;

use super::closing::{ClosingConnection, LINGER_MAX};
use super::datapath::{ConnectionRemains, DataPath, SILENT};
use super::fault::{Fault, planted};
use super::lanes::Window;
use super::send::Parcel;
use super::train::Train;
use super::wire::HEAD_MAX;
use crate::fabric::common::connection_end::ConnectionEnd;
use crate::fabric::common::eager::{self, EagerEnd, EagerIn};
use crate::fabric::{After, ConnId, Machine, Unposted, ViSpec};
use crate::rt::Instant;
use crate::vi::{
    Counters, DrainId, Keys, Lane, Notices, Position, PostError, Posted, Sink, Ticket, ViError,
};

#[derive(Debug)]
pub(super) struct Connection {
    end: ConnectionEnd<DataPath>,
    /// Bytes before and behind a datagram that the machine below writes, once it was asked.
    edges: Option<[usize; 2]>,
    /// What is still to be said, when it is over here.
    pub leaving: Option<ClosingConnection>,
    /// Eager messages that are to be drained, when it is over here, and how much has arrived there.
    left: Option<(Box<EagerIn>, [Position; 2])>,
    /// Until when it is waited for, at the latest, when it is over here.
    pub leaving_until: Option<Instant>,
    /// When its nic looks at it though nothing comes: not later than when there is something to do.
    pub timer: Option<Instant>,
    /// Whether the nic has it among those with something to send, and among those whose peers do not
    /// know how far this side is.
    pub is_dirty: bool,
    pub is_owing: bool,
    /// Whether all handles to it were dropped.
    pub is_released: bool,
    /// Whether the nic has it among those whose eager messages are to be drained.
    is_heard: bool,
    /// Datagrams that the machine below had no room for.
    pub unsent: Option<Box<Train>>,
}

/// Bytes of the longest datagram: what the path carries, and no more than that, for what is lost is
/// repeated as a whole.
const DATAGRAM_MAX: usize = 16 << 10;
/// Room for a head and some bytes.
const DATAGRAM_MIN: usize = HEAD_MAX + 192;

/// Bytes of a datagram between its edges, over a path that carries so many.
fn datagram(carries: usize, [before, behind]: [usize; 2]) -> usize {
    carries.saturating_sub(before + behind).clamp(DATAGRAM_MIN, DATAGRAM_MAX)
}

impl Connection {
    pub(super) fn new(spec: &ViSpec) -> Self {
        let eager = EagerIn::new(spec.vi, spec.drain);
        Self {
            end: ConnectionEnd::new(DataPath::new(DATAGRAM_MIN, eager)),
            edges: None,
            leaving: None,
            left: None,
            leaving_until: None,
            timer: None,
            is_dirty: false,
            is_owing: false,
            is_released: false,
            is_heard: false,
            unsent: None,
        }
    }

    pub(super) fn post(&mut self, posted: Posted) -> Result<(), Unposted> {
        let (conn, posted) = self.end.admit(posted)?;
        conn.post(posted)
    }

    /// Sends an eager message, which goes with the next datagram.
    pub(super) fn send(
        &mut self,
        lane: Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<Position, PostError> {
        self.end.live()?.send(lane, tag, parts)
    }

    /// Whether the peer has drained all eager messages that were sent.
    pub(super) fn is_alone(&mut self) -> bool {
        self.end.open().is_some_and(|conn| conn.is_alone())
    }

    /// How much of a lane has arrived. The peer may be asked.
    pub(super) fn arrived(&mut self, lane: Lane, asked: bool) -> Position {
        match (self.end.open(), &self.left) {
            (Some(conn), _) => conn.arrived(lane, asked),
            (None, Some((_, arrived))) => arrived[lane as usize],
            (None, None) => Position::default(),
        }
    }

    /// Whether eager messages, or room for them, are there that were not reported; and whether the
    /// link is newly among those to be drained.
    pub(super) fn take_news(&mut self) -> (bool, bool) {
        let (has_news, eager) = match (self.end.open(), &self.left) {
            (Some(conn), _) => (conn.take_news(), &*conn.eager()),
            // They came with its end.
            (None, Some((eager, _))) => (!eager.is_empty() && !self.is_heard, &**eager),
            (None, None) => return (false, false),
        };
        let is_heard = has_news && !eager.is_empty();
        (has_news, is_heard && !std::mem::replace(&mut self.is_heard, true))
    }

    /// Passes eager messages for a drain to the sink, at most `left`. Whether some were answered, and
    /// whether there are more; `None` if they are for another.
    pub(super) fn drain(
        &mut self,
        drain: DrainId,
        left: &mut usize,
        sink: &mut Sink<'_>,
    ) -> Option<(bool, bool)> {
        let why = self.end.error();
        if let Some(conn) = self.end.open() {
            if conn.eager().drain != drain {
                return None;
            }
            let answers = eager::drain(conn, left, sink);
            self.is_heard = !conn.eager().is_empty();
            return Some((answers, self.is_heard));
        }
        let (eager, _) = self.left.as_mut().filter(|(eager, _)| eager.drain == drain)?;
        eager::drain_left(eager, why.unwrap_or(ViError::Closed), left, sink);
        self.is_heard = !eager.is_empty();
        Some((false, self.is_heard))
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        self.end.open().is_some_and(|conn| conn.cancel(ticket, notices))
    }

    pub(super) fn error(&self) -> Option<ViError> {
        self.end.error()
    }

    pub(super) fn counters(&self) -> Counters {
        self.end.counters()
    }

    /// Processes a datagram of the peer; a closing end only learns what has arrived of its goodbye.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        datagram: &[u8],
        keys: &Keys,
        notices: &mut Notices,
    ) -> Result<(), ViError> {
        if let Some(conn) = self.end.open() {
            return conn.hear(now, datagram, keys, notices);
        }
        if let Some(leaving) = &mut self.leaving
            && leaving.hear(now, datagram).is_err()
        {
            self.leaving = None;
        }
        Ok(())
    }

    /// Whether there is something to say, or may be.
    #[inline]
    pub(super) fn has_work(&mut self, now: Instant) -> bool {
        self.unsent.is_some() || self.end.open().is_none_or(|conn| conn.has_work(now))
    }

    /// Goes on with messages that had no receive, and gives the window what may go; `thorough`, if
    /// nothing else is expected to go soon.
    ///
    /// # Errors
    ///
    /// If the peer has lied.
    pub(super) fn feed(
        &mut self,
        now: Instant,
        thorough: bool,
        keys: &Keys,
        notices: &mut Notices,
    ) -> Result<(), ViError> {
        let Some(conn) = self.end.open() else { return Ok(()) };
        if conn.window.is_held() {
            conn.resume(now, keys, notices)?;
        }
        if conn.is_flooded() {
            return Err(ViError::Protocol("an acknowledgement of what was never sent"));
        }
        conn.feed(now, keys, thorough);
        Ok(())
    }

    /// Sends the datagrams that are due, as long as there is room. Whether there is.
    pub(super) fn send_due(
        &mut self,
        now: Instant,
        (conn, below): (ConnId, &mut dyn Machine),
        train: &mut Train,
        after: &mut After,
    ) -> bool {
        if let Some(unsent) = &mut self.unsent {
            if !unsent.leave(|bytes, size| below.send_datagrams(conn, bytes, size, after)) {
                return false;
            }
            self.unsent = None;
            if let Some(window) = self.window() {
                window.restart(now);
            }
        }
        let edges = *self.edges.get_or_insert_with(|| below.datagram_edges(conn));
        let Some(window) = self.window().filter(|window| window.is_ready(now)) else { return true };
        window.resize(datagram(below.datagram_max(conn), edges));
        window.tick(now);
        while train.fill(now, edges, window) {
            if !train.leave(|bytes, size| below.send_datagrams(conn, bytes, size, after)) {
                self.unsent = Some(Box::new(std::mem::take(train)));
                return false;
            }
            if !train.is_full() {
                return true;
            }
        }
        true
    }

    pub(super) fn window(&mut self) -> Option<&mut Window<Parcel>> {
        match self.end.open() {
            Some(conn) => Some(&mut conn.window),
            None => self.leaving.as_mut().map(|leaving| &mut leaving.window),
        }
    }

    /// From now on the network is not spared.
    pub(super) fn burst(&mut self) {
        if let Some(window) = self.window()
            && !planted(Fault::ShutsCongested)
        {
            window.burst();
        }
    }

    /// Ends it, if it is open. Whether it was.
    pub(super) fn end(&mut self, now: Instant, why: &ViError, notices: &mut Notices) -> bool {
        let Some(ConnectionRemains { leaving, eager, arrived }) = self.end.end(why, notices) else {
            return false;
        };
        self.left = Some((eager, arrived));
        // A peer that lies is told so, and not waited for.
        let linger = if matches!(why, ViError::Protocol(_)) { Duration::ZERO } else { LINGER_MAX };
        self.leaving_until = leaving.is_some().then(|| now + linger);
        self.leaving = leaving;
        true
    }

    /// Why it is silent, if it is.
    pub(super) fn is_silent(&mut self, now: Instant) -> Option<ViError> {
        let is_silent =
            self.unsent.is_none() && self.window().is_some_and(|window| window.is_silent(now));
        is_silent.then_some(SILENT)
    }

    /// Whether the time for the peer to acknowledge the goodbye is over.
    fn is_late(&self, now: Instant) -> bool {
        self.leaving_until.is_some_and(|until| until <= now) && !planted(Fault::LingersOn)
    }

    /// Whether it is over here, and the peer knows all that it is to know, or had its time.
    pub(super) fn has_left(&mut self, now: Instant) -> bool {
        if self.is_late(now) {
            self.leaving = None;
        }
        let is_through = |leaving: &ClosingConnection| leaving.window.is_through();
        self.end.open().is_none() && self.leaving.as_ref().is_none_or(is_through)
    }

    /// Notes by when the peer is to know how far this side is, if it does not. Whether it does not.
    #[inline]
    pub(super) fn note(&mut self, now: Instant) -> bool {
        self.end.open().is_some_and(|conn| conn.note(now))
    }

    /// When there is something to do though nothing comes, and no room is found; what may be sent has
    /// been.
    pub(super) fn next_event(&mut self) -> Option<Instant> {
        let next = match self.end.open() {
            _ if self.unsent.is_some() => None,
            Some(conn) => conn.deadline(),
            None => self.leaving.as_ref().and_then(|leaving| leaving.window.deadline()),
        };
        next.into_iter().chain(self.leaving_until).min()
    }
}
