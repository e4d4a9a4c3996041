//! Graphs between nodes of a simulated world.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret::graphs::{ANY, GraphError, Graphs, GraphsOptions};
use egret::net::fabric::sim::{self, Sim};
use egret::net::rt;
use egret::net::vi::Nic;
use egret::node::node::{Config, Node};
use egret::node::registry::{Registry, RegistryOptions};
use egret::rmi::Remoting;

use crate::world::{Ring, assert_ring, ring};

struct Town {
    registry: Registry,
    nic: Nic,
    nodes: Vec<Node>,
}

impl Town {
    fn new(sim: &Sim) -> Self {
        sim.links().latency(Duration::from_micros(rt::random() % 3_000));
        let nic = sim.nic("registry");
        let registry = Registry::over(nic.clone(), RegistryOptions::new("graphs", 3)).unwrap();
        let mut town = Self { registry, nic, nodes: Vec::new() };
        for at in 0..3 {
            let config =
                Config::new("graphs").registry("registry").over(sim.nic(&format!("n{at}")));
            let joined = town.run(Node::begin_join(config).unwrap());
            town.nodes.push(joined.unwrap());
        }
        town
    }

    fn graphs(&self) -> Vec<Graphs<Ring>> {
        let join = |node: &Node| {
            self.run(Box::pin(Graphs::begin_join(node, GraphsOptions::default()))).unwrap()
        };
        self.nodes.iter().map(join).collect()
    }

    /// Lets the world go on until a future is over.
    fn run<F: Future + Unpin>(&self, mut future: F) -> F::Output {
        let until = rt::now() + Duration::from_secs(120);
        loop {
            let polled = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(came) = polled {
                return came;
            }
            assert!(rt::now() < until, "it does not come to an end");
            self.step();
        }
    }

    fn step(&self) {
        let seen = self.nic.poll();
        self.registry.poll();
        let mut next = vec![rt::now() + Duration::from_millis(5)];
        for node in &self.nodes {
            node.poll();
            node.run_calls();
            next.extend(node.next_event());
        }
        self.nic.wait(seen, next.into_iter().min());
    }
}

#[test]
fn graphs_arrive_in_order_whatever_the_seed() {
    sim::check(0..20, |sim| {
        let town = Town::new(sim);
        let mut graphs = town.graphs();
        let mut sent = Vec::new();
        for number in 0..6_u64 {
            for rank in [1, 2] {
                let mut graph = ring(1 + rt::random() % 3_000);
                graph.root_mut().number = number;
                graphs[rank].set_current(graph);
                sent.push(graphs[rank].post_send_graph(0));
            }
        }
        let mut next = [0; 3];
        for _ in 0..12 {
            let (graph, from) = town.run(graphs[0].post_recv_graph(ANY)).unwrap();
            assert_eq!(graph.root().number, next[from as usize]);
            next[from as usize] += 1;
        }
        sent.into_iter().for_each(|sent| town.run(sent).unwrap());
        graphs[0].set_current(ring(4));
        town.run(graphs[0].post_send_graph(0)).unwrap();
        assert_ring(&town.run(graphs[0].post_recv_graph(0)).unwrap().0, 4);
    });
}

#[test]
fn who_waits_for_a_node_that_dies_is_told_whatever_the_seed() {
    sim::check(0..20, |sim| {
        let town = Town::new(sim);
        let mut graphs = town.graphs();
        graphs[1].set_current(ring(50));
        town.run(graphs[1].post_send_graph(0)).unwrap();
        let sent = rt::random().is_multiple_of(2);
        if sent {
            assert_ring(&town.run(graphs[0].post_recv_graph(1)).unwrap().0, 50);
        }
        sim.crash("n1");
        let mut received = 0;
        let why = loop {
            match town.run(graphs[0].post_recv_graph(1)) {
                Ok(_) => received += 1,
                Err(why) => break why,
            }
        };
        assert!(matches!(why, GraphError::Gone { rank: 1, .. }), "{why}");
        assert!(received <= u32::from(!sent));
        graphs[0].set_current(ring(2));
        let why = town.run(graphs[0].post_send_graph(1)).unwrap_err();
        assert!(matches!(why, GraphError::Gone { rank: 1, .. }), "{why}");
        // The others go on.
        graphs[2].set_current(ring(3));
        town.run(graphs[2].post_send_graph(0)).unwrap();
        assert_ring(&town.run(graphs[0].post_recv_graph(ANY)).unwrap().0, 3);
    });
}
