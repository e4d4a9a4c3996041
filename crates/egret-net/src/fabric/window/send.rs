//! The sending half of one end: descriptors in, messages of the window out.
//!
//! Repeated names: `Sender`, one in each fabric.

use super::fault::{self, Fault, planted};
use super::lanes::{MessageSource, Window, WindowLane};
use super::wire::{NamedKind, WindowFrame};
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::{DrainedUnits, EagerOut};
use crate::fabric::outbox::{Outbox, OwedAnswer};
use crate::vi::{
    self, Descriptor, Keys, Notices, Op, Position, PostError, Posted, Reliability, ViError,
};

/// A message of a window: a head, and behind it the memory that was posted, if any.
#[derive(Debug)]
pub(super) struct Parcel {
    tag: u64,
    head: Vec<u8>,
    body: Option<ParcelBody>,
}

/// Memory that is needed until the peer has it.
#[derive(Debug)]
struct ParcelBody {
    posted: Posted,
    /// Of a send its number among the messages of its lane; of a write that of its request.
    number: u64,
}

#[derive(Debug)]
pub(super) struct Sender {
    pub outbox: Outbox,
    /// Messages and writes that have begun, ever.
    begun: u64,
    /// How far the peer is.
    pub peer: ReceiveCounts,
    /// What the peer will have heard of this side.
    pub told: ReceiveCounts,
    pub told_drained: DrainedUnits,
    pub eager: EagerOut,
    /// Memory of messages that were acknowledged, to be used again.
    spare: Vec<Vec<u8>>,
}

/// Messages of a lane that are with the window before they are under way: as many as it takes for
/// short ones to share a datagram.
const FEW: usize = 16;
/// Memory of messages that is kept, and how much of it.
const SPARE_MAX: usize = 16;
const SPARE_BYTES: usize = 256;
/// Bytes of an answer to a read that are copied at once.
const CHUNK: usize = 64 << 10;
/// Such pieces of answers that are with the window.
const CHUNKS: usize = 2;

impl Parcel {
    pub(super) fn new(tag: u64, frame: &WindowFrame<'_>) -> Self {
        let mut head = Vec::with_capacity(32);
        frame.push(&mut head);
        Self { tag, head, body: None }
    }

    /// Takes the memory out, when the peer has it or never will.
    pub(super) fn into_posted(self) -> Option<Posted> {
        self.body.map(|body| body.posted)
    }
}

impl MessageSource for Parcel {
    fn len(&self) -> u64 {
        let body = self.body.as_ref().map_or(0, |body| body.posted.descriptor().len());
        self.head.len() as u64 + body
    }

    fn tag(&self) -> u64 {
        self.tag
    }

    fn append(&self, offset: u64, len: usize, out: &mut Vec<u8>) {
        let (mut at, mut left) = (offset, len);
        let from = usize::try_from(at).map_or(self.head.len(), |at| at.min(self.head.len()));
        let head = &self.head[from..self.head.len().min(from.saturating_add(left))];
        out.extend_from_slice(head);
        (at, left) = (at + head.len() as u64, left - head.len());
        if let Some(body) = self.body.as_ref().filter(|_| left > 0) {
            append(body.posted.descriptor(), at - self.head.len() as u64, left, out);
        }
    }
}

/// Copies bytes of a descriptor to the end of `out`.
fn append(descriptor: &Descriptor, offset: u64, len: usize, out: &mut Vec<u8>) {
    let (mut skip, mut left) = (offset, len);
    for segment in descriptor.segments() {
        let bytes = segment.bytes();
        let Some(start) = usize::try_from(skip).ok().filter(|start| *start < bytes.len()) else {
            skip -= bytes.len() as u64;
            continue;
        };
        let end = bytes.len().min(start + left);
        out.extend_from_slice(&bytes[start..end]);
        (skip, left) = (0, left - (end - start));
        if left == 0 {
            return;
        }
    }
}

impl Sender {
    pub(super) fn new() -> Self {
        let (peer, told) = (ReceiveCounts::default(), ReceiveCounts::default());
        Self {
            outbox: Outbox::new(Reliability::Delivery),
            begun: 0,
            peer,
            told,
            told_drained: DrainedUnits::default(),
            eager: EagerOut::default(),
            spare: Vec::new(),
        }
    }

