//! The sending half of one end: descriptors in, datagrams out.
//!
//! A send is complete when its last piece has left, which is at once unless the system
//! has no room: then what is left waits, in order. Bytes are gathered by the system from
//! where they were posted.

use std::collections::VecDeque;
use std::io::IoSlice;

use super::group::Seal;
use super::sealed::Outgoing;
use super::socket::Cut;
use super::wire::{
    DATAGRAM_MAX, Head, MESSAGE_MAX, Named, Number, Piece, SIGNATURE, SMALL, Small, Split, extra,
};
use crate::fabric::DATAGRAM_HEAD;
use crate::vi::{Descriptor, Notices, Posted, Ticket};

/// Where datagrams leave.
pub(super) trait Port {
    /// Sends one datagram, or loses it: nobody will know.
    fn send(&mut self, slices: &[IoSlice<'_>]) -> Result<(), Stuck>;
    /// Sends one that lies in one piece.
    #[inline]
    fn send_small(&mut self, bytes: &[u8]) -> Result<(), Stuck> {
        self.send(&[IoSlice::new(bytes)])
    }
    /// Whether it may be worth a try to send several together.
    fn cuts(&self) -> bool {
        false
    }
    /// Sends one that the path does not carry in one piece: the system cuts it.
    fn send_long(&mut self, bytes: &[u8]) -> Result<(), Stuck> {
        self.send_small(bytes)
    }
    /// Sends several datagrams of `size` bytes, the last of which may have less.
    fn send_cut(&mut self, _slices: &[IoSlice<'_>], _size: u16) -> Result<Cut, Stuck> {
        Ok(Cut::NotHere)
    }
}

/// Why a datagram did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stuck {
    /// The system has no room for it now.
    Full,
    /// It is larger than what the path carries now.
    TooLong { room: usize },
}

/// To whom.
#[derive(Debug)]
pub(super) enum To {
    End(Number),
    Group(Seal),
}

#[derive(Debug)]
pub(super) struct Sender {
    to: To,
    /// Bytes of a datagram that the path carries.
    room: usize,
    /// Bytes of them that the port needs.
    sealing: usize,
    waiting: VecDeque<Posted>,
    current: Option<Leaving>,
    next_number: u64,
    /// Messages that have left, ever.
    pub sent: u64,
}

/// A message of which the pieces before `index` have left.
#[derive(Debug)]
struct Leaving {
    posted: Posted,
    number: u64,
    split: Split,
    index: u32,
}

/// Segments that a descriptor may have.
pub(super) const SEGMENTS_MAX: usize = 64;
/// The smallest datagram that is heeded as the most a path carries.
pub(super) const ROOM_MIN: usize = 548;
/// What every path over IPv6 carries: 1280 bytes with their headers.
pub(super) const ROOM_ANYWHERE: usize = 1232;

impl Sender {
    pub(super) fn new(to: To, room: usize) -> Self {
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
    pub(super) fn push(&mut self, posted: Posted, port: &mut impl Port, notices: &mut Notices) {
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
        seal: Option<&mut Outgoing>,
        port: &mut impl Port,
    ) -> usize {
        let To::End(to) = self.to else { return train.len() };
        if let Some(seal) = seal {
            train.chunks_mut(size).for_each(|datagram| seal.seal_window(to, datagram));
        } else {
            for datagram in train.chunks_mut(size) {
                let len = datagram.len() - DATAGRAM_HEAD;
                datagram[..DATAGRAM_HEAD].copy_from_slice(&Head::window(to, len));
            }
        }
        let mut left = 0;
        while left < train.len() {
            let rest = &train[left..];
            let several = rest.len().min(size * TOGETHER as usize).min(DATAGRAM_MAX / size * size);
            match self.send_some_of(&rest[..several.max(size.min(rest.len()))], size, port) {
                Ok(sent) => left += sent,
                Err(Stuck::Full) => break,
                // Each is longer than what the path carries now, and goes in pieces.
                Err(Stuck::TooLong { room }) if room.max(ROOM_MIN) < self.room => {
                    self.room = room.max(ROOM_MIN);
                }
                // The path carries less than any path may: it is lost.
                Err(Stuck::TooLong { .. }) => left += size.min(rest.len()),
            }
        }
        left
    }

    /// Sends one datagram of a train, or several. How many bytes that were.
    fn send_some_of(
        &self,
        train: &[u8],
        size: usize,
        port: &mut impl Port,
    ) -> Result<usize, Stuck> {
        let one = &train[..size.min(train.len())];
        if one.len() > self.room {
            // The path does not carry even that: it is lost.
            let is_full = port.send_long(one) == Err(Stuck::Full);
            return if is_full { Err(Stuck::Full) } else { Ok(one.len()) };
        }
        if train.len() > size
            && port.cuts()
            && let Ok(size) = u16::try_from(size)
            && port.send_cut(&[IoSlice::new(train)], size)? == Cut::Sent
        {
            return Ok(train.len());
        }
        port.send_small(one)?;
        Ok(one.len())
    }

    /// Sends until there is nothing more, or no room.
    #[inline]
    pub(super) fn pump(&mut self, port: &mut impl Port, notices: &mut Notices) {
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
    fn next(&mut self) -> Option<Leaving> {
        if self.current.is_some() {
            return self.current.take();
        }
        let posted = self.waiting.pop_front()?;
        Some(self.start(posted))
    }

    /// Begins a message, or begins it anew.
    fn start(&mut self, posted: Posted) -> Leaving {
        let number = self.next_number;
        self.next_number += 1;
        let descriptor = posted.descriptor();
        let len = u32::try_from(descriptor.len()).expect("posting refused more");
        debug_assert!(len <= MESSAGE_MAX);
        let extra = match &self.to {
            To::End(_) => extra(descriptor.kind(), false, false),
            To::Group(seal) => extra(descriptor.kind(), true, seal.is_signed()),
        };
        let split = Split::new(len, self.room - self.sealing, extra);
        Leaving { number, split, index: 0, posted }
    }

    /// Sends the pieces of a message that have not left.
    #[inline]
    fn leave(&mut self, mut leaving: Leaving, port: &mut impl Port) -> Result<Posted, Leaving> {
        while leaving.index < leaving.split.count() {
            match self.send_some(&leaving, port) {
                Ok(sent) => leaving.index += sent,
                Err(Stuck::Full) => return Err(leaving),
                Err(Stuck::TooLong { room }) if room.max(ROOM_MIN) < self.room => {
                    self.room = room.max(ROOM_MIN);
                    leaving = self.start(leaving.posted);
                }
                // The path carries less than any path may: it is lost.
                Err(Stuck::TooLong { .. }) => leaving.index += 1,
            }
        }
        Ok(leaving.posted)
    }

    /// Sends a piece, or some. How many.
    #[inline]
    fn send_some(&self, leaving: &Leaving, port: &mut impl Port) -> Result<u32, Stuck> {
        if let (To::End(to), false, true) = (&self.to, leaving.split.is_whole(), port.cuts()) {
            let sent = leaving.send_cut(*to, self.sealing, port)?;
            if sent > 0 {
                return Ok(sent);
            }
        }
        self.send(leaving, port)?;
        Ok(1)
    }

    #[inline]
    fn send(&self, leaving: &Leaving, port: &mut impl Port) -> Result<(), Stuck> {
        let descriptor = leaving.posted.descriptor();
        let piece = leaving.piece(leaving.index);
        let (offset, len) = leaving.split.range(leaving.index);
        if let (To::End(to), true) = (&self.to, leaving.split.is_whole() && len as usize <= SMALL) {
            let mut datagram = Small::of_piece(*to, &piece);
            descriptor.gather(0, datagram.more(len as usize));
            return port.send_small(datagram.bytes());
        }
        let mut slices = [IoSlice::new(&[]); SEGMENTS_MAX + 2];
        match &self.to {
            To::End(to) => {
                let head: Head = Head::of_piece(*to, &piece);
                slices[0] = IoSlice::new(head.bytes());
                let used = 1 + gather(descriptor, (offset, len), &mut slices[1..]);
                port.send(&slices[..used])
            }
            To::Group(seal) => {
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

impl Leaving {
    /// What the header of a piece says.
    #[inline]
    fn piece(&self, index: u32) -> Piece<'_> {
        let descriptor = self.posted.descriptor();
        let kind =
            descriptor.kind().map(|kind| Named { fingerprint: kind.fingerprint, name: &kind.name });
        let (number, split, tag) = (self.number, self.split, descriptor.tag());
        let eager = self.posted.is_eager();
        Piece { number, tag, eager, split, index, kind, bytes: &[] }
    }

    /// Sends several pieces together. How many; none if that is not to be had.
    fn send_cut(&self, to: Number, sealing: usize, port: &mut impl Port) -> Result<u32, Stuck> {
        let head = |index| -> Head { Head::of_piece(to, &self.piece(index)) };
        let size = head(self.index).bytes().len() + self.split.unit as usize;
        let fitting = u32::try_from(DATAGRAM_MAX / (size + sealing)).expect("a few").min(TOGETHER);
        let count = fitting.min(self.split.count() - self.index);
        let (Ok(size), 2..) = (u16::try_from(size), count) else { return Ok(0) };
        let heads: Vec<Head> = (self.index..self.index + count).map(head).collect();
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
            Cut::Sent => Ok(count),
            Cut::NotHere => Ok(0),
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
