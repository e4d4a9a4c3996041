//! One link: what is to be sent, lane by lane, the tables of what may arrive, and what carries its
//! frames.

use std::collections::VecDeque;
use std::sync::Arc;

use egret_net::vi::{Descriptor, PublicKey};

use super::core::Fixed;
use crate::am::Tables;
use crate::link::carrier::Carrier;
use crate::link::control::Control;
use crate::link::lands::Lands;
use crate::link::{Head, Kind, Lane, LinkError};

/// One side of a link.
#[derive(Debug)]
pub(crate) struct Line {
    /// The other side's host.
    pub(crate) peer: String,
    pub(crate) lands: Arc<Lands>,
    pub(crate) am: Tables,
    /// Segments that a frame may have.
    pub(crate) segments: usize,
    /// Frames that wait for room, or for a window, lane by lane.
    pub(crate) outbox: [VecDeque<Descriptor>; 3],
    /// The parts of a long frame of control that have come.
    pub(crate) control_parts: Vec<u8>,
    pub(crate) carrier: Carrier,
    /// Which of the peer's lives it is with, once that is known.
    pub(crate) incarnation: Option<u64>,
    /// Which of all links it is.
    pub(crate) made: u64,
    /// The number that who called gave it.
    pub(crate) number: u64,
    /// Whether this side called.
    pub(crate) called: bool,
    /// Whether this side has said why it closes it.
    pub(crate) parts: bool,
    /// Why it is no more, if it is not.
    pub(crate) ended: Option<LinkError>,
}

impl Line {
    pub(crate) fn new(
        peer: &str,
        fixed: &Fixed,
        lands: Arc<Lands>,
        carrier: Carrier,
        called: bool,
    ) -> Self {
        Self {
            peer: peer.to_owned(),
            lands,
            am: Tables { answers_max: fixed.options.budget, ..Tables::default() },
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
        self.is_idle() && !self.has_waiting() && self.carrier.is_through()
    }

    /// Puts a frame behind those of its lane.
    #[inline]
    pub(crate) fn push(&mut self, lane: Lane, frame: Descriptor) {
        self.outbox[lane as usize].push_back(frame);
    }

    pub(crate) fn control(&mut self, control: &Control) {
        let head = Head::of(Kind::Control, 0).to_bits();
        self.push(Lane::Control, Descriptor::new(control.to_bytes()).with_tag(head));
    }

    /// The next frame of a lane.
    #[inline]
    pub(crate) fn pop(&mut self, lane: Lane) -> Option<Descriptor> {
        self.outbox[lane as usize].pop_front()
    }

    /// Puts a frame that could not be sent back in front.
    pub(crate) fn unpop(&mut self, lane: Lane, frame: Descriptor) {
        self.outbox[lane as usize].push_front(frame);
    }

    /// Whether more waits than an honest peer lets wait: it asks, and does not take what it
    /// is answered. Of an honest peer answers are within the windows of its mappings, as what this
    /// side's program sends is within those of the program's; data is within its credit.
    #[inline]
    pub(crate) fn is_flooded(&self) -> bool {
        let talk = self.outbox[Lane::Talk as usize].len();
        self.outbox[Lane::Control as usize].len() > CONTROL_FRAMES_MAX
            || talk > TALK_FRAMES_MAX && talk as u64 > self.am.windows()
    }

    /// Whether no short frame waits to be sent.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.outbox[Lane::Control as usize].is_empty()
            && self.outbox[Lane::Talk as usize].is_empty()
    }

    /// Whether nothing waits to be sent.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.outbox.iter().all(VecDeque::is_empty)
    }

    /// Sends a frame of words and pieces of bytes: now, or behind those that wait, which is to be
    /// [pumped](super::state::State::pump) then. Whether it has gone.
    #[inline]
    pub(crate) fn say(&mut self, head: Head, words: &[u64], pieces: &[&[u8]]) -> bool {
        let mut space = [0; Head::WORDS_MAX * 8];
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
        self.push(Lane::Talk, Descriptor::new(bytes).with_tag(tag));
    }

    /// Whether [`pump`](Self::pump) has something to do.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        !self.is_idle() || !self.carrier.is_open()
    }

    /// Sends what there is room for. Whether short frames wait for more.
    pub(crate) fn pump(&mut self) -> bool {
        let mut waits = false;
        for lane in Lane::ALL {
            while let Some(frame) = self.pop(lane) {
                if let Err(frame) = self.carrier.post(lane, frame) {
                    self.unpop(lane, frame);
                    waits |= lane != Lane::Bulk;
                    break;
                }
            }
        }
        waits
    }
}

/// Words as they travel, at the beginning of `space`.
#[inline]
fn as_bytes<'a>(words: &[u64], space: &'a mut [u8; Head::WORDS_MAX * 8]) -> &'a [u8] {
    for (to, word) in space.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    &space[..words.len() * 8]
}

/// Short frames that may wait in any case; more are counted.
const TALK_FRAMES_MAX: usize = 1 << 12;
/// Frames of control that may wait: they are caused by the peer alone.
const CONTROL_FRAMES_MAX: usize = 1 << 14;
