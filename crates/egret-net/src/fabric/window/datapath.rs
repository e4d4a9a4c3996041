//! One end of a connection: post and arrive, without I/O or clock.
//!
//! How far this side is goes along with whatever is sent, and by itself when the peer might stand
//! still without it: it has used up half of what it may count on, nothing comes any more, or some
//! time has passed.
//!
//! Repeated names: `DataPath`, one in each fabric.

use std::time::Duration;

use super::closing::ClosingConnection;
use super::fault::{Fault, planted};
use super::lanes::{Window, WindowError, WindowLane, WindowTerms, WindowTiming, WindowViolation};
use super::recv::{ArrivalTarget, Receiver};
use super::send::{Parcel, Sender};
use crate::fabric::Unposted;
use crate::fabric::common::close_reason::CloseReason;
use crate::fabric::common::connection_end::OpenEnd;
use crate::fabric::common::eager::{EagerEnd, EagerIn};
use crate::rt::Instant;
use crate::vi::{self, Counters, Keys, Notices, Op, Position, PostError, Posted, Ticket, ViError};

#[derive(Debug)]
pub(super) struct DataPath {
    pub window: Window<Parcel>,
    sender: Sender,
    receiver: Receiver,
    /// When the peer is told how far this side is, at the latest.
    tell_at: Option<Instant>,
}

/// Pieces under way in each lane.
const PIECES: u32 = WindowTerms::MESSAGES_MAX;
/// Bytes under way in each lane.
const BYTES: u64 = 256 << 10;
/// Eager messages that are kept for a peer, and words to it: more than both lanes hold that an honest one
/// has not drained, and so not acknowledged.
const KEPT_MAX: usize = 8 << 10;
/// How long the peer may not know how far this side is.
const TELL_AFTER: Duration = Duration::from_millis(1);

pub(super) const SILENT: ViError = ViError::PeerDied {
    why: "the peer has acknowledged nothing, though all was sent again 16 times",
};

impl DataPath {
    /// An end whose datagrams have so many bytes, and whose eager messages go to this drain.
    pub(super) fn new(datagram: usize, eager: EagerIn) -> Self {
        let terms =
            WindowTerms { messages: PIECES, bytes: BYTES, datagram, pace: WindowTiming::default() };
        Self {
            window: Window::new(terms),
            sender: Sender::new(),
            receiver: Receiver::new(eager),
            tell_at: None,
        }
    }

    /// Takes a descriptor.
    pub(super) fn post(&mut self, posted: Posted) -> Result<(), Unposted> {
        let is_receive = matches!(posted.op(), Op::Recv);
        let outstanding = match is_receive {
            true => self.receiver.outstanding(),
            false => self.outstanding(),
        };
        if outstanding >= super::DEPTH as usize {
            return Err(Unposted::new(PostError::Full { depth: super::DEPTH }, posted));
        }
        if is_receive {
            self.receiver.incoming.receives.push(posted);
        } else {
            self.sender.outbox.push(posted);
        }
        Ok(())
    }

    /// Sends an eager message, which goes with the next datagram.
    pub(super) fn send(
        &mut self,
        lane: vi::Lane,
        tag: u64,
        parts: &[&[u8]],
    ) -> Result<Position, PostError> {
        let Self { window, sender, receiver, .. } = self;
        sender.send_eager((lane, tag), parts, receiver.eager.drained(), window)
    }

    /// Whether this end keeps more eager messages, or questions about them, than an honest peer, which
    /// drains what it has acknowledged, leaves it.
    pub(super) fn is_flooded(&self) -> bool {
        let most = self.window.kept(WindowLane::Eager).max(self.window.kept(WindowLane::Control));
        most > KEPT_MAX && !planted(Fault::EagerUnbounded)
    }

    /// Whether the peer has drained all eager messages that were sent.
    pub(super) fn is_alone(&self) -> bool {
        self.sender.eager.is_alone()
    }

    /// How much of a lane has arrived. The peer may be asked.
    pub(super) fn arrived(&mut self, lane: vi::Lane, asked: bool) -> Position {
        if asked && self.sender.eager.ask(lane) {
            Sender::ask(&mut self.window);
        }
        self.sender.eager.arrived(lane)
    }

