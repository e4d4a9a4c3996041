//! Remote calls between two processes: the one that calls, and the one that is called.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::DerefMut;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limit::Stopwatch;
use anyhow::{Context, Result, ensure};
use egret::buf::Pool;
use egret::node::registry::{Registry, RegistryOptions};
use egret::node::{Config, Node, tokio as tokio_driver};
use egret::rmi::{Exported, Remoting};
use egret::rt;
use egret::vi::Secret;
use serde::{Deserialize, Serialize};

use super::limit::tree_bytes;
use super::object::{BenchObjectStub, Looks, is_right};
use crate::idle::still::resident;
use crate::links;
use crate::measure::{Probe, Sample};
use crate::peer::{Follower, FollowerProcess, PeerFigures, PeerStation, PeerTask};
use crate::serialize::values::{self, nodes};
use crate::side::{PATIENCE, mark};
use crate::vi::duo::WaitMode;

/// What the node of the one that is called is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Pooled {
    fabric: String,
    wait: WaitMode,
    registry: String,
    secret: String,
    /// How many nodes the pool has.
    nodes: u32,
}

impl Pooled {
    /// A registry for so many nodes, and what they are told.
    pub(crate) fn new(fabric: &str, wait: WaitMode, nodes: u32) -> Result<(Registry, Self)> {
        let registry = Registry::open(RegistryOptions::new(POOL, nodes).secret(Secret::random()))?;
        let secret = registry.secret().and_then(Secret::reveal).unwrap_or_default().to_string();
        let address = registry.address().to_owned();
        let pooled = Self { fabric: fabric.to_owned(), wait, registry: address, secret, nodes };
        Ok((registry, pooled))
    }

    pub(crate) fn join(&self) -> Result<Node> {
        let config = Config::new(POOL).size(self.nodes).registry(&self.registry);
        let config = config.secret(Secret::new(&self.secret)).fabrics(&self.fabric);
        Ok(Node::join(config.wait(self.wait.of_nic()))?)
    }
}

/// A call to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MeasuredCall {
    Null,
    /// Of a method that is not declared `#[nonblocking]`.
    Plain,
    /// The same, awaited by a thread that drives the links meanwhile.
    Awaited,
    /// The same in a runtime of tokio's with one thread, which drives the links.
    Tokio,
    /// Of a method that calls an object of its caller.
    Nested,
    /// Of a plain method, by so many stubs in turn.
    Stubs(usize),
    Int,
    Bytes(usize),
    Ints(usize),
    Floats(usize),
    /// Out of a shareable pool.
    PoolFloats(usize),
    Tree,
}

impl MeasuredCall {
    /// The bytes of its arguments, and those of its answer.
    pub(crate) fn bytes(self) -> Result<(usize, usize)> {
        Ok(match self {
            Self::Null | Self::Plain | Self::Awaited | Self::Tokio | Self::Stubs(_) => (0, 0),
            Self::Nested => (0, 1),
            Self::Int => (4, 4),
            Self::Bytes(len) => (len, 4),
            Self::Ints(len) => (4 * len, 4),
            Self::Floats(len) | Self::PoolFloats(len) => (8 * len, 4),
            Self::Tree => (tree_bytes()?, 4),
        })
    }
}

/// Both nodes, connected, and their registry.
#[derive(Debug)]
pub(crate) struct RmiNodes {
    station: PeerStation,
    stub: BenchObjectStub,
    /// The object that is called back.
    _called_back: Exported,
    node: Node,
    _registry: Registry,
    wait: WaitMode,
    round: RefCell<u64>,
}

impl RmiNodes {
    pub(crate) fn new(peer: &Rc<FollowerProcess>, fabric: &str, wait: WaitMode) -> Result<Self> {
        let (registry, pooled) = Pooled::new(fabric, wait, 2)?;
        let station = peer.open(&CALLED, &pooled, &[])?;
        let node = pooled.join()?;
        let stub: BenchObjectStub = node.lookup(NAME, PATIENCE)?;
        let called_back = node.export(Looks::new(&node))?;
        station.run(0, || {
            stub.know(called_back.object().clone())?;
            stub.nested()?;
            stub.settle()
        })?;
        let (_registry, _called_back, round) = (registry, called_back, RefCell::default());
        Ok(Self { station, stub, _called_back, node, _registry, wait, round })
    }

    pub(crate) const fn stub(&self) -> &BenchObjectStub {
        &self.stub
    }

    pub(crate) const fn wait(&self) -> WaitMode {
        self.wait
    }

    /// So many stubs of the object, each of which has called.
    fn many(&self, count: usize) -> Result<Vec<BenchObjectStub>> {
        let object = self.stub.object();
        let make = |_| {
            let stub: BenchObjectStub = self.node.stub(&object);
            stub.plain().map(|()| stub)
        };
        Ok((0..count).map(make).collect::<Result<_, _>>()?)
    }

