//! A registry has room for as many nodes as its pool has.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::{self, Instant};
use egret_net::vi::Nic;

use super::super::state::RegistryState;
use super::super::{Registry, RegistryOptions, budget};
use super::machine::joining;
use crate::LinksOptions;
use crate::flow::FlowTerms;
use crate::node::Node;
use crate::pool::wire::{RegistryAnswer, RegistryQuestion, SIZE_MAX};
use crate::pool::{JoinError, RegistryRefusal};
use crate::settings::config::Config;

/// More than share 16 MiB by 16 KiB for each of two mappings.
const SIZE: u32 = 620;

#[test]
fn every_node_of_a_large_pool_is_served() {
    let sim = Sim::new(1);
    let nic = sim.nic("registry");
    let registry = Registry::over(nic.clone(), RegistryOptions::new("many", SIZE)).unwrap();
    let mut nodes: Vec<Node> = Vec::new();
    for at in 0..SIZE {
        let joined = join(&sim, &registry, at);
        nodes.push(joined.unwrap_or_else(|why| panic!("node {at} of {SIZE}: {why}")));
    }
    let here = registry.server.inner.lock().state.kept.pool.members().len();
    assert_eq!(here, SIZE as usize);
    assert_eq!(nodes[SIZE as usize - 1].members().len(), SIZE as usize);
    // Who comes too late hears why.
    let refused = join(&sim, &registry, SIZE).unwrap_err();
    let full = RegistryRefusal::PoolFull { size: SIZE };
    assert!(matches!(&refused, JoinError::Refused { why, .. } if *why == full), "{refused}");
    // And the first is served still.
    let (first, last) = (&nodes[0], &nodes[SIZE as usize - 1]);
    let bound = first.begin().bind("still", b"here");
    done(&registry, &nic, || first.poll(), bound).unwrap();
    let found = last.begin().bound("still", Duration::ZERO);
    let found = done(&registry, &nic, || last.poll(), found).unwrap().unwrap();
    assert_eq!((found.owner, &*found.bytes), (first.id(), &b"here"[..]));
}

/// One node joins, while nobody else does anything.
fn join(sim: &Sim, registry: &Registry, at: u32) -> Result<Node, JoinError> {
    let nic = sim.nic(&format!("n{at}"));
    let config = Config::new("many").registry("registry").over(nic.clone());
    done(registry, &nic, || (), Node::begin_join(config)?)
}

/// What comes of it when the registry and one node go on.
fn done<F: Future + Unpin>(
    registry: &Registry,
    nic: &Nic,
    go_on: impl Fn(),
    mut future: F,
) -> F::Output {
    loop {
        let seen = nic.poll();
        registry.poll();
        go_on();
        let polled = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(output) = polled {
            return output;
        }
        nic.wait(seen, Some(rt::now() + Duration::from_millis(1)));
    }
}

/// Ten thousand nodes join an open pool within a few milliseconds, and each learns of all. Without links: as many nodes take
/// more memory than a machine has, for each keeps all members.
#[test]
fn ten_thousand_nodes_join_and_each_is_told_of_all() {
    const NODES: u32 = 10_000;
    let terms = RegistryOptions::open("p").terms().unwrap();
    let mut state = RegistryState::new(terms);
    let (mut now, mut joined, mut messages) = (Instant::default(), 0, 0_u64);
    // The node of each ticket, and the entries that it knows.
    let (mut tickets, mut knows) = (BTreeMap::new(), BTreeMap::new());
    let mut ticket = 0;
    while knows.len() < NODES as usize || knows.values().any(|next| *next < u64::from(NODES)) {
        now = now + Duration::from_micros(500);
        let mut questions: Vec<(u32, RegistryQuestion)> = Vec::new();
        for _ in 0..2000.min(NODES - joined) {
            questions.push((joined, RegistryQuestion::Join(joining())));
            joined += 1;
        }
        state.tick(now);
        for (ticket, answer) in state.take_out() {
            let (node, answer): (u32, _) = (tickets.remove(&ticket).unwrap(), answer.unwrap());
            messages += 1;
            match &*answer {
                RegistryAnswer::Welcome { .. } => _ = knows.insert(node, 0),
                RegistryAnswer::Events { first, entries } => {
                    assert_eq!(knows.insert(node, first + entries.len() as u64), Some(*first));
                }
                other => panic!("{other:?}"),
            }
            questions.push((node, RegistryQuestion::Follow { next: knows[&node] }));
        }
        for (node, question) in questions {
            (ticket, messages) = (ticket + 1, messages + 1);
            tickets.insert(ticket, node);
            state.ask(now, (&node, None), ticket, question);
        }
        assert!(now - Instant::default() < Duration::from_secs(60), "{joined} nodes have joined");
    }
    let c = messages as f64 / (f64::from(NODES) * f64::from(NODES).log2());
    println!("{messages} messages, c = {c:.2}, after {:?}", now - Instant::default());
    assert!(c < 8.0, "{c}");
}

#[test]
fn every_node_of_a_pool_of_any_size_has_a_share_for_what_a_join_takes() {
    for size in [1, 480, 481, 4097, SIZE_MAX] {
        let peers = u64::from(LinksOptions::default().pool_size(size).peers_max);
        let terms = FlowTerms::of(budget(size)).shared_by(peers);
        assert!(terms.share() >= 2 * terms.guarantee, "{size} nodes: {} bytes", terms.share());
    }
}
