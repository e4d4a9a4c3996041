//! The connection of a link. Short frames are sent as eager messages; frames that may be large are
//! posted.

use std::sync::Arc;

use egret_net::rt::Instant;
use egret_net::vi::{
    self, Descriptor, DirectPlacement, EAGER_MAX, Position, PostError, PublicKey, RemoteSlice,
    Trust, Vi, ViError, ViId,
};

use super::{Fate, LinkCounters};
use crate::frame::{FrameHead, FrameKind, LinkLane};
use std::collections::VecDeque;

/// The connection of a link.
#[derive(Debug)]
pub(crate) struct LinkConnection {
    vi: Vi,
    /// Posted sends and remote accesses under way.
    under_way: u32,
    depth: u32,
    /// Whether a frame was not taken, for the connection is broken.
    refused: bool,
    /// How far the talk lane was written.
    position: Position,
    kept: UnansweredFrames,
    /// At how many kept frames to ask how far the peer has received.
    look_at: usize,
    /// Bytes of the next frame of control that have gone before.
    gone: usize,
    done: ConnectionCounts,
}

/// What a connection has carried, as far as its nic does not count it: short frames, and the bytes of all frames.
#[derive(Debug, Default)]
struct ConnectionCounts {
    sent: u64,
    received: u64,
    sent_bytes: u64,
    received_bytes: u64,
}

impl LinkConnection {
    pub(crate) fn new(vi: Vi) -> Self {
        let depth = vi.nic().limits().queue_depth;
        Self {
            vi,
            under_way: 0,
            depth,
            refused: false,
            position: Position::default(),
            kept: UnansweredFrames::default(),
            look_at: KEPT_MANY,
            gone: 0,
            done: ConnectionCounts::default(),
        }
    }

    /// Hands a frame that waited to the fabric, or gives it back if that has no room or is broken.
    pub(crate) fn post(&mut self, lane: LinkLane, frame: Descriptor) -> Result<(), Descriptor> {
        if lane == LinkLane::Bulk { self.post_bulk(frame) } else { self.send_whole(frame) }
    }

    /// A frame like this has come back, and is not to come back once more if the link ends.
    pub(crate) fn came_back(&mut self, head: FrameHead, parts: &[&[u8]]) {
        self.kept.came_back(head.to_bits(), parts);
    }

    /// Whether it is not known to be broken.
    #[inline]
    pub(crate) const fn is_open(&self) -> bool {
        !self.refused
    }

    /// Fills `memory` from the peer's; `false` if that cannot be asked for now.
    pub(crate) fn read(&mut self, memory: Descriptor, from: RemoteSlice) -> bool {
        let posted = self.vi.post_read(memory, from).is_ok();
        self.under_way += u32::from(posted);
        posted
    }

    /// Copies `memory` to the peer's; `false` if that cannot be asked for now.
    pub(crate) fn write(&mut self, memory: Descriptor, to: RemoteSlice) -> bool {
        let len = memory.len();
        let posted = self.vi.post_write(memory, to).is_ok();
        self.under_way += u32::from(posted);
        self.done.sent_bytes += if posted { len } else { 0 };
        posted
    }

    /// A send has come back.
    #[inline]
    pub(crate) const fn sent(&mut self) {
        self.under_way -= 1;
    }

    /// Receives into `receive` again, if that is what it was. What is broken needs no receive.
    #[inline]
    pub(crate) fn receive(&self, receive: Descriptor) {
        drop(self.vi.post_recv(receive));
    }

