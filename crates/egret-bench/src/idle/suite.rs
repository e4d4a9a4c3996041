//! `egret bench idle`: what a connection costs while nothing goes over it.

use std::rc::Rc;

use anyhow::{Context, Result};

use super::quiet::{QUIET, QuietKind, Quietness};
use super::still::{STILL, StillMeasure, Stillness, kernel_memory};
use crate::Suite;
use crate::args::{Common, Usage, between_processes};
use crate::machine;
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Probe, Sample};
use crate::peer::{FollowerProcess, PeerFigures, PeerStation};
use crate::vi::duo::{Answers, DuoPlan, Led, WaitMode, host};

/// What connections cost while nothing goes over them.
///
/// Memory: two processes open connections, and each looks how much more of its
/// memory is resident. Over shared memory counted is the side that has more, all
/// of what it shares included, or `both`, each page once; over a network the
/// side that has more, and half of what the kernel has for sockets, if it can be
/// read. `used` connections carried messages before.
/// CPU: a process with all of them waits for a message that does not come.
/// Slow-down, over a network: round trips of a connection beside the idle ones,
/// held against one that is alone. Memory and CPU are held against what they may
/// cost: over shared memory 48 KiB a connection that was opened and 160 KiB one that
/// was used, 32 KiB over a network, 1 % of a core.
/// Mapped endpoints and channels, over one link: the memory of each on the side that
/// has more, which may be 4 KiB.
#[derive(Debug, clap::Args)]
pub(crate) struct IdleArgs {
    /// What the connections are over: shm, tcp or udp
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    /// How many connections to open
    #[arg(long, value_name = "N", default_value = "64")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=20_000))]
    connections: u32,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) fn suite(args: &IdleArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let fabric = between_processes(&args.fabric)?;
    let connections = args.connections;
    if fabric == "shm" && connections > SHM_MAX {
        return Err(Usage(format!("{SHM_MAX} connections at most over {fabric}")).into());
    }
    machine::open_many();
    let millis = if args.common.quick { 50 } else { 1000 };
    let many = if args.common.quick { MANY / 10 } else { MANY };
    let looks = looks(fabric, connections, millis, many);
    // Started when it is needed: it pins this process, and whatever that starts then.
    let mut peer: Option<Rc<FollowerProcess>> = None;
    let cases = looks.into_iter().map(move |(look, wait)| match look {
        Look::Still(what) => Ok(case(fabric, what, wait)),
        Look::Quiet(kind, many) => Ok(quiet(fabric, kind, many, wait)),
        Look::Beside => {
            let started = peer.take().map_or_else(|| FollowerProcess::start().map(Rc::new), Ok)?;
            slow_down(peer.insert(started), fabric, connections, wait)
        }
    });
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

/// What is looked at.
enum Look {
    /// Connections over which nothing goes.
    Still(StillMeasure),
    /// One beside them.
    Beside,
    /// So many of what a link carries.
    Quiet(QuietKind, u32),
}

fn looks(fabric: &str, connections: u32, millis: u64, many: u32) -> Vec<(Look, WaitMode)> {
    let memory = |used, both| Look::Still(StillMeasure::Memory { connections, used, both });
    let cpu = || Look::Still(StillMeasure::Cpu { connections, millis });
    let mut looks = vec![(memory(false, false), WaitMode::Balanced)];
    if fabric == SHM {
        looks.push((memory(false, true), WaitMode::Balanced));
    }
    looks.push((memory(true, false), WaitMode::Balanced));
    if fabric == SHM {
        looks.push((memory(true, true), WaitMode::Balanced));
    }
    looks.extend([WaitMode::Balanced, WaitMode::Frugal].map(|wait| (cpu(), wait)));
    if fabric != SHM {
        looks.extend([WaitMode::Spin, WaitMode::Frugal].map(|wait| (Look::Beside, wait)));
    }
    let quiet = |kind| (Look::Quiet(kind, many), WaitMode::Balanced);
    looks.extend([QuietKind::Endpoints, QuietKind::Channels].map(quiet));
    looks
}

fn case(fabric: &'static str, what: StillMeasure, wait: WaitMode) -> Case {
    let (op, connections, unit, allowed) = match what {
        StillMeasure::Memory { connections, used, both } => {
            let op = match (used, both) {
                (false, false) => "opened",
                (false, true) => "opened both",
                (true, false) => "used",
                (true, true) => "used both",
            };
            let allowed = match used {
                _ if fabric != SHM => BYTES,
                true => SHM_USED_BYTES,
                false => SHM_OPENED_BYTES,
            };
            (op, connections, Unit::Bytes, allowed)
        }
        StillMeasure::Cpu { connections, .. } => ("waiting", connections, Unit::Cpu, CPU),
    };
    let line = ReportLine { limit: "allowed", ..line(fabric, op, connections, wait) };
    let subject = Box::new(IdleWatch { fabric, what, wait });
    Case { line, unit, subject, against: Against::Allowance(allowed), rounds: Some(1) }
}

fn line(fabric: &'static str, op: &'static str, connections: u32, wait: WaitMode) -> ReportLine {
    ReportLine {
        bench: NAME,
        fabric: Some(fabric),
        wait: Some(wait.name()),
        trust: Some("isolated"),
        op: Some(op),
        connections: Some(connections),
        ..ReportLine::default()
    }
}

/// Round trips beside idle connections, and without them.
fn slow_down(
    peer: &Rc<FollowerProcess>,
    fabric: &'static str,
    connections: u32,
    wait: WaitMode,
) -> Result<Case> {
    let beside = |idle| {
        let answers = Answers::Each(ACTIVE_BYTES);
        Led::new(peer, DuoPlan { wait, idle, ..DuoPlan::new(fabric, ACTIVE_BYTES, answers) })
    };
    let (subject, alone) = (Box::new(beside(connections)?), Box::new(beside(0)?));
    let line = line(fabric, "active", connections, wait);
    let line = ReportLine { bytes: ACTIVE_BYTES, limit: "alone", ..line };
    Ok(Case { line, unit: Unit::Nanos, subject, against: Against::Limit(alone), rounds: None })
}

/// Looks at two processes that were started for it.
struct IdleWatch {
    fabric: &'static str,
    what: StillMeasure,
    wait: WaitMode,
}

impl Probe for IdleWatch {
    fn run(&mut self, _: u64) -> Result<Sample> {
        let Self { fabric, what, wait } = *self;
        let host = host("idle");
        let side = |to: Option<&str>| -> Result<PeerStation> {
            let (fabric, host, to) = (fabric.to_owned(), host.clone(), to.map(str::to_owned));
            let stillness = Stillness { fabric, what, wait, host, to };
            Rc::new(FollowerProcess::start_anywhere()?).open(&STILL, &stillness, &[])
        };
        let listens = side(None)?;
        let dials = side(Some(&listens.host))?;
        let sides = [listens, dials];
        let figure = match what {
            StillMeasure::Memory { connections, both, .. } => {
                // The first has the nics and whatever else there is once.
                let (before, kernel) = (at_once(&sides, 1)?, kernel_memory());
                // A few at a time: with many connections all would take longer than a reply may.
                for open in (1..u64::from(connections)).step_by(AT_ONCE) {
                    at_once(&sides, open)?;
                }
                at_once(&sides, 1 + u64::from(connections))?;
                let after = at_once(&sides, 1 + u64::from(connections))?;
                let grown = after.iter().zip(before).map(|(after, before)| after - before);
                let of_all = if both { grown.sum() } else { grown.fold(0.0, f64::max) };
                // Each end of a connection has a socket.
                let kernel = if fabric == SHM { 0.0 } else { kernel_memory() - kernel };
                (of_all + kernel / 2.0) / f64::from(connections)
            }
            StillMeasure::Cpu { connections, millis } => {
                at_once(&sides, connections.into())?;
                sides[1].begin(millis)?;
                sides[1].end()?.into_iter().sum()
            }
        };
        Ok(Sample::Value(figure))
    }
}

fn quiet(fabric: &'static str, kind: QuietKind, many: u32, wait: WaitMode) -> Case {
    let op = match kind {
        QuietKind::Endpoints => "mapped endpoint",
        QuietKind::Channels => "channel",
    };
    let line = ReportLine { limit: "allowed", ..line(fabric, op, many, wait) };
    let subject = Box::new(QuietWatch { fabric, kind, many, wait });
    let against = Against::Allowance(QUIET_BYTES);
    Case { line, unit: Unit::Bytes, subject, against, rounds: Some(1) }
}

/// Looks at two processes that have endpoints mapped or channels open.
struct QuietWatch {
    fabric: &'static str,
    kind: QuietKind,
    many: u32,
    wait: WaitMode,
}

impl Probe for QuietWatch {
    fn run(&mut self, _: u64) -> Result<Sample> {
        let host = host("idle");
        let side = |to: Option<&str>| -> Result<PeerStation> {
            let (fabric, host, to) = (self.fabric.to_owned(), host.clone(), to.map(str::to_owned));
            let (wait, kind) = (self.wait, self.kind);
            let quietness = Quietness { fabric, wait, kind, host, to };
            Rc::new(FollowerProcess::start_anywhere()?).open(&QUIET, &quietness, &[])
        };
        let serves = side(None)?;
        let maps = side(Some(&serves.host))?;
        let sides = [serves, maps];
        // The first has the link.
        let before = at_once(&sides, 1)?;
        let after = at_once(&sides, 1 + u64::from(self.many))?;
        let grown = after.iter().zip(before).map(|(after, before)| after - before);
        Ok(Sample::Value(grown.fold(0.0, f64::max) / f64::from(self.many)))
    }
}

/// Lets both sides do `rounds`; the figure of each.
fn at_once(sides: &[PeerStation], rounds: u64) -> Result<PeerFigures> {
    for side in sides {
        side.begin(rounds)?;
    }
    sides.iter().map(|side| side.end()?.into_iter().next().context("no figure")).collect()
}

const NAME: &str = "idle";
const SHM: &str = "shm";
/// A connection over shared memory takes more memory, and more descriptors.
const SHM_MAX: u32 = 2000;
/// How many are opened in one run.
const AT_ONCE: usize = 50;
/// What a connection may take.
const SHM_OPENED_BYTES: f64 = 48.0 * 1024.0;
const SHM_USED_BYTES: f64 = 160.0 * 1024.0;
const BYTES: f64 = 32.0 * 1024.0;
/// What a mapped endpoint or a channel may take, and how many are looked at.
const QUIET_BYTES: f64 = 4096.0;
const MANY: u32 = 1000;
/// What part of a core a blocked waiter may take.
const CPU: f64 = 0.01;
/// Of a message beside the idle connections.
const ACTIVE_BYTES: usize = 4;
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::OP,
    ReportColumn::WAIT,
    ReportColumn::CONNECTIONS,
    ReportColumn::KIB,
    ReportColumn::CPU,
    ReportColumn::P50,
    ReportColumn::RATIO,
    ReportColumn::SPREAD,
];
