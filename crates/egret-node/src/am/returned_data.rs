//! Data that no handler takes, on its way back to its sender.
//!
//! The data of a request is at the sender's until the request is answered. That of a message
//! which is not answered is gone from there when it has arrived, so it is sent back: among the
//! answers with data, when the sender takes it. Until it goes it is held by the flow it came by.
//!
//! A node that holds such data waits for memory of the other side. So that no two sides wait for each
//! other, nor several in a circle, data gives way when somebody waits to answer this side, perhaps
//! with such data: it goes back without its bytes.

use egret_net::vi::{Descriptor, Segment};

use super::bundle::UpcallKind;
use super::deliver::NOT_ANSWERED;
use super::fault::{Fault, planted};
use super::gather::bulk_frame;
use super::request::ReplyAddress;
use super::{MessageError, Undelivered};
use crate::flow::{FlowId, InflowKey, cost};
use crate::frame::{ArrivedFrame, FrameHead, FrameKind, LinkLane};
use crate::links::state::LinksState;
use crate::slots::SlotKey;

impl LinksState {
    /// Sends data that no handler takes back to its sender.
    #[cold]
    pub(super) fn send_back_data(
        &mut self,
        from: ReplyAddress,
        why: ReturnReason,
        mut arrived: ArrivedFrame,
    ) {
        let head = arrived.head;
        let mut words = [0; FrameHead::WORDS_MAX];
        let count = arrived.read_words(&mut words);
        let Ok(line) = self.links.live(from.link) else { return self.release(arrived) };
        let segments = line.segments;
        let Some(incoming) = line.am.incoming.get(from.slot) else {
            return self.release(arrived);
        };
        let (slot, endpoint) = (incoming.number, incoming.endpoint);
        // What the endpoint supplied is the endpoint's.
        let data: Segment = if arrived.has_landed() && !arrived.supplied {
            arrived.take_landed().expect("it has landed").into()
        } else {
            arrived.parts().map_or(&[][..], |parts| parts.1).to_vec().into()
        };
        let returned = FrameHead {
            kind: FrameKind::BulkReply,
            handler: why as u8,
            slot,
            request: NOT_ANSWERED,
            ..head
        };
        let what = vec![head.handler, 0, 0, 0, 0, 0, 0, 0];
        let frame = bulk_frame(returned, &words[..count], vec![data, what.into()], segments);
        if let (Some(buf), Some(endpoint)) = (arrived.take_landed(), self.endpoints.get(endpoint)) {
            endpoint.supply.give_back(buf);
        }
        self.release(arrived);
        let Ok(line) = self.links.live(from.link) else { return };
        let Some(incoming) = line.am.incoming.get(from.slot) else { return };
        incoming.replies.push(frame);
        self.pass_replies(from.link, from.slot);
        self.give_way();
    }

    /// Whether the peer waits for memory of this side to answer.
    fn are_answers_waiting(&self) -> bool {
        let answers =
            |id: FlowId| matches!(self.inflows.place(id), Some((_, InflowKey::Replies(_))));
        self.inflows.budget.waiting().any(answers) && !planted(Fault::HeldAgainst)
    }

    /// Sends data back without its bytes that waits for the peer to take it, if somebody waits for
    /// memory of this side to answer.
    pub(crate) fn give_way(&mut self) {
        if !self.are_answers_waiting() {
            return;
        }
        for link in self.links.keys() {
            let Ok(line) = self.links.live(link) else { continue };
            for slot in line.am.incoming.keys() {
                while let Some(frame) = self.take_waiting_return(link, slot) {
                    self.send_back_without(link, slot, &frame);
                    self.pass_replies(link, slot);
                }
            }
        }
    }

    /// The next answer of a mapping, if it is data on its way back that lacks bytes.
    fn take_waiting_return(&mut self, link: SlotKey, slot: SlotKey) -> Option<Descriptor> {
        let incoming = self.links.live(link).ok()?.am.incoming.get(slot)?;
        let tag = incoming.replies.first()?.tag();
        let is_return = returned_len(u64::MAX, FrameHead::from_bits(tag)?).is_some();
        if !is_return || incoming.replies.is_ready() {
            return None;
        }
        incoming.answered();
        incoming.replies.give_up()
    }

    /// Data that goes back was given to the link, or never will be: its bytes are granted again.
    pub(super) fn went_back(
        &mut self,
        link: SlotKey,
        slot: SlotKey,
        frame_len: u64,
        head: FrameHead,
    ) {
        if let Some(bytes) = returned_len(frame_len, head) {
            self.used_bytes(ReplyAddress { link, slot, request: None }, bytes);
        }
    }

