//! The receiving half of one end: frames in, completions out.
//!
//! Every word of a frame is the peer's and may be a lie. Lengths are checked
//! against what is posted or exposed here before a byte is placed.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use super::TRANSFER_MAX;
use super::fault::{Fault, planted};
use super::io::Io;
use super::send::Sender;
use super::wire::Frame;
use crate::buf::Kind;
use crate::fabric::hub::bytes::Reader;
use crate::fabric::hub::farewell::Farewell;
use crate::fabric::outbox::Answer;
use crate::vi::{
    AccessError, Descriptor, Posted, Reliability, RemoteKey, RemoteSlice, Ticket, ViError,
};

#[derive(Debug)]
pub(super) struct Receiver {
    level: Reliability,
    posted: VecDeque<Posted>,
    /// Receives the peer may count on, ever.
    pub receives: u64,
    /// Receives the peer counts on that were taken back: those posted next
    /// take their place.
    owed: u64,
    /// Messages of the peer that have begun to arrive, ever.
    pub begun: u64,
    /// Messages placed, ever.
    pub placed: u64,
    current: Current,
    /// The read that is being answered, and how much of it is here.
    answered: Option<(u64, u64)>,
    kinds: BTreeMap<u64, Kind>,
    pub received: u64,
    pub dropped: u64,
    /// Whether the peer has said its last word.
    pub is_over: bool,
}

/// What the next piece belongs to.
#[derive(Debug)]
enum Current {
    Nothing,
    Message {
        posted: Posted,
        len: u64,
        tag: u64,
        got: u64,
    },
    /// A message that nobody wants; so many bytes are still to come.
    Dropped {
        left: u64,
    },
    Write {
        to: RemoteSlice,
        len: u64,
        got: u64,
        result: Result<(), AccessError>,
    },
}

/// Where the payload of a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Into {
    /// Nowhere: there is none.
    Nothing,
    /// To what began last.
    Current,
    /// To a read of this side.
    Read(u64),
    /// To be looked at as a whole.
    Control,
}

/// Names of types kept for a peer.
const KINDS_MAX: usize = 1024;
const MORE: ViError = ViError::Protocol("more bytes than were announced");

impl Receiver {
    pub(super) fn new(level: Reliability) -> Self {
        Self {
            level,
            posted: VecDeque::new(),
            receives: 0,
            owed: 0,
            begun: 0,
            placed: 0,
            current: Current::Nothing,
            answered: None,
            kinds: BTreeMap::new(),
            received: 0,
            dropped: 0,
            is_over: false,
        }
    }

    #[inline]
    pub(super) fn outstanding(&self) -> usize {
        let begun = matches!(self.current, Current::Message { .. });
        self.posted.len() + usize::from(begun)
    }

    #[inline]
    pub(super) fn push(&mut self, posted: Posted) {
        self.posted.push_back(posted);
        match self.owed {
            0 => self.receives += 1,
            _ => self.owed -= 1,
        }
    }

    /// A frame of the peer's begins to arrive, for the first time.
    pub(super) fn count(&mut self, frame: &Frame) -> Result<(), Box<ViError>> {
        if !frame.needs_receive() || !self.level.is_reliable() {
            return Ok(());
        }
        self.begun += 1;
        if self.begun > self.receives && !planted(Fault::ReceivesIgnored) {
            return Err(ViError::Protocol("a message that there is no receive for").into());
        }
        Ok(())
    }

    /// Whether a frame must wait for a receive.
    #[inline]
    pub(super) fn holds_up(&self, frame: &Frame) -> bool {
        frame.needs_receive() && self.posted.is_empty() && self.level.is_reliable()
    }

    /// Places a whole message of a few bytes in the oldest receive, if that is all
    /// there is to it: no message is half there, and the receive has room in one
    /// piece.
    #[inline]
    pub(super) fn place(&mut self, tag: u64, bytes: &[u8], io: &mut Io<'_>) -> bool {
        if !matches!(self.current, Current::Nothing) {
            return false;
        }
        let Some(mut posted) = self.posted.pop_front() else { return false };
        match posted.descriptor_mut().bytes_mut() {
            Some(to) if to.len() >= bytes.len() => to[..bytes.len()].copy_from_slice(bytes),
            _ => {
                self.posted.push_front(posted);
                return false;
            }
        }
        self.placed += 1;
        self.received += 1;
        posted.complete(bytes.len() as u64, tag, io.notices);
        true
    }

