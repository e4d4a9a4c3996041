//! The receiving half of one end: frames in, completions out.
//!
//! Every word of a frame is the peer's and may be a lie. Lengths are checked
//! against what is posted or exposed here before a byte is placed.

use std::borrow::Cow;

use super::TRANSFER_MAX;
use super::fault::{Fault, planted};
use super::io::Io;
use super::send::Sender;
use super::wire::Frame;
use crate::buf::Kind;
use crate::fabric::hub::bytes::Reader;
use crate::fabric::hub::eager::EagerIn;
use crate::fabric::hub::farewell::Farewell;
use crate::fabric::hub::incoming::{Current, Incoming};
use crate::fabric::outbox::Answer;
use crate::vi::{Descriptor, DrainId, Posted, Reliability, RemoteKey, ViError, ViId};

#[derive(Debug)]
pub(super) struct Receiver {
    pub incoming: Incoming,
    pub eager: EagerIn,
    /// Messages of the peer that have begun to arrive, ever.
    pub begun: u64,
    /// Whether the peer has said its last word.
    pub is_over: bool,
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

const MORE: ViError = ViError::Protocol("more bytes than were announced");

impl Receiver {
    pub(super) fn new(level: Reliability, vi: ViId, drain: DrainId) -> Self {
        let (incoming, eager) = (Incoming::new(level), EagerIn::new(vi, drain));
        Self { incoming, eager, begun: 0, is_over: false }
    }

    /// A frame of the peer's begins to arrive, for the first time.
    pub(super) fn count(&mut self, frame: &Frame) -> Result<(), Box<ViError>> {
        if !frame.needs_receive() || !self.incoming.is_reliable() {
            return Ok(());
        }
        self.begun += 1;
        if self.begun > self.incoming.receives.promised && !planted(Fault::ReceivesIgnored) {
            return Err(ViError::Protocol("a message that there is no receive for").into());
        }
        Ok(())
    }

    /// Whether a frame must wait for a receive.
    #[inline]
    pub(super) fn holds_up(&self, frame: &Frame) -> bool {
        frame.needs_receive() && self.incoming.holds_up()
    }

    /// Places a whole message of a few bytes, if [that is all](Incoming::place) there is to it.
    #[inline]
    pub(super) fn place(&mut self, tag: u64, bytes: &[u8], io: &mut Io<'_>) -> bool {
        self.incoming.place((bytes.len(), tag), io.notices, |to| to.copy_from_slice(bytes))
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
                if matches!(self.incoming.current, Current::Nothing) {
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
                self.incoming.begin_write((secret, offset, len), io.keys)?;
                Ok(Into::Nothing)
            }
            Frame::Kind { .. } | Frame::Goodbye | Frame::Eager { .. } => Ok(Into::Control),
            Frame::ReadEnd { .. }
            | Frame::WriteEnd { .. }
            | Frame::Written { .. }
            | Frame::Counts { .. } => Ok(Into::Nothing),
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
            Frame::ReadEnd { id, result } => {
                return self.incoming.end_read(id, result, &mut sender.outbox, io.notices);
            }
            Frame::WriteEnd { id, notify } => return self.write_end(id, notify, sender, io),
            Frame::Written { id, result } => {
                // A read is over when its bytes are here, whatever else is said.
                if sender.outbox.read_mut(id).is_ok() {
                    return Err(ViError::Protocol("an answer to no request").into());
                }
                sender.outbox.answered(id, result, io.notices)?;
            }
            Frame::Kind { fingerprint } => self.learn(fingerprint, control)?,
            Frame::Eager { lane, tag, drained } => {
                sender.eager.hear(drained)?;
                return self.eager.arrive(lane, tag, control);
            }
            Frame::Counts { drained, asks } => {
                self.eager.is_asked |= asks;
                return sender.eager.hear(drained);
            }
            Frame::Goodbye => {
                let farewell = farewell(control)?;
                self.is_over = true;
                return Err(farewell.into_error().into());
            }
            Frame::Read { .. } | Frame::ReadPiece { .. } | Frame::Write { .. } => {}
        }
        Ok(())
    }

    fn learn(&mut self, fingerprint: u64, name: &[u8]) -> Result<(), Box<ViError>> {
        let mut reader = Reader::new(name);
        let said = |why: crate::fabric::hub::bytes::Malformed| ViError::Protocol(why.0);
        let name = Cow::Owned(reader.text().map_err(said)?.to_owned());
        reader.end().map_err(said)?;
        self.incoming.learn(Kind { fingerprint, name });
        Ok(())
    }

    /// A message begins in the oldest receive. One that does not fit, or that there
    /// is no receive for, is left out, which the unreliable level survives.
    fn message(
        &mut self,
        (len, tag, kind): (u64, u64, Option<u64>),
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        if len > TRANSFER_MAX {
            return Err(ViError::Protocol("a message longer than any may be").into());
        }
        let admit = |posted: &mut Posted, kind: Option<&Kind>| posted.begin(len, tag, kind);
        if !self.incoming.begin((len, tag, kind), io.notices, admit)? {
            self.incoming.current = Current::Dropped { left: len };
        }
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
            self.incoming.set_got(id, got + n);
            return Ok(());
        }
        match &mut self.incoming.current {
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
        match (into, &mut self.incoming.current) {
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
            self.incoming.set_got(id, self.incoming.got_of(id) + n);
        } else if let Current::Message { got, .. } = &mut self.incoming.current {
            *got += n;
        }
    }

    /// The memory of a read, and how much of it is there, if `n` bytes more fit.
    fn answering<'a>(
        &self,
        id: u64,
        n: u64,
        sender: &'a mut Sender,
    ) -> Result<(&'a mut Descriptor, u64), Box<ViError>> {
        let got = self.incoming.got_of(id);
        let read = sender.outbox.read_mut(id)?.descriptor_mut();
        if got.checked_add(n).is_none_or(|end| end > read.len()) {
            return Err(ViError::Protocol("more bytes than were asked for").into());
        }
        Ok((read, got))
    }

    /// If the whole message lies in the posted memory, it is complete.
    fn finish(&mut self, io: &mut Io<'_>) {
        let is_whole = match &self.incoming.current {
            Current::Message { len, got, .. } => got == len,
            Current::Dropped { left } => *left == 0,
            _ => false,
        };
        if is_whole {
            self.incoming.finish(io.notices);
        }
    }

    fn write_end(
        &mut self,
        id: u64,
        notify: Option<u64>,
        sender: &mut Sender,
        io: &mut Io<'_>,
    ) -> Result<(), Box<ViError>> {
        let wrote = self.incoming.end_write()?;
        sender.answer(Answer::Written { id, result: wrote.result })?;
        notify.map_or(Ok(()), |tag| self.incoming.notify(tag, &wrote, io.notices))
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
