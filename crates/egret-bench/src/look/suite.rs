//! `egret bench look`: what idle connections cost who looks for messages.

use std::process;
use std::rc::Rc;

use anyhow::Result;
use egret::rt;

use super::many::{ManyLeader, ManyPlan};
use crate::Suite;
use crate::args::{Common, between_processes};
use crate::machine;
use crate::measure::probe::{Batches, with_slot};
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Probe};
use crate::peer::FollowerProcess;
use crate::side::Mode;
use crate::vi;
use crate::vi::duo::{Trusting, WaitMode};

/// What idle connections cost who looks for messages
///
/// "look": one poll of a nic that finds nothing, with so many connections. "found": a
/// message of 4 bytes over one of them and its answer, each time over another one, which
/// was idle; both sides look everywhere. Held against the same with one connection, and what is
/// found over shm against shm-slot ("of slot").
#[derive(Debug, clap::Args)]
pub(crate) struct LookArgs {
    /// How many connections the nic has
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0,64,1024",
          value_parser = clap::value_parser!(u32).range(0..=4096))]
    peers: Vec<u32>,
    /// What the connections are over: shm, tcp or udp
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LookMeasure {
    Look,
    Found,
}

pub(crate) fn suite(args: &LookArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let fabric = between_processes(&args.fabric)?;
    let looks = args.peers.iter().map(|&peers| (LookMeasure::Look, peers));
    // Without a connection there is nothing to find.
    let found = args.peers.iter().filter(|peers| **peers > 0);
    let rows: Vec<_> = looks.chain(found.map(|&peers| (LookMeasure::Found, peers))).collect();
    machine::open_many();
    let peer = Rc::new(FollowerProcess::start()?);
    let cases = rows.into_iter().map(move |(what, peers)| {
        let many = |connections| {
            let host = format!("look-{}-{:x}", process::id(), rt::random());
            let (fabric, wait) = (fabric.to_owned(), WaitMode::Spin);
            ManyLeader::new(&peer, &ManyPlan { fabric, wait, connections, host })
        };
        let (subject, one) = (what.probe(many(peers)?), what.probe(many(1)?));
        let line = ReportLine {
            bench: NAME,
            fabric: Some(fabric),
            mode: Some(Mode::Posted.name()),
            ring: vi::ring(fabric, false),
            wait: Some(WaitMode::Spin.name()),
            trust: Some(Trusting::Isolated.name()),
            op: Some(what.name()),
            peers: Some(peers),
            limit: ONE,
            ..ReportLine::default()
        };
        let against = match what {
            LookMeasure::Look => Against::Limit(one),
            LookMeasure::Found => with_slot(&peer, (ONE, one), fabric, 0)?,
        };
        Ok(Case { line, unit: Unit::Nanos, subject, against, rounds: None })
    });
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

impl LookMeasure {
    const fn name(self) -> &'static str {
        match self {
            Self::Look => "look",
            Self::Found => "found",
        }
    }

    fn probe(self, many: ManyLeader) -> Box<dyn Probe> {
        match self {
            Self::Look => Box::new(Batches::new(POLLS, move |polls| many.look(polls))),
            Self::Found => Box::new(many),
        }
    }
}

const NAME: &str = "look";
const ONE: &str = "one-peer";
/// Of one batch.
const POLLS: usize = 100;
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::OP,
    ReportColumn::PEERS,
    ReportColumn::P50,
    ReportColumn::P99,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_NS,
    ReportColumn::RATIO,
    ReportColumn::OF_SLOT,
    ReportColumn::SPREAD,
];
