//! The bytes of bulk data: what may be sent, and what is given back.

use egret_net::vi::Descriptor;

use super::call::Outcome;
use super::deliver::NOT_ANSWERED;
use super::no_reply::NoReply;
use super::outgoing::Phase;
use super::request::From;
use super::{Reason, Tables};
use crate::flow::{FlowId, NeverFits, cost};
use crate::link::control::Control;
use crate::link::lands::Flow;
use crate::link::{Head, Kind, Lane};
use crate::links::line::Line;
use crate::links::slots::Key;
use crate::links::state::State;

impl State {
    /// Ends a flow of data to this side.
    pub(crate) fn close_flow(&mut self, link: Key, id: FlowId, flow: Flow) {
        if let Some(line) = self.links.get(link) {
            line.lands.close(flow);
        }
        self.budget.close(id);
        self.tell_granted();
    }

    /// Data of a mapping was used: it may send as much again, in time.
    pub(crate) fn used_bytes(&mut self, from: From, bytes: u64) {
        let Some(line) = self.links.get(from.link) else { return };
        let Some(incoming) = line.am.incoming.get(from.slot) else { return };
        let id = incoming.flow;
        self.used(from.link, id, Flow::Requests(from.slot.index), bytes);
    }

    /// The data of an answer is the program's.
    pub(crate) fn reply_bytes_used(&mut self, link: Key, number: Key, bytes: u64) {
        let Some(line) = self.links.get(link) else { return };
        let Some(outgoing) = line.am.outgoing.get(number) else { return };
        let id = outgoing.flow;
        self.used(link, id, Flow::Replies(number.index), bytes);
    }

    fn used(&mut self, link: Key, id: FlowId, flow: Flow, bytes: u64) {
        let Some(line) = self.links.get(link) else { return };
        let left = line.lands.left(flow);
        let keen = left < 2 * cost(bytes);
        let more = self.budget.taken(id, cost(bytes), keen);
        self.grant(link, flow, more);
        self.tell_granted();
    }

    /// Tells a peer that it may send more.
    fn grant(&mut self, link: Key, flow: Flow, bytes: u64) {
        let Ok(line) = self.live(link) else { return };
        if bytes == 0 {
            return;
        }
        line.lands.grant(flow, bytes);
        let credit = match flow {
            Flow::Requests(slot) => line.am.incoming.at(slot).map(|incoming| Control::Credit {
                number: incoming.number,
                messages: 0,
                bytes,
            }),
            Flow::Replies(number) => line
                .am
                .outgoing
                .at(number)
                .filter(|outgoing| outgoing.phase != Phase::Gone)
                .map(|outgoing| Control::ReplyCredit { slot: outgoing.slot(), bytes }),
            Flow::Channel(_) => None,
        };
        if let Some(credit) = credit {
            line.control(&credit);
            self.pump(link);
        }
    }

    /// Tells those whose turn it was.
    pub(crate) fn tell_granted(&mut self) {
        while let Some((id, bytes)) = self.budget.poll_granted() {
            if let Some((link, flow)) = self.budget.place(id) {
                match flow {
                    Flow::Channel(slot) => self.channels.granted(slot, bytes),
                    _ => self.grant(link, flow, bytes),
                }
            }
        }
        self.flush_channels();
    }

