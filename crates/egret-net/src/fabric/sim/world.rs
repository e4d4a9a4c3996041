//! The simulated world: its nodes, its clock, and the events to come.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use super::connection::Connection;
use super::datapath::{DataPath, EndOutput};
use super::deferred::{ScheduledAction, SimDeferredWork};
use super::eager::EagerRecord;
use super::fault::Fault;
use super::node::SimNode;
use super::rng::Rng;
use super::rules::NetworkRules;
use super::threads::Threads;
use super::trace::{Trace, TraceEntry};
use super::wire::{EndId, FrameBody, SimCloseReason, SimFrame, SimNodeId};
use crate::fabric::EventCount;
use crate::rt::Instant;
use crate::vi::{DrainId, ViError, ViId};

#[derive(Debug)]
pub(super) struct SimWorld {
    pub seed: u64,
    pub now: Instant,
    pub rng: Rng,
    pub nodes: Vec<SimNode>,
    /// The index of each node, by its name.
    names: BTreeMap<Arc<str>, SimNodeId>,
    pub rules: NetworkRules,
    pub trace: Trace,
    pub after: SimDeferredWork,
    pub planted: Option<Fault>,
    /// How long a whole message lies in the fabric before the program has it.
    pub placement: Duration,
    /// Events carried out so far.
    pub events: u64,
    plans: BTreeMap<u64, Vec<ScheduledAction>>,
    queue: BinaryHeap<Reverse<ScheduledEvent>>,
    scheduled: u64,
    /// When the program last did something, or saw something happen.
    pub seen: Instant,
    /// Whose waits move the clock.
    pub threads: Threads,
    /// How much happened that waits at all nics are for; each node counts what happened at it alone.
    happened: u64,
    /// Whether what is left to do was counted already.
    pub is_counted: bool,
}

const STALLED_AFTER: Duration = Duration::from_secs(3600);

/// Something that will happen.
#[derive(Debug)]
pub(super) enum WorldEvent {
    Arrive {
        frame: Box<SimFrame>,
        life: u32,
        damaged: bool,
    },
    /// Timer of an end.
    Ring {
        node: SimNodeId,
        end: EndId,
    },
    /// A message moves from the fabric to the program.
    Place {
        node: SimNodeId,
        end: EndId,
    },
    /// A connector asks again, or gives up.
    RetryConnect {
        node: SimNodeId,
        end: EndId,
    },
    Plan(ScheduledAction),
}

/// Ordered by time, then by the order in which it was scheduled.
#[derive(Debug)]
struct ScheduledEvent {
    at: Instant,
    order: u64,
    event: WorldEvent,
}

