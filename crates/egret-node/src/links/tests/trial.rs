//! Two or three nodes do everything that can be done, while their world fails in every
//! way it can.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::{self, Deadline, GivenBack};
use egret_net::vi::Reliability;

use super::ledger::{Id, Ledger, NO_HANDLER, Sent, Stream, Way};
use super::random::Random;
use super::world::{AT_ONCE, DATA, HOLD, IN_ORDER, LATER, NEVER, Node, UPCALL, step};
use crate::am::{Call, MEDIUM_MAX, Message, MessageError, PendingMapping, RemoteEndpoint};
use crate::links::LinksOptions;
use crate::slots::SlotKey;

/// How a trial goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) nodes: usize,
    pub(super) window: u32,
    pub(super) level: Reliability,
    /// Nodes crash and are cut off.
    pub(super) dies: bool,
    pub(super) turns: u32,
    /// Nodes have threads in the background, which drive them.
    pub(super) crews: bool,
}

impl Plan {
    /// The same with nodes that drive themselves. They do less, for each step is more.
    pub(super) fn with_crews(self) -> Self {
        Self { crews: true, turns: 100, ..self }
    }

    pub(super) fn of(random: &mut Random) -> Self {
        let level = [Reliability::Delivery, Reliability::Reception][random.index(2)];
        let window = [1, 2, 3, 7, 16, 64][random.index(6)];
        let nodes = 2 + random.index(2);
        Self { nodes, window, level, dies: random.is(50), turns: 250, crews: false }
    }
}

/// A mapping in use.
pub(super) struct Flow {
    pub(super) stream: usize,
    pub(super) from: usize,
    pub(super) remote: RemoteEndpoint,
}

/// What a stream depends on.
pub(super) struct Mark {
    pub(super) stream: usize,
    pub(super) sides: [(usize, u64); 2],
    pub(super) link: SlotKey,
    /// The endpoints that it is between.
    pub(super) ends: Ends,
    /// Links that had ended at the other side.
    pub(super) ended: u64,
}
pub(super) struct Asked {
    pub(super) from: usize,
    pub(super) ends: Ends,
    pub(super) to: usize,
    pub(super) mapping: Pin<Box<PendingMapping>>,
}

pub(super) struct Trial<'a> {
    pub(super) sim: &'a Sim,
    pub(super) plan: Plan,
    pub(super) options: LinksOptions,
    pub(super) random: Random,
    pub(super) ledger: Ledger,
    pub(super) nodes: Vec<Option<Node>>,
    pub(super) lives: Vec<u64>,
    pub(super) flows: Vec<Flow>,
    pub(super) asked: Vec<Asked>,
    pub(super) calls: Vec<(Id, usize, Call)>,
    pub(super) marks: Vec<Mark>,
    /// Whether nothing is begun any more.
    pub(super) is_over: bool,
}

/// Runs one.
pub(super) fn run(sim: &Sim, plan: Plan, random: Random) -> Ledger {
    if plan.level == Reliability::Delivery {
        sim.links().loss(0.05).duplicate(0.05).reorder(0.05).corrupt(0.05);
    }
    if plan.crews {
        sim.background();
    }
    let mut trial = Trial::new(sim, plan, random);
    for _ in 0..plan.turns {
        trial.turn();
        if plan.crews {
            trial.wait_for_one();
        }
    }
    trial.finish();
    let ledger = trial.ledger.clone();
    drop(trial);
    if plan.crews {
        // Whoever looks now and then whether there is something left has done so.
        rt::sleep(Duration::from_secs(6));
        assert_eq!(sim.threads(), 0, "{plan:?}: threads that do not end");
    }
    ledger
}

impl<'a> Trial<'a> {
    fn new(sim: &'a Sim, plan: Plan, random: Random) -> Self {
        let options =
            LinksOptions::default().window(plan.window).reliability(plan.level).budget(1 << 20);
        let ledger = Ledger::default();
        let nodes = (0..plan.nodes).map(|at| Some(Node::new(sim, HOSTS[at], &options, &ledger)));
        Self {
            nodes: nodes.collect(),
            sim,
            plan,
            options,
            random,
            ledger,
            lives: vec![0; plan.nodes],
            flows: Vec::new(),
            asked: Vec::new(),
            calls: Vec::new(),
            marks: Vec::new(),
            is_over: false,
        }
    }

    fn turn(&mut self) {
        for _ in 0..self.random.below(6) {
            self.act();
        }
        self.go_on();
    }

    /// Something happens.
    fn act(&mut self) {
        match self.random.below(200) {
            0..=129 => self.send(),
            130..=149 => self.map(),
            150..=164 => self.answer_later(),
            165..=174 => self.abandon(),
            175..=179 => self.unmap(),
            180..=188 => self.move_endpoint(),
            189 => self.close_endpoint(),
            190 => self.retag_endpoint(),
            194..=195 if self.plan.dies => self.crash(),
            196..=197 if self.plan.dies => self.cut(),
            _ => {}
        }
    }

    pub(super) fn go_on(&mut self) {
        self.mark();
        self.step(None);
        self.take_mapped();
        // Who looks for an answer drives; those that have threads do so without.
        if !self.plan.crews || self.is_over {
            self.take_answers();
        }
        let wrong = std::mem::take(&mut self.ledger.book().wrong);
        assert!(wrong.is_empty(), "{:?}: {wrong:#?}", self.plan);
    }

