//! One end of a connection: post and poll.
//!
//! A post writes at once if nothing of this end is under way; otherwise it waits for
//! company, until the nic is driven or there is much of it. So a lone message is
//! fast, and many share a system call.
//!
//! How far this side is rides on every frame. A frame of its own goes only when the
//! peer might stand still without it: it has used up half of what it may count on,
//! much has come, or nothing for a while.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::batch::CHUNKS;
use super::fault::{Fault, planted};
use super::intake::Intake;
use super::io::Io;
use super::recv::Receiver;
use super::send::{Flushed, Sender};
use super::socket::is_later;
use super::stream::{Stream, Unread};
use super::wire::{CHUNK, HEAD};
use crate::fabric::hub::counts::Counts;
use crate::fabric::hub::eager::EagerIn;
use crate::fabric::hub::end::Open;
use crate::fabric::hub::farewell::Farewell;
use crate::fabric::receives::Receives;
use crate::fabric::seal::{self, SealError};
use crate::fabric::{Unposted, ViSpec};
use crate::vi::{Counters, Keys, Lane, Notices, Op, Position, Posted, Refused, Ticket, ViError};

#[derive(Debug)]
pub(super) struct Conn {
    depth: u32,
    pub stream: Stream,
    pub sender: Sender,
    pub receiver: Receiver,
    intake: Intake,
    /// Polls that found nothing, and bytes that came, since the peer was told.
    idle: u32,
    untold: usize,
    /// What was posted and not written: descriptors and bytes.
    queued: (usize, u64),
    /// Whether the kernel takes no more: the set says when it does.
    pub is_full: bool,
    /// Whether the last flush left something to write.
    pub has_rest: bool,
    /// Whether writing has failed. Reading tells why.
    pub is_broken: bool,
    /// Whether the nic is to come by.
    pub is_dirty: bool,
    /// What came of it, for those who are to be told.
    pub notices: Notices,
}

/// A connection that this side has left: its socket, and what is still to be written.
#[derive(Debug)]
pub(super) struct Leaving {
    pub stream: Stream,
    pub bytes: Vec<u8>,
}

/// What is left of a connection that has ended.
#[derive(Debug)]
pub(super) struct Left {
    pub leaving: Option<Leaving>,
    /// Eager messages that came before, to be drained.
    pub eager: Box<EagerIn>,
    /// How much of each lane the peer has drained.
    pub arrived: [Position; 2],
}

/// Bytes written at once, so that no connection starves the others: the chunks of one call.
const WRITE_MAX: usize = CHUNKS * CHUNK;
/// And read.
const READ_MAX: usize = 64 << 10;
/// What was posted is written when it is so much,
const QUEUED_BYTES: u64 = 64 << 10;
/// or so many.
const QUEUED_MAX: usize = 64;
/// A payload goes straight to its memory if so much of it is still to come.
const DIRECT_MIN: usize = 4 << 10;
/// What is read behind it: the head of the next frame, and nothing of its payload, so
/// that all of that goes straight to its memory.
const NEXT_HEAD: usize = HEAD;
/// The peer is told how far this side is after so many polls that found nothing,
const IDLE_MAX: u32 = 8;
/// or so many frames,
const TAKEN_MAX: u64 = 64;
/// or a message with so many bytes: its memory is soon used again, and still in a cache.
const UNTOLD_MAX: usize = 256 << 10;

/// Descriptors that an end that sleeps keeps memory for.
const KEEP: usize = 32;

const GONE: ViError = ViError::PeerDied { why: "its connection ended without a word" };
const SILENT: ViError = ViError::PeerDied { why: "it has not answered for too long" };
const LOST: ViError = ViError::PeerDied { why: "its connection broke" };
const CUT: ViError = ViError::PeerDied { why: "its connection ended within a sealed record" };
const WORN: ViError = ViError::Protocol(SealError::Worn.text());

