//! `egret bench limits`: what this machine can do without egret.

use std::rc::Rc;

use crate::limit::{Copying, HeapBlocks, MachineLimit, clone_of};
use anyhow::Result;
use clap::ValueEnum;

use crate::Suite;
use crate::args::Common;
use crate::machine;
use crate::measure::probe::{Batches, Linked};
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Probe};
use crate::pairs::{Bare, PAIRS, rounds};
use crate::peer::FollowerProcess;

/// What this machine can do: the limits that the other benchmarks are held against.
///
/// Round trips and rates between two processes (shared memory, eventfd,
/// loopback TCP and UDP, the cipher of encrypted connections), and in one (memcpy, malloc+free, clone of a vector); and the
/// time of pairs of processes on all cores at once.
#[derive(Debug, clap::Args)]
pub(crate) struct LimitsArgs {
    /// Only the limits of this fabric
    #[arg(long)]
    fabric: Option<LimitFabric>,
    /// Only the limits of those who wait like this
    #[arg(long)]
    wait: Option<LimitWait>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LimitFabric {
    /// Two processes of one machine
    Shm,
    /// Loopback TCP
    Tcp,
    /// Loopback UDP
    Udp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LimitWait {
    /// Look again and again
    Spin,
    /// Sleep until woken
    Frugal,
}

/// A limit of this benchmark at one size.
#[derive(Debug, Clone, Copy)]
enum LimitCase {
    Linked(MachineLimit),
    /// So many rounds of each pair.
    Pairs {
        rounds: u64,
    },
    Memcpy,
    MallocFree,
    Clone,
}

pub(crate) fn suite(args: &LimitsArgs) -> Result<Suite> {
    let sizes = args.common.sizes_or(&SIZES);
    let plan: Vec<(LimitCase, usize)> =
        kinds(args).flat_map(|kind| each_size(kind, &sizes)).collect();
    // Before this process is pinned to one of them.
    let cores = machine::allowed()?;
    let peer = Rc::new(FollowerProcess::start()?);
    let cases = plan.into_iter().map(move |(kind, bytes)| case(&peer, &cores, kind, bytes));
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

/// The limits asked for; those of one process are of no fabric and never wait.
fn kinds(args: &LimitsArgs) -> impl Iterator<Item = LimitCase> {
    let linked = MachineLimit::ALL.into_iter().filter(|&limit| {
        // Of two processes alone it is no limit.
        !matches!(limit, MachineLimit::SwitchYield | MachineLimit::SwitchFutex)
            && args.fabric.is_none_or(|fabric| fabric == fabric_of(limit))
            && args.wait.is_none_or(|wait| wait == wait_of(limit))
    });
    let alone = [LimitCase::Memcpy, LimitCase::MallocFree, LimitCase::Clone];
    let all = args.fabric.is_none() && args.wait.is_none();
    // They yield or sleep, whatever is better.
    let pairs = args.wait.is_none() && args.fabric.is_none_or(|fabric| fabric == LimitFabric::Shm);
    let pairs = pairs.then_some(LimitCase::Pairs { rounds: rounds(&args.common) });
    linked.map(LimitCase::Linked).chain(pairs).chain(alone.into_iter().filter(move |_| all))
}

fn each_size(kind: LimitCase, sizes: &[usize]) -> Vec<(LimitCase, usize)> {
    let fixed = match kind {
        LimitCase::Linked(limit) => limit.fixed_bytes(),
        LimitCase::Pairs { .. } => MachineLimit::SwitchYield.fixed_bytes(),
        LimitCase::Memcpy | LimitCase::MallocFree | LimitCase::Clone => None,
    };
    let max = match kind {
        LimitCase::Linked(limit) => limit.bytes_max(),
        _ => usize::MAX,
    };
    match fixed {
        Some(bytes) => vec![(kind, bytes)],
        None => sizes.iter().filter(|&&bytes| bytes <= max).map(|&bytes| (kind, bytes)).collect(),
    }
}

fn case(
    peer: &Rc<FollowerProcess>,
    cores: &[usize],
    kind: LimitCase,
    bytes: usize,
) -> Result<Case> {
    let (limit, wait, unit) = match kind {
        LimitCase::Linked(limit) => (limit.name(), Some(wait_name(wait_of(limit))), unit_of(limit)),
        LimitCase::Pairs { .. } => (MachineLimit::SwitchYield.name(), None, Unit::Run),
        LimitCase::Memcpy => ("memcpy", None, Unit::Nanos),
        LimitCase::MallocFree => ("malloc+free", None, Unit::Nanos),
        LimitCase::Clone => ("clone", None, Unit::Nanos),
    };
    let subject: Box<dyn Probe> = match kind {
        LimitCase::Linked(limit) => Box::new(Linked::new(peer, limit, bytes)?),
        LimitCase::Pairs { .. } => Box::new(Bare::start(PAIRS, cores)?),
        LimitCase::Memcpy => {
            let mut copying = Copying::new(bytes);
            Box::new(Batches::new(batch(bytes), move |count| copying.copy(count)))
        }
        LimitCase::MallocFree => {
            let heap = HeapBlocks::new(bytes);
            Box::new(Batches::new(BATCH_MAX, move |count| heap.malloc_free(count)))
        }
        LimitCase::Clone => {
            let value = vec![1_u8; bytes];
            let held = batch(bytes);
            Box::new(Batches::new(held, move |count| clone_of(&value, count, held)))
        }
    };
    let mut line = ReportLine { bench: NAME, wait, bytes, limit, ..ReportLine::default() };
    if let LimitCase::Pairs { rounds } = kind {
        (line.pairs, line.cores, line.rounds) = (Some(PAIRS), Some(cores.len()), Some(rounds));
    }
    let rounds = line.rounds;
    Ok(Case { line, unit, subject, against: Against::Nothing, rounds })
}

/// As many operations on `bytes` as make a batch worth timing.
fn batch(bytes: usize) -> usize {
    (BATCH_BYTES / bytes).clamp(1, BATCH_MAX)
}

fn fabric_of(limit: MachineLimit) -> LimitFabric {
    match limit {
        MachineLimit::TcpSpin
        | MachineLimit::TcpFrugal
        | MachineLimit::TcpBandwidth
        | MachineLimit::TcpWrite => LimitFabric::Tcp,
        MachineLimit::AeadTrip | MachineLimit::AeadBandwidth | MachineLimit::TcpConnect => {
            LimitFabric::Tcp
        }
        MachineLimit::UdpSpin
        | MachineLimit::UdpFrugal
        | MachineLimit::UdpBandwidth
        | MachineLimit::UdpSend => LimitFabric::Udp,
        _ => LimitFabric::Shm,
    }
}

fn wait_of(limit: MachineLimit) -> LimitWait {
    match limit {
        MachineLimit::Eventfd
        | MachineLimit::TcpFrugal
        | MachineLimit::TcpBandwidth
        | MachineLimit::TcpWrite
        | MachineLimit::TcpConnect
        | MachineLimit::UdpFrugal
        | MachineLimit::UdpBandwidth
        | MachineLimit::UdpSend => LimitWait::Frugal,
        _ => LimitWait::Spin,
    }
}

fn wait_name(wait: LimitWait) -> &'static str {
    match wait {
        LimitWait::Spin => "spin",
        LimitWait::Frugal => "frugal",
    }
}

fn unit_of(limit: MachineLimit) -> Unit {
    match limit {
        MachineLimit::ShmRing
        | MachineLimit::TcpBandwidth
        | MachineLimit::UdpBandwidth
        | MachineLimit::AeadBandwidth => Unit::Megabytes,
        MachineLimit::LineRing
        | MachineLimit::LineEcho
        | MachineLimit::TcpWrite
        | MachineLimit::UdpSend => Unit::Messages,
        _ => Unit::Nanos,
    }
}

const NAME: &str = "limits";
const SIZES: [usize; 4] = [4, 1 << 10, 64 << 10, 1 << 20];
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::LIMIT,
    ReportColumn::WAIT,
    ReportColumn::SIZE,
    ReportColumn::P50,
    ReportColumn::P99,
    ReportColumn::MB_S,
    ReportColumn::MSG_S,
    ReportColumn::RUN_MS,
    ReportColumn::SPREAD,
];
const BATCH_BYTES: usize = 256 << 10;
const BATCH_MAX: usize = 1000;
