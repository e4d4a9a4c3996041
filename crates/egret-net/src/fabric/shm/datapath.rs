//! One end of a connection: post and poll.
//!
//! No clock, no thread, and no system call but the rare control message: a
//! post writes a record, a poll reads one. What travels in the common case of a
//! small message and its answer is one cache line each way: the record carries
//! the bytes and the counts.
//!
//! Posted messages have a ring of records of their own, beside those of the lanes. In one ring
//! with eager messages a posted message that waits for a receive would hold up the eager ones
//! behind it, and one that nobody drains the posted ones, unless all were copied out to wait
//! elsewhere, in memory without a bound. The price of the other ring is one load for each look, of
//! a line that stays in the cache until the peer writes it.
//!
//! The counts have a line of their own too, beside how much of the ring this end is done with, for
//! whoever does not answer. It is written whenever records were taken, which costs little as long
//! as the peer does not read it: a line that was read has to be fetched back, and a record written
//! after it waits for that. So it is read when the ring, or the peer's receives, seem to be used
//! up, and when the peer has been [silent](SILENCE) for a while.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use super::commons::Commons;
use super::cord::CordError;
use super::cut::PIECE;
use super::fault::{Fault, planted};
use super::io::{Io, Parts};
use super::lanes::{Lanes, Undrained};
use super::layout::{CHUNK, LEFT, PLACED, RECEIVES, RING, RING_LINES, TAKEN};
use super::reach::Reach;
use super::records::{Lie, POSTED_WORDS, RingReceiver, RingSender, Scratch};
use super::recv::Receiver;
use super::rendezvous::Message;
use super::send::Sender;
use super::wire::{Item, Place};
use crate::fabric::hub::counts::Counts;
use crate::fabric::hub::end::Open;
use crate::fabric::hub::farewell::Farewell;
use crate::fabric::receives::Receives;
use crate::fabric::{Unposted, ViSpec};
use crate::vi::{Counters, Keys, Notices, Op, Posted, Refused, Ticket, Trust, ViError};

#[derive(Debug)]
pub(super) struct Conn {
    depth: u32,
    pub parts: Parts,
    /// There if this side can read the memory of the peer's process.
    reach: Option<Reach>,
    pub(super) ring: RingReceiver,
    scratch: Scratch<POSTED_WORDS>,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    pub(super) lanes: Lanes,
    /// Items in their order, from one that waits for a receive, or for the next poll to
    /// copy the rest of its bytes, on. The peer's ring has no room for more.
    waiting: VecDeque<Waiting>,
    /// Bytes that this poll may still copy.
    pub(super) bytes_left: u64,
    /// Lines of the peer's ring that this side is done with, ever, without gaps.
    taken: u64,
    /// What the peer was told of this side's counts, by a record or by their line.
    told: Counts,
    /// Polls since the peer said something, or its line did.
    silence: u32,
    /// Whether the last poll found nothing to do, and nothing was begun since.
    pub is_quiet: bool,
    /// Whether a drain under way was answered.
    pub answers: bool,
    /// Whether its line said something last: then it is no conversation.
    hears_by_line: bool,
    pub(super) commons: Option<Commons>,
    /// Why the peer left, read before all was that it had sent.
    pub(super) leaving: Option<Box<ViError>>,
    /// What came of it, for those who are to be told.
    pub notices: Notices,
}

/// An item that waits, or `None` of one that overtook those in front of it.
#[derive(Debug)]
struct Waiting {
    item: Option<Item>,
    /// The payload of its record, if it has bytes there.
    record: Box<[u8]>,
    /// The position behind its record.
    behind: u64,
}

/// Records taken at one poll, so that no connection starves the others.
const BATCH: u64 = 64;
/// After so many polls without a word of the peer its line is looked at, and again whenever the
/// silence has doubled: longer than a small answer takes.
const SILENCE: u32 = 256;
/// The same where its line said something last: a peer that takes and does not answer.
const SILENCE_OF_LISTENER: u32 = 4;
/// The same where many records are under way: the longer the line is left alone, the more of them
/// one look completes.
const SILENCE_OF_MANY: u32 = 64;
/// Lines under way that are not many.
const FEW: u64 = 16;
/// What only those who cooperate may say.
pub(super) const ISOLATED: ViError = ViError::Protocol("another trust than cooperating");
pub(super) const GONE: ViError = ViError::PeerDied { why: "its process is gone" };

