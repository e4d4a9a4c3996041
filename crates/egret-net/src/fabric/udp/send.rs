//! The sending half of one end: descriptors in, datagrams out.
//!
//! A send is complete when its last piece has left, which is at once unless the system
//! has no room: then what is left waits, in order. Bytes are gathered by the system from
//! where they were posted.
//!
//! Repeated names: `Sender`, one in each fabric.

use std::collections::VecDeque;
use std::io::IoSlice;

use super::group::GroupSeal;
use super::sealed::DatagramSealer;
use super::socket::SegmentedSend;
use super::wire::{
    ConnectionNumber, DATAGRAM_MAX, MESSAGE_MAX, MessageSplit, SIGNATURE, SMALL, SmallHead,
    UdpHead, UdpKind, UdpPiece, extra,
};
use crate::fabric::DATAGRAM_HEAD;
use crate::vi::{Descriptor, Notices, Posted, Ticket};

/// Where datagrams leave.
pub(super) trait DatagramPort {
    /// Sends one datagram, or loses it without a report.
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Result<(), SendBlocked>;
    /// Sends one that lies in one piece.
    #[inline]
    fn send_small(&mut self, bytes: &[u8]) -> Result<(), SendBlocked> {
        self.send(&[IoSlice::new(bytes)])
    }
    /// Whether it may be worth a try to send several together.
    fn cuts(&self) -> bool {
        false
    }
    /// Sends one that the path does not carry in one piece: the system cuts it.
    fn send_long(&mut self, bytes: &[u8]) -> Result<(), SendBlocked> {
        self.send_small(bytes)
    }
    /// Sends several datagrams of `size` bytes, the last of which may have less.
    fn send_cut(
        &mut self,
        _slices: &[IoSlice<'_>],
        _size: u16,
    ) -> Result<SegmentedSend, SendBlocked> {
        Ok(SegmentedSend::NotHere)
    }
}

/// Why a datagram did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendBlocked {
    /// The system has no room for it now.
    Full,
    /// The datagram is larger than what the path carries now.
    TooLong { room: usize },
}

/// The receiver.
#[derive(Debug)]
pub(super) enum Destination {
    End(ConnectionNumber),
    Group(GroupSeal),
}

#[derive(Debug)]
pub(super) struct Sender {
    to: Destination,
    /// Bytes of a datagram that the path carries.
    room: usize,
    /// Bytes of them that the port needs.
    sealing: usize,
    waiting: VecDeque<Posted>,
    current: Option<PartlySent>,
    next_number: u64,
    /// Messages that have left, ever.
    pub sent: u64,
}

/// A message of which the pieces before `index` have left.
#[derive(Debug)]
struct PartlySent {
    posted: Posted,
    number: u64,
    split: MessageSplit,
    index: u32,
}

/// Segments that a descriptor may have.
pub(super) const SEGMENTS_MAX: usize = 64;
/// The smallest datagram that is heeded as the most a path carries.
pub(super) const ROOM_MIN: usize = 548;
/// What every path over IPv6 carries: 1280 bytes with their headers.
pub(super) const ROOM_ANYWHERE: usize = 1232;

impl Sender {
    pub(super) fn new(to: Destination, room: usize) -> Self {
        let (waiting, room) = (VecDeque::new(), room.max(ROOM_MIN));
        Self { to, room, sealing: 0, waiting, current: None, next_number: 0, sent: 0 }
    }

    /// The port seals what is sent, and needs so many bytes of each datagram.
    pub(super) const fn seals(&mut self, sealing: usize) {
        self.sealing = sealing;
    }

    /// Descriptors that are not back yet.
    #[inline]
    pub(super) fn outstanding(&self) -> usize {
        self.waiting.len() + usize::from(self.current.is_some())
    }

    /// Takes a send and lets go what can.
    #[inline]
    pub(super) fn push(
        &mut self,
        posted: Posted,
        port: &mut impl DatagramPort,
        notices: &mut Notices,
    ) {
        self.waiting.push_back(posted);
        self.pump(port, notices);
    }

    /// Bytes of a datagram that the path carries.
    pub(super) const fn room(&self) -> usize {
        self.room
    }

    /// The path may carry less than is known.
    pub(super) fn doubt(&mut self) {
        self.room = self.room.min(ROOM_ANYWHERE);
    }

