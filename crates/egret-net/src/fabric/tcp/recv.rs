//! The receiving half of one end: frames in, completions out.
//!
//! Every field of a frame may be false. Lengths are checked against what is posted or exposed here before
//! a byte is placed.
//!
//! Repeated names: `Receiver`, one in each fabric.

use std::borrow::Cow;

use super::TRANSFER_MAX;
use super::datapath::CallContext;
use super::fault::{self, Fault, planted};
use super::send::Sender;
use super::wire::TcpFrame;
use crate::buf::Kind;
use crate::fabric::common::bytes::ByteReader;
use crate::fabric::common::close_reason::CloseReason;
use crate::fabric::common::eager::EagerIn;
use crate::fabric::common::incoming::{CurrentTransfer, IncomingTransfers};
use crate::fabric::outbox::OwedAnswer;
use crate::vi::{Descriptor, DrainId, Posted, Reliability, RemoteKey, ViError, ViId};

#[derive(Debug)]
pub(super) struct Receiver {
    pub incoming: IncomingTransfers,
    pub eager: EagerIn,
    /// Messages of the peer that have begun to arrive, ever.
    pub begun: u64,
    /// Whether the peer has sent its goodbye.
    pub is_over: bool,
}

/// Where the payload of a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PayloadTarget {
    /// There is no payload.
    Nothing,
    /// Into the transfer that began last.
    Current,
    /// Into the memory of a read of this side.
    Read(u64),
    /// Into a buffer, to be decoded as a whole.
    Control,
}

const MORE: ViError = ViError::Protocol("more bytes than were announced");

impl Receiver {
    pub(super) fn new(level: Reliability, vi: ViId, drain: DrainId) -> Self {
        let (incoming, eager) = (IncomingTransfers::new(level), EagerIn::new(vi, drain));
        Self { incoming, eager, begun: 0, is_over: false }
    }

    /// Counts a frame that needs a receive; the peer may not send more than there are receives.
    pub(super) fn count(&mut self, frame: &TcpFrame) -> Result<(), Box<ViError>> {
        if !frame.needs_receive() || !self.incoming.is_reliable() {
            return Ok(());
        }
        self.begun += 1;
        if !self.has_receive() {
            return Err(ViError::Protocol("a message that there is no receive for").into());
        }
        Ok(())
    }

    /// Whether there is a receive for the message that began last.
    #[inline]
    fn has_receive(&self) -> bool {
        self.begun <= self.incoming.receives.promised || planted(Fault::ReceivesIgnored)
    }

    /// Whether a frame must wait for a receive.
    #[inline]
    pub(super) fn holds_up(&self, frame: &TcpFrame) -> bool {
        frame.needs_receive() && self.incoming.holds_up()
    }

    /// [Places](IncomingTransfers::place) a whole short message in the oldest receive, if it can.
    #[inline]
    pub(super) fn place(&mut self, tag: u64, bytes: &[u8], io: &mut CallContext<'_>) -> bool {
        self.incoming.place((bytes.len(), tag), io.notices, |to| to.copy_from_slice(bytes))
    }

    /// Begins a frame that need not wait. Where its payload goes.
    pub(super) fn begin(
        &mut self,
        frame: TcpFrame,
        payload: usize,
        sender: &mut Sender,
        io: &mut CallContext<'_>,
    ) -> Result<PayloadTarget, Box<ViError>> {
        match frame {
            TcpFrame::Message { tag, kind } => {
                self.message((payload as u64, tag, kind), io)?;
                Ok(PayloadTarget::Current)
            }
            TcpFrame::Begin { tag, kind, len } => {
                self.message((len, tag, kind), io)?;
                Ok(PayloadTarget::Current)
            }
            TcpFrame::Piece => {
                if matches!(self.incoming.current, CurrentTransfer::Nothing) {
                    return Err(ViError::Protocol("a data record outside a message").into());
                }
                Ok(PayloadTarget::Current)
            }
            TcpFrame::Read { id, secret, offset, len } => {
                let from = RemoteKey::of(secret).at(offset);
                sender.answer(match io.keys.check(&from, len, false) {
                    Ok(()) => OwedAnswer::Read { id, from, len, offset: 0 },
                    Err(why) => OwedAnswer::ReadEnd { id, result: Err(why) },
                })?;
                Ok(PayloadTarget::Nothing)
            }
            TcpFrame::ReadPiece { id } => {
                sender.outbox.read_mut(id)?;
                Ok(fault::target_of_answer(PayloadTarget::Read(id)))
            }
            TcpFrame::Write { secret, offset, len } => {
                self.incoming.begin_write((secret, offset, len), io.keys)?;
                Ok(PayloadTarget::Nothing)
            }
            TcpFrame::Kind { .. } | TcpFrame::Goodbye | TcpFrame::Eager { .. } => {
                Ok(PayloadTarget::Control)
            }
            TcpFrame::ReadEnd { .. }
            | TcpFrame::WriteEnd { .. }
            | TcpFrame::Written { .. }
            | TcpFrame::Counts { .. } => Ok(PayloadTarget::Nothing),
        }
    }

