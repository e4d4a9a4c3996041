//! Answers to requests of this side.

use egret_net::vi::Segment;

use super::bundle::UpcallKind;
use super::call::{CallOutcome, PendingParts};
use super::deliver::NOT_ANSWERED;
use super::message::{FewWords, ReceivedPayload, ReplyWords};
use super::request::PLAIN;
use super::{CallReply, MessageError};
use crate::flow::{InflowKey, cost};
use crate::frame::{ArrivedFrame, FrameHead, FrameKind};
use crate::links::state::LinksState;
use crate::slots::SlotKey;

impl LinksState {
    /// An answer of a few words, where it lies. `false` if there is anything about it that
    /// [`answered`](Self::answered) has to see to, and nothing was done.
    #[inline]
    pub(crate) fn answered_at_once(
        &mut self,
        link: SlotKey,
        head: FrameHead,
        bytes: &[u8],
    ) -> bool {
        let Some(line) = self.links.get(link).filter(|line| line.ended.is_none()) else {
            return false;
        };
        let count = usize::from(head.words);
        if head.handler != PLAIN || bytes.len() != count * 8 || count > FewWords::MAX {
            return false;
        }
        let am = &mut line.am;
        let Some(call) = am.calls.at(head.request) else { return false };
        if call.awaits != PendingParts::answer()
            || call.is_abandoned()
            || call.number.index != head.slot
        {
            return false;
        }
        let Some(outgoing) = am.outgoing.get(call.number) else { return false };
        if !outgoing.is_mapped() || outgoing.credit(1).is_err() {
            return false;
        }
        call.few_words(bytes);
        if am.trips.is_of(head.request) {
            am.trips.end(am.calls.key_at(head.request), line.carrier.now());
        }
        line.carrier.count_eager(bytes.len());
        true
    }

    /// An answer to a request of this side.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        link: SlotKey,
        arrived: ArrivedFrame,
    ) -> Result<(), &'static str> {
        let head = arrived.head;
        let line = self.links.get(link).ok_or("no link")?;
        if head.kind == FrameKind::BulkReply && head.request & NOT_ANSWERED != 0 {
            return self.returned_data(link, arrived);
        }
        let (key, endpoint) = line.take_answer(head)?;
        if line.am.trips.is_of(key.index) {
            line.am.trips.end(Some(key), line.carrier.now());
        }
        if head.kind == FrameKind::BulkReply && !arrived.has_landed() {
            line.lands.spend(InflowKey::Replies(head.slot), arrived.data_len())?;
        }
        if head.kind == FrameKind::BulkReply {
            let outgoing = line.am.outgoing.at(head.slot).expect("just looked at");
            self.inflows.arrive(outgoing.flow, cost(arrived.data_len()))?;
        }
        arrived.parts().ok_or("an answer shorter than its words")?;
        let leaves = line.is_leaving(head.slot);
        let number = line.am.outgoing.key_at(head.slot).expect("just looked at");
        if head.kind != FrameKind::NoReply && head.handler != PLAIN {
            line.resolve(key, CallOutcome::Empty);
            self.answer_upcall(link, endpoint, number, arrived);
        } else if line.am.calls.get(key).is_some_and(|call| call.is_abandoned()) {
            line.resolve(key, CallOutcome::Empty);
            self.answer_served(link, number, arrived);
        } else {
            line.resolve(key, CallOutcome::Arrived(arrived));
        }
        if leaves {
            self.unmap_if_quiet(link, head.slot);
        }
        // What the flow may still send may be asked back now.
        if head.kind == FrameKind::BulkReply {
            self.tell_flows();
        }
        Ok(())
    }

    #[cold]
    fn answer_upcall(
        &mut self,
        link: SlotKey,
        endpoint: SlotKey,
        number: SlotKey,
        arrived: ArrivedFrame,
    ) {
        if self.endpoints.get(endpoint).is_none() {
            return self.answer_served(link, number, arrived);
        }
        self.enqueue(endpoint, UpcallKind::Answer { link, number, arrived });
    }

    /// An answer is done with.
    #[inline]
    pub(super) fn answer_served(&mut self, link: SlotKey, number: SlotKey, arrived: ArrivedFrame) {
        let (kind, bytes) = (arrived.head.kind, arrived.data_len());
        self.release(arrived);
        if kind == FrameKind::BulkReply {
            self.reply_bytes_used(link, number, bytes);
        }
    }
}