    /// Sends datagrams of a window, one behind the other, each of `size` bytes but the last, and
    /// seals them first if there is something to seal by. How many bytes have left, or are lost.
    pub(super) fn send_train(
        &mut self,
        train: &mut [u8],
        size: usize,
        seal: Option<&mut DatagramSealer>,
        port: &mut impl DatagramPort,
    ) -> usize {
        let Destination::End(to) = self.to else { return train.len() };
        if let Some(seal) = seal {
            train.chunks_mut(size).for_each(|datagram| seal.seal_window(to, datagram));
        } else {
            for datagram in train.chunks_mut(size) {
                let len = datagram.len() - DATAGRAM_HEAD;
                datagram[..DATAGRAM_HEAD].copy_from_slice(&UdpHead::window(to, len));
            }
        }
        let mut left = 0;
        while left < train.len() {
            let rest = &train[left..];
            let several = rest.len().min(size * TOGETHER as usize).min(DATAGRAM_MAX / size * size);
            match self.send_some_of(&rest[..several.max(size.min(rest.len()))], size, port) {
                Ok(sent) => left += sent,
                Err(SendBlocked::Full) => break,
                // Each is longer than what the path carries now, and goes in pieces.
                Err(SendBlocked::TooLong { room }) if room.max(ROOM_MIN) < self.room => {
                    self.room = room.max(ROOM_MIN);
                }
                // The path carries less than any path may: it is lost.
                Err(SendBlocked::TooLong { .. }) => left += size.min(rest.len()),
            }
        }
        left
    }

    /// Sends one datagram of a train, or several. How many bytes that were.
    fn send_some_of(
        &self,
        train: &[u8],
        size: usize,
        port: &mut impl DatagramPort,
    ) -> Result<usize, SendBlocked> {
        let one = &train[..size.min(train.len())];
        if one.len() > self.room {
            // The path does not carry even that: it is lost.
            let is_full = port.send_long(one) == Err(SendBlocked::Full);
            return if is_full { Err(SendBlocked::Full) } else { Ok(one.len()) };
        }
        if train.len() > size
            && port.cuts()
            && let Ok(size) = u16::try_from(size)
            && port.send_cut(&[IoSlice::new(train)], size)? == SegmentedSend::Sent
        {
            return Ok(train.len());
        }
        port.send_small(one)?;
        Ok(one.len())
    }

    /// Sends until there is nothing more, or no room.
    #[inline]
    pub(super) fn pump(&mut self, port: &mut impl DatagramPort, notices: &mut Notices) {
        while let Some(leaving) = self.next() {
            match self.leave(leaving, port) {
                Ok(posted) => {
                    self.sent += 1;
                    let descriptor = posted.descriptor();
                    let (len, tag) = (descriptor.len(), descriptor.tag());
                    posted.complete(len, tag, notices);
                }
                Err(leaving) => {
                    self.current = Some(leaving);
                    return;
                }
            }
        }
    }

    #[inline]
    fn next(&mut self) -> Option<PartlySent> {
        if self.current.is_some() {
            return self.current.take();
        }
        let posted = self.waiting.pop_front()?;
        Some(self.start(posted))
    }

    /// Begins a message, or begins it anew.
    fn start(&mut self, posted: Posted) -> PartlySent {
        let number = self.next_number;
        self.next_number += 1;
        let descriptor = posted.descriptor();
        let len = u32::try_from(descriptor.len()).expect("posting refused more");
        debug_assert!(len <= MESSAGE_MAX);
        let extra = match &self.to {
            Destination::End(_) => extra(descriptor.kind(), false, false),
            Destination::Group(seal) => extra(descriptor.kind(), true, seal.is_signed()),
        };
        let split = MessageSplit::new(len, self.room - self.sealing, extra);
        PartlySent { number, split, index: 0, posted }
    }

    /// Sends the pieces of a message that have not left.
    #[inline]
    fn leave(
        &mut self,
        mut leaving: PartlySent,
        port: &mut impl DatagramPort,
    ) -> Result<Posted, PartlySent> {
        while leaving.index < leaving.split.count() {
            match self.send_some(&leaving, port) {
                Ok(sent) => leaving.index += sent,
                Err(SendBlocked::Full) => return Err(leaving),
                Err(SendBlocked::TooLong { room }) if room.max(ROOM_MIN) < self.room => {
                    self.room = room.max(ROOM_MIN);
                    leaving = self.start(leaving.posted);
                }
                // The path carries less than any path may: it is lost.
                Err(SendBlocked::TooLong { .. }) => leaving.index += 1,
            }
        }
        Ok(leaving.posted)
    }

    /// Sends a piece, or some. How many.
    #[inline]
    fn send_some(
        &self,
        leaving: &PartlySent,
        port: &mut impl DatagramPort,
    ) -> Result<u32, SendBlocked> {
        if let (Destination::End(to), false, true) =
            (&self.to, leaving.split.is_whole(), port.cuts())
        {
            let sent = leaving.send_cut(*to, self.sealing, port)?;
            if sent > 0 {
                return Ok(sent);
            }
        }
        self.send(leaving, port)?;
        Ok(1)
    }

