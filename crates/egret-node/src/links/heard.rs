//! What the frames of a link say, and where short ones come from.

use egret_net::vi::{Drain, EAGER_MAX, ViId};

use super::slots::Key;
use super::state::{Place, State};
use crate::link::arrived::Arrived;
use crate::link::carrier::PART;
use crate::link::control::{CONTROL_MAX, Control};
use crate::link::{Head, Kind, Lane};

impl State {
    /// Takes short frames that have come, at most `budget`. How many there were.
    ///
    /// Messages and answers are heard where they lie. To hear others may be to send, which cannot
    /// be done inside a drain: they, and all that come behind them, are heard when it is over.
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

    /// Hears an answer of a few words, or a message for a handler. `false` if there is more to do
    /// than to take it in, and nothing was done.
    #[inline]
    fn heard_at_once(&mut self, vi: ViId, tag: u64, bytes: &[u8]) -> bool {
        let (Some(head), Some(Place::Link(link))) = (Head::from_bits(tag), self.place(vi)) else {
            return false;
        };
        match head.kind {
            Kind::Reply => self.answered_at_once(link, head, bytes),
            Kind::Request | Kind::OneWay => self.deliver_at_once(link, head, bytes),
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
    fn short_frame(&mut self, tag: u64, bytes: &[u8]) -> Result<Arrived, &'static str> {
        let head = Head::from_bits(tag).ok_or("a frame of no kind")?;
        Ok(Arrived::from_parts(head, None, self.copied(bytes)))
    }

    /// Bytes in memory of their own.
    #[inline]
    pub(crate) fn copied(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut memory = self.scratch.pop().unwrap_or_default();
        memory.extend_from_slice(bytes);
        memory
    }

    #[inline]
    fn heard_short(&mut self, vi: ViId, frame: Result<Arrived, &'static str>) {
        let link = match self.place(vi) {
            Some(Place::Link(link)) => link,
            Some(Place::Stranger(stranger)) => return self.stranger_said(stranger, frame),
            Some(Place::Path(_)) | None => return,
        };
        if let Some(line) = self.links.get(link) {
            if line.ended.is_some() {
                return;
            }
            line.carrier.count_eager();
        }
        let heard = frame.and_then(|arrived| match arrived.head.kind.lane() {
            Lane::Bulk => Err("a frame on the wrong lane"),
            Lane::Control | Lane::Talk => self.hear(link, arrived),
        });
        if let Err(why) = heard {
            self.cut_off(link, why);
        }
    }

    /// Sends what waited for room.
    #[inline]
    pub(crate) fn pump_blocked(&mut self) {
        if !self.blocked.is_empty() {
            for link in std::mem::take(&mut self.blocked) {
                self.pump(link);
            }
        }
    }

    /// A frame has arrived.
    ///
    /// # Errors
    ///
    /// What no honest peer does.
    #[inline]
    pub(crate) fn hear(&mut self, link: Key, arrived: Arrived) -> Result<(), &'static str> {
        match arrived.head.kind {
            Kind::Request | Kind::OneWay | Kind::Bulk => self.deliver(link, arrived),
            Kind::Reply | Kind::NoReply | Kind::BulkReply => self.answered(link, arrived),
            Kind::Returned => self.returned(link, arrived),
            Kind::Place | Kind::NoPlace => self.placed(link, arrived),
            Kind::Control => self.heard_control(link, arrived),
            Kind::Part | Kind::Last | Kind::Abort | Kind::End => self.heard_channel(link, arrived),
        }
    }

    fn heard_control(&mut self, link: Key, arrived: Arrived) -> Result<(), &'static str> {
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
            Arrived::from_parts(head, None, whole)
        };
        let control =
            Control::from_bytes(arrived.bytes()).ok_or("a frame of control that is none")?;
        self.release(arrived);
        let line = self.links.get(link).ok_or("no link")?;
        let greets = matches!(control, Control::Hello(_) | Control::Crossed | Control::Full { .. });
        if line.incarnation.is_none() && !greets {
            return Err("it has not said hello");
        }
        match control {
            Control::Hello(hello) => self.greeted(link, &hello),
            Control::Crossed => {
                self.crossed(link);
                Ok(())
            }
            Control::Full { links } if line.called && line.incarnation.is_none() => {
                self.full(link, links);
                Ok(())
            }
            Control::Full { .. } => Err("it has no room for a link that there is"),
            Control::Map(map) => self.asked_to_map(link, &map),
            Control::Mapped(mapped) => self.mapped(link, mapped),
            Control::NotMapped { number, why } => self.not_mapped(link, number, why),
            Control::Unmap { slot } => self.unmapped(link, slot),
            Control::Unmapped { number } => self.unmap_known(link, number),
            Control::Leave { slot } => self.leaves(link, slot),
            Control::Credit { number, messages } => self.credited(link, number, messages),
            Control::Ask { flow, ask } => self.asked(link, flow, ask),
            Control::Tell { flow, tell } => self.told(link, flow, tell),
            Control::Channel(control) => self.heard_channel_control(link, control),
            Control::Failed { why } => self.peer_failed(link, &why),
        }
    }

    /// A frame is done with: its memory is kept for the next.
    #[inline]
    pub(crate) fn release(&mut self, arrived: Arrived) {
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

/// Memory of frames that is kept.
const SCRATCH_MAX: usize = 256;