    /// One step of everybody, and of one who is about to go.
    pub(super) fn step(&mut self, gone: Option<&Node>) {
        if self.plan.crews {
            rt::sleep(Duration::from_micros(self.random.below(1000)));
        } else {
            step(self.nodes.iter().flatten().chain(gone));
        }
    }

    pub(super) fn node(&self, at: usize) -> Option<&Node> {
        self.nodes[at].as_ref()
    }

    fn map(&mut self) {
        let (from, to) = (self.random.index(self.plan.nodes), self.random.index(self.plan.nodes));
        let ends = [self.random.index(2), self.random.index(2)];
        if from != to && self.flows.len() + self.asked.len() <= 8 {
            self.ask(from, ends, to);
        }
    }

    pub(super) fn ask(&mut self, from: usize, ends: [usize; 2], to: usize) {
        let (Some(here), Some(there)) = (self.node(from), self.node(to)) else { return };
        let (mine, theirs) = (&here.endpoints[ends[0]], &there.endpoints[ends[1]]);
        let deadline = Deadline::In(Duration::from_secs(2));
        let mapping = Box::pin(mine.endpoint.map(&theirs.name, &[], deadline));
        let ends = [(ends[0], (mine.life, 0)), (ends[1], (theirs.life, theirs.name.tag))];
        self.asked.push(Asked { from, ends, to, mapping });
    }

    fn take_mapped(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        for mut asked in std::mem::take(&mut self.asked) {
            match asked.mapping.as_mut().poll(&mut context) {
                Poll::Pending => self.asked.push(asked),
                Poll::Ready(Ok(remote)) => self.mapped(&asked, remote),
                Poll::Ready(Err(_)) => {}
            }
        }
    }

    fn mapped(&mut self, asked: &Asked, remote: RemoteEndpoint) {
        let stream = {
            let mut book = self.ledger.book();
            book.streams.push(Stream::default());
            book.streams.len() - 1
        };
        let ended = self.node(asked.to).map_or(0, |node| node.links.counters().ended);
        let sides = [asked.from, asked.to].map(|at| (at, self.lives[at]));
        let link = remote.link();
        self.marks.push(Mark { stream, sides, link, ends: asked.ends, ended });
        self.flows.push(Flow { stream, from: asked.from, remote });
    }

    fn send(&mut self) {
        if self.flows.is_empty() {
            return self.map();
        }
        let random = &mut self.random;
        let book = self.ledger.book();
        // What goes back is not sent for ever.
        self.flows.retain(|flow| !book.streams[flow.stream].returns || !random.is(20));
        drop(book);
        if self.flows.is_empty() {
            return;
        }
        let flow = &self.flows[random.index(self.flows.len())];
        let handlers = [AT_ONCE, AT_ONCE, LATER, NEVER, DATA, UPCALL, HOLD, IN_ORDER, NO_HANDLER];
        let known = if random.is(90) { 8 } else { 9 };
        let handler = handlers[random.index(known)];
        let ways = [Way::Answered, Way::Answered, Way::Not, Way::Transfer];
        let way = if handler == IN_ORDER { Way::Answered } else { ways[random.index(4)] };
        let is_bulk = way == Way::Transfer || random.is(30);
        let most = if random.is(5) { 200_000 } else { 20_000 };
        let len = random.size(if is_bulk { most } else { MEDIUM_MAX as u64 });
        let lane = if handler == IN_ORDER { 2 } else { usize::from(is_bulk) };
        let stream = flow.stream;
        let number = self.ledger.book().streams[stream].lanes[lane].len();
        let id = Id { stream, lane, number };
        let (words, payload) = (id.words(), id.payload(len));
        let message = Message::to(handler).words(&words);
        let message = if handler == IN_ORDER { message.in_order() } else { message };
        let message = match is_bulk {
            true if random.is(50) => message.data(payload.clone()),
            true => {
                let piece = 1 + random.size(5000);
                let pieces = payload.chunks(piece).map(|piece| piece.to_vec().into());
                message.gather(pieces.collect())
            }
            false => message.bytes(&payload),
        };
        let sent = match way {
            Way::Answered => flow.remote.try_request(message).map(Some),
            Way::Not => flow.remote.try_send(message).map(|()| None),
            Way::Transfer => flow.remote.try_transfer(message).map(Some),
        };
        match sent {
            Ok(call) => {
                let sent = Sent { handler, way, len, served: false, outcome: None };
                self.ledger.book().streams[stream].lanes[lane].push(sent);
                self.calls.extend(call.map(|call| (id, flow.from, call)));
            }
            Err(GivenBack { why: MessageError::Full { .. }, .. }) => {}
            Err(GivenBack { why: MessageError::Link(_), .. }) => {
                self.flows.retain(|flow| flow.stream != stream);
            }
            Err(unsent) => panic!("{unsent}"),
        }
    }
}

pub(super) const HOSTS: [&str; 3] = ["a", "b", "c"];
/// Which endpoints a mapping is between: their places, lives and tags.
type Ends = [(usize, (u64, u64)); 2];