    /// Lets the other one serve while `lead` calls.
    pub(crate) fn run(&self, lead: impl FnOnce(&mut u64) -> Result<Sample>) -> Result<Sample> {
        self.station.run(0, || {
            let sample = lead(&mut self.round.borrow_mut());
            let settled = self.stub.settle();
            self.node.links().iter().for_each(|(_, links)| links::finish(links));
            settled?;
            sample
        })
    }
}

impl RmiNodes {
    /// Awaits calls of a plain method in a runtime of one thread.
    fn in_tokio(&self, rounds: u64, round: &mut u64) -> Result<Sample> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let local = tokio::task::LocalSet::new();
        let handle = self.node.handle();
        let driver = local.spawn_local(async move { tokio_driver::drive(&handle).await });
        let call = |(): &()| Ok(local.block_on(&runtime, self.stub.begin().plain())?);
        let sample = times(rounds, round, &mut (), |(), _| {}, call, |(), _| true);
        driver.abort();
        local.block_on(&runtime, async { drop(driver.await) });
        sample
    }
}

/// Calls one at a time; what is sent is rewritten before the clock starts.
#[derive(Debug)]
pub(crate) struct OneByOne {
    calls: Rc<RmiNodes>,
    call: MeasuredCall,
    /// If it is called by many in turn.
    stubs: Vec<BenchObjectStub>,
}

impl OneByOne {
    pub(crate) const fn new(calls: Rc<RmiNodes>, call: MeasuredCall) -> Self {
        Self { calls, call, stubs: Vec::new() }
    }

    /// Makes the stubs, each of which has called before the clock starts.
    fn prepare(&mut self) -> Result<()> {
        let MeasuredCall::Stubs(count) = self.call else { return Ok(()) };
        if self.stubs.is_empty() {
            self.calls.run(|_| {
                self.stubs = self.calls.many(count)?;
                Ok(Sample::Value(0.0))
            })?;
        }
        Ok(())
    }
}

impl Probe for OneByOne {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        self.prepare()?;
        self.calls.run(|round| {
            let stub = &self.calls.stub;
            match self.call {
                MeasuredCall::Null => {
                    times(rounds, round, &mut (), |(), _| {}, |()| Ok(stub.null()?), |(), _| true)
                }
                MeasuredCall::Plain => {
                    times(rounds, round, &mut (), |(), _| {}, |()| Ok(stub.plain()?), |(), _| true)
                }
                MeasuredCall::Awaited => {
                    let node = &self.calls.node;
                    let call = |(): &()| Ok(node.block_on(stub.begin().plain())?);
                    times(rounds, round, &mut (), |(), _| {}, call, |(), _| true)
                }
                MeasuredCall::Tokio => self.calls.in_tokio(rounds, round),
                MeasuredCall::Nested => {
                    let call = |(): &()| Ok(stub.nested()?);
                    times(rounds, round, &mut (), |(), _| {}, call, |went, _| went)
                }
                MeasuredCall::Stubs(count) => {
                    let next = |at: &mut usize, _| *at = (*at + 1) % count;
                    let call = |at: &usize| Ok(self.stubs[*at].plain()?);
                    times(rounds, round, &mut 0, next, call, |(), _| true)
                }
                MeasuredCall::Int => {
                    let set = |number: &mut i32, round| *number = mark(round).into();
                    let is_next = |got, round| got == i32::from(mark(round)) + 1;
                    times(rounds, round, &mut 0, set, |number| Ok(stub.next(*number)?), is_next)
                }
                MeasuredCall::Bytes(len) => {
                    let data = vec![0; len];
                    arrays(rounds, round, data, |mark| mark, |data| Ok(stub.bytes(data)?))
                }
                MeasuredCall::Ints(len) => {
                    let data = vec![0; len];
                    arrays(rounds, round, data, i32::from, |data| Ok(stub.ints(data)?))
                }
                MeasuredCall::Floats(len) => {
                    let data = vec![0.0; len];
                    arrays(rounds, round, data, f64::from, |data| Ok(stub.floats(data)?))
                }
                MeasuredCall::PoolFloats(len) => {
                    let pool = Pool::builder().class(8 * len, 1).shareable().build()?;
                    let data = pool.take_typed(len)?;
                    arrays(rounds, round, data, f64::from, |data| Ok(stub.floats(data)?))
                }
                MeasuredCall::Tree => {
                    let mut tree = *nodes(values::NODES).context("it has nodes")?;
                    let set = |tree: &mut values::TreeNode, round| tree.set_mark(mark(round));
                    times(
                        rounds,
                        round,
                        &mut tree,
                        set,
                        |tree| Ok(stub.tree(tree)?),
                        |said, round| is_right(round, said),
                    )
                }
            }
        })
    }
}

