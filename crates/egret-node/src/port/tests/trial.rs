//! Trials over seeds: every node of a simulated cluster sends to the ports of all, in random order and of random
//! length, some nodes crash, and a model of each connection checks what is received.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use egret_net::fabric::sim::{seeds, work};
use egret_net::rt::{self, Deadline};
use egret_net::sync::Mutex;

use crate::cluster::Cluster;
use crate::node::{Node, NodeId};
use crate::port::{PortError, PortEvent, PortType, SenderId};

const LONG: Deadline = Deadline::In(Duration::from_secs(600));

/// The number of the message, whether it is the last, and anything.
type Value = (u64, bool, Vec<u64>);

/// What was received of one connection.
#[derive(Debug, Default)]
struct Seen {
    next: u64,
    is_over: bool,
}

/// What a port has received.
#[derive(Debug, Default)]
struct Model(BTreeMap<SenderId, Seen>);

impl Model {
    fn receive(&mut self, from: SenderId, (number, is_last, body): &Value) {
        let seen = self.0.entry(from).or_default();
        assert!(!seen.is_over, "a message behind the last of {from}");
        assert_eq!(
            *number, seen.next,
            "a message of {from} was lost, came twice, or was overtaken"
        );
        assert!(body.iter().all(|word| word == number), "a message of {from} arrived damaged");
        seen.next += 1;
        seen.is_over = *is_last;
    }

    /// A sender has disconnected: all that it sent was received.
    fn left(&mut self, from: SenderId) {
        let seen = self.0.entry(from).or_default();
        assert!(seen.is_over, "{from} has left, and its last message has not come");
    }
}

fn one_of(count: u64) -> u64 {
    rt::random() % count
}

fn kind() -> PortType {
    PortType::many_to_many().window(8)
}

/// One node: receives by upcalls or by asking, and sends to all.
fn program(node: &Node, by_upcalls: bool, messages: u64) {
    let model = Arc::new(Mutex::new(Model::default()));
    let nodes = u64::from(node.size());
    let (mut upcalls, mut sink) = (None, None);
    if by_upcalls {
        let seen = Arc::clone(&model);
        let port = node.receive_port_with("trial", &kind(), move |value: Value, from| {
            if one_of(8) == 0 {
                work(Duration::from_micros(one_of(50)));
            }
            seen.lock().receive(from.origin(), &value);
        });
        upcalls = Some(port.unwrap());
    } else {
        sink = Some(node.receive_port::<Value>("trial", &kind()).unwrap());
    }
    let handle = node.handle();
    let sender = rt::spawn("sends", move || send(&handle, messages)).unwrap();
    // Every node connects once, but for those that crash before.
    let mut ended = 0;
    let fates = |node: &Node| -> u64 {
        let died = |rank| node.id_of(rank).is_some_and(|other| node.fate(other).is_some());
        (0..node.size()).filter(|rank| died(*rank)).count() as u64
    };
    let mut lost = 0;
    while ended < nodes {
        if let Some(sink) = &mut sink {
            match sink.receive(Duration::from_millis(50)) {
                Ok(got) => model.lock().receive(got.origin, &got.value),
                Err(PortError::TimedOut { .. } | PortError::Aborted { .. }) => {}
                Err(why) => panic!("{why}"),
            }
        }
        let event = match (&sink, &upcalls) {
            (Some(sink), _) => sink.poll_event(),
            (None, Some(upcalls)) => upcalls.wait_event(Duration::from_millis(50)).ok(),
            (None, None) => None,
        };
        match event {
            Some(PortEvent::Disconnected { sender }) => {
                model.lock().left(sender);
                ended += 1;
            }
            Some(PortEvent::Lost { .. }) => {
                lost += 1;
                ended += 1;
            }
            _ => {}
        }
        // Who has died without being connected will not be.
        if ended + fates(node).saturating_sub(lost) >= nodes {
            break;
        }
    }
    sender.join().unwrap();
}

/// Connects to the ports of all nodes, and sends to all of them or to one after the other.
fn send(node: &crate::node::NodeHandle, messages: u64) {
    let mut port = node.send_port::<Value>(&kind()).unwrap();
    port.set_deadline(LONG);
    let all: Vec<NodeId> = (0..node.size()).filter_map(|rank| node.id_of(rank)).collect();
    for other in &all {
        // It may have crashed.
        match port.connect_to(*other, "trial", LONG) {
            Ok(()) => {}
            Err(_) if node.wait_fate(*other, LONG).is_some() => {}
            Err(why) => panic!("{why}"),
        }
    }
    for number in 0..messages {
        let is_last = number + 1 == messages;
        let len = match one_of(6) {
            0 => 0,
            1 => 400 + one_of(200),
            2 => one_of(20_000),
            _ => one_of(50),
        };
        let body = vec![number; usize::try_from(len).unwrap()];
        if one_of(10) == 0 {
            let mut message = port.message();
            _ = message.write(&(u64::MAX, false, &body));
            if one_of(2) == 0 {
                _ = message.flush();
            }
            message.abort();
        }
        let sent = match one_of(3) {
            0 => {
                let mut message = port.message();
                let written = message.write(&number).and_then(|()| message.write(&is_last));
                written
                    .and_then(|()| message.write(&body))
                    .and_then(|()| message.finish().map(drop))
            }
            _ => port.send(&(number, is_last, body)),
        };
        match sent {
            Ok(()) | Err(PortError::Lost { .. }) => {}
            Err(PortError::NotConnected { .. }) => return,
            Err(why) => panic!("{why}"),
        }
        if one_of(4) == 0 {
            work(Duration::from_micros(one_of(100)));
        }
    }
}

/// A cluster in which all nodes send to all.
pub(super) fn run(seed: u64) {
    let nodes = 2 + u32::try_from(seed % 3).unwrap();
    let mut cluster = Cluster::new(seed, nodes);
    // Of every second cluster a node crashes in the midst of it.
    if seed % 2 == 1 {
        let at = Duration::from_micros(1_000 + seed * 7_919 % 30_000);
        cluster = cluster.crash(nodes - 1, Duration::from_millis(20) + at);
    }
    cluster.run(move |node| {
        node.wait_all(LONG).unwrap();
        program(&node, u64::from(node.rank()) % 2 == seed / 2 % 2, 30);
    });
}

#[test]
fn every_message_is_received_once_in_its_order_while_nodes_crash() {
    for seed in seeds(40) {
        run(seed);
    }
}
