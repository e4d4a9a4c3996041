//! Rounds in which processes are killed that send to a port and receive from one. `EGRET_ROUNDS` says how often,
//! `EGRET_SEED` from where.

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use egret_net::rt::{self, SplitMix64};
use egret_node::node::{Config, Node, NodeId};
use egret_node::port::{PortError, PortEvent, PortType, ReceivePort, SenderId};
use egret_node::registry::Registry;

use crate::{LONG, Nodes, SECRET};

/// What the child is to be.
const PART: &str = "EGRET_TEST_PORTS_PART";
/// The number of the message, and anything.
type Value = (u64, Vec<u64>);

fn sink_type() -> PortType {
    PortType::many_to_one().window(16)
}

fn news_type() -> PortType {
    PortType::one_to_many()
}

/// Not a test by itself: the other process, which is killed.
#[test]
fn other() {
    let Ok(fabric) = env::var(PART) else { return };
    let node = Node::join(Config::from_env().unwrap().fabrics(&fabric)).unwrap();
    // By upcalls: two who send to each other and receive in between would wait for each other.
    let _news = node
        .receive_port_with("news", &news_type(), |(number, body): Value, _| {
            assert!(body.iter().all(|word| *word == number), "news that are damaged");
        })
        .unwrap();
    println!("\nnode {}", node.id());
    let mut port = node.send_port::<Value>(&sink_type()).unwrap();
    port.connect("sink", LONG).unwrap();
    for number in 0.. {
        let len = if number % 7 == 3 { 30_000 } else { number % 50 };
        // Whoever started this process ends it.
        if port.send(&(number, vec![number; usize::try_from(len).unwrap()])).is_err() {
            return;
        }
    }
}

/// A process that does not outlive its test.
struct Other {
    child: Child,
    node: NodeId,
}

impl Other {
    fn start(registry: &Registry, fabric: &str) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "rounds::other", "--nocapture"]);
        command.env(PART, fabric).env("EGRET_POOL", "ports").env("EGRET_SECRET", SECRET);
        command.env("EGRET_REGISTRY", registry.address()).env("RUST_BACKTRACE", "0");
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.map(Result::unwrap).find_map(|line| {
            let (rank, incarnation) = line.strip_prefix("node ")?.split_once('#')?;
            Some(NodeId { rank: rank.parse().ok()?, incarnation: incarnation.parse().ok()? })
        });
        Self { child, node: said.expect("it says which node it is") }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// What was received of each sender.
#[derive(Default)]
struct Heard(BTreeMap<SenderId, u64>);

impl Heard {
    /// Receives what comes within this time.
    fn receive(&mut self, sink: &mut ReceivePort<Value>, time: Duration) {
        let until = rt::now() + time;
        while rt::now() < until {
            match sink.receive(Duration::from_millis(2)) {
                Ok(got) => {
                    let next = self.0.entry(got.origin).or_default();
                    assert_eq!(got.0, *next, "a message of {} was lost or came twice", got.origin);
                    assert!(got.1.iter().all(|word| *word == got.0), "a damaged message");
                    *next += 1;
                }
                Err(PortError::TimedOut { .. } | PortError::Aborted { .. }) => {}
                Err(why) => panic!("{why}"),
            }
        }
    }
}

fn round(nodes: &Nodes, sink: &mut ReceivePort<Value>, fabric: &str, random: &mut SplitMix64) {
    let node = &nodes.all[0];
    let others: Vec<_> = (0..2).map(|_| Other::start(&nodes.registry, fabric)).collect();
    let mut port = node.send_port::<Value>(&news_type()).unwrap();
    port.set_deadline(LONG);
    for other in &others {
        port.connect_to(other.node, "news", LONG).unwrap();
    }
    let mut heard = Heard::default();
    let mut news = 0;
    let mut killed = Vec::new();
    for other in others {
        for _ in 0..1 + random.below(4) {
            heard.receive(sink, Duration::from_micros(random.below(20_000) as u64));
            news += 1;
            let len = if random.below(3) == 0 { 10_000 } else { random.below(50) };
            match port.send(&(news, vec![news; len])) {
                Ok(()) => {}
                Err(PortError::Lost { receivers }) => {
                    let all = receivers.iter().all(|(port, _)| killed.contains(&port.node));
                    assert!(all, "a connection to a node that lives was lost: {receivers:?}");
                }
                Err(why) => panic!("{why}"),
            }
        }
        killed.push(other.node);
        drop(other);
    }
    // Both are gone, and each is told of once.
    let mut lost = BTreeMap::new();
    let until = LONG.until().unwrap();
    while lost.len() < 2 || !sink.senders().is_empty() {
        heard.receive(sink, Duration::from_millis(5));
        while let Some(event) = sink.poll_event() {
            if let PortEvent::Lost { sender, why } = event {
                assert_eq!(lost.insert(sender.node, why), None, "told twice");
            }
        }
        assert!(rt::now() < until, "only {lost:?} are known to be gone");
    }
    assert!(lost.keys().all(|node| killed.contains(node)), "{lost:?}");
    loop {
        match port.send(&(0, Vec::new())) {
            Err(PortError::NotConnected { .. }) => break,
            Ok(()) | Err(PortError::Lost { .. }) => rt::sleep(Duration::from_millis(1)),
            Err(why) => panic!("{why}"),
        }
        assert!(rt::now() < until, "the port is connected to nodes that are gone");
    }
    assert_eq!(port.lost().len(), 2);
}

#[test]
fn killed_processes_are_told_of_once_and_what_they_sent_is_in_order() {
    let said = |name| env::var(name).ok().and_then(|value| value.parse().ok());
    let rounds = said("EGRET_ROUNDS").unwrap_or(6);
    let mut random = SplitMix64(said("EGRET_SEED").unwrap_or(1));
    for fabric in ["shm", "tcp"] {
        let nodes = Nodes::over(fabric, 1);
        let mut sink = nodes.all[0].receive_port::<Value>("sink", &sink_type()).unwrap();
        for _ in 0..rounds {
            round(&nodes, &mut sink, fabric, &mut random);
        }
    }
}
