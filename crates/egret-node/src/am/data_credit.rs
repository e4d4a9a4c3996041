//! Credit in bytes for bulk data: what may be sent, and what is granted again.

use egret_net::vi::Descriptor;

use super::answer::NoReply;
use super::call::CallOutcome;
use super::deliver::{NOT_ANSWERED, call_of};
use super::request::ReplyAddress;
use super::request_order::has_place;
use super::{LinkMappings, MappingPhase, MessageError};
use crate::flow::{FlowName, NeverFits, ReceiverNotice, cost};
use crate::frame::{FrameHead, FrameKind, LinkLane};
use crate::link::control::LinkControl;
use crate::links::link_side::LinkSide;
use crate::links::state::LinksState;
use crate::slots::SlotKey;

impl LinksState {
    /// Data that came by a mapping was used: its bytes are granted to the peer again.
    pub(crate) fn used_bytes(&mut self, from: ReplyAddress, bytes: u64) {
        let Some(line) = self.links.get(from.link) else { return };
        let Some(incoming) = line.am.incoming.get(from.slot) else { return };
        self.inflows.taken(incoming.flow, cost(bytes), true);
        self.tell_flows();
    }

    /// The program has taken the data of an answer: its bytes are granted to the peer again.
    pub(crate) fn reply_bytes_used(&mut self, link: SlotKey, number: SlotKey, bytes: u64) {
        let Some(line) = self.links.get(link) else { return };
        let Some(outgoing) = line.am.outgoing.get(number) else { return };
        self.inflows.taken(outgoing.flow, cost(bytes), true);
        self.tell_flows();
    }

    /// Receives credit for messages.
    pub(crate) fn credited(
        &mut self,
        link: SlotKey,
        number: u32,
        messages: u32,
    ) -> Result<(), &'static str> {
        let line = self.links.live(link).map_err(|_| "no link")?;
        line.am.outgoing.at(number).ok_or(NO_MAPPING)?.credit(messages)?;
        self.unmap_if_quiet(link, number);
        self.pump(link);
        Ok(())
    }

    /// Receives a grant or a refusal for the data of messages.
    pub(crate) fn told_of_data(
        &mut self,
        link: SlotKey,
        number: u32,
        tell: ReceiverNotice,
    ) -> Result<(), &'static str> {
        let line = self.links.live(link).map_err(|_| "no link")?;
        let outgoing = line.am.outgoing.at(number).ok_or(NO_MAPPING)?;
        match outgoing.phase {
            MappingPhase::Asked | MappingPhase::Refused(_) => return Err(NO_MAPPING),
            // The peer sent it before it received that the mapping was given up.
            MappingPhase::Gone => return Ok(()),
            MappingPhase::Mapped | MappingPhase::Unmapped => {}
        }
        let never = outgoing.data.hear(tell)?;
        if let Some(NeverFits { bytes, most }) = never {
            let refused = outgoing.data.give_up().expect("it was asked for");
            let head = FrameHead::from_bits(refused.tag()).expect("of this side");
            let reason = MessageError::TooLarge { bytes, most };
            if has_place(head) {
                line.give_place_up(refused, reason);
            } else {
                let credited = outgoing.credit(1);
                self.data_undelivered(link, refused, reason);
                credited?;
                self.unmap_if_quiet(link, number);
            }
        }
        if let Ok(line) = self.links.live(link) {
            line.pass_data(number);
        }
        self.pump(link);
        Ok(())
    }

    /// Receives a grant or a refusal for the data of answers.
    pub(crate) fn told_of_replies(
        &mut self,
        link: SlotKey,
        slot: u32,
        tell: ReceiverNotice,
    ) -> Result<(), &'static str> {
        let line = self.links.live(link).map_err(|_| "no link")?;
        let (key, incoming) = line.am.incoming.entry_at(slot).ok_or(NO_MAPPING)?;
        let never = incoming.replies.hear(tell)?;
        if let Some(NeverFits { bytes, .. }) = never {
            let refused = incoming.replies.give_up().expect("it was asked for");
            incoming.answered();
            let head = FrameHead::from_bits(refused.tag()).expect("of this side");
            if head.request & NOT_ANSWERED != 0 {
                self.send_back_without(link, key, &refused);
            } else {
                // The peer knows what it takes, and is told how much this was.
                let (handler, words) = NoReply::TooLarge { bytes }.to_parts();
                let no_reply = FrameHead { kind: FrameKind::NoReply, handler, words: 1, ..head };
                line.say(no_reply, &words, &[]);
            }
        }
        self.pass_replies(link, key);
        Ok(())
    }

    /// Sends the answers with data that may be sent; asks for more if it must.
    pub(crate) fn pass_replies(&mut self, link: SlotKey, slot: SlotKey) {
        let Ok(line) = self.links.live(link) else { return };
        let mut passed = Vec::new();
        while let Some(frame) = line.am.next_answer(slot) {
            passed.push((frame.len(), frame.tag()));
            line.push(LinkLane::Bulk, frame);
        }
        let Some(incoming) = line.am.incoming.get(slot) else { return };
        let flow = FlowName::Replies(incoming.number);
        let asks: Vec<_> = std::iter::from_fn(|| incoming.replies.poll_ask()).collect();
        asks.into_iter().for_each(|ask| line.control(&LinkControl::Ask { flow, ask }));
        for (len, tag) in passed {
            self.went_back(link, slot, len, FrameHead::from_bits(tag).expect("of this side"));
        }
        self.pump(link);
    }

    /// Data was sent, and its memory is free.
    #[cold]
    pub(crate) fn sent_data(&mut self, link: SlotKey, frame: Descriptor) {
        let Some(line) = self.links.get(link) else { return };
        let Some(head) = FrameHead::from_bits(frame.tag()) else { return };
        if head.kind != FrameKind::Bulk {
            return self.sent_answer(link, frame.len());
        }
        let Some((key, call)) = line.am.calls.entry_at(call_of(head)) else {
            return;
        };
        call.memory_is_back(frame);
        line.settle(key);
    }

    /// The data of an answer was sent: others may follow.
    fn sent_answer(&mut self, link: SlotKey, bytes: u64) {
        let Some(line) = self.links.get(link) else { return };
        line.am.answers = line.am.answers.saturating_sub(bytes);
        while let Ok(line) = self.links.live(link)
            && let Some(slot) = line.am.unstall()
        {
            self.pass_replies(link, slot);
        }
    }
}

