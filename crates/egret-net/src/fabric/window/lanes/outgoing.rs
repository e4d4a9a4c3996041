//! One lane of what is sent: messages become pieces, and pieces are sent until they are
//! acknowledged.

use std::collections::VecDeque;

use crate::rt::Instant;

use super::MessageSource;
use super::congestion::Congestion;
use super::counters::WindowCounters;
use super::fault::{Fault, planted};
use super::in_flight::{LastAcknowledged, PieceRange, PiecesInFlight};
use super::lane::WindowLane;
use super::rtt::Rtt;
use super::terms::WindowTerms;
use super::violation::WindowViolation;
use super::wire::{Ack, HEAD_MAX, MessageStart, PIECE, PIECE_MAX, WindowPiece, low};

/// The messages of a lane that the peer has not acknowledged.
#[derive(Debug)]
pub(super) struct OutgoingLane<M> {
    lane: WindowLane,
    terms: WindowTerms,
    messages: VecDeque<QueuedMessage<M>>,
    /// The number of the first of them.
    first: u64,
    /// How many of them are cut into pieces to their ends.
    cut: usize,
    in_flight: PiecesInFlight,
    congestion: Congestion,
    /// How long it waits for an acknowledgement, while something is under way.
    deadline: Option<Instant>,
    /// Repeats for want of one since the lane last got on.
    repeats: u32,
    /// Repeats for want of one since the round trip was last as expected: until it is,
    /// it may be longer than that.
    doublings: u32,
    /// Whether the first piece was sent again since the lane last got on, to learn what has come.
    has_probed: bool,
    /// Whether the peer was heard since the lane last repeated itself for the first time.
    is_heard: bool,
}

#[derive(Debug)]
struct QueuedMessage<M> {
    load: M,
    len: u64,
    /// Bytes that were cut off it.
    cut: u64,
    /// Bytes of every piece of it but the last, once it is begun.
    unit: u64,
}

/// Repeats in vain of a long piece, behind which the path is doubted.
const DOUBTFUL: u32 = 3;
/// Bytes of a piece that every path carries.
const LONG: u32 = 1024;

/// What is to be sent next.
#[derive(Debug, Clone, Copy)]
enum DuePiece {
    Again(usize, PieceRange),
    New(PieceRange),
}

impl<M: MessageSource> OutgoingLane<M> {
    pub(super) fn new(lane: WindowLane, terms: WindowTerms) -> Self {
        Self {
            lane,
            terms,
            messages: VecDeque::new(),
            first: 0,
            cut: 0,
            in_flight: PiecesInFlight::default(),
            congestion: Congestion::new(terms.messages),
            deadline: None,
            repeats: 0,
            doublings: 0,
            has_probed: false,
            is_heard: false,
        }
    }

    pub(super) fn send(&mut self, load: M) {
        let len = load.len();
        self.messages.push_back(QueuedMessage { load, len, cut: 0, unit: 0 });
    }

    /// From now on datagrams have so many bytes. Messages that are begun keep the size of their
    /// pieces.
    pub(super) const fn resize(&mut self, datagram: usize) {
        self.terms.datagram = datagram;
    }

    /// Messages that are not acknowledged.
    pub(super) fn kept(&self) -> usize {
        self.messages.len()
    }

    /// Messages that are not under way to their ends.
    pub(super) fn waiting(&self) -> usize {
        self.messages.len() - self.cut
    }

    /// Whether all is acknowledged.
    pub(super) fn is_through(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether something may be sent now.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.due().is_some()
    }

    /// Whether something can be sent only after an acknowledgement.
    pub(super) fn is_held_up(&self) -> bool {
        let waits = self.cut < self.messages.len() || self.in_flight.first_lost().is_some();
        waits && self.due().is_none()
    }

