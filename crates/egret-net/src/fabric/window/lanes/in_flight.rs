//! The pieces of a lane that were sent and are not acknowledged.

use std::collections::VecDeque;

use crate::rt::Instant;

use super::congestion::Congestion;
use super::fault::{Fault, planted};
use super::lane::WindowLane;
use super::rtt::Rtt;
use super::violation::WindowViolation;
use super::wire::{Ack, low, whole};

/// Pieces by number, from the first that the peer may not have to the last that was
/// sent. The first has not arrived: an acknowledgement of it would have removed it.
#[derive(Debug, Default)]
pub(super) struct PiecesInFlight {
    pieces: VecDeque<SentPiece>,
    /// The number of the next piece.
    next: u64,
    /// Bytes of all of them.
    bytes: u64,
    flying: u32,
    lost: u32,
    /// Datagrams with pieces of this lane so far.
    datagrams: u64,
    /// The latest of them that has arrived.
    latest: u64,
}

/// A piece of a message: where it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct PieceRange {
    pub(super) message: u64,
    pub(super) offset: u64,
    pub(super) len: u32,
    pub(super) is_last: bool,
}

#[derive(Debug)]
struct SentPiece {
    cut: PieceRange,
    state: PieceState,
    is_repeated: bool,
    at: Instant,
    /// Of which of the lane's datagrams it was, at last.
    datagram: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PieceState {
    Flying,
    Lost,
    Arrived,
}

/// What an acknowledgement said that was not known.
#[derive(Debug, Default)]
pub(super) struct NewlyAcknowledged {
    /// Pieces that have arrived.
    pub(super) pieces: u32,
    /// Messages whose last piece, and all before it, have.
    pub(super) messages: usize,
    /// The one among them that was sent last. Those before it may have been acknowledged
    /// sooner, and the word of it lost.
    pub(super) last: Option<LastAcknowledged>,
}

/// A piece that has arrived, as far as the round trip goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastAcknowledged {
    at: Instant,
    /// How long after it was sent, at last, that was heard.
    pub(super) after_ns: u64,
    /// Which of the times it was sent is not known.
    pub(super) is_repeated: bool,
}

/// A piece is lost when that many later datagrams of its lane have arrived, or fewer if
/// there are no more.
const OVERTAKEN_MAX: u64 = 3;

impl PiecesInFlight {
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Pieces that may still arrive by themselves.
    pub(super) fn flying(&self) -> u32 {
        self.flying
    }

    /// The number of the next piece.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The number of the first piece that is not acknowledged.
    fn missing(&self) -> u64 {
        self.next - self.pieces.len() as u64
    }

    /// The first piece that is to be sent again: its index, and what it is.
    pub(super) fn first_lost(&self) -> Option<(usize, PieceRange)> {
        if self.lost == 0 {
            return None;
        }
        let index = self.pieces.iter().position(|piece| piece.state == PieceState::Lost)?;
        Some((index, self.pieces[index].cut))
    }

    /// The first piece that the peer may not have.
    pub(super) fn first(&self) -> Option<PieceRange> {
        self.pieces.front().map(|piece| piece.cut)
    }

    /// The pieces that follow go with a new datagram.
    pub(super) fn new_datagram(&mut self) {
        self.datagrams += 1;
    }

    /// A piece is sent for the first time. Its number.
    pub(super) fn push(&mut self, cut: PieceRange, now: Instant) -> u64 {
        let (state, datagram) = (PieceState::Flying, self.datagrams);
        self.pieces.push_back(SentPiece { cut, state, is_repeated: false, at: now, datagram });
        self.bytes += u64::from(cut.len);
        self.flying += 1;
        self.next += 1;
        self.next - 1
    }

    /// A lost piece is sent again. Its number.
    pub(super) fn again(&mut self, index: usize, now: Instant) -> u64 {
        let number = self.missing() + index as u64;
        let piece = &mut self.pieces[index];
        (piece.state, piece.is_repeated) = (PieceState::Flying, true);
        (piece.at, piece.datagram) = (now, self.datagrams);
        self.lost -= 1;
        self.flying += 1;
        number
    }

    /// Nothing of it arrives by itself any more.
    pub(super) fn lose_all(&mut self) {
        for piece in self.pieces.iter_mut().filter(|piece| piece.state == PieceState::Flying) {
            piece.state = PieceState::Lost;
        }
        self.lost += std::mem::take(&mut self.flying);
    }

    /// The first piece counts as lost.
    pub(super) fn lose_first(&mut self) {
        if let Some(first) = self.pieces.front_mut().filter(|it| it.state == PieceState::Flying) {
            first.state = PieceState::Lost;
            self.flying -= 1;
            self.lost += 1;
        }
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        (self.bytes, self.flying, self.lost) = (0, 0, 0);
    }

