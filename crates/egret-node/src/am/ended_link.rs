//! Links that have ended: the end handlers, and the messages that were under way.

use egret_net::vi::Descriptor;

use super::bundle::UpcallKind;
use super::call::CallOutcome;
use super::deliver::{call_of, request_of};
use super::fault;
use super::{MessageError, Undelivered};
use crate::frame::{FrameHead, FrameKind};
use crate::link::{Fate, LinkError};
use crate::links::state::LinksState;
use crate::slots::SlotKey;

/// The peer at the other end of a link, for the lifetime of the link: a host that is linked again is
/// another peer. No two links of a process have the same. [`EndedLink`] has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkPeer {
    /// The number of the [`Links`](crate::Links) in this process.
    pub(crate) links: u32,
    pub(crate) link: SlotKey,
}

/// A link that has ended, for the [end handler](super::Endpoint::on_end).
///
/// ```
/// use std::collections::BTreeMap;
/// use egret_node::am::{Endpoint, LinkPeer};
///
/// fn forget_ended(endpoint: &Endpoint, mut sessions: BTreeMap<LinkPeer, String>) {
///     endpoint.on_end(move |ended| {
///         sessions.remove(&ended.peer);
///         eprintln!("{}: {}", ended.host, ended.why);
///     });
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndedLink {
    /// The peer of the link.
    pub peer: LinkPeer,
    /// The peer's host, as it said itself.
    pub host: String,
    /// The incarnation of the peer.
    pub incarnation: u64,
    /// Why the link has ended.
    pub why: LinkError,
}

impl LinksState {
    /// Registers an endpoint with a link: its end handler runs when the link ends.
    pub(super) fn meets(&mut self, link: SlotKey, endpoint: SlotKey) {
        if let Some(line) = self.links.get(link) {
            line.am.met.insert(endpoint);
        }
    }

    /// Removes a closed endpoint from all links: its end handler does not run any more.
    pub(super) fn meets_nobody(&mut self, endpoint: SlotKey) {
        for (_, line) in self.links.iter_mut() {
            line.am.met.remove(&endpoint);
        }
    }

    /// Queues the end handlers of all endpoints that were registered with a link, behind everything
    /// that came by it.
    pub(super) fn tell_ended(&mut self, link: SlotKey, why: &LinkError) {
        let Some(line) = self.links.get(link) else { return };
        let met = std::mem::take(&mut line.am.met);
        let ended = EndedLink {
            peer: LinkPeer { links: self.fixed.number, link },
            host: line.peer.clone(),
            incarnation: line.incarnation.unwrap_or_default(),
            why: why.clone(),
        };
        for endpoint in met {
            self.tell_end(endpoint, &ended);
        }
    }

    /// Queues the end handler of an endpoint.
    fn tell_end(&mut self, endpoint: SlotKey, ended: &EndedLink) {
        for _ in 0..fault::runs_of_end_handler() {
            self.enqueue(endpoint, UpcallKind::Ended(Box::new(ended.clone())));
        }
    }

    /// A frame that the peer has not acknowledged, of a link that died.
    #[cold]
    pub(crate) fn undelivered(&mut self, link: SlotKey, frame: Descriptor, fate: Fate) {
        let Some(line) = self.links.get(link) else { return };
        let Some(why) = line.ended.clone() else { return };
        let Some(head) = FrameHead::from_bits(frame.tag()) else { return };
        if head.kind >= FrameKind::Part {
            return self.channel_came_back(link, frame, Some(fate));
        }
        let reason = MessageError::LinkLost { fate: fault::fate_told(fate), why };
        match head.kind {
            FrameKind::Bulk => self.data_undelivered(link, frame, reason),
            FrameKind::Request => {
                if let Some((key, call)) = line.am.calls.entry_at(call_of(head)) {
                    if call.awaits.answer {
                        call.outcome = CallOutcome::Failed(Box::new(reason));
                    }
                    call.awaits = Default::default();
                    line.settle(key);
                }
            }
            FrameKind::OneWay => {
                let Some(outgoing) = line.am.outgoing.at(head.request) else { return };
                let endpoint = outgoing.endpoint;
                self.tell_undelivered(endpoint, Undelivered::of(head, &frame, reason));
            }
            _ => {}
        }
    }

    /// Data will not be delivered: its call fails, or the endpoint's error handler runs.
    #[cold]
    pub(crate) fn data_undelivered(
        &mut self,
        link: SlotKey,
        frame: Descriptor,
        reason: MessageError,
    ) {
        let Some(head) = FrameHead::from_bits(frame.tag()) else { return };
        let Some(line) = self.links.get(link) else { return };
        let Some((key, call)) = line.am.calls.entry_at(call_of(head)) else {
            return;
        };
        let is_told = call.is_abandoned() && request_of(head).is_none();
        let number = call.number;
        let told = is_told.then(|| Undelivered::of(head, &frame, reason.clone()));
        if call.awaits.answer || matches!(call.outcome, CallOutcome::Empty) {
            call.outcome = CallOutcome::Failed(Box::new(reason));
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
