//! One side of a link, without I/O, threads or clock: what is to be sent, lane by lane,
//! and the tables of what may arrive.

use std::collections::VecDeque;
use std::sync::Arc;

use egret_net::vi::Descriptor;

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
    /// Frames that wait for room, or for a window, lane by lane.
    pub(crate) outbox: [VecDeque<Descriptor>; 3],
    /// The parts of a long frame of control that have come.
    pub(crate) parts: Vec<u8>,
}

impl Machine {
    pub(crate) fn new(peer: &str, fixed: &Fixed, lands: Arc<Lands>) -> Self {
        let segments = fixed.nic.limits().segments_max as usize;
        let (peer, outbox) = (peer.to_owned(), Default::default());
        let (held_max, answers_max) = (fixed.receives() / 2, fixed.options.budget);
        let am = Tables { held_max, answers_max, ..Tables::default() };
        Self { peer, lands, am, segments, outbox, parts: Vec::new() }
    }

    /// Puts a frame behind those of its lane.
    #[inline]
    pub(crate) fn push(&mut self, lane: Lane, frame: Descriptor) {
        self.outbox[lane as usize].push_back(frame);
    }

    pub(crate) fn control(&mut self, control: &Control) {
        self.control_bytes(control.to_bytes());
    }

    /// The same, of what is encoded already.
    pub(crate) fn control_bytes(&mut self, bytes: Vec<u8>) {
        let head = Head::of(Kind::Control, 0).to_bits();
        self.push(Lane::Control, Descriptor::new(bytes).with_tag(head));
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
}

/// Frames that may wait in a lane. What this side's program sends is bounded by its windows;
/// what a peer is answered is bounded by this.
const OUTBOX_MAX: usize = 1 << 16;
/// Of control: it is caused by the peer alone.
const CONTROL_MAX: usize = 1 << 14;
