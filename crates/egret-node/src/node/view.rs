//! What a node knows of its pool: the events that the registry has sent, in their order.

use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_net::sync::Mutex;
use egret_net::vi::PublicKey;

use super::questions::{QuestionTable, RegistryDesk};
use super::resume;
use crate::am::{EndedLink, Endpoint, Message, Request};
use crate::pool::state::PoolState;
use crate::pool::wire::{ASK, EVENTS, LogEntry, RegistryAnswer, RegistryQuestion, VERSION};
use crate::pool::{
    Departure, Event, EventLog, EventPlace, EventSource, FabricOffer, Member, NodeError, NodeId,
};
use crate::wakers::{WakerList, under};
use crate::{Links, Task};

/// A node's side of the protocol with the registry.
pub(crate) struct PoolWatch {
    pub(super) links: Links,
    pub(super) view: Mutex<PoolView>,
    /// Set when the node has become a member.
    following: OnceLock<RegistryFollow>,
    /// The questions under way.
    pub(super) questions: QuestionTable,
    /// Makes another link to the registry.
    resuming: Mutex<Option<Task>>,
    /// Wakers of the tasks and threads that wait for a change.
    waiting: Mutex<WakerList>,
}

/// What a member needs to follow what happens.
pub(super) struct RegistryFollow {
    /// The node.
    pub(super) own: NodeId,
    /// Where the registry is.
    pub(super) address: String,
    /// The endpoint that receives the registry's messages.
    pub(super) endpoint: Weak<Endpoint>,
    /// Whether a registry that is started again remembers the node.
    pub(super) is_kept: bool,
    /// How long the registry may be out of reach.
    pub(super) grace: Deadline,
    /// The longest time between two messages of the registry.
    pub(super) heard: Duration,
    /// The node's fabrics: closed if it is declared dead, and without links to the dead.
    pub(super) fabrics: Vec<(String, Links)>,
}

/// What a node knows of its pool.
#[derive(Debug, Default)]
pub(super) struct PoolView {
    /// The pool, as of the entries of its log that are known.
    pub(super) state: PoolState,
    pub(super) log: EventLog,
    /// What has arrived of a state that comes in pieces.
    pieces: Vec<u8>,
    /// Where nodes were that have died since this was last taken.
    dead: Vec<(FabricOffer, Option<PublicKey>, String)>,
    /// Nodes that have gone since this was last taken.
    parted: Vec<Member>,
    /// Why the registry was lost, if it was.
    pub(super) lost: Option<String>,
    /// For how long nothing was received from the registry, by the time that this node has observed.
    quiet: Duration,
    /// Whether the registry was asked since whether it is there.
    is_asked: bool,
    looked: Option<Instant>,
    /// This node.
    own: Option<NodeId>,
    /// Why the registry has declared this node dead.
    pub(super) fenced: Option<String>,
    /// Whether the node is closed: no link to the registry is made any more.
    is_closed: bool,
}

impl PoolWatch {
    /// Has an endpoint receive the registry's messages.
    pub(super) fn new(links: &Links, endpoint: &Endpoint) -> Arc<Self> {
        let watch = Arc::new(Self {
            links: links.clone(),
            view: Mutex::default(),
            following: OnceLock::new(),
            questions: QuestionTable::default(),
            resuming: Mutex::default(),
            waiting: Mutex::default(),
        });
        let (told, lost) = (Arc::clone(&watch), Arc::clone(&watch));
        endpoint.on(EVENTS, move |request| told.told(&request));
        endpoint.on_end(move |ended| lost.link_ended(&ended));
        watch
    }

    /// Begins to follow what happens.
    pub(super) fn follow(
        self: &Arc<Self>,
        size: Option<u32>,
        following: RegistryFollow,
        desk: RegistryDesk,
    ) {
        let state = PoolState::of_size(size);
        {
            let mut view = self.view.lock();
            (view.own, view.state) = (Some(following.own), state);
        }
        // First: the link may end at once.
        let is_kept = following.is_kept;
        _ = self.following.set(following);
        self.questions.open(Arc::new(desk), is_kept);
        self.ask_on();
    }

    pub(super) fn following(&self) -> Option<&RegistryFollow> {
        self.following.get()
    }