impl LinkMappings {
    /// Messages that can be under way by all mappings, both ways.
    #[cold]
    pub(crate) fn windows(&self) -> u64 {
        let incoming = self.incoming.values().map(|incoming| u64::from(incoming.window()));
        let outgoing = self.outgoing.values().map(|outgoing| u64::from(outgoing.window()));
        incoming.chain(outgoing).sum()
    }

    /// The next answer with data of a mapping that may be sent.
    fn next_answer(&mut self, slot: SlotKey) -> Option<Descriptor> {
        let incoming = self.incoming.get(slot)?;
        if !incoming.replies.is_ready() {
            return None;
        }
        if self.answers > 0 && self.answers >= self.answers_max {
            if !std::mem::replace(&mut incoming.stalled, true) {
                self.stalled.push_back(slot);
            }
            return None;
        }
        let frame = incoming.replies.poll_frame()?;
        incoming.answered();
        self.answers += frame.len();
        Some(frame)
    }

    /// The next mapping whose answers waited and may be sent now.
    fn unstall(&mut self) -> Option<SlotKey> {
        if self.answers > 0 && self.answers >= self.answers_max {
            return None;
        }
        let slot = self.stalled.pop_front()?;
        self.incoming.get(slot).into_iter().for_each(|incoming| incoming.stalled = false);
        Some(slot)
    }
}

impl LinkSide {
    /// The call that an answer is to, and the endpoint that asked.
    #[inline]
    pub(crate) fn take_answer(
        &mut self,
        head: FrameHead,
    ) -> Result<(SlotKey, SlotKey), &'static str> {
        let (key, call) = self.am.calls.entry_at(head.request).ok_or("an answer to nothing")?;
        if !call.awaits.answer || call.awaits.access || call.number.index != head.slot {
            return Err("an answer to what was not asked");
        }
        let outgoing = self.am.outgoing.get(call.number).ok_or("an answer of no mapping")?;
        outgoing.credit(1)?;
        Ok((key, outgoing.endpoint))
    }

    /// The data of a request was refused: the request has failed, and keeps its number and its credit
    /// until the peer has answered the frame that gives its place in the order up.
    #[cold]
    fn give_place_up(&mut self, refused: Descriptor, reason: MessageError) {
        let Some(head) = FrameHead::from_bits(refused.tag()) else { return };
        let Some(call) = self.am.calls.at(call_of(head)) else { return };
        call.outcome = CallOutcome::Failed(Box::new(reason));
        call.memory_is_back(refused);
        let (kind, request) = (FrameKind::NoPlace, call_of(head));
        self.say(FrameHead { kind, words: 0, request, ..head }, &[], &[]);
    }

    /// A call has its answer, or has failed before.
    #[inline]
    pub(crate) fn resolve(&mut self, key: SlotKey, outcome: CallOutcome) {
        let Some(call) = self.am.calls.get(key) else { return };
        if !matches!(call.outcome, CallOutcome::Failed(_)) {
            call.outcome = outcome;
        }
        call.awaits.answer = false;
        self.settle(key);
    }

    /// Wakes the waiter of a call that is done, or removes the call if it was abandoned.
    #[inline]
    pub(crate) fn settle(&mut self, key: SlotKey) {
        if self.am.calls.get(key).is_some_and(|call| call.progress()) {
            self.am.calls.remove(key);
        }
    }
}

const NO_MAPPING: &str = "credit for no mapping";
