//! Links that end, whom that is told, and what becomes of what was under way.

use egret_net::vi::Descriptor;

use super::bundle::What;
use super::call::Outcome;
use super::deliver::{call_of, request_of};
use super::fault::{Fault, planted};
use super::{CallError, Reason, Undelivered};
use crate::link::{Fate, Head, Kind, LinkError};
use crate::links::slots::Key;
use crate::links::state::State;

/// Who is at the other end of a link, for as long as that lives: a host that is linked
/// again is another peer. No two links of a process have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// Of the links, in this process.
    pub(crate) links: u32,
    pub(crate) link: Key,
}

/// A link that is no more, for the [end handler](super::Endpoint::on_end).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ended {
    /// Whose link it was.
    pub peer: Peer,
    /// The peer's host, as it said itself.
    pub host: String,
    /// Which of the peer's lives it was with.
    pub incarnation: u64,
    /// Why it is no more.
    pub why: LinkError,
}

impl State {
    /// An endpoint has something to do with a link: it is told when that ends.
    pub(super) fn meets(&mut self, link: Key, endpoint: Key) {
        if let Some(line) = self.links.get(link) {
            line.am.met.insert(endpoint);
        }
    }

    /// An endpoint is closed, and told of nothing any more.
    pub(super) fn meets_nobody(&mut self, endpoint: Key) {
        for (_, line) in self.links.iter_mut() {
            line.am.met.remove(&endpoint);
        }
    }

    /// Tells all endpoints that had to do with a link that it is no more: behind
    /// everything that came by it.
    pub(super) fn tell_ended(&mut self, link: Key, why: &LinkError) {
        let Some(line) = self.links.get(link) else { return };
        let met = std::mem::take(&mut line.am.met);
        let ended = Ended {
            peer: Peer { links: self.fixed.number, link },
            host: line.peer.clone(),
            incarnation: line.incarnation.unwrap_or_default(),
            why: why.clone(),
        };
        let lost = usize::from(planted(Fault::EndUntold));
        for endpoint in met.into_iter().skip(lost) {
            if planted(Fault::EndTwice) {
                self.enqueue(endpoint, What::Ended(Box::new(ended.clone())));
            }
            self.enqueue(endpoint, What::Ended(Box::new(ended.clone())));
        }
    }

    /// A frame that the peer has not acknowledged, of a link that died.
    #[cold]
    pub(crate) fn undelivered(&mut self, link: Key, frame: Descriptor, fate: Fate) {
        let Some(line) = self.links.get(link) else { return };
        let Some(why) = line.ended.clone() else { return };
        let Some(head) = Head::from_bits(frame.tag()) else { return };
        if head.kind >= Kind::Part {
            return self.channel_came_back(link, frame, Some(fate));
        }
        let fate = if planted(Fault::SaidLost) { Fate::NotDelivered } else { fate };
        let reason = Reason::Link { fate, why };
        match head.kind {
            Kind::Bulk => self.data_undelivered(link, frame, reason),
            Kind::Request => {
                if let Some((key, call)) = line.am.calls.entry_at(call_of(head)) {
                    if call.awaits.answer {
                        call.outcome = Outcome::Failed(Box::new(CallError::Undelivered(reason)));
                    }
                    call.awaits = Default::default();
                    line.settle(key);
                }
            }
            Kind::OneWay => {
                let Some(outgoing) = line.am.outgoing.at(head.request) else { return };
                let endpoint = outgoing.endpoint;
                self.tell_undelivered(endpoint, Undelivered::of(head, &frame, reason));
            }
            _ => {}
        }
    }

    /// Data that will not be delivered: whoever holds its call is told, or the endpoint.
    #[cold]
    pub(crate) fn data_undelivered(&mut self, link: Key, frame: Descriptor, reason: Reason) {
        let Some(head) = Head::from_bits(frame.tag()) else { return };
        let Some(line) = self.links.get(link) else { return };
        let Some((key, call)) = line.am.calls.entry_at(call_of(head)) else {
            return;
        };
        let is_told = call.is_abandoned() && request_of(head).is_none();
        let number = call.number;
        let told = is_told.then(|| Undelivered::of(head, &frame, reason.clone()));
        if call.awaits.answer || matches!(call.outcome, Outcome::Empty) {
            call.outcome = Outcome::Failed(Box::new(CallError::Undelivered(reason)));
        }
        call.memory_is_back(frame);
        call.awaits = Default::default();
        line.settle(key);
        if let (Some(told), Some(outgoing)) = (told, line.am.outgoing.get(number)) {
            let endpoint = outgoing.endpoint;
            self.tell_undelivered(endpoint, told);
        }
    }
}