impl Conn {
    /// `None` if the peer's memory is not as large as it must be, or the kernel
    /// lacks what cooperating takes.
    pub(super) fn new(spec: ViSpec, trust: Trust, parts: Parts) -> Option<Self> {
        let commons = match trust {
            Trust::Cooperating => {
                let process = parts.control.peer().pidfd()?;
                Some(Commons::new(&parts.own, &parts.foreign, process, &parts.ringer)?)
            }
            Trust::Isolated => None,
        };
        let Parts { own, foreign, .. } = &parts;
        let (own, foreign) = (|| own.clone(), || foreign.clone());
        let sender = RingSender::new(own(), RING, RING_LINES, foreign(), TAKEN as u64).ok()?;
        let (first, lines) = (RING as u64, RING_LINES as u64);
        let ring = RingReceiver::new(foreign(), first, lines, own(), TAKEN).ok()?.of_posted();
        Some(Self {
            depth: spec.depth,
            sender: Sender::new(spec.reliability, sender),
            receiver: Receiver::new(spec.reliability),
            lanes: Lanes::new(spec, &parts.own, &parts.foreign)?,
            reach: Reach::offer(&parts.own, &parts.foreign, parts.control.peer()),
            parts,
            ring,
            scratch: Scratch::of_posted(),
            waiting: VecDeque::new(),
            bytes_left: 0,
            taken: 0,
            told: Counts::default(),
            silence: 0,
            is_quiet: false,
            answers: false,
            hears_by_line: false,
            commons,
            leaving: None,
            notices: Notices::default(),
        })
    }

    /// The peer rang, which has ended the last sleep. An error: it will ring no more.
    pub(super) fn rung(&mut self) -> Result<(), CordError> {
        let Parts { sleeper, cord, .. } = &mut self.parts;
        cord.rung(sleeper.sleeps())
    }

    /// Takes a descriptor.
    #[inline]
    pub(super) fn post(&mut self, posted: Posted, keys: &Keys) -> Result<(), Unposted> {
        let receiving = matches!(posted.op(), Op::Recv);
        let outstanding = if receiving {
            self.receiver.incoming.outstanding()
        } else {
            self.sender.outbox.outstanding()
        };
        if outstanding >= self.depth as usize {
            return Err(Unposted::new(Refused::Full { depth: self.depth }, posted));
        }
        if receiving {
            // A peer that has no receive left to count on stands still.
            let starved = self.told.receives == self.receiver.incoming.receives.placed;
            self.receiver.incoming.receives.push(posted);
            if starved {
                self.publish();
            }
        } else {
            if !self.sender.may_begin(&posted) {
                // The peer may have said more than was heard. A lie is found at the next poll.
                let _ = self.hear_counts(keys);
            }
            let counts = self.counts();
            let (sender, _, mut io) = self.split(keys);
            if sender.push(posted, counts, &mut io) {
                self.told = counts;
                self.ring_bell();
            }
        }
        Ok(())
    }

    /// Writes the counts' line, if it has something new to say.
    #[inline]
    fn publish(&mut self) {
        let counts = self.counts();
        if counts != self.told {
            self.parts.own.word(PLACED).store(counts.placed, Release);
            self.parts.own.word(RECEIVES).store(counts.receives, Release);
            self.ring.release(counts.taken);
            self.told = counts;
            self.ring_bell();
        }
    }

