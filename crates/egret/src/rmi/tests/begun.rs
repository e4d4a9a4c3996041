//! Who waits for calls that wait to be sent is woken, whoever of them goes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use egret_net::fabric::sim::{Sim, check};
use egret_net::rt;
use egret_node::node::{Config, Node};
use egret_node::registry::{Registry, RegistryOptions};

use crate::rmi::fault::{Fault, caught};
use crate::rmi::{Pending, Remoting};

#[crate::remote]
trait Sleeper {
    fn sleep(&mut self, millis: u64) -> u64;
}

struct Sleeps;

#[crate::remote]
impl Sleeper for Sleeps {
    fn sleep(&mut self, millis: u64) -> u64 {
        rt::sleep(Duration::from_millis(millis));
        millis
    }
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Flag {
    fn poll(self: &Arc<Self>, call: &mut Pending<u64>) -> Poll<()> {
        self.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(self));
        Pin::new(call).poll(&mut Context::from_waker(&waker)).map(|came| _ = came.unwrap())
    }

    /// Waits until it is woken, for no longer than calls take.
    fn wait(&self, millis: u32) {
        for _ in 0..millis {
            if self.0.load(Ordering::SeqCst) {
                return;
            }
            rt::sleep(Duration::from_millis(1));
        }
        panic!("nobody wakes who waits for its call");
    }
}

/// Two nodes of which each has one call under way at the other.
fn two(sim: &Sim) -> (Registry, [Node; 2]) {
    sim.background();
    let registry = Registry::over(sim.nic("registry"), RegistryOptions::new("trial", 2)).unwrap();
    let join = |at| {
        let config = Config::new("trial").registry("registry").over(sim.nic(&format!("n{at}")));
        Node::join(config.in_flight(1)).unwrap()
    };
    (registry, [join(0), join(1)])
}

/// Three calls where one may be under way: the second is told that there is room, and goes, or stays and does
/// not come.
fn run(sim: &Sim, goes: bool) {
    let (registry, nodes) = two(sim);
    let exported = nodes[0].export(Sleeps).unwrap();
    let stub: SleeperStub = nodes[1].stub(exported.object());
    stub.sleep(0).unwrap();
    let begin = |millis| stub.begin().sleep(millis);
    let (first, mut second, mut idle, mut third) = (begin(10), begin(20), begin(0), begin(30));
    let flags: [Arc<Flag>; 3] = Default::default();
    assert!(flags[0].poll(&mut second).is_pending());
    // Another that does not come either, once it was told.
    assert!(goes || flags[2].poll(&mut idle).is_pending());
    assert!(flags[1].poll(&mut third).is_pending());
    flags[0].wait(1_000);
    drop(first);
    let stays = (!goes).then_some(second);
    flags[1].wait(if goes { 10 } else { 1_000 });
    while flags[1].poll(&mut third).is_pending() {
        flags[1].wait(1_000);
    }
    drop((idle, stays, exported, nodes, registry));
}

#[test]
fn one_that_goes_lets_the_next_send() {
    check(0..20, |sim| run(sim, true));
    assert!(caught(Fault::NextUntold, || check(0..20, |sim| run(sim, true))));
}

#[test]
fn one_that_does_not_come_lets_others_send() {
    check(0..20, |sim| run(sim, false));
    assert!(caught(Fault::OthersUntold, || check(0..20, |sim| run(sim, false))));
}
