//! Answers to requests of this side.

use egret_net::vi::Segment;

use super::Reply;
use super::bundle::What;
use super::call::{Awaits, Outcome};
use super::deliver::NOT_ANSWERED;
use super::message::{Few, Landed, Words};
use super::request::PLAIN;
use crate::flow::cost;
use crate::link::arrived::Arrived;
use crate::link::lands::Flow;
use crate::link::{Head, Kind};
use crate::links::slots::Key;
use crate::links::state::State;

impl State {
    /// An answer of a few words, where it lies. `false` if there is anything about it that
    /// [`answered`](Self::answered) has to see to, and nothing was done.
    #[inline]
    pub(crate) fn answered_at_once(&mut self, link: Key, head: Head, bytes: &[u8]) -> bool {
        let Some(line) = self.links.get(link).filter(|line| line.ended.is_none()) else {
            return false;
        };
        let count = usize::from(head.words);
        if head.handler != PLAIN || bytes.len() != count * 8 || count > Few::MAX {
            return false;
        }
        let am = &mut line.am;
        let Some(call) = am.calls.at(head.request) else { return false };
        if call.awaits != Awaits::answer() || call.is_abandoned() || call.number.index != head.slot
        {
            return false;
        }
        let Some(outgoing) = am.outgoing.get(call.number) else { return false };
        if !outgoing.is_mapped() || outgoing.credit(1).is_err() {
            return false;
        }
        call.few_words(bytes);
        line.carrier.count_eager();
        true
    }

    /// An answer to a request of this side.
    #[inline]
    pub(crate) fn answered(&mut self, link: Key, arrived: Arrived) -> Result<(), &'static str> {
        let head = arrived.head;
        let line = self.links.get(link).ok_or("no link")?;
        if head.kind == Kind::BulkReply && head.request & NOT_ANSWERED != 0 {
            return self.returned_data(link, arrived);
        }
        let (key, endpoint) = line.take_answer(head)?;
        if head.kind == Kind::BulkReply && !arrived.has_landed() {
            line.lands.spend(Flow::Replies(head.slot), arrived.data_len())?;
        }
        if head.kind == Kind::BulkReply {
            let outgoing = line.am.outgoing.at(head.slot).expect("just looked at");
            self.inflows.arrive(outgoing.flow, cost(arrived.data_len()))?;
        }
        arrived.parts().ok_or("an answer shorter than its words")?;
        let leaves = line.is_leaving(head.slot);
        let number = line.am.outgoing.key_at(head.slot).expect("just looked at");
        if head.kind != Kind::NoReply && head.handler != PLAIN {
            line.resolve(key, Outcome::Empty);
            self.answer_upcall(link, endpoint, number, arrived);
        } else if line.am.calls.get(key).is_some_and(|call| call.is_abandoned()) {
            line.resolve(key, Outcome::Empty);
            self.answer_served(link, number, arrived);
        } else {
            line.resolve(key, Outcome::Arrived(arrived));
        }
        if leaves {
            self.unmap_if_quiet(link, head.slot);
        }
        // What the flow may still send may be asked back now.
        if head.kind == Kind::BulkReply {
            self.tell_flows();
        }
        Ok(())
    }

    #[cold]
    fn answer_upcall(&mut self, link: Key, endpoint: Key, number: Key, arrived: Arrived) {
        if self.endpoints.get(endpoint).is_none() {
            return self.answer_served(link, number, arrived);
        }
        self.enqueue(endpoint, What::Answer { link, number, arrived });
    }

    /// An answer is done with.
    #[inline]
    pub(super) fn answer_served(&mut self, link: Key, number: Key, arrived: Arrived) {
        let (kind, bytes) = (arrived.head.kind, arrived.data_len());
        self.release(arrived);
        if kind == Kind::BulkReply {
            self.reply_bytes_used(link, number, bytes);
        }
    }
}

impl Reply {
    pub(crate) fn empty() -> Self {
        Self { words: Words::Few(Few::new()), payload: None, sent: None }
    }

    /// Takes an answer out of what it arrived in.
    #[inline]
    pub(super) fn of(arrived: &mut Arrived, sent: Option<Box<Segment>>) -> Self {
        let mut reply = Self { sent, ..Self::empty() };
        let mut words = [0; Head::WORDS_MAX];
        let count = arrived.read_words(&mut words);
        reply.words = Words::Many(words[..count].into());
        let is_bulk = arrived.head.kind == Kind::BulkReply;
        let at = if is_bulk { 0 } else { count * 8 };
        if let Some(buf) = arrived.take_landed() {
            reply.payload = Some(Box::new(Landed::Buf(buf, at)));
        } else if let Some((_, payload)) = arrived.parts()
            && !payload.is_empty()
        {
            reply.payload = Some(Box::new(Landed::Copied(payload.to_vec())));
        }
        reply
    }
}