    /// Sends a message back without its data, since the peer has no memory for the data.
    pub(super) fn send_back_without(&mut self, link: SlotKey, slot: SlotKey, frame: &Descriptor) {
        let head = FrameHead::from_bits(frame.tag()).expect("of this side");
        self.went_back(link, slot, frame.len(), head);
        let mut all = vec![0; usize::try_from(frame.len()).expect("it is in memory")];
        frame.gather(0, &mut all);
        let words = all.split_off(all.len() - usize::from(head.words) * 8);
        let handler = all[all.len() - TRAILER_LEN];
        let words = words_of(&words);
        let Ok(line) = self.links.live(link) else { return };
        let what = [FrameKind::Bulk as u8, handler, 0, 0, 0, 0, 0, 0];
        line.say(FrameHead { kind: FrameKind::Returned, ..head }, &words, &[&what]);
    }

    /// Data of this side comes back.
    #[cold]
    pub(super) fn returned_data(
        &mut self,
        link: SlotKey,
        arrived: ArrivedFrame,
    ) -> Result<(), &'static str> {
        let head = arrived.head;
        let line = self.links.get(link).ok_or("no link")?;
        let (number, outgoing) =
            line.am.outgoing.entry_at(head.slot).ok_or("a return for no mapping")?;
        outgoing.credit(1)?;
        let endpoint = outgoing.endpoint;
        if !arrived.has_landed() {
            line.lands.spend(InflowKey::Replies(head.slot), arrived.data_len())?;
        }
        self.inflows.arrive(outgoing.flow, cost(arrived.data_len()))?;
        read_returned(&arrived)?;
        // Its bytes are the flow's until the error handler has run.
        if self.hears_of_returns(endpoint) {
            self.enqueue(endpoint, UpcallKind::Returned { link, number, arrived });
        } else {
            self.answer_served(link, number, arrived);
        }
        self.unmap_if_quiet(link, head.slot);
        Ok(())
    }

    /// Whether an endpoint is there to be told of what came back.
    fn hears_of_returns(&mut self, endpoint: SlotKey) -> bool {
        self.endpoints.get(endpoint).is_some() && !planted(Fault::Untold)
    }
}

/// The data and the handler of data that came back, and why it did.
fn read_returned(arrived: &ArrivedFrame) -> Result<(&[u8], u8, MessageError), &'static str> {
    let (_, payload) = arrived.parts().ok_or("a message shorter than its words")?;
    let (data, [handler, ..]) =
        payload.split_last_chunk::<TRAILER_LEN>().ok_or("a return without a reason")?;
    Ok((data, *handler, ReturnReason::read(arrived.head.handler, *handler)?))
}

impl Undelivered {
    /// Of data that came back, which was looked at when it did.
    #[cold]
    pub(super) fn of_returned(arrived: &ArrivedFrame) -> Self {
        let mut words = [0; FrameHead::WORDS_MAX];
        let count = arrived.read_words(&mut words);
        let (data, handler, reason) = read_returned(arrived).expect("it was looked at");
        Self { reason, handler, words: words[..count].to_vec(), bytes: data.to_vec() }
    }
}

/// The bytes of data that a frame brings back, if it does so.
fn returned_len(frame_len: u64, head: FrameHead) -> Option<u64> {
    let brings = head.kind == FrameKind::BulkReply && head.request & NOT_ANSWERED != 0;
    brings.then(|| frame_len - u64::from(head.words) * 8 - TRAILER_LEN as u64)
}

/// Words, from how they travel.
pub(super) fn words_of(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(8);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

/// Bytes behind the data that comes back: the handler it was for, and padding.
const TRAILER_LEN: usize = 8;

impl Undelivered {
    /// Of a frame of this side.
    pub(super) fn of(head: FrameHead, frame: &Descriptor, reason: MessageError) -> Self {
        let mut all = vec![0; usize::try_from(frame.len()).expect("it is in memory")];
        frame.gather(0, &mut all);
        let words = usize::from(head.words) * 8;
        let (words, bytes) = if head.kind.lane() == LinkLane::Bulk {
            let words = all.split_off(all.len() - words);
            (words, all)
        } else {
            let bytes = all.split_off(words);
            (all, bytes)
        };
        Self { reason, handler: head.handler, words: words_of(&words), bytes }
    }
}

/// Why a message goes back.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum ReturnReason {
    NoHandler = 0,
    WrongTag = 1,
    EndpointGone = 2,
}

impl ReturnReason {
    /// Reads the reason that the peer has sent, for a message to this handler.
    pub(super) const fn read(why: u8, handler: u8) -> Result<MessageError, &'static str> {
        match why {
            0 => Ok(MessageError::NoHandler { handler }),
            1 => Ok(MessageError::TagChanged),
            2 => Ok(MessageError::EndpointGone),
            _ => Err("a returned message with an unknown reason"),
        }
    }
}
