//! One end of a connection: post and poll.
//!
//! No clock, no thread, and no system call but the rare control message: a
//! post writes a slot, a poll reads one. What travels in the common case of a
//! small message and its answer is one cache line each way: the slot carries
//! the bytes and the counts.
//!
//! The counts have a line of their own too, for whoever does not answer. It is
//! written whenever slots were taken, which costs little as long as the peer does
//! not read it: a line that was read has to be fetched back, and a slot written
//! after it waits for that. So it is read with [`Patience`]: soon where the last
//! news came that way, late where they came by slots.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use super::commons::Commons;
use super::cord::CordError;
use super::cut::BYTES_AT_ONCE;
use super::fault::{Fault, planted};
use super::foreign::Foreign;
use super::gate::Pass;
use super::io::{Io, Parts};
use super::lanes::{Lanes, Undrained};
use super::layout::{CHUNK, LEFT, PLACED, RECEIVES, REGION_MAX, RING, SLOTS, TAKEN};
use super::patience::Patience;
use super::reach::Reach;
use super::recv::Receiver;
use super::rendezvous::{ControlError, Message};
use super::ring::{Consumer, Producer};
use super::send::Sender;
use super::wire::{COUNTS, Place, Slot, Small};
use crate::fabric::hub::bytes::Malformed;
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
    ring: Consumer,
    sender: Sender,
    receiver: Receiver,
    pub(super) lanes: Lanes,
    /// Slots in their order, from one that waits for a receive, or for the next poll to
    /// copy the rest of its bytes, on; `None` for those that overtook it. The peer's ring
    /// has no room for more.
    waiting: VecDeque<Option<Slot>>,
    /// Bytes that this poll may still copy.
    bytes_left: u64,
    /// Slots taken from the peer's ring, ever, without gaps.
    taken: u64,
    /// What the peer was told of this side's counts, by slot or by their line.
    told: Counts,
    patience: Patience,
    commons: Option<Commons>,
    /// Why the peer left, read before all was that it had sent.
    leaving: Option<Box<ViError>>,
    /// What came of it, for those who are to be told.
    pub notices: Notices,
}

