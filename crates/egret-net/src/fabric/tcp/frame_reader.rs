//! Takes the byte stream of a peer apart: pieces of bytes of any length in, frames out.
//!
//! Between two calls the reader keeps at most the beginning of a head, or of a control frame. A message that
//! waits for a receive which was cancelled is kept as it arrived, with all frames behind it except those that
//! [overtake](TcpFrame::overtakes) it.

use std::collections::VecDeque;

use super::datapath::CallContext;
use super::fault::{Fault, planted};
use super::recv::{PayloadTarget, Receiver};
use super::send::{Sender, UNTAKEN_MAX};
use super::wire::{EAGER, HEAD, HEAD_MAX, TcpFrame, TcpHead};
use crate::vi::{Descriptor, ViError};

#[derive(Debug, Default)]
pub(super) struct FrameReader {
    /// The part of a head that has arrived.
    head: Vec<u8>,
    state: FrameReaderState,
    /// Frames that wait, from the first that waits for a receive on.
    held: VecDeque<HeldFrame>,
    held_bytes: usize,
    /// Frames taken, ever, without gaps.
    pub taken: u64,
}

#[derive(Debug, Default)]
enum FrameReaderState {
    /// Between frames, or inside a head.
    #[default]
    Head,
    /// So many bytes of this frame's payload are still to come.
    Payload { frame: TcpFrame, into: PayloadTarget, left: usize, control: Vec<u8> },
    /// So many bytes of a frame that waits are still to come.
    Held { raw: Vec<u8>, left: usize },
}

#[derive(Debug)]
enum HeldFrame {
    /// A frame, as it arrived.
    Frame(Vec<u8>),
    /// So many frames that were taken before their turn.
    Overtook(u64),
}

/// More than a peer that keeps to its window can have sent.
const HELD_MAX: usize = 32 << 20;

impl FrameReader {
    /// Takes bytes.
    #[inline]
    pub(super) fn take(
        &mut self,
        mut bytes: &[u8],
        sender: &mut Sender,
        receiver: &mut Receiver,
        io: &mut CallContext<'_>,
    ) -> Result<(), Box<ViError>> {
        while !bytes.is_empty() {
            bytes = match self.state {
                FrameReaderState::Head if self.head.is_empty() => {
                    match self.small(bytes, sender, receiver, io)? {
                        Some(rest) => rest,
                        None => self.head(bytes, sender, receiver, io)?,
                    }
                }
                FrameReaderState::Head => self.head(bytes, sender, receiver, io)?,
                FrameReaderState::Payload { .. } => self.payload(bytes, sender, receiver, io)?,
                FrameReaderState::Held { .. } => self.hold(bytes)?,
            };
        }
        Ok(())
    }

