//! Methods that take long use the cores of a node, in a simulated world: of four cores each.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use egret_net::fabric::sim::{Sim, check, work};
use egret_net::rt::{self, Deadline};
use egret_node::node::{Config, Node};
use egret_node::registry::{Registry, RegistryOptions};

use crate::rmi::Remoting;
use crate::rmi::fault::{Fault, caught};

#[crate::remote]
trait Computing {
    fn compute(&self, micros: u64) -> String;
    fn short(&self) -> String;
}

#[derive(Default)]
struct Count {
    inside: AtomicU64,
    most: AtomicU64,
    started: Mutex<Vec<String>>,
}

#[crate::remote]
impl Computing for Arc<Count> {
    fn compute(&self, micros: u64) -> String {
        self.most.fetch_max(self.inside.fetch_add(1, Relaxed) + 1, Relaxed);
        work(Duration::from_micros(micros));
        self.inside.fetch_sub(1, Relaxed);
        self.short()
    }
    fn short(&self) -> String {
        let name = rt::current().name().unwrap_or_default().to_owned();
        self.started.lock().unwrap().push(name.clone());
        name
    }
}

/// Runs `body` with a stub of each of two nodes, for an object of a third.
fn with_stubs(sim: &Sim, body: impl FnOnce(&Count, [ComputingStub; 2])) {
    sim.background();
    let registry = Registry::over(sim.nic("registry"), RegistryOptions::new("trial", 3)).unwrap();
    let nodes = ["n0", "n1", "n2"].map(|name| {
        let config = Config::new("trial").registry("registry").over(sim.nic(name));
        Node::join(config.deadline(DEADLINE)).unwrap()
    });
    let count = Arc::new(Count::default());
    let exported = nodes[0].export(Arc::clone(&count)).unwrap();
    body(&count, [1, 2].map(|at: usize| nodes[at].stub(exported.object())));
    drop((exported, nodes, registry));
}

/// What is called at once runs at once, when it is known how long that takes.
fn side_by_side(sim: &Sim) {
    with_stubs(sim, |count, [stub, _]| {
        // One after the other there is nothing to do meanwhile.
        for _ in 0..20 {
            assert_eq!(stub.compute(50).unwrap(), "egret links");
        }
        assert_eq!(count.most.load(Relaxed), 1);
        for _ in 0..10 {
            let calls: Vec<_> = (0..8).map(|_| stub.begin().compute(50)).collect();
            calls.into_iter().for_each(|call| drop(call.wait().unwrap()));
        }
        assert_eq!(count.most.load(Relaxed), 4, "as many as there are cores");
    });
}

/// Callers of which each waits for its answer: none waits when a method starts.
fn in_turns(sim: &Sim) {
    with_stubs(sim, |count, stubs| {
        let call = |stub: ComputingStub| {
            let calls = move || (0..50).for_each(|_| drop(stub.compute(50).unwrap()));
            rt::spawn("caller", calls).unwrap()
        };
        stubs.map(call).into_iter().for_each(|caller| caller.join().unwrap());
        assert_eq!(count.most.load(Relaxed), 2, "each of the callers has a core");
    });
}

#[test]
fn methods_that_take_long_run_side_by_side() {
    check(0..20, side_by_side);
    assert!(caught(Fault::NeverPassed, || check(0..20, side_by_side)));
}

#[test]
fn methods_of_callers_in_turns_run_side_by_side() {
    check(0..20, in_turns);
    assert!(caught(Fault::NeverPassed, || check(0..20, in_turns)));
}

#[test]
fn short_methods_never_leave_the_thread_that_receives_them() {
    check(0..20, |sim| {
        with_stubs(sim, |count, [stub, other]| {
            for _ in 0..20 {
                let calls: Vec<_> =
                    (0..32).flat_map(|_| [stub.begin().short(), other.begin().short()]).collect();
                calls.into_iter().for_each(|call| drop(call.wait().unwrap()));
            }
            let started = count.started.lock().unwrap();
            assert!(started.len() == 20 * 64 && started.iter().all(|by| by == "egret links"));
        });
    });
}

const DEADLINE: Deadline = Deadline::In(Duration::from_secs(20));