    /// Sends an eager message, which is copied, and tells with it what this side has drained.
    pub(super) fn send_eager(
        &mut self,
        (lane, tag): (vi::Lane, u64),
        parts: &[&[u8]],
        drained: DrainedUnits,
        window: &mut Window<Parcel>,
    ) -> Result<Position, PostError> {
        let len = PostError::check_eager(parts)?;
        let Some(position) = self.eager.admit(lane, len, true)? else {
            return Err(PostError::LaneFull);
        };
        self.told_drained = drained;
        let mut head = self.spare.pop().unwrap_or_default();
        WindowFrame::Eager(lane, drained).push(&mut head);
        parts.iter().for_each(|part| head.extend_from_slice(part));
        let on = fault::lane_of_eager(WindowLane::Eager);
        window.send(on, Parcel { tag, head, body: None });
        Ok(position)
    }

    /// Says how far this side is, and what it has drained.
    pub(super) fn tell(
        &mut self,
        counts: ReceiveCounts,
        drained: DrainedUnits,
        window: &mut Window<Parcel>,
    ) {
        (self.told, self.told_drained) = (counts, drained);
        if planted(Fault::CountsUntold) {
            return;
        }
        let mut head = self.spare.pop().unwrap_or_default();
        WindowFrame::Counts(counts.pack(), drained).push(&mut head);
        window.send(WindowLane::Control, Parcel { tag: 0, head, body: None });
    }

    /// Asks the peer what it has drained.
    pub(super) fn ask(window: &mut Window<Parcel>) {
        window.send(WindowLane::Control, Parcel::new(0, &WindowFrame::Ask));
    }

    /// Says how far this side is and why it leaves, behind its eager messages; and how the writes
    /// went that it has taken.
    pub(super) fn leave(&mut self, why: &[u8], counts: ReceiveCounts, window: &mut Window<Parcel>) {
        self.answer_writes(window);
        let counts = fault::counts_of_goodbye(counts, self.told);
        let mut parcel = Parcel::new(0, &WindowFrame::Goodbye(counts.pack()));
        parcel.head.extend_from_slice(why);
        window.send(WindowLane::Eager, parcel);
    }

    fn answer_writes(&mut self, window: &mut Window<Parcel>) {
        let answers = self.outbox.answers.drain(..);
        if planted(Fault::AnswersDropped) {
            return drop(window.end(WindowLane::Control));
        }
        for answer in answers {
            if let OwedAnswer::Written { id, result } = answer {
                window.send(WindowLane::Control, Parcel::new(id, &WindowFrame::Written(result)));
            }
        }
    }

    /// Gives the window what may go. How far this side is goes with a message, if it is the only one
    /// of its lane, and so not held up by another.
    pub(super) fn feed(
        &mut self,
        window: &mut Window<Parcel>,
        keys: &Keys,
        mut counts: Option<ReceiveCounts>,
    ) {
        while let Some((id, from, len)) = self.outbox.next_read() {
            let (secret, offset) = (from.key.secret(), from.offset);
            window.send(
                WindowLane::Control,
                Parcel::new(id, &WindowFrame::Read { secret, offset, len }),
            );
        }
        if !self.outbox.answers.is_empty() {
            self.answer(window, keys);
        }
        while window.waiting(WindowLane::Posted) < FEW {
            let receives = fault::receives(self.peer.receives);
            let next = self.outbox.next_waiting(|outbox, next| outbox.may_begin(next, receives));
            let Some(posted) = next else { return };
            if window.kept(WindowLane::Posted) > 0 {
                counts = None;
            }
            let parcel = self.begin(posted, counts.take());
            window.send(WindowLane::Posted, parcel);
        }
    }

