//! One end of a connection: post and poll.
//!
//! A post writes at once if nothing of this end is under way; otherwise it waits for a batch, until the nic
//! is driven or the batch is large. So a lone message is fast, and many share a system call.
//!
//! Every frame carries the counts of its sender. A frame of counts alone is sent only when the peer might
//! stall without it: it has used up half of its receives, much has arrived, or nothing for a while.
//!
//! Repeated names: `DataPath`, one in each fabric.

use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::batch::CHUNKS;
use super::fault::{self, Fault, planted};
use super::frame_reader::FrameReader;
use super::recv::Receiver;
use super::send::{Flushed, Sender};
use super::socket::is_later;
use super::stream::{ByteStream, StreamReadError};
use super::wire::{CHUNK, HEAD};
use crate::fabric::common::close_reason::CloseReason;
use crate::fabric::common::connection_end::OpenEnd;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::EagerIn;
use crate::fabric::receives::Receives;
use crate::fabric::seal::{self, SealError};
use crate::fabric::{Unposted, ViSpec};
use crate::vi::{Counters, Keys, Lane, Notices, Op, Position, PostError, Posted, Ticket, ViError};

#[derive(Debug)]
pub(super) struct DataPath {
    depth: u32,
    pub stream: ByteStream,
    pub sender: Sender,
    pub receiver: Receiver,
    frame_reader: FrameReader,
    /// Polls that found nothing, and bytes that arrived, since the counts were sent last.
    idle: u32,
    untold: usize,
    /// Descriptors and bytes that were posted and not written.
    queued: (usize, u64),
    /// Whether the kernel takes no more; epoll reports when it does.
    pub is_full: bool,
    /// Whether the last flush left something to write.
    pub has_rest: bool,
    /// Whether writing has failed. Reading tells why.
    pub is_broken: bool,
    /// Whether the connection is in the nic's list of those with something to write.
    pub is_dirty: bool,
    /// Completions that are to be delivered.
    pub notices: Notices,
}

/// What one call on an end uses of the nic.
pub(super) struct CallContext<'a> {
    pub keys: &'a Keys,
    pub notices: &'a mut Notices,
}

/// A connection that this side has closed: its socket, and what is still to be written.
#[derive(Debug)]
pub(super) struct TcpClosing {
    pub stream: ByteStream,
    pub bytes: Vec<u8>,
}

/// What remains of a connection that is closed.
#[derive(Debug)]
pub(super) struct EndedConnection {
    pub closing: Option<TcpClosing>,
    /// Eager messages that arrived before, to be drained.
    pub eager: Box<EagerIn>,
    /// How much of each lane the peer has drained.
    pub arrived: [Position; 2],
}

/// Bytes that one connection writes in one turn, so that it does not starve the others: the chunks of one call.
const WRITE_MAX: usize = CHUNKS * CHUNK;
/// Bytes that one connection reads in one turn.
const READ_MAX: usize = 64 << 10;
/// A batch is written when it has so many bytes,
const QUEUED_BYTES: u64 = 64 << 10;
/// or so many descriptors.
const QUEUED_MAX: usize = 64;
/// A payload is read straight into its memory if so much of it is still to come.
const DIRECT_MIN: usize = 4 << 10;
/// Bytes that are read behind it: the head of the next frame, and nothing of its payload, so that all of the
/// payload is read straight into its memory.
const NEXT_HEAD: usize = HEAD;
/// The counts are sent after so many polls that found nothing,
const IDLE_MAX: u32 = 8;
/// or so many frames,
const TAKEN_MAX: u64 = 64;
/// or a message with so many bytes: its memory is soon used again, and still in a cache.
const UNTOLD_MAX: usize = 256 << 10;

/// Descriptors for which an idle end keeps memory.
const KEEP: usize = 32;

const GONE: ViError = ViError::PeerDied { why: "its connection ended without a goodbye" };
const SILENT: ViError = ViError::PeerDied {
    why: "the peer has not answered for 8 s, or has not acknowledged bytes for 20 s",
};
const LOST: ViError = ViError::PeerDied { why: "its connection broke" };
const CUT: ViError = ViError::PeerDied { why: "its connection ended within a sealed record" };
const WORN: ViError = ViError::Protocol(SealError::Worn.text());

