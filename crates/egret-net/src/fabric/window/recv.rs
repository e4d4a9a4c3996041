//! The receiving half of one end: messages of the window in, completions out.
//!
//! Every word is the peer's and may be a lie. Lengths are checked against what is posted or exposed
//! here before a byte is placed.
//!
//! Repeated names: `Receiver`, one in each fabric.

use std::borrow::Cow;

use super::lanes::{MessageSink, MessageStart, WindowLane};
use super::send::Sender;
use super::wire::{GOODBYE_MAX, NONSENSE, NamedKind, WindowFrame};
use crate::buf::Kind;
use crate::fabric::common::bytes::ByteReader;
use crate::fabric::common::close_reason::CloseReason;
use crate::fabric::common::counts::ReceiveCounts;
use crate::fabric::common::eager::EagerIn;
use crate::fabric::common::incoming::{CurrentTransfer, IncomingTransfers};
use crate::fabric::outbox::OwedAnswer;
use crate::fabric::receives::Receives;
use crate::vi::{
    self, AccessError, EAGER_MAX, Keys, Notices, Posted, Reliability, RemoteKey, Ticket, ViError,
};

#[derive(Debug)]
pub(super) struct Receiver {
    pub incoming: IncomingTransfers,
    pub eager: Box<EagerIn>,
    /// Memory of an eager message that arrives.
    spare: Vec<u8>,
    /// What arrives on each lane.
    open: [Option<ArrivingMessage>; 4],
    /// Messages and writes with a notice that have begun, ever.
    pub begun: u64,
    /// Messages and writes that are whole, ever.
    taken: u64,
    /// Whether the peer has said its last word.
    pub is_over: bool,
}

/// A message that arrives.
#[derive(Debug)]
struct ArrivingMessage {
    /// Bytes before those of the message.
    head: u64,
    what: ArrivingKind,
}

#[derive(Debug)]
enum ArrivingKind {
    Eager {
        lane: vi::Lane,
        tag: u64,
        bytes: Vec<u8>,
    },
    Goodbye {
        counts: u64,
        said: Vec<u8>,
    },
    Message,
    Write {
        id: u64,
        /// The receive that it consumes, and the tag for it.
        notify: Option<(u64, Posted)>,
    },
    ReadPiece {
        id: u64,
        offset: u64,
    },
    /// All was said by its head.
    Nothing,
}

/// Where the messages of a window go.
#[derive(Debug)]
pub(super) struct ArrivalTarget<'a> {
    pub receiver: &'a mut Receiver,
    pub sender: &'a mut Sender,
    pub keys: &'a Keys,
    pub notices: &'a mut Notices,
}

/// Memory of eager messages that is kept.
const SPARE_BYTES: usize = 512;
/// Requests that a peer may have outstanding.
const ANSWERS_MAX: usize = super::DEPTH as usize;

impl Receiver {
    pub(super) fn new(eager: EagerIn) -> Self {
        Self {
            incoming: IncomingTransfers::new(Reliability::Delivery),
            eager: Box::new(eager),
            spare: Vec::new(),
            open: [const { None }; 4],
            begun: 0,
            taken: 0,
            is_over: false,
        }
    }

    /// How far this side is.
    pub(super) const fn counts(&self) -> ReceiveCounts {
        let Receives { promised: receives, placed, .. } = self.incoming.receives;
        ReceiveCounts { taken: self.taken, receives, placed }
    }

    /// Takes back a receive.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        self.incoming.cancel(ticket)
    }

    /// Receives that are not back.
    pub(super) fn outstanding(&self) -> usize {
        let open = self.open[WindowLane::Posted as usize].as_ref();
        let is_taken =
            open.is_some_and(|it| matches!(it.what, ArrivingKind::Write { notify: Some(_), .. }));
        self.incoming.outstanding() + usize::from(is_taken)
    }

    /// Everything that is not back: what a message has begun to fill first.
    pub(super) fn drain(&mut self) -> Vec<Posted> {
        let mut all = Vec::new();
        for open in self.open.iter_mut().filter_map(Option::take) {
            if let ArrivingKind::Write { notify: Some((_, posted)), .. } = open.what {
                all.push(posted);
            }
        }
        all.extend(self.incoming.drain());
        all
    }

    /// Whether some of the peer's last word is here.
    pub(super) fn hears_last(&self) -> bool {
        let open = self.open[WindowLane::Eager as usize].as_ref();
        open.is_some_and(|open| matches!(open.what, ArrivingKind::Goodbye { .. }))
    }

    /// Whether what needs a receive has to wait for one. A peer that was not promised one lies.
    fn holds_up(&self) -> Result<bool, Box<ViError>> {
        if self.begun >= self.incoming.receives.promised {
            return Err(ViError::Protocol("a message that there is no receive for").into());
        }
        Ok(self.incoming.holds_up())
    }
}

