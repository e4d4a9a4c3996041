//! `egret bench start`: how soon a job of real processes is up, and what it costs while it does nothing.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::parent_id;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use egret::node::{Config, Node};
use egret::rt::{machine_now, sleep};
use rustix::param::clock_ticks_per_second;

use crate::Suite;
use crate::args::{Common, Usage};
use crate::measure::report::{ReportColumn, ReportLine, Unit};
use crate::measure::{Against, Case, Probe, Sample};

/// How soon a job of real processes is up, and what it costs while it does nothing.
///
/// `up` is the time from the start of `egret run -n N` until the last of its processes has joined and sees all others,
/// held against 0.1 s for each process, and 3 s at least. `done` is the same until all have left and the command has
/// ended. `idle` is the part of one core that the process of the registry uses while the processes of a job do nothing for
/// --idle seconds, held against 2 %.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// Processes of a job
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [16, 200])]
    nodes: Vec<u32>,
    /// How long the processes do nothing [default: 10, or 1 with --quick]
    #[arg(long, value_name = "S")]
    idle: Option<u64>,
    /// On these machines, as `egret run --host` has them; without `idle`, for the registry is not where rank 0 is
    #[arg(long, value_name = "LIST")]
    host: Option<String>,
    /// What reaches them, as `egret run --remote` has it
    #[arg(long, value_name = "COMMAND", requires = "host")]
    remote: Option<String>,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// What a process of such a job does once it sees all others: a number of seconds of nothing.
#[derive(Debug, clap::Args)]
pub struct BenchNodeArgs {
    #[arg(long, default_value_t = 0)]
    idle: u64,
}

pub(crate) fn suite(args: &StartArgs) -> Result<Suite> {
    args.common.no_sizes(NAME)?;
    let mut nodes = args.nodes.clone();
    if let Some(wrong) = nodes.iter().find(|nodes| !(1..=NODES_MAX).contains(*nodes)) {
        let most = NODES_MAX;
        return Err(Usage(format!("{NAME} is for 1 to {most} processes, not {wrong}")).into());
    }
    if args.common.quick {
        nodes.retain(|nodes| *nodes <= QUICK_NODES);
    }
    let idle = args.idle.unwrap_or(if args.common.quick { 1 } else { 10 });
    let mut plan: Vec<_> = nodes.into_iter().flat_map(|nodes| OPS.map(|op| (op, nodes))).collect();
    plan.retain(|(op, _)| *op != StartOp::Idle || args.host.is_none());
    let option = |name: &str, value: &Option<String>| {
        value.as_ref().map(|value| format!("--{name}={value}"))
    };
    let where_to = [option("host", &args.host), option("remote", &args.remote)];
    let where_to: Vec<_> = where_to.into_iter().flatten().collect();
    let cases = plan.into_iter().map(move |(op, nodes)| Ok(case(op, nodes, idle, &where_to)));
    Ok(Suite { name: NAME, columns: COLUMNS, cases: Box::new(cases) })
}

/// What of a job is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartOp {
    Up,
    Done,
    Idle,
}

fn case(op: StartOp, nodes: u32, idle: u64, where_to: &[String]) -> Case {
    let (name, unit, allowed) = match op {
        StartOp::Up => ("up", Unit::Run, allowed_ns(nodes)),
        StartOp::Done => ("done", Unit::Run, allowed_ns(nodes)),
        StartOp::Idle => ("idle", Unit::Cpu, IDLE_CPU),
    };
    let line = ReportLine {
        bench: NAME,
        op: Some(name),
        peers: Some(nodes),
        limit: "allowed",
        ..ReportLine::default()
    };
    let idle = if op == StartOp::Idle { idle } else { 0 };
    let subject = Box::new(JobStart { op, nodes, idle, where_to: where_to.to_vec() });
    Case { line, unit, subject, against: Against::Allowance(allowed), rounds: Some(1) }
}

fn allowed_ns(nodes: u32) -> f64 {
    (f64::from(nodes) * EACH_NS).max(LEAST_NS)
}

/// A job that is started for each run.
struct JobStart {
    op: StartOp,
    nodes: u32,
    idle: u64,
    /// Options that say on which machines.
    where_to: Vec<String>,
}

impl Probe for JobStart {
    fn run(&mut self, _: u64) -> Result<Sample> {
        let began = machine_now();
        let mut job = RunningJob::start(self)?;
        job.wait_up(self.nodes)?;
        let up = machine_now();
        let used = if self.idle > 0 { job.wait_used()? } else { 0.0 };
        job.wait_done()?;
        Ok(match self.op {
            StartOp::Up => Sample::Total(up - began),
            StartOp::Done => Sample::Total(machine_now() - began),
            StartOp::Idle => Sample::Value(used),
        })
    }
}

