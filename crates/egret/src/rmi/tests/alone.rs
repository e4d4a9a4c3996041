//! A node whose only worker waits for a call of its own, and that can start no other.

use std::time::Duration;

use egret_net::fabric::sim::{Sim, check};
use egret_net::rt::{self, Deadline};
use egret_node::node::{Config, Node, NodeHandle};
use egret_node::registry::{Registry, RegistryOptions};

use crate::rmi::fault::{Fault, caught};
use crate::rmi::{CallError, ObjectRef, Remoting};

#[crate::remote]
trait Slow {
    /// Overruns, and then calls another object if there is one.
    fn work(&self, other: Option<ObjectRef>) -> u64;
    fn rest(&self) -> u64;
}

struct It(NodeHandle);

#[crate::remote]
impl Slow for It {
    fn work(&self, other: Option<ObjectRef>) -> u64 {
        rt::sleep(Duration::from_micros(300));
        let other = other.map(|other| -> SlowStub { self.0.stub(&other) });
        other.map_or(0, |other| other.rest().unwrap())
    }
    fn rest(&self) -> u64 {
        rt::sleep(REST);
        1
    }
}

fn run(sim: &Sim) {
    sim.background();
    let registry = Registry::over(sim.nic("registry"), RegistryOptions::new("trial", 2)).unwrap();
    let nodes = ["n0", "n1"].map(|name| {
        let config = Config::new("trial").registry("registry").over(sim.nic(name));
        Node::join(config.deadline(DEADLINE)).unwrap()
    });
    nodes[0].set_workers(1);
    let exported = nodes.each_ref().map(|node| node.export(It(node.handle())).unwrap());
    let stub: SlowStub = nodes[1].stub(exported[0].object());
    let stub = stub.with_deadline(DEADLINE);
    // It becomes known that they overrun, and belong on workers.
    (0..4).for_each(|_| assert_eq!(stub.work(None), Ok(0)));
    let started = rt::now();
    let waits = stub.begin().work(Some(exported[1].object().clone()));
    let behind: Vec<_> = (0..5).map(|_| stub.begin().work(None)).collect();
    for call in behind {
        assert!(matches!(call.wait(), Err(CallError::Busy { .. })));
    }
    assert!(rt::now() - started < REST, "who waits is told at once");
    assert_eq!(waits.wait(), Ok(1));
    assert_eq!(stub.work(None), Ok(0), "the worker is back");
    drop((exported, nodes, registry));
}

#[test]
fn what_waits_for_workers_is_answered_when_none_can_be_started() {
    assert!(!caught(Fault::OneWorker, || check(0..20, run)));
}

const DEADLINE: Deadline = Deadline::In(Duration::from_secs(20));
const REST: Duration = Duration::from_secs(5);
