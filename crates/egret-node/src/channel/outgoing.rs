//! The writer's end of a channel, without I/O: what waits for credit, and what may go.

use std::collections::VecDeque;

use egret_net::vi::{Descriptor, Segment};
use thiserror::Error;

use super::control::Control;
use super::fault::{Fault, planted};
use crate::flow::{NeverFits, cost};
use crate::link::{Head, Kind};

/// The writer's end of one channel.
///
/// Pieces go in their order, each when there is credit for it. What has gone belongs to the link.
#[derive(Debug)]
pub(crate) struct Outgoing {
    number: u64,
    slot: u32,
    /// Which message is sent, counted from 0.
    message: u32,
    /// What may still be sent, and what was, both as [`cost`] reckons.
    credit: u64,
    sent: u64,
    queue: VecDeque<Piece>,
    /// The first of the queue was asked for.
    asked: bool,
    /// The reader has parts of a message whose end was not sent.
    begun: bool,
    /// The program has given parts of a message, and not its end.
    inside: bool,
    /// The message that the program is at, or was last, is lost.
    refused: Option<NeverFits>,
    /// Credit to give back, and whether what was asked for is not needed.
    unused: u64,
    withdrawn: bool,
    stopped: bool,
    ended: bool,
}

#[derive(Debug)]
struct Piece {
    kind: Kind,
    memory: Option<Segment>,
}

/// Why nothing more can be given to a channel, or not to this message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Halt {
    #[error("nobody reads the channel any more")]
    Stopped,
    #[error(transparent)]
    Refused(#[from] NeverFits),
}

impl Outgoing {
    /// Of a channel that was opened: its parts go to `slot` and may cost `credit`.
    pub(crate) const fn new(number: u64, slot: u32, credit: u64) -> Self {
        Self {
            number,
            slot,
            message: 0,
            credit,
            sent: 0,
            queue: VecDeque::new(),
            asked: false,
            begun: false,
            inside: false,
            refused: None,
            unused: 0,
            withdrawn: false,
            stopped: false,
            ended: false,
        }
    }

    /// Takes a piece of the message in progress, or begins one with it.
    pub(crate) fn part(&mut self, memory: Segment) -> Result<(), (Halt, Segment)> {
        match self.halted() {
            Some(halt) => Err((halt, memory)),
            None => {
                self.inside = true;
                self.queue.push_back(Piece { kind: Kind::Part, memory: Some(memory) });
                Ok(())
            }
        }
    }

    /// Takes the end of the message, with its last bytes if there are any.
    pub(crate) fn last(&mut self, memory: Option<Segment>) -> Result<(), (Halt, Option<Segment>)> {
        match self.halted() {
            Some(halt) => Err((halt, memory)),
            None => {
                self.inside = false;
                self.queue.push_back(Piece { kind: Kind::Last, memory });
                Ok(())
            }
        }
    }

    /// Another message begins, once all of the last has gone; what became of it is forgotten.
    pub(crate) fn begin(&mut self) {
        let waits = self.queue.iter().any(|piece| piece.price() > 0);
        debug_assert!(!self.inside && !waits, "one message at a time");
        self.refused = None;
    }

    /// The message in progress, or one that is finished and has not gone, is given up. What of it
    /// has not gone never will.
    pub(crate) fn abort(&mut self) {
        let waits = self.queue.iter().any(|piece| piece.price() > 0);
        if !std::mem::take(&mut self.inside) && !waits || self.stopped {
            return;
        }
        self.withdrawn |= std::mem::take(&mut self.asked);
        if !planted(Fault::AbortedSent) {
            self.queue.retain(|piece| piece.price() == 0);
        }
        self.give_up();
    }

    /// There will be no other message.
    pub(crate) fn end(&mut self) {
        if self.inside {
            self.abort();
        }
        if !std::mem::replace(&mut self.ended, true) {
            self.queue.push_back(Piece { kind: Kind::End, memory: None });
        }
    }

    /// The next frame, if there is credit for it.
    pub(crate) fn poll_frame(&mut self) -> Option<Descriptor> {
        let first = self.queue.front()?;
        let price = first.price();
        if price > self.credit && !planted(Fault::Spendthrift) {
            return None;
        }
        let piece = self.queue.pop_front()?;
        self.credit = self.credit.saturating_sub(price);
        self.sent += price;
        (self.asked, self.begun) = (false, piece.kind == Kind::Part);
        let head = Head { request: self.message, ..Head::of(piece.kind, self.slot) };
        if matches!(piece.kind, Kind::Last | Kind::Abort) {
            self.message = (self.message + 1) % Head::REQUESTS;
        }
        let tag = head.to_bits();
        Some(piece.memory.map_or_else(Descriptor::empty, Descriptor::new).with_tag(tag))
    }

