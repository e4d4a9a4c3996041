//! The process that measures.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use egret::node::Node;
use egret::node::registry::Registry;
use egret::port::{PortUpcall, ReceivePort, SendPort, UpcallPort};
use egret::rmi::Remoting;
use egret::rt;
use egret::wire::Wire;

use super::receiver::{BACK, PORTS, PortMeasure, PortPlan, finish, port_type, receiver_name};
use crate::idle::still::cpu_time;
use crate::limit::Stopwatch;
use crate::measure::{Probe, Sample};
use crate::peer::{FollowerProcess, PeerStation};
use crate::rmi::calls::Pooled;
use crate::side::PATIENCE;
use crate::vi::duo::WaitMode;

/// The node of this process, the station of the others, and their registry.
struct PortNodes {
    station: PeerStation,
    node: Node,
    receivers: u32,
    _registry: Registry,
}

impl PortNodes {
    fn new(
        peer: &Rc<FollowerProcess>,
        (fabric, wait): (&str, WaitMode),
        what: PortMeasure,
        receivers: u32,
    ) -> Result<Self> {
        let (_registry, pooled) = Pooled::new(fabric, wait, 1 + receivers)?;
        let plan = PortPlan { pooled: pooled.clone(), what, receivers };
        let station = peer.open(&PORTS, &plan, &[])?;
        Ok(Self { station, node: pooled.join()?, receivers, _registry })
    }

    /// A port that is connected to all receive ports.
    fn port<T: Wire>(&self) -> Result<SendPort<T>> {
        let mut port = self.node.send_port(&port_type())?;
        (0..self.receivers).try_for_each(|at| port.connect(&receiver_name(at), PATIENCE))?;
        Ok(port)
    }

    /// A port for each receive port.
    fn ports<T: Wire>(&self) -> Result<Vec<SendPort<T>>> {
        let one = |at| {
            let mut port = self.node.send_port(&port_type())?;
            port.connect(&receiver_name(at), PATIENCE)?;
            Ok(port)
        };
        (0..self.receivers).map(one).collect()
    }

    /// Has the other process connect to the receive port of this one.
    fn connect_back(&self) -> Result<()> {
        self.station.run(0, || self.node.wait_all(PATIENCE))
    }

    /// Lets the other process receive so many messages while `lead` sends them.
    fn run(&self, rounds: u64, lead: impl FnOnce() -> Result<Sample>) -> Result<Sample> {
        self.station.run(rounds, || {
            let sample = lead();
            finish(&self.node);
            sample
        })
    }
}

/// A message and its answer, one at a time, each received by the thread that waits for it.
pub(crate) struct PortPing {
    port: SendPort<()>,
    back: ReceivePort<()>,
    nodes: PortNodes,
}

impl PortPing {
    pub(crate) fn new(peer: &Rc<FollowerProcess>, how: (&str, WaitMode)) -> Result<Self> {
        let nodes = PortNodes::new(peer, how, PortMeasure::Ping, 1)?;
        let back = nodes.node.receive_port(BACK, &port_type())?;
        nodes.connect_back()?;
        Ok(Self { port: nodes.port()?, back, nodes })
    }
}

impl Probe for PortPing {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let Self { port, back, nodes } = self;
        nodes.run(rounds, || {
            let mut times = Vec::with_capacity(usize::try_from(rounds)?);
            for _ in 0..rounds {
                let start = Stopwatch::start();
                port.send(&())?;
                back.receive(PATIENCE)?;
                times.push(start.nanos());
            }
            Ok(Sample::Times(times))
        })
    }
}

/// The same, each received by an upcall on the thread that serves.
pub(crate) struct PortUpcalls {
    port: SendPort<()>,
    _back: UpcallPort,
    nodes: PortNodes,
    /// Answers that have come.
    heard: Arc<AtomicU64>,
    round: u64,
}

