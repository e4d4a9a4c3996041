//! One lane of what is sent: messages become pieces, and pieces are sent until they are
//! acknowledged.

use std::collections::VecDeque;

use egret_net::rt::Instant;
use egret_net::vi::Descriptor;

use super::congestion::Congestion;
use super::counters::WindowCounters;
use super::fault::{Fault, planted};
use super::lie::Lie;
use super::rtt::Rtt;
use super::terms::Terms;
use super::under_way::{Cut, Last, UnderWay};
use super::wire::{Ack, Begins, PIECE, PIECE_MAX, Piece, low};
use crate::link::{Fate, Lane};

/// The messages of a lane that the peer has not acknowledged.
#[derive(Debug)]
pub(super) struct Outgoing {
    lane: Lane,
    terms: Terms,
    messages: VecDeque<Message>,
    /// The number of the first of them.
    first: u64,
    /// How many of them are cut into pieces to their ends.
    cut: usize,
    under_way: UnderWay,
    congestion: Congestion,
    /// How long it waits for an acknowledgement, while something is under way.
    deadline: Option<Instant>,
    /// Repeats for want of one since the lane last got on.
    repeats: u32,
    /// Repeats for want of one since the round trip was last as expected: until it is,
    /// it may be longer than that.
    doublings: u32,
}

#[derive(Debug)]
struct Message {
    descriptor: Descriptor,
    len: u64,
    /// Bytes that were cut off it.
    cut: u64,
}

/// What is to be sent next.
#[derive(Debug, Clone, Copy)]
enum Due {
    Again(usize, Cut),
    New(Cut),
}

impl Outgoing {
    pub(super) fn new(lane: Lane, terms: Terms) -> Self {
        Self {
            lane,
            terms,
            messages: VecDeque::new(),
            first: 0,
            cut: 0,
            under_way: UnderWay::default(),
            congestion: Congestion::new(terms.messages),
            deadline: None,
            repeats: 0,
            doublings: 0,
        }
    }

    pub(super) fn send(&mut self, descriptor: Descriptor) {
        let len = descriptor.len();
        self.messages.push_back(Message { descriptor, len, cut: 0 });
    }

    /// Whether all is acknowledged.
    pub(super) fn is_through(&self) -> bool {
        self.messages.is_empty()
    }

    /// What is not acknowledged.
    pub(super) fn unsent(&mut self) -> impl Iterator<Item = &mut Descriptor> {
        self.messages.iter_mut().map(|message| &mut message.descriptor)
    }

    /// Whether something may be sent now.
    pub(super) fn is_due(&self) -> bool {
        self.due().is_some()
    }

    /// Whether something can be sent only after an acknowledgement.
    pub(super) fn is_held_up(&self) -> bool {
        let waits = self.cut < self.messages.len() || self.under_way.first_lost().is_some();
        waits && self.due().is_none()
    }

    /// Writes what may be sent and has room. Whether that was all.
    pub(super) fn write(
        &mut self,
        now: Instant,
        rtt: &Rtt,
        out: &mut Vec<u8>,
        counters: &mut WindowCounters,
    ) -> bool {
        let mut has_pieces = false;
        while let Some(due) = self.due() {
            let (Due::Again(_, cut) | Due::New(cut)) = due;
            if out.len() + cut.size() > self.terms.datagram {
                return false;
            }
            if !std::mem::replace(&mut has_pieces, true) {
                self.under_way.new_datagram();
            }
            let number = match due {
                Due::Again(index, _) => self.under_way.again(index, now),
                Due::New(cut) => self.cut_off(cut, now),
            };
            let is_new = matches!(due, Due::New(_));
            *if is_new { &mut counters.sent } else { &mut counters.repeated } += 1;
            self.write_piece(number, cut, out);
            if self.deadline.is_none() {
                self.wait(now, rtt);
            }
        }
        true
    }

    fn due(&self) -> Option<Due> {
        if self.under_way.flying() >= self.congestion.window() {
            return None;
        }
        if let Some((index, cut)) = self.under_way.first_lost() {
            return Some(Due::Again(index, cut));
        }
        let message = self.messages.get(self.cut)?;
        let left = message.len - message.cut;
        let len = self.terms.unit().min(left);
        let fits = self.under_way.len() < self.terms.messages as usize
            && (self.under_way.is_empty() || self.under_way.bytes() + len <= self.terms.bytes);
        fits.then_some(Due::New(Cut {
            message: self.first + self.cut as u64,
            offset: message.cut,
            len: low(len),
            is_last: len == left,
        }))
    }

    fn cut_off(&mut self, cut: Cut, now: Instant) -> u64 {
        self.messages[self.cut].cut += u64::from(cut.len);
        self.cut += usize::from(cut.is_last);
        self.under_way.push(cut, now)
    }

