//! What a node knows of its pool: what the registry has told it, in that order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::Mutex;
use egret_net::vi::PublicKey;

use super::event::{Event, Fate, Follow};
use super::{Member, NodeId, Offer};
use crate::Links;
use crate::am::{Endpoint, Message, Remote, Request, SendError};
use crate::links::behind::{Waiters, under};
use crate::registry::limits::TOLD_MAX;
use crate::registry::wire::{ASK, Answer, Ask, EVENTS, Entry, VERSION};

/// A node's end of the talk with the registry.
pub(crate) struct Watch {
    pub(super) links: Links,
    pub(super) view: Mutex<View>,
    /// What it needs since it is a member.
    following: OnceLock<Following>,
    /// What it could not ask yet.
    owed: Mutex<VecDeque<Vec<u8>>>,
    /// Who waits for a change.
    waiting: Mutex<Waiters>,
}

/// What a member needs to follow what happens.
pub(super) struct Following {
    /// Where it asks what happened.
    pub(super) follows: Remote,
    /// Where it asks everything else.
    pub(super) asks: Arc<Remote>,
    /// How often the registry says something at least.
    pub(super) heard: Duration,
    /// The node's fabrics: closed if it is declared dead, and without links to the dead.
    pub(super) fabrics: Vec<(String, Links)>,
}

/// What a node knows of its pool.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) log: Vec<Event>,
    /// Entries of the registry's log that it knows, and their bytes.
    known: u64,
    bytes: usize,
    /// The members, by rank.
    pub(super) members: BTreeMap<u32, Member>,
    /// What became of nodes that are none any more.
    pub(super) fates: BTreeMap<NodeId, Fate>,
    /// Where nodes were that have died since this was last taken.
    dead: Vec<(Offer, Option<PublicKey>, String)>,
    /// Nodes that have gone since this was last taken.
    parted: Vec<Member>,
    /// Why there is no registry any more.
    pub(super) lost: Option<String>,
    /// For how long the registry has not said anything, as far as was looked.
    quiet: Duration,
    looked: Option<Instant>,
    /// Who this is.
    own: Option<NodeId>,
    /// Why the registry has declared this node dead.
    pub(super) fenced: Option<String>,
}

impl Watch {
    /// Has an endpoint receive what the registry tells.
    pub(super) fn new(links: &Links, endpoint: &Endpoint) -> Arc<Self> {
        let watch = Arc::new(Self {
            links: links.clone(),
            view: Mutex::default(),
            following: OnceLock::new(),
            owed: Mutex::default(),
            waiting: Mutex::default(),
        });
        let (told, lost) = (Arc::clone(&watch), Arc::clone(&watch));
        endpoint.on(EVENTS, move |request| told.told(&request));
        endpoint.on_end(move |ended| lost.lose(&ended.why.to_string()));
        watch
    }

    /// Begins to follow what happens.
    pub(super) fn follow(&self, own: NodeId, following: Following) {
        self.view.lock().own = Some(own);
        _ = self.following.set(following);
        self.ask_on();
    }

    /// A registry that has not said anything for so long is lost. Whoever waits or polls
    /// looks now and then.
    pub(super) fn look(&self) {
        let Some(following) = self.following.get() else { return };
        let quiet = self.view.lock().look(rt::now());
        if quiet > following.heard {
            self.lose(&format!("it has not said anything for {quiet:?}"));
        }
    }

    /// Asks when there is room for it, and wants no answer.
    pub(super) fn owe(&self, ask: &Ask) {
        self.owed.lock().push_back(ask.to_bytes());
        self.pay(Deadline::NOW);
    }

    /// Asks what could not be asked yet; whether nothing is left of that.
    pub(super) fn pay(&self, deadline: Deadline) -> bool {
        let Some(Following { asks, .. }) = self.following.get() else { return true };
        loop {
            let Some(ask) = self.owed.lock().pop_front() else { return true };
            let message = Message::to(ASK).words(&[VERSION]).bytes(&ask);
            let sent = match deadline {
                // Where nobody waits, no handlers run.
                Deadline::NOW => asks.try_request(message).map_err(|unsent| unsent.reason),
                deadline => asks.wait_request(message, deadline),
            };
            match sent {
                Ok(call) => drop(call),
                Err(SendError::Full { .. } | SendError::TimedOut { .. } | SendError::InHandler) => {
                    self.owed.lock().push_front(ask);
                    return false;
                }
                // There is nobody to ask any more.
                Err(_) => {}
            }
        }
    }