    /// Whether an item waits for a receive.
    pub(super) fn is_held_up(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Does what can be done: takes records, hears counts, puts records, and wakes
    /// the peer if there is something new for it to look at. Whether there was
    /// anything to do.
    #[inline]
    pub(super) fn poll(&mut self, keys: &Keys, thorough: bool) -> Result<bool, Box<ViError>> {
        let took = self.take_records(keys, PIECE)?;
        if (!took || planted(Fault::FarewellFirst))
            && let Some(why) = self.leaving.take()
        {
            return Err(why);
        }
        if took {
            (self.silence, self.hears_by_line) = (0, false);
        } else if self.sender.outbox.is_waiting() {
            self.silence = self.silence.saturating_add(1);
            let most = match (self.hears_by_line, self.sender.lines_under_way()) {
                (false, _) => SILENCE,
                (true, ..FEW) => SILENCE_OF_LISTENER,
                (true, _) => SILENCE_OF_MANY,
            };
            let is_long = self.silence >= most && self.silence.is_power_of_two();
            if thorough || is_long {
                self.hear_counts(keys)?;
            }
        }
        let late = planted(Fault::ReturnsLate) && took;
        let home = !late && self.commons.as_mut().is_some_and(Commons::poll);
        let mut put = false;
        if self.sender.outbox.has_more() {
            let counts = self.counts();
            let (sender, _, mut io) = self.split(keys);
            put = sender.pump(counts, &mut io);
            if put {
                self.told = counts;
                self.ring_bell();
            }
        }
        if took || thorough {
            self.publish();
        }
        Ok(took || put || home)
    }

    /// A peer that cannot be woken is gone, which its socket says too.
    #[inline]
    pub(super) fn ring_bell(&mut self) {
        let _ = self.parts.ringer.ring();
    }

    #[inline]
    fn take_records(&mut self, keys: &Keys, bytes_max: u64) -> Result<bool, Box<ViError>> {
        self.bytes_left = bytes_max;
        let mut took = 0;
        while took < BATCH
            && self.bytes_left > 0
            && !self.receiver.torn
            && self.take_record(keys)?
        {
            took += 1;
            if planted(Fault::FarewellFirst) && self.leaving.is_some() {
                break;
            }
        }
        Ok(took > 0)
    }

    /// Takes the next record: one that waited, or the ring's. `false`: there is none.
    #[inline]
    fn take_record(&mut self, keys: &Keys) -> Result<bool, Box<ViError>> {
        if self.receiver.is_copying() {
            let most = self.bytes_left.max(CHUNK as u64);
            let (_, receiver, mut io) = self.split(keys);
            let copied = receiver.copy_on(most, &mut io);
            self.bytes_left = self.bytes_left.saturating_sub(copied);
            return Ok(true);
        }
        if !self.waiting.is_empty() && self.take_waiting(keys)? {
            return Ok(true);
        }
        match self.next_record(keys)? {
            Next::Nothing => Ok(false),
            Next::Placed => {
                self.taken = self.ring.position();
                Ok(true)
            }
            Next::Item(item) => self.take_any(item, keys),
        }
    }

    fn take_any(&mut self, item: Item, keys: &Keys) -> Result<bool, Box<ViError>> {
        let behind = self.ring.position();
        if self.waiting.is_empty() && !self.receiver.holds_up(&item) {
            match self.apply(item, None, keys)? {
                // Only now: an item that ends the connection was not taken.
                None => self.taken = behind,
                rest => {
                    self.waiting.push_back(Waiting { item: rest, record: Box::default(), behind });
                }
            }
            return Ok(true);
        }
        if behind - self.taken > RING_LINES as u64 {
            return Err(ViError::Protocol("more records than the ring has").into());
        }
        let item = if item.overtakes() { self.apply(item, None, keys)? } else { Some(item) };
        if planted(Fault::ReleasedEarly) {
            self.taken = behind;
        }
        let has_bytes = item.and_then(|item| item.place().copied()).is_some_and(Place::is_inline);
        let has_bytes = has_bytes && !planted(Fault::KeptForgotten);
        let record = if has_bytes { self.scratch.payload().into() } else { Box::default() };
        self.waiting.push_back(Waiting { item, record, behind });
        Ok(true)
    }

    /// Takes the oldest item that waited, if it need not any more.
    #[cold]
    fn take_waiting(&mut self, keys: &Keys) -> Result<bool, Box<ViError>> {
        while let Some(front) = self.waiting.front() {
            if front.item.is_some_and(|item| self.receiver.holds_up(&item)) {
                break;
            }
            let Some(Waiting { item, record, behind }) = self.waiting.pop_front() else { break };
            if let Some(item) = item
                && let Some(rest) = self.apply(item, Some(&record), keys)?
            {
                self.waiting.push_front(Waiting { item: Some(rest), record, behind });
                return Ok(true);
            }
            self.taken = behind;
            if item.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does what an item says, as far as this poll may copy: of the record in scratch, or of
    /// one that was kept. What is left of it.
    #[inline]
    fn apply(
        &mut self,
        item: Item,
        kept: Option<&[u8]>,
        keys: &Keys,
    ) -> Result<Option<Item>, Box<ViError>> {
        if !self.knows(&item) {
            self.announced(&item);
        }
        let (now, rest) = item.cut(self.bytes_left.max(CHUNK as u64));
        let bytes = now.place().map_or(0, Place::len);
        let (sender, receiver, mut io) = self.split(keys);
        io.record = kept.unwrap_or(io.record);
        receiver.take(now, sender, &mut io)?;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        Ok(rest)
    }

    /// Whether what an item refers to was announced.
    #[inline]
    pub(super) fn knows(&self, item: &Item) -> bool {
        let knows_buffer = match (item, &self.commons) {
            (Item::HandOver { handed, .. }, Some(commons)) => commons.knows(handed),
            _ => true,
        };
        knows_buffer && self.receiver.knows(item)
    }

    /// The next record of the peer's ring, its counts heard.
    #[inline]
    fn next_record(&mut self, keys: &Keys) -> Result<Next, Box<ViError>> {
        let Self { ring, scratch, sender, receiver, notices, parts, .. } = self;
        let Some(taken) = ring.take_posted(scratch).map_err(lie)? else {
            return Ok(Next::Nothing);
        };
        let nonsense = ViError::Protocol("a record that makes no sense");
        let Parts { own, foreign, control, .. } = parts;
        let mut io =
            Io { keys, notices, own, foreign, control, reach: None, record: &[], commons: None };
        sender.hear(sender.peer.advanced(taken.counts()), &mut io)?;
        let can_be_placed = !taken.is_item && self.waiting.is_empty();
        if can_be_placed && receiver.place(&taken, &mut io) {
            return Ok(Next::Placed);
        }
        Ok(Next::Item(Item::decode(&taken).ok_or(nonsense)?))
    }

    fn hear_counts(&mut self, keys: &Keys) -> Result<(), Box<ViError>> {
        let load = |at: usize| {
            let word = self.parts.foreign.load(at as u64, Acquire);
            word.expect("the region has the layout's size")
        };
        let (taken, receives, placed) = (load(TAKEN), load(RECEIVES), load(PLACED));
        // Records may have said more than the line does.
        let known = self.sender.peer;
        let peer = Counts {
            taken: taken.max(known.taken),
            receives: receives.max(known.receives),
            placed: placed.max(known.placed),
        };
        if peer != known {
            (self.silence, self.hears_by_line) = (0, true);
        }
        let (sender, _, mut io) = self.split(keys);
        sender.hear(peer, &mut io)
    }

    pub(super) fn cancel(&mut self, ticket: Ticket) -> bool {
        let taken =
            self.receiver.incoming.cancel(ticket).or_else(|| self.sender.outbox.cancel(ticket));
        let Some(posted) = taken else { return false };
        posted.fail(ViError::Cancelled, &mut self.notices);
        true
    }

    /// What the peer did before it left still counts.
    pub(super) fn last_look(&mut self, keys: &Keys) {
        // As much as the ring holds: a hostile peer could go on for ever.
        for _ in 0..=RING_LINES as u64 / BATCH {
            if !matches!(self.take_records(keys, u64::MAX), Ok(true)) {
                break;
            }
        }
        let _ = self.hear_counts(keys);
    }

    /// How far this side is.
    #[inline]
    const fn counts(&self) -> Counts {
        let Receives { promised: receives, placed, .. } = self.receiver.incoming.receives;
        Counts { taken: self.taken, receives, placed }
    }

    #[inline]
    fn split<'a>(&'a mut self, keys: &'a Keys) -> (&'a mut Sender, &'a mut Receiver, Io<'a>) {
        let Self { sender, receiver, parts, reach, notices, commons, scratch, .. } = self;
        let Parts { own, foreign, control, .. } = parts;
        let (reach, commons, record) = (reach.as_ref(), commons.as_mut(), scratch.payload());
        (sender, receiver, Io { keys, notices, own, foreign, control, reach, record, commons })
    }
}

impl Open for Conn {
    type Left = Undrained;

    fn counters(&self) -> Counters {
        Counters {
            sent: self.sender.outbox.completed,
            received: self.receiver.incoming.receives.received,
            dropped: self.receiver.incoming.receives.dropped + self.lanes.dropped,
        }
    }

    /// The peer is told.
    fn fail(mut self, why: &ViError, notices: &mut Notices) -> Undrained {
        self.notices.move_to(notices);
        // What was taken before counts for the peer, too.
        self.publish();
        self.lanes.publish();
        let undrained = self.lanes.undrained(!matches!(why, ViError::Closed | ViError::NicDown));
        self.parts.own.word(LEFT).store(1, Relaxed);
        // Before the buffers are anybody's: pairs with the fence in `peer_left`.
        fence(Release);
        // A peer that is gone, or does not listen, sees the socket close.
        let farewell = Message::Goodbye(Farewell::of(why.clone()));
        let _ = self.parts.control.send(&farewell, &[]);
        for posted in self.sender.outbox.drain().into_iter().chain(self.receiver.incoming.drain()) {
            posted.fail(why.clone(), notices);
        }
        undrained
    }
}

/// What the peer's ring had.
enum Next {
    Nothing,
    /// A small message, which is in its place already.
    Placed,
    Item(Item),
}

#[cold]
fn lie(lie: Lie) -> Box<ViError> {
    tracing::warn!(%lie, "a peer's ring of posted messages");
    ViError::Protocol("a record that makes no sense").into()
}
