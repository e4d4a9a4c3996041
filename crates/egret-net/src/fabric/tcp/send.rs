//! The sending half of one end: descriptors in, frames out.
//!
//! The order is the [outbox](crate::fabric::outbox)'s. Frames are made in batches
//! when there is a chance to write them: heads and small payloads in one piece of
//! memory, and behind them, straight from where it was posted, [several
//! chunks](super::batch) of one large payload. Of a batch that the kernel took in part
//! the frame that is half written is remembered.
//!
//! Repeated names: `Sender`, one in each fabric.

use std::collections::{BTreeSet, VecDeque};

use rustix::io::Errno;

use super::batch::{Batch, CHUNKS};
use super::datapath::CallContext;
use super::fault::{self, Fault, planted};
use super::socket::is_later;
use super::stream::ByteStream;
use super::wire::{CHUNK, TcpFrame};
use crate::fabric::common::bytes::push_text;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::{DrainedUnits, EagerOut};
use crate::fabric::outbox::{Outbox, OutgoingTransfer, OwedAnswer};
use crate::vi::{Lane, Notices, Op, Posted, Reliability, RemoteSlice, ViError};

#[derive(Debug)]
pub(super) struct Sender {
    pub outbox: Outbox,
    /// Counted frames begun, ever.
    frames: u64,
    /// The numbers of the large ones that the peer has not taken.
    large: VecDeque<u64>,
    kinds: BTreeSet<u64>,
    /// Whether messages go before the next piece of an answer.
    turn: bool,
    batch: Batch,
    pub eager: EagerOut,
    /// Whether the peer is to be asked how much it has drained.
    pub asks: bool,
    /// Units that this side has drained, and those of them that the peer knows of once all is written.
    pub drained: DrainedUnits,
    pub drained_sent: DrainedUnits,
    /// The counts of the peer.
    pub peer: ReceiveCounts,
    /// The counts of this side that the peer knows once all is written.
    pub counts_sent: ReceiveCounts,
    /// Bytes written, ever: for tests.
    pub written: u64,
}

/// How far a flush came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flushed {
    /// All that may leave is written.
    All,
    /// There is more, which the kernel might take.
    More,
    /// The kernel takes no more now.
    Full,
}

/// Payloads of up to so many bytes are copied into the batch: that is cheaper than a slice of their own.
const COPY_MAX: usize = 4 << 10;
/// A batch has not many more bytes of heads and small payloads.
const BATCH: usize = 64 << 10;
/// Large frames that may be under way: what the peer must keep if it has taken its
/// receives back.
pub(super) const LARGE_MAX: usize = 256;
/// Frames that the peer may not have counted: fewer than the counts on the wire tell
/// apart.
pub(super) const UNTAKEN_MAX: u64 = 1 << 19;
/// Requests that a peer may have outstanding.
pub(super) const ANSWERS_MAX: usize = super::DEPTH as usize;

impl Sender {
    pub(super) fn new(level: Reliability) -> Self {
        Self {
            outbox: Outbox::new(level),
            frames: 0,
            large: VecDeque::new(),
            kinds: BTreeSet::new(),
            turn: false,
            batch: Batch::default(),
            eager: EagerOut::default(),
            asks: false,
            drained: DrainedUnits::default(),
            drained_sent: DrainedUnits::default(),
            peer: ReceiveCounts::default(),
            counts_sent: ReceiveCounts::default(),
            written: 0,
        }
    }