    /// A peer wants to send data for which it lacks bytes.
    pub(crate) fn wanted(
        &mut self,
        link: Key,
        slot: u32,
        bytes: u64,
        lacking: u64,
    ) -> Result<(), &'static str> {
        let line = self.live(link).map_err(|_| "no link")?;
        let incoming = line.am.incoming.at(slot).ok_or("it wants what it has not mapped")?;
        let (number, id) = (incoming.number, incoming.flow);
        match self.budget.want(id, bytes, lacking.min(bytes)) {
            Ok(more) => self.grant(link, Flow::Requests(slot), more),
            Err(NeverFits { most, .. }) => {
                self.control(link, &Control::TooLarge { number, bytes, most });
            }
        }
        self.drain_channels();
        Ok(())
    }

    /// A peer wants to answer with data for which it lacks bytes.
    pub(crate) fn reply_wanted(
        &mut self,
        link: Key,
        number: u32,
        bytes: u64,
        lacking: u64,
    ) -> Result<(), &'static str> {
        let line = self.live(link).map_err(|_| "no link")?;
        let outgoing = line.am.outgoing.at(number).ok_or("it wants what is not mapped")?;
        // The answer has gone without its bytes, and overtook the question on another lane. The
        // peer will hear that the mapping was given up before it hears anything else of it.
        if outgoing.phase == Phase::Gone {
            return Ok(());
        }
        let (slot, id) = (outgoing.slot(), outgoing.flow);
        match self.budget.want(id, bytes, lacking.min(bytes)) {
            Ok(more) => self.grant(link, Flow::Replies(number), more),
            Err(_) => self.control(link, &Control::ReplyTooLarge { slot, bytes }),
        }
        self.drain_channels();
        self.give_way();
        Ok(())
    }

    fn control(&mut self, link: Key, control: &Control) {
        if let Ok(line) = self.live(link) {
            line.control(control);
        }
        self.pump(link);
    }

    /// The peer takes more data of answers.
    pub(crate) fn reply_credited(
        &mut self,
        link: Key,
        slot: u32,
        bytes: u64,
    ) -> Result<(), &'static str> {
        let line = self.live(link).map_err(|_| "no link")?;
        let (key, incoming) = line.am.incoming.entry_at(slot).ok_or("credit for no mapping")?;
        incoming.grant_replies(bytes);
        self.pass_replies(link, key, false);
        Ok(())
    }

    /// The peer will never take the next answer with data.
    pub(crate) fn reply_too_large(
        &mut self,
        link: Key,
        slot: u32,
        bytes: u64,
    ) -> Result<(), &'static str> {
        let line = self.live(link).map_err(|_| "no link")?;
        let (key, incoming) = line.am.incoming.entry_at(slot).ok_or("a refusal of no mapping")?;
        if incoming.is_of_one_gone(bytes) {
            return Ok(());
        }
        let refused = incoming.drop_reply().ok_or("it refused what nobody sent")?;
        incoming.answered();
        let head = Head::from_bits(refused.tag()).expect("of this side");
        if head.request & NOT_ANSWERED != 0 {
            self.send_back_without(link, key, &refused);
        } else {
            // The peer knows what it takes, and is told how much this was.
            let (handler, words) = NoReply::TooLarge { bytes }.to_parts();
            let no_reply = Head { kind: Kind::NoReply, handler, words: 1, ..head };
            self.links.get(link).expect("just looked at").say(no_reply, &words, &[]);
        }
        self.pass_replies(link, key, true);
        Ok(())
    }

    /// Sends the answers with data that may be sent; asks for more if it must.
    pub(crate) fn pass_replies(&mut self, link: Key, slot: Key, may_ask: bool) {
        let Ok(line) = self.live(link) else { return };
        let mut passed = Vec::new();
        while let Some(frame) = line.am.next_answer(slot) {
            passed.push((frame.len(), frame.tag()));
            line.push(Lane::Bulk, frame);
        }
        for (len, tag) in &passed {
            self.went_back(link, slot, *len, Head::from_bits(*tag).expect("of this side"));
        }
        let Ok(line) = self.live(link) else { return };
        let Some(incoming) = line.am.incoming.get(slot) else { return };
        let lacks = incoming.lacks().filter(|(_, lacking)| *lacking > 0);
        if let Some((bytes, lacking)) = lacks.filter(|_| may_ask || !passed.is_empty()) {
            let number = incoming.number;
            line.control(&Control::ReplyWant { number, bytes, lacking });
        }
        self.pump(link);
    }

    /// Credit of the peer.
    pub(crate) fn credited(
        &mut self,
        link: Key,
        number: u32,
        messages: u32,
        bytes: u64,
    ) -> Result<(), &'static str> {
        let line = self.live(link).map_err(|_| "no link")?;
        let outgoing = line.am.outgoing.at(number).ok_or("credit for no mapping")?;
        outgoing.credit(messages)?;
        line.granted(number, bytes);
        self.unmap_if_quiet(link, number);
        self.pump(link);
        Ok(())
    }

    /// A message of this side is larger than the peer will ever take.
    pub(crate) fn too_large(
        &mut self,
        link: Key,
        number: u32,
        (bytes, most): (u64, u64),
    ) -> Result<(), &'static str> {
        let line = self.live(link).map_err(|_| "no link")?;
        let frame = line.take_refused(number).ok_or("it refused what nobody sent")?;
        if let Some(outgoing) = line.am.outgoing.at(number) {
            outgoing.credit(1)?;
        }
        self.data_undelivered(link, frame, Reason::TooLarge { bytes, most });
        self.unmap_if_quiet(link, number);
        self.pump(link);
        Ok(())
    }

    /// Data was sent, and its memory is free.
    #[cold]
    pub(crate) fn sent_data(&mut self, link: Key, frame: Descriptor) {
        let Some(line) = self.links.get(link) else { return };
        let Some(head) = Head::from_bits(frame.tag()) else { return };
        if head.kind != Kind::Bulk {
            return self.sent_answer(link, frame.len());
        }
        let Some((key, call)) = line.am.calls.entry_at(head.request & !NOT_ANSWERED) else {
            return;
        };
        call.memory_is_back(frame);
        line.settle(key);
        self.forget_if_done(link);
    }

    /// The data of an answer was sent: others may follow.
    fn sent_answer(&mut self, link: Key, bytes: u64) {
        let Some(line) = self.links.get(link) else { return };
        line.am.answers = line.am.answers.saturating_sub(bytes);
        while let Ok(line) = self.live(link)
            && let Some(slot) = line.am.unstall()
        {
            self.pass_replies(link, slot, false);
        }
    }
}

impl Tables {
    /// The next answer with data of a mapping that may be sent.
    fn next_answer(&mut self, slot: Key) -> Option<Descriptor> {
        let incoming = self.incoming.get(slot)?;
        let (_, lacking) = incoming.lacks()?;
        if lacking == 0 && self.answers > 0 && self.answers >= self.answers_max {
            if !std::mem::replace(&mut incoming.stalled, true) {
                self.stalled.push_back(slot);
            }
            return None;
        }
        let frame = incoming.pop_reply()?;
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

    /// A call has its answer.
    #[inline]
    pub(crate) fn resolve(&mut self, key: Key, outcome: Outcome) {
        let Some(call) = self.am.calls.get(key) else { return };
        call.outcome = outcome;
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
