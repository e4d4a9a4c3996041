//! One side of a link: the frames that wait to be sent, lane by lane, the tables of active messages,
//! and the connection.

use std::collections::VecDeque;
use std::sync::Arc;

use egret_net::vi::{Descriptor, PublicKey};

use super::core::LinksSetup;
use crate::am::LinkMappings;
use crate::am::fault::{Fault, planted};
use crate::frame::{FrameHead, FrameKind, LinkLane};
use crate::link::LinkError;
use crate::link::connection::LinkConnection;
use crate::link::control::LinkControl;
use crate::link::placement::Placement;

/// One side of a link.
#[derive(Debug)]
pub(crate) struct LinkSide {
    /// The other side's host.
    pub(crate) peer: String,
    pub(crate) lands: Arc<Placement>,
    pub(crate) am: LinkMappings,
    /// Segments that a frame may have.
    pub(crate) segments: usize,
    /// Frames that wait for room, or for a window, lane by lane.
    pub(crate) outbox: [VecDeque<Descriptor>; 3],
    /// The parts of a long frame of control that have arrived.
    pub(crate) control_parts: Vec<u8>,
    pub(crate) carrier: LinkConnection,
    /// The incarnation of the peer, once it has sent its hello.
    pub(crate) incarnation: Option<u64>,
    /// The number of this link among all that this side has made.
    pub(crate) made: u64,
    /// The number that the caller gave the link.
    pub(crate) number: u64,
    /// Whether this side made the connection.
    pub(crate) called: bool,
    /// Whether this side has sent the reason why it closes the link.
    pub(crate) parts: bool,
    /// Why the link has ended, if it has.
    pub(crate) ended: Option<LinkError>,
}

impl LinkSide {
    pub(crate) fn new(
        peer: &str,
        fixed: &LinksSetup,
        lands: Arc<Placement>,
        carrier: LinkConnection,
        called: bool,
    ) -> Self {
        Self {
            peer: peer.to_owned(),
            lands,
            am: LinkMappings { answers_max: fixed.options.budget, ..LinkMappings::default() },
            segments: fixed.nic.limits().segments_max as usize,
            outbox: Default::default(),
            control_parts: Vec::new(),
            carrier,
            incarnation: None,
            made: 0,
            number: 0,
            called,
            parts: false,
            ended: None,
        }
    }

    /// The key that the peer has proven.
    pub(crate) fn key(&self) -> Option<PublicKey> {
        self.carrier.peer_key()
    }

    /// Whether the peer called, and nothing is mapped by either side.
    pub(crate) fn is_unused(&self) -> bool {
        !self.called && self.am.incoming.len() + self.am.outgoing.len() == 0
    }

    /// Whether the peer has everything that was sent.
    pub(crate) fn is_through(&self) -> bool {
        let is_through = self.is_idle() && !self.has_waiting() && self.carrier.is_through();
        is_through || planted(Fault::Hasty)
    }

    /// Puts a frame behind those of its lane.
    #[inline]
    pub(crate) fn push(&mut self, lane: LinkLane, frame: Descriptor) {
        self.outbox[lane as usize].push_back(frame);
    }

    pub(crate) fn control(&mut self, control: &LinkControl) {
        let head = FrameHead::of(FrameKind::Control, 0).to_bits();
        self.push(LinkLane::Control, Descriptor::new(control.to_bytes()).with_tag(head));
    }

    /// The next frame of a lane.
    #[inline]
    pub(crate) fn pop(&mut self, lane: LinkLane) -> Option<Descriptor> {
        self.outbox[lane as usize].pop_front()
    }

    /// Puts a frame that could not be sent back in front.
    pub(crate) fn unpop(&mut self, lane: LinkLane, frame: Descriptor) {
        self.outbox[lane as usize].push_front(frame);
    }

    /// Whether more short frames wait than an honest peer causes: the peer sends requests and does not
    /// receive their answers. Answers to an honest peer are within the windows of its mappings, what
    /// the program of this side sends is within the windows of its own, and data is within credit.
    #[inline]
    pub(crate) fn is_flooded(&self) -> bool {
        let talk = self.outbox[LinkLane::Talk as usize].len();
        self.outbox[LinkLane::Control as usize].len() > CONTROL_FRAMES_MAX
            || talk > TALK_FRAMES_MAX && talk as u64 > self.am.windows()
    }

    /// Whether no short frame waits to be sent.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.outbox[LinkLane::Control as usize].is_empty()
            && self.outbox[LinkLane::Talk as usize].is_empty()
    }

    /// Whether nothing waits to be sent.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.outbox.iter().all(VecDeque::is_empty)
    }

    /// Sends a frame of words and pieces of bytes at once, or queues it behind the frames that wait, and
    /// the link must be [pumped](super::state::LinksState::pump) then. Whether it was sent.
    #[inline]
    pub(crate) fn say(&mut self, head: FrameHead, words: &[u64], pieces: &[&[u8]]) -> bool {
        let mut space = [0; FrameHead::WORDS_MAX * 8];
        let words = as_bytes(words, &mut space);
        let tag = head.to_bits();
        let has_gone = self.is_quiet()
            && match pieces {
                [] | [[]] => self.carrier.send(tag, &[words]),
                pieces => self.send_pieces(tag, words, pieces),
            };
        if !has_gone {
            self.say_later(tag, words, pieces);
        }
        has_gone
    }

    #[inline(never)]
    fn send_pieces(&mut self, tag: u64, words: &[u8], pieces: &[&[u8]]) -> bool {
        match pieces {
            [bytes] => self.carrier.send(tag, &[words, bytes]),
            [a, b] => self.carrier.send(tag, &[words, a, b]),
            [a, b, c] => self.carrier.send(tag, &[words, a, b, c]),
            _ => false,
        }
    }

    #[cold]
    fn say_later(&mut self, tag: u64, words: &[u8], pieces: &[&[u8]]) {
        let bytes = [&[words], pieces].concat().concat();
        self.push(LinkLane::Talk, Descriptor::new(bytes).with_tag(tag));
    }

    /// Whether [`pump`](Self::pump) has something to do.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        !self.is_idle() || !self.carrier.is_open()
    }

    /// Sends the frames that there is room for. Whether short frames wait for more room.
    pub(crate) fn pump(&mut self) -> bool {
        let mut waits = false;
        for lane in LinkLane::ALL {
            while let Some(frame) = self.pop(lane) {
                if let Err(frame) = self.carrier.post(lane, frame) {
                    self.unpop(lane, frame);
                    waits |= lane != LinkLane::Bulk;
                    break;
                }
            }
        }
        waits
    }
}

/// Words as they travel, at the beginning of `space`.
#[inline]
fn as_bytes<'a>(words: &[u64], space: &'a mut [u8; FrameHead::WORDS_MAX * 8]) -> &'a [u8] {
    for (to, word) in space.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    &space[..words.len() * 8]
}

/// Short frames that may wait in any case; more are counted.
const TALK_FRAMES_MAX: usize = 1 << 12;
/// Frames of control that may wait: they are caused by the peer alone.
const CONTROL_FRAMES_MAX: usize = 1 << 14;
