//! `egret bench limits`: what this machine can do without egret.

use std::rc::Rc;

use anyhow::Result;
use clap::ValueEnum;
use egret::net::limit::{Copying, Heap, Limit, clone_of};

use super::Suite;
use super::args::Common;
use super::bare::Bare;
use super::machine;
use super::measure::{Against, Case, Probe, Unit};
use super::pairs::{PAIRS, rounds};
use super::peer::Peer;
use super::probe::{Batches, Linked};
use super::report::{Column, Line};

/// What this machine can do: the limits that the other benchmarks are held against.
///
/// Round trips and rates between two processes (shared memory, eventfd,
/// loopback TCP and UDP, the cipher of encrypted connections), and in one (memcpy, malloc+free, clone of a vector); and the
/// time of pairs of processes on all cores at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only the limits of this fabric
    #[arg(long)]
    fabric: Option<Fabric>,
    /// Only the limits of those who wait like this
    #[arg(long)]
    wait: Option<Wait>,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Fabric {
    /// Two processes of one machine
    Shm,
    /// Loopback TCP
    Tcp,
    /// Loopback UDP
    Udp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Wait {
    /// Look again and again
    Spin,
    /// Sleep until woken
    Frugal,
}

/// A limit of this benchmark at one size.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Linked(Limit),
    /// So many rounds of each pair.
    Pairs {
        rounds: u64,
    },
    Memcpy,
    MallocFree,
    Clone,
}

pub(crate) fn suite(args: &Args) -> Result<Suite> {
    let sizes = args.common.sizes_or(&SIZES);
    let plan: Vec<(Kind, usize)> = kinds(args).flat_map(|kind| each_size(kind, &sizes)).collect();
    // Before this process is pinned to one of them.
    let cores = machine::allowed()?;
    let peer = Rc::new(Peer::start()?);
    let cases = plan.into_iter().map(move |(kind, bytes)| case(&peer, &cores, kind, bytes));
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

/// The limits asked for; those of one process are of no fabric and never wait.
fn kinds(args: &Args) -> impl Iterator<Item = Kind> {
    let linked = Limit::ALL.into_iter().filter(|&limit| {
        // Of two processes alone it is no limit.
        !matches!(limit, Limit::SwitchYield | Limit::SwitchFutex)
            && args.fabric.is_none_or(|fabric| fabric == fabric_of(limit))
            && args.wait.is_none_or(|wait| wait == wait_of(limit))
    });
    let alone = [Kind::Memcpy, Kind::MallocFree, Kind::Clone];
    let all = args.fabric.is_none() && args.wait.is_none();
    // They yield or sleep, whatever is better.
    let pairs = args.wait.is_none() && args.fabric.is_none_or(|fabric| fabric == Fabric::Shm);
    let pairs = pairs.then_some(Kind::Pairs { rounds: rounds(&args.common) });
    linked.map(Kind::Linked).chain(pairs).chain(alone.into_iter().filter(move |_| all))
}

fn each_size(kind: Kind, sizes: &[usize]) -> Vec<(Kind, usize)> {
    let fixed = match kind {
        Kind::Linked(limit) => limit.fixed_bytes(),
        Kind::Pairs { .. } => Limit::SwitchYield.fixed_bytes(),
        Kind::Memcpy | Kind::MallocFree | Kind::Clone => None,
    };
    let max = match kind {
        Kind::Linked(limit) => limit.bytes_max(),
        _ => usize::MAX,
    };
    match fixed {
        Some(bytes) => vec![(kind, bytes)],
        None => sizes.iter().filter(|&&bytes| bytes <= max).map(|&bytes| (kind, bytes)).collect(),
    }
}

fn case(peer: &Rc<Peer>, cores: &[usize], kind: Kind, bytes: usize) -> Result<Case> {
    let (limit, wait, unit) = match kind {
        Kind::Linked(limit) => (limit.name(), Some(wait_name(wait_of(limit))), unit_of(limit)),
        Kind::Pairs { .. } => (Limit::SwitchYield.name(), None, Unit::Run),
        Kind::Memcpy => ("memcpy", None, Unit::Nanos),
        Kind::MallocFree => ("malloc+free", None, Unit::Nanos),
        Kind::Clone => ("clone", None, Unit::Nanos),
    };
    let subject: Box<dyn Probe> = match kind {
        Kind::Linked(limit) => Box::new(Linked::new(peer, limit, bytes)?),
        Kind::Pairs { .. } => Box::new(Bare::start(PAIRS, cores)?),
        Kind::Memcpy => {
            let mut copying = Copying::new(bytes);
            Box::new(Batches::new(batch(bytes), move |count| copying.copy(count)))
        }
        Kind::MallocFree => {
            let heap = Heap::new(bytes);
            Box::new(Batches::new(BATCH_MAX, move |count| heap.malloc_free(count)))
        }
        Kind::Clone => {
            let value = vec![1_u8; bytes];
            let held = batch(bytes);
            Box::new(Batches::new(held, move |count| clone_of(&value, count, held)))
        }
    };
    let mut line = Line { bench: NAME, wait, bytes, limit, ..Line::default() };
    if let Kind::Pairs { rounds } = kind {
        (line.pairs, line.cores, line.rounds) = (Some(PAIRS), Some(cores.len()), Some(rounds));
    }
    let rounds = line.rounds;
    Ok(Case { line, unit, subject, against: Against::Nothing, rounds })
}

/// As many operations on `bytes` as make a batch worth timing.
fn batch(bytes: usize) -> usize {
    (BATCH_BYTES / bytes).clamp(1, BATCH_MAX)
}

fn fabric_of(limit: Limit) -> Fabric {
    match limit {
        Limit::TcpSpin | Limit::TcpFrugal | Limit::TcpBandwidth | Limit::TcpWrite => Fabric::Tcp,
        Limit::AeadTrip | Limit::AeadBandwidth | Limit::TcpConnect => Fabric::Tcp,
        Limit::UdpSpin | Limit::UdpFrugal | Limit::UdpBandwidth | Limit::UdpSend => Fabric::Udp,
        _ => Fabric::Shm,
    }
}

fn wait_of(limit: Limit) -> Wait {
    match limit {
        Limit::Eventfd
        | Limit::TcpFrugal
        | Limit::TcpBandwidth
        | Limit::TcpWrite
        | Limit::TcpConnect
        | Limit::UdpFrugal
        | Limit::UdpBandwidth
        | Limit::UdpSend => Wait::Frugal,
        _ => Wait::Spin,
    }
}

fn wait_name(wait: Wait) -> &'static str {
    match wait {
        Wait::Spin => "spin",
        Wait::Frugal => "frugal",
    }
}

fn unit_of(limit: Limit) -> Unit {
    match limit {
        Limit::ShmRing | Limit::TcpBandwidth | Limit::UdpBandwidth | Limit::AeadBandwidth => {
            Unit::Megabytes
        }
        Limit::LineRing | Limit::LineEcho | Limit::TcpWrite | Limit::UdpSend => Unit::Messages,
        _ => Unit::Nanos,
    }
}

const NAME: &str = "limits";
const SIZES: [usize; 4] = [4, 1 << 10, 64 << 10, 1 << 20];
const COLUMNS: &[Column] = &[
    Column::LIMIT,
    Column::WAIT,
    Column::SIZE,
    Column::P50,
    Column::P99,
    Column::MB_S,
    Column::MSG_S,
    Column::RUN_MS,
    Column::SPREAD,
];
const BATCH_BYTES: usize = 256 << 10;
const BATCH_MAX: usize = 1000;
