//! What else happens in a trial, and how it ends.

use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_net::vi::Reliability;

use super::ledger::{Id, NO_HANDLER, Outcome};
use super::trial::{HOSTS, Mark, Trial};
use super::world::{AT_ONCE, DATA, LATER, NEVER, Node, UPCALL, answer};
use crate::am::{CallReply, Message, MessageError};
use crate::links::state::LinksState;

impl Trial<'_> {
    pub(super) fn answer_later(&mut self) {
        let at = self.random.index(self.plan.nodes);
        let Some(node) = self.node(at) else { return };
        let stash = node.stash.later.clone();
        let mut later = stash.lock().unwrap();
        if later.is_empty() {
            return;
        }
        let at = self.random.index(later.len());
        let (id, slot) = later.swap_remove(at);
        drop(later);
        match self.random.below(4) {
            0 => drop(slot),
            1 => {
                let len = self.random.size(30_000);
                slot.reply_with(Message::to(255).words(&id.words()).data(id.payload(len)));
            }
            _ => slot.reply(&id.words()),
        }
    }

    pub(super) fn abandon(&mut self) {
        if !self.calls.is_empty() {
            let at = self.random.index(self.calls.len());
            let (id, _, call) = self.calls.swap_remove(at);
            self.ledger.tell(id, Outcome::Abandoned);
            drop(call);
        }
    }

    pub(super) fn unmap(&mut self) {
        if !self.flows.is_empty() {
            let at = self.random.index(self.flows.len());
            drop(self.flows.swap_remove(at));
        }
    }

    pub(super) fn move_endpoint(&mut self) {
        let (at, end) = (self.random.index(self.plan.nodes), self.random.index(2));
        let bundle = self.random.index(2);
        let Some(node) = self.node(at) else { return };
        let deadline = Deadline::In(Duration::from_secs(1));
        node.endpoints[end].endpoint.wait_move_to(&node.bundles[bundle], deadline).unwrap();
    }

    pub(super) fn close_endpoint(&mut self) {
        let (at, end) = (self.random.index(self.plan.nodes), self.random.index(2));
        let ledger = self.ledger.clone();
        let Some(node) = self.nodes[at].as_mut() else { return };
        let life = node.endpoints[end].life + 1;
        let closed = node.endpoints.remove(end);
        drop(closed);
        let opened = node.open(end, life, &ledger);
        node.endpoints.insert(end, opened);
    }

    pub(super) fn retag_endpoint(&mut self) {
        let (at, end) = (self.random.index(self.plan.nodes), self.random.index(2));
        let Some(node) = self.nodes[at].as_mut() else { return };
        let it = &mut node.endpoints[end];
        it.name.tag += 1 << 32;
        it.endpoint.set_tag(it.name.tag);
    }

    pub(super) fn crash(&mut self) {
        let at = self.random.index(self.plan.nodes);
        if self.nodes[at].is_none() {
            self.nodes[at] = Some(self.restarted(at));
            return;
        }
        self.lives[at] += 1;
        let gone = self.nodes[at].take().expect("just looked at");
        if self.random.is(30) {
            gone.links.core.state.with(|state| state.part("it fails"));
            for _ in 0..self.random.below(300) {
                self.step(Some(&gone));
            }
        }
        self.sim.crash(HOSTS[at]);
        self.mark();
        self.calls.retain(|(_, from, _)| *from != at);
        self.flows.retain(|flow| flow.from != at);
        self.asked.retain(|asked| asked.from != at);
        drop(gone);
        if self.plan.crews {
            // Its threads see that it is gone.
            rt::sleep(Duration::from_millis(1));
        }
        self.sim.restart(HOSTS[at]);
        if self.random.is(50) {
            self.nodes[at] = Some(self.restarted(at));
        }
    }

    fn restarted(&self, at: usize) -> Node {
        Node::new(self.sim, HOSTS[at], &self.options, &self.ledger)
    }

    pub(super) fn cut(&mut self) {
        let one = self.random.index(self.plan.nodes);
        let other = (one + 1) % self.plan.nodes;
        self.sim.partition(&[HOSTS[one]], &[HOSTS[other]]);
        let longest = if self.random.is(20) { 20_000 } else { 100 };
        let lasts = Duration::from_millis(self.random.below(longest));
        self.sim.at(self.sim.elapsed() + lasts, |sim| sim.heal());
    }

    /// Notes which streams have lost a side.
    pub(super) fn mark(&mut self) {
        let mut book = self.ledger.book();
        for mark in &self.marks {
            let stream = &mut book.streams[mark.stream];
            let [(from, life), (to, other)] = mark.sides;
            let here = self.nodes[from].as_ref().filter(|_| self.lives[from] == life);
            let there = self.nodes[to].as_ref().filter(|_| self.lives[to] == other);
            let [mine, theirs] = mark.ends;
            match here {
                None => (stream.unwatched, stream.dead) = (true, true),
                Some(here) => {
                    stream.unwatched |= here.endpoints[mine.0].life != mine.1.0;
                    let ended = |state: &mut LinksState| state.links.live(mark.link).err();
                    let ended = here.links.core.state.with(ended);
                    assert!(self.plan.dies || ended.is_none(), "{:?}: {ended:?}", self.plan);
                    stream.dead |= ended.is_some();
                }
            }
            let whole = there.is_some_and(|there| there.links.counters().ended == mark.ended);
            stream.dead |= self.plan.dies && !whole;
            stream.returns |= there.is_none_or(|there| {
                let end = &there.endpoints[theirs.0];
                (end.life, end.name.tag) != theirs.1
            });
        }
    }

    pub(super) fn take_answers(&mut self) {
        let mut open = Vec::new();
        for (id, from, mut call) in std::mem::take(&mut self.calls) {
            match call.poll_reply() {
                None => open.push((id, from, call)),
                Some(reply) => self.answered(id, reply),
            }
        }
        self.calls.extend(open);
    }

    /// Waits for one of the answers, and drives meanwhile the node that asked. Its peer has only its
    /// threads.
    pub(super) fn wait_for_one(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let at = self.random.index(self.calls.len());
        let (id, from, mut call) = self.calls.swap_remove(at);
        let handler = self.ledger.book().streams[id.stream].lanes[id.lane][id.number].handler;
        let is_clean = self.plan.level == Reliability::Reception && !self.plan.dies;
        let is_soon = is_clean && handler == AT_ONCE && id.lane == 0;
        let waits = if is_soon { SOON } else { SOON / 20 };
        match call.wait_some(Deadline::In(waits)) {
            Some(reply) => self.answered(id, reply),
            None => {
                assert!(!is_soon, "{:?}: {id:?} has no answer within {SOON:?}", self.plan);
                self.calls.push((id, from, call));
            }
        }
    }

    fn answered(&self, id: Id, reply: Result<CallReply, MessageError>) {
        let (handler, len, way) = {
            let book = self.ledger.book();
            let sent = &book.streams[id.stream].lanes[id.lane][id.number];
            (sent.handler, sent.len, sent.way)
        };
        let outcome = match reply {
            Ok(reply) if reply.words().is_empty() => {
                let empty = handler == UPCALL || way == super::ledger::Way::Transfer;
                assert!(empty && reply.bytes().is_empty(), "{id:?}: {reply:?}");
                Outcome::Nothing
            }
            Ok(reply) => {
                assert_eq!(reply.words(), id.words(), "the answer to another");
                if handler == DATA {
                    assert!(reply.bytes() == answer(id, len), "{id:?} has another answer");
                } else {
                    assert!(reply.bytes() == id.payload(reply.bytes().len()), "{id:?}");
                }
                Outcome::Answered
            }
            Err(MessageError::NoReply) => {
                assert!([LATER, NEVER].contains(&handler), "{id:?} was for {handler}");
                Outcome::Nothing
            }
            Err(MessageError::ReplyTooLarge { .. }) => {
                // It costs the power of two that it lands in.
                assert!(len > 1 << 16, "{id:?}: an answer to {len} bytes");
                Outcome::Nothing
            }
            Err(MessageError::LinkLost { fate, .. }) => Outcome::Lost(fate),
            Err(MessageError::NoHandler { .. }) => {
                assert_eq!(handler, NO_HANDLER, "{id:?}");
                Outcome::Returned
            }
            Err(
                MessageError::TagChanged
                | MessageError::EndpointGone
                | MessageError::TooLarge { .. },
            ) => Outcome::Returned,
            Err(why) => panic!("{id:?}: {why}"),
        };
        self.ledger.tell(id, outcome);
    }

    /// Everything comes to its end, and all is given back.
    pub(super) fn finish(&mut self) {
        self.is_over = true;
        self.sim.heal();
        for at in 0..self.nodes.len() {
            if self.nodes[at].is_none() {
                self.nodes[at] = Some(self.restarted(at));
            }
        }
        self.until("everything is known", |trial| {
            trial.answer_all();
            trial.calls.is_empty()
                && trial.asked.is_empty()
                && trial.ledger.book().open().is_empty()
        });
        self.ledger.book().check();
        self.flows.clear();
        self.reach_all();
        self.until("all is given back", |trial| {
            trial.answer_all();
            trial.nodes.iter().flatten().for_each(Node::forget_kept);
            trial.nodes.iter().flatten().all(|node| node.links.account().is_settled())
        });
        self.check_ends();
    }

    /// Whoever had a mapping on a link that ended was told.
    fn check_ends(&self) {
        let book = self.ledger.book();
        for Mark { sides: [(from, life), _], ends: [(at, (end, _)), _], link, .. } in &self.marks {
            let here = self.nodes[*from].as_ref().filter(|_| self.lives[*from] == *life);
            let Some(here) = here.filter(|here| here.endpoints[*at].life == *end) else { continue };
            let ended = here.links.core.state.with(|state| state.links.live(*link).is_err());
            let told = book.ends.contains(&(here.endpoints[*at].number, *link));
            assert_eq!(ended, told, "{:?}: {link:?} has ended, and that was told", self.plan);
        }
    }

    /// Whatever has happened, everybody can map and call everybody again.
    fn reach_all(&mut self) {
        let pairs = (0..self.plan.nodes).flat_map(|from| [1, 2].map(|more| (from, from + more)));
        for (from, to) in pairs {
            let to = to % self.plan.nodes;
            if from == to {
                continue;
            }
            self.until(&format!("{} reaches {}", HOSTS[from], HOSTS[to]), |trial| {
                if trial.flows.is_empty() && trial.asked.is_empty() {
                    trial.ask(from, [0, 0], to);
                }
                !trial.flows.is_empty()
            });
            let call = self.flows[0].remote.try_request(NO_HANDLER).unwrap();
            let mut call = Some(call);
            self.until("an answer", |_| {
                if call.as_mut().is_some_and(|call| call.poll_reply().is_some()) {
                    call = None;
                }
                call.is_none()
            });
            self.flows.clear();
        }
    }

    fn answer_all(&self) {
        for node in self.nodes.iter().flatten() {
            let later = std::mem::take(&mut *node.stash.later.lock().unwrap());
            later.into_iter().for_each(|(id, slot)| slot.reply(&id.words()));
        }
    }

    fn until(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let until = self.sim.elapsed() + Duration::from_secs(100);
        while !done(self) {
            self.go_on();
            if self.sim.elapsed() > until {
                let accounts: Vec<_> =
                    self.nodes.iter().flatten().map(|node| node.links.account()).collect();
                let open = format!("{:?}", self.ledger.book().open());
                let calls: Vec<_> = self.calls.iter().map(|(id, ..)| id).collect();
                panic!("not {what}: {:?} {open} {calls:?} {accounts:#?}", self.plan);
            }
        }
    }
}

/// What an answer takes at most that needs nothing but threads that drive.
const SOON: Duration = Duration::from_millis(100);
