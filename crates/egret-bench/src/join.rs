//! `egret bench join`: what it takes until all nodes of a pool have seen each other.

use std::time::Duration;

use anyhow::Result;
use egret::node::Node;
use egret::rt;
use egret::sim::Cluster;

use crate::Suite;
use crate::args::{Common, Usage};
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Probe, Sample};

/// What it takes until all nodes of a pool have seen each other.
///
/// So many nodes join an open pool at the same time, in the simulator, where messages take 10 µs. `seen` is the virtual
/// time until each has seen all, `messages` is how many the registry has sent and received until then, and `c` is the
/// larger of two figures: these messages over n·log2(n), and the most messages of one member over log2(n).
#[derive(Debug, clap::Args)]
pub(crate) struct JoinArgs {
    /// Nodes
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [16, 64, 256, 1024])]
    nodes: Vec<u32>,
    /// Where they join: sim
    #[arg(long, value_name = "NAME", default_value = SIM)]
    fabric: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) fn suite(args: &JoinArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    if args.fabric != SIM {
        return Err(Usage(format!("{NAME} is for sim, not {}", args.fabric)).into());
    }
    let mut nodes = args.nodes.clone();
    if args.common.quick {
        nodes.retain(|nodes| *nodes <= 64);
    }
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(nodes.into_iter().map(case)) })
}

fn case(nodes: u32) -> Result<Case> {
    if !(2..=NODES_MAX).contains(&nodes) {
        return Err(Usage(format!("{NAME} is for 2 to {NODES_MAX} nodes, not {nodes}")).into());
    }
    let began = rt::machine_now();
    let run = Cluster::new(SEED, nodes).open().run(move |node| see_all(&node, nodes as usize));
    let took = rt::machine_now() - began;
    let seen: Vec<_> = run.results.into_iter().flatten().collect();
    let last = seen.iter().map(|(at, _)| *at).max().unwrap_or_default();
    let messages = seen.iter().map(|(_, messages)| *messages).sum::<u64>() as f64;
    let most = seen.iter().map(|(_, messages)| *messages).max().unwrap_or_default() as f64;
    let log = f64::from(nodes).log2();
    let line = ReportLine {
        bench: NAME,
        fabric: Some(SIM),
        peers: Some(nodes),
        seen: Some(last.as_nanos() as f64 / 1e6),
        messages: Some(messages),
        c: Some((messages / (f64::from(nodes) * log)).max(most / log)),
        ..ReportLine::default()
    };
    let subject = Box::new(JoinRun(took));
    Ok(Case { line, unit: Unit::Run, subject, against: Against::Nothing, rounds: Some(1) })
}

/// When a node has seen all others, and how many messages it has exchanged with the registry by then.
fn see_all(node: &Node, all: usize) -> (Duration, u64) {
    let mut events = node.events();
    while (node.size() as usize) < all {
        if events.wait_next(node.deadline()).is_err() {
            break;
        }
    }
    let registry = node.report().peers.into_iter().filter(|peer| peer.fabric == "registry");
    (
        rt::now() - rt::Instant::default(),
        registry.map(|peer| peer.count.sent + peer.count.received).sum(),
    )
}

/// The same run has the same figures, so it is done once.
struct JoinRun(Duration);

impl Probe for JoinRun {
    fn run(&mut self, _: u64) -> Result<Sample> {
        Ok(Sample::Total(self.0))
    }
}

const NAME: &str = "join";
const SIM: &str = "sim";
const SEED: u64 = 1;
const NODES_MAX: u32 = 10_000;
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::PEERS,
    ReportColumn::SEEN,
    ReportColumn::MESSAGES,
    ReportColumn::C,
    ReportColumn::RUN_MS,
];
