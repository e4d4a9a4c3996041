//! Received frames of links: short ones are drained here, and all are dispatched by their kind.

use egret_net::vi::{Drain, EAGER_MAX, ViId};

use super::state::LinksState;
use super::table::ConnectionOwner;
use crate::frame::{ArrivedFrame, FrameHead, FrameKind, LinkLane};
use crate::link::connection::PART;
use crate::link::control::{CONTROL_MAX, LinkControl};
use crate::slots::SlotKey;

impl LinksState {
    /// Drains short frames that have arrived, at most `budget`. Returns how many there were.
    ///
    /// Messages and answers are handled where they lie. Other frames may have to be answered, which is
    /// not possible inside a drain: such a frame, and all behind it, are handled after the drain.
    #[inline]
    pub(crate) fn drain(&mut self, drain: &Drain, budget: usize) -> usize {
        let count = drain.take(budget, &mut |reply, tag, bytes| {
            let vi = reply.vi();
            if !self.drained.is_empty() || !self.heard_at_once(vi, tag, bytes) {
                let frame = self.short_frame(tag, bytes);
                self.drained.push((vi, frame));
            }
        });
        if !self.drained.is_empty() {
            self.hear_drained();
        }
        count
    }

    /// Handles an answer of a few words, or a message for a handler. `false` if that is not possible
    /// inside a drain, and nothing was done.
    #[inline]
    fn heard_at_once(&mut self, vi: ViId, tag: u64, bytes: &[u8]) -> bool {
        let (Some(head), Some(ConnectionOwner::Link(link))) =
            (FrameHead::from_bits(tag), self.connections.owner(vi))
        else {
            return false;
        };
        match head.kind {
            FrameKind::Reply => self.answered_at_once(link, head, bytes),
            FrameKind::Request | FrameKind::OneWay => self.deliver_at_once(link, head, bytes),
            _ => false,
        }
    }

    #[cold]
    fn hear_drained(&mut self) {
        let mut drained = std::mem::take(&mut self.drained);
        for (vi, frame) in drained.drain(..) {
            self.heard_short(vi, frame);
        }
        self.drained = drained;
    }

