//! `egret bench pairs`: more processes than cores.

use std::rc::Rc;
use std::time::Duration;

use crate::limit::MachineLimit;
use anyhow::Result;
use egret::node::registry::Registry;
use egret::rt;

use crate::Suite;
use crate::args::{Common, between_processes};
use crate::machine;
use crate::measure::probe::{LIMIT, LIMIT_LEADER, LimitPlan};
use crate::measure::report::{Of, ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Further, Probe, Sample};
use crate::peer::{FollowerProcess, PeerStation};
use crate::rmi::calls::{CALLED, CALLER, Pooled};
use crate::side::Mode;
use crate::vi;
use crate::vi::duo::{Answers, DuoPlan, LEADER, MESSAGES, WaitMode};

/// Pairs of processes that play ping-pong on all cores at once.
///
/// Each pair sends a fixed number of 4-byte messages there and back, on whatever
/// core the kernel puts it. All at once are held against as many pairs of bare
/// processes, which yield their core or sleep, whatever is better; and against
/// one pair of egret alone, times their number, over the cores ("of 1 pair"): there
/// 1.00 would be as if no pair was in the way of another. These are times of whole runs,
/// so whatever else runs on the machine is in all of them.
///
/// With --calls each message there and back is a remote call of a plain method.
#[derive(Debug, clap::Args)]
pub(crate) struct PairsArgs {
    /// How many pairs
    #[arg(long, value_name = "N", default_value_t = PAIRS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pairs: u32,
    /// What carries the messages: shm, tcp or udp
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    /// How both sides wait for the other
    #[arg(long, default_value = "balanced")]
    wait: WaitMode,
    /// Remote calls of a method without attributes instead of messages
    #[arg(long)]
    calls: bool,
    /// Messages there and back of each pair [default: 10000, or 200 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rounds: Option<u64>,
    #[command(flatten)]
    pub(crate) common: Common,
}

pub(crate) fn suite(args: &PairsArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let (pairs, wait) = (args.pairs, args.wait);
    let fabric = between_processes(&args.fabric)?;
    let is_calls = args.calls;
    let rounds = args.rounds.unwrap_or(rounds(&args.common));
    machine::warn_of_others();
    let cases = std::iter::once_with(move || case(fabric, pairs, wait, is_calls, rounds));
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

/// Messages there and back of each pair, if it is not said.
pub(crate) const fn rounds(common: &Common) -> u64 {
    if common.quick { 200 } else { 10_000 }
}

fn case(
    fabric: &'static str,
    pairs: u32,
    wait: WaitMode,
    is_calls: bool,
    rounds: u64,
) -> Result<Case> {
    let start = |_| match is_calls {
        true => ConnectedPair::of_calls(fabric, wait),
        false => ConnectedPair::start(fabric, wait),
    };
    let all = (0..pairs).map(start).collect::<Result<Vec<_>>>()?;
    let all = Rc::new(all);
    let cores = machine::allowed()?;
    let bare = Box::new(Bare::start(pairs, &cores)?);
    let times = f64::from(pairs) / cores.len() as f64;
    let alone = Box::new(AlonePair { all: Rc::clone(&all), times });
    let further = vec![Further { of: Of::OnePair, probe: Some(alone) }];
    let line = ReportLine {
        bench: NAME,
        fabric: Some(fabric),
        mode: Some(if is_calls { "plain" } else { Mode::Posted.name() }),
        ring: vi::ring(fabric, false),
        wait: Some(wait.name()),
        trust: Some("isolated"),
        pairs: Some(pairs),
        cores: Some(cores.len()),
        rounds: Some(rounds),
        bytes: if is_calls { 0 } else { BYTES },
        limit: MachineLimit::SwitchYield.name(),
        ..ReportLine::default()
    };
    Ok(Case {
        line,
        unit: Unit::Run,
        subject: Box::new(Together(all)),
        against: Against::Limits(bare, further),
        rounds: Some(rounds),
    })
}

/// Two processes that are connected.
struct ConnectedPair {
    leader: PeerStation,
    follower: PeerStation,
    /// Where the nodes of both have met, if they are nodes.
    _registry: Option<Registry>,
}

impl ConnectedPair {
    fn start(fabric: &str, wait: WaitMode) -> Result<Self> {
        let plan = DuoPlan::new(fabric, BYTES, Answers::Each(BYTES));
        let mut plan = DuoPlan { wait, ..plan };
        let follower = Rc::new(FollowerProcess::start_anywhere()?).open(&MESSAGES, &plan, &[])?;
        plan.to.clone_from(&follower.host);
        let leader = Rc::new(FollowerProcess::start_anywhere()?).open(&LEADER, &plan, &[])?;
        Self { leader, follower, _registry: None }.warmed_up()
    }

    /// A node in each process; the leader calls an object of the follower.
    fn of_calls(fabric: &str, wait: WaitMode) -> Result<Self> {
        let (registry, pooled) = Pooled::new(fabric, wait, 2)?;
        let open = |task| Rc::new(FollowerProcess::start_anywhere()?).open(task, &pooled, &[]);
        let (follower, leader) = (open(&CALLED)?, open(&CALLER)?);
        Self { leader, follower, _registry: Some(registry) }.warmed_up()
    }

    fn warmed_up(self) -> Result<Self> {
        run(std::slice::from_ref(&self), WARM_UP)?;
        Ok(self)
    }
}

/// From the word to the first until the last is done.
fn run(pairs: &[ConnectedPair], rounds: u64) -> Result<Duration> {
    let start = rt::now();
    for pair in pairs {
        pair.follower.begin(rounds)?;
        pair.leader.begin(rounds)?;
    }
    for pair in pairs {
        pair.leader.end()?;
        pair.follower.end()?;
    }
    Ok(rt::now() - start)
}

struct Together(Rc<Vec<ConnectedPair>>);

impl Probe for Together {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        Ok(Sample::Total(run(&self.0, rounds)?))
    }
}