    /// The number of the log's first entry that is not known.
    pub(super) fn next(&self) -> u64 {
        self.view.lock().state.next()
    }

    /// Whether the registry is not lost, and the node neither declared dead nor closed.
    pub(super) fn is_open(&self) -> bool {
        let view = self.view.lock();
        view.lost.is_none() && view.fenced.is_none() && !view.is_closed
    }

    /// Why no event follows those that the node has received, if that is so.
    pub(super) fn end(&self) -> Option<NodeError> {
        let view = self.view.lock();
        let fenced = || view.fenced.clone().map(|why| NodeError::Fenced { why });
        let lost = || view.lost.clone().map(|why| NodeError::RegistryLost { why });
        let own = || view.own.filter(|_| view.is_closed);
        let closed = || Some(NodeError::NotMember { node: own()?, fate: Departure::Left });
        fenced().or_else(lost).or_else(closed)
    }

    /// A link to the registry has ended.
    fn link_ended(self: &Arc<Self>, ended: &EndedLink) {
        if self.questions.peer() == Some(ended.peer) {
            self.begin_again(&ended.why.to_string());
        }
    }

    /// The link to the registry has ended: the registry is lost, or another link is made to it.
    fn begin_again(self: &Arc<Self>, why: &str) {
        let is_kept = self.following.get().is_some_and(|follow| follow.is_kept);
        if !is_kept || !self.is_open() {
            return self.lose(why);
        }
        if self.questions.lose_desk() {
            tracing::warn!(why, "lost the link to the registry; the node makes another");
            let task = Task::new(resume::come_back(Arc::clone(self)));
            let before = self.resuming.lock().replace(task);
            drop(before);
        }
    }

    /// There is another link to the registry, which knows the node.
    pub(super) fn come_back(self: &Arc<Self>, desk: Arc<RegistryDesk>) {
        let Some(follow) = self.following.get().filter(|_| self.is_open()) else { return };
        {
            let mut view = self.view.lock();
            (view.quiet, view.is_asked) = (Duration::ZERO, false);
        }
        tracing::info!(registry = follow.address, "reached the registry again");
        self.questions.open(desk, true);
        self.ask_on();
        self.tell_changed();
    }

    /// The registry has declared this node dead while the node had no link to it.
    pub(super) fn was_fenced(&self, why: &str) {
        {
            let mut view = self.view.lock();
            view.fenced = Some(why.to_owned());
            // What happened since is not told to this node.
            view.end_events(format!("it has declared this node dead: {why}"));
        }
        self.questions.close();
        self.fence(why);
        self.tell_changed();
    }

    /// The node is closed.
    pub(super) fn close(&self) {
        self.view.lock().is_closed = true;
        self.questions.close();
        let task = self.resuming.lock().take();
        drop(task);
    }

    /// Declares the registry lost if nothing was received from it for too long. Threads that wait or
    /// poll call this now and then.
    pub(super) fn look(self: &Arc<Self>) {
        let Some(following) = self.following.get() else { return };
        let (quiet, is_asked) = {
            let mut view = self.view.lock();
            let quiet = view.look(rt::now());
            (quiet, std::mem::replace(&mut view.is_asked, quiet > following.heard))
        };
        let most = match following.grace {
            _ if !following.is_kept => Some(following.heard),
            Deadline::In(grace) => following.heard.checked_add(grace),
            Deadline::UntilDead => None,
        };
        if most.is_some_and(|most| quiet > most) {
            self.lose(&format!("it has not said anything for {quiet:?}"));
        } else if quiet > following.heard && !is_asked {
            // If the registry's machine was started again, its answer is that the link is gone.
            self.ask_on();
        }
    }

    /// Requests the events after those that are known.
    fn ask_on(self: &Arc<Self>) {
        let Some(desk) = self.questions.desk().filter(|_| self.is_told()) else { return };
        let ask = RegistryQuestion::Follow { next: self.next() }.to_bytes();
        match desk.follows.try_request(Message::to(ASK).words(&[VERSION]).bytes(&ask)) {
            // Its answer names a handler.
            Ok(call) => drop(call),
            Err(unsent) => self.begin_again(&unsent.why.to_string()),
        }
    }