    /// What the reader must be told, if anything.
    pub(crate) fn poll_control(&mut self) -> Option<Control<'static>> {
        let number = self.number;
        if self.unused > 0 {
            return Some(Control::Unused { number, bytes: std::mem::take(&mut self.unused) });
        }
        if std::mem::take(&mut self.withdrawn) {
            return Some(Control::Withdraw { number });
        }
        let first = self.queue.front()?;
        if self.asked || first.price() <= self.credit {
            return None;
        }
        self.asked = true;
        Some(Control::Want { number, upto: self.sent + first.price(), len: first.len() })
    }

    /// The reader grants more.
    pub(crate) fn credit(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_add(bytes);
    }

    /// The reader will never grant what was asked for: that message is lost.
    pub(crate) fn too_large(&mut self, upto: u64, most: u64) {
        let Some(first) = self.queue.front() else { return };
        let bytes = first.price();
        if !self.asked || self.sent + bytes != upto {
            return; // It was aborted meanwhile.
        }
        self.queue.retain(|piece| piece.price() == 0);
        (self.asked, self.inside) = (false, planted(Fault::RefusalKept));
        self.give_up();
        self.refused = Some(NeverFits { bytes, most });
    }

    /// Has the reader told, if it has any of the message, before the end if that waits.
    fn give_up(&mut self) {
        if self.begun && self.queue.front().is_none_or(|first| first.kind != Kind::Abort) {
            self.queue.push_front(Piece { kind: Kind::Abort, memory: None });
        }
    }

    /// Nobody reads any more. What waits is dropped, and the channel ends.
    pub(crate) fn stop(&mut self) {
        if std::mem::replace(&mut self.stopped, true) || self.is_over() {
            return;
        }
        self.queue.clear();
        (self.asked, self.inside, self.ended) = (false, false, true);
        self.give_up();
        self.queue.push_back(Piece { kind: Kind::End, memory: None });
    }

    /// The reader's node needs what this end does not, or does not as long as it waits for more:
    /// then it asks again.
    pub(crate) fn recall(&mut self, keep: u64) {
        let idle = self.queue.front().is_none_or(|first| first.price() > self.credit);
        if idle && self.credit > keep {
            self.unused += self.credit - keep;
            self.credit = keep;
            self.asked = false;
        }
    }

    /// Whether all that was given has gone.
    pub(crate) fn is_flushed(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether another piece may be given without more of them waiting than should.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.len() < WAITING_MAX
    }

    /// What was sent, and what that will be when all that waits has gone: a place in the channel.
    pub(crate) fn sent(&self) -> (u64, u64) {
        (self.sent, self.sent + self.queue.iter().map(Piece::price).sum::<u64>())
    }

    /// Whether its end has gone.
    pub(crate) fn is_over(&self) -> bool {
        self.ended && self.queue.is_empty()
    }

    /// Why the message that the program is at, or was last, did not get there.
    pub(crate) fn halted(&self) -> Option<Halt> {
        if self.stopped { Some(Halt::Stopped) } else { self.refused.map(Halt::Refused) }
    }

    /// Bytes of a chunk that are worth collecting before they are sent, given what may be.
    pub(crate) fn chunk_bytes(&self) -> usize {
        let half = usize::try_from(self.credit / 2).unwrap_or(usize::MAX);
        let bytes = half.clamp(CHUNK_MIN, CHUNK_MAX);
        1 << bytes.ilog2()
    }

    /// What it may send now.
    #[cfg(test)]
    pub(crate) const fn left(&self) -> u64 {
        self.credit
    }
}

impl Piece {
    fn len(&self) -> u64 {
        self.memory.as_ref().map_or(0, Segment::len)
    }

    /// Of its credit. The end of a channel and of a message that is no more are free: there is at
    /// most one for each, and it takes the place of what it ends.
    fn price(&self) -> u64 {
        match self.kind {
            Kind::Part | Kind::Last => cost(self.len()),
            _ => 0,
        }
    }
}

/// Pieces that wait for credit.
const WAITING_MAX: usize = 2;
const CHUNK_MIN: usize = 4 << 10;
/// The most that is collected before it is sent.
pub(crate) const CHUNK_MAX: usize = 64 << 10;
