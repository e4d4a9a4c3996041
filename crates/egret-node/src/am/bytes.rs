//! The bytes of bulk data: what may be sent, and what is given back.

use egret_net::vi::Descriptor;

use super::call::Outcome;
use super::deliver::{NOT_ANSWERED, call_of};
use super::fault::{Fault, planted};
use super::no_reply::NoReply;
use super::places::IN_ORDER;
use super::request::From;
use super::{CallError, Phase, Reason, Tables};
use crate::flow::{Name, NeverFits, Tell, cost};
use crate::link::control::Control;
use crate::link::{Head, Kind, Lane};
use crate::links::line::Line;
use crate::links::slots::Key;
use crate::links::state::State;

impl State {
    /// Data of a mapping was used: it may send as much again, in time.
    pub(crate) fn used_bytes(&mut self, from: From, bytes: u64) {
        let Some(line) = self.links.get(from.link) else { return };
        let Some(incoming) = line.am.incoming.get(from.slot) else { return };
        self.inflows.taken(incoming.flow, cost(bytes), true);
        self.tell_flows();
    }

    /// The data of an answer is the program's.
    pub(crate) fn reply_bytes_used(&mut self, link: Key, number: Key, bytes: u64) {
        let Some(line) = self.links.get(link) else { return };
        let Some(outgoing) = line.am.outgoing.get(number) else { return };
        self.inflows.taken(outgoing.flow, cost(bytes), true);
        self.tell_flows();
    }

    /// Credit of the peer.
    pub(crate) fn credited(
        &mut self,
        link: Key,
        number: u32,
        messages: u32,
    ) -> Result<(), &'static str> {
        let line = self.live(link).map_err(|_| "no link")?;
        line.am.outgoing.at(number).ok_or(NO_MAPPING)?.credit(messages)?;
        self.unmap_if_quiet(link, number);
        self.pump(link);
        Ok(())
    }

    /// The peer says something of the data of messages.
    pub(crate) fn told_of_data(
        &mut self,
        link: Key,
        number: u32,
        tell: Tell,
    ) -> Result<(), &'static str> {
        let line = self.live(link).map_err(|_| "no link")?;
        let outgoing = line.am.outgoing.at(number).ok_or(NO_MAPPING)?;
        match outgoing.phase {
            Phase::Asked | Phase::Refused(_) => return Err(NO_MAPPING),
            // It was said before the peer heard that the mapping was given up.
            Phase::Gone => return Ok(()),
            Phase::Mapped | Phase::Unmapped => {}
        }
        let never = outgoing.data.hear(tell)?;
        if let Some(NeverFits { bytes, most }) = never {
            let refused = outgoing.data.give_up().expect("it was asked for");
            let head = Head::from_bits(refused.tag()).expect("of this side");
            let reason = Reason::TooLarge { bytes, most };
            if head.request & IN_ORDER != 0 && !planted(Fault::PlaceKept) {
                line.give_place_up(refused, reason);
            } else {
                let credited = outgoing.credit(1);
                self.data_undelivered(link, refused, reason);
                credited?;
                self.unmap_if_quiet(link, number);
            }
        }
        if let Ok(line) = self.live(link) {
            line.pass_data(number);
        }
        self.pump(link);
        Ok(())
    }

    /// The peer says something of the data of answers.
    pub(crate) fn told_of_replies(
        &mut self,
        link: Key,
        slot: u32,
        tell: Tell,
    ) -> Result<(), &'static str> {
        let line = self.live(link).map_err(|_| "no link")?;
        let (key, incoming) = line.am.incoming.entry_at(slot).ok_or(NO_MAPPING)?;
        let never = incoming.replies.hear(tell)?;
        if let Some(NeverFits { bytes, .. }) = never {
            let refused = incoming.replies.give_up().expect("it was asked for");
            incoming.answered();
            let head = Head::from_bits(refused.tag()).expect("of this side");
            if head.request & NOT_ANSWERED != 0 {
                self.send_back_without(link, key, &refused);
            } else {
                // The peer knows what it takes, and is told how much this was.
                let (handler, words) = NoReply::TooLarge { bytes }.to_parts();
                let no_reply = Head { kind: Kind::NoReply, handler, words: 1, ..head };
                line.say(no_reply, &words, &[]);
            }
        }
        self.pass_replies(link, key);
        Ok(())
    }

    /// Sends the answers with data that may be sent; asks for more if it must.
    pub(crate) fn pass_replies(&mut self, link: Key, slot: Key) {
        let Ok(line) = self.live(link) else { return };
        let mut passed = Vec::new();
        while let Some(frame) = line.am.next_answer(slot) {
            passed.push((frame.len(), frame.tag()));
            line.push(Lane::Bulk, frame);
        }
        let Some(incoming) = line.am.incoming.get(slot) else { return };
        let flow = Name::Replies(incoming.number);
        let asks: Vec<_> = std::iter::from_fn(|| incoming.replies.poll_ask()).collect();
        asks.into_iter().for_each(|ask| line.control(&Control::Ask { flow, ask }));
        for (len, tag) in passed {
            self.went_back(link, slot, len, Head::from_bits(tag).expect("of this side"));
        }
        self.pump(link);
    }

    /// Data was sent, and its memory is free.
    #[cold]
    pub(crate) fn sent_data(&mut self, link: Key, frame: Descriptor) {
        let Some(line) = self.links.get(link) else { return };
        let Some(head) = Head::from_bits(frame.tag()) else { return };
        if head.kind != Kind::Bulk {
            return self.sent_answer(link, frame.len());
        }
        let Some((key, call)) = line.am.calls.entry_at(call_of(head)) else {
            return;
        };
        call.memory_is_back(frame);
        line.settle(key);
    }

    /// The data of an answer was sent: others may follow.
    fn sent_answer(&mut self, link: Key, bytes: u64) {
        let Some(line) = self.links.get(link) else { return };
        line.am.answers = line.am.answers.saturating_sub(bytes);
        while let Ok(line) = self.live(link)
            && let Some(slot) = line.am.unstall()
        {
            self.pass_replies(link, slot);
        }
    }
}

