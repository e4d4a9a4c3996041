//! `egret bench`: how fast egret is, and how fast it could be.
//!
//! A benchmark turns its arguments into a `Suite`: a list of cases, each a thing to measure with
//! the limit to hold it against. It is one file, or a folder whose `suite.rs` has the suite:
//!
//! | benchmark | file or folder |
//! |---|---|
//! | `latency`, `bandwidth`, `message-rate` | `vi/` |
//! | `am-latency`, `am-rate`, `am-bandwidth` | `am/` |
//! | `channel`, `connect`, `death`, `join`, `limits`, `mixed`, `pairs`, `pool`, `start` | a file of that name |
//! | `graph`, `idle`, `look`, `port`, `rmi`, `serialize`, `threads` | a folder of that name |
//!
//! The benchmarks share the rest: `args` reads options, `measure` repeats, interleaves, takes medians and
//! prints, `peer` starts the second process, which takes part by the `tasks` of all benchmarks,
//! `machine` pins both, `side` is one side of a connection, `links` drives links, and `limit` has the limits.

mod am;
mod args;
mod channel;
mod connect;
mod death;
mod graph;
mod idle;
mod join;
pub mod limit;
mod limits;
mod links;
mod look;
pub mod machine;
mod measure;
mod mixed;
mod pairs;
mod peer;
mod pool;
mod port;
mod rmi;
mod serialize;
mod side;
mod start;
mod tasks;
mod threads;
mod vi;

use std::io::Write;

use anyhow::Result;
use clap::Subcommand;

use args::Common;
pub use args::Usage;
use measure::progress::BenchProgress;
use measure::report::{self, ReportColumn};
use measure::{Case, MeasurePlan};
pub use peer::follow::BenchPeerArgs;
pub use start::{BenchNodeArgs, be_node};
use vi::MessageMeasure;

/// Graphs by the path that `benches/peers`, which has a file of this crate, has for them too.
mod stream {
    pub(crate) use egret::graph;
}

/// Measure egret beside the limits of this machine.
///
/// Every benchmark measures the least its work can cost (the limit) in turn
/// with egret itself and prints the ratio of the two: 1.00 is the limit,
/// smaller is better. A line whose limit moved by more than 15 % between
/// repetitions ends in "!": the machine was not quiet, measure again.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub struct BenchArgs {
    #[command(subcommand)]
    name: BenchName,
}

const EXAMPLES: &str = "Examples:
  egret bench limits                      what this machine can do
  egret bench limits --fabric shm --sizes 4,1K,64K
  egret bench pool                        what a buffer costs beside malloc
  egret bench latency --mode copy         messages sent from a copy, there and back
  egret bench latency --fabric shm --mode handover --trust cooperating
  egret bench latency --fabric tcp --wait frugal
  egret bench bandwidth --fabric tcp --encrypt on
  egret bench connect --fabric tcp        what it takes to connect, encrypted and not
  egret bench death                       how soon all know that a process was killed
  egret bench join --nodes 16,256         until all nodes of a pool have seen each other
  egret bench start --nodes 16            how soon a job of real processes is up
  egret bench bandwidth --fabric udp-datagrams --sizes 1K
  egret bench idle --fabric tcp --connections 1000
  egret bench pairs --wait balanced       more processes than cores
  egret bench am-latency --words 0,16     requests and their answers
  egret bench threads --threads 1,4       requests of several threads at once
  egret bench look --peers 0,64           what idle connections cost who looks
  egret bench graph --graphs map1760      objects that refer to each other
  egret bench rmi --fabric tcp            remote calls, one at a time and 64 at once
  egret bench port --ops ping,stream      messages between ports
  egret bench limits --json | jq .        one object a line; fields: docs/reference/bench.md";

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Subcommand)]
enum BenchName {
    Limits(limits::LimitsArgs),
    Pool(pool::PoolArgs),
    /// Time of a message there and one back
    Latency(vi::MessageArgs),
    /// Bytes a second one way
    ///
    /// The sender rewrites every message and the receiver looks at both of its ends, inside of the
    /// time. So do the limits that egret is held against: shm-ring, tcp-raw, udp-raw.
    Bandwidth(vi::MessageArgs),
    /// Messages a second one way
    MessageRate(vi::MessageArgs),
    Connect(connect::ConnectArgs),
    Death(death::DeathArgs),
    Join(join::JoinArgs),
    Start(start::StartArgs),
    Pairs(pairs::PairsArgs),
    Idle(idle::IdleArgs),
    Serialize(serialize::SerializeArgs),
    Graph(graph::GraphArgs),
    AmLatency(am::LatencyArgs),
    AmRate(am::RateArgs),
    AmBandwidth(am::BandwidthArgs),
    Mixed(mixed::MixedArgs),
    Threads(threads::ThreadsArgs),
    Look(look::LookArgs),
    Channel(channel::ChannelArgs),
    Rmi(rmi::RmiArgs),
    Port(port::PortArgs),
}

