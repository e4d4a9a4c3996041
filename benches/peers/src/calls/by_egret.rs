//! egret's remote calls.

use std::collections::VecDeque;

use anyhow::{Context, Result, ensure};
use egret_bench::limit::Stopwatch;
use egret::rt::{self, Deadline};
use egret::vi::{Secret, Wait};
use egret::node::{Config, Node};
use egret::node::registry::{Registry, RegistryOptions};
use egret::rmi::{Pending, Remoting};

use crate::values;
use crate::what::{self, Call, Case};
use crate::{Client, Told};

#[egret::remote]
trait Calls {
    #[nonblocking]
    fn null(&self);
    #[nonblocking]
    fn bytes(&self, data: &[u8]) -> u32;
    #[nonblocking]
    fn sum(&self, tree: &values::Node) -> i64;
}

struct Server;

#[egret::remote]
impl Calls for Server {
    fn null(&self) {}

    fn bytes(&self, data: &[u8]) -> u32 {
        what::ends(data)
    }

    fn sum(&self, tree: &values::Node) -> i64 {
        what::total(tree)
    }
}

fn join(fabric: &str, wait: Wait, registry: &str, secret: &str) -> Result<Node> {
    let config = Config::new(POOL).size(2).registry(registry).secret(Secret::new(secret));
    Ok(Node::join(config.fabrics(fabric).wait(wait))?)
}

/// Serves, and is the registry too.
pub fn serve(fabric: &str, wait: Wait, told: Told<'_>) -> Result<()> {
    let registry = Registry::open(RegistryOptions::new(POOL, 2).secret(Secret::random()))?;
    let secret = registry.secret().and_then(Secret::reveal).context("a random secret")?;
    let node = join(fabric, wait, registry.address(), &secret)?;
    let exported = node.export(Server)?;
    exported.bind(NAME)?;
    told(&format!("{} {}", registry.address(), *secret))?;
    let (_, links) = node.links().first().context("a node has a fabric")?;
    links.drive(Deadline::UntilDead, || false);
    Ok(())
}

/// Joins the one that serves.
pub fn connect(fabric: &str, wait: Wait, to: &str) -> Result<Box<dyn Client>> {
    let (registry, secret) = to.split_once(' ').context("where, and a secret")?;
    let node = join(fabric, wait, registry, secret)?;
    let calls = node.lookup(NAME, Deadline::DEFAULT)?;
    Ok(Box::new(Egret { calls, _node: node }))
}

struct Egret {
    calls: CallsStub,
    _node: Node,
}

impl Egret {
    fn one_by_one<A, R>(
        &self,
        rounds: u64,
        mut with: A,
        rewrite: impl Fn(&mut A, u64),
        call: impl Fn(&CallsStub, &A) -> Result<R>,
        check: impl Fn(u64, R) -> Result<()>,
    ) -> Result<Vec<f64>> {
        let mut times = Vec::with_capacity(rounds as usize);
        for round in 1..=rounds {
            rewrite(&mut with, round);
            let start = Stopwatch::start();
            let got = call(&self.calls, &with)?;
            times.push(start.nanos());
            check(round, got)?;
        }
        Ok(times)
    }

    fn many(&self, rounds: u64, inflight: usize) -> Result<Vec<f64>> {
        let mut under_way = VecDeque::with_capacity(inflight);
        let start = Stopwatch::start();
        for _ in 0..rounds {
            if under_way.len() == inflight {
                under_way.pop_front().map_or(Ok(()), Pending::wait)?;
            }
            under_way.push_back(self.calls.begin().null());
        }
        for pending in under_way {
            pending.wait()?;
        }
        Ok(vec![start.nanos() / rounds as f64])
    }
}

impl Client for Egret {
    fn run(&mut self, case: Case, rounds: u64) -> Result<Option<Vec<f64>>> {
        ensure!(rounds > 0, "a run has calls");
        let times = match case.call {
            Call::Null if case.inflight > 1 => self.many(rounds, case.inflight),
            Call::Null => self.one_by_one(
                rounds,
                (),
                |(), _| {},
                |calls, ()| Ok(calls.null()?),
                |_, ()| Ok(()),
            ),
            Call::Bytes(len) => {
                let fill = |data: &mut Vec<u8>, round| data.fill(what::mark(round));
                let call = |calls: &CallsStub, data: &Vec<u8>| Ok(calls.bytes(data)?);
                let check = |round, got| what::is_ends(round, len, got);
                self.one_by_one(rounds, vec![0; len], fill, call, check)
            }
            Call::Tree => {
                let plain = what::plain();
                let set =
                    |tree: &mut values::Node, round| tree.values[0] = what::mark(round).into();
                let call = |calls: &CallsStub, tree: &values::Node| Ok(calls.sum(tree)?);
                let check = |round, got| what::is_total(round, plain, got);
                self.one_by_one(rounds, what::tree(0), set, call, check)
            }
        };
        times.map(Some)
    }
}

const POOL: &str = "peers";
const NAME: &str = "calls";