    fn write_piece(&self, number: u64, cut: Cut, out: &mut Vec<u8>) {
        let ahead = usize::try_from(cut.message - self.first).expect("it is in the queue");
        let message = &self.messages[ahead];
        let begins = Begins { len: message.len, tag: message.descriptor.tag() };
        let begins = cut.is_first().then_some(begins);
        Piece::write_head(self.lane, low(number), begins, cut.len, out);
        append(&message.descriptor, cut.offset, cut.len as usize, out);
    }

    /// When it has waited long enough for an acknowledgement.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn is_over(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    fn wait(&mut self, now: Instant, rtt: &Rtt) {
        let is_waiting = !self.under_way.is_empty();
        self.deadline = is_waiting.then(|| now + rtt.patience(&self.terms.pace, self.doublings));
    }

    /// Whether the peer has acknowledged nothing though it was asked often enough.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        self.repeats >= self.terms.pace.repeats_max && self.is_over(now)
    }

    /// Looks at the clock: after silence all that is under way counts as lost, and the
    /// first of it may be sent again.
    pub(super) fn tick(&mut self, now: Instant, rtt: &Rtt, counters: &mut WindowCounters) {
        if !self.is_over(now) || planted(Fault::Unrepeated) {
            return;
        }
        self.under_way.lose_all();
        if !planted(Fault::Storm) {
            self.congestion.silent(self.under_way.next());
        }
        self.repeats = self.repeats.saturating_add(1);
        self.doublings = self.doublings.saturating_add(1);
        self.wait(now, rtt);
        counters.timeouts += 1;
    }

    /// Takes what the peer says has come. Messages that have come whole go to `done`.
    pub(super) fn acknowledge(
        &mut self,
        now: Instant,
        ack: Ack,
        rtt: &mut Rtt,
        done: &mut VecDeque<Descriptor>,
    ) -> Result<(), Lie> {
        let news = self.under_way.acknowledge(self.lane, now, ack, rtt)?;
        if news.pieces == 0 {
            return Ok(());
        }
        self.repeats = 0;
        if let Some(last) = news.last {
            self.heard_after(last, rtt);
        }
        self.wait(now, rtt);
        self.congestion.acknowledged(news.pieces);
        self.under_way.lose_overtaken(&mut self.congestion);
        self.first += news.messages as u64;
        self.cut -= news.messages;
        done.extend(self.messages.drain(..news.messages).map(|message| message.descriptor));
        Ok(())
    }

    /// Patience is what it was when the round trip is measured, or when a repeat seems to
    /// have been answered in the usual time.
    fn heard_after(&mut self, last: Last, rtt: &mut Rtt) {
        if !last.is_repeated {
            rtt.measure(last.after_ns);
        }
        if !last.is_repeated || rtt.is_usual(&self.terms.pace, last.after_ns) {
            self.doublings = 0;
        }
    }

    /// Everything that is not acknowledged, in order.
    pub(super) fn end(&mut self) -> impl Iterator<Item = (Descriptor, Fate)> {
        let is_amid = self.messages.get(self.cut).is_some_and(|message| message.cut > 0);
        let begun = self.cut + usize::from(is_amid);
        let messages = std::mem::take(&mut self.messages);
        self.under_way.clear();
        (self.cut, self.deadline, self.repeats) = (0, None, 0);
        messages.into_iter().enumerate().map(move |(index, message)| {
            let fate = if index < begun { Fate::Unknown } else { Fate::NotDelivered };
            (message.descriptor, fate)
        })
    }

    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn check(&self) {
        self.under_way.check();
        assert_eq!(self.deadline.is_none(), self.under_way.is_empty(), "who waits for what");
        assert!(self.under_way.len() <= self.terms.messages as usize, "too many pieces");
        let bytes_max = self.terms.bytes.max(self.terms.unit());
        assert!(self.under_way.bytes() <= bytes_max, "too many bytes");
        assert!(self.cut <= self.messages.len(), "a message that is not there");
    }

    /// As if so many pieces had been sent and acknowledged.
    #[cfg(test)]
    pub(super) fn skip(&mut self, pieces: u64) {
        self.under_way.skip(pieces);
    }
}

impl Cut {
    fn is_first(&self) -> bool {
        self.offset == 0
    }

    /// Bytes that it has in a datagram.
    fn size(&self) -> usize {
        self.len as usize + if self.is_first() { PIECE_MAX } else { PIECE }
    }
}

/// Copies bytes of a message to the end of `out`.
fn append(descriptor: &Descriptor, offset: u64, len: usize, out: &mut Vec<u8>) {
    let (mut skip, mut left) = (offset, len);
    for segment in descriptor.segments() {
        if left == 0 {
            return;
        }
        let bytes = segment.bytes();
        let Some(start) = usize::try_from(skip).ok().filter(|start| *start < bytes.len()) else {
            skip -= bytes.len() as u64;
            continue;
        };
        let end = bytes.len().min(start + left);
        out.extend_from_slice(&bytes[start..end]);
        (skip, left) = (0, left - (end - start));
    }
}