    /// Takes a whole short message without a type, or a whole eager message, which most frames are, in one
    /// step. The bytes behind it, if it is one.
    #[inline]
    fn small<'a>(
        &mut self,
        bytes: &'a [u8],
        sender: &mut Sender,
        receiver: &mut Receiver,
        io: &mut CallContext<'_>,
    ) -> Result<Option<&'a [u8]>, Box<ViError>> {
        let Some((first, rest)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
        if first[0] == EAGER && self.passes_eager() {
            return self.small_eager(bytes, sender, receiver, io);
        }
        if !self.held.is_empty() || TcpHead::len(first)? != HEAD {
            return Ok(None);
        }
        let head = TcpHead::decode(first)?;
        let Some((payload, behind)) = rest.split_at_checked(head.payload) else { return Ok(None) };
        let TcpFrame::Message { tag, kind: None } = head.frame else { return Ok(None) };
        if receiver.begun >= receiver.incoming.receives.promised
            || !receiver.place(tag, payload, io)
        {
            return Ok(None);
        }
        receiver.begun += 1;
        self.taken += 1;
        sender.hear(head.counts, io.notices)?;
        Ok(Some(behind))
    }

    /// Whether eager messages wait for nothing.
    #[inline]
    fn passes_eager(&self) -> bool {
        self.held.is_empty() || !planted(Fault::EagerHeld)
    }

    /// Takes a whole eager message, which waits for nothing.
    #[inline]
    fn small_eager<'a>(
        &self,
        bytes: &'a [u8],
        sender: &mut Sender,
        receiver: &mut Receiver,
        io: &mut CallContext<'_>,
    ) -> Result<Option<&'a [u8]>, Box<ViError>> {
        let Some((first, rest)) = bytes.split_at_checked(HEAD + 8) else { return Ok(None) };
        let head = TcpHead::decode(first)?;
        let Some((payload, behind)) = rest.split_at_checked(head.payload) else { return Ok(None) };
        let TcpFrame::Eager { lane, tag, drained } = head.frame else { return Ok(None) };
        sender.hear(head.counts, io.notices)?;
        sender.eager.hear(drained)?;
        receiver.eager.arrive(lane, tag, payload)?;
        Ok(Some(behind))
    }

    /// Takes bytes of a head, and begins its frame once the head is whole.
    fn head<'a>(
        &mut self,
        bytes: &'a [u8],
        sender: &mut Sender,
        receiver: &mut Receiver,
        io: &mut CallContext<'_>,
    ) -> Result<&'a [u8], Box<ViError>> {
        let mut bytes = self.complete(HEAD, bytes);
        let Some(first) = self.head.first_chunk::<HEAD>() else { return Ok(bytes) };
        let len = TcpHead::len(first)?;
        bytes = self.complete(len, bytes);
        if self.head.len() < len {
            return Ok(bytes);
        }
        let head = TcpHead::decode(&self.head)?;
        sender.hear(head.counts, io.notices)?;
        receiver.count(&head.frame)?;
        let waits = !self.held.is_empty() || receiver.holds_up(&head.frame);
        if waits && !overtakes(&head.frame) {
            let mut raw = Vec::with_capacity(len + head.payload);
            raw.append(&mut self.head);
            self.held_bytes += len + head.payload;
            if self.held_bytes > HELD_MAX {
                return Err(ViError::Protocol("more than may be outstanding").into());
            }
            self.state = FrameReaderState::Held { raw, left: head.payload };
            return if head.payload == 0 { self.hold(bytes) } else { Ok(bytes) };
        }
        self.head.clear();
        self.begin(head, sender, receiver, io)?;
        Ok(bytes)
    }

    /// Takes from `bytes` what the head lacks to `len` bytes.
    fn complete<'a>(&mut self, len: usize, bytes: &'a [u8]) -> &'a [u8] {
        if planted(Fault::HeadForgotten) && len == HEAD && bytes.len() < HEAD {
            self.head.clear();
        }
        let missing = len.saturating_sub(self.head.len()).min(bytes.len());
        let (now, later) = bytes.split_at(missing);
        if self.head.capacity() == 0 {
            self.head.reserve_exact(HEAD_MAX);
        }
        self.head.extend_from_slice(now);
        later
    }

    fn begin(
        &mut self,
        head: TcpHead,
        sender: &mut Sender,
        receiver: &mut Receiver,
        io: &mut CallContext<'_>,
    ) -> Result<(), Box<ViError>> {
        let TcpHead { frame, payload, .. } = head;
        let into = receiver.begin(frame, payload, sender, io)?;
        if payload == 0 {
            return self.end(frame, &[], sender, receiver, io);
        }
        self.state = FrameReaderState::Payload { frame, into, left: payload, control: Vec::new() };
        Ok(())
    }

    fn payload<'a>(
        &mut self,
        bytes: &'a [u8],
        sender: &mut Sender,
        receiver: &mut Receiver,
        io: &mut CallContext<'_>,
    ) -> Result<&'a [u8], Box<ViError>> {
        let FrameReaderState::Payload { frame, into, left, control } = &mut self.state else {
            return Ok(bytes);
        };
        let (now, later) = bytes.split_at(bytes.len().min(*left));
        *left -= now.len();
        if *into == PayloadTarget::Control {
            control.extend_from_slice(now);
        } else {
            receiver.bytes(*into, now, sender, io)?;
        }
        if *left == 0 {
            let (frame, control) = (*frame, std::mem::take(control));
            self.end(frame, &control, sender, receiver, io)?;
        }
        Ok(later)
    }

    /// Ends a frame that has arrived.
    fn end(
        &mut self,
        frame: TcpFrame,
        control: &[u8],
        sender: &mut Sender,
        receiver: &mut Receiver,
        io: &mut CallContext<'_>,
    ) -> Result<(), Box<ViError>> {
        self.state = FrameReaderState::Head;
        receiver.end(frame, control, sender, io)?;
        if !frame.is_counted() {
            return Ok(());
        }
        // Only now: a frame that closes the connection does not count as taken.
        if self.held.is_empty() {
            self.taken += 1;
        } else {
            self.overtook()?;
        }
        Ok(())
    }

    /// Counts a frame that was taken before its turn.
    fn overtook(&mut self) -> Result<(), Box<ViError>> {
        match self.held.back_mut() {
            Some(HeldFrame::Overtook(n)) if *n >= UNTAKEN_MAX => {
                return Err(ViError::Protocol("more than may be outstanding").into());
            }
            Some(HeldFrame::Overtook(n)) => *n += 1,
            _ => self.held.push_back(HeldFrame::Overtook(1)),
        }
        Ok(())
    }

    /// Takes bytes of a frame that waits.
    fn hold<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Box<ViError>> {
        let FrameReaderState::Held { raw, left } = &mut self.state else { return Ok(bytes) };
        let (now, later) = bytes.split_at(bytes.len().min(*left));
        *left -= now.len();
        raw.extend_from_slice(now);
        if *left == 0 {
            self.held.push_back(HeldFrame::Frame(std::mem::take(raw)));
            self.state = FrameReaderState::Head;
        }
        Ok(later)
    }

    /// Whether a message waits for a receive.
    #[inline]
    pub(super) fn is_held_up(&self) -> bool {
        !self.held.is_empty()
    }

    /// Takes frames that waited for a receive and have one now. Whether there was any.
    pub(super) fn resume(
        &mut self,
        sender: &mut Sender,
        receiver: &mut Receiver,
        io: &mut CallContext<'_>,
    ) -> Result<bool, Box<ViError>> {
        let mut some = false;
        // The frame that is arriving goes on where it was.
        let arriving = (std::mem::take(&mut self.head), std::mem::take(&mut self.state));
        while let Some(front) = self.held.pop_front() {
            let raw = match front {
                HeldFrame::Frame(raw) => raw,
                HeldFrame::Overtook(n) => {
                    self.taken += n;
                    continue;
                }
            };
            let first = raw.first_chunk::<HEAD>().expect("it came as a frame");
            let len = TcpHead::len(first)?;
            let head = TcpHead::decode(&raw[..len])?;
            if receiver.holds_up(&head.frame) {
                self.held.push_front(HeldFrame::Frame(raw));
                break;
            }
            some = true;
            self.held_bytes -= raw.len();
            let later = std::mem::take(&mut self.held);
            self.begin(head, sender, receiver, io)?;
            self.payload(&raw[len..], sender, receiver, io)?;
            self.held = later;
        }
        (self.head, self.state) = arriving;
        Ok(some)
    }

    /// The memory where the payload that is arriving goes, the offset there, and how
    /// many bytes are still to come, if they are many and need not be looked at.
    #[inline]
    pub(super) fn memory<'a>(
        &mut self,
        least: usize,
        sender: &'a mut Sender,
        receiver: &'a mut Receiver,
    ) -> Option<(&'a mut Descriptor, u64, usize)> {
        let FrameReaderState::Payload { into, left, .. } = &self.state else { return None };
        if *left < least {
            return None;
        }
        let (descriptor, offset) = receiver.memory(*into, *left as u64, sender)?;
        Some((descriptor, offset, *left))
    }

    /// Notes that so many bytes of the payload were read there.
    pub(super) fn filled(
        &mut self,
        n: usize,
        sender: &mut Sender,
        receiver: &mut Receiver,
        io: &mut CallContext<'_>,
    ) -> Result<(), Box<ViError>> {
        let FrameReaderState::Payload { frame, into, left, .. } = &mut self.state else {
            return Ok(());
        };
        *left -= n;
        receiver.filled(*into, n as u64);
        if *left == 0 {
            let frame = *frame;
            self.end(frame, &[], sender, receiver, io)?;
        }
        Ok(())
    }
}

/// Whether a frame need not wait for a message that waits for a receive.
#[inline]
fn overtakes(frame: &TcpFrame) -> bool {
    let is_held = planted(Fault::EagerHeld) && matches!(frame, TcpFrame::Eager { .. });
    frame.overtakes() && !is_held
}