    /// Whether events follow: the registry is not lost.
    fn is_told(&self) -> bool {
        self.view.lock().lost.is_none()
    }

    fn told(self: &Arc<Self>, request: &Request<'_>) {
        if !self.is_told() {
            return;
        }
        match RegistryAnswer::from_bytes(request.bytes()) {
            Some(RegistryAnswer::Events { first, entries }) => {
                // Before the program sees a member, which it may call at once.
                let known =
                    usize::try_from(self.next().saturating_sub(first)).unwrap_or(usize::MAX);
                self.allow(entries.iter().skip(known).filter_map(LogEntry::joined));
                let is_repeated = known > 0;
                self.learn(|view| view.learn(first, &entries), is_repeated);
            }
            Some(RegistryAnswer::Snapshot { offset, total, bytes }) => {
                // A lock in the head of a `match` lasts until its end.
                let collected = self.view.lock().collect(offset, total, &bytes);
                match collected {
                    Ok(None) => {}
                    // A node that has asked twice is answered twice.
                    Ok(Some(state)) if state.next() <= self.next() => return,
                    Ok(Some(state)) => {
                        self.allow(state.members().values());
                        return self.learn(|view| view.learn_whole(state), false);
                    }
                    Err(why) => return self.lose(why),
                }
                self.ask_on();
            }
            Some(RegistryAnswer::Report { number }) => {
                if let Some(report) = self.report().filter(|_| !self.questions.is_behind()) {
                    self.questions
                        .owe(&RegistryQuestion::Report { number, bytes: report.to_bytes() });
                }
                self.ask_on();
            }
            Some(RegistryAnswer::Refused(why)) => self.lose(&why.to_string()),
            _ => self.lose("it said what no registry says"),
        }
    }

    /// Takes what the registry has sent, and requests what follows, unless a question for that is under way.
    fn learn(
        self: &Arc<Self>,
        learn: impl FnOnce(&mut PoolView) -> Result<(), &'static str>,
        is_repeated: bool,
    ) {
        let (learned, dead, gone, fenced) = {
            let mut view = self.view.lock();
            let learned = learn(&mut view);
            let dead = std::mem::take(&mut view.dead);
            let gone = std::mem::take(&mut view.parted);
            (learned, dead, gone, view.fenced.clone())
        };
        self.disallow(&gone);
        if let Some(why) = fenced {
            self.fence(&why);
            self.questions.close();
            return self.tell_changed();
        }
        self.part_from(&dead);
        self.tell_changed();
        if let Err(why) = learned {
            return self.lose(why);
        }
        self.questions.settle();
        if !is_repeated {
            self.ask_on();
        }
    }

    /// Closes the links of a node that the registry has declared dead.
    fn fence(&self, why: &str) {
        for (_, links) in self.fabrics() {
            super::handle::end(
                links,
                Some(&format!("declared dead: {why}")),
                super::LEAVING.into(),
            );
        }
    }

    /// Where the registry is, if the node has joined.
    pub(super) fn registry_address(&self) -> Option<&str> {
        self.following.get().map(|following| &*following.address)
    }

    pub(super) fn fabrics(&self) -> impl Iterator<Item = &(String, Links)> {
        self.following.get().into_iter().flat_map(|following| &following.fabrics)
    }

    /// Members may have links, with the key that the registry knows.
    fn allow<'a>(&self, members: impl Iterator<Item = &'a Member>) {
        for member in members {
            self.at_each(member, |links, host| links.allow(host, member.key()));
        }
    }

    /// Removes nodes that are no members any more from the allow lists.
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

    /// Ends the links with nodes that have died, even if the links seem to be well.
    fn part_from(&self, dead: &[(FabricOffer, Option<PublicKey>, String)]) {
        for (offer, key, why) in dead {
            let here = self.fabrics().filter(|(fabric, _)| *fabric == offer.fabric);
            here.for_each(|(_, links)| match key {
                Some(key) => links.end_link_of(&offer.host, *key, why),
                None if links.nic().key().is_none() => links.end_link(&offer.host, why),
                // No node without a key has a link there.
                None => {}
            });
        }
    }

    /// Declares the registry lost.
    pub(super) fn lose(&self, why: &str) {
        let mut view = self.view.lock();
        if view.lost.is_none() && view.fenced.is_none() {
            view.lost = Some(why.to_owned());
            view.end_events(why.to_owned());
        }
        drop(view);
        self.questions.close();
        self.tell_changed();
    }

    pub(super) fn wake_when_changed(&self, waker: &Waker) {
        under(|| self.waiting.lock().wait(Some(waker)));
    }

    pub(super) fn tell_changed(&self) {
        under(|| self.waiting.lock().wake());
    }
}

