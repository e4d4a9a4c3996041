//! A simulated world with nodes in it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt;
use egret_net::vi::Nic;
use egret_node::node::{Config, Node};
use egret_node::registry::{Registry, RegistryOptions};
use egret_stream::graph::{Graph, Object, Ref};

use crate::graph::{Graphs, GraphsOptions, RankGraphError, Source};
use crate::rmi::__private::run_calls;

/// A list: who sends it to whom, and which of those it is, in the first.
#[derive(Debug, Clone, Copy, Object)]
#[repr(C)]
pub(super) struct Letter {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) number: u64,
    pub(super) next: Option<Ref<Self>>,
}

/// Pages of any number.
pub(super) fn letter(from: u32, to: u32, number: u64, pages: u64) -> Graph<Letter> {
    let mut graph = Graph::new(Letter { from, to, number, next: None });
    for _ in 0..pages {
        let next = graph.root().next;
        graph.root_mut().next = Some(graph.insert(Letter { from, to, number, next }));
    }
    graph
}

pub(super) struct Town {
    registry: Registry,
    nic: Nic,
    pub(super) nodes: Vec<Node>,
}

impl Town {
    pub(super) fn new(sim: &Sim, size: u32) -> Self {
        sim.links().latency(Duration::from_micros(rt::random() % 3_000));
        let nic = sim.nic("registry");
        let registry = Registry::over(nic.clone(), RegistryOptions::new("graphs", size)).unwrap();
        let mut town = Self { registry, nic, nodes: Vec::new() };
        for at in 0..size {
            let config = Config::new("graphs").registry("registry");
            let config = config.over(sim.nic(&format!("n{at}")));
            let joined = town.run(Node::begin_join(config).unwrap());
            town.nodes.push(joined.unwrap());
        }
        town
    }

    pub(super) fn graphs(&self, rank: u32) -> Graphs<Letter> {
        let options = GraphsOptions::default().bytes_max(BYTES_MAX);
        self.run(Box::pin(Graphs::begin_join(&self.nodes[rank as usize], options))).unwrap()
    }

    /// Lets the world go on until a future is over.
    pub(super) fn run<F: Future + Unpin>(&self, mut future: F) -> F::Output {
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

    /// Lets time pass.
    pub(super) fn pass(&self, time: Duration) {
        let until = rt::now() + time;
        while rt::now() < until {
            self.step();
        }
    }

    /// The next letter, which is this one of its sender's.
    pub(super) fn receive(
        &self,
        graphs: &mut Graphs<Letter>,
        from: impl Into<Source>,
    ) -> Result<Letter, RankGraphError> {
        let from = from.into();
        let (graph, rank) = self.run(graphs.post_recv_graph(from))?;
        let letter = *graph.root();
        assert_eq!(letter.from, rank, "it is said to be another's");
        assert!(from.is(rank), "{from} was asked for, and rank {rank} answers");
        assert!(graph.iter::<Letter>().all(|(_, page)| page.number == letter.number));
        Ok(letter)
    }

    fn step(&self) {
        let seen = self.nic.poll();
        self.registry.poll();
        let mut next = vec![rt::now() + Duration::from_millis(5)];
        for node in &self.nodes {
            node.poll();
            run_calls(node);
            next.extend(node.next_event());
        }
        self.nic.wait(seen, next.into_iter().min());
    }
}

/// Most bytes of a letter.
pub(super) const BYTES_MAX: u64 = 200_000;