/// The first pair while the others sleep; its time is that of so many on so
/// many cores.
struct AlonePair {
    all: Rc<Vec<ConnectedPair>>,
    times: f64,
}

impl Probe for AlonePair {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        Ok(Sample::Total(run(&self.all[..1], rounds)?.mul_f64(self.times)))
    }
}

/// Pairs of processes that have nothing of egret in between: a cache line each way in
/// shared memory, and the kernel.
pub(crate) struct Bare {
    /// A waiting process lets others run.
    yielding: Vec<ConnectedPair>,
    /// A waiting process sleeps. These are the same processes.
    sleeping: Vec<ConnectedPair>,
}

impl Bare {
    /// Starts the processes, on any of these cores.
    pub(crate) fn start(pairs: u32, cores: &[usize]) -> Result<Self> {
        let (mut yielding, mut sleeping) = (Vec::new(), Vec::new());
        for _ in 0..pairs {
            let peer = || Ok::<_, anyhow::Error>(Rc::new(FollowerProcess::start_on(cores)?));
            let (leads, follows) = (peer()?, peer()?);
            yielding.push(pair(&leads, &follows, MachineLimit::SwitchYield)?);
            sleeping.push(pair(&leads, &follows, MachineLimit::SwitchFutex)?);
        }
        Ok(Self { yielding, sleeping })
    }
}

fn pair(
    leads: &Rc<FollowerProcess>,
    follows: &Rc<FollowerProcess>,
    limit: MachineLimit,
) -> Result<ConnectedPair> {
    let plan = LimitPlan { key: limit.to_string(), bytes: limit.fixed_bytes().unwrap_or(0) };
    let leader = leads.open(&LIMIT_LEADER, &plan, &[])?;
    let follower = follows.open(&LIMIT, &plan, &leader.fds)?;
    Ok(ConnectedPair { leader, follower, _registry: None })
}

impl Probe for Bare {
    /// Both ways; the better one counts.
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        let yielding = run(&self.yielding, rounds)?;
        Ok(Sample::Total(yielding.min(run(&self.sleeping, rounds)?)))
    }
}

const NAME: &str = "pairs";
/// How many there are, if it is not said.
pub(crate) const PAIRS: u32 = 8;
const BYTES: usize = 4;
const WARM_UP: u64 = 100;
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::PAIRS,
    ReportColumn::MODE,
    ReportColumn::WAIT,
    ReportColumn::ROUNDS,
    ReportColumn::RUN_MS,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_MS,
    ReportColumn::RATIO,
    ReportColumn::OF_ONE_PAIR,
    ReportColumn::SPREAD,
];