    /// Writes what may be sent and has room. Whether that was all.
    pub(super) fn write(
        &mut self,
        now: Instant,
        rtt: &Rtt,
        (start, out): (usize, &mut Vec<u8>),
        counters: &mut WindowCounters,
    ) -> bool {
        let mut has_pieces = false;
        while let Some(due) = self.due() {
            let (DuePiece::Again(_, cut) | DuePiece::New(cut)) = due;
            let used = out.len() - start;
            // A piece of a message that was begun when datagrams were larger goes alone.
            let is_alone = used <= HEAD_MAX && cut.size() + HEAD_MAX > self.terms.datagram;
            if used + cut.size() > self.terms.datagram && !is_alone {
                return false;
            }
            if !std::mem::replace(&mut has_pieces, true) {
                self.in_flight.new_datagram();
            }
            let number = match due {
                DuePiece::Again(index, _) => self.in_flight.again(index, now),
                DuePiece::New(cut) => self.cut_off(cut, now),
            };
            let is_new = matches!(due, DuePiece::New(_));
            *if is_new { &mut counters.sent } else { &mut counters.repeated } += 1;
            self.write_piece(number, cut, out);
            if self.deadline.is_none() {
                self.wait(now, rtt);
            }
        }
        true
    }

    #[inline]
    fn due(&self) -> Option<DuePiece> {
        // Most lanes have nothing most of the time.
        if self.messages.is_empty() || self.in_flight.flying() >= self.congestion.window() {
            return None;
        }
        if let Some((index, cut)) = self.in_flight.first_lost() {
            return Some(DuePiece::Again(index, cut));
        }
        let message = self.messages.get(self.cut)?;
        let left = message.len - message.cut;
        let unit = if message.cut == 0 { self.terms.unit() } else { message.unit };
        let len = unit.min(left);
        let fits = self.in_flight.len() < self.terms.messages as usize
            && (self.in_flight.is_empty() || self.in_flight.bytes() + len <= self.terms.bytes);
        fits.then_some(DuePiece::New(PieceRange {
            message: self.first + self.cut as u64,
            offset: message.cut,
            len: low(len),
            is_last: len == left,
        }))
    }

    fn cut_off(&mut self, cut: PieceRange, now: Instant) -> u64 {
        let message = &mut self.messages[self.cut];
        if cut.is_first() {
            message.unit = u64::from(cut.len);
        }
        message.cut += u64::from(cut.len);
        self.cut += usize::from(cut.is_last);
        self.in_flight.push(cut, now)
    }

    fn write_piece(&self, number: u64, cut: PieceRange, out: &mut Vec<u8>) {
        let ahead = usize::try_from(cut.message - self.first).expect("it is in the queue");
        let message = &self.messages[ahead];
        let begins = MessageStart { len: message.len, tag: message.load.tag() };
        let begins = cut.is_first().then_some(begins);
        WindowPiece::write_head(self.lane, low(number), begins, cut.len, out);
        message.load.append(cut.offset, cut.len as usize, out);
    }

    /// When it has waited long enough for an acknowledgement.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    #[inline]
    fn is_over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    fn wait(&mut self, now: Instant, rtt: &Rtt) {
        let is_waiting = !self.in_flight.is_empty();
        let pace = &self.terms.pace;
        self.deadline = is_waiting.then(|| {
            let is_probe = !self.has_probed && self.doublings == 0;
            let probe = rtt.probe(pace).filter(|_| is_probe);
            now + probe.unwrap_or_else(|| rtt.patience(pace, self.doublings))
        });
    }

    /// Waits from now on, if it waits.
    pub(super) fn restart(&mut self, now: Instant, rtt: &Rtt) {
        self.wait(now, rtt);
    }

