//! The window itself: its lanes each way, and the datagrams between.

use std::collections::VecDeque;
use std::fmt;

use super::acks::Acks;
use super::counters::WindowCounters;
use super::fault::{Fault, planted};
use super::incoming::{IncomingLane, PieceArrival};
use super::lane::{LANES, WindowLane};
use super::outgoing::OutgoingLane;
use super::rtt::Rtt;
use super::terms::WindowTerms;
use super::wire::{self, DatagramHead, WindowPiece};
use super::{MessageSink, MessageSource, WindowError};
use crate::rt::Instant;

/// Four lanes, each once and in order, over datagrams that may be lost, doubled, overtaken
/// or damaged. Without I/O and without a clock.
pub(in crate::fabric::window) struct Window<M> {
    terms: WindowTerms,
    outgoing: [OutgoingLane<M>; LANES],
    incoming: [IncomingLane; LANES],
    acks: Acks,
    rtt: Rtt,
    sent: VecDeque<M>,
    /// The number of the next datagram.
    next: u64,
    /// Whether a peer whose messages have to wait may take its time.
    is_patient: bool,
    counters: WindowCounters,
}

/// What a datagram has behind its head, and whether its sender can go on only with an answer.
#[derive(Debug)]
pub(in crate::fabric::window) struct Pieces<'a> {
    left: &'a [u8],
    asks: bool,
}

impl<M: MessageSource> Window<M> {
    /// A window in which nothing has happened.
    ///
    /// # Panics
    ///
    /// If the terms are outside of their bounds.
    pub(in crate::fabric::window) fn new(terms: WindowTerms) -> Self {
        terms.check();
        Self {
            terms,
            outgoing: WindowLane::ALL.map(|lane| OutgoingLane::new(lane, terms)),
            incoming: WindowLane::ALL.map(|lane| IncomingLane::new(lane, &terms)),
            acks: Acks::new(&terms),
            rtt: Rtt::default(),
            sent: VecDeque::new(),
            next: 0,
            is_patient: true,
            counters: WindowCounters::default(),
        }
    }

    /// From now on datagrams have at most so many bytes.
    ///
    /// # Panics
    ///
    /// If that is outside of the bounds of the terms.
    pub(in crate::fabric::window) fn resize(&mut self, datagram: usize) {
        if self.terms.datagram != datagram {
            self.terms.datagram = datagram;
            self.terms.check();
            self.outgoing.iter_mut().for_each(|lane| lane.resize(datagram));
        }
    }

    /// Takes a message for sending; the caller bounds how many. It
    /// comes back by [`poll_sent`](Self::poll_sent) or by [`end`](Self::end).
    pub(in crate::fabric::window) fn send(&mut self, lane: WindowLane, load: M) {
        self.outgoing[lane as usize].send(load);
    }

    /// Messages of a lane that are not under way to their ends.
    pub(in crate::fabric::window) fn waiting(&self, lane: WindowLane) -> usize {
        self.outgoing[lane as usize].waiting()
    }

    /// Messages of a lane that the peer has not acknowledged.
    pub(in crate::fabric::window) fn kept(&self, lane: WindowLane) -> usize {
        self.outgoing[lane as usize].kept()
    }