impl Conn {
    /// `first` are bytes that are to be written before all others, and not sealed; what follows
    /// them is, if there are keys.
    pub(super) fn new(
        spec: ViSpec,
        stream: Stream,
        first: &[u8],
        keys: Option<seal::Keys>,
    ) -> Self {
        let mut sender = Sender::new(spec.reliability);
        let stream = match keys {
            Some(keys) => stream.sealed(keys, first),
            None => {
                sender.push_bytes(first);
                stream
            }
        };
        Self {
            depth: spec.depth,
            stream,
            sender,
            receiver: Receiver::new(spec.reliability, spec.vi, spec.drain),
            intake: Intake::default(),
            idle: 0,
            untold: 0,
            queued: (0, 0),
            is_full: false,
            has_rest: false,
            is_broken: false,
            is_dirty: false,
            notices: Notices::default(),
        }
    }

    /// Takes a descriptor. Whether the nic has something to do.
    #[inline]
    pub(super) fn post(&mut self, posted: Posted, keys: &Keys) -> Result<bool, Unposted> {
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
            self.receiver.incoming.receives.push(posted);
            return Ok(self.is_starving() || self.intake.is_held_up());
        }
        let is_alone = self.sender.is_idle();
        let bytes = posted.descriptor().len();
        self.sender.outbox.push(posted);
        Ok(self.queue(bytes, is_alone, keys))
    }

    /// So many bytes more are to be written: at once if they are alone or with many others. Whether
    /// the nic has something to do.
    #[inline]
    pub(super) fn queue(&mut self, bytes: u64, is_alone: bool, keys: &Keys) -> bool {
        self.queued.0 += 1;
        self.queued.1 += bytes;
        let is_much = self.queued.0 >= QUEUED_MAX || self.queued.1 >= QUEUED_BYTES;
        if self.is_full {
            // The set says when there is room.
            return false;
        }
        if self.is_broken || !(is_alone || is_much) {
            return true;
        }
        self.flush_at_most(WRITE_MAX, keys) != Flushed::All
    }

    /// Whether the peer has no receive to count on and might have.
    fn is_starving(&self) -> bool {
        self.owes_counts() && self.sender.told.receives <= self.receiver.begun
    }

    /// Whether the peer does not know how far this side is, and might want to: what it
    /// sent was taken, or it has fewer receives to count on than it does not know of.
    #[inline]
    fn owes(&self) -> bool {
        self.owes_drained() || self.owes_counts()
    }

    /// The same of posted messages.
    #[inline]
    fn owes_counts(&self) -> bool {
        let (counts, told) = (self.counts(), self.sender.told);
        let left = told.receives.saturating_sub(self.receiver.begun);
        let is_short = counts.receives - told.receives > left;
        let has_taken = (counts.taken, counts.placed) != (told.taken, told.placed);
        self.sender.outbox.level().is_reliable() && (has_taken || is_short)
    }

    /// Whether the peer does not know what this side has drained.
    #[inline]
    pub(super) fn owes_drained(&self) -> bool {
        self.receiver.eager.owes(self.sender.told_drained)
    }

    /// Writes what may leave.
    pub(super) fn flush(&mut self, keys: &Keys) -> Flushed {
        self.flush_at_most(WRITE_MAX, keys)
    }

    /// The same, of about so many bytes.
    fn flush_at_most(&mut self, most: usize, keys: &Keys) -> Flushed {
        let counts = self.counts();
        self.sender.drained = self.receiver.eager.drained();
        let Self { sender, notices, stream, .. } = self;
        let flushed = sender.flush(stream, counts, most, &mut Io { keys, notices });
        let Ok(flushed) = flushed else {
            (self.is_broken, self.has_rest) = (true, true);
            return Flushed::More;
        };
        self.is_full = flushed == Flushed::Full;
        self.has_rest = flushed != Flushed::All;
        self.queued = (0, 0);
        flushed
    }

    /// Writes what may leave, and tells the peer how far this side is. `true` if there
    /// is more.
    pub(super) fn push(&mut self, keys: &Keys, thorough: bool) -> Result<Flushed, Box<ViError>> {
        if self.is_broken {
            return Err(self.why_broken(keys));
        }
        if self.intake.is_held_up() {
            self.resume(keys)?;
        }
        if self.is_full {
            return Ok(Flushed::Full);
        }
        let has_more = self.sender.has_more() || self.stream.has_unsent();
        let flushed = if has_more { self.flush(keys) } else { Flushed::All };
        if flushed == Flushed::All && (self.is_starving() || thorough && self.owes()) {
            self.tell(keys);
        }
        if thorough && self.sender.is_idle() {
            self.sender.outbox.trim(KEEP);
            self.receiver.incoming.receives.trim(KEEP);
            self.stream.trim();
        }
        Ok(if self.is_full { Flushed::Full } else { flushed })
    }

    /// Whether the nic is to come by, and was not told so.
    #[inline]
    pub(super) const fn is_newly_dirty(&mut self) -> bool {
        self.has_rest && !std::mem::replace(&mut self.is_dirty, true)
    }

    /// Tells the peer how far this side is.
    pub(super) fn tell(&mut self, keys: &Keys) {
        (self.idle, self.untold) = (0, 0);
        self.sender.drained = self.receiver.eager.drained();
        self.sender.push_counts(self.counts());
        self.flush(keys);
    }

    fn resume(&mut self, keys: &Keys) -> Result<bool, Box<ViError>> {
        let Self { sender, receiver, intake, notices, .. } = self;
        intake.resume(sender, receiver, &mut Io { keys, notices })
    }

    /// What a set is to say about its socket.
    pub(super) fn flags(&self) -> EventFlags {
        if self.is_full { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
    }

    /// Takes what came and sends what can go. Whether something came.
    #[inline]
    pub(super) fn poll(&mut self, keys: &Keys, staging: &mut [u8]) -> Result<bool, Box<ViError>> {
        let came = self.read(keys, staging)?;
        if came {
            self.idle = 0;
            if self.sender.has_more() && !self.is_full {
                self.flush(keys);
            }
            if !self.is_full && self.is_due() {
                self.tell(keys);
            }
        } else if self.owes() && !self.is_full {
            self.idle += 1;
            if self.idle >= IDLE_MAX {
                self.tell(keys);
            }
        }
        Ok(came)
    }

    /// Whether the peer should know by now how far this side is.
    fn is_due(&mut self) -> bool {
        if self.receiver.eager.is_due(self.sender.told_drained) {
            return true;
        }
        let (counts, told) = (self.counts(), self.sender.told);
        // One alone may be answered, which tells it.
        let half = ((told.receives - told.placed) / 2).max(2);
        let is_reliable = self.sender.outbox.level().is_reliable();
        is_reliable
            && (counts.placed - told.placed >= half
                || counts.placed > told.placed && self.untold >= UNTOLD_MAX
                || counts.taken - told.taken >= TAKEN_MAX)
    }

    /// Bytes that came already, behind the greeting.
    pub(super) fn take_first(
        &mut self,
        bytes: &[u8],
        keys: &Keys,
        staging: &mut [u8],
    ) -> Result<(), Box<ViError>> {
        let bytes = self.stream.hold(bytes);
        self.take(bytes, keys)?;
        while self.stream.is_ready() {
            self.read_once(keys, staging)?;
        }
        Ok(())
    }

    /// Bytes of the peer, in order.
    fn take(&mut self, bytes: &[u8], keys: &Keys) -> Result<(), Box<ViError>> {
        let Self { sender, receiver, intake, notices, .. } = self;
        intake.take(bytes, sender, receiver, &mut Io { keys, notices })?;
        if intake.is_held_up() {
            self.resume(keys)?;
        }
        Ok(())
    }

    /// Reads what came, at most about [`READ_MAX`], and then what is ready in this process: nobody
    /// tells of that. Whether there was anything.
    #[inline]
    fn read(&mut self, keys: &Keys, staging: &mut [u8]) -> Result<bool, Box<ViError>> {
        let mut got = 0;
        while got < READ_MAX || self.stream.is_ready() && !planted(Fault::ReadyForgotten) {
            let Some((asked, n)) = self.read_once(keys, staging)? else { break };
            got += n;
            self.untold += n;
            // Less than there was room for is all there was.
            if self.stream.is_drained(n < asked) {
                break;
            }
        }
        Ok(got > 0)
    }

    /// One call. How much was asked for, and how much came; `None` if nothing is there.
    #[inline]
    fn read_once(
        &mut self,
        keys: &Keys,
        staging: &mut [u8],
    ) -> Result<Option<(usize, usize)>, Box<ViError>> {
        let Self { sender, receiver, intake, stream, .. } = self;
        let direct = intake.memory(DIRECT_MIN, sender, receiver).map(|(to, offset, left)| {
            let (tail, mut read) = (&mut staging[..NEXT_HEAD], None);
            to.fill(offset, left, |piece| {
                if read.is_none() {
                    read = Some((piece.len(), stream.read_both(piece, tail)));
                }
            });
            read.expect("there is room for what is left")
        });
        let (room, read) = match direct {
            None => (0, self.stream.read(staging)),
            Some(direct) => direct,
        };
        let asked = room + if room > 0 { NEXT_HEAD } else { staging.len() };
        let n = match read {
            Ok(0) if planted(Fault::EndBelieved) => return Err(ViError::ClosedByPeer.into()),
            Ok(0) => return Err(GONE.into()),
            Ok(n) => n,
            Err(Unread::Kernel(why)) if is_later(why) => return Ok(None),
            Err(Unread::Kernel(Errno::TIMEDOUT)) => return Err(SILENT.into()),
            Err(Unread::Kernel(_)) => return Err(LOST.into()),
            Err(Unread::Wrong(why)) => return Err(ViError::Protocol(why).into()),
            Err(Unread::Cut) => return Err(CUT.into()),
        };
        if room > 0 {
            let Self { sender, receiver, intake, notices, .. } = self;
            intake.filled(n.min(room), sender, receiver, &mut Io { keys, notices })?;
        }
        let behind = if room > 0 { n.saturating_sub(room) } else { n };
        self.take(&staging[..behind], keys)?;
        Ok(Some((asked, n)))
    }

    /// Why nothing can be written any more: the peer may have said it.
    fn why_broken(&mut self, keys: &Keys) -> Box<ViError> {
        if self.stream.is_worn() {
            return WORN.into();
        }
        let mut staging = [0; 4096];
        // As much as a peer may have said before it left.
        for _ in 0..LAST_READS {
            match self.read_once(keys, &mut staging) {
                Err(why) => return why,
                Ok(None) => break,
                Ok(Some(_)) => {}
            }
        }
        LOST.into()
    }

    pub(super) fn cancel(&mut self, ticket: Ticket) -> bool {
        let taken =
            self.receiver.incoming.cancel(ticket).or_else(|| self.sender.outbox.cancel(ticket));
        let Some(posted) = taken else { return false };
        posted.fail(ViError::Cancelled, &mut self.notices);
        true
    }

    /// How far this side is.
    #[inline]
    pub(super) const fn counts(&self) -> Counts {
        let Receives { promised: receives, placed, .. } = self.receiver.incoming.receives;
        Counts { taken: self.intake.taken, receives, placed }
    }
}