impl PortUpcalls {
    pub(crate) fn new(peer: &Rc<FollowerProcess>, how: (&str, WaitMode)) -> Result<Self> {
        let nodes = PortNodes::new(peer, how, PortMeasure::Upcall, 1)?;
        let heard = Arc::<AtomicU64>::default();
        let count = Arc::clone(&heard);
        let hear = move |(), _: &mut PortUpcall<'_>| {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let back = nodes.node.receive_port_with(BACK, &port_type(), hear)?;
        nodes.connect_back()?;
        Ok(Self { port: nodes.port()?, _back: back, nodes, heard, round: 0 })
    }
}

impl Probe for PortUpcalls {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let Self { port, nodes, heard, round, .. } = self;
        nodes.run(rounds, || {
            let mut times = Vec::with_capacity(usize::try_from(rounds)?);
            for _ in 0..rounds {
                *round += 1;
                let start = Stopwatch::start();
                port.send(&())?;
                let is_heard = || heard.load(Ordering::Relaxed) >= *round;
                ensure!(nodes.node.serve(PATIENCE, is_heard), "no answer arrived in time");
                times.push(start.nanos());
            }
            Ok(Sample::Times(times))
        })
    }
}

/// What several senders of one process share: the receivers, and what they say when all has come.
pub(crate) struct PortStreams {
    back: ReceivePort<()>,
    nodes: PortNodes,
    round: u64,
}

impl PortStreams {
    pub(crate) fn new(
        peer: &Rc<FollowerProcess>,
        how: (&str, WaitMode),
        what: PortMeasure,
        receivers: u32,
    ) -> Result<Rc<RefCell<Self>>> {
        let nodes = PortNodes::new(peer, how, what, receivers)?;
        let back = nodes.node.receive_port(BACK, &port_type())?;
        nodes.connect_back()?;
        Ok(Rc::new(RefCell::new(Self { back, nodes, round: 0 })))
    }
}

/// Sends the same value to all receivers, rewritten before each send, until all have come.
pub(crate) struct PortSender<T> {
    /// One that is connected to all receivers, or one for each.
    ports: Vec<SendPort<T>>,
    streams: Rc<RefCell<PortStreams>>,
    value: T,
    rewrite: fn(&mut T, u64),
    /// Whether it is the time of the processor that is measured.
    is_cpu: bool,
}

impl<T: Wire> PortSender<T> {
    /// By one port.
    pub(crate) fn new(
        streams: &Rc<RefCell<PortStreams>>,
        value: T,
        rewrite: fn(&mut T, u64),
    ) -> Result<Self> {
        let ports = vec![streams.borrow().nodes.port()?];
        Ok(Self { ports, streams: Rc::clone(streams), value, rewrite, is_cpu: false })
    }

    /// By a port for each receiver.
    pub(crate) fn by_each(
        streams: &Rc<RefCell<PortStreams>>,
        value: T,
        rewrite: fn(&mut T, u64),
    ) -> Result<Self> {
        let ports = streams.borrow().nodes.ports()?;
        Ok(Self { ports, streams: Rc::clone(streams), value, rewrite, is_cpu: false })
    }

    /// The time that this process takes of the processor for one message.
    pub(crate) fn of_cpu(self) -> Self {
        Self { is_cpu: true, ..self }
    }
}

impl<T: Wire> Probe for PortSender<T> {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let Self { ports, value, rewrite, is_cpu, .. } = self;
        let PortStreams { back, nodes, round } = &mut *self.streams.borrow_mut();
        nodes.run(rounds, || {
            let (start, used) = (rt::now(), cpu_time());
            for _ in 0..rounds {
                *round += 1;
                rewrite(value, *round);
                for port in &mut *ports {
                    port.send(value)?;
                }
            }
            back.receive(PATIENCE)?;
            let (took, used) = (rt::now() - start, cpu_time().saturating_sub(used));
            Ok(match is_cpu {
                true => Sample::Value(used.as_nanos() as f64 / rounds as f64),
                // A message counts for each that receives it.
                false => Sample::Total(took / nodes.receivers),
            })
        })
    }
}