impl CallReply {
    pub(crate) fn empty() -> Self {
        Self { words: ReplyWords::Few(FewWords::new()), payload: None, sent: None }
    }

    /// Takes an answer out of what it arrived in.
    #[inline]
    pub(super) fn of(arrived: &mut ArrivedFrame, sent: Option<Box<Segment>>) -> Self {
        let mut reply = Self { sent, ..Self::empty() };
        let mut words = [0; FrameHead::WORDS_MAX];
        let count = arrived.read_words(&mut words);
        reply.words = ReplyWords::Many(words[..count].into());
        let is_bulk = arrived.head.kind == FrameKind::BulkReply;
        let at = if is_bulk { 0 } else { count * 8 };
        if let Some(buf) = arrived.take_landed() {
            reply.payload = Some(Box::new(ReceivedPayload::Buf(buf, at)));
        } else if let Some((_, payload)) = arrived.parts()
            && !payload.is_empty()
        {
            reply.payload = Some(Box::new(ReceivedPayload::Copied(payload.to_vec())));
        }
        reply
    }
}

/// Why a request has no answer. It travels as the handler and the words of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// The handler gave none.
    Missing,
    /// The handler panicked.
    Panicked,
    /// The data of the answer needs so many bytes, more than who asked takes.
    TooLarge { bytes: u64 },
}

impl NoReply {
    /// As it travels.
    pub(crate) fn to_parts(self) -> (u8, Vec<u64>) {
        match self {
            Self::Missing => (0, Vec::new()),
            Self::Panicked => (1, Vec::new()),
            Self::TooLarge { bytes } => (2, vec![bytes]),
        }
    }

    /// What has arrived. An unknown kind is no answer.
    pub(crate) fn of(arrived: &ArrivedFrame) -> Self {
        let mut words = [0; FrameHead::WORDS_MAX];
        let count = arrived.read_words(&mut words);
        match (arrived.head.handler, &words[..count]) {
            (1, _) => Self::Panicked,
            (2, &[bytes]) => Self::TooLarge { bytes },
            _ => Self::Missing,
        }
    }

    /// As the error of who asked, which takes at most `most` bytes of an answer.
    pub(crate) fn to_error(self, most: u64) -> MessageError {
        match self {
            Self::Missing => MessageError::NoReply,
            Self::Panicked => MessageError::Panicked,
            Self::TooLarge { bytes } => MessageError::ReplyTooLarge { bytes, most },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FrameKind;

    #[test]
    fn reasons_without_a_reply_are_decoded_as_encoded() {
        let all = [NoReply::Missing, NoReply::Panicked, NoReply::TooLarge { bytes: 9 }];
        for (at, why) in all.into_iter().enumerate() {
            let (handler, words) = why.to_parts();
            assert_eq!(usize::from(handler), at, "for ever");
            let count = words.len().try_into().unwrap();
            let head = FrameHead { handler, words: count, ..FrameHead::of(FrameKind::NoReply, 0) };
            let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(NoReply::of(&ArrivedFrame::from_parts(head, None, bytes)), why);
        }
        let unknown = FrameHead { handler: 200, ..FrameHead::of(FrameKind::NoReply, 0) };
        assert_eq!(NoReply::of(&ArrivedFrame::from_parts(unknown, None, vec![])), NoReply::Missing);
        let short = FrameHead { handler: 2, ..FrameHead::of(FrameKind::NoReply, 0) };
        assert_eq!(NoReply::of(&ArrivedFrame::from_parts(short, None, vec![])), NoReply::Missing);
    }
}