impl DataPath {
    /// `first` are bytes that are to be written before all others, and not sealed; what follows
    /// them is, if there are keys.
    pub(super) fn new(
        spec: ViSpec,
        stream: ByteStream,
        first: &[u8],
        keys: Option<seal::SealKeys>,
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
            frame_reader: FrameReader::default(),
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
            return Err(Unposted::new(PostError::Full { depth: self.depth }, posted));
        }
        if receiving {
            self.receiver.incoming.receives.push(posted);
            return Ok(self.is_starving() || self.frame_reader.is_held_up());
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
            // Epoll reports when there is room.
            return false;
        }
        if self.is_broken || !(is_alone || is_much) {
            return true;
        }
        self.flush_at_most(WRITE_MAX, keys) != Flushed::All
    }

    /// Whether the peer has no receives left, and does not know of new ones.
    fn is_starving(&self) -> bool {
        self.owes_counts() && self.sender.counts_sent.receives <= self.receiver.begun
    }

    /// Whether the peer waits for counts that it does not know: what it sent was taken, or it has fewer
    /// receives left than were posted since.
    #[inline]
    fn owes(&self) -> bool {
        self.owes_drained() || self.owes_counts()
    }

    /// Whether counts of posted messages are owed.
    #[inline]
    fn owes_counts(&self) -> bool {
        let (counts, counts_sent) = (self.counts(), self.sender.counts_sent);
        let left = counts_sent.receives.saturating_sub(self.receiver.begun);
        let is_short = counts.receives - counts_sent.receives > left;
        let has_taken = (counts.taken, counts.placed) != (counts_sent.taken, counts_sent.placed);
        self.sender.outbox.level().is_reliable() && (has_taken || is_short)
    }

    /// Whether an acknowledgement of drained messages is owed.
    #[inline]
    pub(super) fn owes_drained(&self) -> bool {
        self.receiver.eager.owes(self.sender.drained_sent)
    }

    /// Writes what may leave.
    pub(super) fn flush(&mut self, keys: &Keys) -> Flushed {
        self.flush_at_most(WRITE_MAX, keys)
    }

    /// Writes what may leave, about so many bytes of it.
    fn flush_at_most(&mut self, most: usize, keys: &Keys) -> Flushed {
        let counts = self.counts();
        self.sender.drained = self.receiver.eager.drained();
        let Self { sender, notices, stream, .. } = self;
        let flushed = sender.flush(stream, counts, most, &mut CallContext { keys, notices });
        let Ok(flushed) = flushed else {
            (self.is_broken, self.has_rest) = (true, true);
            return Flushed::More;
        };
        self.is_full = flushed == Flushed::Full;
        self.has_rest = flushed != Flushed::All;
        self.queued = (0, 0);
        flushed
    }

    /// Writes what may leave, and sends the counts if they are owed; before a sleep (`thorough`) also those
    /// that could wait.
    pub(super) fn push(&mut self, keys: &Keys, thorough: bool) -> Result<Flushed, Box<ViError>> {
        if self.is_broken {
            return Err(self.why_broken(keys));
        }
        if self.frame_reader.is_held_up() {
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

    /// Whether there is something to write, and the nic was not told so before.
    #[inline]
    pub(super) const fn is_newly_dirty(&mut self) -> bool {
        self.has_rest && !std::mem::replace(&mut self.is_dirty, true)
    }

    /// Sends the counts of this side.
    pub(super) fn tell(&mut self, keys: &Keys) {
        (self.idle, self.untold) = (0, 0);
        self.sender.drained = self.receiver.eager.drained();
        self.sender.push_counts(self.counts());
        self.flush(keys);
    }

    fn resume(&mut self, keys: &Keys) -> Result<bool, Box<ViError>> {
        let Self { sender, receiver, frame_reader, notices, .. } = self;
        frame_reader.resume(sender, receiver, &mut CallContext { keys, notices })
    }

    /// What epoll is to watch the socket for.
    pub(super) fn flags(&self) -> EventFlags {
        if self.is_full { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN }
    }

    /// Reads what has arrived and writes what may leave. Whether something has arrived.
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

    /// Whether the counts are due.
    fn is_due(&mut self) -> bool {
        if self.receiver.eager.is_due(self.sender.drained_sent) {
            return true;
        }
        let (counts, counts_sent) = (self.counts(), self.sender.counts_sent);
        // A lone message may be answered, and the answer carries the counts.
        let half = ((counts_sent.receives - counts_sent.placed) / 2).max(2);
        let is_reliable = self.sender.outbox.level().is_reliable();
        is_reliable
            && (counts.placed - counts_sent.placed >= half
                || counts.placed > counts_sent.placed && self.untold >= UNTOLD_MAX
                || counts.taken - counts_sent.taken >= TAKEN_MAX)
    }

    /// Takes bytes that arrived with the handshake, behind it.
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

    /// Takes bytes of the peer, in order.
    fn take(&mut self, bytes: &[u8], keys: &Keys) -> Result<(), Box<ViError>> {
        let Self { sender, receiver, frame_reader, notices, .. } = self;
        frame_reader.take(bytes, sender, receiver, &mut CallContext { keys, notices })?;
        if frame_reader.is_held_up() {
            self.resume(keys)?;
        }
        Ok(())
    }

    /// Reads what has arrived, about [`READ_MAX`] at most, and then all that lies in this process already,
    /// which epoll does not report. Whether there was anything.
    #[inline]
    fn read(&mut self, keys: &Keys, staging: &mut [u8]) -> Result<bool, Box<ViError>> {
        let mut got = 0;
        while got < READ_MAX || self.has_ready() {
            let Some((asked, n)) = self.read_once(keys, staging)? else { break };
            got += n;
            self.untold += n;
            // The kernel had less than there was room for: nothing is left.
            if self.stream.is_drained(n < asked) {
                break;
            }
        }
        Ok(got > 0)
    }

    /// Whether bytes lie in this process that epoll does not report.
    #[inline]
    fn has_ready(&self) -> bool {
        self.stream.is_ready() && !planted(Fault::ReadyForgotten)
    }

    /// Makes one read. How many bytes were asked for, and how many came; `None` if none are there.
    #[inline]
    fn read_once(
        &mut self,
        keys: &Keys,
        staging: &mut [u8],
    ) -> Result<Option<(usize, usize)>, Box<ViError>> {
        let Self { sender, receiver, frame_reader, stream, .. } = self;
        let direct = frame_reader.memory(DIRECT_MIN, sender, receiver).map(|(to, offset, left)| {
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
            Ok(0) => return Err(fault::end_of_stream(GONE).into()),
            Ok(n) => n,
            Err(StreamReadError::Kernel(why)) if is_later(why) => return Ok(None),
            Err(StreamReadError::Kernel(Errno::TIMEDOUT)) => return Err(SILENT.into()),
            Err(StreamReadError::Kernel(_)) => return Err(LOST.into()),
            Err(StreamReadError::Wrong(why)) => return Err(ViError::Protocol(why).into()),
            Err(StreamReadError::Cut) => return Err(CUT.into()),
        };
        if room > 0 {
            let Self { sender, receiver, frame_reader, notices, .. } = self;
            frame_reader.filled(
                n.min(room),
                sender,
                receiver,
                &mut CallContext { keys, notices },
            )?;
        }
        let behind = if room > 0 { n.saturating_sub(room) } else { n };
        self.take(&staging[..behind], keys)?;
        Ok(Some((asked, n)))
    }

    /// Why nothing can be written any more: the goodbye of the peer may say it.
    fn why_broken(&mut self, keys: &Keys) -> Box<ViError> {
        if self.stream.is_worn() {
            return WORN.into();
        }
        let mut staging = [0; 4096];
        // As much as a peer may have sent before it closed.
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

    /// The counts of this side.
    #[inline]
    pub(super) const fn counts(&self) -> ReceiveCounts {
        let Receives { promised: receives, placed, .. } = self.receiver.incoming.receives;
        ReceiveCounts { taken: self.frame_reader.taken, receives, placed }
    }
}

impl OpenEnd for DataPath {
    type Remainder = EndedConnection;

    fn counters(&self) -> Counters {
        Counters {
            sent: self.sender.outbox.completed,
            received: self.receiver.incoming.receives.received,
            dropped: self.receiver.incoming.receives.dropped + self.sender.eager.dropped,
        }
    }

    /// Fails what is posted. Returns the goodbye that is still to be sent, and what can still be drained.
    fn fail(mut self, why: &ViError, notices: &mut Notices) -> EndedConnection {
        self.notices.move_to(notices);
        let is_dead = matches!(why, ViError::PeerDied { .. }) || self.is_broken;
        let closing = if is_dead || self.receiver.is_over {
            None
        } else {
            let mut last = Vec::new();
            CloseReason::of(why.clone()).push(&mut last);
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
        let closing = closing.map(|bytes| TcpClosing { stream: self.stream, bytes });
        EndedConnection { closing, eager, arrived }
    }
}

/// More than a socket's buffer holds in pieces of a page.
const LAST_READS: usize = 4096;
