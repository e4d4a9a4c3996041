//! `egret bench port`: ports, held against what they are made of.

use std::rc::Rc;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::limit::SlowestPart;
use super::receiver::PortMeasure;
use super::sender::{PortPing, PortSender, PortStreams, PortUpcalls};
use crate::Suite;
use crate::am::requester::RequestSender;
use crate::am::served::{RequestMeasure, RequestTask};
use crate::args::{self, Common};
use crate::machine;
use crate::measure::probe::with_slot;
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Probe};
use crate::peer::FollowerProcess;
use crate::rmi::limit::tree_bytes;
use crate::serialize::values::{NODES, TreeNode, nodes};
use crate::side::{fill, mark};
use crate::vi::duo::{Answers, DuoPlan, Led, Trusting, WaitMode, host};

/// Messages from a send port to receive ports of another process
///
/// `ping` is a message without bytes and its answer, each received explicitly, and `upcall` the same received by upcalls;
/// both are held against an active message and its answer. `stream` are arrays of 100 KB out of a vector one way, held
/// against messages of the virtual interface. `tree` are trees of 1,023 objects one way, held against the slowest of
/// three alone: to write one, to read one, and its bytes over the virtual interface. `multicast` is 64 KiB from one send port to
/// several receive ports, held against as many send ports of one receive port each; `multicast-cpu` is the time that a message
/// takes of the sender's processor, held against one to one receive port.
#[derive(Debug, clap::Args)]
pub(crate) struct PortArgs {
    /// What carries the messages: shm, tcp or udp
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    /// How to wait for the other side
    #[arg(long, default_value = "spin")]
    wait: WaitMode,
    /// What is measured, instead of all
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ops: Vec<PortMeasure>,
    /// Receive ports of a multicast [default: 1,2,3,4, or 4 with --quick]
    #[arg(long, value_name = "LIST", value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=4))]
    receivers: Vec<u32>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// A line to measure.
#[derive(Debug, Clone, Copy)]
enum PortRow {
    One(PortMeasure),
    Multicast { receivers: u32, is_cpu: bool },
}

pub(crate) fn suite(args: &PortArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let fabric = args::between_processes(&args.fabric)?;
    let ops = match &args.ops[..] {
        [] => PortMeasure::value_variants(),
        ops => ops,
    };
    let receivers = match &args.receivers[..] {
        [] if args.common.quick => &RECEIVERS[3..],
        [] => &RECEIVERS,
        receivers => receivers,
    };
    let rows: Vec<PortRow> = ops.iter().flat_map(|op| rows(*op, receivers)).collect();
    machine::open_many();
    let (peer, wait) = (Rc::new(FollowerProcess::start()?), args.wait);
    let cases = rows.into_iter().map(move |row| {
        let line = ReportLine {
            bench: NAME,
            fabric: Some(fabric),
            wait: Some(wait.name()),
            trust: Some(Trusting::Isolated.name()),
            ..ReportLine::default()
        };
        match row {
            PortRow::One(what) => {
                one_case(&peer, ReportLine { op: Some(what.name()), ..line }, (fabric, wait), what)
            }
            PortRow::Multicast { receivers, is_cpu } => {
                let line = ReportLine { peers: Some(receivers), bytes: MULTICAST_BYTES, ..line };
                multicast_case(&peer, line, (fabric, wait), receivers, is_cpu)
            }
        }
    });
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

fn rows(what: PortMeasure, receivers: &[u32]) -> Vec<PortRow> {
    if what != PortMeasure::Multicast {
        return vec![PortRow::One(what)];
    }
    let both =
        |&receivers: &u32| [false, true].map(|is_cpu| PortRow::Multicast { receivers, is_cpu });
    receivers.iter().flat_map(both).collect()
}

fn one_case(
    peer: &Rc<FollowerProcess>,
    line: ReportLine,
    how: (&'static str, WaitMode),
    what: PortMeasure,
) -> Result<Case> {
    match what {
        PortMeasure::Ping => against_am(peer, line, how, Box::new(PortPing::new(peer, how)?)),
        PortMeasure::Upcall => against_am(peer, line, how, Box::new(PortUpcalls::new(peer, how)?)),
        PortMeasure::Stream => stream_case(peer, line, how),
        PortMeasure::Tree => tree_case(peer, line, how),
        PortMeasure::Multicast => multicast_case(peer, line, how, 1, false),
    }
}

/// Messages without bytes, each answered, held against an active message and its answer.
fn against_am(
    peer: &Rc<FollowerProcess>,
    line: ReportLine,
    (fabric, wait): (&'static str, WaitMode),
    subject: Box<dyn Probe>,
) -> Result<Case> {
    let (what, host, words, bytes) = (RequestMeasure::Requests, host("am"), 0, 0);
    let fabric_of_task = fabric.to_owned();
    let task = RequestTask {
        fabric: fabric_of_task,
        wait,
        what,
        words,
        bytes,
        copied: 0,
        window: 1,
        host,
    };
    let limit = Box::new(RequestSender::new(peer, task)?);
    let against = with_slot(peer, (AM, limit), fabric, bytes)?;
    let line = ReportLine { limit: AM, ..line };
    Ok(Case { line, unit: Unit::Nanos, subject, against, rounds: None })
}

/// Arrays out of a vector, held against messages of the virtual interface out of a pool.
fn stream_case(
    peer: &Rc<FollowerProcess>,
    line: ReportLine,
    how: (&'static str, WaitMode),
) -> Result<Case> {
    let limit = vi(peer, how, STREAM_BYTES)?;
    let streams = PortStreams::new(peer, how, PortMeasure::Stream, 1)?;
    let floats = vec![0.0; STREAM_BYTES / size_of::<f64>()];
    let rewrite = |floats: &mut Vec<f64>, round| floats.fill(mark(round).into());
    let subject = Box::new(PortSender::new(&streams, floats, rewrite)?);
    let (unit, against) = (Unit::Megabytes, Against::Limit(Box::new(limit)));
    let line = ReportLine { bytes: STREAM_BYTES, limit: VI, ..line };
    Ok(Case { line, unit, subject, against, rounds: None })
}

fn tree_case(
    peer: &Rc<FollowerProcess>,
    line: ReportLine,
    how: (&'static str, WaitMode),
) -> Result<Case> {
    let bytes = tree_bytes()?;
    let limit = SlowestPart::new(vi(peer, how, bytes)?, bytes)?;
    let streams = PortStreams::new(peer, how, PortMeasure::Tree, 1)?;
    let tree = *nodes(NODES).context("it has nodes")?;
    let rewrite = |tree: &mut TreeNode, round| tree.set_mark(mark(round));
    let subject = Box::new(PortSender::new(&streams, tree, rewrite)?);
    let (unit, against) = (Unit::Megabytes, Against::Limit(Box::new(limit)));
    let line = ReportLine { payload: Some("tree1023"), bytes, limit: SLOWEST_PART, ..line };
    Ok(Case { line, unit, subject, against, rounds: None })
}

/// The same bytes to several receive ports by one send port, held against a send port for each; or the processor's time of one
/// message, held against that of one to a single receive port.
fn multicast_case(
    peer: &Rc<FollowerProcess>,
    line: ReportLine,
    how: (&'static str, WaitMode),
    receivers: u32,
    is_cpu: bool,
) -> Result<Case> {
    let streams = |receivers| PortStreams::new(peer, how, PortMeasure::Multicast, receivers);
    let rewrite = |bytes: &mut Vec<u8>, round| fill(bytes, round);
    let bytes = || vec![0; MULTICAST_BYTES];
    let all = streams(receivers)?;
    let subject = PortSender::new(&all, bytes(), rewrite)?;
    let rounds = None;
    if is_cpu {
        let limit = PortSender::new(&streams(1)?, bytes(), rewrite)?.of_cpu();
        let (subject, against) = (Box::new(subject.of_cpu()), Against::Limit(Box::new(limit)));
        let line = ReportLine { op: Some("multicast-cpu"), limit: UNICAST, ..line };
        return Ok(Case { line, unit: Unit::Nanos, subject, against, rounds });
    }
    let limit = PortSender::by_each(&all, bytes(), rewrite)?;
    let (subject, against) = (Box::new(subject), Against::Limit(Box::new(limit)));
    let line = ReportLine { op: Some(PortMeasure::Multicast.name()), limit: UNICASTS, ..line };
    Ok(Case { line, unit: Unit::Megabytes, subject, against, rounds })
}

/// Messages of so many bytes over the virtual interface, one way.
fn vi(peer: &Rc<FollowerProcess>, (fabric, wait): (&str, WaitMode), bytes: usize) -> Result<Led> {
    Led::new(peer, DuoPlan { wait, ..DuoPlan::new(fabric, bytes, Answers::Never) })
}

const NAME: &str = "port";
/// An active message and its answer.
const AM: &str = "am";
/// The virtual interface.
const VI: &str = "vi";
/// The slowest of writing a tree, reading it, and its bytes over the virtual interface.
const SLOWEST_PART: &str = "slowest-part";
/// A message to one receive port, or to each of them by a send port of its own.
const UNICAST: &str = "unicast";
const UNICASTS: &str = "unicasts";
/// Receive ports of a multicast, if nothing is said.
const RECEIVERS: [u32; 4] = [1, 2, 3, 4];
/// Of an array.
const STREAM_BYTES: usize = 100_000;
/// Of a message to several receive ports.
const MULTICAST_BYTES: usize = 64 << 10;
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::OP,
    ReportColumn::PEERS,
    ReportColumn::SIZE,
    ReportColumn::P50,
    ReportColumn::P99,
    ReportColumn::MB_S,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_NS,
    ReportColumn::LIMIT_MB_S,
    ReportColumn::RATIO,
    ReportColumn::OF_SLOT,
    ReportColumn::SPREAD,
];