    fn begin(&mut self, posted: Posted, counts: Option<ReceiveCounts>) -> Parcel {
        let descriptor = posted.descriptor();
        let named = |kind: &crate::buf::Kind| (kind.fingerprint, kind.name.clone());
        let kind = descriptor.kind().map(named);
        let (tag, frame, number) = match *posted.op() {
            Op::Write { to, notify } => {
                self.outbox.messages += u64::from(notify);
                let notify = notify.then(|| descriptor.tag());
                let (secret, offset) = (to.key.secret(), to.offset);
                let id = self.outbox.number();
                (id, WindowFrame::Write { secret, offset, notify }, id)
            }
            _ => {
                self.outbox.messages += 1;
                let kind = kind.as_ref();
                let kind =
                    kind.map(|(fingerprint, name)| NamedKind { fingerprint: *fingerprint, name });
                self.told = counts.unwrap_or(self.told);
                (descriptor.tag(), WindowFrame::Message(kind, counts), self.begun)
            }
        };
        self.begun += 1;
        let mut head = self.spare.pop().unwrap_or_default();
        frame.push(&mut head);
        Parcel { tag, head, body: Some(ParcelBody { posted, number }) }
    }

    /// Answers what the peer has asked for. Answers of a few bytes do not wait for longer ones.
    fn answer(&mut self, window: &mut Window<Parcel>, keys: &Keys) {
        self.outbox.answers.retain(|answer| match *answer {
            OwedAnswer::Written { id, result }
                if fault::may_answer(window.waiting(WindowLane::Control) < FEW) =>
            {
                window.send(WindowLane::Control, Parcel::new(id, &WindowFrame::Written(result)));
                false
            }
            _ => true,
        });
        let is_read = |answer: &OwedAnswer| !matches!(answer, OwedAnswer::Written { .. });
        while window.waiting(WindowLane::Answers) < CHUNKS
            && let Some(oldest) = self.outbox.answers.iter().position(is_read)
            && let Some(answer) = self.outbox.answers.remove(oldest)
        {
            let (id, result) = match answer {
                OwedAnswer::Read { id, from, len, offset } if offset < len => {
                    let n = usize::try_from(len - offset).unwrap_or(CHUNK).min(CHUNK);
                    let mut parcel = Parcel::new(id, &WindowFrame::ReadPiece { offset });
                    let at = parcel.head.len();
                    parcel.head.resize(at + n, 0);
                    // The key may have been revoked since the read was admitted.
                    match keys.read(&from.key.at(from.offset + offset), &mut parcel.head[at..]) {
                        Ok(()) => {
                            let offset = offset + n as u64;
                            let rest = OwedAnswer::Read { id, from, len, offset };
                            self.outbox.answers.insert(oldest, rest);
                            window.send(WindowLane::Answers, parcel);
                            continue;
                        }
                        Err(why) => (id, Err(why)),
                    }
                }
                OwedAnswer::Read { id, .. } => (id, Ok(())),
                OwedAnswer::ReadEnd { id, result } | OwedAnswer::Written { id, result } => {
                    (id, result)
                }
            };
            window.send(WindowLane::Answers, Parcel::new(id, &WindowFrame::ReadEnd(result)));
        }
    }

    /// The peer has acknowledged some messages: writes wait for their answers, and sends for the
    /// peer to have taken them.
    pub(super) fn reap(&mut self, window: &mut Window<Parcel>, notices: &mut Notices) {
        while let Some(parcel) = window.poll_sent() {
            self.keep(parcel.head);
            let Some(ParcelBody { posted, number }) = parcel.body else { continue };
            let len = posted.descriptor().len();
            match posted.op() {
                Op::Write { .. } => self.outbox.asked(number, posted),
                _ => self.outbox.went(posted, len, number),
            }
        }
        self.complete(notices);
    }

    /// Keeps memory for messages to come.
    fn keep(&mut self, mut head: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && head.capacity() <= SPARE_BYTES {
            head.clear();
            self.spare.push(head);
        }
    }

    fn complete(&mut self, notices: &mut Notices) {
        self.outbox.heard(self.peer.taken, self.peer.placed, notices);
    }

    #[inline]
    fn is_impossible(&self, peer: ReceiveCounts) -> bool {
        let is_impossible = peer.taken > self.begun || peer.placed > self.outbox.messages;
        is_impossible && !planted(Fault::CountsBelieved)
    }

    /// The peer says how far it is. What it cannot be is a lie.
    #[inline]
    pub(super) fn hear(
        &mut self,
        peer: ReceiveCounts,
        notices: &mut Notices,
    ) -> Result<(), Box<ViError>> {
        if self.is_impossible(peer) {
            return Err(
                ViError::Protocol("an acknowledgement of frames that were never sent").into()
            );
        }
        self.peer = peer;
        self.complete(notices);
        Ok(())
    }
}