    /// Whether eager messages have come, or there is room for them, that was not yet reported.
    pub(super) fn take_news(&mut self) -> bool {
        let came = std::mem::take(&mut self.receiver.eager.has_news);
        std::mem::take(&mut self.sender.eager.has_news) | came
    }

    /// Sends that are not back.
    fn outstanding(&self) -> usize {
        self.sender.outbox.outstanding() + self.window.kept(WindowLane::Posted)
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        let taken = self.receiver.cancel(ticket).or_else(|| self.sender.outbox.cancel(ticket));
        let Some(posted) = taken else { return false };
        posted.fail(ViError::Cancelled, notices);
        true
    }

    /// Takes a datagram of the peer.
    pub(super) fn hear(
        &mut self,
        now: Instant,
        datagram: &[u8],
        keys: &Keys,
        notices: &mut Notices,
    ) -> Result<(), ViError> {
        let heard = self.hear_all(now, datagram, keys, notices);
        heard.map_err(|broken| why(&broken))
    }

    fn hear_all(
        &mut self,
        now: Instant,
        datagram: &[u8],
        keys: &Keys,
        notices: &mut Notices,
    ) -> Result<(), WindowError> {
        let Self { window, sender, receiver, .. } = self;
        let Some(pieces) = window.acknowledged(now, datagram)? else { return Ok(()) };
        // First: an answer may come with the acknowledgement of what it answers.
        sender.reap(window, notices);
        window.hear_pieces(now, pieces, &mut ArrivalTarget { receiver, sender, keys, notices })
    }

    /// Goes on with messages that had no receive.
    pub(super) fn resume(
        &mut self,
        now: Instant,
        keys: &Keys,
        notices: &mut Notices,
    ) -> Result<(), ViError> {
        let Self { window, sender, receiver, .. } = self;
        let resumed = window.resume(now, &mut ArrivalTarget { receiver, sender, keys, notices });
        resumed.map_err(|broken| why(&broken))
    }

    /// Whether the peer does not know how far this side is, and might want to: what it
    /// sent was taken, or it has fewer receives to count on than it does not know of.
    #[inline]
    fn owes(&self) -> bool {
        let (counts, told) = (self.receiver.counts(), self.sender.told);
        let left = told.receives.saturating_sub(self.receiver.begun);
        let is_short = counts.receives - told.receives > left;
        let owes_drained = self.receiver.eager.owes(self.sender.told_drained);
        (counts.taken, counts.placed) != (told.taken, told.placed) || is_short || owes_drained
    }

    /// Whether the peer may stand still.
    fn is_due(&mut self, now: Instant) -> bool {
        if self.receiver.eager.is_due(self.sender.told_drained) {
            return true;
        }
        let (counts, told) = (self.receiver.counts(), self.sender.told);
        let is_starving = counts.receives > told.receives && told.receives <= self.receiver.begun;
        let half = (told.receives.saturating_sub(told.placed) / 2).max(2);
        is_starving
            || counts.placed - told.placed >= half
            || self.tell_at.is_some_and(|at| at <= now)
    }

    /// Whether there is something for the window or the peer, or may be.
    #[inline]
    pub(super) fn has_work(&mut self, now: Instant) -> bool {
        self.window.is_ready(now)
            || self.sender.outbox.has_more()
            || self.window.is_held()
            || self.is_due(now)
    }

    /// Gives the window what may go, and what the peer should know; `thorough`, if nothing else is
    /// expected to go soon.
    pub(super) fn feed(&mut self, now: Instant, keys: &Keys, thorough: bool) {
        let counts = self.receiver.counts();
        let news = (counts != self.sender.told).then_some(counts);
        self.sender.feed(&mut self.window, keys, news);
        let owes = self.owes();
        if !owes {
            // A message has told it.
            self.tell_at = None;
        }
        let goes = self.window.has_pieces();
        let tells = owes && (goes || thorough) || self.is_due(now);
        let is_free = self.window.waiting(WindowLane::Control) == 0;
        if tells && is_free {
            let (counts, drained) = (self.receiver.counts(), self.receiver.eager.drained());
            self.sender.tell(counts, drained, &mut self.window);
        }
        self.tell_at = self.tell_at.filter(|at| *at > now);
    }