    #[inline]
    fn short_frame(&mut self, tag: u64, bytes: &[u8]) -> Result<ArrivedFrame, &'static str> {
        let head = FrameHead::from_bits(tag).ok_or("a frame of an unknown kind")?;
        Ok(ArrivedFrame::from_parts(head, None, self.copied(bytes)))
    }

    /// Bytes in memory of their own.
    #[inline]
    pub(crate) fn copied(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut memory = self.scratch.pop().unwrap_or_default();
        memory.extend_from_slice(bytes);
        memory
    }

    #[inline]
    fn heard_short(&mut self, vi: ViId, frame: Result<ArrivedFrame, &'static str>) {
        let link = match self.connections.owner(vi) {
            Some(ConnectionOwner::Link(link)) => link,
            Some(ConnectionOwner::Stranger(stranger)) => {
                return self.stranger_said(stranger, frame);
            }
            Some(ConnectionOwner::Path(_)) | None => return,
        };
        if let Some(line) = self.links.get(link) {
            if line.ended.is_some() {
                return;
            }
            let bytes = frame.as_ref().map_or(0, |arrived| arrived.bytes().len());
            line.carrier.count_eager(bytes);
        }
        let heard = frame.and_then(|arrived| match arrived.head.kind.lane() {
            LinkLane::Bulk => Err("a frame on the wrong lane"),
            LinkLane::Control | LinkLane::Talk => self.hear(link, arrived),
        });
        if let Err(why) = heard {
            self.cut_off(link, why);
        }
    }

    /// Sends what waited for room.
    #[inline]
    pub(crate) fn pump_blocked(&mut self) {
        for link in self.links.take_blocked() {
            self.pump(link);
        }
    }

    /// A frame has arrived.
    ///
    /// # Errors
    ///
    /// How the peer broke the protocol.
    #[inline]
    pub(crate) fn hear(
        &mut self,
        link: SlotKey,
        arrived: ArrivedFrame,
    ) -> Result<(), &'static str> {
        match arrived.head.kind {
            FrameKind::Request | FrameKind::OneWay | FrameKind::Bulk => self.deliver(link, arrived),
            FrameKind::Reply | FrameKind::NoReply | FrameKind::BulkReply => {
                self.answered(link, arrived)
            }
            FrameKind::Returned => self.returned(link, arrived),
            FrameKind::Place | FrameKind::NoPlace => self.placed(link, arrived),
            FrameKind::Control => self.heard_control(link, arrived),
            FrameKind::Part | FrameKind::Last | FrameKind::Abort | FrameKind::End => {
                self.heard_channel(link, arrived)
            }
        }
    }

    fn heard_control(&mut self, link: SlotKey, arrived: ArrivedFrame) -> Result<(), &'static str> {
        let line = self.links.get(link).ok_or("no link")?;
        let parts = &mut line.control_parts;
        if (parts.len() + arrived.bytes().len()) as u64 > CONTROL_MAX {
            return Err("a frame of control that is too long");
        }
        if arrived.head.handler == PART {
            parts.extend_from_slice(arrived.bytes());
            self.release(arrived);
            return Ok(());
        }
        let arrived = if parts.is_empty() {
            arrived
        } else {
            let whole = [&std::mem::take(parts)[..], arrived.bytes()].concat();
            let head = arrived.head;
            self.release(arrived);
            ArrivedFrame::from_parts(head, None, whole)
        };
        let control =
            LinkControl::from_bytes(arrived.bytes()).ok_or("a frame of control that is none")?;
        self.release(arrived);
        let line = self.links.get(link).ok_or("no link")?;
        let says_hello = matches!(
            control,
            LinkControl::Hello(_) | LinkControl::Crossed | LinkControl::Full { .. }
        );
        if line.incarnation.is_none() && !says_hello {
            return Err("a frame before the hello");
        }
        match control {
            LinkControl::Hello(hello) => self.handshake_done(link, &hello),
            LinkControl::Crossed => {
                self.crossed(link);
                Ok(())
            }
            LinkControl::Full { links } if line.called && line.incarnation.is_none() => {
                self.full(link, links);
                Ok(())
            }
            LinkControl::Full { .. } => Err("it reported itself full for an existing link"),
            LinkControl::Map(map) => self.asked_to_map(link, &map),
            LinkControl::Mapped(mapped) => self.mapped(link, mapped),
            LinkControl::NotMapped { number, why } => self.not_mapped(link, number, why),
            LinkControl::Unmap { slot } => self.unmapped(link, slot),
            LinkControl::Unmapped { number } => self.unmap_known(link, number),
            LinkControl::Leave { slot } => self.leaves(link, slot),
            LinkControl::Credit { number, messages } => self.credited(link, number, messages),
            LinkControl::Ask { flow, ask } => self.asked(link, flow, ask),
            LinkControl::Tell { flow, tell } => self.told(link, flow, tell),
            LinkControl::Channel(control) => self.heard_channel_control(link, control),
            LinkControl::Failed { why } => self.peer_failed(link, &why),
        }
    }

    /// Keeps the memory of a frame that was handled for the next one.
    #[inline]
    pub(crate) fn release(&mut self, arrived: ArrivedFrame) {
        self.keep_scratch(arrived.into_own());
    }

    /// Keeps memory for the next frame.
    #[inline]
    pub(crate) fn keep_scratch(&mut self, mut memory: Vec<u8>) {
        if self.scratch.len() < SCRATCH_MAX && memory.capacity() <= EAGER_MAX {
            memory.clear();
            self.scratch.push(memory);
        }
    }
}

/// Buffers of handled frames that are kept.
const SCRATCH_MAX: usize = 256;