    /// A frame begins that need not wait, with so many bytes to come. Where to.
    pub(super) fn begin(
        &mut self,
        frame: Frame,
        payload: usize,
        sender: &mut Sender,
        io: &mut Io<'_>,
    ) -> Result<Into, Box<ViError>> {
        match frame {
            Frame::Message { tag, kind } => {
                self.message((payload as u64, tag, kind), io)?;
                Ok(Into::Current)
            }
            Frame::Begin { tag, kind, len } => {
                self.message((len, tag, kind), io)?;
                Ok(Into::Current)
            }
            Frame::Piece => {
                if matches!(self.current, Current::Nothing) {
                    return Err(ViError::Protocol("bytes of nothing").into());
                }
                Ok(Into::Current)
            }
            Frame::Read { id, secret, offset, len } => {
                let from = RemoteKey::of(secret).at(offset);
                sender.answer(match io.keys.check(&from, len, false) {
                    Ok(()) => Answer::Read { id, from, len, offset: 0 },
                    Err(why) => Answer::ReadEnd { id, result: Err(why) },
                })?;
                Ok(Into::Nothing)
            }
            Frame::ReadPiece { id } => {
                sender.outbox.read_mut(id)?;
                Ok(if planted(Fault::AnswerMisplaced) { Into::Current } else { Into::Read(id) })
            }
            Frame::Write { secret, offset, len } => {
                self.idle()?;
                let to = RemoteKey::of(secret).at(offset);
                let result = io.keys.check(&to, len, true);
                self.current = Current::Write { to, len, got: 0, result };
                Ok(Into::Nothing)
            }
            Frame::Kind { .. } | Frame::Goodbye => Ok(Into::Control),
            Frame::ReadEnd { .. }
            | Frame::WriteEnd { .. }
            | Frame::Written { .. }
            | Frame::Counts => Ok(Into::Nothing),
        }
    }

    /// All of a frame has come.
    pub(super) fn end(
        &mut self,
        frame: Frame,
        control: &[u8],
        sender: &mut Sender,
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        match frame {
            Frame::Message { .. } | Frame::Begin { .. } | Frame::Piece => self.finish(io),
            Frame::ReadEnd { id, result } => return self.read_end(id, result, sender, io),
            Frame::WriteEnd { id, notify } => return self.write_end(id, notify, sender, io),
            Frame::Written { id, result } => {
                // A read is over when its bytes are here, whatever else is said.
                if sender.outbox.read_mut(id).is_ok() {
                    return Err(ViError::Protocol("an answer to no request").into());
                }
                sender.outbox.answered(id, result, io.notices)?;
            }
            Frame::Kind { fingerprint } => self.learn(fingerprint, control)?,
            Frame::Goodbye => {
                let farewell = farewell(control)?;
                self.is_over = true;
                return Err(farewell.into_error().into());
            }
            Frame::Read { .. } | Frame::ReadPiece { .. } | Frame::Write { .. } | Frame::Counts => {}
        }
        Ok(())
    }

    fn learn(&mut self, fingerprint: u64, name: &[u8]) -> Result<(), Box<ViError>> {
        let mut reader = Reader::new(name);
        let said = |why: crate::fabric::hub::bytes::Malformed| ViError::Protocol(why.0);
        let name = Cow::Owned(reader.text().map_err(said)?.to_owned());
        reader.end().map_err(said)?;
        if self.kinds.len() < KINDS_MAX {
            self.kinds.insert(fingerprint, Kind { fingerprint, name });
        }
        Ok(())
    }

    fn idle(&self) -> Result<(), Box<ViError>> {
        match self.current {
            Current::Nothing => Ok(()),
            _ => Err(ViError::Protocol("something inside something else").into()),
        }
    }

    /// A message begins in the oldest receive. One that does not fit, or that there
    /// is no receive for, is left out, which the unreliable level survives.
    fn message(
        &mut self,
        (len, tag, kind): (u64, u64, Option<u64>),
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        self.idle()?;
        if len > TRANSFER_MAX {
            return Err(ViError::Protocol("a message longer than any may be").into());
        }
        self.current = Current::Dropped { left: len };
        let Some(mut posted) = self.posted.pop_front() else {
            self.dropped += 1;
            return Ok(());
        };
        let kind = kind.map(|fingerprint| {
            let unnamed = || Kind { fingerprint, name: Cow::Borrowed("an unnamed type") };
            self.kinds.get(&fingerprint).cloned().unwrap_or_else(unnamed)
        });
        if let Err(why) = posted.begin(len, tag, kind.as_ref()) {
            if self.level.is_reliable() {
                // It fails with the connection, after what arrived before it.
                self.posted.push_front(posted);
                return Err(why.into());
            }
            posted.fail(why, io.notices);
            return Ok(());
        }
        self.current = Current::Message { posted, len, tag, got: 0 };
        Ok(())
    }

    /// Bytes of a payload, in order.
    pub(super) fn bytes(
        &mut self,
        into: Into,
        bytes: &[u8],
        sender: &mut Sender,
        io: &Io<'_>,
    ) -> Result<(), Box<ViError>> {
        let n = bytes.len() as u64;
        if let Into::Read(id) = into {
            let (read, got) = self.answering(id, n, sender)?;
            read.scatter(got, bytes);
            self.answered = Some((id, got + n));
            return Ok(());
        }
        match &mut self.current {
            Current::Nothing => return Err(ViError::Protocol("bytes of nothing").into()),
            Current::Dropped { left } => *left = left.checked_sub(n).ok_or(MORE)?,
            Current::Message { posted, len, got, .. } => {
                let end = end_of(*got, n, *len)?;
                posted.descriptor_mut().scatter(*got, bytes);
                *got = end;
            }
            Current::Write { to, len, got, result } => {
                let end = end_of(*got, n, *len)?;
                if result.is_ok() {
                    *result = io.keys.write(&to.key.at(to.offset.saturating_add(*got)), bytes);
                }
                *got = end;
            }
        }
        Ok(())
    }