impl Tables {
    /// Messages that can be under way by all mappings, both ways.
    #[cold]
    pub(crate) fn windows(&self) -> u64 {
        let incoming = self.incoming.values().map(|incoming| u64::from(incoming.window()));
        let outgoing = self.outgoing.values().map(|outgoing| u64::from(outgoing.window()));
        incoming.chain(outgoing).sum()
    }

    /// The next answer with data of a mapping that may be sent.
    fn next_answer(&mut self, slot: Key) -> Option<Descriptor> {
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

    /// A mapping whose answers can go on.
    fn unstall(&mut self) -> Option<Key> {
        if self.answers > 0 && self.answers >= self.answers_max {
            return None;
        }
        let slot = self.stalled.pop_front()?;
        self.incoming.get(slot).into_iter().for_each(|incoming| incoming.stalled = false);
        Some(slot)
    }
}

impl Line {
    /// The call that an answer is to, and the endpoint that asked.
    #[inline]
    pub(crate) fn take_answer(&mut self, head: Head) -> Result<(Key, Key), &'static str> {
        let (key, call) = self.am.calls.entry_at(head.request).ok_or("an answer to nothing")?;
        if !call.awaits.answer || call.awaits.access || call.number.index != head.slot {
            return Err("an answer to what was not asked");
        }
        let outgoing = self.am.outgoing.get(call.number).ok_or("an answer of no mapping")?;
        outgoing.credit(1)?;
        Ok((key, outgoing.endpoint))
    }

    /// The data of a request is refused: the request has failed, and keeps its number and its credit
    /// until the peer has answered that its place is given up.
    #[cold]
    fn give_place_up(&mut self, refused: Descriptor, reason: Reason) {
        let Some(head) = Head::from_bits(refused.tag()) else { return };
        let Some(call) = self.am.calls.at(call_of(head)) else { return };
        call.outcome = Outcome::Failed(Box::new(CallError::Undelivered(reason)));
        call.memory_is_back(refused);
        let (kind, request) = (Kind::NoPlace, call_of(head));
        self.say(Head { kind, words: 0, request, ..head }, &[], &[]);
    }

    /// A call has its answer, or has failed before.
    #[inline]
    pub(crate) fn resolve(&mut self, key: Key, outcome: Outcome) {
        let Some(call) = self.am.calls.get(key) else { return };
        if !matches!(call.outcome, Outcome::Failed(_)) {
            call.outcome = outcome;
        }
        call.awaits.answer = false;
        self.settle(key);
    }

    /// Wakes who waits for a call, or forgets it if nobody does.
    #[inline]
    pub(crate) fn settle(&mut self, key: Key) {
        if self.am.calls.get(key).is_some_and(|call| call.progress()) {
            self.am.calls.remove(key);
        }
    }
}

const NO_MAPPING: &str = "credit for no mapping";