impl BenchName {
    fn common(&self) -> &Common {
        match self {
            Self::Limits(args) => &args.common,
            Self::Pool(args) => &args.common,
            Self::Latency(args) | Self::Bandwidth(args) | Self::MessageRate(args) => &args.common,
            Self::Connect(args) => &args.common,
            Self::Death(args) => &args.common,
            Self::Join(args) => &args.common,
            Self::Start(args) => &args.common,
            Self::Pairs(args) => &args.common,
            Self::Idle(args) => &args.common,
            Self::Serialize(args) => &args.common,
            Self::Graph(args) => &args.common,
            Self::AmLatency(args) => &args.how.common,
            Self::AmRate(args) => &args.how.common,
            Self::AmBandwidth(args) => &args.how.common,
            Self::Mixed(args) => &args.common,
            Self::Threads(args) => &args.common,
            Self::Look(args) => &args.common,
            Self::Channel(args) => &args.common,
            Self::Rmi(args) => &args.common,
            Self::Port(args) => &args.common,
        }
    }

    fn suite(&self) -> Result<Suite> {
        match self {
            Self::Limits(args) => limits::suite(args),
            Self::Pool(args) => pool::suite(args),
            Self::Latency(args) => vi::suite(MessageMeasure::Latency, args),
            Self::Bandwidth(args) => vi::suite(MessageMeasure::Bandwidth, args),
            Self::MessageRate(args) => vi::suite(MessageMeasure::Rate, args),
            Self::Connect(args) => connect::suite(args),
            Self::Death(args) => death::suite(args),
            Self::Join(args) => join::suite(args),
            Self::Start(args) => start::suite(args),
            Self::Pairs(args) => pairs::suite(args),
            Self::Idle(args) => idle::suite(args),
            Self::Serialize(args) => serialize::suite(args),
            Self::Graph(args) => graph::suite(args),
            Self::AmLatency(args) => am::latency(args),
            Self::AmRate(args) => am::rate(args),
            Self::AmBandwidth(args) => am::bandwidth(args),
            Self::Mixed(args) => mixed::suite(args),
            Self::Threads(args) => threads::suite(args),
            Self::Look(args) => look::suite(args),
            Self::Channel(args) => channel::suite(args),
            Self::Rmi(args) => rmi::suite(args),
            Self::Port(args) => port::suite(args),
        }
    }
}

/// What a benchmark is made of.
pub(crate) struct Suite {
    /// Its name on the command line and in every line of its report.
    name: &'static str,
    /// What its report shows when people read it.
    columns: &'static [ReportColumn],
    /// What it measures; a case is made when its turn comes.
    cases: Box<dyn ExactSizeIterator<Item = Result<Case>>>,
}

/// The second process of a benchmark: obeys orders until the first one is gone.
///
/// # Errors
///
/// If it cannot do it.
pub fn serve(args: &BenchPeerArgs) -> Result<()> {
    peer::follow::serve(args, tasks::TASKS)
}

/// Runs the benchmark that `args` name and prints its report.
///
/// # Errors
///
/// If it cannot be measured here, or the report has no reader.
pub fn run(args: &BenchArgs) -> Result<()> {
    let common = args.name.common();
    // Before the suite pins this process to one of the cores.
    let facts = machine::facts();
    let suite = args.name.suite()?;
    let plan = MeasurePlan::new(common);
    let mut out = std::io::stdout().lock();
    if !common.json {
        writeln!(
            out,
            "# egret {VERSION} bench {}: {facts}, {} repetitions",
            suite.name, plan.reps
        )?;
        writeln!(out, "{}", report::titles(suite.columns))?;
    }
    let progress = BenchProgress::new(suite.cases.len() as u64 * u64::from(plan.reps));
    for case in suite.cases {
        let line = case?.measure(&plan, &progress)?;
        let text = match common.json {
            true => serde_json::to_string(&line)?,
            false => report::row(suite.columns, &line),
        };
        progress.aside(|| writeln!(out, "{text}").and_then(|()| out.flush()))?;
    }
    Ok(())
}
