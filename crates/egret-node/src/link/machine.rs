//! One side of a link, without I/O, threads or clock: what is to be sent, lane by lane,
//! and the tables of what may arrive.

use std::collections::VecDeque;
use std::sync::Arc;

use egret_net::buf::Pool;
use egret_net::vi::Descriptor;

use super::carrier::OWN_BYTES;
use super::control::Control;
use super::lands::Lands;
use super::{Head, Kind, Lane};
use crate::am::Tables;
use crate::links::core::Fixed;

/// One side of a link.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The other side's host.
    pub(crate) peer: String,
    pub(crate) lands: Arc<Lands>,
    pub(crate) am: Tables,
    /// Segments that a frame may have.
    pub(crate) segments: usize,
    pub(crate) outbox: [VecDeque<Descriptor>; 3],
    /// Descriptors of short frames, to be used again.
    spare: Vec<Descriptor>,
    pool: Pool,
    /// The parts of a long frame of control that have come.
    pub(crate) parts: Vec<u8>,
}

impl Machine {
    pub(crate) fn new(peer: &str, fixed: &Fixed, lands: Arc<Lands>) -> Self {
        let (pool, segments) = (fixed.pool.clone(), fixed.nic.limits().segments_max as usize);
        let (peer, outbox, spare) = (peer.to_owned(), Default::default(), Vec::new());
        let (held_max, answers_max) = (fixed.receives() / 2, fixed.options.budget);
        let am = Tables { held_max, answers_max, ..Tables::default() };
        Self { peer, lands, am, segments, outbox, spare, pool, parts: Vec::new() }
    }

    /// A frame of words and bytes, which are copied.
    #[inline]
    pub(crate) fn frame(&mut self, head: Head, words: &[u64], bytes: &[u8]) -> Descriptor {
        let (mut frame, at) = self.begin_frame(head, words, bytes.len());
        frame.bytes_mut().expect(OWN)[at..].copy_from_slice(bytes);
        frame
    }

    /// A frame of words and several pieces of bytes, which are copied.
    pub(crate) fn frame_of(&mut self, head: Head, words: &[u64], pieces: &[&[u8]]) -> Descriptor {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        let (mut frame, at) = self.begin_frame(head, words, len);
        let mut to = &mut frame.bytes_mut().expect(OWN)[at..];
        for piece in pieces {
            let (here, behind) = to.split_at_mut(piece.len());
            here.copy_from_slice(piece);
            to = behind;
        }
        frame
    }

    /// A frame of words and room for so many bytes, and where that begins.
    #[inline]
    fn begin_frame(&mut self, head: Head, words: &[u64], bytes: usize) -> (Descriptor, usize) {
        let len = words.len() * 8 + bytes;
        let spare = if len <= OWN_BYTES { self.spare.pop() } else { None };
        let mut frame = spare.unwrap_or_else(|| self.new_frame(len));
        assert!(frame.resize(len) || frame.len() == len as u64, "a frame of this length");
        frame.set_tag(head.to_bits());
        let to = frame.bytes_mut().expect(OWN);
        for (to, word) in to.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        (frame, words.len() * 8)
    }

    #[cold]
    fn new_frame(&self, len: usize) -> Descriptor {
        match self.pool.take(len.max(OWN_BYTES)) {
            Ok(buf) => Descriptor::new(buf),
            Err(_) => Descriptor::new(vec![0_u8; len]),
        }
    }

    /// Keeps a short frame that was sent for the next one.
    #[inline]
    pub(crate) fn recycle(&mut self, mut frame: Descriptor) {
        if self.spare.len() < SPARE_MAX && frame.resize(OWN_BYTES) {
            self.spare.push(frame);
        }
    }

    /// Puts a frame behind those of its lane.
    #[inline]
    pub(crate) fn push(&mut self, lane: Lane, frame: Descriptor) {
        self.outbox[lane as usize].push_back(frame);
    }

    pub(crate) fn control(&mut self, control: &Control) {
        let frame = self.frame(Head::of(Kind::Control, 0), &[], &control.to_bytes());
        self.push(Lane::Control, frame);
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
    /// is answered.
    #[inline]
    pub(crate) fn is_flooded(&self) -> bool {
        self.outbox[Lane::Control as usize].len() > CONTROL_MAX
            || self.outbox.iter().any(|lane| lane.len() > OUTBOX_MAX)
    }

    /// Whether nothing waits to be sent.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.outbox.iter().all(VecDeque::is_empty)
    }
}

const OWN: &str = "memory of its own";
/// Frames that may wait in a lane. What this side's program sends is bounded by its windows;
/// what a peer is answered is bounded by this.
const OUTBOX_MAX: usize = 1 << 16;
/// Of control: it is caused by the peer alone.
const CONTROL_MAX: usize = 1 << 14;
/// Short frames that are kept, at most.
const SPARE_MAX: usize = 256;