impl ArrivalTarget<'_> {
    /// What a message is, if it need not wait, and has so many bytes.
    fn open(
        &mut self,
        frame: WindowFrame<'_>,
        len: u64,
        tag: u64,
    ) -> Result<Option<ArrivingKind>, Box<ViError>> {
        let receiver = &mut *self.receiver;
        Ok(Some(match frame {
            WindowFrame::Eager(lane, drained) => {
                self.sender.eager.hear(drained)?;
                let len = usize::try_from(len).ok().filter(|len| *len <= EAGER_MAX);
                let mut bytes = std::mem::take(&mut receiver.spare);
                bytes.resize(len.ok_or(NONSENSE)?, 0);
                ArrivingKind::Eager { lane, tag, bytes }
            }
            WindowFrame::Goodbye(counts) if len <= GOODBYE_MAX => {
                let said = vec![0; usize::try_from(len).map_err(|_| NONSENSE)?];
                ArrivingKind::Goodbye { counts, said }
            }
            WindowFrame::Goodbye(_) => return Err(NONSENSE.into()),
            WindowFrame::Message(kind, counts) => {
                // Before it may have to wait: the other end may wait for that.
                if let Some(counts) = counts {
                    self.sender.hear(self.sender.peer.latest(counts), self.notices)?;
                }
                if receiver.holds_up()? {
                    return Ok(None);
                }
                receiver.begun += 1;
                self.message(kind, len, tag)?;
                ArrivingKind::Message
            }
            WindowFrame::Write { secret, offset, notify } => {
                if notify.is_some() {
                    if receiver.holds_up()? {
                        return Ok(None);
                    }
                    receiver.begun += 1;
                }
                receiver.incoming.begin_write((secret, offset, len), self.keys)?;
                let receives = &mut receiver.incoming.receives;
                let notify = notify.and_then(|tag| receives.next().map(|posted| (tag, posted)));
                ArrivingKind::Write { id: tag, notify }
            }
            WindowFrame::ReadPiece { offset } => {
                let whole = self.sender.outbox.read_mut(tag)?.descriptor().len();
                if offset.checked_add(len).is_none_or(|end| end > whole) {
                    return Err(ViError::Protocol("more bytes than were asked for").into());
                }
                if offset != receiver.incoming.got_of(tag) {
                    return Err(NONSENSE.into());
                }
                ArrivingKind::ReadPiece { id: tag, offset }
            }
            said => {
                self.said(said, tag)?;
                ArrivingKind::Nothing
            }
        }))
    }

    /// A message begins in the oldest receive.
    fn message(
        &mut self,
        kind: Option<NamedKind<'_>>,
        len: u64,
        tag: u64,
    ) -> Result<(), Box<ViError>> {
        let incoming = &mut self.receiver.incoming;
        if let Some(NamedKind { fingerprint, name }) = kind {
            incoming.learn(Kind { fingerprint, name: Cow::Owned(name.to_owned()) });
        }
        let fingerprint = kind.map(|kind| kind.fingerprint);
        let admit = |posted: &mut Posted, kind: Option<&Kind>| posted.begin(len, tag, kind);
        incoming.begin((len, tag, fingerprint), self.notices, admit)?;
        Ok(())
    }

    /// What is a head alone.
    fn said(&mut self, frame: WindowFrame<'_>, id: u64) -> Result<(), Box<ViError>> {
        let Sender { outbox, .. } = &mut *self.sender;
        match frame {
            WindowFrame::Counts(counts, drained) => {
                self.sender.eager.hear(drained)?;
                self.sender.hear(self.sender.peer.advanced(counts), self.notices)
            }
            WindowFrame::Ask => {
                self.receiver.eager.is_asked = true;
                Ok(())
            }
            WindowFrame::Read { secret, offset, len } => {
                let from = RemoteKey::of(secret).at(offset);
                let answer = match self.keys.check(&from, len, false) {
                    Ok(()) => OwedAnswer::Read { id, from, len, offset: 0 },
                    Err(why) => OwedAnswer::ReadEnd { id, result: Err(why) },
                };
                outbox.owe(answer, ANSWERS_MAX)
            }
            WindowFrame::Written(result) => {
                if outbox.read_mut(id).is_ok() {
                    return Err(
                        ViError::Protocol("an answer to a request that was not made").into()
                    );
                }
                Ok(outbox.answered(id, result, self.notices)?)
            }
            WindowFrame::ReadEnd(result) => {
                self.receiver.incoming.end_read(id, result, outbox, self.notices)
            }
            _ => Err(NONSENSE.into()),
        }
    }

    /// Bytes of a message, at their place.
    fn put(&mut self, lane: WindowLane, at: u64, bytes: &[u8]) -> Result<(), Box<ViError>> {
        let Receiver { open, incoming, .. } = &mut *self.receiver;
        let Some(ArrivingMessage { what, .. }) = &mut open[lane as usize] else {
            return Err(NONSENSE.into());
        };
        match what {
            ArrivingKind::Eager { bytes: said, .. } | ArrivingKind::Goodbye { said, .. } => {
                let at = usize::try_from(at).map_err(|_| NONSENSE)?;
                said[at..at + bytes.len()].copy_from_slice(bytes);
            }
            ArrivingKind::Message => {
                if let CurrentTransfer::Message { posted, .. } = &mut incoming.current {
                    posted.descriptor_mut().scatter(at, bytes);
                }
            }
            ArrivingKind::Write { .. } => {
                if let CurrentTransfer::Write { to, result, .. } = &mut incoming.current
                    && result.is_ok()
                {
                    *result = self.keys.write(&to.key.at(to.offset.saturating_add(at)), bytes);
                }
            }
            ArrivingKind::ReadPiece { id, offset } => {
                let read = self.sender.outbox.read_mut(*id)?;
                read.descriptor_mut().scatter(*offset + at, bytes);
                incoming.set_got(*id, incoming.got_of(*id) + bytes.len() as u64);
            }
            ArrivingKind::Nothing => return Err(NONSENSE.into()),
        }
        Ok(())
    }

    fn write_end(&mut self, id: u64, notify: Option<(u64, Posted)>) -> Result<(), Box<ViError>> {
        let IncomingTransfers { receives, current, .. } = &mut self.receiver.incoming;
        let result = match std::mem::replace(current, CurrentTransfer::Nothing) {
            CurrentTransfer::Write { result, .. } => result,
            _ => Err(AccessError::Revoked),
        };
        match notify {
            Some((tag, posted)) if result.is_ok() => {
                receives.complete(posted, 0, tag, self.notices);
            }
            Some((_, posted)) => {
                // It is there for another message.
                receives.put_back(posted);
                receives.keep_one();
                receives.placed += 1;
            }
            None => {}
        }
        self.sender.outbox.owe(OwedAnswer::Written { id, result }, ANSWERS_MAX)
    }
}