    /// The memory where the next `n` bytes of a payload go, and its offset there, if
    /// they can be put there without being looked at.
    pub(super) fn memory<'a>(
        &'a mut self,
        into: Into,
        n: u64,
        sender: &'a mut Sender,
    ) -> Option<(&'a mut Descriptor, u64)> {
        if let Into::Read(id) = into {
            return self.answering(id, n, sender).ok();
        }
        match (into, &mut self.current) {
            (Into::Current, Current::Message { posted, len, got, .. }) => {
                end_of(*got, n, *len).ok()?;
                Some((posted.descriptor_mut(), *got))
            }
            _ => None,
        }
    }

    /// So many bytes were put there.
    pub(super) fn filled(&mut self, into: Into, n: u64) {
        if let Into::Read(id) = into {
            self.answered = Some((id, self.got_of(id) + n));
        } else if let Current::Message { got, .. } = &mut self.current {
            *got += n;
        }
    }

    fn got_of(&self, id: u64) -> u64 {
        self.answered.filter(|(answered, _)| *answered == id).map_or(0, |(_, got)| got)
    }

    /// The memory of a read, and how much of it is there, if `n` bytes more fit.
    fn answering<'a>(
        &self,
        id: u64,
        n: u64,
        sender: &'a mut Sender,
    ) -> Result<(&'a mut Descriptor, u64), Box<ViError>> {
        let got = self.got_of(id);
        let read = sender.outbox.read_mut(id)?.descriptor_mut();
        if got.checked_add(n).is_none_or(|end| end > read.len()) {
            return Err(ViError::Protocol("more bytes than were asked for").into());
        }
        Ok((read, got))
    }

    fn read_end(
        &mut self,
        id: u64,
        result: Result<(), AccessError>,
        sender: &mut Sender,
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        let got = self.got_of(id);
        self.answered = None;
        if result.is_ok() && sender.outbox.read_mut(id)?.descriptor().len() != got {
            return Err(ViError::Protocol("fewer bytes than were asked for").into());
        }
        Ok(sender.outbox.answered(id, result, io.notices)?)
    }

    /// If the whole message lies in the posted memory, it is complete.
    fn finish(&mut self, io: &mut Io<'_>) {
        let is_whole = match &self.current {
            Current::Message { len, got, .. } => got == len,
            Current::Dropped { left } => *left == 0,
            _ => false,
        };
        if !is_whole {
            return;
        }
        let current = std::mem::replace(&mut self.current, Current::Nothing);
        if let Current::Message { posted, len, tag, .. } = current {
            self.placed += 1;
            self.received += 1;
            posted.complete(len, tag, io.notices);
        }
    }

    fn write_end(
        &mut self,
        id: u64,
        notify: Option<u64>,
        sender: &mut Sender,
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        let Current::Write { len, got, result, .. } = self.current else {
            return Err(ViError::Protocol("the end of no write").into());
        };
        self.current = Current::Nothing;
        if got != len {
            return Err(ViError::Protocol("fewer bytes than were announced").into());
        }
        sender.answer(Answer::Written { id, result })?;
        match notify {
            Some(tag) if result.is_ok() => {
                let posted = self.posted.pop_front();
                let none = ViError::Protocol("a message that there is no receive for");
                self.placed += 1;
                self.received += 1;
                posted.ok_or(none)?.complete(0, tag, io.notices);
            }
            Some(_) => {
                // The receive it was to consume is still there, for another message.
                self.receives += 1;
                self.placed += 1;
            }
            None => {}
        }
        Ok(())
    }

    /// Gives back memory that a burst took.
    pub(super) fn trim(&mut self, most: usize) {
        self.posted.shrink_to(most);
    }

    /// Takes back a receive that no message has begun to fill.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        let at = self.posted.iter().position(|posted| posted.ticket() == ticket)?;
        self.owed += 1;
        self.posted.remove(at)
    }

    /// Everything that is not back, in the order it was posted.
    pub(super) fn drain(&mut self) -> Vec<Posted> {
        let current = std::mem::replace(&mut self.current, Current::Nothing);
        let begun = match current {
            Current::Message { posted, .. } => Some(posted),
            _ => None,
        };
        begun.into_iter().chain(self.posted.drain(..)).collect()
    }
}

fn end_of(got: u64, n: u64, len: u64) -> Result<u64, Box<ViError>> {
    let end = got.checked_add(n).filter(|end| *end <= len || planted(Fault::LengthIgnored));
    Ok(end.ok_or(MORE)?)
}

fn farewell(bytes: &[u8]) -> Result<Farewell, Box<ViError>> {
    let said = |why: crate::fabric::hub::bytes::Malformed| ViError::Protocol(why.0);
    let mut reader = Reader::new(bytes);
    let farewell = Farewell::read(&mut reader).map_err(said)?;
    reader.end().map_err(said)?;
    Ok(farewell)
}