    /// Adds bytes in front of all frames.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        self.batch.bytes.extend_from_slice(bytes);
    }

    /// Whether nothing is queued: what is posted now can leave at once.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.batch.is_empty() && self.outbox.outstanding() == 0 && self.outbox.answers.is_empty()
    }

    /// Whether a flush could write something.
    #[inline]
    pub(super) fn has_more(&self) -> bool {
        !self.batch.is_empty() || self.outbox.has_more() || self.asks || self.eager.has_waiting()
    }

    pub(super) fn answer(&mut self, answer: OwedAnswer) -> Result<(), Box<ViError>> {
        self.outbox.owe(answer, ANSWERS_MAX)
    }

    /// Writes what may leave and the kernel takes, about `most` bytes of it.
    pub(super) fn flush(
        &mut self,
        stream: &mut ByteStream,
        counts: ReceiveCounts,
        most: usize,
        io: &mut CallContext<'_>,
    ) -> Result<Flushed, Errno> {
        // What was sealed before goes first.
        if !stream.flush()? {
            return Ok(Flushed::Full);
        }
        let mut written = 0;
        loop {
            if self.batch.is_empty() && !self.fill(counts, io) {
                return Ok(Flushed::All);
            }
            let (n, is_all) = match self.batch.write(stream, &self.outbox) {
                Err(why) if is_later(why) => (0, false),
                taken => taken?,
            };
            written += n;
            self.written += n as u64;
            if !is_all {
                self.cut();
            }
            if self.batch.is_written() {
                self.wrote(io.notices);
            }
            // The kernel has no more room: another try would be a wasted call.
            if !is_all {
                return Ok(Flushed::Full);
            }
            if written >= most {
                return Ok(if self.has_more() { Flushed::More } else { Flushed::All });
            }
        }
    }

    /// Adds a frame with nothing but the counts.
    pub(super) fn push_counts(&mut self, counts: ReceiveCounts) {
        if self.batch.is_empty() {
            self.put_counts(counts);
        }
    }

    /// Takes frames of which nothing is written off the batch: something short may go before them.
    fn cut(&mut self) {
        let cut = fault::frames_cut(self.batch.cut());
        self.frames -= cut as u64;
        self.large.truncate(self.large.len().saturating_sub(cut));
    }

    /// Notes that the kernel has taken a batch.
    fn wrote(&mut self, notices: &mut Notices) {
        let tail = self.batch.tail;
        self.batch.clear();
        if tail > 0
            && let Some(OutgoingTransfer { posted, offset }) = self.outbox.current.take()
        {
            self.went_on(posted, offset + tail as u64);
        }
        if !self.outbox.level().is_reliable() {
            // The message has left, which completes it at this level.
            self.outbox.heard(self.frames, 0, notices);
        }
    }

    /// Notes that the bytes of a descriptor before `offset` are under way.
    fn went_on(&mut self, posted: Posted, offset: u64) {
        let len = posted.descriptor().len();
        if offset == len && matches!(posted.op(), Op::Send) {
            self.outbox.went(posted, len, self.frames - 1);
        } else {
            self.outbox.current = Some(OutgoingTransfer { posted, offset });
        }
    }

    /// Makes a batch. `false` if nothing may leave.
    fn fill(&mut self, counts: ReceiveCounts, io: &CallContext<'_>) -> bool {
        while self.batch.bytes.len() < BATCH && self.batch.tail == 0 && self.next(counts, io) {}
        self.add_chunks(counts);
        !self.batch.is_empty()
    }

    /// Adds more chunks of what is current behind its first, which costs no further call; not
    /// where answers take turns with them.
    fn add_chunks(&mut self, counts: ReceiveCounts) {
        if self.batch.tail == 0 || !self.outbox.answers.is_empty() {
            return;
        }
        let Some(OutgoingTransfer { posted, offset }) = &self.outbox.current else { return };
        let left = posted.descriptor().len() - offset;
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        while self.batch.chunks() < CHUNKS && self.batch.tail < left && self.may_add_large() {
            let n = (left - self.batch.tail).min(CHUNK);
            self.put_large(TcpFrame::Piece, n, counts);
        }
    }

    /// Adds the head of a large frame.
    fn put_large(&mut self, frame: TcpFrame, n: usize, counts: ReceiveCounts) {
        self.put(frame, n, counts);
        if self.outbox.level().is_reliable() {
            self.large.push_back(self.frames - 1);
        }
        self.batch.tail += n;
    }

    /// Whether one large frame more may be under way.
    fn may_add_large(&self) -> bool {
        self.large.len() < LARGE_MAX && !self.has_untaken_max()
    }

    /// Whether the peer has not counted as many frames as it may.
    fn has_untaken_max(&self) -> bool {
        self.outbox.level().is_reliable() && self.frames - self.peer.taken >= UNTAKEN_MAX
    }

    /// Adds the next frame. `false` if none may leave.
    fn next(&mut self, counts: ReceiveCounts, io: &CallContext<'_>) -> bool {
        if self.next_eager(counts) {
            return true;
        }
        if self.asks {
            self.put_counts(counts);
            return true;
        }
        let pieces = matches!(self.outbox.answers.front(), Some(OwedAnswer::Read { .. }));
        if !pieces || !std::mem::take(&mut self.turn) {
            if let Some(answer) = self.outbox.answers.pop_front() {
                self.turn = pieces;
                self.push_answer(answer, counts, io);
                return true;
            }
        } else if self.next_of_own(counts) {
            return true;
        } else {
            return self.next(counts, io);
        }
        self.next_of_own(counts)
    }

    /// Adds an eager message of `len` bytes, behind the batch that is being written.
    #[inline]
    pub(super) fn push_eager(
        &mut self,
        (lane, tag): (Lane, u64),
        len: usize,
        parts: &[&[u8]],
        counts: ReceiveCounts,
    ) {
        // Behind a large payload a message is for the next batch.
        if self.batch.tail > 0 || self.batch.bytes.len() >= BATCH || self.eager.has_waiting() {
            return self.eager.waiting[lane as usize].push(tag, len, parts);
        }
        self.put(TcpFrame::Eager { lane, tag, drained: self.drained }, len, counts);
        parts.iter().for_each(|part| self.batch.bytes.extend_from_slice(part));
    }

    /// Adds the next eager message that waits. `false` if none does.
    fn next_eager(&mut self, counts: ReceiveCounts) -> bool {
        for lane in Lane::ALL {
            let mut waiting = std::mem::take(&mut self.eager.waiting[lane as usize]);
            let next = waiting.pop();
            if let Some((tag, at)) = &next {
                let (tag, drained) = (*tag, self.drained);
                self.put(TcpFrame::Eager { lane, tag, drained }, at.len(), counts);
                self.batch.bytes.extend_from_slice(waiting.bytes(at.clone()));
            }
            self.eager.waiting[lane as usize] = waiting;
            if next.is_some() {
                return true;
            }
        }
        false
    }

    /// Adds a frame of counts, which asks if there is something to ask.
    fn put_counts(&mut self, counts: ReceiveCounts) {
        // Behind all that it asks about.
        let asks = self.asks && !self.eager.has_waiting();
        self.asks &= !asks;
        let drained = self.drained;
        self.put(TcpFrame::Counts { drained, asks }, 0, counts);
    }

    /// The next read to ask for, whatever is under way.
    fn next_read(&mut self) -> Option<(u64, RemoteSlice, u64)> {
        let is_in_a_row = planted(Fault::ChunksInARow) && self.outbox.current.is_some();
        if is_in_a_row { None } else { self.outbox.next_read() }
    }

    /// Adds the next frame that is not an answer.
    fn next_of_own(&mut self, counts: ReceiveCounts) -> bool {
        if self.has_untaken_max() {
            return false;
        }
        if let Some((id, from, len)) = self.next_read() {
            let (secret, offset) = (from.key.secret(), from.offset);
            self.put(TcpFrame::Read { id, secret, offset, len }, 0, counts);
            return true;
        }
        if self.large.len() >= LARGE_MAX {
            return false;
        }
        if let Some(current) = self.outbox.current.take() {
            self.go_on(current, counts);
            return true;
        }
        let receives = self.receives();
        let next = self.outbox.next_waiting(|outbox, next| outbox.may_begin(next, receives));
        let Some(posted) = next else { return false };
        self.begin(posted, counts);
        true
    }

    /// Receives to count on: at the unreliable level there is no waiting for one.
    fn receives(&self) -> u64 {
        if self.outbox.level().is_reliable() { self.peer.receives } else { u64::MAX }
    }

    fn begin(&mut self, posted: Posted, counts: ReceiveCounts) {
        let descriptor = posted.descriptor();
        let (len, tag) = (descriptor.len(), descriptor.tag());
        if let Op::Write { to, notify } = *posted.op() {
            self.outbox.messages += u64::from(notify);
            self.put(
                TcpFrame::Write { secret: to.key.secret(), offset: to.offset, len },
                0,
                counts,
            );
            self.outbox.current = Some(OutgoingTransfer { posted, offset: 0 });
            return;
        }
        self.outbox.messages += 1;
        let kind = descriptor.kind().map(|kind| kind.fingerprint);
        if let Some(kind) = descriptor.kind()
            && self.kinds.insert(kind.fingerprint)
        {
            let mut name = Vec::new();
            push_text(&mut name, &kind.name);
            self.put(TcpFrame::Kind { fingerprint: kind.fingerprint }, name.len(), counts);
            self.batch.bytes.extend_from_slice(&name);
        }
        let frame = if len > CHUNK as u64 {
            TcpFrame::Begin { tag, kind, len }
        } else {
            TcpFrame::Message { tag, kind }
        };
        self.piece(frame, OutgoingTransfer { posted, offset: 0 }, counts);
    }

    fn go_on(&mut self, current: OutgoingTransfer, counts: ReceiveCounts) {
        let OutgoingTransfer { posted, offset } = &current;
        if *offset < posted.descriptor().len() {
            return self.piece(TcpFrame::Piece, current, counts);
        }
        let Op::Write { notify, .. } = *posted.op() else { unreachable!("a send is gone by now") };
        let tag = posted.descriptor().tag();
        let id = self.outbox.ask(current.posted);
        self.put(TcpFrame::WriteEnd { id, notify: notify.then_some(tag) }, 0, counts);
    }

    /// Adds a frame with the next bytes of a descriptor.
    fn piece(
        &mut self,
        frame: TcpFrame,
        OutgoingTransfer { posted, offset }: OutgoingTransfer,
        counts: ReceiveCounts,
    ) {
        let left = posted.descriptor().len() - offset;
        let n = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
        if n <= COPY_MAX {
            self.put(frame, n, counts);
            let at = self.batch.bytes.len();
            self.batch.bytes.resize(at + n, 0);
            posted.descriptor().gather(offset, &mut self.batch.bytes[at..]);
            self.went_on(posted, offset + n as u64);
        } else {
            self.put_large(frame, n, counts);
            self.outbox.current = Some(OutgoingTransfer { posted, offset });
        }
    }

    fn put(&mut self, frame: TcpFrame, payload: usize, counts: ReceiveCounts) {
        self.frames += u64::from(frame.is_counted());
        self.counts_sent = counts;
        if matches!(frame, TcpFrame::Eager { .. } | TcpFrame::Counts { .. }) {
            self.drained_sent = self.drained;
        }
        frame.push(payload, counts, &mut self.batch.bytes);
    }

    /// Adds a frame of an answer; what is left of it is the next.
    fn push_answer(&mut self, answer: OwedAnswer, counts: ReceiveCounts, io: &CallContext<'_>) {
        match answer {
            OwedAnswer::Read { id, len, offset, .. } if offset == len => {
                self.put(TcpFrame::ReadEnd { id, result: Ok(()) }, 0, counts);
            }
            OwedAnswer::Read { id, from, len, offset } => {
                let n = usize::try_from(len - offset).unwrap_or(CHUNK).min(CHUNK);
                let start = self.batch.bytes.len();
                self.put(TcpFrame::ReadPiece { id }, n, counts);
                let at = self.batch.bytes.len();
                self.batch.bytes.resize(at + n, 0);
                let place = from.key.at(from.offset + offset);
                // The key may have been revoked since the read was admitted.
                if let Err(why) = io.keys.read(&place, &mut self.batch.bytes[at..]) {
                    self.batch.bytes.truncate(start);
                    self.frames -= 1;
                    self.put(TcpFrame::ReadEnd { id, result: Err(why) }, 0, counts);
                    return;
                }
                let left = OwedAnswer::Read { id, from, len, offset: offset + n as u64 };
                self.outbox.answers.push_front(left);
            }
            OwedAnswer::ReadEnd { id, result } => {
                self.put(TcpFrame::ReadEnd { id, result }, 0, counts);
            }
            OwedAnswer::Written { id, result } => {
                self.put(TcpFrame::Written { id, result }, 0, counts);
            }
        }
    }

    #[inline]
    fn is_impossible(&self, peer: ReceiveCounts) -> bool {
        let is_impossible = peer.taken > self.frames || peer.placed > self.outbox.messages;
        is_impossible && !planted(Fault::CountsBelieved)
    }

    /// Processes the counts of the peer, which may not exceed what was sent.
    #[inline]
    pub(super) fn hear(&mut self, counts: u64, notices: &mut Notices) -> Result<(), Box<ViError>> {
        let peer = self.peer.advanced(counts);
        if peer == self.peer {
            return Ok(());
        }
        if self.is_impossible(peer) {
            return Err(
                ViError::Protocol("an acknowledgement of frames that were never sent").into()
            );
        }
        self.peer = peer;
        while self.large.front().is_some_and(|frame| *frame < peer.taken) {
            self.large.pop_front();
        }
        if self.outbox.level().is_reliable() {
            self.outbox.heard(peer.taken, peer.placed, notices);
        }
        Ok(())
    }

    /// What must still be written for the peer to see a frame's beginning next: no
    /// descriptor is needed for it any more.
    fn rest(&mut self) -> Vec<u8> {
        self.cut();
        let batch = std::mem::take(&mut self.batch);
        if batch.written == 0 {
            // Nothing of it is said, so nothing has to be finished; but a handshake has.
            return if self.frames == 0 { batch.bytes } else { Vec::new() };
        }
        batch.gather(&self.outbox)
    }

    /// The last bytes of this end: the rest of what is half said, and why it leaves.
    pub(super) fn last_words(&mut self, why: &[u8], counts: ReceiveCounts) -> Vec<u8> {
        let mut bytes = self.rest();
        TcpFrame::Goodbye.push(why.len(), counts, &mut bytes);
        bytes.extend_from_slice(why);
        bytes
    }
}
