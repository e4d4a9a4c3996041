//! Calls that come to a thread which waits for its own are run by the thread in the background, and no
//! worker is started for them.

use std::time::Duration;

use egret_net::fabric::sim::{Sim, check};
use egret_net::rt::{self, Deadline};
use egret_node::node::{Config, Node};
use egret_node::registry::{Registry, RegistryOptions};

use crate::rmi::Remoting;
use crate::rmi::fault::{Fault, caught};

#[crate::remote]
trait Named {
    /// The name of the thread.
    fn name(&self) -> String;
    fn lasts(&self, micros: u64) -> String;
    /// The same, alone.
    fn name_alone(&mut self) -> String;
}

struct It;

#[crate::remote]
impl Named for It {
    fn name(&self) -> String {
        rt::current().name().unwrap_or_default().to_owned()
    }
    fn lasts(&self, micros: u64) -> String {
        rt::sleep(Duration::from_micros(micros));
        self.name()
    }
    fn name_alone(&mut self) -> String {
        self.name()
    }
}

fn run(sim: &Sim) {
    sim.background();
    let registry = Registry::over(sim.nic("registry"), RegistryOptions::new("trial", 3)).unwrap();
    let nodes = ["n0", "n1", "n2"].map(|name| {
        let config = Config::new("trial").registry("registry").over(sim.nic(name));
        Node::join(config.deadline(DEADLINE)).unwrap()
    });
    let exported = [0, 1].map(|at: usize| nodes[at].export(It).unwrap());
    let (stub, node) = (nodes[2].stub::<NamedStub>(exported[0].object()), nodes[0].handle());
    let there = exported[1].object().clone();
    let waits = rt::spawn("waits", move || {
        let stub: NamedStub = node.stub(&there);
        stub.lasts(100_000).unwrap()
    });
    rt::sleep(Duration::from_millis(1));
    for turn in 0..100 {
        assert_eq!(stub.name().as_deref(), Ok("egret links"), "{turn}");
        assert_eq!(stub.name_alone().as_deref(), Ok("egret links"), "{turn}");
        if turn == 50 {
            // While that lasts others are not idle, and then another thread has taken over.
            let lasts = stub.begin().lasts(2_000);
            assert_ne!(stub.name().as_deref(), Ok("waits"));
            assert_ne!(lasts.wait().as_deref(), Ok("waits"));
        }
    }
    assert_eq!(waits.unwrap().join().unwrap(), "egret links");
    drop((exported, nodes, registry));
}

#[test]
fn calls_of_strangers_start_no_thread_while_one_is_idle() {
    check(0..50, run);
    assert!(caught(Fault::NeverLent, || check(0..50, run)));
}

const DEADLINE: Deadline = Deadline::In(Duration::from_secs(20));
