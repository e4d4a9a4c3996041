//! `egret bench death`: how soon all know that a process has died.

use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use egret::node::registry::{Registry, RegistryOptions};
use egret::node::{Config, Event, Events, Node, NodeId};
use egret::rt::{Instant, machine_now, sleep};
use egret::vi::Secret;
use serde::{Deserialize, Serialize};

use crate::Suite;
use crate::args::Common;
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Probe, Sample};
use crate::peer::{Follower, FollowerProcess, PATIENCE, PeerFigures, PeerTask};

/// How soon all nodes know that a process has died.
///
/// A registry and `--nodes` nodes are in this process. In each round another process is started, joins the pool,
/// and is killed (`killed`) or stopped (`stopped`, as if its cable were cut). The time is from then until the last of
/// the nodes has the event. `killed` is held against 50 ms, `stopped` against 3 s.
#[derive(Debug, clap::Args)]
pub(crate) struct DeathArgs {
    /// Nodes that learn of it
    #[arg(long, value_name = "N", default_value_t = 8)]
    nodes: u32,
    /// Processes that are killed in each repetition [default: 100, or 5 with --quick]
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) fn suite(args: &DeathArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let killed = args.rounds.unwrap_or(if args.common.quick { 5 } else { 100 });
    let nodes = args.nodes.max(1);
    let ways = [(DeathWay::Killed, killed), (DeathWay::Stopped, killed.div_ceil(20))];
    let cases = ways.into_iter().map(move |(way, rounds)| case(way, nodes, rounds));
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DeathWay {
    Killed,
    Stopped,
}

fn case(way: DeathWay, nodes: u32, rounds: u64) -> Result<Case> {
    let (op, allowed) = match way {
        DeathWay::Killed => ("killed", KILLED_NS),
        DeathWay::Stopped => ("stopped", STOPPED_NS),
    };
    let line = ReportLine {
        bench: NAME,
        op: Some(op),
        peers: Some(nodes),
        limit: "allowed",
        ..ReportLine::default()
    };
    let subject = Box::new(DeathWatch::new(way, nodes)?);
    let against = Against::Allowance(allowed);
    Ok(Case { line, unit: Unit::Nanos, subject, against, rounds: Some(rounds) })
}

/// The pool, and the nodes that learn of deaths.
struct DeathWatch {
    way: DeathWay,
    plan: MemberPlan,
    _registry: Registry,
    nodes: Vec<Node>,
    events: Vec<Events>,
}

impl DeathWatch {
    fn new(way: DeathWay, nodes: u32) -> Result<Self> {
        let registry = Registry::open(RegistryOptions::open(NAME).secret(Secret::random()))?;
        let secret = registry.secret().and_then(Secret::reveal).context("a random secret")?;
        let plan = MemberPlan {
            registry: registry.address().to_owned(),
            secret: secret.as_str().to_owned(),
        };
        let join = |_| Ok(Node::join(registry.config())?);
        let nodes: Vec<Node> = (0..nodes).map(join).collect::<Result<_>>()?;
        let events = nodes.iter().map(|node| node.events()).collect();
        Ok(Self { way, plan, _registry: registry, nodes, events })
    }

    /// Starts a process that joins, ends it, and waits until all nodes know; the nanoseconds.
    fn round(&mut self) -> Result<f64> {
        let peer = Rc::new(FollowerProcess::start_anywhere()?);
        let station = peer.open(&MEMBER, &self.plan, &[])?;
        let joined = next_joined(&mut self.events[0], &self.nodes)?;
        for events in &mut self.events[1..] {
            while next_joined(events, &self.nodes)? != joined {}
        }
        let ready = Arc::new(Barrier::new(self.events.len() + 1));
        let way = self.way;
        #[expect(clippy::disallowed_methods, reason = "real processes share no virtual time")]
        thread::scope(|scope| {
            let learn = |events| {
                let ready = Arc::clone(&ready);
                scope.spawn(move || -> Result<Instant> {
                    ready.wait();
                    wait_died(events, joined)?;
                    Ok(machine_now())
                })
            };
            let learners: Vec<_> = self.events.iter_mut().map(learn).collect();
            ready.wait();
            // Until they sleep.
            sleep(SETTLED);
            let began = machine_now();
            match way {
                DeathWay::Killed => peer.kill()?,
                DeathWay::Stopped => peer.stop()?,
            }
            let mut last = began;
            for learner in learners {
                let Ok(knew) = learner.join() else { bail!("a thread that learns of it panicked") };
                last = last.max(knew?);
            }
            drop(station);
            Ok((last - began).as_nanos() as f64)
        })
    }
}

/// The next node that has joined and is none of these.
fn next_joined(events: &mut Events, known: &[Node]) -> Result<NodeId> {
    loop {
        if let Event::Joined(member) = events.wait_next(PATIENCE)?
            && !known.iter().any(|node| node.id() == member.id)
        {
            return Ok(member.id);
        }
    }
}

fn wait_died(events: &mut Events, who: NodeId) -> Result<()> {
    while !matches!(events.wait_next(PATIENCE)?, Event::Died { node, .. } if node == who) {}
    Ok(())
}

impl Probe for DeathWatch {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        Ok(Sample::Times((0..rounds).map(|_| self.round()).collect::<Result<_>>()?))
    }
}

/// How a process joins the pool.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct MemberPlan {
    registry: String,
    secret: String,
}

/// The process that joins, and is ended.
pub(crate) const MEMBER: PeerTask<MemberPlan> = PeerTask {
    name: "member",
    start: |plan, _| {
        let config = Config::new(NAME).registry(&plan.registry).secret(plan.secret.as_str().into());
        Ok(Box::new(JoinedFollower { _node: Node::join(config)? }))
    },
};

/// The member in the process that is ended.
struct JoinedFollower {
    _node: Node,
}

impl Follower for JoinedFollower {
    fn follow(&mut self, _: u64) -> Result<PeerFigures> {
        Ok(Vec::new())
    }
}

const NAME: &str = "death";
/// How soon all are to know that a process was killed, and that it is silent.
const KILLED_NS: f64 = 50e6;
const STOPPED_NS: f64 = 3e9;
/// Time for the nodes to sleep before a process is ended.
const SETTLED: Duration = Duration::from_millis(2);
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::OP,
    ReportColumn::PEERS,
    ReportColumn::ROUNDS,
    ReportColumn::P50,
    ReportColumn::P99,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_NS,
    ReportColumn::RATIO,
    ReportColumn::SPREAD,
];
