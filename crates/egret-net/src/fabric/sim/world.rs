//! The simulated world: its nodes, its clock, and the events to come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use super::after::{After, Plan};
use super::datapath::{Conn, Out};
use super::eager::Record;
use super::node::{End, Node};
use super::planted::Planted;
use super::rng::Rng;
use super::rules::Rules;
use super::threads::Threads;
use super::trace::{Entry, Trace};
use super::wire::{Body, EndId, Farewell, Frame, NodeId};
use crate::rt::Instant;
use crate::vi::{DrainId, ViError, ViId};

#[derive(Debug)]
pub(super) struct World {
    pub seed: u64,
    pub now: Instant,
    pub rng: Rng,
    pub nodes: Vec<Node>,
    pub rules: Rules,
    pub trace: Trace,
    pub after: After,
    pub planted: Option<Planted>,
    /// How long a whole message lies in the fabric before the program has it.
    pub placement: Duration,
    /// Events carried out so far.
    pub events: u64,
    plans: BTreeMap<u64, Vec<Plan>>,
    queue: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    /// When the program last did something, or saw something happen.
    pub seen: Instant,
    /// Whose waits move the clock.
    pub threads: Threads,
    /// Counts what happened, for those who wait for more.
    pub happened: u64,
}

const STALLED_AFTER: Duration = Duration::from_secs(3600);

/// Something that will happen.
#[derive(Debug)]
pub(super) enum Event {
    Arrive {
        frame: Frame,
        life: u32,
        damaged: bool,
    },
    /// Timer of an end.
    Ring {
        node: NodeId,
        end: EndId,
    },
    /// A message moves from the fabric to the program.
    Place {
        node: NodeId,
        end: EndId,
    },
    /// A connector asks again, or gives up.
    Knock {
        node: NodeId,
        end: EndId,
    },
    Plan(Plan),
}