impl MessageSink for ArrivalTarget<'_> {
    fn begin(
        &mut self,
        lane: WindowLane,
        begins: MessageStart,
        first: &[u8],
    ) -> Result<bool, Box<ViError>> {
        let mut rest = first;
        let frame = WindowFrame::read(lane, &mut rest)?;
        let head = (first.len() - rest.len()) as u64;
        let len = begins.len - head;
        if len > 0 && !frame.has_bytes() || len > super::TRANSFER_MAX {
            return Err(NONSENSE.into());
        }
        let Some(what) = self.open(frame, len, begins.tag)? else { return Ok(false) };
        self.receiver.open[lane as usize] = Some(ArrivingMessage { head, what });
        if !rest.is_empty() {
            self.put(lane, 0, rest)?;
        }
        Ok(true)
    }

    fn place(&mut self, lane: WindowLane, at: u64, bytes: &[u8]) -> Result<(), Box<ViError>> {
        let open = self.receiver.open[lane as usize].as_ref().ok_or(NONSENSE)?;
        let at = at.checked_sub(open.head).ok_or(NONSENSE)?;
        self.put(lane, at, bytes)
    }

    fn end(&mut self, lane: WindowLane) -> Result<(), Box<ViError>> {
        let open = self.receiver.open[lane as usize].take().ok_or(NONSENSE)?;
        match open.what {
            ArrivingKind::Eager { lane, tag, mut bytes } => {
                self.receiver.eager.arrive(lane, tag, &bytes)?;
                bytes.clear();
                bytes.shrink_to(SPARE_BYTES);
                self.receiver.spare = bytes;
            }
            ArrivingKind::Goodbye { counts, said } => {
                self.receiver.is_over = true;
                let nonsense = |_| NONSENSE;
                let reason = CloseReason::read(&mut ByteReader::new(&said)).map_err(nonsense)?;
                self.sender.hear(self.sender.peer.advanced(counts), self.notices)?;
                return Err(reason.into_error().into());
            }
            ArrivingKind::Message => self.receiver.incoming.finish(self.notices),
            ArrivingKind::Write { id, notify } => self.write_end(id, notify)?,
            ArrivingKind::ReadPiece { .. } | ArrivingKind::Nothing => {}
        }
        self.receiver.taken += u64::from(lane == WindowLane::Posted);
        Ok(())
    }
}