    /// Writes the next datagram that is due into `out`, which is cleared first, for tests.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(in crate::fabric::window) fn poll_datagram(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> bool {
        out.clear();
        self.tick(now);
        self.append_datagram(now, out)
    }

    /// Looks at the clock: what was not acknowledged in time is due again.
    #[inline]
    pub(in crate::fabric::window) fn tick(&mut self, now: Instant) {
        for lane in &mut self.outgoing {
            lane.tick(now, &self.rtt, &mut self.counters);
        }
    }

    /// Writes the next datagram that is due, by the last [look at the clock](Self::tick), to the end of
    /// `out`. `false`: nothing may be sent now.
    pub(in crate::fabric::window) fn append_datagram(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> bool {
        let start = out.len();
        let has_pieces = self.has_pieces();
        if !has_pieces && !self.acks.is_due(now) {
            return false;
        }
        let acks = self.incoming.each_mut().map(IncomingLane::tell);
        self.acks.told();
        let (number, held) = (self.next_number(), self.tells_held());
        DatagramHead { number, held, answer: false, acks }.write(out);
        if has_pieces {
            self.write_pieces(now, start, out);
        }
        self.counters.datagrams += 1;
        self.counters.acks += u64::from(!has_pieces);
        wire::seal(&mut out[start..]);
        true
    }

    fn next_number(&mut self) -> u64 {
        let number = self.next;
        self.next += u64::from(!planted(Fault::NumberAgain));
        number
    }

    /// Whether the peer is told that a message of its waits.
    fn tells_held(&self) -> bool {
        self.is_held() && !planted(Fault::HeldUntold)
    }

    fn write_pieces(&mut self, now: Instant, start: usize, out: &mut Vec<u8>) {
        for lane in &mut self.outgoing {
            if !lane.write(now, &self.rtt, (start, out), &mut self.counters) {
                break;
            }
        }
        if self.outgoing.iter().any(OutgoingLane::is_held_up) {
            wire::ask(&mut out[start..]);
        }
    }

    /// What was written before has left only now: patience begins here.
    pub(in crate::fabric::window) fn restart(&mut self, now: Instant) {
        for lane in &mut self.outgoing {
            lane.restart(now, &self.rtt);
        }
    }

    /// From now on the network is not spared: what there is goes at once.
    pub(in crate::fabric::window) fn burst(&mut self) {
        self.outgoing.iter_mut().for_each(OutgoingLane::burst);
    }

    /// Drops what came of a lane before its turn.
    pub(in crate::fabric::window) fn forget_early(&mut self, lane: WindowLane) {
        self.incoming[lane as usize].forget_early();
    }

    /// Whether the peer seems to get what is short and not what is long.
    pub(in crate::fabric::window) fn loses_long(&self) -> bool {
        self.outgoing.iter().any(OutgoingLane::loses_long)
    }

    /// Takes a datagram of the peer, and puts what it has `into` the messages, for tests. One that is
    /// damaged is counted and dropped.
    ///
    /// # Errors
    ///
    /// If no honest peer sends such a datagram, or a message is refused. All else is undefined
    /// but safe then, and [`end`](Self::end) is next.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(in crate::fabric::window) fn hear(
        &mut self,
        now: Instant,
        datagram: &[u8],
        into: &mut impl MessageSink,
    ) -> Result<(), WindowError> {
        let Some(pieces) = self.acknowledged(now, datagram)? else { return Ok(()) };
        let mut left = pieces.left;
        while let Ok(Some(piece)) = WindowPiece::read(&mut left) {
            self.incoming[piece.lane as usize].deliver(&piece, into);
        }
        self.hear_pieces(now, pieces, into)?;
        if planted(Fault::AckOfAck) {
            self.acks.hurry(now);
        }
        Ok(())
    }

    /// Takes the pieces of a datagram, which may ask for an answer.
    ///
    /// # Errors
    ///
    /// As of [`hear`](Self::hear).
    pub(in crate::fabric::window) fn hear_pieces(
        &mut self,
        now: Instant,
        Pieces { mut left, asks }: Pieces<'_>,
        into: &mut impl MessageSink,
    ) -> Result<(), WindowError> {
        while let Some(piece) = WindowPiece::read(&mut left)? {
            self.hear_piece(now, &piece, into)?;
        }
        if asks {
            self.acks.hurry_if_due(now);
        }
        Ok(())
    }

    /// Takes the pieces of one lane of a datagram, and no others.
    ///
    /// # Errors
    ///
    /// As of [`hear`](Self::hear).
    pub(in crate::fabric::window) fn hear_lane(
        &mut self,
        now: Instant,
        lane: WindowLane,
        Pieces { mut left, .. }: Pieces<'_>,
        into: &mut impl MessageSink,
    ) -> Result<(), WindowError> {
        while let Some(piece) = WindowPiece::read(&mut left)? {
            if piece.lane == lane {
                self.hear_piece(now, &piece, into)?;
            }
        }
        Ok(())
    }

    /// From now on a peer whose messages have to wait is as silent as any other.
    pub(in crate::fabric::window) const fn hasten(&mut self) {
        self.is_patient = false;
    }

    /// Nothing more is sent than that all has come, at once.
    pub(in crate::fabric::window) fn part(&mut self, now: Instant) {
        self.outgoing.iter_mut().for_each(|lane| drop(lane.end()));
        self.acks.hurry(now);
    }

    /// Takes what a datagram says of this end's own messages, and nothing else. What else there
    /// is, unless it is damaged.
    ///
    /// # Errors
    ///
    /// If no honest peer sends such a datagram.
    pub(in crate::fabric::window) fn acknowledged<'a>(
        &mut self,
        now: Instant,
        datagram: &'a [u8],
    ) -> Result<Option<Pieces<'a>>, WindowError> {
        self.counters.heard += 1;
        if !wire::is_intact(datagram) {
            self.counters.damaged += 1;
            return Ok(None);
        }
        let mut left = datagram;
        let head = DatagramHead::read(&mut left)?;
        for (lane, ack) in self.outgoing.iter_mut().zip(head.acks) {
            lane.acknowledge(now, (ack, head.held), &mut self.rtt, &mut self.sent)?;
            lane.heard();
            if head.held && self.is_patient {
                lane.lives();
            }
        }
        Ok(Some(Pieces { left, asks: head.answer }))
    }

    fn hear_piece(
        &mut self,
        now: Instant,
        piece: &WindowPiece<'_>,
        into: &mut impl MessageSink,
    ) -> Result<(), WindowError> {
        match self.incoming[piece.lane as usize].hear(piece, into)? {
            PieceArrival::Next => self.acks.came(now),
            PieceArrival::Early => {
                self.counters.early += 1;
                self.acks.hurry(now);
            }
            PieceArrival::Double => self.count_double(now),
        }
        Ok(())
    }

    /// A piece came again: the peer has not heard that it had come.
    fn count_double(&mut self, now: Instant) {
        self.counters.doubles += 1;
        if !planted(Fault::QuietDoubles) {
            self.acks.hurry(now);
        }
    }

    /// A message that had to wait may begin now.
    ///
    /// # Errors
    ///
    /// As of [`hear`](Self::hear).
    pub(in crate::fabric::window) fn resume(
        &mut self,
        now: Instant,
        into: &mut impl MessageSink,
    ) -> Result<(), WindowError> {
        for lane in &mut self.incoming {
            if lane.is_held() && lane.resume(into)? {
                // The peer waits for that.
                self.acks.hurry(now);
            }
        }
        Ok(())
    }

    /// Whether a message that came waits.
    pub(in crate::fabric::window) fn is_held(&self) -> bool {
        self.incoming.iter().any(IncomingLane::is_held)
    }

    /// The next message that the peer has acknowledged.
    pub(in crate::fabric::window) fn poll_sent(&mut self) -> Option<M> {
        self.sent.pop_front()
    }

    /// Whether a piece of a message may be sent now.
    #[inline]
    pub(in crate::fabric::window) fn has_pieces(&self) -> bool {
        self.outgoing.iter().any(OutgoingLane::is_due)
    }

    /// When a repeat or an acknowledgement is due.
    #[inline]
    pub(in crate::fabric::window) fn deadline(&self) -> Option<Instant> {
        let repeats = self.outgoing.iter().filter_map(OutgoingLane::deadline);
        repeats.fold(self.acks.due(), |first, at| Some(first.map_or(at, |first| first.min(at))))
    }

    /// Whether there is something to send, or time to look at the clock.
    #[inline]
    pub(in crate::fabric::window) fn is_ready(&self, now: Instant) -> bool {
        self.has_pieces() || self.deadline().is_some_and(|at| at <= now)
    }

    /// When there may be a datagram without anything else happening: a repeat or an
    /// acknowledgement. The beginning of the world, and so at once, if there is one already; who
    /// cannot send waits for that instead.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(in crate::fabric::window) fn next_event(&self) -> Option<Instant> {
        if self.has_pieces() { Some(Instant::default()) } else { self.deadline() }
    }

    /// Whether the peer acknowledges nothing any more, though it was asked as often as
    /// the terms say.
    pub(in crate::fabric::window) fn is_silent(&self, now: Instant) -> bool {
        self.outgoing.iter().any(|lane| lane.is_silent(now))
    }

    /// Whether the peer has acknowledged everything.
    pub(in crate::fabric::window) fn is_through(&self) -> bool {
        self.outgoing.iter().all(OutgoingLane::is_through)
    }

    /// Gives back what of a lane is not acknowledged, in order, and sends it no more. What is
    /// acknowledged still comes by [`poll_sent`](Self::poll_sent).
    pub(in crate::fabric::window) fn end(&mut self, lane: WindowLane) -> impl Iterator<Item = M> {
        self.outgoing[lane as usize].end()
    }

    /// As if so many pieces had gone both ways in every lane.
    #[cfg(test)]
    pub(super) fn skip(&mut self, pieces: u64) {
        self.outgoing.iter_mut().for_each(|lane| lane.skip(pieces));
        self.incoming.iter_mut().for_each(|lane| lane.skip(pieces));
    }

    /// Panics if something is not as it always is while the peer does not lie.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check(&self) {
        self.outgoing.iter().for_each(OutgoingLane::check);
        self.incoming.iter().for_each(IncomingLane::check);
    }

    /// What it has done so far.
    #[cfg(test)]
    pub(in crate::fabric::window) const fn counters(&self) -> WindowCounters {
        self.counters
    }
}

impl<M: MessageSource> fmt::Debug for Window<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("terms", &self.terms)
            .field("outgoing", &self.outgoing)
            .field("incoming", &self.incoming)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
