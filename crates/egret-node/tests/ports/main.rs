//! Send ports and receive ports, over shared memory, over TCP and inside of one node.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod connecting;
mod ending;
mod messages;
mod rounds;
mod upcalls;

use std::sync::{Arc, mpsc};
use std::time::Duration;

use egret_net::rt::{self, Deadline};
use egret_node::node::Node;
use egret_node::port::{PortType, ReceivePort, SendPort};
use egret_node::registry::{Registry, RegistryOptions};
use egret_stream::{FromWire, Wire};

/// Turns a hang into a failure; nothing is expected to take that long.
pub(crate) const LONG: Deadline = Deadline::In(Duration::from_secs(60));
/// What does not come within this time is not expected at all.
pub(crate) const SHORT: Deadline = Deadline::In(Duration::from_millis(100));

/// Nodes of a pool of their own.
pub(crate) struct Nodes {
    pub(crate) all: Vec<Arc<Node>>,
    pub(crate) registry: Registry,
}

impl Nodes {
    pub(crate) fn over(fabrics: &str, count: u32) -> Self {
        let registry =
            Registry::open(RegistryOptions::open("ports").secret(SECRET.into())).unwrap();
        let join = || Arc::new(Node::join(registry.config().fabrics(fabrics)).unwrap());
        let all: Vec<_> = (0..count).map(|_| join()).collect();
        for node in &all {
            let mut events = node.events();
            while node.size() < count {
                events.wait_next(LONG).unwrap();
            }
        }
        Self { all, registry }
    }
}

/// Runs a test with a sender and a receiver: on two nodes over each fabric, and on one node.
pub(crate) fn everywhere(test: impl Fn(&Node, &Node)) {
    for fabric in ["shm", "tcp"] {
        let nodes = Nodes::over(fabric, 2);
        test(&nodes.all[0], &nodes.all[1]);
    }
    let nodes = Nodes::over("shm", 1);
    test(&nodes.all[0], &nodes.all[0]);
}

/// A sender and a receiver that are connected.
pub(crate) fn connected<T: for<'a> FromWire<'a> + Wire>(
    (from, to): (&Node, &Node),
    port_type: &PortType,
) -> (SendPort<T>, ReceivePort<T>) {
    let sink = to.receive_port("sink", port_type).unwrap();
    let mut port = from.send_port(port_type).unwrap();
    port.connect("sink", LONG).unwrap();
    (port, sink)
}

/// Asks for messages, of which none comes, until all senders have left.
pub(crate) fn left<T: for<'a> FromWire<'a>>(sink: &mut ReceivePort<T>) {
    let until = LONG.until().unwrap();
    while !sink.senders().is_empty() {
        assert!(sink.receive(Duration::from_millis(10)).is_err(), "another message");
        assert!(rt::now() < until, "a sender has not left");
    }
}

/// A thread of the test.
pub(crate) fn spawn<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> rt::JoinHandle<T> {
    rt::spawn("other", body).unwrap()
}

/// The next thing that another thread tells.
pub(crate) fn next<T>(told: &mpsc::Receiver<T>) -> T {
    let until = LONG.until().unwrap();
    loop {
        match told.try_recv() {
            Ok(next) => return next,
            Err(mpsc::TryRecvError::Disconnected) => panic!("nobody tells anything any more"),
            Err(mpsc::TryRecvError::Empty) => {
                assert!(rt::now() < until, "nothing was told in time");
            }
        }
        rt::sleep(Duration::from_micros(100));
    }
}

/// A secret that nobody could guess, had it not been written here.
pub(crate) const SECRET: &str =
    "egret1.6875736868757368687573686875736868757368687573686875736868757368";