impl PoolView {
    /// No event follows.
    fn end_events(&mut self, why: String) {
        let next = self.state.next();
        self.log.push(next, Event::RegistryLost { why });
    }

    /// This node, once it has joined.
    pub(super) const fn own(&self) -> Option<NodeId> {
        self.own
    }

    /// Applies entries of the registry's log, if they follow those that are known.
    fn learn(&mut self, first: u64, entries: &[LogEntry]) -> Result<(), &'static str> {
        (self.quiet, self.is_asked) = (Duration::ZERO, false);
        let known = self.state.next().checked_sub(first).ok_or("events out of order")?;
        // A node that has asked twice, for the registry was silent for long, is answered twice.
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(entries.len());
        for entry in &entries[known..] {
            if !self.state.allows(entry) {
                return Err("an event that cannot have happened");
            }
            match entry {
                LogEntry::Left(node) => self.parts(*node, &Departure::Left),
                LogEntry::Died { node, why } => {
                    self.parts(*node, &Departure::Died { why: why.clone() });
                }
                _ => {}
            }
            let Self { state, log, own, .. } = self;
            let number = state.next();
            let is_own = entry.is_for(*own);
            state.apply(entry, |event| {
                if is_own {
                    log.push(number, event);
                }
            });
        }
        self.forgive_the_living();
        self.spare_successors();
        Ok(())
    }

    /// Takes a piece of a state; returns the state when it is whole.
    fn collect(
        &mut self,
        offset: u64,
        total: u64,
        bytes: &[u8],
    ) -> Result<Option<PoolState>, &'static str> {
        (self.quiet, self.is_asked) = (Duration::ZERO, false);
        if offset == 0 {
            self.pieces.clear();
        }
        let end = offset.saturating_add(bytes.len() as u64);
        if offset != self.pieces.len() as u64
            || bytes.is_empty()
            || end > total
            || total > STATE_MAX
        {
            return Err("a state in pieces that do not follow each other");
        }
        self.pieces.extend_from_slice(bytes);
        if end < total {
            return Ok(None);
        }
        let whole = std::mem::take(&mut self.pieces);
        PoolState::from_bytes(&whole).map(Some).ok_or("a state that no pool has")
    }

    /// Takes the state of the pool in place of the entries that lead to it, which are not kept.
    fn learn_whole(&mut self, state: PoolState) -> Result<(), &'static str> {
        (self.quiet, self.is_asked) = (Duration::ZERO, false);
        let (from, to) = (self.state.next(), state.next());
        if to <= from || state.size() != self.state.size() {
            return Err("a state that does not follow");
        }
        let gone: Vec<_> = self.state.members().values().map(|member| member.id).collect();
        let gone = gone.into_iter().filter(|node| state.member(*node).is_none());
        for node in gone {
            let fate = state.fate(node);
            let why = || "it has gone while this node followed no events".to_owned();
            self.parts(node, &fate.unwrap_or_else(|| Departure::Died { why: why() }));
        }
        // Its own end may be older than the state that it knew.
        if let (None, Some(Departure::Died { why })) =
            (&self.fenced, self.own.and_then(|own| state.fate(own)))
        {
            self.fenced = Some(why);
        }
        self.state = state;
        self.log.push(from, Event::Resync { from, to });
        self.forgive_the_living();
        Ok(())
    }

    /// Another life may be where one has ended.
    fn forgive_the_living(&mut self) {
        let members = self.state.members();
        let is_there =
            |offer: &FabricOffer| members.values().any(|member| member.fabrics.contains(offer));
        self.dead.retain(|(offer, key, _)| key.is_some() || !is_there(offer));
    }

    /// A member will be none.
    fn parts(&mut self, node: NodeId, fate: &Departure) {
        if let (true, Departure::Died { why }) = (self.own == Some(node), fate) {
            self.fenced = Some(why.clone());
        }
        let Some(member) = self.state.member(node).cloned() else { return };
        if let Departure::Died { why } = fate {
            let (offers, key) = (member.fabrics.iter().cloned(), member.key());
            self.dead.extend(offers.map(|offer| (offer, key, why.clone())));
        }
        self.parted.push(member);
    }

    /// Forgets nodes that have gone where another one is by now, and none has a key.
    fn spare_successors(&mut self) {
        let members = self.state.members();
        let is_there = |gone: &Member| {
            let mut all = members.values().flat_map(|member| &member.fabrics);
            gone.key().is_none() && all.any(|offer| gone.fabrics.contains(offer))
        };
        self.parted.retain(|gone| !is_there(gone));
    }

    /// For how long nothing was received from the registry. Between two calls at most [`LOOK`] counts:
    /// this node may have been stopped meanwhile, and could not receive.
    fn look(&mut self, now: Instant) -> Duration {
        let passed = self.looked.replace(now).map_or(Duration::ZERO, |looked| now - looked);
        self.quiet += passed.min(LOOK);
        self.quiet
    }
}

