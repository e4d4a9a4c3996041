//! Names, what they stand for, and who waits for one.

use std::collections::BTreeMap;

use egret_net::rt::Instant;

use super::fault::{Fault, planted};
use super::limits::{BOUND_MAX, NAME_MAX, NAMES_MAX, WAITS_MAX};
use super::state::Ticket;
use super::wire::{Answer, Refusal};
use crate::node::NodeId;

/// Names, what they stand for, and who waits for one.
#[derive(Debug)]
pub(crate) struct Names<P> {
    pub(super) bound: BTreeMap<String, (NodeId, Vec<u8>)>,
    pub(super) waits: BTreeMap<Ticket, Wait<P>>,
}

#[derive(Debug)]
pub(super) struct Wait<P> {
    from: P,
    name: String,
    until: Instant,
}

impl<P: Ord + Clone> Names<P> {
    pub(super) const fn new() -> Self {
        Self { bound: BTreeMap::new(), waits: BTreeMap::new() }
    }

    /// Binds a name; the answer to who does, and those to who waited for it.
    pub(super) fn bind(
        &mut self,
        owner: NodeId,
        name: String,
        bytes: Vec<u8>,
        replace: bool,
    ) -> (Answer, Vec<(Ticket, Answer)>) {
        if let Err(why) = self.may_bind(owner, &name, &bytes, replace) {
            return (Answer::Refused(why), Vec::new());
        }
        let waiting = self.waits.iter().filter(|(_, wait)| wait.name == name);
        let waiting = waiting.filter(|_| !planted(Fault::WaitForgotten));
        let waiting: Vec<Ticket> = waiting.map(|(ticket, _)| *ticket).collect();
        let told = waiting.into_iter().map(|ticket| {
            self.waits.remove(&ticket);
            (ticket, Answer::Bound { owner, bytes: bytes.clone() })
        });
        let told = told.collect();
        self.bound.insert(name, (owner, bytes));
        (Answer::Done, told)
    }

    fn may_bind(
        &self,
        owner: NodeId,
        name: &str,
        bytes: &[u8],
        replace: bool,
    ) -> Result<(), Refusal> {
        let large = |what: &str, most: usize| {
            Err(Refusal::TooLarge { what: what.to_owned(), most: most as u64 })
        };
        if name.len() > NAME_MAX {
            return large("bytes of a name", NAME_MAX);
        }
        if bytes.len() > BOUND_MAX {
            return large("bytes bound to a name", BOUND_MAX);
        }
        match self.bound.get(name) {
            Some((other, _)) if !replace => Err(Refusal::NameTaken { owner: *other }),
            Some((other, _)) if *other == owner => Ok(()),
            _ => {
                let own = self.bound.values().filter(|(of, _)| *of == owner).count();
                if own < NAMES_MAX { Ok(()) } else { large("names of a node", NAMES_MAX) }
            }
        }
    }

    /// Takes a name back, if it is the node's and has not been bound to something else since.
    pub(super) fn unbind(&mut self, owner: NodeId, name: &str, bytes: &[u8]) -> Answer {
        match self.bound.get(name) {
            Some((of, _)) if *of != owner => Answer::Refused(Refusal::NameTaken { owner: *of }),
            Some((_, bound)) if bound == bytes || planted(Fault::AnyUnbound) => {
                self.bound.remove(name);
                Answer::Done
            }
            _ => Answer::NotBound,
        }
    }

    /// What a name stands for; no answer yet if it is waited for.
    pub(super) fn lookup(
        &mut self,
        from: &P,
        ticket: Ticket,
        name: &str,
        until: Option<Instant>,
    ) -> Option<Answer> {
        if let Some((owner, bytes)) = self.bound.get(name) {
            return Some(Answer::Bound { owner: *owner, bytes: bytes.clone() });
        }
        let Some(until) = until.filter(|_| name.len() <= NAME_MAX) else {
            return Some(Answer::NotBound);
        };
        if self.waits.values().filter(|wait| wait.from == *from).count() >= WAITS_MAX {
            let what = "lookups that wait".to_owned();
            return Some(Answer::Refused(Refusal::TooLarge { what, most: WAITS_MAX as u64 }));
        }
        self.waits.insert(ticket, Wait { from: from.clone(), name: name.to_owned(), until });
        None
    }

    /// The names of a node that is gone are gone.
    pub(super) fn forget(&mut self, owner: NodeId) {
        self.bound.retain(|_, (of, _)| *of != owner);
    }

    /// A link is no more; the tickets of who waited over it.
    pub(super) fn stop_waiting(&mut self, from: &P) -> Vec<Ticket> {
        self.take_waits(|wait| wait.from == *from)
    }

    /// The tickets of those who have waited long enough.
    pub(super) fn late(&mut self, now: Instant) -> Vec<Ticket> {
        self.take_waits(|wait| wait.until <= now)
    }

    fn take_waits(&mut self, which: impl Fn(&Wait<P>) -> bool) -> Vec<Ticket> {
        let found = self.waits.iter().filter(|(_, wait)| which(wait));
        let tickets: Vec<Ticket> = found.map(|(ticket, _)| *ticket).collect();
        self.waits.retain(|ticket, _| !tickets.contains(ticket));
        tickets
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.waits.values().map(|wait| wait.until).min()
    }
}