impl Open for Conn {
    type Left = Left;

    fn counters(&self) -> Counters {
        Counters {
            sent: self.sender.outbox.completed,
            received: self.receiver.incoming.receives.received,
            dropped: self.receiver.incoming.receives.dropped + self.sender.eager.dropped,
        }
    }

    /// Gives back what is still to be told to the peer, if it listens.
    fn fail(mut self, why: &ViError, notices: &mut Notices) -> Left {
        self.notices.move_to(notices);
        let is_dead = matches!(why, ViError::PeerDied { .. }) || self.is_broken;
        let leaving = if is_dead || self.receiver.is_over {
            None
        } else {
            let mut last = Vec::new();
            Farewell::of(why.clone()).push(&mut last);
            let bytes = self.sender.last_words(&last, self.counts());
            Some(bytes)
        };
        for posted in self.sender.outbox.drain().into_iter().chain(self.receiver.incoming.drain()) {
            posted.fail(why.clone(), notices);
        }
        let arrived = Lane::ALL.map(|lane| self.sender.eager.arrived(lane));
        let mut eager = Box::new(self.receiver.eager);
        if *why == ViError::Closed {
            eager.clear();
        }
        let leaving = leaving.map(|bytes| Leaving { stream: self.stream, bytes });
        Left { leaving, eager, arrived }
    }
}

/// More than a socket's buffer holds in pieces of a page.
const LAST_READS: usize = 4096;