    /// Ends a frame whose payload has arrived.
    pub(super) fn end(
        &mut self,
        frame: TcpFrame,
        control: &[u8],
        sender: &mut Sender,
        io: &mut CallContext<'_>,
    ) -> Result<(), Box<ViError>> {
        match frame {
            TcpFrame::Message { .. } | TcpFrame::Begin { .. } | TcpFrame::Piece => self.finish(io),
            TcpFrame::ReadEnd { id, result } => {
                return self.incoming.end_read(id, result, &mut sender.outbox, io.notices);
            }
            TcpFrame::WriteEnd { id, notify } => return self.write_end(id, notify, sender, io),
            TcpFrame::Written { id, result } => {
                // A read ends with its bytes, not with an answer to a write.
                if sender.outbox.read_mut(id).is_ok() {
                    return Err(
                        ViError::Protocol("an answer to a request that was not made").into()
                    );
                }
                sender.outbox.answered(id, result, io.notices)?;
            }
            TcpFrame::Kind { fingerprint } => self.learn(fingerprint, control)?,
            TcpFrame::Eager { lane, tag, drained } => {
                sender.eager.hear(drained)?;
                return self.eager.arrive(lane, tag, control);
            }
            TcpFrame::Counts { drained, asks } => {
                self.eager.is_asked |= asks;
                return sender.eager.hear(drained);
            }
            TcpFrame::Goodbye => {
                let reason = close_reason(control)?;
                self.is_over = true;
                return Err(reason.into_error().into());
            }
            TcpFrame::Read { .. } | TcpFrame::ReadPiece { .. } | TcpFrame::Write { .. } => {}
        }
        Ok(())
    }

    fn learn(&mut self, fingerprint: u64, name: &[u8]) -> Result<(), Box<ViError>> {
        let mut reader = ByteReader::new(name);
        let said = |why: crate::fabric::common::bytes::Malformed| ViError::Protocol(why.0);
        let name = Cow::Owned(reader.text().map_err(said)?.to_owned());
        reader.end().map_err(said)?;
        self.incoming.learn(Kind { fingerprint, name });
        Ok(())
    }

    /// Begins a message in the oldest receive. At the unreliable level a message that does not fit, or has no
    /// receive, is dropped.
    fn message(
        &mut self,
        (len, tag, kind): (u64, u64, Option<u64>),
        io: &mut CallContext<'_>,
    ) -> Result<(), Box<ViError>> {
        if len > TRANSFER_MAX {
            return Err(ViError::Protocol("a message longer than any may be").into());
        }
        let admit = |posted: &mut Posted, kind: Option<&Kind>| posted.begin(len, tag, kind);
        if !self.incoming.begin((len, tag, kind), io.notices, admit)? {
            self.incoming.current = CurrentTransfer::Dropped { left: len };
        }
        Ok(())
    }

    /// Bytes of a payload, in order.
    pub(super) fn bytes(
        &mut self,
        into: PayloadTarget,
        bytes: &[u8],
        sender: &mut Sender,
        io: &CallContext<'_>,
    ) -> Result<(), Box<ViError>> {
        let n = bytes.len() as u64;
        if let PayloadTarget::Read(id) = into {
            let (read, got) = self.answering(id, n, sender)?;
            read.scatter(got, bytes);
            self.incoming.set_got(id, got + n);
            return Ok(());
        }
        match &mut self.incoming.current {
            CurrentTransfer::Nothing => {
                return Err(ViError::Protocol("a data record outside a message").into());
            }
            CurrentTransfer::Dropped { left } => *left = left.checked_sub(n).ok_or(MORE)?,
            CurrentTransfer::Message { posted, len, got, .. } => {
                let end = end_of(*got, n, *len)?;
                posted.descriptor_mut().scatter(*got, bytes);
                *got = end;
            }
            CurrentTransfer::Write { to, len, got, result } => {
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
        into: PayloadTarget,
        n: u64,
        sender: &'a mut Sender,
    ) -> Option<(&'a mut Descriptor, u64)> {
        if let PayloadTarget::Read(id) = into {
            return self.answering(id, n, sender).ok();
        }
        match (into, &mut self.incoming.current) {
            (PayloadTarget::Current, CurrentTransfer::Message { posted, len, got, .. }) => {
                end_of(*got, n, *len).ok()?;
                Some((posted.descriptor_mut(), *got))
            }
            _ => None,
        }
    }

    /// Notes that so many bytes were read there.
    pub(super) fn filled(&mut self, into: PayloadTarget, n: u64) {
        if let PayloadTarget::Read(id) = into {
            self.incoming.set_got(id, self.incoming.got_of(id) + n);
        } else if let CurrentTransfer::Message { got, .. } = &mut self.incoming.current {
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

    /// Completes the message if all of it has arrived.
    fn finish(&mut self, io: &mut CallContext<'_>) {
        let is_whole = match &self.incoming.current {
            CurrentTransfer::Message { len, got, .. } => got == len,
            CurrentTransfer::Dropped { left } => *left == 0,
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
        io: &mut CallContext<'_>,
    ) -> Result<(), Box<ViError>> {
        let wrote = self.incoming.end_write()?;
        sender.answer(OwedAnswer::Written { id, result: wrote.result })?;
        notify.map_or(Ok(()), |tag| self.incoming.notify(tag, &wrote, io.notices))
    }
}

fn end_of(got: u64, n: u64, len: u64) -> Result<u64, Box<ViError>> {
    let end = got.checked_add(n).filter(|end| *end <= len || planted(Fault::LengthIgnored));
    Ok(end.ok_or(MORE)?)
}

fn close_reason(bytes: &[u8]) -> Result<CloseReason, Box<ViError>> {
    let said = |why: crate::fabric::common::bytes::Malformed| ViError::Protocol(why.0);
    let mut reader = ByteReader::new(bytes);
    let reason = CloseReason::read(&mut reader).map_err(said)?;
    reader.end().map_err(said)?;
    Ok(reason)
}