fn arrays<T: Clone, D: DerefMut<Target = [T]>>(
    rounds: u64,
    round: &mut u64,
    mut data: D,
    element: fn(u8) -> T,
    call: impl Fn(&[T]) -> Result<u32>,
) -> Result<Sample> {
    let fill = |data: &mut D, round| data.fill(element(mark(round)));
    times(rounds, round, &mut data, fill, |data| call(data), |said, round| is_right(round, said))
}

#[inline]
fn times<A, R>(
    rounds: u64,
    round: &mut u64,
    with: &mut A,
    rewrite: impl Fn(&mut A, u64),
    call: impl Fn(&A) -> Result<R>,
    is_right: impl Fn(R, u64) -> bool,
) -> Result<Sample> {
    let mut times = Vec::with_capacity(usize::try_from(rounds)?);
    for _ in 0..rounds {
        *round += 1;
        rewrite(with, *round);
        let start = Stopwatch::start();
        let got = call(with)?;
        times.push(start.nanos());
        ensure!(is_right(got, *round), "a call arrived damaged, or its answer");
    }
    Ok(Sample::Times(times))
}

/// The memory of a stub, of which so many are made.
#[derive(Debug)]
pub(crate) struct StubMemory {
    calls: Rc<RmiNodes>,
    count: usize,
    /// All that were made: memory that is given back may be used again, and would not count.
    made: Vec<Vec<BenchObjectStub>>,
}

impl StubMemory {
    pub(crate) const fn new(calls: Rc<RmiNodes>, count: usize) -> Self {
        Self { calls, count, made: Vec::new() }
    }
}

impl Probe for StubMemory {
    fn run(&mut self, _: u64) -> Result<Sample> {
        self.calls.run(|_| {
            let before = resident("Pss_Anon:")?;
            self.made.push(self.calls.many(self.count)?);
            let grown = resident("Pss_Anon:")? - before;
            Ok(Sample::Value(grown / self.count as f64))
        })
    }
}

/// Calls without arguments, so many under way.
#[derive(Debug)]
pub(crate) struct CallsInFlight {
    pub(crate) calls: Rc<RmiNodes>,
    pub(crate) call: MeasuredCall,
    pub(crate) inflight: usize,
}

impl Probe for CallsInFlight {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        self.calls.run(|_| {
            let stub = &self.calls.stub;
            let begin = || match self.call {
                MeasuredCall::Plain => stub.begin().plain(),
                _ => stub.begin().null(),
            };
            let start = rt::now();
            let mut under_way = VecDeque::with_capacity(self.inflight);
            for _ in 0..rounds {
                if under_way.len() == self.inflight
                    && let Some(oldest) = under_way.pop_front()
                {
                    egret::rmi::Pending::wait(oldest)?;
                }
                under_way.push_back(begin());
            }
            for pending in under_way {
                pending.wait()?;
            }
            Ok(Sample::Total(rt::now() - start))
        })
    }
}

/// The one that is called, in the second process.
pub(crate) const CALLED: PeerTask<Pooled> =
    PeerTask { name: "called", start: |pooled, _| Ok(Box::new(CalledOn::new(&pooled)?)) };

/// The one that is called.
struct CalledOn {
    _exported: Exported,
    node: Node,
    settled: Arc<AtomicU64>,
    runs: u64,
}

impl CalledOn {
    fn new(pooled: &Pooled) -> Result<Self> {
        let node = pooled.join()?;
        let object = Looks::new(&node);
        let settled = Arc::clone(&object.settled);
        let exported = node.export(object)?;
        exported.bind(NAME)?;
        Ok(Self { _exported: exported, node, settled, runs: 0 })
    }
}

impl Follower for CalledOn {
    /// Serves until the other side is done.
    fn follow(&mut self, _: u64) -> Result<PeerFigures> {
        self.runs += 1;
        let is_done = || self.settled.load(Ordering::Relaxed) >= self.runs;
        ensure!(self.node.serve(PATIENCE, is_done), "no call arrived in time");
        self.node.links().iter().for_each(|(_, links)| links::finish(links));
        Ok(PeerFigures::new())
    }
}

/// The one who calls, for pairs that this process only starts.
pub(crate) const CALLER: PeerTask<Pooled> =
    PeerTask { name: "caller", start: |pooled, _| Ok(Box::new(CallerProcess::new(&pooled)?)) };

/// The one who calls, in a process of its own.
struct CallerProcess {
    stub: BenchObjectStub,
    _node: Node,
}

impl CallerProcess {
    fn new(pooled: &Pooled) -> Result<Self> {
        let node = pooled.join()?;
        Ok(Self { stub: node.lookup(NAME, PATIENCE)?, _node: node })
    }
}

impl Follower for CallerProcess {
    /// Calls a plain method so often, and says that it has.
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        for _ in 0..rounds {
            self.stub.plain()?;
        }
        self.stub.settle()?;
        Ok(PeerFigures::new())
    }
}

const POOL: &str = "bench";
const NAME: &str = "callee";
