//! The window itself: three lanes each way, and the datagrams between.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use egret_net::rt::Instant;
use egret_net::vi::{Descriptor, Landing};

use super::acks::Acks;
use super::counters::WindowCounters;
use super::fault::{Fault, planted};
use super::incoming::{Arrived, Heard, Incoming};
use super::lie::Lie;
use super::outgoing::Outgoing;
use super::rtt::Rtt;
use super::terms::Terms;
use super::wire::{self, Head, Piece};
use crate::link::{Fate, Lane};

/// Three lanes, once and in order, over datagrams that may be lost, doubled, overtaken
/// or damaged. Without I/O and without a clock.
pub(crate) struct Window {
    terms: Terms,
    landing: Arc<dyn Landing>,
    outgoing: [Outgoing; 3],
    incoming: [Incoming; 3],
    acks: Acks,
    rtt: Rtt,
    arrived: VecDeque<Arrived>,
    sent: VecDeque<Descriptor>,
    counters: WindowCounters,
}

impl Window {
    /// A window in which nothing has happened.
    ///
    /// # Panics
    ///
    /// If the terms are outside of their bounds.
    pub(crate) fn new(terms: Terms, landing: Arc<dyn Landing>) -> Self {
        terms.check();
        Self {
            terms,
            landing,
            outgoing: Lane::ALL.map(|lane| Outgoing::new(lane, terms)),
            incoming: Lane::ALL.map(|lane| Incoming::new(lane, &terms)),
            acks: Acks::new(&terms),
            rtt: Rtt::default(),
            arrived: VecDeque::new(),
            sent: VecDeque::new(),
            counters: WindowCounters::default(),
        }
    }

    /// Takes a message for sending, with its tag; the caller bounds how many. Its memory
    /// comes back by [`poll_sent`](Self::poll_sent) or by [`end`](Self::end).
    pub(crate) fn send(&mut self, lane: Lane, descriptor: Descriptor) {
        self.outgoing[lane as usize].send(descriptor);
    }

    /// Writes the next datagram that is due into `out`, which is cleared first. `false`:
    /// nothing may be sent now.
    pub(crate) fn poll_datagram(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        out.clear();
        for lane in &mut self.outgoing {
            lane.tick(now, &self.rtt, &mut self.counters);
        }
        let has_pieces = self.outgoing.iter().any(Outgoing::is_due);
        if !has_pieces && !self.acks.is_due(now) {
            return false;
        }
        let acks = self.incoming.each_mut().map(Incoming::tell);
        self.acks.told();
        Head { link: self.terms.link, answer: false, acks }.write(out);
        if has_pieces {
            self.write_pieces(now, out);
        }
        self.counters.datagrams += 1;
        self.counters.acks += u64::from(!has_pieces);
        wire::seal(out);
        true
    }

    fn write_pieces(&mut self, now: Instant, out: &mut Vec<u8>) {
        for lane in &mut self.outgoing {
            if !lane.write(now, &self.rtt, out, &mut self.counters) {
                break;
            }
        }
        if self.outgoing.iter().any(Outgoing::is_held_up) {
            wire::ask(out);
        }
    }

    /// Takes a datagram of the peer. One that is damaged or of another link is counted
    /// and dropped.
    ///
    /// # Errors
    ///
    /// If no honest peer sends such a datagram. Messages that were whole before can
    /// still be taken; all else is undefined but safe, and [`end`](Self::end) is next.
    pub(crate) fn hear(&mut self, now: Instant, datagram: &[u8]) -> Result<(), Lie> {
        self.counters.heard += 1;
        if !wire::is_intact(datagram) {
            self.counters.damaged += 1;
            return Ok(());
        }
        if wire::link(datagram) != Some(self.terms.link) && !planted(Fault::OlderLife) {
            self.counters.foreign += 1;
            return Ok(());
        }
        let mut left = datagram;
        let head = Head::read(&mut left)?;
        for (lane, ack) in self.outgoing.iter_mut().zip(head.acks) {
            lane.acknowledge(now, ack, &mut self.rtt, &mut self.sent)?;
        }
        while let Some(piece) = Piece::read(&mut left)? {
            self.hear_piece(now, &piece)?;
        }
        if head.answer {
            self.acks.hurry_if_due(now);
        }
        if planted(Fault::AckOfAck) {
            self.acks.hurry(now);
        }
        Ok(())
    }

    fn hear_piece(&mut self, now: Instant, piece: &Piece<'_>) -> Result<(), Lie> {
        let lane = &mut self.incoming[piece.lane as usize];
        match lane.hear(piece, &*self.landing, &mut self.arrived)? {
            Heard::Next => self.acks.came(now),
            Heard::Early => {
                self.counters.early += 1;
                self.acks.hurry(now);
            }
            Heard::Double => {
                self.counters.doubles += 1;
                if !planted(Fault::QuietDoubles) {
                    self.acks.hurry(now);
                }
            }
        }
        Ok(())
    }

    /// The next message that has come: whole, in the order of its lane, once.
    pub(crate) fn poll_arrived(&mut self) -> Option<Arrived> {
        self.arrived.pop_front()
    }

    /// The next message that the peer has acknowledged.
    pub(crate) fn poll_sent(&mut self) -> Option<Descriptor> {
        self.sent.pop_front()
    }

    /// When [`poll_datagram`](Self::poll_datagram) may have something without anything
    /// else happening: a repeat or an acknowledgement. The beginning of the world, and so
    /// at once, if it has something already; who cannot send waits for that instead.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        if self.outgoing.iter().any(Outgoing::is_due) {
            return Some(Instant::default());
        }
        let repeats = self.outgoing.iter().filter_map(Outgoing::deadline);
        repeats.chain(self.acks.due()).min()
    }

    /// Whether the peer acknowledges nothing any more, though it was asked as often as
    /// the terms say.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        self.outgoing.iter().any(|lane| lane.is_silent(now))
    }

    /// Whether the peer has acknowledged everything.
    pub(crate) fn is_through(&self) -> bool {
        self.outgoing.iter().all(Outgoing::is_through)
    }

    /// Has what came acknowledged with the next datagram, which is due now.
    pub(crate) fn acknowledge(&mut self, now: Instant) {
        self.acks.hurry_if_due(now);
    }

    /// What of a lane is not acknowledged. Whoever changes it leaves the bytes as they are.
    pub(crate) fn unsent(&mut self, lane: Lane) -> impl Iterator<Item = &mut Descriptor> {
        self.outgoing[lane as usize].unsent()
    }

    /// Gives back what is not acknowledged, lane by lane in order: `NotDelivered` if no
    /// datagram of it ever left, `Unknown` otherwise. What is acknowledged still comes
    /// by [`poll_sent`](Self::poll_sent).
    pub(crate) fn end(&mut self) -> Vec<(Descriptor, Fate)> {
        self.outgoing.iter_mut().flat_map(Outgoing::end).collect()
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
        self.outgoing.iter().for_each(Outgoing::check);
        self.incoming.iter().for_each(Incoming::check);
    }

    /// What it has done so far.
    pub(crate) fn counters(&self) -> WindowCounters {
        self.counters
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("terms", &self.terms)
            .field("outgoing", &self.outgoing)
            .field("incoming", &self.incoming)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