impl EventSource for Arc<PoolWatch> {
    fn event(&self, at: EventPlace) -> Option<(Event, EventPlace)> {
        self.view.lock().log.event(at)
    }

    fn end(&self) -> Option<NodeError> {
        PoolWatch::end(self)
    }

    fn links(&self) -> u32 {
        self.links.core.number
    }

    fn drive(&self, deadline: Deadline, done: &mut dyn FnMut() -> bool) -> bool {
        self.look();
        self.links.drive(deadline, done)
    }
}

/// A [`PoolView`] without links; for fuzzers.
#[cfg(any(test, feature = "fuzzing"))]
#[derive(Debug, Default)]
pub(crate) struct FuzzedView(PoolView);

#[cfg(any(test, feature = "fuzzing"))]
impl FuzzedView {
    pub(crate) fn learn(&mut self, first: u64, entries: &[LogEntry]) {
        let before = self.0.state.next();
        if self.0.learn(first, entries).is_ok() {
            let end = first + entries.len() as u64;
            assert!(first <= before && self.0.state.next() == end.max(before));
        }
    }

    pub(crate) fn collect(&mut self, offset: u64, total: u64, bytes: &[u8]) {
        let before = self.0.state.next();
        if let Ok(Some(state)) = self.0.collect(offset, total, bytes) {
            _ = self.0.learn_whole(state);
        }
        assert!(self.0.state.next() >= before, "no state is older than the one before");
    }

    pub(crate) fn check(&self) {
        let all = self.0.state.members().values();
        all.for_each(|member| assert_eq!(self.0.state.fate(member.id), None));
        assert!(self.0.state.is_sound());
    }
}

/// Bytes of the largest state that a node takes.
const STATE_MAX: u64 = 1 << 30;
/// The most that counts between two calls of [`look`](PoolView::look).
const LOOK: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_not_lost_while_the_node_was_stopped() {
        let (mut view, start) = (PoolView::default(), Instant::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(view.look(at(5)), Duration::ZERO);
        assert_eq!(view.look(at(65)), LOOK);
        assert_eq!(view.look(at(66)), 2 * LOOK);
        view.learn(0, &[]).unwrap();
        assert_eq!(view.look(at(67)), LOOK);
        assert_eq!((68..100).map(|second| view.look(at(second))).max(), Some(33 * LOOK));
    }

    #[test]
    fn entries_that_come_twice_are_learned_once() {
        let mut view = PoolView::default();
        let by = NodeId { rank: 0, incarnation: 1 };
        let entries = [LogEntry::Closed { by }, LogEntry::Terminated { by }];
        view.learn(0, &entries[..1]).unwrap();
        view.learn(0, &entries).unwrap();
        view.learn(0, &entries).unwrap();
        assert_eq!((view.state.next(), view.state.terminated_by()), (2, Some(by)));
        assert!(view.learn(3, &[]).is_err(), "an entry is missing");
    }
}