    /// Asks what happened after what is known.
    fn ask_on(&self) {
        let Some(Following { follows, .. }) = self.following.get() else { return };
        let ask = Ask::Follow { next: self.view.lock().known }.to_bytes();
        match follows.try_request(Message::to(ASK).words(&[VERSION]).bytes(&ask)) {
            // Its answer names a handler.
            Ok(call) => drop(call),
            Err(unsent) => self.lose(&unsent.reason.to_string()),
        }
    }

    fn told(&self, request: &Request<'_>) {
        match Answer::from_bytes(request.bytes()) {
            Some(Answer::Events { first, entries }) => {
                // Before the program sees a member, which it may call at once.
                self.allow(&entries);
                let (learned, dead, gone, fenced) = {
                    let mut view = self.view.lock();
                    let learned = view.learn(first, entries);
                    let dead = std::mem::take(&mut view.dead);
                    let gone = std::mem::take(&mut view.parted);
                    (learned, dead, gone, view.fenced.clone())
                };
                self.disallow(&gone);
                if let Some(why) = fenced {
                    self.fence(&why);
                    return self.tell_changed();
                }
                self.part_from(&dead);
                self.tell_changed();
                if let Err(why) = learned {
                    return self.lose(why);
                }
            }
            Some(Answer::Refused(why)) => return self.lose(&why.to_string()),
            _ => return self.lose("it said what no registry says"),
        }
        self.pay(Deadline::NOW);
        self.ask_on();
    }

    /// The registry has declared this node dead: it must not go on as if it lived.
    fn fence(&self, why: &str) {
        for (_, links) in self.fabrics() {
            super::handle::end(
                links,
                Some(&format!("declared dead: {why}")),
                super::LEAVING.into(),
            );
        }
    }

    fn fabrics(&self) -> impl Iterator<Item = &(String, Links)> {
        self.following.get().into_iter().flat_map(|following| &following.fabrics)
    }

    /// Members may have links, with the key that the registry knows.
    fn allow(&self, entries: &[Entry]) {
        for entry in entries {
            if let Entry::Joined(member) = entry {
                self.at_each(member, |links, host| links.allow(host, member.key()));
            }
        }
    }

    /// Who is no member any more may not.
    fn disallow(&self, gone: &[Member]) {
        for member in gone {
            self.at_each(member, |links, host| links.disallow(host, member.key()));
        }
    }

    /// Where the links of each fabric know a member, unless it has no key where all have one.
    fn at_each(&self, member: &Member, each: impl Fn(&Links, &str)) {
        for offer in &member.fabrics {
            let here = self.fabrics().filter(|(fabric, _)| *fabric == offer.fabric);
            let here =
                here.filter(|(_, links)| member.key().is_some() || links.nic().key().is_none());
            here.for_each(|(_, links)| each(links, &offer.host));
        }
    }

    /// Whoever waits for a node that has died is told, even if its links seem well.
    fn part_from(&self, dead: &[(Offer, Option<PublicKey>, String)]) {
        for (offer, key, why) in dead {
            let here = self.fabrics().filter(|(fabric, _)| *fabric == offer.fabric);
            here.for_each(|(_, links)| match key {
                Some(key) => links.end_link_of(&offer.host, *key, why),
                None if links.nic().key().is_none() => links.end_link(&offer.host, why),
                // Nobody without a key has a link there.
                None => {}
            });
        }
    }

    /// There is no registry any more.
    pub(super) fn lose(&self, why: &str) {
        let mut view = self.view.lock();
        if view.lost.is_none() && view.fenced.is_none() {
            view.lost = Some(why.to_owned());
            view.log.push(Event::RegistryLost { why: why.to_owned() });
        }
        drop(view);
        self.tell_changed();
    }

    pub(super) fn wake_when_changed(&self, waker: &Waker) {
        under(|| self.waiting.lock().wait(Some(waker)));
    }

    pub(super) fn tell_changed(&self) {
        under(|| self.waiting.lock().wake());
    }
}

