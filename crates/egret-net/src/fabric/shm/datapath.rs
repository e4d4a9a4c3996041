//! One end of a connection: post and poll.
//!
//! No clock, no thread, and no system call but the rare control message: a
//! post writes a slot, a poll reads one. What travels in the common case of a
//! small message and its answer is one cache line each way: the slot carries
//! the bytes and the counts.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use super::bell::Ringer;
use super::cord::{Cord, CordError};
use super::foreign::Foreign;
use super::layout::{LEFT, PLACED, RECEIVES, RING, SLOTS, TAKEN};
use super::memory::Own;
use super::recv::Receiver;
use super::rendezvous::{Control, ControlError, Farewell, Malformed, Message, Sent};
use super::ring::{Consumer, Producer};
use super::send::{Peer, Sender};
use super::wire::{Counts, Slot};
use crate::fabric::{Unposted, ViSpec};
use crate::vi::{Counters, Keys, Notices, Op, Posted, Refused, Ticket, ViError};

/// What an end uses of its surroundings during one call.
pub(super) struct Io<'a> {
    pub keys: &'a Keys,
    pub notices: &'a mut Notices,
    pub own: &'a Own,
    pub foreign: &'a Foreign,
    control: &'a Control,
}

impl Io<'_> {
    /// Sends a control message. `false` if the socket is full or closed: the
    /// caller does without.
    pub(super) fn tell(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> bool {
        matches!(self.control.send(message, fds), Ok(Sent::Sent))
    }

    /// Whether the peer had taken its buffers back by now: then what was copied
    /// out of them before may be anything.
    pub(super) fn peer_left(&self) -> bool {
        fence(Acquire);
        self.foreign.load(LEFT as u64, Relaxed) != Some(0)
    }
}

/// What an end is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub own: Own,
    pub foreign: Foreign,
    pub control: Control,
    pub cord: Cord,
    pub ringer: Ringer,
}

#[derive(Debug)]
pub(super) struct Conn {
    depth: u32,
    parts: Parts,
    ring: Consumer,
    sender: Sender,
    receiver: Receiver,
    /// Slots in their order, from one that waits for a receive on; `None` for
    /// those that overtook it. The peer's ring has no room for more.
    waiting: VecDeque<Option<Slot>>,
    /// Slots taken from the peer's ring, ever, without gaps.
    taken: u64,
    /// Polls since the ring last had something.
    idle_polls: u32,
}

/// Slots taken at one poll, so that no connection starves the others.
const BATCH: u64 = 64;
/// How often the counts are read while the ring is silent.
const COUNTS_EVERY: u32 = 2;
/// Largest region of a peer's that is mapped here.
const REGION_MAX: u64 = 1 << 38;
/// Control messages read at once.
const HEARD_AT_ONCE: usize = 64;
pub(super) const GONE: ViError = ViError::PeerDied { why: "its process is gone" };