/// `egret run`, which ends with this value.
struct RunningJob {
    command: Child,
    lines: BufReader<ChildStdout>,
    /// The part of a core that the registry used, once rank 0 has said it.
    used: Option<f64>,
}

impl RunningJob {
    fn start(job: &JobStart) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(&program);
        command.args(["run", "-n", &job.nodes.to_string()]).args(&job.where_to);
        command.arg("--").arg(&program).args(["bench-node", &format!("--idle={}", job.idle)]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut command = command.spawn().context("starting `egret run`")?;
        let lines = BufReader::new(command.stdout.take().context("its output is a pipe")?);
        Ok(Self { command, lines, used: None })
    }

    /// Reads the next line of the job; whether a process said in it that it sees all.
    fn read_line(&mut self) -> Result<bool> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            bail!("`egret run` ended before its processes said all: {}", self.command.wait()?);
        }
        let line = line.trim_end();
        if line == SEES_ALL {
            return Ok(true);
        }
        let used = line.strip_prefix(USED).and_then(|used| used.parse().ok());
        self.used = Some(used.with_context(|| format!("a process of the job said {line:?}"))?);
        Ok(false)
    }

    fn wait_up(&mut self, nodes: u32) -> Result<()> {
        let mut seeing = 0;
        while seeing < nodes {
            seeing += u32::from(self.read_line()?);
        }
        Ok(())
    }

    fn wait_used(&mut self) -> Result<f64> {
        loop {
            match self.used {
                Some(used) => return Ok(used),
                None => drop(self.read_line()?),
            }
        }
    }

    fn wait_done(&mut self) -> Result<()> {
        let status = self.command.wait()?;
        if !status.success() {
            bail!("`egret run` ended: {status}");
        }
        Ok(())
    }
}

impl Drop for RunningJob {
    fn drop(&mut self) {
        // The job ends with its command.
        let _ = self.command.kill();
        let _ = self.command.wait();
    }
}

/// Is one process of such a job.
///
/// # Errors
///
/// If it is part of no job, or cannot join.
pub fn be_node(args: &BenchNodeArgs) -> Result<()> {
    let node = Node::join(Config::from_env()?)?;
    node.wait_all(PATIENCE)?;
    say(SEES_ALL)?;
    if args.idle > 0 {
        do_nothing(node.rank(), Duration::from_secs(args.idle))?;
    }
    Ok(node.leave(PATIENCE)?)
}

/// Rank 0 looks meanwhile what the registry uses, and the others do nothing for longer than that.
fn do_nothing(rank: u32, idle: Duration) -> Result<()> {
    if rank > 0 {
        sleep(SETTLED + idle + SETTLED);
        return Ok(());
    }
    sleep(SETTLED);
    // The process that has started this one has the registry.
    let (process, began) = (parent_id(), machine_now());
    let before = cpu_seconds(process)?;
    sleep(idle);
    let used = cpu_seconds(process)? - before;
    say(&format!("{USED}{}", used / (machine_now() - began).as_secs_f64()))
}

fn say(what: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{what}")?;
    Ok(out.flush()?)
}

/// What a process has used of the cores so far.
fn cpu_seconds(process: u32) -> Result<f64> {
    let path = format!("/proc/{process}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name of the process, in brackets, may have anything in it; user and system time are the 12th and the 13th
    // field after it.
    let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    let ticks: Vec<u64> = fields.skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    match ticks[..] {
        [user, system] => Ok((user + system) as f64 / clock_ticks_per_second() as f64),
        _ => bail!("{path} does not say what the process has used"),
    }
}

const NAME: &str = "start";
const OPS: [StartOp; 3] = [StartOp::Up, StartOp::Done, StartOp::Idle];
const SEES_ALL: &str = "sees all";
const USED: &str = "the registry used ";
const NODES_MAX: u32 = 1000;
const QUICK_NODES: u32 = 16;
/// How long a job may take until it is up, for each process and at least.
const EACH_NS: f64 = 1e8;
const LEAST_NS: f64 = 3e9;
/// What a registry may use of a core while nothing happens.
const IDLE_CPU: f64 = 0.02;
/// All processes of a job have said that they see all within this time of each other.
const SETTLED: Duration = Duration::from_secs(1);
/// For all processes of a job on few cores.
const PATIENCE: Duration = Duration::from_secs(120);
const COLUMNS: &[ReportColumn] = &[
    ReportColumn::OP,
    ReportColumn::PEERS,
    ReportColumn::RUN_MS,
    ReportColumn::LIMIT_MS,
    ReportColumn::CPU,
    ReportColumn::LIMIT,
    ReportColumn::RATIO,
    ReportColumn::SPREAD,
];
