//! The receiving half of one end: pieces of messages in, completions out.
//!
//! A message takes the oldest receive when its first piece comes, whichever that is,
//! and its bytes go straight there: nothing of a message is kept elsewhere. What bounds
//! it: [`AT_ONCE`] messages, each as long as a receive that was posted for it, a bit for
//! each piece, and a few [ticks](super::keep_alive) of time. Whatever is given up gives its
//! receive back, to be the next again, with bytes in it that mean nothing.

use super::fault::{self, Fault, planted};
use super::message_history::MessageHistory;
use super::wire::{MessageSplit, UdpKind, UdpPiece};
use crate::fabric::receives::ReceiveSizes;
use crate::vi::{Notices, Posted, Ticket, ViError};

/// What one sender's messages come to.
#[derive(Debug, Default)]
pub(super) struct UdpAssembly {
    /// In the order they began.
    partial: Vec<PartialMessage>,
    history: MessageHistory,
}

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceOutcome {
    /// Its message is whole, and received.
    Whole,
    /// Its message needs others.
    Kept,
    /// Its message finds no receive. Said once of each.
    NoReceive,
    /// Its message does not fit the receive it met, which failed.
    Unfit,
    /// The piece was received before, or its message is finished.
    Twice,
    /// The piece contradicts earlier pieces of its message.
    Contradiction,
}

#[derive(Debug)]
struct PartialMessage {
    number: u64,
    tag: u64,
    split: MessageSplit,
    fingerprint: Option<u64>,
    posted: Posted,
    /// The bytes, if the receive's memory is made on arrival: of the whole message.
    scratch: Vec<u8>,
    /// A bit for each piece that is there.
    have: Box<[u64]>,
    missing: u32,
    /// Ticks since it began, and since something new came.
    age: u32,
    idle: u32,
}

/// Messages of one sender that can be in pieces at the same time.
pub(super) const AT_ONCE: usize = 16;
/// Ticks after which a message is given up: without anything new, and altogether.
pub(super) const IDLE_MAX: u32 = 2;
pub(super) const AGE_MAX: u32 = 10;

impl UdpAssembly {
    /// Receives that hold a part of a message.
    pub(super) const fn begun(&self) -> usize {
        self.partial.len()
    }

    /// Takes a piece.
    #[inline]
    pub(super) fn take(
        &mut self,
        piece: &UdpPiece<'_>,
        receives: &mut ReceiveSizes,
        notices: &mut Notices,
    ) -> PieceOutcome {
        if self.history.is_over(piece.number) {
            return PieceOutcome::Twice;
        }
        let known = self.partial.iter().position(|partial| partial.number == piece.number);
        match known {
            Some(at) => self.add(at, piece, notices),
            None => self.begin(piece, receives, notices),
        }
    }

    #[inline]
    fn begin(
        &mut self,
        piece: &UdpPiece<'_>,
        receives: &mut ReceiveSizes,
        notices: &mut Notices,
    ) -> PieceOutcome {
        // A message that is whole needs no place, and no receive but a free one.
        if self.partial.len() >= AT_ONCE && !piece.split.is_whole() {
            self.give_up(0, receives);
        }
        let Some(mut posted) = receives.of(piece.eager).next() else {
            self.history.end(piece.number);
            return PieceOutcome::NoReceive;
        };
        if !fits(piece, &posted) {
            self.history.end(piece.number);
            let why = admit(piece, &mut posted).expect_err("it does not fit");
            posted.fail(why, notices);
            return PieceOutcome::Unfit;
        }
        if piece.split.is_whole() {
            return self.finish(piece, posted, piece.bytes, notices);
        }
        match PartialMessage::new(piece, posted, notices) {
            Some(partial) => self.partial.push(partial),
            None => {
                self.history.end(piece.number);
                return PieceOutcome::Unfit;
            }
        }
        self.add(self.partial.len() - 1, piece, notices)
    }

    fn add(&mut self, at: usize, piece: &UdpPiece<'_>, notices: &mut Notices) -> PieceOutcome {
        let partial = &mut self.partial[at];
        if !partial.agrees(piece) {
            return PieceOutcome::Contradiction;
        }
        let (word, bit) = ((piece.index / 64) as usize, 1 << (piece.index % 64));
        if fault::has_come(partial.have[word] & bit != 0) {
            return PieceOutcome::Twice;
        }
        partial.have[word] |= bit;
        partial.missing -= 1;
        partial.idle = 0;
        partial.put(piece);
        if partial.missing > 0 {
            return PieceOutcome::Kept;
        }
        let PartialMessage { posted, scratch, .. } = self.partial.remove(at);
        self.finish(piece, posted, &scratch, notices)
    }