    /// Notes by when the peer is to know how far this side is, if it does not. Whether it does not.
    #[inline]
    pub(super) fn note(&mut self, now: Instant) -> bool {
        let owes = self.owes();
        // What cannot be told now is when the peer has acknowledged what was told before.
        if !owes || self.window.waiting(WindowLane::Control) > 0 {
            self.tell_at = None;
        } else if self.tell_at.is_none() {
            self.tell_at = Some(now + TELL_AFTER);
        }
        owes
    }

    /// When there is something to do though nothing comes, if nothing may be sent now.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.window.deadline().into_iter().chain(self.tell_at).min()
    }
}

/// What is left of a connection that has ended.
#[derive(Debug)]
pub(super) struct ConnectionRemains {
    /// What is still to be told to the peer, if it listens.
    pub leaving: Option<ClosingConnection>,
    /// Eager messages that came before, to be drained.
    pub eager: Box<EagerIn>,
    /// How much of each lane the peer has drained.
    pub arrived: [Position; 2],
}

impl EagerEnd for DataPath {
    #[inline]
    fn eager(&mut self) -> &mut EagerIn {
        &mut self.receiver.eager
    }

    fn answer(&mut self, lane: vi::Lane, tag: u64, parts: &[&[u8]]) -> Result<Position, PostError> {
        self.send(lane, tag, parts)
    }
}

impl OpenEnd for DataPath {
    type Remainder = ConnectionRemains;

    fn counters(&self) -> Counters {
        let receives = &self.receiver.incoming.receives;
        let (sent, received) = (self.sender.outbox.completed, receives.received);
        Counters { sent, received, dropped: receives.dropped }
    }

    fn fail(mut self, why: &ViError, notices: &mut Notices) -> Self::Remainder {
        let (is_last, counts) = (self.receiver.hears_last(), self.receiver.counts());
        let mut kept = self.window.end(WindowLane::Posted).collect::<Vec<_>>();
        kept.extend(acknowledged(&mut self.window));
        let mut sends: Vec<Posted> = kept.into_iter().filter_map(Parcel::into_posted).collect();
        sends.extend(self.sender.outbox.drain());
        sends.sort_by_key(Posted::ticket);
        for posted in sends.into_iter().chain(self.receiver.drain()) {
            posted.fail(why.clone(), notices);
        }
        let arrived = vi::Lane::ALL.map(|lane| self.sender.eager.arrived(lane));
        let Receiver { mut eager, is_over, .. } = self.receiver;
        if *why == ViError::Closed {
            eager.clear();
        }
        if is_over || knows_the_end(why) {
            return ConnectionRemains { leaving: None, eager, arrived };
        }
        drop(self.window.end(WindowLane::Answers));
        let mut last = Vec::new();
        CloseReason::of(why.clone()).push(&mut last);
        self.sender.leave(&last, counts, &mut self.window);
        ConnectionRemains {
            leaving: Some(ClosingConnection::new(self.window, is_last)),
            eager,
            arrived,
        }
    }
}

/// What the peer has acknowledged, and was not reported yet.
fn acknowledged(window: &mut Window<Parcel>) -> impl Iterator<Item = Parcel> {
    std::iter::from_fn(|| if planted(Fault::AcknowledgedLost) { None } else { window.poll_sent() })
}

/// Whether the peer is not there, or has left before.
fn knows_the_end(why: &ViError) -> bool {
    let is_dead = matches!(why, ViError::PeerDied { .. } | ViError::ClosedByPeer);
    is_dead || planted(Fault::LeavesAtOnce)
}

/// What a window ends with, for the virtual interface.
pub(super) fn why(broken: &WindowError) -> ViError {
    match broken {
        WindowError::Refused(why) => (**why).clone(),
        WindowError::Violation(violation) => {
            tracing::warn!(%violation, "a peer has broken the rules of its window");
            match violation {
                WindowViolation::NeverSent { .. } | WindowViolation::TakenBack { .. } => {
                    ViError::Protocol("an acknowledgement of what was never sent")
                }
                WindowViolation::Outside { .. } | WindowViolation::TooMuch { .. } => {
                    ViError::Protocol("more than may be outstanding")
                }
                _ => ViError::Protocol("a malformed datagram"),
            }
        }
    }
}
