//! Places of requests whose data is still to come.
//!
//! Data goes by a lane of its own, so a short request may come before one with data that was sent
//! earlier, and the other way round. A request that [keeps the order](super::Message::in_order) and
//! has data says in the lane of the short ones that its place is there. Short requests that keep the
//! order, too, and come behind the place wait until the data is there, or the sender gives the place
//! up; data that comes before its place waits for that. A place that is given up is answered like a
//! request: no other has its number until then.

use std::collections::VecDeque;

use egret_net::rt::Instant;

use super::answer::NoReply;
use super::deliver::call_of;
use super::fault::{Fault, planted};
use super::request::ReplyAddress;
use crate::frame::{ArrivedFrame, FrameHead, FrameKind};
use crate::links::state::LinksState;
use crate::slots::SlotKey;

/// Flag in the number of a request: the request keeps the order, and has a place if it has data.
pub(crate) const IN_ORDER: u32 = 1 << 22;

/// Whether a request with data has a place among the short ones, which is given up if its data was refused.
pub(super) fn has_place(head: FrameHead) -> bool {
    head.request & IN_ORDER != 0 && !planted(Fault::PlaceKept)
}

/// The requests of one mapping that wait for data, or with it.
#[derive(Debug, Default)]
pub(crate) struct RequestOrder {
    /// In the order sent, from the first whose data has not come.
    queue: VecDeque<OrderedRequest>,
    /// Data that came before its place.
    early: Vec<WaitingRequest>,
}

#[derive(Debug)]
enum OrderedRequest {
    /// The data of this request has not come.
    Kept(u32),
    Taken(WaitingRequest),
}

/// A request that has arrived, and when.
#[derive(Debug)]
pub(crate) struct WaitingRequest {
    pub(crate) arrived: ArrivedFrame,
    pub(crate) came: Instant,
}

impl RequestOrder {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a message is to [wait](Self::wait) here.
    #[inline]
    pub(super) fn holds(&self, head: FrameHead) -> bool {
        match head.kind {
            FrameKind::Bulk => head.request & IN_ORDER != 0,
            FrameKind::Request => {
                head.request & IN_ORDER != 0 && !self.queue.is_empty() && !planted(Fault::Overtakes)
            }
            _ => false,
        }
    }

    /// A message waits for its turn. It may have come, see [`next`](Self::next).
    pub(super) fn wait(&mut self, arrived: ArrivedFrame, came: Instant) {
        let head = arrived.head;
        let waiting = WaitingRequest { arrived, came };
        if head.kind != FrameKind::Bulk {
            return self.queue.push_back(OrderedRequest::Taken(waiting));
        }
        let request = call_of(head);
        let is_its = |place: &&mut OrderedRequest| matches!(place, OrderedRequest::Kept(kept) if *kept == request);
        let kept = self.queue.iter_mut().find(is_its);
        match kept {
            Some(place) => *place = OrderedRequest::Taken(waiting),
            None => self.early.push(waiting),
        }
    }

    /// The place of a message with data, behind all others.
    ///
    /// # Errors
    ///
    /// If there are more than messages may be under way.
    pub(super) fn keep(&mut self, place: FrameHead, window: u32) -> Result<(), &'static str> {
        if self.queue.len() >= window as usize {
            return Err("more places than its window allows");
        }
        let early = self.early.iter().position(|it| call_of(it.arrived.head) == place.request);
        self.queue.push_back(match early {
            Some(at) => OrderedRequest::Taken(self.early.remove(at)),
            None => OrderedRequest::Kept(place.request),
        });
        Ok(())
    }

    /// Removes the place of a request whose data does not come.
    ///
    /// # Errors
    ///
    /// If there is no such place.
    pub(super) fn give_up(&mut self, place: FrameHead) -> Result<(), &'static str> {
        let is_its = |it: &OrderedRequest| matches!(it, OrderedRequest::Kept(kept) if *kept == place.request);
        let at = self.queue.iter().position(is_its);
        let at = at.ok_or("it gave up a place that it had not")?;
        self.queue.remove(at);
        Ok(())
    }

    /// The next request to serve, unless the first in order waits for its data.
    pub(super) fn next(&mut self) -> Option<WaitingRequest> {
        match self.queue.pop_front()? {
            OrderedRequest::Taken(waiting) => Some(waiting),
            kept @ OrderedRequest::Kept(_) => {
                self.queue.push_front(kept);
                None
            }
        }
    }

    /// All requests that wait: their mapping ends.
    pub(super) fn into_waiting(self) -> impl Iterator<Item = WaitingRequest> {
        let taken = self.queue.into_iter().filter_map(|place| match place {
            OrderedRequest::Taken(waiting) => Some(waiting),
            OrderedRequest::Kept(_) => None,
        });
        taken.chain(self.early)
    }
}

impl LinksState {
    /// Has a message wait for its turn, which may have come.
    #[cold]
    pub(super) fn wait_in_place(
        &mut self,
        link: SlotKey,
        slot: SlotKey,
        arrived: ArrivedFrame,
        came: Instant,
    ) -> Result<(), &'static str> {
        let line = self.links.get(link).ok_or("no link")?;
        let incoming = line.am.incoming.get(slot).ok_or("a message for no mapping")?;
        incoming.places.wait(arrived, came);
        self.take_turns(link, slot);
        Ok(())
    }

    /// A request with data has its place here, or gives it up.
    #[cold]
    pub(crate) fn placed(
        &mut self,
        link: SlotKey,
        arrived: ArrivedFrame,
    ) -> Result<(), &'static str> {
        let head = arrived.head;
        self.release(arrived);
        let line = self.links.get(link).ok_or("no link")?;
        let (slot, incoming) =
            line.am.incoming.entry_at(head.slot).ok_or("a place for no mapping")?;
        let window = incoming.window();
        match head.kind {
            FrameKind::NoPlace => {
                incoming.places.give_up(head)?;
                incoming.take()?;
                let from = ReplyAddress { link, slot, request: Some(call_of(head)) };
                self.no_reply(from, NoReply::Missing);
            }
            _ => incoming.places.keep(head, window)?,
        }
        self.take_turns(link, slot);
        Ok(())
    }

    /// Delivers the messages whose turn has come.
    fn take_turns(&mut self, link: SlotKey, slot: SlotKey) {
        while let Some(line) = self.links.get(link)
            && let Some(incoming) = line.am.incoming.get(slot)
            && let Some(WaitingRequest { arrived, came }) = incoming.places.next()
        {
            self.take_turn(link, slot, arrived, came);
        }
    }
}
