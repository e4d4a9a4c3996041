//! The process that receives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use egret::buf::Plain;
use egret::node::Node;
use egret::port::{PortType, ReceivePort, SendPort, UpcallPort};
use egret::rmi::Remoting;
use egret::wire::{Bulk, FromWire};
use egret_net::sync::Mutex;
use serde::{Deserialize, Serialize};

use crate::links;
use crate::peer::{Follower, PeerFigures, PeerTask};
use crate::rmi::calls::Pooled;
use crate::serialize::values::TreeNode;
use crate::side::{PATIENCE, mark};

/// What the second process is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PortPlan {
    pub(crate) pooled: Pooled,
    pub(crate) what: PortMeasure,
    /// Receive ports, each of a node of its own.
    pub(crate) receivers: u32,
}

/// What is sent, and how it is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum PortMeasure {
    /// A message without bytes and its answer, each received explicitly
    Ping,
    /// The same, each received by an upcall
    Upcall,
    /// Arrays of 100 KB one way
    Stream,
    /// Trees of 1,023 objects one way
    Tree,
    /// 64 KiB to 1 to 4 receive ports, and what that takes of the sender
    Multicast,
}

impl PortMeasure {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Upcall => "upcall",
            Self::Stream => "stream",
            Self::Tree => "tree",
            Self::Multicast => "multicast",
        }
    }
}

/// The name of a receive port of the second process.
pub(crate) fn receiver_name(number: u32) -> String {
    format!("bench-{number}")
}

/// The type of all ports.
pub(crate) const fn port_type() -> PortType {
    PortType::many_to_many()
}

/// The nodes that receive, in the second process.
pub(crate) const PORTS: PeerTask<PortPlan> = PeerTask {
    name: "ports",
    start: |plan, _| {
        Ok(match plan.what {
            PortMeasure::Ping => Box::new(PortReceivers::new(&plan, receive_nothing)?),
            PortMeasure::Upcall => Box::new(UpcallReceiver::new(&plan)?),
            PortMeasure::Stream => Box::new(PortReceivers::new(&plan, receive_floats)?),
            PortMeasure::Tree => Box::new(PortReceivers::new(&plan, receive_tree)?),
            PortMeasure::Multicast => Box::new(PortReceivers::new(&plan, receive_bytes)?),
        })
    },
};

/// Receives the message of a round: whether it is that.
type ReceiveNext<T> = fn(&mut ReceivePort<T>, u64) -> Result<bool>;

fn receive_nothing(sink: &mut ReceivePort<()>, _: u64) -> Result<bool> {
    sink.receive(PATIENCE)?;
    Ok(true)
}

fn receive_floats(sink: &mut ReceivePort<Vec<f64>>, round: u64) -> Result<bool> {
    receive_array(sink, mark(round).into())
}

fn receive_bytes(sink: &mut ReceivePort<Vec<u8>>, round: u64) -> Result<bool> {
    receive_array(sink, mark(round))
}

/// Looks at both ends of an array, in the buffer in which it arrived.
fn receive_array<E: Bulk + Plain + PartialEq>(
    sink: &mut ReceivePort<Vec<E>>,
    end: E,
) -> Result<bool>
where
    Vec<E>: for<'a> FromWire<'a>,
{
    let mut message = sink.receive_message(PATIENCE)?;
    let array = message.array::<E>()?;
    Ok(array.first() == Some(&end) && array.last() == Some(&end))
}

fn receive_tree(sink: &mut ReceivePort<TreeNode>, round: u64) -> Result<bool> {
    Ok(sink.receive(PATIENCE)?.mark() == u32::from(mark(round)))
}

/// Receive ports whose messages the one thread of the process takes, one after the other.
struct PortReceivers<T> {
    sinks: Vec<ReceivePort<T>>,
    receive: ReceiveNext<T>,
    /// Leads to the first process: answers, or says that all have come.
    back: SendPort<()>,
    answers_each: bool,
    nodes: Vec<Node>,
    round: u64,
}

impl<T: for<'a> FromWire<'a>> PortReceivers<T> {
    fn new(plan: &PortPlan, receive: ReceiveNext<T>) -> Result<Self> {
        let nodes = (0..plan.receivers).map(|_| plan.pooled.join());
        let nodes = nodes.collect::<Result<Vec<_>>>()?;
        let sinks = nodes
            .iter()
            .zip(0..)
            .map(|(node, number)| Ok(node.receive_port(&*receiver_name(number), &port_type())?));
        let sinks = sinks.collect::<Result<_>>()?;
        let back = nodes[0].send_port(&port_type())?;
        let answers_each = plan.what == PortMeasure::Ping;
        Ok(Self { sinks, receive, back, answers_each, nodes, round: 0 })
    }
}

impl<T: for<'a> FromWire<'a>> Follower for PortReceivers<T> {
    /// Receives so many messages; the first run connects.
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        if rounds == 0 {
            self.nodes.iter().try_for_each(|node| node.wait_all(PATIENCE))?;
            self.back.connect(BACK, PATIENCE)?;
            return Ok(PeerFigures::new());
        }
        for _ in 0..rounds {
            self.round += 1;
            for sink in &mut self.sinks {
                ensure!((self.receive)(sink, self.round)?, "a message arrived damaged");
            }
            if self.answers_each {
                self.back.send(&())?;
            }
        }
        if !self.answers_each {
            self.back.send(&())?;
        }
        self.nodes.iter().for_each(finish);
        Ok(PeerFigures::new())
    }
}

/// A receive port whose upcalls answer, on the thread that serves.
struct UpcallReceiver {
    _sink: UpcallPort,
    back: Arc<Mutex<SendPort<()>>>,
    node: Node,
    /// Messages that were answered.
    answered: Arc<AtomicU64>,
    round: u64,
}

impl UpcallReceiver {
    fn new(plan: &PortPlan) -> Result<Self> {
        let node = plan.pooled.join()?;
        let back = Arc::new(Mutex::new(node.send_port(&port_type())?));
        let answered = Arc::<AtomicU64>::default();
        let (port, count) = (Arc::clone(&back), Arc::clone(&answered));
        let answer = move |(), _: &mut egret::port::PortUpcall<'_>| {
            if port.lock().send(&()).is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        };
        let sink = node.receive_port_with(&*receiver_name(0), &port_type(), answer)?;
        Ok(Self { _sink: sink, back, node, answered, round: 0 })
    }
}

impl Follower for UpcallReceiver {
    /// Serves until so many messages were answered; the first run connects.
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        if rounds == 0 {
            self.node.wait_all(PATIENCE)?;
            self.back.lock().connect(BACK, PATIENCE)?;
            return Ok(PeerFigures::new());
        }
        self.round += rounds;
        let is_done = || self.answered.load(Ordering::Relaxed) >= self.round;
        ensure!(self.node.serve(PATIENCE, is_done), "no message arrived in time");
        finish(&self.node);
        Ok(PeerFigures::new())
    }
}

/// Lets a node send what it has to, at the end of a run.
pub(crate) fn finish(node: &Node) {
    node.links().iter().for_each(|(_, links)| links::finish(links));
}

/// The receive port of the first process.
pub(crate) const BACK: &str = "bench-back";