    /// Whether no frames are with the fabric that will come back.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.under_way == 0
    }

    /// Whether the peer has all that was sent.
    pub(crate) fn is_through(&self) -> bool {
        let arrived = self.vi.arrived(vi::Lane::Talk);
        self.under_way == 0 && arrived >= self.position
    }

    /// Why its connection is broken, if that took nothing when something was to be sent:
    /// nothing may complete any more that would say so.
    #[inline]
    pub(crate) fn broken(&self) -> Option<ViError> {
        if self.refused { self.vi.error() } else { None }
    }

    pub(crate) const fn id(&self) -> ViId {
        self.vi.id()
    }

    /// The key that the peer has proven.
    pub(crate) fn peer_key(&self) -> Option<PublicKey> {
        self.vi.peer_key()
    }

    /// Whether what it carries is encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.vi.is_encrypted()
    }

    /// How far its sides trust each other.
    pub(crate) fn trust(&self) -> Trust {
        self.vi.trust()
    }

    /// Adds what it has done so far.
    pub(crate) fn count(&self, counters: &mut LinkCounters) {
        let posted = self.vi.counters();
        counters.sent += posted.sent + self.done.sent;
        counters.received += posted.received + self.done.received;
        counters.sent_bytes += self.done.sent_bytes;
        counters.received_bytes += self.done.received_bytes;
    }

    /// A short frame has come.
    #[inline]
    pub(crate) const fn count_eager(&mut self, bytes: usize) {
        self.done.received += 1;
        self.done.received_bytes += bytes as u64;
    }

    /// What was posted for receiving or reading has come.
    #[inline]
    pub(crate) const fn count_bytes(&mut self, bytes: u64) {
        self.done.received_bytes += bytes;
    }

    /// The time by the clock of its nic.
    #[cold]
    pub(crate) fn now(&self) -> Instant {
        self.vi.nic().now()
    }

    fn post_bulk(&mut self, frame: Descriptor) -> Result<(), Descriptor> {
        if self.under_way >= self.depth {
            return Err(frame);
        }
        let len = frame.len();
        match self.vi.post_send(frame) {
            Ok(_) => {
                self.under_way += 1;
                self.done.sent_bytes += len;
                Ok(())
            }
            Err(refused) => {
                self.refused = true;
                Err(refused.what)
            }
        }
    }

    /// Sends a short frame from where its parts are, which is out of our hands then. Only if nothing
    /// will answer it, it is kept until it has arrived. `false` if it cannot be sent now.
    #[inline]
    pub(crate) fn send(&mut self, tag: u64, parts: &[&[u8]]) -> bool {
        match self.vi.send_eager(vi::Lane::Talk, tag, parts) {
            Ok(position) => {
                self.position = position;
                self.done.sent += 1;
                self.done.sent_bytes += parts.iter().map(|part| part.len() as u64).sum::<u64>();
                if tag >> KIND_SHIFT == FrameKind::OneWay as u64 {
                    self.keep(position, tag, parts);
                }
                true
            }
            Err(why) => {
                self.refused |= why != PostError::LaneFull;
                false
            }
        }
    }

    #[inline]
    fn keep(&mut self, position: Position, tag: u64, parts: &[&[u8]]) {
        self.kept.push(position, tag, parts);
        if self.kept.len() >= self.look_at {
            self.look();
        }
    }

    /// Looks how far the peer is.
    #[cold]
    fn look(&mut self) {
        self.kept.arrived(self.vi.arrived_so_far(vi::Lane::Talk));
        self.look_at = self.kept.len() + KEPT_MANY;
    }

    fn send_whole(&mut self, frame: Descriptor) -> Result<(), Descriptor> {
        let bytes = frame.bytes();
        if bytes.len() > EAGER_MAX {
            return self.send_in_parts(frame);
        }
        if self.send(frame.tag(), &[bytes]) { Ok(()) } else { Err(frame) }
    }

    /// Sends a long frame of control: parts of it first, which say that they are.
    #[cold]
    fn send_in_parts(&mut self, frame: Descriptor) -> Result<(), Descriptor> {
        debug_assert_eq!(
            frame.tag(),
            FrameHead::of(FrameKind::Control, 0).to_bits(),
            "others are shorter"
        );
        let (part, last) =
            (FrameHead { handler: PART, ..FrameHead::of(FrameKind::Control, 0) }, frame.tag());
        while self.gone < frame.bytes().len() {
            let rest = &frame.bytes()[self.gone..];
            let now = &rest[..rest.len().min(EAGER_MAX)];
            let tag = if now.len() < rest.len() { part.to_bits() } else { last };
            match self.vi.send_eager(vi::Lane::Talk, tag, &[now]) {
                Ok(position) => {
                    self.position = position;
                    self.gone += now.len();
                    self.done.sent_bytes += now.len() as u64;
                }
                Err(why) => {
                    self.refused |= why != PostError::LaneFull;
                    return Err(frame);
                }
            }
        }
        self.gone = 0;
        Ok(())
    }

    /// Closes it. Short frames that may not have arrived come back here, the rest by its
    /// completions.
    pub(crate) fn close(&mut self) -> Vec<(Descriptor, Fate)> {
        self.kept.arrived(self.vi.arrived_so_far(vi::Lane::Talk));
        self.vi.disconnect();
        self.kept.take_all().into_iter().map(|frame| (frame, Fate::Unknown)).collect()
    }
}