    /// Whether the peer has acknowledged nothing though it was asked often enough.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let is_enough = self.repeats >= self.terms.pace.repeats_max;
        is_enough && self.is_over(now) && !planted(Fault::NeverSilent)
    }

    /// Looks at the clock: after silence all that is under way counts as lost, and the
    /// first of it may be sent again, unless that was done often enough.
    #[inline]
    pub(super) fn tick(&mut self, now: Instant, rtt: &Rtt, counters: &mut WindowCounters) {
        if self.is_over(now) && !planted(Fault::Unrepeated) {
            self.over(now, rtt, counters);
        }
    }

    #[cold]
    fn over(&mut self, now: Instant, rtt: &Rtt, counters: &mut WindowCounters) {
        if self.is_silent(now) {
            return;
        }
        if !std::mem::replace(&mut self.has_probed, true)
            && self.doublings == 0
            && rtt.probe(&self.terms.pace).is_some()
        {
            // The end of what was sent may be lost, which nothing overtakes.
            self.in_flight.lose_first();
            self.wait(now, rtt);
            counters.probes += 1;
            return;
        }
        self.in_flight.lose_all();
        self.congestion.silent(self.in_flight.next());
        self.is_heard &= self.repeats > 0;
        self.repeats = self.repeats.saturating_add(1);
        self.doublings = self.doublings.saturating_add(1);
        self.wait(now, rtt);
        counters.timeouts += 1;
    }

    /// Takes what the peer says has come. Messages that have come whole go to `done`.
    #[inline]
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        (ack, is_held): (Ack, bool),
        rtt: &mut Rtt,
        done: &mut VecDeque<M>,
    ) -> Result<(), WindowViolation> {
        if self.in_flight.is_as_told(ack) {
            return Ok(());
        }
        let news = self.in_flight.acknowledge(self.lane, now, (ack, is_held), rtt)?;
        if news.pieces == 0 {
            return Ok(());
        }
        (self.repeats, self.has_probed) = (0, false);
        if let Some(last) = news.last {
            self.heard_after(last, rtt);
        }
        self.wait(now, rtt);
        self.congestion.acknowledged(news.pieces);
        self.in_flight.lose_overtaken(&mut self.congestion);
        self.first += news.messages as u64;
        self.cut -= news.messages;
        done.extend(self.messages.drain(..news.messages).map(|message| message.load));
        Ok(())
    }

    /// Patience is what it was when the round trip is measured, or when a repeat seems to
    /// have been answered in the usual time.
    fn heard_after(&mut self, last: LastAcknowledged, rtt: &mut Rtt) {
        if !last.is_repeated {
            rtt.measure(last.after_ns);
        }
        if !last.is_repeated || rtt.is_usual(&self.terms.pace, last.after_ns) {
            self.doublings = 0;
        }
    }

    /// From now on what there is goes at once.
    pub(super) const fn burst(&mut self) {
        self.congestion.burst();
    }

    /// The peer has said something.
    pub(super) const fn heard(&mut self) {
        self.is_heard = true;
    }

    /// Whether a piece that not every path carries was repeated in vain, to a peer that lives.
    pub(super) fn loses_long(&self) -> bool {
        let is_doubtful = self.repeats >= DOUBTFUL && self.is_heard;
        is_doubtful && self.in_flight.first().is_some_and(|cut| cut.len > LONG)
    }

    /// The peer has said that it cannot get on by itself, which is a sign of life.
    pub(super) const fn lives(&mut self) {
        self.repeats = 0;
    }

    /// Everything that is not acknowledged, in order. Nothing of it is sent any more.
    pub(super) fn end(&mut self) -> impl Iterator<Item = M> {
        let messages = std::mem::take(&mut self.messages);
        self.first += messages.len() as u64;
        self.in_flight.clear();
        (self.cut, self.deadline, self.repeats, self.has_probed) = (0, None, 0, false);
        messages.into_iter().map(|message| message.load)
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check(&self) {
        self.in_flight.check();
        assert_eq!(self.deadline.is_none(), self.in_flight.is_empty(), "who waits for what");
        assert!(self.in_flight.len() <= self.terms.messages as usize, "too many pieces");
        let bytes_max = self.terms.bytes.max(self.terms.unit());
        assert!(self.in_flight.bytes() <= bytes_max, "too many bytes");
        assert!(self.cut <= self.messages.len(), "a message that is not there");
    }

    /// As if so many pieces had been sent and acknowledged.
    #[cfg(test)]
    pub(super) fn skip(&mut self, pieces: u64) {
        self.in_flight.skip(pieces);
    }
}

impl PieceRange {
    fn is_first(&self) -> bool {
        self.offset == 0
    }

    /// Bytes that it has in a datagram.
    fn size(&self) -> usize {
        self.len as usize + if self.is_first() { PIECE_MAX } else { PIECE }
    }
}
