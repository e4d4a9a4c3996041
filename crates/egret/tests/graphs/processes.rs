//! Another process: this test, started again.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use egret::graph::{ANY, Graphs, RankGraphError};
use egret::node::registry::{Registry, RegistryOptions};
use egret::node::{Config, Node};

use crate::world::{FABRICS, LONG, Ring, assert_ring, ring};

/// What the child is told: the registry's address and the fabric.
const PART: &str = "EGRET_TEST_GRAPHS_PART";

/// A child that does not outlive its test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// The process that the other test starts: sends back what it gets, with one object more, and
/// says so.
#[test]
fn other() {
    let Ok(part) = std::env::var(PART) else { return };
    let (registry, fabric) = part.split_once('|').unwrap();
    let config = Config::new("graphs").registry(registry).secret(SECRET.into()).fabrics(fabric);
    let node = Node::join(config).unwrap();
    let mut graphs = Graphs::<Ring>::join(&node).unwrap();
    while let Ok((mut graph, from)) = graphs.recv_graph(ANY, LONG) {
        let (root, number) = (graph.root_ref(), graph.len::<Ring>() as u64);
        let more = graph.insert(Ring { number, next: Some(root), load: None });
        // The ring counts from the root on, and the new one is its last.
        let last = graph.iter::<Ring>().find(|(at, ring)| ring.next == Some(root) && *at != more);
        let last = last.map(|(at, _)| at).unwrap();
        graph[last].next = Some(more);
        graphs.set_current(graph);
        graphs.send_graph(from, LONG).unwrap();
    }
}

#[test]
fn graphs_go_to_a_process_and_back_until_it_is_killed() {
    for fabric in FABRICS {
        let options = RegistryOptions::new("graphs", 2).secret(SECRET.into());
        let registry = Registry::open(options).unwrap();
        let config = registry.config();
        let node = Node::join(config.fabrics(fabric)).unwrap();
        let mut graphs = Graphs::<Ring>::join(&node).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::other", "--nocapture"]);
        command.env(PART, format!("{}|{fabric}", registry.address()));
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut peer = Peer(command.spawn().unwrap());
        let out = BufReader::new(peer.0.stdout.take().unwrap());
        assert!(out.lines().next().is_some(), "it has begun");

        for count in [1, 100, 50_000] {
            graphs.set_current(ring(count));
            graphs.send_graph(1, LONG).unwrap();
            let (graph, from) = graphs.recv_graph(ANY, LONG).unwrap();
            assert_eq!(from, 1);
            assert_ring(&graph, count + 1);
        }
        peer.0.kill().unwrap();
        let why = graphs.recv_graph(1, LONG).unwrap_err();
        assert!(matches!(why, RankGraphError::Gone { rank: 1, .. }), "{why}");
        graphs.set_current(ring(1));
        let why = graphs.send_graph(1, LONG).unwrap_err();
        assert!(matches!(why, RankGraphError::Gone { rank: 1, .. }), "{why}");
    }
}

/// A secret that nobody could guess, had it not been written here.
const SECRET: &str = "egret1.6875736868757368687573686875736868757368687573686875736868757368";
