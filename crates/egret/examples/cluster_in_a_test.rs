//! A cluster in a unit test: five nodes have a leader, its machine crashes, and the others elect the next one.
//!
//! The program of a node is an ordinary blocking program. All five run in this process, on simulated machines and in
//! virtual time: what takes a minute there takes milliseconds here, and the same seed is the same run.

use std::io::{self, Write};
use std::time::Duration;

use egret::node::{Event, NodeError};
use egret::prelude::*;
use egret::sim::{Cluster, work};

/// What each node runs; in a job the node would come from `Node::join(Config::from_env()?)`. Returns the ranks of the
/// first leader and of the second one.
fn program(node: &Node) -> Result<[u32; 2], NodeError> {
    node.wait_all(node.deadline())?;
    if node.rank() > 0 {
        work(Duration::from_secs(1)); // computing takes no virtual time; this does
    }
    let first = node.elect("leader", node.deadline())?;
    let mut events = node.events();
    loop {
        if let Event::Elected { winner: Some(next), .. } =
            events.wait_next(Duration::from_secs(60))?
            && next != first
        {
            return Ok([first.rank, next.rank]);
        }
    }
}

fn main() -> io::Result<()> {
    let seed = egret::sim::seed_from_env().unwrap_or(7);
    let run = || {
        let cluster = Cluster::new(seed, 5).crash(0, Duration::from_secs(10));
        cluster.run(|node| program(&node))
    };
    let ran = run();
    let next = match &ran.results[1] {
        Some(Ok([0, next])) => *next,
        other => panic!("node 1 has seen {other:?}"),
    };
    assert_eq!(ran.results[0], None, "its program did not return");
    assert!(ran.results[1..].iter().all(|seen| *seen == Some(Ok([0, next]))), "all agree");
    assert_eq!(ran.digest, run().digest, "the same seed is the same run");
    let took = ran.elapsed;
    writeln!(io::stdout(), "node {next} leads after node 0: {took:?} of virtual time, seed {seed}")
}