    /// The message is whole; `rest` is what of it does not lie in the receive.
    #[inline]
    fn finish(
        &mut self,
        piece: &UdpPiece<'_>,
        mut posted: Posted,
        rest: &[u8],
        notices: &mut Notices,
    ) -> PieceOutcome {
        self.history.end(piece.number);
        // The receive learns what it holds only now: another might have come first.
        let kind = piece.kind.map(UdpKind::to_kind);
        match posted.begin(piece.split.len.into(), piece.tag, kind.as_ref()) {
            Ok(()) => {
                posted.descriptor_mut().scatter(0, rest);
                posted.complete(piece.split.len.into(), piece.tag, notices);
                PieceOutcome::Whole
            }
            Err(why) => {
                posted.fail(why, notices);
                PieceOutcome::Unfit
            }
        }
    }

    /// Gives a message up, and its receive back.
    fn give_up(&mut self, at: usize, receives: &mut ReceiveSizes) {
        let PartialMessage { number, mut posted, .. } = self.partial.remove(at);
        self.history.end(number);
        posted.descriptor_mut().unland();
        fault::put_back(posted, |posted| receives.of(posted.is_eager()).put_back(posted));
    }

    /// Some time has passed: gives up what has waited for too long. How many.
    pub(super) fn keep_alive_tick(&mut self, receives: &mut ReceiveSizes) -> u64 {
        let mut given_up = 0;
        for at in (0..self.partial.len()).rev() {
            let partial = &mut self.partial[at];
            partial.age += 1;
            partial.idle += 1;
            if partial.idle > IDLE_MAX || partial.age > AGE_MAX {
                self.give_up(at, receives);
                given_up += 1;
            }
        }
        given_up
    }

    /// Gives up everything.
    pub(super) fn abandon(&mut self, receives: &mut ReceiveSizes) {
        while !self.partial.is_empty() {
            self.give_up(0, receives);
        }
    }

    /// Takes back a receive that holds a part of a message, which is given up.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        let at = self.partial.iter().position(|partial| partial.posted.ticket() == ticket)?;
        let PartialMessage { number, posted, .. } = self.partial.remove(at);
        self.history.end(number);
        Some(posted)
    }

    /// The receives that hold a part of a message.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Posted> + '_ {
        self.partial.drain(..).map(|partial| partial.posted)
    }
}

impl PartialMessage {
    /// The message that a piece is the first to come of. `None`: the receive's landing
    /// does not take it, and the receive has failed.
    fn new(piece: &UdpPiece<'_>, mut posted: Posted, notices: &mut Notices) -> Option<Self> {
        let (len, descriptor) = (piece.split.len as usize, posted.descriptor_mut());
        if descriptor.is_landing()
            && let Err(why) = descriptor.make(len, piece.tag)
        {
            posted.fail(why, notices);
            return None;
        }
        let count = piece.split.count();
        let is_made = posted.descriptor().segments().all(|it| it.bytes().len() as u64 == it.len());
        let scratch = if is_made { Vec::new() } else { vec![0; len] };
        Some(Self {
            number: piece.number,
            tag: piece.tag,
            split: piece.split,
            fingerprint: piece.kind.map(|kind| kind.fingerprint),
            posted,
            scratch,
            have: vec![0; count.div_ceil(64) as usize].into(),
            missing: count,
            age: 0,
            idle: 0,
        })
    }

    fn put(&mut self, piece: &UdpPiece<'_>) {
        let offset = piece.split.range(piece.index).0;
        if self.scratch.is_empty() {
            self.posted.descriptor_mut().scatter(offset.into(), piece.bytes);
        } else {
            self.scratch[offset as usize..][..piece.bytes.len()].copy_from_slice(piece.bytes);
        }
    }

    /// Whether a piece says the same of the message.
    fn agrees(&self, piece: &UdpPiece<'_>) -> bool {
        let fingerprint = piece.kind.map(|kind| kind.fingerprint);
        (self.tag, self.split, self.fingerprint) == (piece.tag, piece.split, fingerprint)
            || planted(Fault::LiesBelieved)
    }
}

/// Whether a message may be received there.
#[inline]
fn fits(piece: &UdpPiece<'_>, posted: &Posted) -> bool {
    let (sent, descriptor) = (piece.kind.map(|kind| kind.fingerprint), posted.descriptor());
    let wanted = descriptor.kind().map(|kind| kind.fingerprint);
    let is_of_kind = sent.is_none() || wanted.is_none() || sent == wanted;
    u64::from(piece.split.len) <= descriptor.room() && is_of_kind
}

/// Notes in the receive what it holds, or says why it cannot.
#[inline]
fn admit(piece: &UdpPiece<'_>, posted: &mut Posted) -> Result<(), ViError> {
    let kind = piece.kind.map(UdpKind::to_kind);
    posted.admits(piece.split.len.into(), kind.as_ref())
}
