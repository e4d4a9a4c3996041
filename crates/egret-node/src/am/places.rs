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

use super::deliver::call_of;
use super::fault::{Fault, planted};
use super::no_reply::NoReply;
use super::request::From;
use crate::link::arrived::Arrived;
use crate::link::{Head, Kind};
use crate::links::slots::Key;
use crate::links::state::State;

/// Of a request's number: it keeps the order, and with data has a place.
pub(crate) const IN_ORDER: u32 = 1 << 22;

/// The requests of one mapping that wait for data, or with it.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// In the order sent, from the first whose data has not come.
    queue: VecDeque<Place>,
    /// Data that came before its place.
    early: Vec<Waiting>,
}

#[derive(Debug)]
enum Place {
    /// The data of this request has not come.
    Kept(u32),
    Taken(Waiting),
}

/// A request that came, and when it did.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) arrived: Arrived,
    pub(crate) came: Instant,
}

impl Places {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a message is to [wait](Self::wait) here.
    #[inline]
    pub(super) fn holds(&self, head: Head) -> bool {
        match head.kind {
            Kind::Bulk => head.request & IN_ORDER != 0,
            Kind::Request => {
                head.request & IN_ORDER != 0 && !self.queue.is_empty() && !planted(Fault::Overtakes)
            }
            _ => false,
        }
    }

    /// A message waits for its turn. It may have come, see [`next`](Self::next).
    pub(super) fn wait(&mut self, arrived: Arrived, came: Instant) {
        let head = arrived.head;
        let waiting = Waiting { arrived, came };
        if head.kind != Kind::Bulk {
            return self.queue.push_back(Place::Taken(waiting));
        }
        let request = call_of(head);
        let is_its = |place: &&mut Place| matches!(place, Place::Kept(kept) if *kept == request);
        let kept = self.queue.iter_mut().find(is_its);
        match kept {
            Some(place) => *place = Place::Taken(waiting),
            None => self.early.push(waiting),
        }
    }

    /// The place of a message with data, behind all others.
    ///
    /// # Errors
    ///
    /// If there are more than messages may be under way.
    pub(super) fn keep(&mut self, place: Head, window: u32) -> Result<(), &'static str> {
        if self.queue.len() >= window as usize {
            return Err("more places than its window allows");
        }
        let early = self.early.iter().position(|it| call_of(it.arrived.head) == place.request);
        self.queue.push_back(match early {
            Some(at) => Place::Taken(self.early.remove(at)),
            None => Place::Kept(place.request),
        });
        Ok(())
    }

    /// The data of a place does not come.
    ///
    /// # Errors
    ///
    /// If there is no such place.
    pub(super) fn give_up(&mut self, place: Head) -> Result<(), &'static str> {
        let is_its = |it: &Place| matches!(it, Place::Kept(kept) if *kept == place.request);
        let at = self.queue.iter().position(is_its);
        let at = at.ok_or("it gave up a place that it had not")?;
        self.queue.remove(at);
        Ok(())
    }

    /// The next whose turn has come.
    pub(super) fn next(&mut self) -> Option<Waiting> {
        match self.queue.pop_front()? {
            Place::Taken(waiting) => Some(waiting),
            kept @ Place::Kept(_) => {
                self.queue.push_front(kept);
                None
            }
        }
    }

    /// All that wait, whose turn does not come any more.
    pub(super) fn into_waiting(self) -> impl Iterator<Item = Waiting> {
        let taken = self.queue.into_iter().filter_map(|place| match place {
            Place::Taken(waiting) => Some(waiting),
            Place::Kept(_) => None,
        });
        taken.chain(self.early)
    }
}

impl State {
    /// Has a message wait for its turn, which may have come.
    #[cold]
    pub(super) fn wait_in_place(
        &mut self,
        link: Key,
        slot: Key,
        arrived: Arrived,
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
    pub(crate) fn placed(&mut self, link: Key, arrived: Arrived) -> Result<(), &'static str> {
        let head = arrived.head;
        self.release(arrived);
        let line = self.links.get(link).ok_or("no link")?;
        let (slot, incoming) =
            line.am.incoming.entry_at(head.slot).ok_or("a place for no mapping")?;
        let window = incoming.window();
        match head.kind {
            Kind::NoPlace => {
                incoming.places.give_up(head)?;
                incoming.take()?;
                let from = From { link, slot, request: Some(call_of(head)) };
                self.no_reply(from, NoReply::Missing);
            }
            _ => incoming.places.keep(head, window)?,
        }
        self.take_turns(link, slot);
        Ok(())
    }

    /// Delivers the messages whose turn has come.
    fn take_turns(&mut self, link: Key, slot: Key) {
        while let Some(line) = self.links.get(link)
            && let Some(incoming) = line.am.incoming.get(slot)
            && let Some(Waiting { arrived, came }) = incoming.places.next()
        {
            self.take_turn(link, slot, arrived, came);
        }
    }
}