/// Posts what a connection receives into. A connection that is broken already says so by
/// what completes.
pub(crate) fn post_receives(vi: &Vi, count: u32, largest: u64, landing: &Arc<dyn DirectPlacement>) {
    for _ in 0..count {
        let own = vec![0_u8; OWN_BYTES];
        let receive = Descriptor::landing(own, largest, Arc::clone(landing));
        drop(vi.post_recv(receive));
    }
}

/// The handler that a part of a frame of control names: another part follows.
pub(crate) const PART: u8 = 1;
/// Frames that are kept beyond those known not to have arrived, before anybody looks again.
const KEPT_MANY: usize = 128;
const KIND_SHIFT: u32 = 60;
/// Bytes that a receive holds without asking for memory: the words of a message, and a
/// short payload.
pub(crate) const OWN_BYTES: usize = 256;

/// The frames, one behind another.
#[derive(Debug, Default)]
pub(crate) struct UnansweredFrames {
    frames: VecDeque<UnansweredFrame>,
    bytes: VecDeque<u8>,
}

#[derive(Debug)]
struct UnansweredFrame {
    /// How far the lane was written with it.
    end: Position,
    tag: u64,
    len: usize,
}

impl UnansweredFrames {
    /// Copies a frame that was sent.
    #[inline]
    pub(crate) fn push(&mut self, end: Position, tag: u64, parts: &[&[u8]]) {
        let before = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend(*part));
        self.frames.push_back(UnansweredFrame { end, tag, len: self.bytes.len() - before });
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Forgets those that have arrived.
    pub(crate) fn arrived(&mut self, position: Position) {
        let count = self.frames.partition_point(|frame| frame.end <= position);
        let bytes: usize = self.frames.drain(..count).map(|frame| frame.len).sum();
        self.bytes.drain(..bytes);
    }

    /// A frame like this has come back: it has arrived, and all before it.
    pub(crate) fn came_back(&mut self, tag: u64, parts: &[&[u8]]) {
        let mut at = 0;
        let found = self.frames.iter().find(|frame| {
            let bytes = self.bytes.range(at..at + frame.len);
            at += frame.len;
            frame.tag == tag && bytes.eq(parts.iter().copied().flatten())
        });
        if let Some(UnansweredFrame { end, .. }) = found {
            let end = *end;
            self.arrived(end);
        }
    }

    /// Takes out all, each as it would be posted.
    pub(crate) fn take_all(&mut self) -> Vec<Descriptor> {
        let Self { frames, bytes } = std::mem::take(self);
        let mut bytes = bytes.into_iter();
        let frame = |UnansweredFrame { tag, len, .. }| {
            Descriptor::new(bytes.by_ref().take(len).collect::<Vec<u8>>()).with_tag(tag)
        };
        frames.into_iter().map(frame).collect()
    }
}

#[cfg(test)]
mod unanswered_tests {
    use super::*;

    #[test]
    fn what_has_arrived_is_forgotten_and_the_rest_is_whole() {
        let mut kept = UnansweredFrames::default();
        for number in 1..=9_u8 {
            let part = vec![number; usize::from(number)];
            kept.push(Position::new(number.into()), number.into(), &[&part, b"end"]);
        }
        kept.arrived(Position::new(0));
        assert_eq!(kept.len(), 9);
        kept.came_back(5, &[&[5; 4], b"5end"]);
        assert_eq!(kept.len(), 9, "another one");
        kept.came_back(5, &[&[5; 4], b"\x05end"]);
        assert_eq!(kept.len(), 4, "and all before it");
        kept.arrived(Position::new(7));
        assert_eq!(kept.len(), 2);
        let rest = kept.take_all();
        let of = |number: u8| [&vec![number; usize::from(number)][..], b"end"].concat();
        assert_eq!(rest.iter().map(Descriptor::tag).collect::<Vec<_>>(), [8, 9]);
        assert_eq!(rest[0].bytes(), of(8));
        assert_eq!(rest[1].bytes(), of(9));
        assert_eq!(kept.len(), 0);
    }
}
