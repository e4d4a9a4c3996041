//! `egret bench threads`: requests of several threads of one process.

use std::cell::RefCell;
use std::rc::Rc;

use anyhow::Result;
use clap::ValueEnum;

use super::team::RequestThreads;
use crate::Suite;
use crate::am::served::{REQUESTS, RequestMeasure, RequestTask};
use crate::args::{Common, between_processes};
use crate::machine::{self, BenchCores};
use crate::measure::probe::with_slot;
use crate::measure::report::{Of, ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Further, Probe, Sample};
use crate::peer::FollowerProcess;
use crate::side::Mode;
use crate::vi;
use crate::vi::duo::{Trusting, WaitMode, host};

/// Requests a second of several threads of one process
///
/// Each thread sends empty requests, one at a time, to a handler in another process, all of
/// them to the same one or each to one of its own. All together are held against one thread;
/// "of one" is their total over its: more is better. "second" is the time of a request of a
/// second thread while the first one waits for an answer that does not come, held against a
/// request of a thread that is alone, and over shm against shm-slot ("of slot"). All processes
/// that answer share a core; the threads have the others.
#[derive(Debug, clap::Args)]
pub(crate) struct ThreadsArgs {
    /// How many threads
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4",
          value_parser = clap::value_parser!(u32).range(1..=16))]
    threads: Vec<u32>,
    /// Where they send their requests
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "same,different")]
    peers: Vec<ThreadPeers>,
    /// What carries the messages: shm, tcp or udp
    #[arg(long, value_name = "NAME", default_value = "shm")]
    fabric: String,
    /// How to wait for the other side
    #[arg(long, default_value = "balanced")]
    wait: WaitMode,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ThreadPeers {
    /// One process
    Same,
    /// One process for each thread
    Different,
}

impl ThreadPeers {
    const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Different => "different",
        }
    }
}

/// A line to measure.
#[derive(Debug, Clone, Copy)]
enum ThreadsRow {
    /// Of so many threads.
    Requests(u32),
    Second,
}