impl SimWorld {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Instant::default(),
            rng: Rng::new(seed),
            nodes: Vec::new(),
            names: BTreeMap::new(),
            rules: NetworkRules::default(),
            trace: Trace::default(),
            after: SimDeferredWork::default(),
            planted: None,
            placement: Duration::ZERO,
            events: 0,
            plans: BTreeMap::new(),
            queue: BinaryHeap::new(),
            scheduled: 0,
            seen: Instant::default(),
            happened: 0,
            is_counted: false,
            threads: Threads::default(),
        }
    }

    /// The node's index; a name never heard of gets one, and is not up.
    pub(super) fn node(&mut self, name: &str) -> SimNodeId {
        if let Some(node) = self.names.get(name) {
            return *node;
        }
        let (node, at) = (SimNode::new(name), self.nodes.len());
        self.names.insert(Arc::clone(&node.name), at);
        self.nodes.push(node);
        at
    }

    /// The index of a node that a nic or a rule has named.
    ///
    /// # Panics
    ///
    /// If none has: a fault for a node that is not there tests nothing.
    pub(super) fn known(&self, name: &str) -> SimNodeId {
        let found = self.names.get(name).copied();
        found.unwrap_or_else(|| panic!("no node is called {name:?}"))
    }

    /// How much has happened at a node, and everywhere.
    pub(super) fn happened_at(&self, node: SimNodeId) -> EventCount {
        EventCount(self.happened + self.nodes[node].happened)
    }

    /// Something has happened at a node, or everywhere: waits for the network end. Where nodes have no threads of
    /// their own, one thread waits for what happens at any of them.
    pub(super) fn count(&mut self, node: Option<SimNodeId>) {
        let node = node.filter(|_| self.threads.has_background);
        match node {
            Some(node) => self.nodes[node].happened += 1,
            None => self.happened += 1,
        }
        self.threads.something_happened(node);
    }

    /// Counts what is left to do, if there is something: at this node, unless it was counted when it came up.
    pub(super) fn count_left(&mut self, node: Option<SimNodeId>) {
        if !self.after.is_empty() && !self.is_counted {
            self.is_counted = true;
            self.count(node);
        }
    }

    /// Puts something into the trace that is not a frame.
    pub(super) fn note(&mut self, what: &'static str, from: SimNodeId, to: SimNodeId) {
        self.trace.add(TraceEntry { at: self.now, from, to, what, number: 0 });
    }

    pub(super) fn schedule(&mut self, at: Instant, event: WorldEvent) {
        self.scheduled += 1;
        self.queue.push(Reverse(ScheduledEvent { at, order: self.scheduled, event }));
    }

    /// Has `plan` carried out right before event number `event`.
    pub(super) fn plan_at_event(&mut self, event: u64, plan: ScheduledAction) {
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
        let Some(Reverse(ScheduledEvent { at, event, .. })) = self.queue.pop() else {
            return false;
        };
        self.now = self.now.max(at);
        let at = match &event {
            WorldEvent::Arrive { frame, .. } => Some(frame.to),
            WorldEvent::Ring { node, .. }
            | WorldEvent::Place { node, .. }
            | WorldEvent::RetryConnect { node, .. } => Some(*node),
            WorldEvent::Plan(_) => None,
        };
        self.carry_out(event);
        self.count_left(at);
        true
    }

    fn carry_out(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Arrive { frame, life, damaged } => self.arrive(*frame, life, damaged),
            WorldEvent::Ring { node, end } => {
                self.with_end(node, end, |conn, out| {
                    if conn.timer_at != Some(out.now) {
                        return Ok(());
                    }
                    conn.timer_at = None;
                    conn.ring(out)
                });
            }
            WorldEvent::Place { node, end } => {
                self.with_end(node, end, |conn, out| {
                    conn.place(out);
                    Ok(())
                });
            }
            WorldEvent::RetryConnect { node, end } => self.request_connection(node, end),
            WorldEvent::Plan(plan) => self.after.plans.push(plan),
        }
    }

    fn arrive(&mut self, frame: SimFrame, life: u32, damaged: bool) {
        let (from, to, number) = (frame.from, frame.to, frame.body.number());
        let node = &self.nodes[to];
        let what = match () {
            () if !node.up || node.life != life => "to a dead node",
            () if damaged => "damaged",
            () => frame.body.name(),
        };
        self.trace.add(TraceEntry { at: self.now, from, to, what, number });
        if !node.up || node.life != life || damaged {
            return;
        }
        match (&frame.body, frame.to_end) {
            (FrameBody::Connect(_), _) => self.connect_arrives(&frame),
            (FrameBody::Accept | FrameBody::Refuse(_) | FrameBody::Queued, Some(end)) => {
                self.connect_answered(end, &frame);
            }
            (FrameBody::Gone(farewell), Some(end)) => {
                self.end_with(to, end, farewell.clone().into_error(), farewell.clone());
            }
            (_, Some(end)) => self.body_arrives(to, end, frame),
            (_, None) => {}
        }
    }

    fn body_arrives(&mut self, node: SimNodeId, end: EndId, frame: SimFrame) {
        let known = self.nodes[node].ends.get(&end);
        let farewell = match known {
            Some(Connection::Open { .. }) => {
                self.with_end(node, end, |conn, out| conn.arrive(frame.body, out));
                return;
            }
            // The acceptor may talk before its acceptance arrives: it will repeat itself.
            Some(Connection::Connecting(_)) => return,
            Some(Connection::Gone { farewell, .. }) => farewell.clone(),
            None => SimCloseReason::Unknown,
        };
        self.send(node, end, frame.from, Some(frame.from_end), FrameBody::Gone(farewell));
    }

    /// Calls into an end's state machine and carries out what it wants. An end
    /// that is gone is left alone.
    pub(super) fn with_end<R>(
        &mut self,
        node: SimNodeId,
        end: EndId,
        call: impl FnOnce(&mut DataPath, &mut EndOutput<'_>) -> Result<R, ViError>,
    ) -> Option<R> {
        let SimNode { ends, keys, .. } = &mut self.nodes[node];
        let Some(Connection::Open { conn, peer, peer_end }) = ends.get_mut(&end) else {
            return None;
        };
        let (peer, peer_end) = (*peer, *peer_end);
        let mut out = EndOutput::new(self.now, keys, &mut self.after.told.notices, self.planted);
        let result = call(conn, &mut out);
        let counts = conn.counts();
        let sooner = |at: &Instant| conn.timer_at.is_none_or(|armed| *at < armed);
        let timer = conn.timer(self.now).filter(sooner);
        conn.timer_at = timer.or(conn.timer_at);
        let EndOutput { items, frames, placing, arrived, datagrams, .. } = out;
        if !datagrams.is_empty() {
            self.after.told.happened = true;
            let SimNode { came, life, .. } = &mut self.nodes[node];
            came.extend(datagrams.into_iter().map(|bytes| (*life, end, Some(bytes))));
        }
        if arrived {
            self.after.told.happened = true;
            let SimNode { ends, ready, .. } = &mut self.nodes[node];
            if let Some(Connection::Open { conn, .. }) = ends.get(&end)
                && !conn.eager.is_empty()
                && !ready.contains(&end)
            {
                ready.push_back(end);
            }
        }
        for (number, item) in items {
            self.send(node, end, peer, Some(peer_end), FrameBody::Item(counts, number, item));
        }
        for frame in frames {
            self.send(node, end, peer, Some(peer_end), frame);
        }
        for _ in 0..placing {
            self.schedule(self.now + self.placement, WorldEvent::Place { node, end });
        }
        if let Some(at) = timer {
            self.schedule(at, WorldEvent::Ring { node, end });
        }
        result
            .map_err(|why| self.end_with(node, end, why.clone(), SimCloseReason::Failed(why)))
            .ok()
    }

    /// The next eager message for a drain of a node: the ends take turns.
    pub(super) fn next_eager(
        &mut self,
        node: SimNodeId,
        drain: DrainId,
    ) -> Option<(EndId, ViId, EagerRecord)> {
        self.seen = self.now;
        let planted = self.planted;
        let SimNode { ends, ready, .. } = &mut self.nodes[node];
        let is_for = |ends: &mut BTreeMap<EndId, Connection>, end: &EndId| {
            ends.get_mut(end).and_then(Connection::eager).is_some_and(|eager| eager.drain == drain)
        };
        let (end, vi, record) = loop {
            let at = ready.iter().position(|end| is_for(ends, end))?;
            let end = ready.remove(at)?;
            let eager = ends.get_mut(&end).and_then(Connection::eager)?;
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
    pub(super) fn end_with(
        &mut self,
        node: SimNodeId,
        end: EndId,
        why: ViError,
        farewell: SimCloseReason,
    ) {
        let SimNode { ends, keys, came, life, .. } = &mut self.nodes[node];
        let Some(Connection::Open { conn, peer, peer_end }) = ends.get_mut(&end) else { return };
        let (peer, peer_end) = (*peer, *peer_end);
        let mut out = EndOutput::new(self.now, keys, &mut self.after.told.notices, self.planted);
        conn.fail(&why, &mut out);
        if conn.is_windowed {
            came.push_back((*life, end, None));
        }
        let counters = conn.counters();
        let left = Some(Box::new(conn.eager.leave(why != ViError::Closed)));
        ends.insert(end, Connection::Gone { why, farewell: farewell.clone(), counters, left });
        self.after.told.happened = true;
        self.send(node, end, peer, Some(peer_end), FrameBody::Gone(farewell));
    }

    /// Puts a frame on its link.
    pub(super) fn send(
        &mut self,
        from: SimNodeId,
        from_end: EndId,
        to: SimNodeId,
        to_end: Option<EndId>,
        body: FrameBody,
    ) {
        if !self.nodes[from].up {
            return;
        }
        let fate = self.rules.fate((from, to), body.wire_len(), self.now, &mut self.rng);
        let Some(fate) = fate else {
            let (what, number) = ("lost", body.number());
            self.trace.add(TraceEntry { at: self.now, from, to, what, number });
            return;
        };
        let from_life = self.nodes[from].life;
        let life = self.nodes[to].life;
        let mut frame = SimFrame { from, from_life, from_end, to, to_end, body };
        if let Some(again) = fate.again {
            let frame = Box::new(frame.clone());
            self.schedule(again, WorldEvent::Arrive { frame, life, damaged: fate.damaged });
        }
        let damaged = fate.damaged && !self.damage(&mut frame.body);
        let frame = Box::new(frame);
        self.schedule(fate.arrives, WorldEvent::Arrive { frame, life, damaged });
    }

    /// Flips a bit of an unreliable message. `false`: it has a checksum, which
    /// will tell.
    fn damage(&mut self, body: &mut FrameBody) -> bool {
        let FrameBody::Datagram(datagram) = body else { return false };
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

impl PartialEq for ScheduledEvent {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for ScheduledEvent {}

impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ScheduledEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}