    #[inline]
    fn send(&self, leaving: &PartlySent, port: &mut impl DatagramPort) -> Result<(), SendBlocked> {
        let descriptor = leaving.posted.descriptor();
        let piece = leaving.piece(leaving.index);
        let (offset, len) = leaving.split.range(leaving.index);
        if let (Destination::End(to), true) =
            (&self.to, leaving.split.is_whole() && len as usize <= SMALL)
        {
            let mut datagram = SmallHead::of_piece(*to, &piece);
            descriptor.gather(0, datagram.more(len as usize));
            return port.send_small(datagram.bytes());
        }
        let mut slices = [IoSlice::new(&[]); SEGMENTS_MAX + 2];
        match &self.to {
            Destination::End(to) => {
                let head: UdpHead = UdpHead::of_piece(*to, &piece);
                slices[0] = IoSlice::new(head.bytes());
                let used = 1 + gather(descriptor, (offset, len), &mut slices[1..]);
                port.send(&slices[..used])
            }
            Destination::Group(seal) => {
                let head = seal.head(&piece);
                slices[0] = IoSlice::new(head.bytes());
                let used = 1 + gather(descriptor, (offset, len), &mut slices[1..]);
                let signature: Option<[u8; SIGNATURE]> = seal.sign(&slices[..used]);
                match &signature {
                    None => port.send(&slices[..used]),
                    Some(signature) => {
                        slices[used] = IoSlice::new(signature);
                        port.send(&slices[..=used])
                    }
                }
            }
        }
    }

    /// Takes back what has not begun.
    pub(super) fn cancel(&mut self, ticket: Ticket) -> Option<Posted> {
        let at = self.waiting.iter().position(|posted| posted.ticket() == ticket)?;
        self.waiting.remove(at)
    }

    /// Everything that is not back, in the order it was posted.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Posted> + '_ {
        let current = self.current.take().map(|leaving| leaving.posted);
        current.into_iter().chain(self.waiting.drain(..))
    }
}

impl PartlySent {
    /// What the header of a piece says.
    #[inline]
    fn piece(&self, index: u32) -> UdpPiece<'_> {
        let descriptor = self.posted.descriptor();
        let kind = descriptor
            .kind()
            .map(|kind| UdpKind { fingerprint: kind.fingerprint, name: &kind.name });
        let (number, split, tag) = (self.number, self.split, descriptor.tag());
        let eager = self.posted.is_eager();
        UdpPiece { number, tag, eager, split, index, kind, bytes: &[] }
    }

    /// Sends several pieces together. How many; none if that is not to be had.
    fn send_cut(
        &self,
        to: ConnectionNumber,
        sealing: usize,
        port: &mut impl DatagramPort,
    ) -> Result<u32, SendBlocked> {
        let head = |index| -> UdpHead { UdpHead::of_piece(to, &self.piece(index)) };
        let size = head(self.index).bytes().len() + self.split.unit as usize;
        let fitting = u32::try_from(DATAGRAM_MAX / (size + sealing)).expect("a few").min(TOGETHER);
        let count = fitting.min(self.split.count() - self.index);
        let (Ok(size), 2..) = (u16::try_from(size), count) else { return Ok(0) };
        let heads: Vec<UdpHead> = (self.index..self.index + count).map(head).collect();
        let descriptor = self.posted.descriptor();
        let mut slices = Vec::with_capacity(heads.len() * (1 + descriptor.segment_count()));
        for (head, index) in heads.iter().zip(self.index..) {
            let mut space = [IoSlice::new(&[]); SEGMENTS_MAX];
            let used = gather(descriptor, self.split.range(index), &mut space);
            slices.push(IoSlice::new(head.bytes()));
            slices.extend_from_slice(&space[..used]);
        }
        if slices.len() > SLICES_MAX {
            return Ok(0);
        }
        match port.send_cut(&slices, size)? {
            SegmentedSend::Sent => Ok(count),
            SegmentedSend::NotHere => Ok(0),
        }
    }
}

/// Datagrams that the system cuts out of one.
const TOGETHER: u32 = 64;
/// Slices that the system takes at once.
const SLICES_MAX: usize = 1024;

/// Where the bytes of a descriptor lie. How many slices that are.
#[inline]
fn gather<'a>(
    descriptor: &'a Descriptor,
    (offset, len): (u32, u32),
    slices: &mut [IoSlice<'a>],
) -> usize {
    let (mut skip, mut left, mut used) = (offset as usize, len as usize, 0);
    for segment in descriptor.segments() {
        let bytes = segment.bytes();
        if skip >= bytes.len() {
            skip -= bytes.len();
            continue;
        }
        let part = &bytes[skip..];
        let part = &part[..part.len().min(left)];
        skip = 0;
        left -= part.len();
        slices[used] = IoSlice::new(part);
        used += 1;
        if left == 0 {
            break;
        }
    }
    used
}