pub(crate) fn suite(args: &ThreadsArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let (fabric, wait) = (between_processes(&args.fabric)?, args.wait);
    let rows: Vec<ThreadsRow> =
        args.threads.iter().map(|threads| ThreadsRow::Requests(*threads)).collect();
    let second = [(ThreadPeers::Same, ThreadsRow::Second)].into_iter();
    let all = args.peers.iter().flat_map(|&peers| rows.iter().map(move |&row| (peers, row)));
    let all: Vec<(ThreadPeers, ThreadsRow)> = all.chain(second).collect();
    let most = args.threads.iter().copied().chain([2]).max().unwrap_or(2);
    machine::open_many();
    let core = place()?;
    let bare = Rc::new(FollowerProcess::start_on(&core)?);
    // Over a nic that no other thread uses: what they leave behind is not in its time.
    let lone = shared(team(fabric, wait, &core, (ThreadPeers::Same, 1))?);
    let mut last: Option<(ThreadPeers, Rc<RefCell<RequestThreads>>)> = None;
    let cases = all.into_iter().map(move |(peers, row)| {
        let team = match last.take().filter(|(of, _)| *of == peers) {
            Some((_, team)) => team,
            None => shared(team(fabric, wait, &core, (peers, most))?),
        };
        last = Some((peers, Rc::clone(&team)));
        let line = ReportLine {
            bench: NAME,
            fabric: Some(fabric),
            mode: Some(Mode::Eager.name()),
            ring: vi::ring(fabric, true),
            wait: Some(wait.name()),
            trust: Some(Trusting::Isolated.name()),
            ..ReportLine::default()
        };
        case(line, &bare, (&team, &lone), peers, row)
    });
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

/// Leaves a core to those who answer, and keeps the threads of this process away from it:
/// which of them share a core would be chance otherwise, and most of the time.
fn place() -> Result<Vec<usize>> {
    let all = machine::allowed()?;
    let Some(cores) = BenchCores::choose()? else {
        machine::warn("one core for all processes; the figures mean little");
        return Ok(all);
    };
    let others: Vec<usize> = all.into_iter().filter(|core| *core != cores.follower).collect();
    machine::pin(&others)?;
    Ok(vec![cores.follower])
}

/// The threads of this process, and the processes that answer.
fn team(
    fabric: &str,
    wait: WaitMode,
    core: &[usize],
    (peers, threads): (ThreadPeers, u32),
) -> Result<RequestThreads> {
    let (what, words, bytes, copied, window) = (RequestMeasure::Requests, 0, 0, 0, 1);
    let task = |host| RequestTask {
        fabric: fabric.to_owned(),
        wait,
        what,
        words,
        bytes,
        copied,
        window,
        host,
    };
    let servers = if peers == ThreadPeers::Same { 1 } else { threads };
    let start =
        |_| Rc::new(FollowerProcess::start_on(core)?).open(&REQUESTS, &task(host("serves")), &[]);
    let stations = (0..servers).map(start).collect::<Result<Vec<_>>>()?;
    RequestThreads::new(&task(host("team")), stations, threads as usize)
}

fn shared(team: RequestThreads) -> Rc<RefCell<RequestThreads>> {
    Rc::new(RefCell::new(team))
}

fn case(
    line: ReportLine,
    bare: &Rc<FollowerProcess>,
    (team, lone): (&Rc<RefCell<RequestThreads>>, &Rc<RefCell<RequestThreads>>),
    peers: ThreadPeers,
    row: ThreadsRow,
) -> Result<Case> {
    let (team, lone) = (Rc::clone(team), Rc::clone(lone));
    match row {
        ThreadsRow::Requests(threads) => {
            let (op, threads_of_line) = (Some(peers.name()), Some(threads));
            let line = ReportLine { op, threads: threads_of_line, limit: "one-thread", ..line };
            let one = Box::new(Requests { team: lone, threads: 1 });
            let further = vec![Further { of: Of::One, probe: None }];
            let subject = Box::new(Requests { team, threads: threads as usize });
            let against = Against::Limits(one, further);
            Ok(Case { line, unit: Unit::Messages, subject, against, rounds: None })
        }
        ThreadsRow::Second => {
            let line = ReportLine { op: Some("second"), threads: Some(2), limit: ALONE, ..line };
            let alone = (ALONE, Box::new(Lone(lone)) as Box<dyn Probe>);
            let against = with_slot(bare, alone, line.fabric.unwrap_or_default(), 0)?;
            let subject = Box::new(SecondThread(team));
            Ok(Case { line, unit: Unit::Nanos, subject, against, rounds: None })
        }
    }
}

/// Requests of so many threads at once.
struct Requests {
    team: Rc<RefCell<RequestThreads>>,
    threads: usize,
}

impl Probe for Requests {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        Ok(Sample::Total(self.team.borrow_mut().send(rounds, self.threads)?))
    }
}

/// Requests of the second thread.
struct SecondThread(Rc<RefCell<RequestThreads>>);

impl Probe for SecondThread {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        Ok(Sample::Times(self.0.borrow_mut().second(rounds)?))
    }
}

/// Requests of a thread that is alone.
struct Lone(Rc<RefCell<RequestThreads>>);

impl Probe for Lone {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        Ok(Sample::Times(self.0.borrow_mut().first(rounds)?))
    }
}

const NAME: &str = "threads";
const ALONE: &str = "alone";
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::OP,
    ReportColumn::THREADS,
    ReportColumn::WAIT,
    ReportColumn::MSG_S,
    ReportColumn::P50,
    ReportColumn::P99,
    ReportColumn::LIMIT,
    ReportColumn::LIMIT_MSG_S,
    ReportColumn::LIMIT_NS,
    ReportColumn::RATIO,
    ReportColumn::OF_ONE,
    ReportColumn::OF_SLOT,
    ReportColumn::SPREAD,
];