    /// What was overtaken too often is lost.
    pub(super) fn lose_overtaken(&mut self, congestion: &mut Congestion) {
        let missing = self.missing();
        let others = (self.pieces.len() as u64).saturating_sub(1);
        let enough = others.clamp(1, OVERTAKEN_MAX);
        for (number, piece) in (missing..).zip(&mut self.pieces) {
            if piece.datagram + enough > self.latest {
                if piece.is_repeated {
                    continue;
                }
                break; // Those behind that were sent once were sent later.
            }
            if piece.state == PieceState::Flying {
                piece.state = PieceState::Lost;
                self.flying -= 1;
                self.lost += 1;
                congestion.lost(number, self.next);
            }
        }
    }

    /// Whether the peer says that all has come, which is known.
    #[inline]
    pub(super) fn is_as_told(&self, ack: Ack) -> bool {
        self.pieces.is_empty() && ack.bits == 0 && ack.next == low(self.next)
    }

    /// Takes what the peer says has come.
    pub(super) fn acknowledge(
        &mut self,
        lane: WindowLane,
        now: Instant,
        (ack, is_held): (Ack, bool),
        rtt: &Rtt,
    ) -> Result<NewlyAcknowledged, WindowViolation> {
        let next = self.place_of(lane, ack)?;
        let mut news = NewlyAcknowledged::default();
        if next < self.missing() {
            return Ok(news); // It was overtaken by one that says more.
        }
        while self.missing() < next && !self.pieces.is_empty() {
            self.arrived(0, now, rtt, &mut news);
            self.pop(&mut news);
        }
        self.check_front(is_held).ok_or(WindowViolation::TakenBack { lane, number: next })?;
        let mut bits = ack.bits;
        while bits != 0 {
            self.arrived(bits.trailing_zeros() as usize, now, rtt, &mut news);
            bits &= bits - 1;
        }
        Ok(news)
    }

    /// The first piece is missing, though it may have come early: of a message that waits, now that
    /// it is its turn, it counts as missing again. `None` if that cannot be.
    fn check_front(&mut self, is_held: bool) -> Option<()> {
        let came_early = |piece: &&mut SentPiece| piece.state == PieceState::Arrived;
        let Some(piece) = self.pieces.front_mut().filter(came_early) else { return Some(()) };
        if !may_take_back(is_held) {
            return None;
        }
        (piece.state, piece.is_repeated) = (PieceState::Flying, true);
        self.flying += 1;
        Some(())
    }

    /// The first piece that the peer misses, if what it says can be.
    fn place_of(&self, lane: WindowLane, ack: Ack) -> Result<u64, WindowViolation> {
        let sent = self.next;
        let lie = |number| WindowViolation::NeverSent { lane, number, sent };
        let next = whole(ack.next, self.missing()).ok_or(lie(u64::from(ack.next)))?;
        let behind = u64::from(64 - ack.bits.leading_zeros());
        if !self.was_sent(next + behind) {
            return Err(lie((next + behind).saturating_sub(1)));
        }
        Ok(next)
    }

    /// Whether all pieces before this one were sent.
    fn was_sent(&self, end: u64) -> bool {
        end <= self.next || planted(Fault::AnyAck)
    }

    fn arrived(&mut self, index: usize, now: Instant, rtt: &Rtt, news: &mut NewlyAcknowledged) {
        let Some(piece) = self.pieces.get_mut(index) else { return };
        match piece.state {
            PieceState::Arrived => return,
            PieceState::Flying => self.flying -= 1,
            PieceState::Lost => self.lost -= 1,
        }
        piece.state = PieceState::Arrived;
        news.pieces += 1;
        let after_ns = now.as_nanos().saturating_sub(piece.at.as_nanos());
        if news.last.is_none_or(|last| last.at <= piece.at) {
            let SentPiece { at, is_repeated, .. } = *piece;
            news.last = Some(LastAcknowledged { at, after_ns, is_repeated });
        }
        if !piece.is_repeated || rtt.is_possible(after_ns) {
            self.latest = self.latest.max(piece.datagram);
        }
    }

    /// Forgets the first piece.
    fn pop(&mut self, news: &mut NewlyAcknowledged) {
        if let Some(piece) = self.pieces.pop_front() {
            self.bytes -= u64::from(piece.cut.len);
            news.messages += usize::from(piece.cut.is_last);
        }
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check(&self) {
        let count = |state| self.pieces.iter().filter(|piece| piece.state == state).count();
        assert_eq!(count(PieceState::Flying), self.flying as usize);
        assert_eq!(count(PieceState::Lost), self.lost as usize);
        assert_eq!(self.pieces.iter().map(|it| u64::from(it.cut.len)).sum::<u64>(), self.bytes);
        let first = self.pieces.front();
        assert!(first.is_none_or(|first| first.state != PieceState::Arrived), "it is not missing");
    }

    /// As if so many pieces had been sent and acknowledged.
    #[cfg(test)]
    pub(super) fn skip(&mut self, pieces: u64) {
        self.next += pieces;
    }
}

/// Whether a piece that came early may count as missing again.
fn may_take_back(is_held: bool) -> bool {
    is_held && !planted(Fault::HeldTakenBack)
}