/// Slots taken at one poll, so that no connection starves the others.
const BATCH: u64 = 64;
/// Control messages read at once.
const HEARD_AT_ONCE: usize = 64;
/// And for one slot: more than a socket holds, so that what was said before the
/// slot is among them, and a peer that says something for ever is not waited for.
const ANNOUNCED_AT_ONCE: usize = 2048;
const NO_MEMORY: ViError = ViError::Protocol("a region without its memory");
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
        let producer = Producer::new(parts.own.clone(), RING, SLOTS);
        let ring = Consumer::new(parts.foreign.clone(), RING as u64, SLOTS as u64).ok()?;
        Some(Self {
            depth: spec.depth,
            sender: Sender::new(spec.reliability, producer),
            receiver: Receiver::new(spec.reliability),
            lanes: Lanes::new(spec, &parts.own, &parts.foreign)?,
            reach: Reach::offer(&parts.own, &parts.foreign, parts.control.peer()),
            parts,
            ring,
            waiting: VecDeque::new(),
            bytes_left: 0,
            taken: 0,
            told: Counts::default(),
            patience: Patience::default(),
            commons,
            leaving: None,
            notices: Notices::default(),
        })
    }

    /// The peer rang, which ended the sleep with this number. An error: it will
    /// ring no more.
    pub(super) fn rung(&mut self, sleep: u64) -> Result<(), CordError> {
        self.parts.cord.rung(sleep)
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
            self.parts.own.word(TAKEN).store(counts.taken, Release);
            self.told = counts;
            self.ring_bell();
        }
    }

    /// Whether a slot waits for a receive.
    pub(super) fn is_held_up(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Does what can be done: takes slots, hears counts, puts slots, and wakes
    /// the peer if there is something new for it to look at. Whether there was
    /// anything to do.
    #[inline]
    pub(super) fn poll(&mut self, keys: &Keys, thorough: bool) -> Result<bool, Box<ViError>> {
        let took = self.take_slots(keys, BYTES_AT_ONCE)?;
        if (!took || planted(Fault::FarewellFirst))
            && let Some(why) = self.leaving.take()
        {
            return Err(why);
        }
        if took {
            self.patience.talked();
        } else if self.sender.outbox.is_waiting() && (thorough || self.patience.is_over()) {
            let before = self.sender.peer;
            self.hear_counts(keys)?;
            self.patience.looked(self.sender.peer != before);
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
    pub(super) fn ring_bell(&mut self) {
        let _ = self.parts.ringer.ring();
    }

    /// Whether the last poll left bytes that it could have copied to the next.
    pub(super) const fn is_unfinished(&self) -> bool {
        self.bytes_left == 0
    }

    #[inline]
    fn take_slots(&mut self, keys: &Keys, bytes_max: u64) -> Result<bool, Box<ViError>> {
        self.bytes_left = bytes_max;
        let mut took = 0;
        while took < BATCH && self.bytes_left > 0 && !self.receiver.torn && self.take_slot(keys)? {
            took += 1;
            if planted(Fault::FarewellFirst) && self.leaving.is_some() {
                break;
            }
        }
        Ok(took > 0)
    }

    /// Takes the next slot: one that waited, or the ring's. `false`: there is none.
    #[inline]
    fn take_slot(&mut self, keys: &Keys) -> Result<bool, Box<ViError>> {
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
        let slot = match self.next_slot(keys)? {
            Next::Nothing => return Ok(false),
            Next::Placed => {
                self.taken += 1;
                return Ok(true);
            }
            Next::Slot(slot) => slot,
        };
        self.take_any(slot, keys)
    }

    fn take_any(&mut self, slot: Slot, keys: &Keys) -> Result<bool, Box<ViError>> {
        if self.waiting.is_empty() && !self.receiver.holds_up(&slot) {
            match self.apply(slot, keys)? {
                // Only now: a slot that ends the connection was not taken.
                None => self.taken += 1,
                rest => self.waiting.push_back(rest),
            }
            return Ok(true);
        }
        if self.waiting.len() >= SLOTS {
            return Err(ViError::Protocol("more slots than the ring has").into());
        }
        let waits = if slot.overtakes() { self.apply(slot, keys)? } else { Some(slot) };
        self.waiting.push_back(waits);
        Ok(true)
    }

    /// Takes the oldest slot that waited, if it need not any more.
    #[cold]
    fn take_waiting(&mut self, keys: &Keys) -> Result<bool, Box<ViError>> {
        while let Some(front) = self.waiting.front() {
            if front.is_some_and(|slot| self.receiver.holds_up(&slot)) {
                break;
            }
            let front = self.waiting.pop_front().flatten();
            if let Some(slot) = front
                && let Some(rest) = self.apply(slot, keys)?
            {
                self.waiting.push_front(Some(rest));
                return Ok(true);
            }
            self.taken += 1;
            if front.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does what a slot says, as far as this poll may copy. What is left of it.
    #[inline]
    fn apply(&mut self, slot: Slot, keys: &Keys) -> Result<Option<Slot>, Box<ViError>> {
        if !self.knows(&slot) {
            self.announced(&slot);
        }
        let (now, rest) = slot.cut(self.bytes_left.max(CHUNK as u64));
        let bytes = now.place().map_or(0, Place::len);
        let (sender, receiver, mut io) = self.split(keys);
        receiver.take(now, sender, &mut io)?;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        Ok(rest)
    }

    /// Whether what a slot refers to was announced.
    #[inline]
    fn knows(&self, slot: &Slot) -> bool {
        let knows_buffer = match (slot, &self.commons) {
            (Slot::HandOver { handed, .. }, Some(commons)) => commons.knows(handed),
            _ => true,
        };
        knows_buffer && self.receiver.knows(slot)
    }

    /// The next slot of the peer's ring, its counts heard.
    #[inline]
    fn next_slot(&mut self, keys: &Keys) -> Result<Next, Box<ViError>> {
        let Some((head, words)) = self.ring.poll() else { return Ok(Next::Nothing) };
        let can_be_small = self.waiting.is_empty();
        let (sender, receiver, mut io) = self.split(keys);
        sender.hear(sender.peer.advanced(words[COUNTS]), &mut io)?;
        if let Some(small) = Small::decode(head, &words).filter(|_| can_be_small)
            && receiver.place(&small, &mut io)
        {
            return Ok(Next::Placed);
        }
        let nonsense = ViError::Protocol("a slot that makes no sense");
        Ok(Next::Slot(Slot::decode(&(head, words)).ok_or(nonsense)?))
    }

    fn hear_counts(&mut self, keys: &Keys) -> Result<(), Box<ViError>> {
        let load = |at: usize| {
            let word = self.parts.foreign.load(at as u64, Acquire);
            word.expect("the region has the layout's size")
        };
        let (taken, receives, placed) = (load(TAKEN), load(RECEIVES), load(PLACED));
        let (sender, _, mut io) = self.split(keys);
        // Slots may have said more than the line does.
        let known = sender.peer;
        let peer = Counts {
            taken: taken.max(known.taken),
            receives: receives.max(known.receives),
            placed: placed.max(known.placed),
        };
        sender.hear(peer, &mut io)
    }

    /// Makes sure that what a slot refers to is known here: its announcement
    /// left before the slot did. A type may stay without its name.
    #[cold]
    fn announced(&mut self, slot: &Slot) {
        for _ in 0..ANNOUNCED_AT_ONCE {
            if self.leaving.is_some() || self.knows(slot) {
                break;
            }
            match self.hear() {
                Ok(true) => {}
                Ok(false) => break,
                // Slots may have left before that.
                Err(why) => self.leaving = Some(why),
            }
        }
    }

    /// Takes the control messages that are there.
    ///
    /// # Errors
    ///
    /// If one of them is the last.
    pub(super) fn hear_all(&mut self) -> Result<(), Box<ViError>> {
        if let Some(why) = self.leaving.take() {
            return Err(why);
        }
        for _ in 0..HEARD_AT_ONCE {
            if !self.hear()? {
                break;
            }
        }
        Ok(())
    }

    /// Takes one control message. `false`: there is none.
    fn hear(&mut self) -> Result<bool, Box<ViError>> {
        let heard = self.parts.control.poll().map_err(|error| match error {
            ControlError::PeerGone { .. } => GONE,
            ControlError::Protocol { why: Malformed(what), .. } => ViError::Protocol(what),
            ControlError::System { .. } => ViError::PeerDied { why: "its socket failed" },
        })?;
        let Some((message, fds)) = heard else { return Ok(false) };
        match message {
            Message::Region { number } => {
                let fd = fds.into_iter().next().ok_or(NO_MEMORY)?;
                let region = Foreign::map(fd, REGION_MAX)
                    .map_err(|_| ViError::Protocol("a region that cannot be mapped safely"))?;
                self.receiver.add_region(number.into(), region)?;
            }
            Message::Commons { number, plan } => {
                let fd = fds.into_iter().next().ok_or(NO_MEMORY)?;
                self.commons.as_mut().ok_or(ISOLATED)?.add(number, &fd, &plan)?;
            }
            Message::Direct { secret, gate, number, place, len } => {
                let commons = self.commons.as_mut().ok_or(ISOLATED)?;
                commons.learn(secret, Pass { gate, number }, (place, len))?;
            }
            Message::Kind(kind) => self.receiver.incoming.learn(kind),
            Message::Goodbye(farewell) => return Err(farewell.into_error().into()),
        }
        Ok(true)
    }

    pub(super) fn cancel(&mut self, ticket: Ticket) -> bool {
        let taken =
            self.receiver.incoming.cancel(ticket).or_else(|| self.sender.outbox.cancel(ticket));
        let found = taken.is_some();
        if let Some(posted) = taken {
            posted.fail(ViError::Cancelled, &mut self.notices);
        }
        found
    }

    /// What the peer did before it left still counts.
    pub(super) fn last_look(&mut self, keys: &Keys) {
        // As much as the ring holds: a hostile peer could go on for ever.
        for _ in 0..=SLOTS as u64 / BATCH {
            if !matches!(self.take_slots(keys, u64::MAX), Ok(true)) {
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
        let Self { sender, receiver, parts, reach, notices, commons, .. } = self;
        let Parts { own, foreign, control, .. } = parts;
        let (reach, commons) = (reach.as_ref(), commons.as_mut());
        (sender, receiver, Io { keys, notices, own, foreign, control, reach, commons })
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
    Slot(Slot),
}