/// Ordered by time, then by the order in which it was scheduled.
#[derive(Debug)]
struct Scheduled {
    at: Instant,
    order: u64,
    event: Event,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Instant::default(),
            rng: Rng::new(seed),
            nodes: Vec::new(),
            rules: Rules::default(),
            trace: Trace::default(),
            after: After::default(),
            planted: None,
            placement: Duration::ZERO,
            events: 0,
            plans: BTreeMap::new(),
            queue: BinaryHeap::new(),
            scheduled: 0,
            seen: Instant::default(),
            happened: 0,
            threads: Threads::default(),
        }
    }

    /// The node's index; a name never heard of gets one, and is not up.
    pub(super) fn node(&mut self, name: &str) -> NodeId {
        self.nodes.iter().position(|node| &*node.name == name).unwrap_or_else(|| {
            self.nodes.push(Node::new(name));
            self.nodes.len() - 1
        })
    }

    /// The index of a node that a nic or a rule has named.
    ///
    /// # Panics
    ///
    /// If none has: a fault for a node that is not there tests nothing.
    pub(super) fn known(&self, name: &str) -> NodeId {
        let found = self.nodes.iter().position(|node| &*node.name == name);
        found.unwrap_or_else(|| panic!("no node is called {name:?}"))
    }

    /// Puts something into the trace that is not a frame.
    pub(super) fn note(&mut self, what: &'static str, from: NodeId, to: NodeId) {
        self.trace.add(Entry { at: self.now, from, to, what, number: 0 });
    }

    pub(super) fn schedule(&mut self, at: Instant, event: Event) {
        self.scheduled += 1;
        self.queue.push(Reverse(Scheduled { at, order: self.scheduled, event }));
    }

    /// Has `plan` carried out right before event number `event`.
    pub(super) fn plan_at_event(&mut self, event: u64, plan: Plan) {
        self.plans.entry(event).or_default().push(plan);
    }

    /// Whether the world only keeps itself alive: nothing the program could
    /// see has happened for an hour.
    pub(super) fn is_stalled(&mut self) -> bool {
        if !self.after.is_empty() {
            self.seen = self.now;
        }
        self.now - self.seen > STALLED_AFTER
    }

    /// When the next event is due.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.queue.peek().map(|Reverse(next)| next.at)
    }

    /// Carries out the next event, if it is due by `until`.
    pub(super) fn step(&mut self, until: Option<Instant>) -> bool {
        let due = self.next_at().is_some_and(|at| until.is_none_or(|until| at <= until));
        if !due {
            return false;
        }
        self.events += 1;
        if let Some(plans) = self.plans.remove(&self.events) {
            // The plans come first; the event keeps its place for the next step.
            self.after.plans.extend(plans);
            return true;
        }
        let Some(Reverse(Scheduled { at, event, .. })) = self.queue.pop() else { return false };
        self.now = self.now.max(at);
        match event {
            Event::Arrive { frame, life, damaged } => self.arrive(frame, life, damaged),
            Event::Ring { node, end } => {
                self.with_end(node, end, |conn, out| {
                    if conn.timer_at != Some(out.now) {
                        return Ok(());
                    }
                    conn.timer_at = None;
                    conn.ring(out)
                });
            }
            Event::Place { node, end } => {
                self.with_end(node, end, |conn, out| {
                    conn.place(out);
                    Ok(())
                });
            }
            Event::Knock { node, end } => self.knock(node, end),
            Event::Plan(plan) => self.after.plans.push(plan),
        }
        true
    }

    fn arrive(&mut self, frame: Frame, life: u32, damaged: bool) {
        let (from, to, number) = (frame.from, frame.to, frame.body.number());
        let node = &self.nodes[to];
        let what = match () {
            () if !node.up || node.life != life => "to a dead node",
            () if damaged => "damaged",
            () => frame.body.name(),
        };
        self.trace.add(Entry { at: self.now, from, to, what, number });
        if !node.up || node.life != life || damaged {
            return;
        }
        match (&frame.body, frame.to_end) {
            (Body::Connect(_), _) => self.connect_arrives(&frame),
            (Body::Accept | Body::Refuse(_) | Body::Queued, Some(end)) => {
                self.connect_answered(end, &frame);
            }
            (Body::Gone(farewell), Some(end)) => {
                self.end_with(to, end, farewell.clone().into_error(), farewell.clone());
            }
            (_, Some(end)) => self.body_arrives(to, end, frame),
            (_, None) => {}
        }
    }

    fn body_arrives(&mut self, node: NodeId, end: EndId, frame: Frame) {
        let known = self.nodes[node].ends.get(&end);
        let farewell = match known {
            Some(End::Open { .. }) => {
                self.with_end(node, end, |conn, out| conn.arrive(frame.body, out));
                return;
            }
            // The acceptor may talk before its acceptance arrives: it will repeat itself.
            Some(End::Knocking(_)) => return,
            Some(End::Gone { farewell, .. }) => farewell.clone(),
            None => Farewell::Unknown,
        };
        self.send(node, end, frame.from, Some(frame.from_end), Body::Gone(farewell));
    }

    /// Calls into an end's state machine and carries out what it wants. An end
    /// that is gone is left alone.
    pub(super) fn with_end<R>(
        &mut self,
        node: NodeId,
        end: EndId,
        call: impl FnOnce(&mut Conn, &mut Out<'_>) -> Result<R, ViError>,
    ) -> Option<R> {
        let Node { ends, keys, .. } = &mut self.nodes[node];
        let Some(End::Open { conn, peer, peer_end }) = ends.get_mut(&end) else { return None };
        let (peer, peer_end) = (*peer, *peer_end);
        let mut out = Out::new(self.now, keys, &mut self.after.told.notices, self.planted);
        let result = call(conn, &mut out);
        let counts = conn.counts();
        let sooner = |at: &Instant| conn.timer_at.is_none_or(|armed| *at < armed);
        let timer = conn.timer(self.now).filter(sooner);
        conn.timer_at = timer.or(conn.timer_at);
        let Out { items, frames, placing, arrived, datagrams, .. } = out;
        if !datagrams.is_empty() {
            self.after.told.happened = true;
            let Node { came, life, .. } = &mut self.nodes[node];
            came.extend(datagrams.into_iter().map(|bytes| (*life, end, Some(bytes))));
        }
        if arrived {
            self.after.told.happened = true;
            let Node { ends, ready, .. } = &mut self.nodes[node];
            if let Some(End::Open { conn, .. }) = ends.get(&end)
                && !conn.eager.is_empty()
                && !ready.contains(&end)
            {
                ready.push_back(end);
            }
        }
        for (number, item) in items {
            self.send(node, end, peer, Some(peer_end), Body::Item(counts, number, item));
        }
        for frame in frames {
            self.send(node, end, peer, Some(peer_end), frame);
        }
        for _ in 0..placing {
            self.schedule(self.now + self.placement, Event::Place { node, end });
        }
        if let Some(at) = timer {
            self.schedule(at, Event::Ring { node, end });
        }
        result.map_err(|why| self.end_with(node, end, why.clone(), Farewell::Failed(why))).ok()
    }

    /// The next eager message for a drain of a node: the ends take turns.
    pub(super) fn next_eager(
        &mut self,
        node: NodeId,
        drain: DrainId,
    ) -> Option<(EndId, ViId, Record)> {
        self.seen = self.now;
        let planted = self.planted;
        let Node { ends, ready, .. } = &mut self.nodes[node];
        let is_for = |ends: &mut BTreeMap<EndId, End>, end: &EndId| {
            ends.get_mut(end).and_then(End::eager).is_some_and(|eager| eager.drain == drain)
        };
        let (end, vi, record) = loop {
            let at = ready.iter().position(|end| is_for(ends, end))?;
            let end = ready.remove(at)?;
            let eager = ends.get_mut(&end).and_then(End::eager)?;
            let (vi, record) = (eager.vi, eager.take(planted));
            if !eager.is_empty() {
                ready.push_back(end);
            }
            // One that was closed here has none left.
            if let Some(record) = record {
                break (end, vi, record);
            }
        };
        self.with_end(node, end, |conn, out| {
            conn.drained(out);
            Ok(())
        });
        Some((end, vi, record))
    }

    /// Puts an end into the error state for good, and tells the peer.
    pub(super) fn end_with(&mut self, node: NodeId, end: EndId, why: ViError, farewell: Farewell) {
        let Node { ends, keys, came, life, .. } = &mut self.nodes[node];
        let Some(End::Open { conn, peer, peer_end }) = ends.get_mut(&end) else { return };
        let (peer, peer_end) = (*peer, *peer_end);
        let mut out = Out::new(self.now, keys, &mut self.after.told.notices, self.planted);
        conn.fail(&why, &mut out);
        if conn.is_windowed {
            came.push_back((*life, end, None));
        }
        let counters = conn.counters();
        let left = Some(Box::new(conn.eager.leave(why != ViError::Closed)));
        ends.insert(end, End::Gone { why, farewell: farewell.clone(), counters, left });
        self.after.told.happened = true;
        self.send(node, end, peer, Some(peer_end), Body::Gone(farewell));
    }

    /// Puts a frame on its link.
    pub(super) fn send(
        &mut self,
        from: NodeId,
        from_end: EndId,
        to: NodeId,
        to_end: Option<EndId>,
        body: Body,
    ) {
        if !self.nodes[from].up {
            return;
        }
        let fate = self.rules.fate((from, to), body.wire_len(), self.now, &mut self.rng);
        let Some(fate) = fate else {
            let (what, number) = ("lost", body.number());
            self.trace.add(Entry { at: self.now, from, to, what, number });
            return;
        };
        let from_life = self.nodes[from].life;
        let life = self.nodes[to].life;
        let mut frame = Frame { from, from_life, from_end, to, to_end, body };
        if let Some(again) = fate.again {
            let frame = frame.clone();
            self.schedule(again, Event::Arrive { frame, life, damaged: fate.damaged });
        }
        let damaged = fate.damaged && !self.damage(&mut frame.body);
        self.schedule(fate.arrives, Event::Arrive { frame, life, damaged });
    }

    /// Flips a bit of an unreliable message. `false`: it has a checksum, which
    /// will tell.
    fn damage(&mut self, body: &mut Body) -> bool {
        let Body::Datagram(datagram) = body else { return false };
        let mut bytes = datagram.bytes.to_vec();
        let bit = 1 << self.rng.below(8);
        match self.rng.below(bytes.len() + 1) {
            0 => datagram.tag ^= bit,
            at => bytes[at - 1] ^= u8::try_from(bit).expect("one of eight bits"),
        }
        datagram.bytes = Arc::from(bytes);
        true
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
