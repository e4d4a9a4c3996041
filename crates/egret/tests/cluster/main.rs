//! Clusters in a unit test: ordinary programs in a simulated world.

use std::time::Duration;

use egret::node::{Departure, Event};
use egret::prelude::*;
use egret::sim::{Cluster, ClusterRun, cluster, work};

#[egret::remote]
trait Adder {
    fn add(&self, a: u64, b: u64) -> u64;
    /// Waits so many milliseconds.
    fn lasts(&self, millis: u64) -> u64;
}

struct Sums;

#[egret::remote]
impl Adder for Sums {
    fn add(&self, a: u64, b: u64) -> u64 {
        a + b
    }
    fn lasts(&self, millis: u64) -> u64 {
        work(Duration::from_millis(millis));
        millis
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A program that exports an object, calls those of `calls` other nodes, and leaves when all have done so.
fn calls_others(node: Node, calls: u32) -> Result<u64, Failure> {
    let (rank, size) = (node.rank(), node.size());
    let object = node.export(Sums)?;
    object.bind(&format!("adder {rank}"))?;
    let mut sum = 0;
    for step in 1..=calls {
        let other = (rank + step) % size;
        let adder: AdderStub = node.lookup(&format!("adder {other}"), node.deadline())?;
        sum += adder.add(u64::from(rank), u64::from(other))?;
    }
    node.enter("done")?;
    let mut events = node.events();
    while node.view("done").members.len() < size as usize {
        events.wait_next(node.deadline())?;
    }
    drop(object);
    node.leave(Deadline::DEFAULT)?;
    Ok(sum)
}

fn all_call(seed: u64, nodes: u32, calls: u32) -> ClusterRun<u64> {
    Cluster::new(seed, nodes).run(move |node| calls_others(node, calls).unwrap())
}

#[test]
fn ten_programs_join_call_each_other_and_leave() {
    let run = all_call(1, 10, 3);
    let sum = |rank: u64| (1..=3).map(|step| rank + (rank + step) % 10).sum::<u64>();
    assert_eq!(run.results, (0..10).map(|rank| Some(sum(rank))).collect::<Vec<_>>());
}
