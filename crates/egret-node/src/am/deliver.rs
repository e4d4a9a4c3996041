//! Messages that arrive for endpoints, and the answers to them.

use egret_net::rt::Instant;
use egret_net::vi::Segment;

use super::answer::NoReply;
use super::bundle::{Upcall, UpcallKind};
use super::call::CallOutcome;
use super::fault::{self, Fault, planted};
use super::gather::bulk_frame;
use super::message::FewWords;
use super::request::{PLAIN, ReplyAddress};
use super::request_order::IN_ORDER;
use super::returned_data::{ReturnReason, words_of};
use super::run_handlers::AnswerState;
use super::{MEDIUM_MAX, Message, Payload, Undelivered};
use crate::flow::{InflowKey, cost};
use crate::frame::{ArrivedFrame, FrameHead, FrameKind};
use crate::link::control::LinkControl;
use crate::links::state::LinksState;
use crate::slots::SlotKey;

impl LinksState {
    /// Receives a message for an endpoint.
    #[inline]
    pub(crate) fn deliver(
        &mut self,
        link: SlotKey,
        mut arrived: ArrivedFrame,
    ) -> Result<(), &'static str> {
        let head = arrived.head;
        let line = self.links.get(link).ok_or("no link")?;
        let (slot, incoming) =
            line.am.incoming.entry_at(head.slot).ok_or("a message for no mapping")?;
        if head.kind == FrameKind::Request && head.request & NOT_ANSWERED != 0 {
            return Err("a request with the flag of unanswered requests");
        }
        incoming.take()?;
        let (_, payload) = arrived.parts().ok_or("a message shorter than its words")?;
        if head.kind != FrameKind::Bulk && payload.len() > MEDIUM_MAX {
            return Err("a message longer than MEDIUM_MAX");
        }
        if head.kind == FrameKind::Bulk {
            let flow = InflowKey::Requests(head.slot);
            if arrived.has_landed() {
                arrived.supplied = line.lands.was_supplied(flow);
            } else {
                line.lands.spend(flow, arrived.data_len())?;
            }
            self.inflows.arrive(incoming.flow, cost(arrived.data_len()))?;
        }
        let holds = incoming.places.holds(head);
        let came = self.came();
        if holds {
            return self.wait_in_place(link, slot, arrived, came);
        }
        self.take_turn(link, slot, arrived, came);
        Ok(())
    }

    /// Queues the upcall of a message: its mapping admits it, and no message before it waits for data.
    #[inline]
    pub(super) fn take_turn(
        &mut self,
        link: SlotKey,
        slot: SlotKey,
        arrived: ArrivedFrame,
        came: Instant,
    ) {
        let head = arrived.head;
        let Some(line) = self.links.get(link) else { return };
        let Some(incoming) = line.am.incoming.get(slot) else { return };
        let from = ReplyAddress { link, slot, request: request_of(head) };
        let Some(endpoint) = self.endpoints.get(incoming.endpoint) else {
            self.send_back(from, ReturnReason::EndpointGone, arrived);
            return;
        };
        if endpoint.tag != incoming.tag {
            self.send_back(from, ReturnReason::WrongTag, arrived);
            return;
        }
        let what = UpcallKind::Message { from, arrived };
        let (of, home) = (incoming.endpoint, endpoint.home());
        let endpoint = self.endpoints.get(of).expect("just looked at");
        if let Some(parked) = &mut endpoint.parked {
            parked.push_back(Upcall::new(of, what, came));
            return;
        }
        endpoint.under_way += 1;
        let upcall = self.upcall(of, home, what, came);
        self.queue_message(upcall);
    }

    /// Queues the upcall of a message, once.
    #[inline]
    fn queue_message(&mut self, upcall: Box<Upcall>) {
        if let Some(again) = fault::again(&upcall)
            && let Some(endpoint) = self.endpoints.get(upcall.endpoint)
        {
            endpoint.under_way += 1;
            self.upcalls.push_back(again);
        }
        self.upcalls.push_back(upcall);
    }

    /// Queues the upcall of a short message, which is copied out of the fabric's memory. `false`, and
    /// nothing is done, if only [`deliver`](Self::deliver) can handle it.
    #[inline]
    pub(crate) fn deliver_at_once(&mut self, link: SlotKey, head: FrameHead, bytes: &[u8]) -> bool {
        let Some(line) = self.links.get(link).filter(|line| line.ended.is_none()) else {
            return false;
        };
        let Some((slot, incoming)) = line.am.incoming.entry_at(head.slot) else { return false };
        let of = incoming.endpoint;
        let Some(endpoint) = self.endpoints.get(of) else { return false };
        let is_ready = endpoint.tag == incoming.tag
            && endpoint.parked.is_none()
            && incoming.places.is_empty()
            && is_short_message(head, bytes);
        if !is_ready || incoming.take().is_err() {
            return false;
        }
        endpoint.under_way += 1;
        line.carrier.count_eager(bytes.len());
        let home = endpoint.home();
        let from = ReplyAddress { link, slot, request: request_of(head) };
        let mut upcall = self.spare.pop().unwrap_or_default();
        upcall.endpoint = of;
        upcall.handling.home = home;
        upcall.handling.came = self.came();
        upcall.set_short(from, head, bytes);
        self.upcalls.push_back(upcall);
        true
    }

    /// A handler has run, or there was none.
    #[inline]
    pub(crate) fn done(&mut self, upcall: &mut Upcall) {
        match &mut upcall.what {
            UpcallKind::Message { from, arrived }
                if upcall.handling.answer != AnswerState::NoHandler =>
            {
                self.answer(from, &upcall.handling.answer, &upcall.handling.few);
                self.done_with(upcall.endpoint);
                // A short frame stays in its box, for the next; what was kept is not here.
                if !arrived.is_short() && upcall.handling.answer != AnswerState::Kept {
                    self.done_with_data(upcall);
                }
            }
            _ => self.done_with_other(upcall),
        }
        self.count_served();
    }

    /// Counts a handler that has run, or an answer that another thread has sent, and wakes the threads
    /// that wait for one.
    #[inline]
    fn count_served(&mut self) {
        self.jobs += 1;
        self.servers.wake();
        if self.role_waits {
            self.role_waits = false;
            self.fixed.nic.wake();
        }
    }

    /// A message that its handler has kept is not needed any more: its credit and its memory go back.
    #[inline]
    pub(super) fn kept_is_dropped(&mut self, from: ReplyAddress, arrived: ArrivedFrame) {
        match from.request {
            None => self.taken(from),
            Some(_) => self.no_reply(from, NoReply::Missing),
        }
        if arrived.is_short() {
            // For the next message.
            if let Some(spare) = self.spare.last_mut() {
                spare.what = UpcallKind::Message { from, arrived };
            }
        } else {
            self.kept_data_is_dropped(from, arrived);
        }
        self.count_served();
    }

    #[cold]
    fn kept_data_is_dropped(&mut self, from: ReplyAddress, arrived: ArrivedFrame) {
        let line = self.links.get(from.link);
        let incoming = line.and_then(|line| line.am.incoming.get(from.slot));
        match incoming.map(|incoming| incoming.endpoint) {
            Some(endpoint) => self.take_back_data(from, endpoint, arrived),
            None => self.release(arrived),
        }
    }

    /// Answers a request that its handler has left to another thread: there is no answer.
    pub(crate) fn no_reply_later(&mut self, from: ReplyAddress) {
        self.no_reply(from, NoReply::Missing);
        self.count_served();
    }

    /// Answers a request that its handler has left to another thread.
    pub(crate) fn reply_later(&mut self, from: ReplyAddress, message: Message<'_>) {
        self.reply(from, message);
        self.count_served();
    }

    /// Sends the answer of a handler that has run.
    #[inline]
    fn answer(&mut self, from: &ReplyAddress, answer: &AnswerState, few: &FewWords) {
        match (from.request, answer) {
            (Some(request), AnswerState::Few) => self.reply_few(from, request, few.words()),
            (_, AnswerState::Kept) => {}
            (None, _) => self.taken(*from),
            (_, AnswerState::Sent | AnswerState::NoHandler) => {}
            (_, AnswerState::Missing) => self.no_reply(*from, NoReply::Missing),
            (_, AnswerState::Panicked) => self.no_reply(*from, NoReply::Panicked),
        }
    }

    #[cold]
    fn done_with_data(&mut self, upcall: &mut Upcall) {
        if let UpcallKind::Message { from, arrived } = std::mem::take(&mut upcall.what) {
            let (is_bulk, bytes) = (arrived.head.kind == FrameKind::Bulk, arrived.data_len());
            self.take_back_memory(upcall.endpoint, arrived);
            if is_bulk && !upcall.handling.is_granted {
                self.used_bytes(from, bytes);
            }
        }
    }

    #[cold]
    fn done_with_other(&mut self, upcall: &mut Upcall) {
        let endpoint = upcall.endpoint;
        match std::mem::take(&mut upcall.what) {
            UpcallKind::Message { from, arrived } => self.no_handler(from, endpoint, arrived),
            UpcallKind::Answer { link, number, arrived }
            | UpcallKind::Returned { link, number, arrived } => {
                self.done_with(endpoint);
                self.answer_served(link, number, arrived);
            }
            UpcallKind::Path { path, bytes, .. } => {
                self.path_served(path, bytes, upcall.handling.answer != AnswerState::NoHandler);
            }
            _ => self.done_with(endpoint),
        }
    }

    #[cold]
    fn no_handler(&mut self, from: ReplyAddress, endpoint: SlotKey, arrived: ArrivedFrame) {
        self.done_with(endpoint);
        let why = if self.endpoints.get(endpoint).is_some() {
            ReturnReason::NoHandler
        } else {
            ReturnReason::EndpointGone
        };
        self.send_back(from, why, arrived);
    }

    /// Counts one upcall less of an endpoint.
    #[inline]
    fn done_with(&mut self, of: SlotKey) {
        if let Some(endpoint) = self.endpoints.get(of) {
            endpoint.under_way -= 1;
            if endpoint.under_way == 0 && endpoint.parked.is_some() {
                self.wake_mover(of);
            }
        }
    }

    /// Wakes the mover of an endpoint: no upcall of it is queued or runs. The mover may be the thread
    /// that drives.
    #[cold]
    fn wake_mover(&mut self, endpoint: SlotKey) {
        match self.endpoints.get(endpoint).and_then(|endpoint| endpoint.mover.take()) {
            Some(mover) => mover.wake(),
            None => self.fixed.nic.wake(),
        }
    }

    /// Gives back a message's memory, and its data: to the endpoint that supplied the
    /// buffer, and as credit to the peer.
    pub(super) fn take_back_data(
        &mut self,
        from: ReplyAddress,
        endpoint: SlotKey,
        arrived: ArrivedFrame,
    ) {
        let (kind, bytes) = (arrived.head.kind, arrived.data_len());
        self.take_back_memory(endpoint, arrived);
        if kind == FrameKind::Bulk {
            self.used_bytes(from, bytes);
        }
    }

    /// Gives back a message's memory, to the endpoint that supplied it if one did.
    pub(super) fn take_back_memory(&mut self, endpoint: SlotKey, mut arrived: ArrivedFrame) {
        if arrived.supplied
            && let (Some(buf), Some(endpoint)) =
                (arrived.take_landed(), self.endpoints.get(endpoint))
        {
            endpoint.supply.give_back(buf);
        }
        self.release(arrived);
    }

    /// A message that is not answered was served: its credit is granted again, a quarter of the window
    /// at once.
    #[inline]
    pub(super) fn taken(&mut self, from: ReplyAddress) {
        let Some(line) = self.links.get(from.link) else { return };
        let Some(incoming) = line.am.incoming.get(from.slot) else { return };
        if let Some(messages) = incoming.served() {
            let number = incoming.number;
            line.control(&LinkControl::Credit { number, messages });
            self.pump(from.link);
        }
    }

    /// Answers a request.
    #[inline]
    pub(crate) fn reply(&mut self, from: ReplyAddress, message: Message<'_>) {
        let (Some(request), Ok(line)) = (from.request, self.links.live(from.link)) else { return };
        let Some(incoming) = line.am.incoming.get(from.slot) else { return };
        let words = u8::try_from(message.words.len()).expect("at most 16");
        let (handler, slot) = (message.handler, incoming.number);
        let request = fault::answered(request);
        let head = |kind| FrameHead { kind, words, handler, slot, request };
        let bytes = match message.payload {
            Payload::Copied(bytes) if bytes.len() <= MEDIUM_MAX => bytes,
            data => {
                let (head, data) = (head(FrameKind::BulkReply), data.into_segments());
                return self.reply_data(from, head, message.words, data);
            }
        };
        incoming.answered();
        if !line.say(head(FrameKind::Reply), message.words, &[bytes]) {
            self.pump(from.link);
        }
    }

    /// Answers a request with a few words.
    #[inline]
    fn reply_few(&mut self, from: &ReplyAddress, request: u32, words: &[u64]) {
        let Some(line) = self.links.get(from.link) else { return };
        let Some(incoming) = line.am.incoming.get(from.slot) else { return };
        if line.ended.is_some() {
            return;
        }
        incoming.answered();
        let count = u8::try_from(words.len()).expect("a few");
        let request = fault::answered(request);
        let (kind, slot) = (FrameKind::Reply, incoming.number);
        let head = FrameHead { kind, words: count, handler: PLAIN, slot, request };
        if !line.say(head, words, &[]) {
            self.pump(from.link);
        }
    }

    /// Answers with data, when the peer takes it.
    #[cold]
    fn reply_data(
        &mut self,
        from: ReplyAddress,
        head: FrameHead,
        words: &[u64],
        data: Vec<Segment>,
    ) {
        let Ok(line) = self.links.live(from.link) else { return };
        let frame = bulk_frame(head, words, data, line.segments);
        let Some(incoming) = line.am.incoming.get(from.slot) else { return };
        incoming.replies.push(frame);
        self.pass_replies(from.link, from.slot);
    }

    /// Answers that there is no answer.
    #[cold]
    pub(crate) fn no_reply(&mut self, from: ReplyAddress, why: NoReply) {
        let (Some(request), Ok(line)) = (from.request, self.links.live(from.link)) else { return };
        let Some(incoming) = line.am.incoming.get(from.slot) else { return };
        incoming.answered();
        let (slot, (handler, said)) = (incoming.number, why.to_parts());
        let words = u8::try_from(said.len()).expect("three at most");
        let head = FrameHead { kind: FrameKind::NoReply, words, handler, slot, request };
        line.say(head, &said, &[]);
        self.pump(from.link);
    }

    /// Sends a message back to who sent it.
    #[cold]
    fn send_back(&mut self, from: ReplyAddress, why: ReturnReason, arrived: ArrivedFrame) {
        let head = arrived.head;
        if head.kind == FrameKind::Bulk && from.request.is_none() {
            return self.send_back_data(from, why, arrived);
        }
        if let Some(line) = self.links.get(from.link)
            && let Some(incoming) = line.am.incoming.get(from.slot)
        {
            incoming.answered();
            let number = incoming.number;
            let request = from.request.unwrap_or(head.request);
            let returned = FrameHead {
                kind: FrameKind::Returned,
                words: head.words,
                handler: why as u8,
                slot: number,
                request,
            };
            let what = [head.kind as u8, head.handler, 0, 0, 0, 0, 0, 0];
            let mut words = [0; FrameHead::WORDS_MAX];
            let count = arrived.read_words(&mut words);
            // The data of a request is still at the sender's.
            let payload = arrived.parts().map_or(&[][..], |parts| parts.1);
            let payload = if head.kind == FrameKind::Bulk { &[] } else { payload };
            line.say(returned, &words[..count], &[&what, payload]);
            self.pump(from.link);
        }
        let incoming = self.links.get(from.link).and_then(|it| it.am.incoming.get(from.slot));
        match incoming.map(|incoming| incoming.endpoint) {
            Some(endpoint) => self.take_back_data(from, endpoint, arrived),
            None => self.release(arrived),
        }
    }

    /// Queues an upcall for an endpoint, or sets it aside while the endpoint moves.
    #[cold]
    pub(crate) fn enqueue(&mut self, key: SlotKey, what: UpcallKind) {
        let came = self.came();
        let Some(endpoint) = self.endpoints.get(key) else { return };
        let upcall = Upcall::new(key, what, came).at(endpoint.home());
        if let Some(parked) = &mut endpoint.parked {
            return parked.push_back(upcall);
        }
        endpoint.under_way += 1;
        self.upcalls.push_back(upcall);
    }

    /// A message that could not be delivered comes back.
    #[cold]
    pub(crate) fn returned(
        &mut self,
        link: SlotKey,
        arrived: ArrivedFrame,
    ) -> Result<(), &'static str> {
        let head = arrived.head;
        let (words, payload) = arrived.parts().ok_or("a message shorter than its words")?;
        let ([kind, handler, ..], bytes) =
            payload.split_first_chunk::<8>().ok_or("a return without a reason")?;
        let reason = ReturnReason::read(head.handler, *handler)?;
        let undelivered = Undelivered {
            reason: reason.clone(),
            handler: *handler,
            words: words_of(words),
            bytes: bytes.to_vec(),
        };
        let is_one_way = *kind == FrameKind::OneWay as u8 || head.request & NOT_ANSWERED != 0;
        let line = self.links.get(link).ok_or("no link")?;
        let number = line.am.outgoing.at(head.slot).ok_or("a return for no mapping")?;
        if *kind == FrameKind::OneWay as u8 {
            let (kind, handler, slot) = (FrameKind::OneWay, *handler, number.slot());
            line.carrier.came_back(FrameHead { kind, handler, slot, ..head }, &[words, bytes]);
        }
        self.release(arrived);
        let line = self.links.get(link).ok_or("no link")?;
        let number = line.am.outgoing.at(head.slot).ok_or("a return for no mapping")?;
        if is_one_way {
            number.credit(1)?;
            let endpoint = number.endpoint;
            self.tell_undelivered(endpoint, undelivered);
        } else {
            let (key, _) = line.take_answer(head)?;
            line.resolve(key, CallOutcome::Failed(Box::new(reason)));
        }
        self.unmap_if_quiet(link, head.slot);
        Ok(())
    }

    /// Queues the error handler of an endpoint.
    pub(crate) fn tell_undelivered(&mut self, endpoint: SlotKey, undelivered: Undelivered) {
        if planted(Fault::Untold) {
            return;
        }
        self.enqueue(endpoint, UpcallKind::Undelivered(Box::new(undelivered)));
    }
}

/// Whether these are the bytes of a message that can be queued inside of a drain.
#[inline]
fn is_short_message(head: FrameHead, bytes: &[u8]) -> bool {
    let payload = bytes.len().checked_sub(usize::from(head.words) * 8);
    payload.is_some_and(|payload| payload <= MEDIUM_MAX)
        && !(head.kind == FrameKind::Request && head.request & NOT_ANSWERED != 0)
        && !planted(Fault::Twice)
}

/// The number of the request, if the message is to be answered.
#[inline]
pub(super) fn request_of(head: FrameHead) -> Option<u32> {
    match head.kind {
        FrameKind::Request => Some(call_of(head)),
        FrameKind::Bulk if head.request & NOT_ANSWERED == 0 => Some(call_of(head)),
        _ => None,
    }
}

/// The number of the call of a request or of data.
#[inline]
pub(crate) const fn call_of(head: FrameHead) -> u32 {
    head.request & (CALLS_MAX - 1)
}

/// Flag in the request number of a bulk message: it is not answered.
pub(crate) const NOT_ANSWERED: u32 = 1 << 23;

/// Calls of a link that may be under way: their numbers leave room for two flags.
pub(crate) const CALLS_MAX: u32 = IN_ORDER;