impl View {
    /// Takes what the registry says, if it goes on where it was and is not more than a
    /// registry remembers.
    fn learn(&mut self, first: u64, entries: Vec<Entry>) -> Result<(), &'static str> {
        self.quiet = Duration::ZERO;
        if first != self.known {
            return Err("it told what happened in another order");
        }
        for entry in entries {
            self.known += 1;
            self.bytes += entry.len();
            if self.bytes > TOLD_MAX {
                return Err("it told more than a registry remembers");
            }
            match &entry {
                Entry::Joined(member) => {
                    self.members.insert(member.id.rank, member.clone());
                }
                Entry::Left(node) => self.gone(*node, Fate::Left),
                Entry::Died { node, why } => self.gone(*node, Fate::Died { why: why.clone() }),
            }
            self.log.push(Event::from(entry));
        }
        // Another life may be where one has ended.
        let members = &self.members;
        let is_there =
            |offer: &Offer| members.values().any(|member| member.fabrics.contains(offer));
        self.dead.retain(|(offer, key, _)| key.is_some() || !is_there(offer));
        Ok(())
    }

    fn gone(&mut self, node: NodeId, fate: Fate) {
        if let (true, Fate::Died { why }) = (self.own == Some(node), &fate) {
            self.fenced = Some(why.clone());
        }
        if self.members.get(&node.rank).is_some_and(|member| member.id == node)
            && let Some(member) = self.members.remove(&node.rank)
        {
            if let Fate::Died { why } = &fate {
                let offers = member.fabrics.iter().cloned();
                let key = member.key();
                self.dead.extend(offers.map(|offer| (offer, key, why.clone())));
            }
            self.parted.push(member);
        }
        self.fates.insert(node, fate);
    }

    /// For how long the registry has been silent. While nobody looked this node may have been
    /// stopped, and could not hear: that time does not count.
    fn look(&mut self, now: Instant) -> Duration {
        let passed = self.looked.replace(now).map_or(Duration::ZERO, |looked| now - looked);
        self.quiet += passed.min(LOOK);
        self.quiet
    }

    /// The last life of a rank, and what became of it if it is over.
    pub(super) fn last(&self, rank: u32) -> Option<(NodeId, Option<&Fate>)> {
        if let Some(member) = self.members.get(&rank) {
            return Some((member.id, None));
        }
        let all = NodeId { rank, incarnation: 0 }..=NodeId { rank, incarnation: u64::MAX };
        self.fates.range(all).next_back().map(|(node, fate)| (*node, Some(fate)))
    }
}

impl Follow for Watch {
    fn entry(&self, at: usize) -> Option<Event> {
        self.view.lock().log.get(at).cloned()
    }

    fn drive(&self, deadline: Deadline, done: &mut dyn FnMut() -> bool) -> bool {
        self.look();
        self.links.drive(deadline, done)
    }
}

/// What a registry tells, without links; for fuzzers.
#[cfg(any(test, feature = "fuzzing"))]
#[derive(Debug, Default)]
pub(crate) struct Told(View);

#[cfg(any(test, feature = "fuzzing"))]
impl Told {
    pub(crate) fn learn(&mut self, first: u64, entries: Vec<Entry>) {
        let before = self.0.log.len();
        if self.0.learn(first, entries).is_err() {
            assert_eq!(self.0.log.len(), before, "nothing is learned out of order");
        }
    }

    pub(crate) fn check(&self) {
        let View { members, fates, log, known, .. } = &self.0;
        assert_eq!(log.len() as u64, *known);
        assert!(members.iter().all(|(rank, member)| member.id.rank == *rank));
        for node in fates.keys() {
            let (last, _) = self.0.last(node.rank).expect("it has had a life");
            assert!(members.contains_key(&node.rank) || last.incarnation >= node.incarnation);
        }
    }
}

/// How much time passes between two looks at most.
const LOOK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_not_lost_while_the_node_was_stopped() {
        let (mut view, start) = (View::default(), Instant::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(view.look(at(5)), Duration::ZERO);
        assert_eq!(view.look(at(65)), LOOK);
        assert_eq!(view.look(at(66)), 2 * LOOK);
        view.learn(0, Vec::new()).unwrap();
        assert_eq!(view.look(at(67)), LOOK);
        assert_eq!((68..100).map(|second| view.look(at(second))).max(), Some(33 * LOOK));
    }
}
