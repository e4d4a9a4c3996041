//! `egret bench graph`: objects that refer to each other, made, checked, visited, sent and
//! handed over.

use std::rc::Rc;

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::memory;
use super::pair::Between;
use super::shape::GraphShape;
use crate::Suite;
use crate::args::Common;
use crate::machine::{self, BenchCores};
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case};
use crate::peer::FollowerProcess;
use crate::side::Mode;
use crate::vi::duo::{Trusting, WaitMode};

/// What graphs of objects cost: made, checked, visited, sent and handed over
///
/// In memory, "build" is held against the same of Rc<RefCell>, "validate" (what a receiver does
/// before it uses a graph) against copying it, and "visit" against the same walk over objects in
/// vectors, and over boxes for the tree. Between two processes, "transfer" is a graph there and
/// an answer back when it can be used, against a message of as many bytes and the time to
/// validate them; "handover" is a graph given to the other process, which changes it and gives it
/// back, against a buffer of 4 bytes.
#[derive(Debug, clap::Args)]
pub(crate) struct GraphArgs {
    /// Where: memory is one process, shm, tcp and udp are two
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "memory,shm,tcp")]
    fabric: Vec<GraphPlace>,
    /// How to wait for the other process
    #[arg(long, default_value = "spin")]
    wait: WaitMode,
    /// Which graphs: a tree, and maps of so many objects
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "tree1023,map29,map355,map1760,map100k,map1m"
    )]
    graphs: Vec<GraphShape>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GraphPlace {
    Memory,
    Shm,
    Tcp,
    Udp,
}

impl GraphPlace {
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// What is done with a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GraphOp {
    Build,
    Validate,
    Visit,
    /// Of the tree, against boxes.
    VisitBoxes,
    /// From heap to heap.
    Transfer,
    /// From pool to pool.
    TransferPosted,
    Handover,
}

impl GraphOp {
    const fn name(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::Validate => "validate",
            Self::Visit | Self::VisitBoxes => "visit",
            Self::Transfer | Self::TransferPosted => "transfer",
            Self::Handover => "handover",
        }
    }

    /// What is done with a graph at a place.
    fn all(place: GraphPlace, which: GraphShape) -> Vec<Self> {
        match (place, which) {
            (GraphPlace::Memory, GraphShape::Tree1023) => {
                vec![Self::Build, Self::Validate, Self::VisitBoxes, Self::Visit]
            }
            (GraphPlace::Memory, _) => vec![Self::Build, Self::Validate, Self::Visit],
            (GraphPlace::Shm, _) => vec![Self::Transfer, Self::TransferPosted, Self::Handover],
            (GraphPlace::Tcp | GraphPlace::Udp, _) => vec![Self::Transfer, Self::TransferPosted],
        }
    }
}

pub(crate) fn suite(args: &GraphArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let peer = match args.fabric[..] {
        [GraphPlace::Memory] => alone()?,
        _ => Some(Rc::new(FollowerProcess::start()?)),
    };
    memory::settle_heap();
    let mut all = Vec::new();
    for &place in &args.fabric {
        for &which in &args.graphs {
            all.extend(GraphOp::all(place, which).into_iter().map(|op| (place, which, op)));
        }
    }
    let wait = args.wait;
    let cases = all.into_iter().map(move |(place, which, op)| {
        let between = peer.as_ref().map(|peer| Between { peer, fabric: place.name(), wait, which });
        case(place, which, op, between)
    });
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

/// Pins this process, which needs no other.
fn alone() -> Result<Option<Rc<FollowerProcess>>> {
    if let Some(cores) = BenchCores::choose()? {
        machine::pin(&[cores.leader])?;
    }
    Ok(None)
}

fn case(
    place: GraphPlace,
    which: GraphShape,
    op: GraphOp,
    between: Option<Between<'_>>,
) -> Result<Case> {
    let two = || between.context("a second process");
    let (held, mode, trust) = match op {
        GraphOp::Build => (memory::build(which), None, None),
        GraphOp::Validate => (memory::validate(which), None, None),
        GraphOp::Visit => (memory::visit(which), None, None),
        GraphOp::VisitBoxes => (memory::visit_boxes(which), None, None),
        GraphOp::Transfer => (two()?.transfer(Mode::Fresh)?, Some(Mode::Fresh), Some(ISOLATED)),
        GraphOp::TransferPosted => {
            (two()?.transfer(Mode::Posted)?, Some(Mode::Posted), Some(ISOLATED))
        }
        GraphOp::Handover => {
            (two()?.handover()?, Some(Mode::Handover), Some(Trusting::Cooperating.name()))
        }
    };
    let line = ReportLine {
        bench: NAME,
        fabric: Some(place.name()),
        mode: mode.map(Mode::name),
        wait: between.filter(|_| place != GraphPlace::Memory).map(|between| between.wait.name()),
        trust,
        payload: Some(which.name()),
        op: Some(op.name()),
        objects: Some(which.objects()),
        bytes: held.bytes,
        limit: held.limit,
        ..ReportLine::default()
    };
    let (subject, against) = (held.subject, Against::Limit(held.least));
    Ok(Case { line, unit: Unit::Nanos, subject, against, rounds: None })
}

const ISOLATED: &str = Trusting::Isolated.name();
const NAME: &str = "graph";
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::PAYLOAD,
    ReportColumn::OP,
    ReportColumn::FABRIC,
    ReportColumn::MODE,
    ReportColumn::SIZE,
    ReportColumn::P50,
    ReportColumn::P99,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_NS,
    ReportColumn::RATIO,
    ReportColumn::SPREAD,
];