impl Conn {
    /// `None` if the peer's memory is not as large as it must be.
    pub(super) fn new(spec: ViSpec, parts: Parts) -> Option<Self> {
        let producer = Producer::new(parts.own.clone(), RING, SLOTS);
        let ring = Consumer::new(parts.foreign.clone(), RING as u64, SLOTS as u64).ok()?;
        Some(Self {
            depth: spec.depth,
            sender: Sender::new(spec.reliability, producer),
            receiver: Receiver::new(spec.reliability),
            parts,
            ring,
            waiting: VecDeque::new(),
            taken: 0,
            idle_polls: 0,
        })
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            sent: self.sender.completed,
            received: self.receiver.received,
            dropped: self.receiver.dropped,
        }
    }

    pub(super) fn control_fd(&self) -> BorrowedFd<'_> {
        self.parts.control.fd()
    }

    /// Readable when the peer's process has ended, if the kernel can say.
    pub(super) fn process_fd(&self) -> Option<BorrowedFd<'_>> {
        self.parts.control.peer().pidfd()
    }

    pub(super) fn cord_fd(&self) -> BorrowedFd<'_> {
        self.parts.cord.fd()
    }

    /// Forgets what the peer rang. An error: it will ring no more.
    pub(super) fn drain_cord(&self) -> Result<bool, CordError> {
        self.parts.cord.drain()
    }

    /// Takes a descriptor.
    pub(super) fn post(
        &mut self,
        posted: Posted,
        keys: &Keys,
        notices: &mut Notices,
    ) -> Result<(), Unposted> {
        let receiving = matches!(posted.op(), Op::Recv);
        let outstanding =
            if receiving { self.receiver.outstanding() } else { self.sender.outstanding() };
        if outstanding >= self.depth as usize {
            return Err(Unposted::new(Refused::Full { depth: self.depth }, posted));
        }
        if receiving {
            self.receiver.push(posted);
            self.parts.own.word(RECEIVES).store(self.receiver.receives, Release);
        } else {
            let counts = self.counts();
            let (sender, _, mut io) = self.split(keys, notices);
            sender.push(posted, counts, &mut io);
        }
        self.ring_bell();
        Ok(())
    }

    /// Whether a slot waits for a receive.
    pub(super) fn is_held_up(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Does what can be done: takes slots, hears counts, puts slots, and wakes
    /// the peer if there is something new for it to look at. Whether there was
    /// anything to do.
    pub(super) fn poll(
        &mut self,
        keys: &Keys,
        notices: &mut Notices,
        thorough: bool,
    ) -> Result<bool, ViError> {
        let took = self.take_slots(keys, notices)?;
        self.idle_polls = if took { 0 } else { self.idle_polls.wrapping_add(1) };
        // The counts' line travels each time it is read after the peer wrote it, and in a
        // conversation the slots say the same: look only when the ring has been silent.
        let is_time = thorough || self.idle_polls % COUNTS_EVERY == COUNTS_EVERY - 1;
        if is_time && self.sender.is_waiting() {
            self.hear_counts(keys, notices)?;
        }
        let counts = self.counts();
        let (sender, _, mut io) = self.split(keys, notices);
        let put = sender.is_waiting() && sender.pump(counts, &mut io);
        if took || put {
            self.ring_bell();
        }
        Ok(took || put)
    }

    /// A peer that cannot be woken is gone, which its socket says too.
    fn ring_bell(&mut self) {
        let _ = self.parts.ringer.ring();
    }

    fn take_slots(&mut self, keys: &Keys, notices: &mut Notices) -> Result<bool, ViError> {
        let (before, mut took) = (self.taken, 0);
        let outcome = loop {
            if took == BATCH || self.receiver.torn {
                break Ok(());
            }
            match self.take_slot(keys, notices) {
                Ok(true) => took += 1,
                Ok(false) => break Ok(()),
                Err(why) => break Err(why),
            }
        };
        if took > 0 || self.taken != before {
            self.parts.own.word(PLACED).store(self.receiver.placed, Release);
            self.parts.own.word(RECEIVES).store(self.receiver.receives, Release);
            self.parts.own.word(TAKEN).store(self.taken, Release);
        }
        outcome.map(|()| took > 0)
    }

    /// Takes the next slot: one that waited, or the ring's. `false`: there is none.
    fn take_slot(&mut self, keys: &Keys, notices: &mut Notices) -> Result<bool, ViError> {
        while let Some(front) = self.waiting.front() {
            if front.is_some_and(|slot| self.receiver.holds_up(&slot)) {
                break;
            }
            let front = self.waiting.pop_front().flatten();
            if let Some(slot) = front {
                self.apply(slot, keys, notices)?;
            }
            // Only now: a slot that ends the connection was not taken.
            self.taken += 1;
            if front.is_some() {
                return Ok(true);
            }
        }
        let Some(slot) = self.next_slot(keys, notices)? else { return Ok(false) };
        if self.waiting.is_empty() && !self.receiver.holds_up(&slot) {
            self.apply(slot, keys, notices)?;
            self.taken += 1;
            return Ok(true);
        }
        if self.waiting.len() >= SLOTS {
            return Err(ViError::Protocol("more slots than the ring has"));
        }
        let overtakes = slot.overtakes();
        self.waiting.push_back((!overtakes).then_some(slot));
        if overtakes {
            self.apply(slot, keys, notices)?;
        }
        Ok(true)
    }

    fn apply(&mut self, slot: Slot, keys: &Keys, notices: &mut Notices) -> Result<(), ViError> {
        self.announced(&slot)?;
        let (sender, receiver, mut io) = self.split(keys, notices);
        receiver.take(slot, sender, &mut io)
    }

    /// The next slot of the peer's ring, its counts heard.
    fn next_slot(&mut self, keys: &Keys, notices: &mut Notices) -> Result<Option<Slot>, ViError> {
        let Some(words) = self.ring.poll() else { return Ok(None) };
        let nonsense = ViError::Protocol("a slot that makes no sense");
        let (slot, counts) = Slot::decode(&words).ok_or(nonsense)?;
        let (sender, _, mut io) = self.split(keys, notices);
        let peer = Peer {
            taken: sender.peer.taken,
            receives: extend(sender.peer.receives, counts.receives),
            placed: extend(sender.peer.placed, counts.placed),
        };
        sender.hear(peer, &mut io)?;
        Ok(Some(slot))
    }

    fn hear_counts(&mut self, keys: &Keys, notices: &mut Notices) -> Result<(), ViError> {
        let load = |at: usize| {
            let word = self.parts.foreign.load(at as u64, Acquire);
            word.expect("the region has the layout's size")
        };
        let peer = Peer { taken: load(TAKEN), receives: load(RECEIVES), placed: load(PLACED) };
        let (sender, _, mut io) = self.split(keys, notices);
        sender.hear(peer, &mut io)
    }

    /// Makes sure that what a slot refers to is known here: its announcement
    /// left before the slot did. A type may stay without its name.
    fn announced(&mut self, slot: &Slot) -> Result<(), ViError> {
        while !self.receiver.knows(slot) && self.hear()? {}
        Ok(())
    }

    /// Takes the control messages that are there.
    ///
    /// # Errors
    ///
    /// If one of them is the last.
    pub(super) fn hear_all(&mut self) -> Result<(), ViError> {
        for _ in 0..HEARD_AT_ONCE {
            if !self.hear()? {
                break;
            }
        }
        Ok(())
    }

    /// Takes one control message. `false`: there is none.
    fn hear(&mut self) -> Result<bool, ViError> {
        let heard = self.parts.control.poll().map_err(|error| match error {
            ControlError::PeerGone { .. } => GONE,
            ControlError::Protocol { why: Malformed(what), .. } => ViError::Protocol(what),
            ControlError::System { .. } => ViError::PeerDied { why: "its socket failed" },
        })?;
        let Some((message, fds)) = heard else { return Ok(false) };
        match message {
            Message::Region { number } => {
                let missing = ViError::Protocol("a region without its memory");
                let fd = fds.into_iter().next().ok_or(missing)?;
                let region = Foreign::map(fd, REGION_MAX)
                    .map_err(|_| ViError::Protocol("a region that cannot be mapped safely"))?;
                self.receiver.add_region(number.into(), region)?;
            }
            Message::Kind(kind) => self.receiver.add_kind(kind),
            Message::Goodbye(farewell) => return Err(farewell.into_error()),
        }
        Ok(true)
    }

    pub(super) fn cancel(&mut self, ticket: Ticket, notices: &mut Notices) -> bool {
        let taken = self.receiver.cancel(ticket).or_else(|| self.sender.cancel(ticket));
        let found = taken.is_some();
        if let Some(posted) = taken {
            posted.fail(ViError::Cancelled, notices);
        }
        found
    }

    /// What the peer did before it left still counts.
    pub(super) fn last_look(&mut self, keys: &Keys, notices: &mut Notices) {
        // As much as the ring holds: a hostile peer could go on for ever.
        for _ in 0..=SLOTS as u64 / BATCH {
            if !matches!(self.take_slots(keys, notices), Ok(true)) {
                break;
            }
        }
        let _ = self.hear_counts(keys, notices);
    }

    /// Everything outstanding comes back with the reason, and the peer is told.
    pub(super) fn fail(mut self, why: &ViError, notices: &mut Notices) {
        self.parts.own.word(LEFT).store(1, Relaxed);
        // Before the buffers are anybody's: pairs with the fence in `peer_left`.
        fence(Release);
        // A peer that is gone, or does not listen, sees the socket close.
        let farewell = Message::Goodbye(Farewell::of(why.clone()));
        let _ = self.parts.control.send(&farewell, &[]);
        for posted in self.sender.drain().into_iter().chain(self.receiver.drain()) {
            posted.fail(why.clone(), notices);
        }
    }

    fn counts(&self) -> Counts {
        #[expect(clippy::cast_possible_truncation, reason = "counts travel modulo 2³²")]
        let low = |count: u64| count as u32;
        Counts { receives: low(self.receiver.receives), placed: low(self.receiver.placed) }
    }

    fn split<'a>(
        &'a mut self,
        keys: &'a Keys,
        notices: &'a mut Notices,
    ) -> (&'a mut Sender, &'a mut Receiver, Io<'a>) {
        let Self { sender, receiver, parts, .. } = self;
        let Parts { own, foreign, control, .. } = parts;
        (sender, receiver, Io { keys, notices, own, foreign, control })
    }
}

/// A count that was `known` and of which a slot carries the low half. An older
/// slot than what is known changes nothing.
fn extend(known: u64, low: u32) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "counts travel modulo 2³²")]
    let ahead = low.wrapping_sub(known as u32);
    if ahead < 1 << 31 { known + u64::from(ahead) } else { known }
}
